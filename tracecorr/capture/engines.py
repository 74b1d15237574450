"""Container engines of this machine: docker and podman, asked through their own commands."""

from __future__ import annotations

import os
import shutil
import subprocess

from tracecorr.model.errors import InputError, MachineError

ENGINES = ("docker", "podman")


def available_engines() -> tuple[str, ...]:
    """Return the container engines whose command is here."""
    return tuple(name for name in ENGINES if shutil.which(name))


def container_pid(name: str) -> tuple[str, int]:
    """Return the engine and the host pid of the first process of a running container.

    Args:
        name: name or id of the container.

    Raises:
        MachineError: there is no container engine.
        InputError: no engine runs such a container.
    """
    engines = available_engines()
    if not engines:
        raise MachineError("there is neither docker nor podman on this machine", "install one, or use --pid PID")
    reasons = []
    for engine in engines:
        done = ask_engine(engine, "inspect", "--type", "container", "--format", "{{.State.Pid}}", name)
        pid = done.stdout.strip()
        if done.returncode == 0 and pid.isdigit() and int(pid):
            return engine, int(pid)
        reasons.append(f"{engine}: {'it is not running' if pid == '0' else _last_line(done.stderr)}")
    raise InputError(f"no running container {name!r} ({'; '.join(reasons)})", f"{engines[0]} ps lists those that run")


def ask_engine(engine: str, *words: str) -> subprocess.CompletedProcess[str]:
    """Return what an engine answers; podman is asked as the user behind sudo, whose containers root does not see."""
    command = [engine, *words]
    user = os.environ.get("SUDO_USER")
    if engine == "podman" and user and os.geteuid() == 0:
        command = ["sudo", "-u", user, "--", *command]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
    except (OSError, subprocess.TimeoutExpired) as error:
        return subprocess.CompletedProcess(command, 125, "", str(error))


def _last_line(text: str) -> str:
    return next(reversed(text.strip().splitlines()), "no answer")
