"""The processes of a workload: all below its shell that are the caller's, and whether they are part of a larger job."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from tracecorr.control.controller import HoldError
from tracecorr.store.raw import read_file

# Variables of the launchers of distributed jobs (torchrun, Open MPI, MPICH, Slurm) with the number of members.
_MEMBERS = ("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS")


class Workload:
    """Find the processes of a workload.

    Args:
        pid_file: its shell writes its number there when it starts.
        uid: whose processes count; the file is the user's, who may write any number.
    """

    def __init__(self, pid_file: Path, uid: int) -> None:
        self._pid_file, self._uid = pid_file, uid

    def is_running(self) -> bool:
        """Tell whether its shell is there, or has not begun yet."""
        try:
            return Path(f"/proc/{int(read_file(self._pid_file))}").exists()
        except (OSError, ValueError):
            return True

    def list_processes(self) -> set[int]:
        """Return the descendants of the workload's shell, which itself waits and holds no file of the GPU."""
        with suppress(OSError, ValueError):
            return {pid for pid in list_descendants(int(read_file(self._pid_file))) if _find_owner(pid) == self._uid}
        return set()


def refuse_members(pids: Iterable[int]) -> None:
    """Refuse to hold a member of a distributed job, whose peers may then wait in vain.

    Raises:
        HoldError: one of the processes is such a member.
    """
    for pid in pids:
        if told := find_membership(_read_environment(pid)):
            raise HoldError(
                f"the low workload is a member of a distributed job ({told}): holding it may stall its peers",
                "use another policy, or --force",
            )


def find_membership(environment: Iterable[str]) -> str:
    """Return the variable that says that a process is one of several of a job; empty if none does.

    >>> find_membership(["RANK=0", "WORLD_SIZE=8"])
    'WORLD_SIZE=8'
    """
    for name, _, value in (entry.partition("=") for entry in environment):
        if name in _MEMBERS and value.isdecimal() and int(value) > 1:
            return f"{name}={value}"
    return ""


def _read_environment(pid: int) -> list[str]:
    with suppress(OSError):
        return Path(f"/proc/{pid}/environ").read_bytes().decode(errors="replace").split("\0")
    return []


def _find_owner(pid: int) -> int | None:
    with suppress(OSError):
        return Path(f"/proc/{pid}").stat().st_uid
    return None


def list_descendants(pid: int) -> list[int]:
    """Return the processes below one, those of every user."""
    found: list[int] = []
    with suppress(OSError):
        for path in Path(f"/proc/{pid}/task").glob("*/children"):
            for child in map(int, path.read_text().split()):
                found += [child, *list_descendants(child)]
    return found
