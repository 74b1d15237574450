"""Bursts: places at which the lines of several threads are missing, as where a piece of a file was lost.

Single lost lines leave halves of calls, and hardly ever two of them at one place. A burst takes the exit of a call and
the enter of the next one away at once, so every call over its place may be one of two.
"""

from __future__ import annotations

import numpy as np
import polars as pl

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
        halves: calls that lack one of their lines because it was lost: file, thread, offset, flags.
        calls: all HIP calls of these files: file, thread, offset, end_offset, flags.
    """
    offset, is_exit = pl.col("offset"), pl.col("flags") & _EXIT > 0
    begins = calls.group_by(_THREAD, maintain_order=True).agg(
        offset=offset.min(), is_exit=is_exit.get(offset.arg_min())
    )
    known = pl.col("file").is_in(begins.filter(~pl.col("is_exit"))["file"].unique().implode())
    first = begins.filter("is_exit", known).select(*_THREAD, low=pl.lit(-1, pl.Int64), high="offset")
    parts = [first]
    lines = calls.select(*_THREAD, "offset", "end_offset").join(halves.select(_THREAD).unique(), on=_THREAD, how="semi")
    of_thread = lines.partition_by(_THREAD, as_dict=True)
    for thread, torn in halves.partition_by(_THREAD, as_dict=True, maintain_order=True).items():
        own = of_thread[thread]
        at = np.sort(np.concatenate([own["offset"].to_numpy(), own["end_offset"].drop_nulls().to_numpy()]))
        place, alone = torn["offset"].to_numpy(), torn.select(is_exit).to_series().to_numpy()
        behind = np.searchsorted(at, place, side="right")
        before = np.searchsorted(at, place, side="left") - 1
        inside = np.where(alone, before >= 0, behind < len(at))
        other = at[np.clip(np.where(alone, before, behind), 0, len(at) - 1)]
        gaps = torn.select(*_THREAD, low=np.where(alone, other, place), high=np.where(alone, place, other))
        parts.append(gaps.filter(pl.Series(inside)))
    return pl.concat(parts)
