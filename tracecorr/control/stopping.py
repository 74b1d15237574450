"""Hold the host side of a workload: SIGSTOP, or the freezer of cgroup v2; packets that are queued go on.

A workload is all processes below its shell that are the caller's; they may be part of a larger job.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from tracecorr.control.controller import HOLD, Action, Actuator, HoldError
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


# So that a process that is made while its parent is stopped is found, too.
_LOOKS = 3
# At the end of its input, which comes with the death of this process, the guard runs the last line that it was told.
_GUARD = 'trap "" HUP INT TERM; last=; while IFS= read -r line; do last=$line; done; eval "$last"'


class Guard:
    """Keep a small process that undoes a hold if this one dies, even by SIGKILL.

    Args:
        files: descriptors that it has, too: its lines name them /proc/self/fd/N.
    """

    def __init__(self, *files: int) -> None:
        self._process = subprocess.Popen(
            ["sh", "-c", _GUARD], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            start_new_session=True, pass_fds=files,
        )  # fmt: skip

    def tell(self, undo: str) -> None:
        """Say how to undo what is done next: a line for the shell; "" = nothing is to be undone."""
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.write(undo.encode() + b"\n")
            self._process.stdin.flush()

    def close(self) -> None:
        """End the guard; it undoes what it was told last."""
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.wait()

    def __enter__(self) -> Guard:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class StopSignals(Actuator):
    """Hold the processes of a workload by SIGSTOP; packets that are queued, and running kernels, go on.

    Args:
        low: the workload.
        guard: lets them go on if this process dies.
        force: also stop a member of a distributed job, whose peers may then wait in vain.
    """

    def __init__(self, low: Workload, guard: Guard, *, force: bool = False) -> None:
        self._low, self._guard, self._force = low, guard, force

    def apply(self, action: Action) -> None:
        """Stop all processes of the workload, or let them go on.

        Raises:
            HoldError: it is a member of a distributed job.
        """
        is_stop, seen = action.kind == HOLD, set[int]()
        for _ in range(_LOOKS):
            fresh = self._low.list_processes() - seen
            if is_stop and not self._force:
                refuse_members(fresh)
            seen |= fresh
            if is_stop and fresh:
                self._guard.tell(f"kill -CONT {' '.join(map(str, sorted(seen)))}")
            for pid in fresh:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGSTOP if is_stop else signal.SIGCONT)
                    self.reached += is_stop
            if not fresh:
                break
        if not is_stop:
            self._guard.tell("")


class Freezer(Actuator):
    """Hold the processes of a workload by the freezer of cgroup v2: like SIGSTOP, but their parents notice nothing.

    They are moved to a group below the one that they are in, so that its limits stay, and back at the end.

    Args:
        low: the workload.
        guard: lets them go on if this process dies.
        force: also freeze a member of a distributed job, whose peers may then wait in vain.
    """

    def __init__(self, low: Workload, guard: Guard, *, force: bool = False) -> None:
        self._low, self._guard, self._force = low, guard, force
        self._groups: set[Path] = set()

    def apply(self, action: Action) -> None:
        """Freeze all processes of the workload, or let them go on.

        Raises:
            HoldError: it is a member of a distributed job, or the group cannot be made.
        """
        try:
            if action.kind == HOLD:
                pids = self._low.list_processes()
                if not self._force:
                    refuse_members(pids)
                self._gather(pids)
                self.reached += len(pids)
                self._guard.tell("; ".join(map(_undo, self._groups)))
            for group in self._groups:
                (group / "cgroup.freeze").write_text(str(int(action.kind == HOLD)))
        except OSError as error:
            raise HoldError(
                f"the freezer of cgroup v2 cannot be used: {error.filename or 'a group'}: {error.strerror}",
                "run as root on a machine with cgroup v2, or use --stop-by signal",
            ) from None

    def _gather(self, pids: Iterable[int]) -> None:
        """Move processes to groups of this experiment; those that they start later are born there."""
        name = f"tracecorr-{os.getpid()}"
        for pid in pids:
            with suppress(ProcessLookupError, FileNotFoundError):
                place = _find_group(pid)
                if place.name != name:
                    (group := place / name).mkdir(exist_ok=True)
                    self._groups.add(group)
                    (group / "cgroup.procs").write_text(str(pid))

    def close(self) -> None:
        """Move the processes back, and remove the groups."""
        for group in self._groups:
            subprocess.run(["sh", "-c", _undo(group)], check=False, capture_output=True)
        self._guard.tell("")


def _undo(group: Path) -> str:
    """Return a shell line that thaws a group, moves its processes to the one above and removes it."""
    told = shlex.quote(str(group))
    return (
        f"echo 0 > {told}/cgroup.freeze; "
        f"while read -r pid; do echo $pid > {told}/../cgroup.procs; done < {told}/cgroup.procs; rmdir {told}"
    )


def _find_group(pid: int) -> Path:
    """Return the folder of a process's group in cgroup v2.

    Raises:
        HoldError: there is no cgroup v2.
        OSError: the process has ended.
    """
    inside = [line[3:] for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines() if line.startswith("0::")]
    mounts = (line.split() for line in Path("/proc/self/mounts").read_text().splitlines())
    points = [words[1] for words in mounts if words[2] == "cgroup2"]
    if not inside or not points:
        raise HoldError("there is no cgroup v2 here, so nothing can be frozen", "use --stop-by signal")
    return Path(points[0]) / inside[0].lstrip("/")
