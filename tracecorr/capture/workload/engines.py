"""Container engines: which one has a container or an image, and the commands to run the workload in it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tracecorr.capture.workload.host import resolve_command
from tracecorr.capture.workload.invoker import Invoker, find_invoker
from tracecorr.model.errors import CommandError, InputError, MachineError

ENGINES = ("docker", "podman")


def available_engines() -> tuple[str, ...]:
    """Return the container engines whose command is here."""
    return tuple(name for name in ENGINES if shutil.which(name))


LOG_MOUNT = "/tracecorr"
MARK = "TRACECORR_GATE"
_GATE_NAME = "tracecorr-gate"
# The host's number of a process in a container is known only after its exec; so the first exec is a
# shell that waits. In a running container it stops itself; as the first process of a new one that
# would be ignored, so it waits for a pipe. One that comes after tracecorr has given up does not stop: nobody
# would let it go on.
#
# Before it waits it looks whether its command can run: one that cannot ends as on the host, with nothing recorded.
# No engine ends with these statuses.
COMMAND_NOT_FOUND, COMMAND_NOT_RUNNABLE = 121, 122
_CHECK = f"""case "$1" in
*/*) [ -e "$1" ] || exit {COMMAND_NOT_FOUND}; [ -f "$1" ] && [ -x "$1" ] || exit {COMMAND_NOT_RUNNABLE};;
*) command -v "$1" >/dev/null || exit {COMMAND_NOT_FOUND};;
esac
"""
_STOP_GATE = f"""{_CHECK}now=$(date +%s 2>/dev/null)
[ "${{now:-0}}" -lt "$TRACECORR_UNTIL" ] || {{ echo "tracecorr: too late, nothing was run" >&2; exit 125; }}
for logs in $TRACECORR_LOGS none; do mkdir -m 700 "$logs" 2>/dev/null && break; done
[ "$logs" != none ] || {{ echo "tracecorr: cannot make one of: $TRACECORR_LOGS" >&2; exit 125; }}
case "$AMD_LOG_LEVEL_FILE" in */tracecorr-*) export AMD_LOG_LEVEL_FILE="$logs/hip";; esac
kill -STOP $$ || exit 125
exec "$@"
"""
# The pipe ends without a line when tracecorr does: the workload must not run then.
_PIPE_GATE = f'{_CHECK}read go < {LOG_MOUNT}/gate || exit 125; exec "$@"'
_DEVICES = ("/dev/kfd", "/dev/dri")
_WAIT_SECONDS = 60
_SELINUX = Path("/sys/fs/selinux/enforce")
# A container without a writable /tmp has at least shared memory.
_LOG_PLACES = ("/tmp", "/var/tmp", "/dev/shm")


@dataclass(frozen=True)
class Engine:
    """A container engine as one user sees it: rootless containers are known to their owner alone."""

    path: str
    user: Invoker

    @property
    def name(self) -> str:
        """Return `docker` or `podman`."""
        return Path(self.path).name

    def inspect(self, kind: str, name: str) -> dict[str, Any] | None:
        """Return what the engine knows of a container or an image; None if there is none of that name."""
        try:
            done = self.run("inspect", "--type", kind, name, timeout=_WAIT_SECONDS)
            found = json.loads(done.stdout) if done.returncode == 0 else []
        except (OSError, ValueError, subprocess.SubprocessError):
            return None
        return found[0] if found and isinstance(found[0], dict) else None

    def run(self, *words: str, timeout: float | None = None) -> subprocess.CompletedProcess[bytes]:
        """Run the engine's client as the user who knows its containers, and return what it printed.

        Raises:
            OSError, subprocess.SubprocessError: it cannot run, or does not end in time.
        """
        return subprocess.run(
            [self.path, *words], capture_output=True, stdin=subprocess.DEVNULL, check=False, timeout=timeout,
            env=dict(self.user.environment), preexec_fn=self._change_user(),
        )  # fmt: skip

    def _change_user(self) -> Callable[[], None] | None:
        return self.user.become if self.user.uid != os.geteuid() else None


def find_engine(kind: str, name: str, root: Invoker, invoker: Invoker) -> tuple[Engine, dict[str, Any]]:
    """Return the engine that has the container or image `name`, and what it knows of it.

    Raises:
        InputError: no engine has it.
        MachineError: no engine is installed.
    """
    engines = list(_installed(root, invoker))
    if not engines:
        raise MachineError("neither docker nor podman is installed", "install one, or capture on the host")
    for engine in engines:
        found = engine.inspect(kind, name)
        if found is not None:
            return engine, found
    tried = ", ".join(f"{engine.name} as {engine.user.name}" for engine in engines)
    remedy = "docker ps; podman ps" if kind == "container" else f"docker pull {name}"
    raise InputError(f"there is no {kind} {name} (asked {tried})", remedy)


def container_pid(name: str, environment: Mapping[str, str]) -> int:
    """Return the host's number of the first process of a running container.

    Args:
        name: name or id of the container.
        environment: that of this process; its caller's rootless containers are found, too.

    Raises:
        InputError: no engine has the container, or it does not run.
        MachineError: no engine is installed.
    """
    root, invoker = find_invoker(environment, as_root=True), find_invoker(environment)
    engine, facts = find_engine("container", name, root, invoker)
    pid = (facts.get("State") or {}).get("Pid")
    if not isinstance(pid, int) or pid <= 0:
        raise InputError(f"the container {name} does not run", f"{engine.name} start {name}")
    return pid


def _installed(root: Invoker, invoker: Invoker) -> Iterable[Engine]:
    # The caller's settings (DOCKER_HOST, a context) name the engine that the caller means.
    settings = {k: v for k, v in invoker.environment.items() if k.startswith(("DOCKER_", "CONTAINER", "XDG_"))}
    as_root = Invoker(root.uid, root.gid, root.groups, root.name, {**root.environment, **settings})
    users = [as_root] if invoker.uid == root.uid else [as_root, invoker]
    for name in ENGINES:
        for user in users if name == "docker" else reversed(users):
            try:
                yield Engine(resolve_command(name, user.environment), user)
            except CommandError:
                continue


def exec_command(
    engine: Engine, container: str, command: Sequence[str], variables: Mapping[str, str], token: str, until: float,
    *, tty: bool,
) -> list[str]:  # fmt: skip
    """Return the command that runs the workload in a running container, behind a gate.

    Args:
        engine: the engine that has it.
        container: its name.
        command: the workload.
        variables: environment to add.
        token: value of the mark by which the gate is found.
        until: when the gate must not stop any more, as seconds since the epoch.
        tty: whether the workload gets a terminal.
    """
    gate = {"TRACECORR_LOGS": " ".join(exec_log_folders(token)), "TRACECORR_UNTIL": f"{until:.0f}", MARK: token}
    options = [*_terminal(tty=tty), *_environment({**variables, **gate})]
    return [engine.path, "exec", *options, container, "sh", "-c", _STOP_GATE, _GATE_NAME, *command]


def exec_log_folders(token: str) -> tuple[str, ...]:
    """Return the folders of the logs inside a running container; the gate makes the first that it can."""
    return tuple(f"{place}/tracecorr-{token}" for place in _LOG_PLACES)


def run_command(
    engine: Engine, image: str, facts: Mapping[str, Any], command: Sequence[str], variables: Mapping[str, str],
    token: str, logs: Path, more: Sequence[str], *, tty: bool,
) -> list[str]:  # fmt: skip
    """Return the command that runs the workload in a new container with the GPU devices, behind a gate.

    Args:
        engine: the engine that has the image.
        image: its name.
        facts: what `inspect` says of it.
        command: the workload; empty for the image's own.
        variables: environment to add.
        token: value of the mark by which the gate is found.
        logs: the host's folder of the logs, mounted at `LOG_MOUNT`.
        more: further options of the user's for `run`.
        tty: whether the workload gets a terminal.

    Raises:
        CommandError: neither `command` nor the image names one.
    """
    settings = facts.get("Config") or {}
    inner = [*(settings.get("Entrypoint") or []), *(command or settings.get("Cmd") or [])]
    if not inner:
        raise CommandError(f"image {image} names no command", "add one: ... --image IMAGE -- COMMAND", 127)
    devices = [device for device in _DEVICES if Path(device).exists()]
    options = ["--rm", "--sig-proxy=false", *_terminal(tty=tty), *_environment({**variables, MARK: token})]
    options += ["--volume", f"{logs}:{LOG_MOUNT}"]
    options += [f"--device={device}" for device in devices]
    options += _device_access(engine, more)
    return [engine.path, "run", *options, *more, "--entrypoint", "sh", image, "-c", _PIPE_GATE, _GATE_NAME, *inner]


def is_gate_command(arguments: bytes) -> bool:
    """Tell whether the arguments of a process (`/proc/PID/cmdline`) are those of a gate that has not opened yet.

    The workload inherits the gate's environment and may be a `sh -c` of its own.
    """
    words = arguments.split(b"\0")
    return words[:2] == [b"sh", b"-c"] and words[3:4] == [_GATE_NAME.encode()]


def _device_access(engine: Engine, more: Sequence[str]) -> list[str]:
    """Return the options that let the container's user open the devices and write its log."""
    options = []
    if engine.name == "docker" or engine.user.uid == 0:
        options += [f"--group-add={group}" for group in _device_groups()]
        options.append("--security-opt=seccomp=unconfined")
    elif _device_groups() and not any(option.startswith("--group-add") for option in more):
        # In the user namespace of a rootless container the groups of the host have no number.
        options.append("--group-add=keep-groups")
    if _SELINUX.exists():
        # The folder of the logs has no label that a container may write to.
        options.append("--security-opt=label=disable")
    return options


def _terminal(*, tty: bool) -> list[str]:
    return ["--interactive", *(["--tty"] if tty else [])]


def _environment(variables: Mapping[str, str]) -> list[str]:
    return [f"--env={key}={value}" for key, value in variables.items()]


def _device_groups() -> list[int]:
    """Return the groups that may use the GPU's device files, without root's."""
    files = [Path("/dev/kfd"), *Path("/dev/dri").glob("renderD*")]
    return sorted({path.stat().st_gid for path in files if path.exists()} - {0})
