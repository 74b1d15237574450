"""Whether the processes of a workload write their HIP log where the capture has it: some cannot, some are told else."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from tracecorr.capture.workload.engines import ENGINES
from tracecorr.capture.workload.invoker import read_environment, read_status
from tracecorr.capture.workload.processes import find_user

_PROC = Path("/proc")
_RUNTIME = "libamdhip64"
_STARTS = frozenset(("run", "exec", "start", "restart", "compose", "up"))
_DECISIVE = ("AMD_LOG_LEVEL", "AMD_LOG_LEVEL_FILE", "AMD_LOG_MASK")


class LogSight:
    """Find processes that use HIP and do not write their log into the folder of the logs, or less of it.

    Args:
        folder: its path, as the workload was told.
        logs: the folder itself.
        variables: what the workload was told about its log.
    """

    def __init__(self, folder: Path, logs: Path, variables: Mapping[str, str]) -> None:
        self._folder = folder
        self._logs = logs
        self._found = logs.stat()
        self._variables = variables
        self._said: set[int] = set()
        self._engines: set[str] = set()

    def look(self, pids: Iterable[int]) -> list[str]:
        """Return a sentence for each process that writes no log here, or less, and for each engine of containers.

        What was said before is not said again.
        """
        said = []
        for pid in pids:
            if (engine := _find_engine(pid)) and engine not in self._engines:
                self._engines.add(engine)
                said.append(_describe_engine(engine))
            why = self._why_not(pid) if pid not in self._said else ""
            if why and _uses_hip(pid):
                self._said.add(pid)
                said.append(why)
        return said

    def _why_not(self, pid: int) -> str:
        status = read_status(pid)
        if status is None:
            return ""
        name = f"process {pid} ({status.get('Name', '?')})"
        number = status.get("NSpid", str(pid)).split()[-1]
        root = _PROC / str(pid) / "root"
        try:
            seen = Path(f"{root}{self._folder}").stat()
        except OSError:
            seen = None
        if seen is None or (seen.st_dev, seen.st_ino) != (self._found.st_dev, self._found.st_ino):
            return (
                f"{name} cannot write its HIP log into the capture: in its root {_target(root)} there is no "
                f"{self._folder}; choose a folder with -o that is mounted at the same path on both sides, or use "
                f"--container; {_describe_fallback(pid, number)}"
            )
        user = find_user(status)
        if user != self._found.st_uid:
            return (
                f"{name} has no HIP log in the capture: it runs as user {user}, and logs in {self._folder} are those "
                f"of user {self._found.st_uid} alone; call tracecorr as that user (sudo), without a change of the user "
                f"in the command; {_describe_fallback(pid, number)}"
            )
        return self._describe_changes(name, number, read_environment(pid) or {})

    def _describe_changes(self, name: str, number: str, environment: Mapping[str, str]) -> str:
        """Return what a process was told else about its log, as far as its environment can be read."""
        told = {key: environment.get(key) for key in _DECISIVE if environment.get(key) != self._variables.get(key)}
        if None in told.values():
            # Programs that give themselves a title write it over their environment.
            log = self._logs / f"{Path(self._variables['AMD_LOG_LEVEL_FILE']).name}_{number}"
            told = {} if log.exists() or "PATH" not in environment else told
        if not told:
            return ""
        words = (f"without {key}" if value is None else f"with {key}={value}" for key, value in told.items())
        return (
            f"{name} was started {', '.join(words)}: its HIP log is not in the capture, or less of it; "
            "leave these variables alone in the command (--log-level sets the level)"
        )


def _find_engine(pid: int) -> str:
    """Return the engine by which a process starts a program in a container, or ""."""
    try:
        first, *words = (_PROC / str(pid) / "cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return ""
    name = Path(first).name
    return name if name in ENGINES and not _STARTS.isdisjoint(words) else ""


def _describe_engine(engine: str) -> str:
    return (
        f"the command starts a container by {engine}: what runs in it has no HIP log here, and may not be recorded at "
        "all; let tracecorr start it: tracecorr capture --image IMAGE -- COMMAND, or --container NAME for a running one"
    )


def _uses_hip(pid: int) -> bool:
    try:
        return _RUNTIME in (_PROC / str(pid) / "maps").read_text(errors="replace")
    except OSError:
        return False


def _describe_fallback(pid: int, number: str) -> str:
    """Return where HIP 7.2 writes the log of a process instead: there it is named by the pid that it has inside."""
    return (
        f"its runtime may write to {_target(_PROC / str(pid) / 'cwd')}/clr_logs_{number}.txt of that root instead: "
        "tracecorr import --amd-log reads it"
    )


def _target(link: Path) -> str:
    try:
        return os.readlink(link)  # noqa: PTH115
    except OSError:
        return "/"
