"""Clock samples: marks in the traces, each between two readings of CLOCK_MONOTONIC."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import termios
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tracecorr.capture.kernel_log import read_printk_clock
from tracecorr.capture.plan.plan import Plan
from tracecorr.capture.tracefs.control import Tracefs
from tracecorr.model.errors import ControlFileError

# About 30 KB of records: they fit into the smallest buffer.
_BURSTS, _CALLS = 8, 32
_EVENTS = {"sys_enter_ioctl", "sys_exit_ioctl"}


@dataclass(frozen=True)
class _EventCost:
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


def measure_event_cost(plan: Plan, instances: dict[str, Path], alone_ns: float) -> _EventCost | None:
    """Time an ioctl of this thread in the instance that recorded the workload's; None if none did,
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
            cost = _EventCost(alone_ns, time_call())
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


# The narrowest of several brackets bounds the clock best: the first call after a pause is slow.
_BURST = 10
# So many marks are written each second; one of them is kept.
_TRIES = 4
_OTHER_CLOCKS = {"raw": time.CLOCK_MONOTONIC_RAW, "boot": time.CLOCK_BOOTTIME, "real": time.CLOCK_REALTIME}


class ClockSampler:
    """Write bracketed marks into every instance and keep the readings.

    Args:
        instances: tracefs folders by name; the marks of all share one row of numbers.
    """

    def __init__(self, instances: Mapping[str, Path]) -> None:
        self._markers: dict[str, int] = {}
        # As JSON: to encode those of a day takes seconds, in which no other thread could drain a buffer.
        self._samples: list[str] = []
        self._marks = 0
        try:
            for name, path in instances.items():
                self._markers[name] = os.open(path / "trace_marker", os.O_WRONLY | os.O_CLOEXEC)
        except BaseException:
            self.close()
            raise

    def burst(self, label: str) -> None:
        """Take several samples, at the start and at the end of a recording."""
        for _ in range(_BURST):
            self.sample(label)

    def sample(self, label: str) -> None:
        """Take one sample in every instance."""
        for name in self._markers:
            self._samples += map(json.dumps, self._take(name, label))

    def sample_narrowly(self, label: str) -> None:
        """Take some samples in every instance, and keep the one with the narrowest bracket."""
        for name in self._markers:
            taken = [sample for _ in range(_TRIES) for sample in self._take(name, label)]
            self._samples += map(json.dumps, sorted(taken, key=lambda s: int(s["mono1"]) - int(s["mono0"]))[:1])

    def _take(self, name: str, label: str) -> list[dict[str, Any]]:
        # A mark that a full buffer refuses is no failure of the capture.
        with contextlib.suppress(OSError):
            self._marks += 1
            return [{"label": label, "instance": name, **_mark(self._markers[name], self._marks - 1)}]
        return []

    def render(self, trace_clock: str, more: Mapping[str, Any]) -> str:
        """Return the text of clock.json, with what else is in it."""
        about = (
            "ids match the `clock_sync id=N` marks in the trace; a mark was written between mono0 and mono1 "
            "(CLOCK_MONOTONIC ns); raw, boot, real and printk were read between their own mono0 and mono1"
        )
        head = json.dumps({"trace_clock": trace_clock, "about": about, **more})
        return f'{head[:-1]}, "samples": [{", ".join(self._samples)}]}}'

    def close(self) -> None:
        """Let go of the instances, so that they can be removed."""
        for marker in self._markers.values():
            os.close(marker)
        self._markers = {}


def _mark(marker: int, number: int) -> dict[str, Any]:
    head = f"clock_sync id={number} mono=".encode()
    before = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    os.write(marker, head + str(before).encode())
    after = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    return {"id": number, "mono0": before, "mono1": after, **_read_clocks()}


def _read_clocks() -> dict[str, dict[str, int]]:
    """Return the other clocks of the kernel, each between two readings of CLOCK_MONOTONIC (ns)."""
    readings = {}
    for name, clock in _OTHER_CLOCKS.items():
        before = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        value = time.clock_gettime_ns(clock)
        readings[name] = {"mono0": before, "value": value, "mono1": time.clock_gettime_ns(time.CLOCK_MONOTONIC)}
    if (printk := read_printk_clock()) is not None:
        readings["printk"] = printk
    return readings
