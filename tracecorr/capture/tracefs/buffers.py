"""Prints in the top tracing buffer: copied, never consumed, and nothing of that buffer is changed.

A driver's trace_printk goes there, on the clock of that buffer, where a kernel has no `trace_printk_dest` (6.10).
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from tracecorr.capture.tracefs.control import Tracefs
from tracecorr.capture.tracefs.drain import read_stats
from tracecorr.model.errors import ControlFileError

# A record of the text that tracefs prints: comm, pid, tgid, CPU, flags, seconds; a print has a word and a colon.
_RECORD = re.compile(
    rb" *.{1,16}?-\d+ +(?:\( *(?:\d+|-+)\) +)?\[\d{3,}\] +(?:[a-zA-Z0-9.#]{4,5} +)?(\d+)\.(\d{6}): "
    rb"(?:([^ :(+<]+): )?"
)
_NO_TEXT = (b"#", b"CPU:")
_STAMP = re.compile(r"(\d+)\.(\d{6})")
_LOOK_SECONDS = 10.0
# Only a small buffer is read while the workload runs: each read formats all of it.
_SMALL_BYTES, _MOST_BYTES, _MOST_SECONDS, _LINES_A_LOOK = 16 << 20, 256 << 20, 20.0, 1000


@dataclass(frozen=True)
class _Moment:
    """What the buffer's counters said between two readings of CLOCK_MONOTONIC."""

    before_ns: int
    now_ns: int | None  # the buffer's clock, rounded to microseconds; None for a clock that counts something else
    gone: int  # records that were overwritten or read by others, so far
    held_bytes: int


class TopBuffer:
    """Copy what is printed into the top buffer from `start` on.

    Args:
        root: the tracing folder.
        output: an unbuffered file for the copied lines.
    """

    def __init__(self, root: Path, output: IO[bytes]) -> None:
        self._tracefs = Tracefs(root)
        self._clock = read_top_clock(root)
        self._output = output
        # The names of events: a record with such a name is not a print, but an event of another tracer.
        self._events = {event.rpartition("/")[2].encode() for event in self._tracefs.events()}
        self._from_ns: int | None = None
        self._first: _Moment | None = None
        self._next_look = 0.0
        self._kept = False
        self.samples: list[dict[str, Any]] = []
        self.losses: list[dict[str, Any]] = []
        self.problems: list[str] = []

    def clock_content(self) -> dict[str, Any]:
        """Return what belongs into clock.json: readings of the buffer's clock, each between two of CLOCK_MONOTONIC."""
        return {"top_buffer": {"clock": self._clock, "samples": self.samples}}

    def start(self) -> None:
        """Copy what is printed from now on."""
        self._first = self._look()
        self._from_ns = self._first.now_ns
        self._next_look = time.monotonic() + _LOOK_SECONDS

    def tick(self) -> None:
        """Copy what is there, now and then, before the kernel overwrites it."""
        if self._first is None or time.monotonic() < self._next_look:
            return
        self._next_look = time.monotonic() + _LOOK_SECONDS
        moment = self._look()
        if moment.held_bytes <= _SMALL_BYTES:
            self._copy(moment.now_ns)

    def stop(self) -> None:
        """Copy the rest; may be called again."""
        if self._first is not None:
            self._copy(None)
            last = self._look()
            gone = last.gone - self._first.gone
            if gone > 0:
                self._lose(gone, "the top buffer lost records before they were copied: overwritten, or read by others")
            self._first = None
        self._output.close()

    def _look(self) -> _Moment:
        before = time.monotonic_ns()
        counters = read_stats(self._tracefs.root)
        after = time.monotonic_ns()
        stamps = [_nanoseconds(counter.get("now ts", "")) for counter in counters.values()]
        known = [stamp for stamp in stamps if stamp is not None]
        now = min(known) if len(known) == len(stamps) and known else None
        if now is not None:
            self.samples.append({"mono0": before, "now_ns": now, "last_ns": max(known), "mono1": after})
        number = {key: sum(int(c.get(key, "0")) for c in counters.values())
                  for key in ("overrun", "commit overrun", "read events", "bytes")}  # fmt: skip
        gone = number["overrun"] + number["commit overrun"] + number["read events"]
        return _Moment(before, now, gone, number["bytes"])

    def _copy(self, until_ns: int | None) -> None:
        """Write the prints since the last copy, up to a time of the buffer's clock."""
        if self._from_ns is None:
            self._problem(f"nothing of the top buffer is copied: its clock {self._clock} does not show the time")
            return
        end, taken = time.monotonic() + _MOST_SECONDS, 0
        try:
            with (self._tracefs.root / "trace").open("rb") as lines:
                for number, line in enumerate(lines):
                    taken += len(line)
                    if self._is_wanted(line, until_ns):
                        self._output.write(line)
                    if taken > _MOST_BYTES or (number % _LINES_A_LOOK == 0 and time.monotonic() > end):
                        self._lose(None, "the top buffer is too large to copy: others trace into it")
                        break
        except OSError as error:
            self._problem(f"the top buffer cannot be copied: {error.strerror}")
        if until_ns is not None:
            self._from_ns = until_ns

    def _is_wanted(self, line: bytes, until_ns: int | None) -> bool:
        found = _RECORD.match(line)
        if found is None:
            # What is no record continues the one before it; headers and notes of losses do not.
            return self._kept and not line.startswith(_NO_TEXT)
        stamp = int(found[1]) * 1_000_000_000 + int(found[2]) * 1000
        assert self._from_ns is not None
        in_time = self._from_ns <= stamp and (until_ns is None or stamp < until_ns)
        self._kept = in_time and found[3] is not None and found[3] not in self._events
        return self._kept

    def _problem(self, text: str) -> None:
        if text not in self.problems:
            self.problems.append(text)

    def _lose(self, records: int | None, reason: str) -> None:
        assert self._first is not None
        self.losses.append({"source": "trace_printk", "bytes": 0, "records": records, "reason": reason,
                            "from_ns": self._first.before_ns, "to_ns": time.monotonic_ns()})  # fmt: skip


def read_top_clock(root: Path) -> str:
    """Return the clock of the top buffer, `unknown` where it cannot be read."""
    try:
        words = Tracefs(root).read("trace_clock").split()
    except ControlFileError:
        return "unknown"
    return next((word.strip("[]") for word in words if word.startswith("[")), "unknown")


def _nanoseconds(text: str) -> int | None:
    found = _STAMP.fullmatch(text)
    return int(found[1]) * 1_000_000_000 + int(found[2]) * 1000 if found else None
