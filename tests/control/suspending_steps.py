"""Steps of `suspend` against a driver: `fake` (SYNTHETIC answers, real ptrace), `mock` (SYNTHETIC module), `real`.

Each step prints a line `ok STEP` or `FAILED STEP: why`; the last line is `done`.
"""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import held_program
from held_program import ALARMS, CHILDREN, COMMAND, PROGRESS, READY, open_words

from tracecorr.control.controller import HOLD, RELEASE, Action, HoldError
from tracecorr.control.suspending import (
    SuspendedQueues,
    Trap,
    _Debugged,
    _enable,
    find_refusal,
)

# Operations of AMDKFD_IOC_DBG_TRAP (kfd_ioctl.h).
ENABLE, DISABLE, SUSPEND, RESUME, SNAPSHOT = 0, 1, 6, 7, 13
PROCESSES = Path("/sys/class/kfd/kfd/proc")
HOLDING, RELEASING = Action(HOLD, "low"), Action(RELEASE, "low")
SUSPENDED = Path("/sys/kernel/debug/kfd/suspended")
_SECONDS = 900.0  # only what hangs takes that long; the clock of an emulated machine may run fast
SIGNALS = 200


def wait_until(true: Callable[[], object], what: str) -> None:
    """Wait for a condition.

    Raises:
        AssertionError: it does not come true.
    """
    limit = time.monotonic() + _SECONDS
    while not true():
        assert time.monotonic() < limit, f"waited in vain: {what}"
        time.sleep(0.002)


class Low:
    """A low workload that runs, forked: a new interpreter takes a minute in an emulated machine."""

    def __init__(self, folder: Path, kind: str) -> None:
        path = folder / f"words-{time.monotonic_ns()}"
        self.words = open_words(path)
        self._status: int | None = None
        self.pid = fork(lambda: held_program.main(path, kind))
        wait_until(lambda: self.words[READY] or not is_alive(self.pid), "the low one starts")
        assert self.words[READY], "the low one did not start"

    def wait(self) -> int:
        """Return its exit status, or the number of its signal as a negative number."""
        if self._status is None:
            self._status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self._status

    def check_goes_on(self) -> None:
        """It works, and nobody traces it."""
        before = self.words[PROGRESS]
        wait_until(lambda: self.words[PROGRESS] > before + 5, "the low one goes on")
        assert "\nTracerPid:\t0\n" in Path(f"/proc/{self.pid}/status").read_text()

    def send(self, number: int) -> None:
        """Send a signal; return when its handler has run."""
        word = CHILDREN if number == signal.SIGCHLD else ALARMS
        before = self.words[word]
        os.kill(self.pid, number)
        wait_until(lambda: self.words[word] == before + 1, f"signal {number} arrives")


def is_alive(pid: int) -> bool:
    """Tell whether a process is there and no zombie."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] not in "ZX"


@contextmanager
def run_low(folder: Path, kind: str = "kfd") -> Iterator[Low]:
    """Run a low workload for a step."""
    low = Low(folder, kind)
    try:
        yield low
    finally:
        if low._status is None:
            os.kill(low.pid, signal.SIGKILL)
            low.wait()


class Fake(Trap):
    """SYNTHETIC answers of a driver, in the process that asks; tells what it was asked."""

    state, refused = 1, 0

    def __init__(self) -> None:
        self.asked: list[int] = []

    def call(self, pid: int, operation: int, _: str = "", *values: int) -> tuple[int, ...]:
        assert is_alive(pid), "asked for a process that has ended"
        self.asked.append(operation)
        if operation == ENABLE and self.refused:
            raise OSError(self.refused, os.strerror(self.refused))
        if operation == ENABLE:
            ctypes.memmove(values[1] + 8, self.state.to_bytes(4, "little"), 4)
        return (values[0], values[1], 2, values[3]) if operation == SNAPSHOT else values

    def close(self) -> None:
        pass


class Stopping(Trap):
    """A driver that stops its controller for ever before or after an operation, to be killed there."""

    def __init__(self, inner: Trap, when: str, operation: int, tell: int) -> None:
        self._inner, self._when, self._operation, self._tell = inner, when, operation, tell

    def call(self, pid: int, operation: int, form: str = "", *values: int) -> tuple[int, ...]:
        if (self._when, self._operation) == ("before", operation):
            self._stop()
        told = self._inner.call(pid, operation, form, *values)
        if (self._when, self._operation) == ("after", operation):
            self._stop()
        return told

    def _stop(self) -> None:
        os.write(self._tell, b"x")
        while True:
            signal.pause()

    def close(self) -> None:
        self._inner.close()


def control(low: Low, make: Callable[[], Trap], processes: Path) -> SuspendedQueues:
    """Return a controller of a low workload."""
    return SuspendedQueues(lambda: {low.pid}, set, make=make, processes=processes)


def fork(work: Callable[[], None]) -> int:
    """Run something in a process of its own; return its pid. It ends with 0 if `work` returns."""
    pid = os.fork()
    if pid == 0:
        try:
            work()
            os._exit(0)
        except BaseException as error:
            print(f"process: {error!r}", flush=True)
            os._exit(1)
    return pid


# Where a controller is killed.
STATES = {
    "traced": ("before", ENABLE), "enabled": ("after", ENABLE), "snapshot": ("after", SNAPSHOT),
    "suspended": ("after", SUSPEND), "resumed": ("after", RESUME), "disabled": ("after", DISABLE),
}  # fmt: skip


class Steps:
    """The steps against one driver.

    Args:
        make: opens it.
        processes: the folder of processes in sysfs, or what stands for it.
        suspended: the truth: (pid, queue) of the suspended queues; None = there is none.
        folder: for files.
    """

    def __init__(
        self, make: Callable[[], Trap], processes: Path, suspended: Callable[[], list[str]] | None, folder: Path
    ) -> None:
        self.make, self.processes, self.suspended, self.folder = make, processes, suspended, folder
        self.kind = "kfd" if processes == PROCESSES else "plain"
        self.failed = False

    def run(self, name: str, step: Callable[[], None]) -> None:
        """Run a step, and print what became of it."""
        try:
            step()
            print(f"ok {name}", flush=True)
        except Exception as error:
            self.failed = True
            print(f"FAILED {name}: {type(error).__name__}: {error}", flush=True)

    def check_suspended(self, low: Low, count: int) -> None:
        """As many queues of the low one are suspended, by the driver's own truth."""
        if (told := self.suspended) is not None:
            wait_until(lambda: sum(line.startswith(f"{low.pid} ") for line in told()) == count, f"{count} suspended")

    def show(self, low: Low) -> None:
        """Where sysfs is played, let it show two queues of the low one, and nobody else's."""
        if self.processes != PROCESSES:
            shutil.rmtree(self.processes, ignore_errors=True)
            for number in (0, 1):
                (folder := self.processes / f"{low.pid}/queues/{number}").mkdir(parents=True)
                (folder / "gpuid").write_text("63420")

    def controller_dies(self, low: Low, when: str, operation: int) -> None:
        """It is killed in a state, with a signal for the low one on the way: that arrives, and all queues run."""
        look, tell = os.pipe()

        def work() -> None:
            one = control(low, lambda: Stopping(self.make(), when, operation, tell), self.processes)
            one.apply(HOLDING)
            one.apply(RELEASING)
            one.close()

        pid = fork(work)
        os.close(tell)
        assert os.read(look, 1) == b"x", "the controller ended before it came there"
        os.close(look)
        if operation in (SUSPEND, SNAPSHOT):
            self.check_suspended(low, 2 if operation == SUSPEND else 0)
        before = low.words[ALARMS]
        os.kill(low.pid, signal.SIGALRM)
        time.sleep(0.05)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        wait_until(lambda: low.words[ALARMS] == before + 1, "the signal arrives")
        self.check_suspended(low, 0)
        low.check_goes_on()

    def signals_pass(self, low: Low) -> None:
        """SIGCHLD and SIGALRM come 100 times a second while queues are held and released; then each one is waited for.

        The kernel makes one of equal signals that are pending at once: in an emulated machine fewer arrive.
        """
        over, before = threading.Event(), (low.words[CHILDREN], low.words[ALARMS])

        def send() -> None:
            due = time.monotonic()
            for _ in range(SIGNALS):
                os.kill(low.pid, signal.SIGCHLD)
                os.kill(low.pid, signal.SIGALRM)
                due += 0.01
                time.sleep(max(0.0, due - time.monotonic()))
            arrived = [low.words[CHILDREN] - before[0], low.words[ALARMS] - before[1]]
            print(
                f"   of {SIGNALS} of each signal {arrived} in {time.monotonic() - due + 0.01 * SIGNALS:.1f} s",
                flush=True,
            )
            for _ in range(20):
                low.send(signal.SIGCHLD)
                low.send(signal.SIGALRM)
            over.set()

        one, sender, rounds = control(low, self.make, self.processes), threading.Thread(target=send), 0
        sender.start()
        while not over.is_set() and sender.is_alive():
            if rounds % 20 == 0:
                one.apply(HOLDING if rounds % 40 == 0 else RELEASING)
            one.tend()
            rounds += 1
            time.sleep(50e-6)
        one.apply(RELEASING)
        one.close()
        assert over.is_set(), "a signal was lost"
        self.check_suspended(low, 0)

    def low_ends(self, low: Low, how: str) -> None:
        """It ends while its queues are held: the controller lets go first, and lives; the parent gets the status."""

        def work() -> None:
            one = control(low, self.make, self.processes)
            one.apply(HOLDING)
            self.check_suspended(low, 2)
            if how == "killed":
                os.kill(low.pid, signal.SIGKILL)
            else:
                low.words[COMMAND] = 1 if how == "exit" else 2
            wait_until(lambda: one.tend() or not one._debugged, "it ends")
            one.apply(RELEASING)
            one.close()

        in_own_process(work)
        assert low.wait() == (-signal.SIGKILL if how == "killed" else 7)
        self.check_suspended(low, 0)


def in_own_process(step: Callable[[], None]) -> None:
    """Run a step as a process of its own, by whose end the kernel detaches."""
    pid = fork(step)
    assert os.waitpid(pid, 0)[1] == 0, "see above"


def run_sequence(steps: Steps) -> None:
    """Kill the controller in each state, let signals pass, let the low one end."""
    with run_low(steps.folder, steps.kind) as low:
        steps.show(low)
        for name, (when, operation) in STATES.items():
            steps.run(f"the controller is killed: {name}", lambda w=when, o=operation: steps.controller_dies(low, w, o))
        steps.run("signals pass", lambda: in_own_process(lambda: steps.signals_pass(low)))
        steps.run("it goes on", low.check_goes_on)
    for how in ("exit", "killed", "runtime"):
        with run_low(steps.folder, steps.kind) as low:
            steps.show(low)
            steps.run(f"the low one ends: {how}", lambda how=how: steps.low_ends(low, how))


def expect(what: str, work: Callable[[], object]) -> None:
    """Expect a refusal whose words hold `what`."""
    try:
        work()
    except (HoldError, OSError) as error:
        told = errno.errorcode.get(error.errno or 0, "") if isinstance(error, OSError) else str(error)
        assert what in told, f"refused by {told!r}, not by {what!r}"
        return
    raise AssertionError(f"not refused: {what}")


def run_refusals(steps: Steps) -> None:
    """What the driver refuses, and in which words it is told; each step opens the driver itself, once."""
    kind = "queues" if steps.suspended else "open"
    steps.run("it may be tried", lambda: expect_equal(find_refusal(), ""))
    with run_low(steps.folder, "plain") as low:
        steps.run("ESRCH: no process of the KFD", in_own(lambda ask: expect("ESRCH", lambda: _enable(ask, low.pid))))
    with run_low(steps.folder, "runtime") as low:
        steps.run("EPERM: not traced", in_own(lambda ask: expect("EPERM", lambda: _enable(ask, low.pid))))
        steps.run("one debugger, one thread", in_own(lambda ask: check_one_debugger(ask, low)))
        steps.run("it goes on after a debugger", low.check_goes_on)
        steps.run("a runtime that ends is answered", in_own(lambda ask: check_runtime_ends(ask, low)))
        steps.run("and the program ends", lambda: expect_equal(low.wait(), 7))
    with run_low(steps.folder, kind) as low:
        steps.run("no runtime", in_own(lambda ask: expect("RUNTIME_ENABLE", lambda: _Debugged(ask, low.pid))))
        steps.run("it goes on without a runtime", low.check_goes_on)


def in_own(step: Callable[[Trap], None]) -> Callable[[], None]:
    """Return a step as one in a process of its own, which opens the driver."""
    return lambda: in_own_process(lambda: step(Trap()))


def check_one_debugger(ask: Trap, low: Low) -> None:
    """Neither a second debugger nor another thread of the first is let in; nor one who did not ask to debug."""
    expect("EINVAL", lambda: ask.call(os.getpid(), SUSPEND, "QQII", 0, 0, 0, 0))
    one, failures = _Debugged(ask, low.pid), list[str]()
    expect("EALREADY", lambda: _enable(ask, low.pid))
    in_own_process(lambda: expect("has a debugger", lambda: _Debugged(Trap(), low.pid)))
    ids = (ctypes.c_uint32 * 1)(77)
    ask.call(low.pid, SUSPEND, "QQII", 0, ctypes.addressof(ids), 1, 0)
    expect_equal(hex(ids[0]), hex(77 | 1 << 31))

    def seize() -> None:
        try:
            _Debugged(ask, low.pid)
        except HoldError as error:
            failures.append(error.what)

    thread = threading.Thread(target=seize)
    thread.start()
    thread.join()
    assert failures and "has a debugger" in failures[0], failures
    one.suspend()
    one.resume()
    one.let_go()


def check_runtime_ends(ask: Trap, low: Low) -> None:
    """RUNTIME_ENABLE of a debugged process waits in the driver until its debugger answers."""
    one = _Debugged(ask, low.pid)
    low.words[COMMAND] = 2

    def tend() -> bool:
        one.answer_runtime()
        return not one.tend()

    wait_until(tend, "it waits for its debugger")


def expect_equal(found: object, wanted: object) -> None:
    """Expect a value."""
    assert found == wanted, f"{found!r} is not {wanted!r}"


def main(driver: str) -> None:
    """Run the steps of a driver."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if driver == "fake":
            steps = Steps(Fake, folder / "proc", None, folder)
            run_sequence(steps)
        elif driver == "refused":
            print(f"   {find_refusal()}", flush=True)
            return
        elif driver == "mock":
            steps = Steps(Trap, PROCESSES, lambda: SUSPENDED.read_text().splitlines(), folder)
            run_refusals(steps)
            run_sequence(steps)
        else:
            if refusal := find_refusal():  # nothing else can be asked of this driver
                print(f"   {refusal}", flush=True)
                return
            steps = Steps(Trap, PROCESSES, None, folder)
            run_refusals(steps)
    print("done", flush=True)
    sys.exit(steps.failed)


if __name__ == "__main__":
    main(sys.argv[1])
