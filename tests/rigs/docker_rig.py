"""The null GPU rig in containers of a real Docker Engine."""

from __future__ import annotations

import os
import stat
import subprocess
from dataclasses import dataclass
from pathlib import Path

from rig import NullGpu

IMAGE = "tracecorr-nullgpu"
# The host may have another `docker` in front of the one of the engine.
CLIENT = "/usr/bin/docker"


@dataclass(frozen=True)
class DockerRig:
    """An engine and where it listens."""

    nullgpu: NullGpu
    host: str
    work: Path

    @property
    def environment(self) -> dict[str, str]:
        """Return the variables that lead a client to this engine."""
        return {"DOCKER_HOST": self.host, "PATH": f"/usr/bin:/usr/sbin:{os.environ['PATH']}"}

    def call(self, *words: str, check: bool = True) -> str:
        """Return what the client prints."""
        done = subprocess.run(
            [CLIENT, *words], env={**os.environ, **self.environment}, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0 or not check, done.stderr
        return done.stdout.strip()

    def answers(self) -> bool:
        """Tell whether the engine listens."""
        return bool(self.call("version", "--format", "{{.Server.Version}}", check=False))

    def options(self, truth: Path) -> list[str]:
        """Return the options of `docker run` that put the model into a container."""
        topology = self.nullgpu.cache / "topo-gfx942-1"
        device = self.work / "kfd"
        if not device.exists():
            os.mknod(device, 0o666 | stat.S_IFCHR, os.makedev(1, 3))
            device.chmod(0o666)
        return [
            f"--device={device}:/dev/kfd", f"--volume={truth}:/truth", f"--volume={self.nullgpu.cache}/lib:/ng/lib:ro",
            f"--volume={topology}:/ng/topo:ro", f"--volume={self.nullgpu.folder}:/rig:ro", "--shm-size=2g",
            "--env=HSA_MODEL_LIB=/ng/lib/libnullgpu.so", "--env=HSA_MODEL_TOPOLOGY=/ng/topo",
            "--env=NULLGPU_TRUTH=/truth/truth.csv", "--env=HSA_MODEL_MEMFILE=/dev/shm/nullgpu",
            "--env=NULLGPU_KERNEL_NS=30000",
        ]  # fmt: skip

    def start(self, name: str, truth: Path, *command: str) -> None:
        """Start a container in the background."""
        self.call("run", "--detach", "--name", name, *self.options(truth), IMAGE, *command)

    def remove_all(self) -> None:
        """Remove all containers of this engine."""
        for container in self.call("ps", "--all", "--quiet", check=False).split():
            self.call("rm", "--force", container, check=False)


def make_image(rig: DockerRig) -> None:
    """Make the image of the rig's root; its bash is the container's sh."""
    root, topology = rig.nullgpu.cache / "root", rig.nullgpu.cache / "topo-gfx942-1"
    if not topology.is_dir():
        subprocess.run(["python3", rig.nullgpu.folder / "mktopo.py", topology, "1", "gfx942"], check=True)
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
