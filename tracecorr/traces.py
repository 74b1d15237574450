"""Several kernel traces of one capture: prints on another clock are set apart, two traces of one buffer refused."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import combinations

import polars as pl

from tracecorr.model.errors import InputError
from tracecorr.read.ftrace.text import PRINTS
from tracecorr.store.parts import Parts

_OF_PRINTS = ("layer", "name", "tid", "stamp_ns", "end_stamp_ns", "clock")
# How drivers call what they print, and those of it that tell of a queue that is made.
_PRINTED, _OF_CREATION = "^[A-Z][A-Z0-9_]+$", ("CREATE_QUEUE_SUCCESS", "KFD_MQD_CREATE")
# Text rounds a stamp by less.
_ROUNDED_NS = 1_000
_RECORD = ["cpu", "tid", "name", "at"]
# Two instances may hold single events that are the same; two traces of one buffer hold most of what both span.
_MOST_SHARED = 0.5


def refuse_repeated(parts: Parts, paths: Mapping[int, str]) -> None:
    """Refuse two kernel traces that hold the same records: each of their events would count twice.

    Args:
        parts: of the capture.
        paths: of the files, by their numbers.

    Raises:
        InputError: two traces are of one buffer and of one time.
    """
    traces = [part.read_events(("file", "stamp_ns", *_RECORD[:-1])) for part in parts.each if part.source == "ftrace"]
    # A text rounds its stamps to microseconds, pages have nanoseconds.
    rows = [trace.with_columns(at=(pl.col("stamp_ns") + 500) // 1_000).drop_nulls() for trace in traces]
    for one, other in combinations(rows, 2):
        if one.is_empty() or other.is_empty():
            continue
        first, last = max(one["at"].min(), other["at"].min()), min(one["at"].max(), other["at"].max())  # type: ignore[type-var]
        both = [side.filter(pl.col("at").is_between(first, last)).unique(_RECORD) for side in (one, other)]
        same = both[0].join(both[1], on=_RECORD, how="semi").height
        if same > _MOST_SHARED * min(side.height for side in both):
            names = [paths[int(side["file"][0])] for side in (one, other)]
            raise InputError(
                f"{names[0]} and {names[1]} hold the same records ({same:,}): they are two copies of one trace, and "
                "each of these events would count twice",
                "import one of them; of pieces that overlap, cut one where the other begins",
            )


def set_prints_apart(parts: Parts) -> Parts:
    """Return the parts with a driver's prints as a source of their own where they are on another clock than its ioctls.

    trace_printk writes to the top tracing buffer, on the clock of that one (`local` by default), whatever clock an
    instance records with. What it tells of a queue that is made lies in an ioctl of its thread, on one clock.
    """
    traces = [part for part in parts.each if part.source == "ftrace"]
    if len(traces) < 2:
        return parts
    events = [part.read_events(_OF_PRINTS) for part in traces]
    ioctls = pl.concat([rows.filter(pl.col("layer") == "ioctl") for rows in events])
    apart = [id(part) for part, rows in zip(traces, events, strict=True) if _is_of_another_clock(rows, ioctls)]
    changed = [replace(part, source=PRINTS) if id(part) in apart else part for part in parts.each]
    return Parts(changed, parts.skipped)


def _is_of_another_clock(rows: pl.DataFrame, ioctls: pl.DataFrame) -> bool:
    """Tell of a trace whose clock is not told whether it holds prints alone, most of them outside of their ioctls."""
    name, clock = (rows[column].cast(pl.String) for column in ("name", "clock"))
    if rows.is_empty() or not (name.str.contains(_PRINTED).all() and (clock == "unknown").all()):
        return False
    made = rows.filter(name.is_in(_OF_CREATION)).join(ioctls.select("tid").unique(), on="tid", how="semi")
    begun = made.select("tid", at=pl.col("stamp_ns") + _ROUNDED_NS).drop_nulls().sort("at")
    calls = ioctls.select("tid", "stamp_ns", "end_stamp_ns").drop_nulls("stamp_ns").sort("stamp_ns")
    last = begun.join_asof(calls, left_on="at", right_on="stamp_ns", by="tid", check_sortedness=False, coalesce=False)
    # The end of one that goes on behind the trace is not known.
    open_still = pl.col("end_stamp_ns").is_null() | (pl.col("end_stamp_ns") >= pl.col("at") - 2 * _ROUNDED_NS)
    inside = last.select(pl.col("stamp_ns").is_not_null() & open_still).to_series().sum()
    return 2 * inside < begun.height
