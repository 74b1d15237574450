"""What becomes of the workload when a limit ends its recording."""

from __future__ import annotations

import signal

import pytest

from tracecorr.capture.workload.host import GRACE_SECONDS, Ending


class _Workload:
    """Take signals and go on, until `status` is set."""

    def __init__(self) -> None:
        self.pid, self.status = 7, None
        self.got: list[int] = []

    def send(self, number: int) -> None:
        self.got.append(number)

    def release(self) -> None: ...

    def discard(self) -> None: ...

    def poll(self, *, block: bool = False) -> int | None:  # noqa: ARG002
        return self.status


@pytest.mark.parametrize("is_wanted", [False, True])
def test_what_does_not_end_is_killed_once(is_wanted: bool) -> None:
    workload, told, now = _Workload(), list[str](), [0.0]
    ending = Ending(workload, told.append, is_wanted=is_wanted, clock=lambda: now[0])
    ending.tick()
    assert (workload.got, told) == ([], [])
    ending.begin("--duration 2 s is over")
    after = "gets SIGTERM (--kill)" if is_wanted else "keeps running"
    assert told == [f"the recording ended: --duration 2 s is over; the workload {after}"]
    now[0] = GRACE_SECONDS - 0.1
    ending.tick()
    assert workload.got == ([signal.SIGTERM] if is_wanted else [])
    for now[0] in (GRACE_SECONDS, GRACE_SECONDS + 1, GRACE_SECONDS * 9):
        ending.tick()
    assert workload.got == ([signal.SIGTERM, signal.SIGKILL] if is_wanted else [])
    killed = "the workload still runs 10 s after SIGTERM: it gets SIGKILL"
    assert told[1:] == ([killed] if is_wanted else [])


def test_what_ended_is_not_killed() -> None:
    workload, told, now = _Workload(), list[str](), [0.0]
    ending = Ending(workload, told.append, is_wanted=True, clock=lambda: now[0])
    ending.begin("x")
    workload.status = 143
    now[0] = GRACE_SECONDS + 1
    ending.tick()
    assert (workload.got, len(told)) == ([signal.SIGTERM], 1)
