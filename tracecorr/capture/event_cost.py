"""What recording a system call costs on this machine, timed where it is recorded: in the capture's own instance."""

from __future__ import annotations

import fcntl
import os
import termios
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from tracecorr.capture.plan import Plan
from tracecorr.capture.tracefs import Tracefs
from tracecorr.model.errors import ControlFileError

# Some 30 KB of records: they fit into the smallest buffer, where a full one would drop them for less.
_BURSTS, _CALLS = 8, 32
_EVENTS = {"sys_enter_ioctl", "sys_exit_ioctl"}


@dataclass(frozen=True)
class EventCost:
    """Time of one ioctl of this thread, in ns: the least of some bursts, so that other work does not count."""

    alone_ns: float  # before anything was armed
    recorded_ns: float  # with its two events recorded

    @property
    def added_ns(self) -> float:
        """Return what recording adds to the call; it is two events."""
        return self.recorded_ns - self.alone_ns

    def as_json(self) -> dict[str, int]:
        """Return it for capture.json."""
        return {
            "alone_ns": round(self.alone_ns),
            "recorded_ns": round(self.recorded_ns),
            "added_ns": round(self.added_ns),
        }


def time_call() -> float:
    """Return how long an ioctl of this thread takes now, in ns."""
    reading, writing = os.pipe()
    buffer = bytearray(4)
    try:
        return min(_time_burst(reading, buffer) for _ in range(_BURSTS))
    finally:
        os.close(reading)
        os.close(writing)


def measure_event_cost(plan: Plan, instances: dict[str, Path], alone_ns: float) -> EventCost | None:
    """Time an ioctl of this thread in the instance that recorded the workload's; None where none did,
    or where the difference is lost in other work.

    The recording is over and its buffers are emptied: what is written here is never read.

    Args:
        plan: what was armed.
        instances: folder of each instance of the plan.
        alone_ns: what `time_call` gave before anything was armed.
    """
    recording = [
        p.name for p in plan.instances if p.follows_workload and {e.name for e in p.events if not e.filter} >= _EVENTS
    ]
    if not recording:
        return None
    instance = Tracefs(instances[recording[0]])
    try:
        instance.append("set_event_pid", str(threading.get_native_id()))
        instance.write("tracing_on", "1")
        try:
            cost = EventCost(alone_ns, time_call())
        finally:
            instance.write("tracing_on", "0")
    except ControlFileError:
        return None
    # Other work may have slowed the first measurement more than recording slows the second.
    return cost if cost.added_ns > 0 else None


def _time_burst(descriptor: int, buffer: bytearray) -> float:
    before = time.perf_counter_ns()
    for _ in range(_CALLS):
        fcntl.ioctl(descriptor, termios.FIONREAD, buffer)
    return (time.perf_counter_ns() - before) / _CALLS
