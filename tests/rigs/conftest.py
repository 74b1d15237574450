"""What the tests with rigs need: root, tracefs, the null GPU rig, a Docker Engine of their own."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

import pytest
from container_rig import CLIENT, ENGINES, IMAGE, ContainerRig, make_image, podman_settings, sudo_variables
from rig import REPO, NullGpu

from tracecorr.capture.workload.invoker import Invoker


def _missing(reason: str) -> NoReturn:
    """Skip, or fail where nothing may be skipped; a rig that could not be built is no failure of the project."""
    if os.environ.get("CI") == "true" and os.environ.get("TRACECORR_RIG_NOT_BUILT") != "1":
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def rigs_folder() -> Path:
    """Return the folder of the rigs."""
    named = os.environ.get("TRACECORR_RIGS")
    if not named:
        _missing("no test rigs: set TRACECORR_RIGS to their folder")
    folder = (REPO / named).resolve()
    if not folder.is_dir():
        _missing(f"there is no folder {folder} (TRACECORR_RIGS)")
    return folder


@pytest.fixture(scope="session")
def nullgpu(rigs_folder: Path) -> NullGpu:
    """Return the null GPU rig, built before by its build.sh into NULLGPU_CACHE."""
    if os.geteuid() != 0:
        _missing("a capture needs root")
    if not Path("/sys/kernel/tracing/instances").is_dir():
        _missing("tracefs is not mounted")
    folder = rigs_folder / "nullgpu"
    cache = Path(os.environ.get("NULLGPU_CACHE") or folder / "cache")
    if not (cache / "root/usr/bin/env").exists():
        _missing(f"the null GPU rig is not built: NULLGPU_CACHE={cache} {folder}/build.sh")
    return NullGpu(folder, cache)


@pytest.fixture(scope="session")
def older_hip(nullgpu: NullGpu, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the library of HIP 6.4, from the archive of which the rig was made; it runs with the rig's ROCr."""
    work = tmp_path_factory.mktemp("hip")
    (work / "lists" / "partial").mkdir(parents=True)
    settings = {
        "Dir::Etc::SourceList": nullgpu.cache / "list", "Dir::Etc::SourceParts": "/dev/null", "Dir::Cache": work,
        "Dir::State::Lists": work / "lists", "APT::Sandbox::User": "root", "Acquire::Check-Valid-Until": "false",
        "Acquire::Languages": "none", "Acquire::Retries": "2",
    }  # fmt: skip
    apt = ["apt-get", "-qq", *(f"-o{name}={value}" for name, value in settings.items())]
    try:
        for command in ([*apt, "update"], [*apt, "download", "libamdhip64-6"]):
            subprocess.run(command, cwd=work, check=True, capture_output=True, text=True, timeout=300)
        (package,) = work.glob("libamdhip64-6_*.deb")
        subprocess.run(["dpkg", "-x", package, work / "root"], check=True)
        return next(path for path in work.glob("root/usr/lib/*/libamdhip64.so.6*") if not path.is_symlink())
    except (OSError, ValueError, subprocess.SubprocessError, StopIteration) as error:
        # Its distribution moves on, and may not have that release any more.
        why = getattr(error, "stderr", None) or error
        pytest.skip(f"the archive gives no libamdhip64-6: {why}")


@pytest.fixture(scope="session")
def docker(nullgpu: NullGpu, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ContainerRig]:
    """Return a Docker Engine of this test run with an image of the rig's root."""
    daemon = shutil.which("dockerd", path="/usr/sbin:/usr/bin")
    if daemon is None:
        _missing("there is no Docker Engine: apt-get install docker.io")
    work = Path(os.path.realpath("/tmp")) / f"tracecorr-docker-{os.getpid()}"
    work.mkdir()
    log = (work / "log").open("w")
    engine = subprocess.Popen(
        [daemon, "--iptables=false", "--ip6tables=false", "--bridge=none",
         f"--data-root={work}/data", f"--exec-root={work}/exec", f"--pidfile={work}/pid", f"--host=unix://{work}/sock"],
        stdout=log, stderr=log,
    )  # fmt: skip
    # The host may have another `docker` in front of the one of the engine.
    settings = {"DOCKER_HOST": f"unix://{work}/sock", "PATH": f"/usr/bin:/usr/sbin:{os.environ['PATH']}"}
    rig = ContainerRig(nullgpu, CLIENT, settings, tmp_path_factory.mktemp("docker"))
    try:
        for _ in range(1800):
            if engine.poll() is not None or rig.answers():
                break
            time.sleep(0.1)
        if not rig.answers():
            _missing(f"the Docker Engine does not start: {(work / 'log').read_text()[-500:]}")
        make_image(rig)
        yield rig
    finally:
        rig.remove_all()
        engine.terminate()
        engine.wait(timeout=60)
        log.close()
        shutil.rmtree(work, ignore_errors=True)


@pytest.fixture(scope="session")
def podman(nullgpu: NullGpu) -> Iterator[ContainerRig]:
    """Return podman as root with an image of the rig's root."""
    yield from _make_podman(nullgpu, None)


@pytest.fixture(scope="session")
def rootless_podman(nullgpu: NullGpu) -> Iterator[ContainerRig]:
    """Return podman as a user without root, called through sudo."""
    nobody = pwd.getpwnam("nobody")
    yield from _make_podman(nullgpu, Invoker(nobody.pw_uid, nobody.pw_gid, (), "nobody", {}))


def _make_podman(nullgpu: NullGpu, user: Invoker | None) -> Iterator[ContainerRig]:
    client = shutil.which("podman", path="/usr/bin:/usr/local/bin")
    if client is None:
        pytest.skip("there is no podman: apt-get install podman runc")
    # pytest's own folders are closed to other users.
    work = Path(tempfile.mkdtemp(prefix="tracecorr-podman-"))
    rig = ContainerRig(
        nullgpu, client, podman_settings(work, rootless=user is not None), work, user, f"localhost/{IMAGE}"
    )
    if user is not None:
        os.chown(work, user.uid, user.gid)
        rig = replace(rig, environment={**rig.environment, **sudo_variables(user)})
    work.chmod(0o755)
    try:
        try:
            make_image(rig)
            rig.call("run", "--rm", rig.image, "true")
        except AssertionError as error:
            pytest.skip(f"podman runs no container here: {str(error)[-300:]}")
        yield rig
    finally:
        rig.remove_all()
        rig.call("unshare", "rm", "-rf", str(work / "data"), check=False)
        if user is not None:
            rig.call("system", "migrate", check=False)  # ends the process that keeps the user's namespaces
        # podman's overlay driver leaves its own folder mounted.
        subprocess.run(["umount", "--lazy", work / "data/overlay"], check=False, capture_output=True)
        shutil.rmtree(work, ignore_errors=True)


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> Iterator[ContainerRig]:
    """Return each container engine in turn."""
    rig = request.getfixturevalue(request.param)
    yield rig
    rig.remove_all()


@pytest.fixture
def place(engine: ContainerRig) -> Path:
    """Return a new folder for a capture that the engine's containers can reach."""
    made = Path(tempfile.mkdtemp(dir=engine.work))
    made.chmod(0o777)
    return made
