"""Bracketed clock samples: `clock.json` and the marks that it names in the trace."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from tracecorr.align.bounds import NO_HIGH, Bounds

# Counters print times in microseconds.
_ROUNDED_NS = 500


def bound_marks(marks: pl.DataFrame, samples: list[dict[str, Any]], steps: tuple[int, int]) -> Bounds:
    """Return what the `clock_sync` marks say of a trace clock.

    A mark carries the CLOCK_MONOTONIC time read before it was written; its sample in clock.json
    adds the time read after it.

    Args:
        marks: columns stamp_ns, id, mono (ns).
        samples: the `samples` of clock.json, each with `id`, `mono0`, `mono1`.
        steps: how far the true time of a mark may lie below and above its stamp.
    """
    after = {int(s["id"]): int(s["mono1"]) for s in samples if "id" in s and "mono1" in s}
    stamps = marks["stamp_ns"].to_numpy()
    low = marks["mono"].cast(pl.Int64).to_numpy() - stamps - steps[1]
    ends = np.array([after.get(i, NO_HIGH) for i in marks["id"].to_list()], dtype=np.int64)
    high = np.where(ends == NO_HIGH, NO_HIGH, ends - stamps + steps[0])
    return Bounds(stamps, low, high)


def bound_readings(samples: list[dict[str, Any]], clock: str) -> Bounds:
    """Return what clock.json says of another clock of the kernel (`raw`, `boot`).

    Args:
        samples: each with `clock: {mono0, value, mono1}`, all ns.
        clock: key of the readings.
    """
    readings = [s[clock] for s in samples if clock in s]
    value = np.array([int(r["value"]) for r in readings], dtype=np.int64)
    low = np.array([int(r["mono0"]) for r in readings], dtype=np.int64) - value
    high = np.array([int(r["mono1"]) for r in readings], dtype=np.int64) - value
    return Bounds(value, low, high)


def bound_top_buffer(samples: list[dict[str, Any]]) -> Bounds:
    """Return what clock.json says of the clock of the top tracing buffer, `now ts` of its counters.

    Args:
        samples: each with `mono0`, `now_ns` and `last_ns` (the least and the greatest of all CPUs, rounded to a
            microsecond), `mono1`.
    """
    value = np.array([int(s["now_ns"]) for s in samples], dtype=np.int64)
    last = np.array([int(s["last_ns"]) for s in samples], dtype=np.int64)
    low = np.array([int(s["mono0"]) for s in samples], dtype=np.int64) - last - _ROUNDED_NS
    high = np.array([int(s["mono1"]) for s in samples], dtype=np.int64) - value + _ROUNDED_NS
    return Bounds(value, low, high)
