"""Compare the times of recorded traces with their clock marks: does the truth lie within the bounds of each row?

A mark carries the CLOCK_MONOTONIC time that was read just before it was written. The clock ran at one rate in these
recordings: its true offset is the line through the tightest mark of each end, known to a microsecond.
"""

from __future__ import annotations

import gzip
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from tracecorr.pipeline import correlate, import_files
from tracecorr.store import Capture

# What an import is given: readings and marks, marks alone, or neither.
EVIDENCE = ("samples", "marks", "none")
# Marks at each end of a recording, and how well the best of them is known (text rounds to a microsecond).
_AT_END, KNOWN_NS = 8, 1_000
_MARK = re.compile(rb" (\d+(?:\.\d+)?): tracing_mark_write: clock_sync id=\d+ mono=(\d+)")


@dataclass(frozen=True)
class ClockScore:
    """Hold how the times of a recorded trace compare with the truth.

    Args:
        rows: rows of the trace with bounds.
        outside: how many of them have the truth outside of their bounds.
        worst_ns: how far, at most.
        width_ns: median and maximum of the width of the bounds.
        method: how the clock was mapped.
    """

    rows: int
    outside: int
    worst_ns: int
    width_ns: tuple[int, int]
    method: str


def measure_clock(folder: Path, work: Path, evidence: str, clock: str | None = None) -> ClockScore:
    """Import a recorded capture with less evidence, and compare its times with its marks.

    Args:
        folder: has amd.log, ftrace.txt and clock.json; text may be compressed (.gz).
        work: where files may be written.
        evidence: one of `EVIDENCE`.
        clock: what the user says of the clock; None = nothing.
    """
    lines = _read(_find(folder, "ftrace.txt")).splitlines(keepends=True)
    marks = [found.groups() for line in lines if (found := _MARK.search(line))]
    trace, out = work / "ftrace.txt", work / "measured.tracecorr"
    trace.write_bytes(b"".join(lines if evidence != "none" else (s for s in lines if not _MARK.search(s))))
    readings = folder / "clock.json" if evidence == "samples" else None
    import_files(out, [_find(folder, "amd.log")], [trace], clock=clock, clock_samples=readings, force=True)
    correlate(out)
    capture = Capture.open(out)
    events = capture.table("events").filter(pl.col("source").cast(pl.String) == "ftrace").drop_nulls("err_lo_ns")
    events = events.select("stamp_ns", "ts_ns", pl.col("err_lo_ns", "err_hi_ns").cast(pl.Int64)).collect()
    true = _true_times(marks, events["stamp_ns"].to_numpy())
    low = (events["ts_ns"] - events["err_lo_ns"]).to_numpy()
    high = (events["ts_ns"] + events["err_hi_ns"]).to_numpy()
    beyond = np.maximum(low - true, true - high)
    maps = capture.table("clock_map").with_columns(pl.col("source", "method").cast(pl.String)).collect()
    width = high - low
    return ClockScore(
        events.height, int((beyond > KNOWN_NS).sum()), int(max(beyond.max(initial=0), 0)),
        (int(np.median(width)) if len(width) else 0, int(width.max(initial=0))),
        maps.filter(pl.col("source").str.starts_with("ftrace"))["method"][0],
    )  # fmt: skip


def _find(folder: Path, name: str) -> Path:
    return next(path for path in (folder / name, folder / f"{name}.gz") if path.exists())


def _read(path: Path) -> bytes:
    return gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()


def _true_times(marks: list[tuple[bytes, bytes]], stamps: np.ndarray) -> np.ndarray:
    """Return the true CLOCK_MONOTONIC times of stamps, ns."""
    at = np.array([_to_number(stamp) for stamp, _ in marks])
    offset = np.array([int(mono) for _, mono in marks]) - at
    rough = (offset[-1] - offset[0]) / (at[-1] - at[0])
    level = offset - rough * (at - at[0])
    first, last = int(np.argmax(level[:_AT_END])), len(at) - _AT_END + int(np.argmax(level[-_AT_END:]))
    rate = (offset[last] - offset[first]) / (at[last] - at[first])
    times: np.ndarray = stamps + offset[first] + np.rint(rate * (stamps - at[first]))
    return times


def _to_number(stamp: bytes) -> int:
    """Return ns of a stamp in seconds, or the number of a counter."""
    seconds, point, fraction = stamp.partition(b".")
    return int(seconds) * 10**9 + int(fraction.ljust(9, b"0")) if point else int(stamp)
