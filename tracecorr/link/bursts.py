"""Bursts: places at which the lines of several threads are missing, as where a piece of a file was lost.

Single lost lines leave halves of calls, and hardly ever two of them at one place. A burst takes the exit of a call and
the enter of the next one away at once, so every call over its place may be one of two.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from tracecorr.align.bounds import Ints
from tracecorr.align.rows import order_by_group
from tracecorr.model.kinds import Flag

_THREAD = ["file", "thread"]
_EXIT = int(Flag.EXIT_ONLY)


def list_burst_calls(calls: pl.DataFrame, gaps: pl.DataFrame) -> pl.DataFrame:
    """Return the calls (event) over places at which lines of two threads or more are missing.

    Args:
        calls: event, file, low, high: the places between which each lies, in any unit.
        gaps: file, thread, low, high: between which places lines of a thread are missing; those of one thread do not
            overlap, unless they begin at one place.
    """
    if gaps.is_empty():
        return calls.select("event").clear()
    gaps = gaps.group_by(*_THREAD, "low").agg(pl.col("high").min())
    steps = pl.concat([
        gaps.select("file", at="low", step=pl.lit(1)), gaps.select("file", at="high", step=pl.lit(-1)),
    ]).sort("file", "at", "step")  # fmt: skip
    steps = steps.with_columns(open=pl.col("step").cum_sum().over("file"))
    begins = (pl.col("step") == 1) & (pl.col("open") == 2)
    ends = (pl.col("step") == -1) & (pl.col("open") == 1)
    # Of each file these follow each other in turns.
    bursts = steps.filter(begins)["file", "at"].with_columns(to=steps.filter(ends)["at"]).sort("at")
    found = calls.sort("high").join_asof(
        bursts, left_on="high", right_on="at", by="file", allow_exact_matches=False, check_sortedness=False
    )
    return found.filter(pl.col("to") > pl.col("low")).select("event")


def list_gaps(halves: pl.DataFrame, calls: pl.DataFrame) -> pl.DataFrame:
    """Return between which places of the log lines of a thread are missing: file, thread, low, high (bytes).

    Where other threads begin with an enter, lines are missing in front of an exit that is the first line of its thread.

    Args:
        halves: calls that lack one of their lines because it was lost: file, thread, offset, is_exit.
        calls: all HIP calls of these files: file, thread, offset, end_offset, flags.
    """
    order, codes, _ = order_by_group(calls, _THREAD)
    lines = calls.select(*_THREAD, "offset", "end_offset", "flags")[order]
    starts = np.flatnonzero(np.append(True, codes[1:] != codes[:-1])[: len(codes)])
    ends = np.append(starts[1:], len(codes))
    parts = [_list_late_beginnings(lines, starts)]
    torn = halves.select(*_THREAD, "offset", "is_exit").partition_by(_THREAD, as_dict=True, maintain_order=True)
    for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
        own = torn.get(lines.row(start)[:2])
        if own is not None:
            parts.append(_list_gaps_of_thread(own, lines[start:end]))
    return pl.concat(parts)


def _list_late_beginnings(lines: pl.DataFrame, starts: Ints) -> pl.DataFrame:
    """Return the gaps in front of threads that begin with an exit, in files in which others do not.

    Args:
        lines: file, thread, offset, flags; sorted by thread.
        starts: the first row of each thread.
    """
    offset = lines["offset"].to_numpy()
    first = np.minimum.reduceat(offset, starts) if len(starts) else offset
    at_first = np.flatnonzero(offset == np.repeat(first, np.diff(np.append(starts, len(offset)))))
    is_exit = pl.col("flags") & _EXIT > 0
    begins = lines[at_first].with_columns(is_exit=is_exit)
    known = pl.col("file").is_in(begins.filter(~pl.col("is_exit"))["file"].unique().implode())
    return begins.filter("is_exit", known).select(*_THREAD, low=pl.lit(-1, pl.Int64), high="offset")


def _list_gaps_of_thread(torn: pl.DataFrame, lines: pl.DataFrame) -> pl.DataFrame:
    """Return file, thread, low, high: from each half of a call to the line of its thread where the other half lacks."""
    # Both are nearly sorted, which a stable sort makes use of.
    at = np.sort(np.concatenate([lines["offset"], lines["end_offset"].drop_nulls()]), kind="stable")
    place, alone = torn["offset"].to_numpy(), torn["is_exit"].to_numpy()
    behind = np.searchsorted(at, place, side="right")
    before = np.searchsorted(at, place, side="left") - 1
    inside = np.where(alone, before >= 0, behind < len(at))
    other = at[np.clip(np.where(alone, before, behind), 0, len(at) - 1)]
    gaps = torn.select(*_THREAD, low=np.where(alone, other, place), high=np.where(alone, place, other))
    return gaps.filter(pl.Series(inside))
