"""Take a workload's queues off the GPU, through the debugger's interface of the KFD (AMDKFD_IOC_DBG_TRAP).

The driver suspends the queues of a process that the caller traces, and resumes them all when the caller dies. Numbers
and structures: linux/kfd_ioctl.h of Linux 6.12; conditions and results: kfd_chardev.c, kfd_debug.c. Each suspend and
resume, and the start of all this, rebuilds the run list: the queues of every process on that GPU are unmapped once.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import signal
import struct
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tracecorr.control.controller import HOLD, Action, Actuator, HoldError
from tracecorr.control.stopping import refuse_members

_DEVICE, _PROCESSES = Path("/dev/kfd"), Path("/sys/class/kfd/kfd/proc")
_DBG_TRAP, _RUNTIME_ENABLE = 0xC0204B26, 0xC0104B25
_ENABLE, _DISABLE, _SEND_RUNTIME_EVENT, _SUSPEND, _RESUME, _SNAPSHOT = 0, 1, 2, 6, 7, 13
_QUEUE_NEW, _PROCESS_RUNTIME = 1 << 30, 1 << 47
_ENTRY_BYTES, _ENTRY_ID = 64, 40  # struct kfd_queue_snapshot_entry, its queue_id
_MOST_QUEUES = 1024  # of a process
_FAILED = 1 << 30  # of a queue id that comes back: the hardware did not give the queue up
# linux/ptrace.h
_CONT, _DETACH, _SEIZE, _LISTEN = 7, 17, 0x4206, 0x4208
_TRACE_EXIT, _EVENT_EXIT, _EVENT_STOP = 0x40, 6, 128
_STOPPING = (signal.SIGSTOP, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU)
# A look reads a dozen small files; what it finds is never urgent.
_LOOK_SECONDS = 0.1
_RISK = "taking its queues off the GPU may end in a reset of the GPU, which kills every process there"
_REFUSALS = {
    errno.ENOENT: "there is no /dev/kfd here",
    errno.EACCES: "/dev/kfd may not be opened: run as root, or as a member of its group",
    errno.EINVAL: "the driver allows no debugger: it has no GPU, or sched_policy=2",
    errno.ENOTTY: "the driver allows no debugger: its KFD is older than 1.13, as in Linux 6.1, or it is not a KFD",
    errno.ESRCH: "the driver does not know the process",
    errno.EPERM: "the process may not be traced: it has a debugger, or kernel.yama.ptrace_scope forbids it",
    errno.EALREADY: "it has a debugger already",
    errno.EBUSY: "its GPU cannot be debugged now: a cooperative launch, PC sampling or another debugger has it",
    errno.ENODEV: "its GPU is too old to be debugged (before SOC15)",
    errno.EOPNOTSUPP: "its queues belong to a second context of the process",
}
_STATES = {
    0: "its runtime did not enable debugging (RUNTIME_ENABLE), so that its queues cannot be suspended",
    2: "another process has the debugger of its GPU",
    3: "its runtime and the driver do not fit together",
}


class Trap:
    """Ask the KFD for operations of its debugger on a process.

    Args:
        device: the KFD's file.

    Raises:
        HoldError: it cannot be opened.
    """

    def __init__(self, device: Path = _DEVICE) -> None:
        try:
            self._file = os.open(device, os.O_RDWR | os.O_CLOEXEC)
        except OSError as error:
            raise _refuse(error) from None

    def call(self, pid: int, operation: int, form: str = "", *values: int) -> tuple[int, ...]:
        """Return the fields of an operation as the driver left them.

        Args:
            pid: the process.
            operation: its number.
            form: its fields, as in `struct`.
            values: of the fields.

        Raises:
            OSError: the driver refused it.
        """
        argument = bytearray(struct.pack("II" + form, pid, operation, *values).ljust(32, b"\0"))
        fcntl.ioctl(self._file, _DBG_TRAP, argument, True)
        return struct.unpack_from(form, argument, 8)

    def close(self) -> None:
        """Close the file; the driver then lets go of what it still held."""
        os.close(self._file)


def find_refusal(make: Callable[[], Trap] = Trap) -> str:
    """Return why this driver suspends no queues; empty if it may.

    It is tried on this process, which has no queues and no runtime: nothing on a GPU is touched.
    """
    try:
        trap = make()
    except HoldError as error:
        return error.what
    try:
        _enable(trap, os.getpid())
        trap.call(os.getpid(), _DISABLE)
    except OSError as error:
        return _refuse(error).what
    finally:
        trap.close()
    return ""


def _enable(trap: Trap, pid: int) -> int:
    """Become the debugger of a process; return the state of its runtime (struct kfd_runtime_info).

    No exceptions are asked for, so nothing is written to the file that must be named.
    """
    info, nothing = ctypes.create_string_buffer(16), os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
    try:
        trap.call(pid, _ENABLE, "QQII", 0, ctypes.addressof(info), len(info), nothing)
    finally:
        os.close(nothing)
    return int(struct.unpack_from("QII", info)[1])


@dataclass(frozen=True)
class User:
    """Say what a process has of the GPUs.

    Args:
        queues: KFD ids of its queues.
        gpus: gpu_id of the GPUs on which it has queues or memory.
    """

    queues: frozenset[int]
    gpus: frozenset[int]


def list_users(processes: Path = _PROCESSES) -> dict[int, User]:
    """Return pid -> what it has, by sysfs (kfd_process.c); pids are those of the machine, not of a container."""
    found = {}
    for folder in processes.glob("[0-9]*"):
        gpus = {int(path.name[5:]) for path in folder.glob("vram_[0-9]*") if _read_number(path)}
        queues = {int(path.name): _read_number(path / "gpuid") for path in folder.glob("queues/[0-9]*")}
        found[int(folder.name)] = User(frozenset(queues), frozenset(gpus | set(queues.values()) - {0}))
    return found


def _read_number(path: Path) -> int:
    """Return the number in a file of sysfs; 0 if it has gone."""
    with suppress(OSError, ValueError):
        return int(path.read_text())
    return 0


class _Debugged:
    """Suspend and resume the queues of one process; every call comes from the thread that made it (ptrace(2)).

    The main thread of the process is traced, not stopped: each signal to it is passed on by `tend`. When the thread
    that traces ends, the kernel detaches.
    """

    def __init__(self, trap: Trap, pid: int) -> None:
        """Become its debugger.

        Raises:
            HoldError: it cannot be debugged.
            ProcessLookupError: it has ended.
        """
        self._trap, self.pid = trap, pid
        try:
            _ptrace(_SEIZE, pid, _TRACE_EXIT)
            state = _enable(trap, pid)
        except ProcessLookupError:
            raise
        except OSError as error:
            raise _refuse(error) from None
        self._is_over = False
        if state != 1:
            self.let_go()
            raise HoldError(f"queues of process {pid}: {_STATES.get(state, f'runtime state {state}')}", _ANOTHER)

    def suspend(self) -> int:
        """Suspend all its queues, also those that were made since the last time; return how many.

        Raises:
            HoldError: the GPU did not give a queue up.
        """
        # A new queue cannot be suspended until a snapshot has taken note of it (EC_QUEUE_NEW).
        room = ctypes.create_string_buffer(_ENTRY_BYTES * _MOST_QUEUES)
        told = self._ask(_SNAPSHOT, "QQII", _QUEUE_NEW, ctypes.addressof(room), _MOST_QUEUES, _ENTRY_BYTES)
        count = min(told[2], _MOST_QUEUES) if told else 0
        found = [struct.unpack_from("I", room, n * _ENTRY_BYTES + _ENTRY_ID)[0] for n in range(count)]
        ids = (ctypes.c_uint32 * count)(*found)
        told = self._ask(_SUSPEND, "QQII", 0, ctypes.addressof(ids), count, 0) if count else ()
        failed = [asked for asked, answer in zip(found, ids, strict=True) if told and answer & _FAILED]
        if failed:
            raise HoldError(f"the GPU did not give up queue {failed[0]} of process {self.pid}", _ANOTHER)
        return len(found) if told else 0

    def resume(self) -> None:
        """Resume all its queues."""
        self._ask(_RESUME, "QII", 0, 0, 0)

    def _ask(self, operation: int, form: str, *values: int) -> tuple[int, ...]:
        """Return the fields of an operation; nothing if the process, or its runtime, has ended."""
        if self._is_over:
            return ()
        try:
            return self._trap.call(self.pid, operation, form, *values)
        except OSError as error:
            # Its thread has the right, so EPERM says that the runtime has ended.
            if error.errno in (errno.ESRCH, errno.EPERM):
                return ()
            raise _refuse(error) from None

    def let_go(self) -> None:
        """Resume its queues and be its debugger no longer; it is still traced."""
        if not self._is_over:
            self._is_over = True
            for operation in (_RESUME, _DISABLE):
                # Without its runtime there is nothing to resume (EPERM); it may have gone (ESRCH).
                with suppress(OSError):
                    self._trap.call(self.pid, operation)

    def answer_runtime(self) -> None:
        """Let go of it if its runtime is about to end: it waits there for a word of its debugger.

        A thread in RUNTIME_ENABLE is found by /proc/PID/task/TID/syscall: number, then the arguments.
        """
        for path in Path(f"/proc/{self.pid}/task").glob("*/syscall"):
            with suppress(OSError):
                words = path.read_text().split()
                if len(words) > 2 and int(words[2], 16) == _RUNTIME_ENABLE:
                    with suppress(OSError):
                        self._trap.call(self.pid, _SEND_RUNTIME_EVENT, "QII", _PROCESS_RUNTIME, 0, 0)
                    self.let_go()

    def tend(self) -> bool:
        """Pass signals on to the process; return whether it lives."""
        while True:
            try:
                pid, status = os.waitpid(self.pid, os.WNOHANG)
            except ChildProcessError:
                pid, status = self.pid, 0
            if pid == 0:
                return True
            if not os.WIFSTOPPED(status):
                self._is_over = True
                return False
            number, event = os.WSTOPSIG(status), status >> 16
            # It is killed now and then while it is stopped here.
            with suppress(ProcessLookupError):
                if event == _EVENT_EXIT:
                    self.let_go()
                    _ptrace(_DETACH, self.pid)
                    return False
                if event == _EVENT_STOP and number in _STOPPING:
                    _ptrace(_LISTEN, self.pid)
                else:
                    _ptrace(_CONT, self.pid, 0 if event else number)


_LIBC = ctypes.CDLL(None, use_errno=True)
_LIBC.ptrace.argtypes = (ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p)
_LIBC.ptrace.restype = ctypes.c_long
_ANOTHER = "use another policy"


def _ptrace(request: int, pid: int, data: int = 0) -> None:
    if _LIBC.ptrace(request, pid, 0, data) == -1:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _refuse(error: OSError) -> HoldError:
    told = _REFUSALS.get(error.errno or 0, error.strerror)
    return HoldError(f"queues cannot be suspended here: {told} ({errno.errorcode.get(error.errno or 0)})", _ANOTHER)


class SuspendedQueues(Actuator):
    """Hold a workload by its queues: they leave the GPU, and the driver saves the waves that run (CWSR).

    Attached is who has queues, because a runtime that starts would wait for its debugger. Nobody but the workloads may
    use the same GPUs, because a queue that cannot be saved ends in a reset.

    Args:
        find_low: returns the processes of the workload.
        find_others: returns those of the other workloads, which take the same risk.
        force: also hold a member of a distributed job, whose peers may then wait in vain.
        make: opens the KFD.
        processes: the KFD's folder of processes in sysfs.
    """

    def __init__(
        self, find_low: Callable[[], set[int]], find_others: Callable[[], set[int]], *, force: bool = False,
        make: Callable[[], Trap] = Trap, processes: Path = _PROCESSES,
    ) -> None:  # fmt: skip
        self._force = force
        self._find_low, self._find_others, self._make, self._processes = find_low, find_others, make, processes
        self._trap: Trap | None = None
        self._debugged: dict[int, _Debugged] = {}
        self._gone: set[int] = set()
        self._queues: dict[int, frozenset[int]] = {}
        self._is_held, self._next_look = False, 0.0

    def apply(self, action: Action) -> None:
        """Suspend all queues of the workload, or resume them.

        Raises:
            HoldError: this may or can not be done; `close` then resumes what was suspended.
        """
        if action.kind == HOLD and not self._debugged:
            self._look()
        self._is_held = action.kind == HOLD
        for one in self._debugged.values():
            if self._is_held:
                self.reached += one.suspend()
            else:
                one.resume()

    def tend(self) -> None:
        """Pass on signals; now and then look for new processes and queues, and for a runtime that ends.

        Raises:
            HoldError: another process uses the GPU now, or a new process cannot be held.
        """
        for pid, one in list(self._debugged.items()):
            if not one.tend():
                self._gone.add(self._debugged.pop(pid).pid)
        if time.monotonic() >= self._next_look:
            self._look()
            self._next_look = time.monotonic() + _LOOK_SECONDS

    def _look(self) -> None:
        users, low = list_users(self._processes), self._find_low()
        held = {pid: user for pid, user in users.items() if pid in low - self._gone and user.queues}
        self._refuse_third(users, held, low)
        for pid in held:
            if pid not in self._debugged:
                if not self._force:
                    refuse_members([pid])
                self._trap = self._trap or self._make()
                with suppress(ProcessLookupError):
                    self._debugged[pid] = _Debugged(self._trap, pid)
        for pid, one in self._debugged.items():
            one.answer_runtime()
            queues = users[pid].queues if pid in users else frozenset()
            if self._is_held and queues - self._queues.get(pid, frozenset()):
                self.reached += one.suspend()
            self._queues[pid] = queues

    def _refuse_third(self, users: Mapping[int, User], held: Mapping[int, User], low: set[int]) -> None:
        gpus = frozenset[int]().union(*(user.gpus for user in held.values()))
        third = [pid for pid, user in users.items() if user.gpus & gpus and pid not in low]
        if third and (strangers := sorted(set(third) - self._find_others() - {os.getpid()})):
            raise HoldError(f"process {strangers[0]} uses the GPU of the low workload, and {_RISK}", "end it first")

    def close(self) -> None:
        """Resume all queues; the thread that called this must end, by which the kernel detaches."""
        for one in self._debugged.values():
            one.let_go()
        if self._trap is not None:
            self._trap.close()
            self._trap = None
