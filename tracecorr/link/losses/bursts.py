"""Bursts: places at which several lines are missing, as where a piece of a file was lost.

Single lost lines leave halves of calls and gaps in the packet indexes of a queue, and hardly ever two of them at one
place. A burst takes the exit of a call and the enter of the next one away at once, so every call over its place may be
one of two.
"""

from __future__ import annotations

import math

import numpy as np
import polars as pl

from tracecorr import native
from tracecorr.clock.joins import sort_rows
from tracecorr.clock.rows import Codes
from tracecorr.link.losses.hip_calls import HipCalls
from tracecorr.model.kinds import Flag

_THREAD = ["file", "thread"]
# Gaps at one place are those of a burst when chance brings such gaps together at fewer places than this share, and
# there are two at least.
_CHANCE, _LEAST_GAPS = 0.01, 2
# Of the gaps of a file more than this share lie at bursts, and so many times more than by chance, where it lost pieces.
_MOST_GAPS, _ABOVE_CHANCE = 0.5, 2
# Numbers that sums of weights are compared with are not whole.
_ROUNDING = 1e-6
_GAP = [*_THREAD, "low", "high", "weight"]
_EXIT = int(Flag.EXIT_ONLY)


def list_burst_calls(calls: pl.DataFrame, gaps: pl.DataFrame) -> pl.DataFrame:
    """Return the calls (event) over places at which lines of two threads or more are missing, by more than chance.

    Where most places at which lines are missing are such ones, calls over all others are, too.

    Args:
        calls: event, file, low, high: the places between which each lies, in any unit.
        gaps: file, thread, low, high: between which places lines of a thread (or of what else has lines of its own)
            are missing, weight: how much each tells (1 = with another one it shows a burst); those of one thread do not
            overlap, unless they begin at one place.
    """
    gaps = _join_gaps(gaps)
    bursts = _find_bursts(gaps)
    if bursts.is_empty():
        return calls.select("event").clear()
    extents = calls.group_by("file").agg(extent=pl.col("high").max() - pl.col("low").min())
    pieces = _list_pieces(gaps, bursts, extents)
    places = pl.concat([bursts, pieces]).sort("at")
    return _list_over(calls, places).select("event")


def has_bursts(gaps: pl.DataFrame) -> bool:
    """Tell whether any call can be over a place at which lines of two threads or more are missing.

    Args:
        gaps: as for `list_burst_calls`.
    """
    return not _find_bursts(_join_gaps(gaps)).is_empty()


def _join_gaps(gaps: pl.DataFrame) -> pl.DataFrame:
    return gaps.group_by(*_THREAD, "low").agg(pl.col("high").min(), pl.col("weight").first())


def _find_bursts(gaps: pl.DataFrame) -> pl.DataFrame:
    """Return file, at, to of the places at which the gaps that meet weigh enough."""
    weight = pl.col("weight")
    steps = pl.concat([
        gaps.select("file", at="low", step=weight), gaps.select("file", at="high", step=-weight),
    ]).sort("file", "at", "step")  # fmt: skip
    is_burst = pl.col("step").cum_sum().over("file") > _LEAST_GAPS - _ROUNDING
    was_burst = is_burst.shift(1, fill_value=False).over("file")
    begins, ends = is_burst & ~was_burst, was_burst & ~is_burst
    # Of each file these follow each other in turns.
    return steps.filter(begins)["file", "at"].with_columns(to=steps.filter(ends)["at"]).sort("at")


def _list_pieces(gaps: pl.DataFrame, bursts: pl.DataFrame, extents: pl.DataFrame) -> pl.DataFrame:
    """Return file, at, to of the gaps of threads at no burst, in files that lost pieces, not single lines.

    There most gaps of threads lie at bursts, by more than chance: at the others only one thread shows lines.
    """
    threads = gaps.filter(pl.col("thread") >= 0).with_row_index("gap")
    meets = pl.col("gap").is_in(_list_over(threads, bursts)["gap"].implode())
    length = (pl.col("high") - pl.col("low")).sum()
    shares = threads.group_by("file").agg(share=meets.mean(), length=length).join(extents, on="file")
    chance = pl.col("length") / pl.col("extent").clip(lower_bound=1)
    in_pieces = shares.filter(pl.col("share") > pl.max_horizontal(_MOST_GAPS, _ABOVE_CHANCE * chance))
    return threads.filter(~meets).join(in_pieces, on="file", how="semi").select("file", at="low", to="high")


def _list_over(rows: pl.DataFrame, bursts: pl.DataFrame) -> pl.DataFrame:
    """Return the rows that lie from `low` to `high` over a burst."""
    if bursts.is_empty():
        return rows.clear()
    found = sort_rows(rows.drop_nulls("high"), "high").join_asof(
        bursts, left_on="high", right_on="at", by="file", allow_exact_matches=False, check_sortedness=False
    )
    return found.filter(pl.col("to") > pl.col("low"))


def list_gaps(halves: pl.DataFrame, calls: HipCalls) -> pl.DataFrame:
    """Return between which places of the log lines of a thread are missing: file, thread, low, high (bytes), weight.

    Where other threads begin with an enter, lines are missing in front of an exit that is the first line of its thread.

    Args:
        halves: calls that lack one of their lines because it was lost: file, thread, offset, is_exit.
        calls: the HIP calls of the log whose thread is known.
    """
    (codes, first), rows = calls.threads, calls.rows
    begins = calls.extents["first"].to_numpy()
    late = _list_late_beginnings(rows[np.flatnonzero(rows["offset"].to_numpy() == begins[codes])])
    threads = rows.select(_THREAD)[first].with_columns(number=pl.int_range(len(first)))
    torn = halves.select(*_THREAD, "offset", "is_exit").join(threads, on=_THREAD)
    inside = _list_gaps_inside(torn, rows, codes, len(first))
    return pl.concat([late, inside]).cast({"thread": pl.Int64}).with_columns(weight=pl.lit(1.0))


def number_packet_gaps(gaps: pl.DataFrame) -> pl.DataFrame:
    """Return gaps of packets as those of threads with numbers below zero: file, thread, low, high (bytes), weight.

    Such gaps are wide. Where they take up much of the log many of them meet by chance, so each tells less. One in which
    two packets or more are missing is a place of two lost lines by itself.

    Args:
        gaps: as `packet_gaps.list_packet_gaps` returns them.
    """
    weight = (_LEAST_GAPS * pl.col("covered").log() / math.log(_CHANCE)).clip(0, 1)
    lines = pl.col("missing").clip(upper_bound=_LEAST_GAPS)
    return gaps.select("file", "low", "high", thread=-1 - pl.col("queue"), weight=weight * lines).select(_GAP)


def _list_late_beginnings(first: pl.DataFrame) -> pl.DataFrame:
    """Return the gaps in front of threads that begin with an exit, in files in which others do not.

    Args:
        first: file, thread, offset, flags: the first row of each thread.
    """
    begins = first.with_columns(is_exit=pl.col("flags") & _EXIT > 0)
    known = pl.col("file").is_in(begins.filter(~pl.col("is_exit"))["file"].unique().implode())
    return begins.filter("is_exit", known).select(*_THREAD, low=pl.lit(-1, pl.Int64), high="offset")


def _list_gaps_inside(torn: pl.DataFrame, calls: pl.DataFrame, codes: Codes, threads: int) -> pl.DataFrame:
    """Return file, thread, low, high: from each half of a call to the line of its thread where the other half lacks.

    Args:
        torn: file, thread, number (of the thread), offset, is_exit of the halves.
        calls: HIP calls: offset, end_offset.
        codes: the number of each one's thread, below `threads`.
    """
    sides: list[list[pl.Series]] = [[], []]
    for column in ("offset", "end_offset"):
        asked = torn["number"].to_numpy(), torn["offset"].to_numpy()
        for side, rows in zip(sides, native.find_beside(codes, threads, calls[column].to_arrow(), *asked), strict=True):
            found = pl.Series(rows)
            side.append(calls[column].gather(found.set(found < 0, None)))
    before, behind = pl.max_horizontal(*sides[0]), pl.min_horizontal(*sides[1])
    low, high = pl.when("is_exit").then(before).otherwise("offset"), pl.when("is_exit").then("offset").otherwise(behind)
    return torn.select(*_THREAD, low=low, high=high).drop_nulls(["low", "high"])
