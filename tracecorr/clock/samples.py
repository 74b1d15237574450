"""Bracketed clock samples: `clock.json` and the marks that it names in the trace."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from tracecorr.clock.hull import NO_HIGH, Bounds

# Counters print times in microseconds.
_ROUNDED_NS = 500


def list_marks(records: pl.DataFrame, args: pl.DataFrame) -> pl.DataFrame:
    """Return stamp_ns, id and mono of the marks of clock samples in a trace.

    Args:
        records: part events, columns layer, name, file, offset, stamp_ns.
        args: part args; `id` and `mono` (ns) are what a mark printed.
    """
    marks = records.filter(
        (pl.col("layer") == "marker") & (pl.col("name") == "clock_sync") & (pl.col("source") == "ftrace")
    )
    marks = marks.select("file", "offset", "stamp_ns")
    for key in ("id", "mono"):
        told = args.filter(pl.col("key") == key).select("file", "offset", pl.col("u64").alias(key))
        marks = marks.join(told, on=["file", "offset"], how="left", maintain_order="left")
    # A mark that no clock can have shown is not one of ours.
    return marks.select("stamp_ns", "id", "mono").drop_nulls(["stamp_ns", "mono"]).filter(pl.col("mono") < 2**62)


def are_of_another_run(marks: pl.DataFrame, samples: list[dict[str, Any]]) -> bool:
    """Tell whether the trace has marks with the numbers of samples, and none carries a time that its sample tells.

    Args:
        marks: columns id, mono (ns).
        samples: the `samples` of clock.json.
    """
    read = _join_samples(marks, samples)["is_own"].drop_nulls()
    return len(read) > 0 and not read.any()


def warn_of_another_run(events: pl.DataFrame, args: pl.DataFrame, content: dict[str, Any]) -> list[str]:
    """Return what to say of clock samples that are not those of the trace.

    Args:
        events, args: the tables.
        content: clock.json.
    """
    marks = events.filter((pl.col("layer") == "marker") & (pl.col("name") == "clock_sync")).select("event")
    for key in ("id", "mono"):
        told = args.filter(pl.col("key") == key).select("event", pl.col("u64").alias(key))
        marks = marks.join(told.drop_nulls(), on="event")
    if not are_of_another_run(marks, content["samples"]):
        return []
    return [
        f"clock.json is of another run: none of the {marks.height} clock marks of the trace has one of its times; its "
        f"samples are not used, but the clock that it names ({content.get('trace_clock', 'unknown')}) is: import with "
        "the clock.json of this run, or without one"
    ]


def _join_samples(marks: pl.DataFrame, samples: list[dict[str, Any]]) -> pl.DataFrame:
    """Return the marks with `mono1` of the sample of their number, and whether it `is_own`: tells their time, too."""
    read = [(int(s["id"]), int(s["mono0"]), int(s["mono1"])) for s in samples if s.keys() >= {"id", "mono0", "mono1"}]
    told = pl.DataFrame(read, schema={"id": pl.Int64, "mono0": pl.Int64, "mono1": pl.Int64}, orient="row")
    numbered = marks.with_columns(pl.col("id", "mono").cast(pl.Int64, strict=False))
    joined = numbered.join(told.unique("id", keep="last"), on="id", how="left", maintain_order="left")
    return joined.with_columns(is_own=pl.col("mono").is_between("mono0", "mono1"))


def bound_marks(marks: pl.DataFrame, samples: list[dict[str, Any]], steps: tuple[int, int]) -> Bounds:
    """Return what the `clock_sync` marks say of a trace clock.

    A mark carries the CLOCK_MONOTONIC time read before it was written; its sample in clock.json, which tells that
    time, too, adds the time read after it. Marks of several runs have the same numbers.

    Args:
        marks: columns stamp_ns, id, mono (ns).
        samples: the `samples` of clock.json, each with `id`, `mono0`, `mono1`.
        steps: how far the true time of a mark may lie below and above its stamp.
    """
    stamps = marks["stamp_ns"].to_numpy()
    low = marks["mono"].cast(pl.Int64).to_numpy() - stamps - steps[1]
    joined = _join_samples(marks, samples)
    ends = joined.select(pl.when("is_own").then("mono1").fill_null(NO_HIGH))["mono1"].to_numpy()
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
