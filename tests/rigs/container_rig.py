"""The null GPU rig in containers of a real Docker Engine, and of podman."""

from __future__ import annotations

import os
import pwd
import shutil
import stat
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
from rig import NullGpu

from tracecorr.capture.workload.invoker import Invoker

IMAGE = "tracecorr-nullgpu"
ENGINES = [
    pytest.param("docker", marks=pytest.mark.docker),
    pytest.param("podman", marks=pytest.mark.podman),
    pytest.param("rootless_podman", marks=pytest.mark.podman),
]
# For what does not depend on who asks podman.
two_engines = pytest.mark.parametrize("engine", [ENGINES[0], ENGINES[2]], indirect=True)
# The host may have another `docker` in front of the one of the engine.
CLIENT = "/usr/bin/docker"


@dataclass(frozen=True)
class ContainerRig:
    """An engine: its client, and the variables that lead the client to it.

    `user` is who calls it, for podman without root; `work` is a folder of that user.
    """

    nullgpu: NullGpu
    client: str
    environment: dict[str, str]
    work: Path
    user: Invoker | None = None
    image: str = IMAGE

    def call(self, *words: str, check: bool = True) -> str:
        """Return what the client prints."""
        done = subprocess.run(
            [self.client, *words], env={**os.environ, **self.environment}, capture_output=True, text=True, check=False,
            preexec_fn=self.user.become if self.user else None, cwd="/",
        )  # fmt: skip
        assert done.returncode == 0 or not check, done.stderr
        return done.stdout.strip()

    def answers(self) -> bool:
        """Tell whether the engine listens."""
        return bool(self.call("version", "--format", "{{.Server.Version}}", check=False))

    def options(self, truth: Path) -> list[str]:
        """Return the options of `docker run` that put the model into a container."""
        device = self.work / "kfd"
        if not device.exists():
            os.mknod(device, 0o666 | stat.S_IFCHR, os.makedev(1, 3))
            device.chmod(0o666)
        return [
            f"--device={device}:/dev/kfd", f"--volume={truth}:/truth", f"--volume={self.work}/ng:/ng:ro",
            f"--volume={self.work}/rig:/rig:ro", "--shm-size=2g",
            "--env=HSA_MODEL_LIB=/ng/lib/libnullgpu.so", "--env=HSA_MODEL_TOPOLOGY=/ng/topo",
            "--env=NULLGPU_TRUTH=/truth/truth.csv", "--env=HSA_MODEL_MEMFILE=/dev/shm/nullgpu",
            "--env=NULLGPU_KERNEL_NS=30000",
        ]  # fmt: skip

    def start(self, name: str, truth: Path, *command: str) -> None:
        """Start a container in the background."""
        self.call("run", "--detach", "--name", name, *self.options(truth), self.image, *command)

    def has_removed_all(self) -> bool:
        """Wait until this engine has no container; it removes them (`--rm`) after its client has ended."""
        for _ in range(1800):
            if not self.call("ps", "--all", "--quiet"):
                return True
            time.sleep(0.1)
        return False

    def remove_all(self) -> None:
        """Remove all containers of this engine."""
        for container in self.call("ps", "--all", "--quiet", check=False).split():
            self.call("kill", container, check=False)
            self.call("rm", "--force", container, check=False)


def make_image(rig: ContainerRig) -> None:
    """Make the image of the rig's root, with bash as its sh, and copies of what its containers need."""
    root, topology = rig.nullgpu.cache / "root", rig.nullgpu.cache / "topo-gfx942-1"
    if not topology.is_dir():
        subprocess.run(["python3", rig.nullgpu.folder / "mktopo.py", topology, "1", "gfx942"], check=True)
    # A user without root may not reach the rig where it lies.
    shutil.copytree(rig.nullgpu.cache / "lib", rig.work / "ng/lib")
    shutil.copytree(topology, rig.work / "ng/topo", symlinks=True)
    shutil.copytree(rig.nullgpu.folder, rig.work / "rig", ignore=shutil.ignore_patterns("cache"))
    shell = rig.work / "sh/usr/bin"
    shell.mkdir(parents=True)
    (shell / "sh").symlink_to("bash")
    archive = rig.work / "image.tar"
    outside = [f"--exclude=./{name}" for name in ("proc", "sys", "dev", "tmp")]
    subprocess.run(["tar", "-C", root, *outside, "-cf", archive, "."], check=True)
    (rig.work / "sh/tmp").mkdir(mode=0o1777)
    (rig.work / "sh/tmp").chmod(0o1777)
    subprocess.run(["tar", "-C", rig.work / "sh", "-rf", archive, "./usr/bin/sh", "./tmp"], check=True)
    rig.call("import", "--change", "ENV PATH=/usr/bin:/bin", str(archive), IMAGE)
    archive.unlink()


def podman_settings(work: Path, *, rootless: bool) -> dict[str, str]:
    """Return the variables of a podman whose images and containers lie in `work`, on a machine of containers.

    Such a machine has no systemd, limits that root cannot raise, and version 1 of cgroups, which crun may refuse.
    """
    (work / "containers.conf").write_text(
        '[containers]\nnetns = "none"\ndefault_ulimits = ["nofile=1024:4096", "nproc=1024:4096"]\n'
        '[engine]\ncgroup_manager = "cgroupfs"\nevents_logger = "file"\nruntime = "runc"\n'
    )
    # A user without numbers of its own for the other users of an image.
    ignore = '[storage.options.overlay]\nignore_chown_errors = "true"\n' if rootless else ""
    (work / "storage.conf").write_text(
        f'[storage]\ndriver = "overlay"\nrunroot = "{work}/run"\ngraphroot = "{work}/data"\n{ignore}'
    )
    folders = {f"XDG_{kind}": str(work) for kind in ("RUNTIME_DIR", "CONFIG_HOME", "DATA_HOME")} if rootless else {}
    settings = {"CONTAINERS_CONF": str(work / "containers.conf"), "CONTAINERS_STORAGE_CONF": str(work / "storage.conf")}
    return {**settings, **folders}


def sudo_variables(user: Invoker) -> dict[str, str]:
    """Return what sudo gives to a command that `user` runs as root with its own home (`sudo -E`)."""
    home = pwd.getpwuid(user.uid).pw_dir
    return {"SUDO_UID": str(user.uid), "SUDO_GID": str(user.gid), "SUDO_USER": user.name, "HOME": home}
