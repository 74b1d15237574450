"""Whether the processes of a workload can write their HIP log: one in another root, or of another user, cannot."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from tracecorr.capture.invoker import read_status

_PROC = Path("/proc")
_RUNTIME = "libamdhip64"


class LogSight:
    """Find processes that use HIP and cannot reach the folder of the logs.

    Args:
        folder: its path, as the workload was told.
        logs: the folder itself.
    """

    def __init__(self, folder: Path, logs: Path) -> None:
        self._folder = folder
        self._found = logs.stat()
        self._said: set[int] = set()

    def look(self, pids: Iterable[int]) -> list[str]:
        """Return a sentence for each process that cannot write a log and was not named before."""
        said = []
        for pid in pids:
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
        root = _PROC / str(pid) / "root"
        try:
            seen = Path(f"{root}{self._folder}").stat()
        except OSError:
            seen = None
        if seen is None or (seen.st_dev, seen.st_ino) != (self._found.st_dev, self._found.st_ino):
            return (
                f"{name} writes no HIP log: in its root {_target(root)} there is no {self._folder}; "
                "choose a folder with -o that is mounted at the same path on both sides, or use --container"
            )
        user = int(status.get("Uid", "0").split()[1])
        if user not in (0, self._found.st_uid):
            return (
                f"{name} writes no HIP log: it runs as user {user}, who may not write to {self._folder}; "
                "call tracecorr as that user (sudo), without a change of the user in the command"
            )
        return ""


def _uses_hip(pid: int) -> bool:
    try:
        return _RUNTIME in (_PROC / str(pid) / "maps").read_text(errors="replace")
    except OSError:
        return False


def _target(link: Path) -> str:
    try:
        return os.readlink(link)  # noqa: PTH115
    except OSError:
        return "/"
