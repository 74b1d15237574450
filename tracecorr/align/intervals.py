"""What the lines of a log say of moments between them: a thread prints nothing while it does something else."""

from __future__ import annotations

import numpy as np
import polars as pl

from tracecorr.align.bounds import Ints

# What may lie in more silences than this is asked nothing: it tells little and costs much.
MAX_SILENCES = 64


def list_moments(log: pl.DataFrame, start: str, end: pl.Expr) -> pl.DataFrame:
    """Return every moment at which a thread printed a line: columns thread, at; sorted by `at`.

    Args:
        log: rows of the log with `thread`.
        start: column of their first line's time.
        end: time of the line that ended the row, null where there is none.
    """
    lines = log.drop_nulls("thread")
    both = pl.concat([
        lines.select("thread", at=pl.col(start)), lines.select("thread", at=end),
    ])  # fmt: skip
    return both.drop_nulls().sort("at")


def bracket_doorbells(packets: pl.DataFrame, moments: pl.DataFrame, step_ns: int) -> pl.DataFrame:
    """Return between which two moments of its thread each packet's doorbell store lies.

    A dispatch line is printed before its store, so the store lies before the thread's next line; a barrier
    line is printed after it (HIP 4.5 to 7.2). A packet whose store comes later (one of a graph launch that
    stores once for several) has none in its interval.

    Args:
        packets: columns thread, at (time of the packet's line), name.
        moments: as `list_moments` returns them.
        step_ns: how far a line's true time may lie above its stamp.

    Returns: `packets` with doorbell_lo_ns and doorbell_hi_ns; null where the thread has no such line.
    """
    numbered = packets.with_row_index("_row")
    ordered = numbered.select("_row", "thread", "at").sort("at")
    for side in ("backward", "forward"):
        ordered = ordered.join_asof(
            moments.with_columns(pl.col("at").alias(side)), on="at", by="thread", strategy=side,
            allow_exact_matches=False, check_sortedness=False,
        )  # fmt: skip
    joined = numbered.join(ordered.select("_row", "backward", "forward"), on="_row", how="left", maintain_order="left")
    dispatch = pl.col("name").cast(pl.String) == "dispatch"
    return joined.with_columns(
        doorbell_lo_ns=pl.when(dispatch).then("at").otherwise("backward"),
        doorbell_hi_ns=pl.when(dispatch).then(pl.col("forward")).otherwise("at") + step_ns,
    ).drop("_row", "backward", "forward")


def list_silences(lines: Ints, earliest: Ints, latest: Ints) -> tuple[Ints, Ints]:
    """Return in which silences of a thread each thing may lie, as pairs (thing, silence).

    Silence i lies between line i - 1 and line i; the first has no start, the last no end.

    Args:
        lines: sorted times of the thread's lines.
        earliest, latest: first and last moment that each thing can have had.
    """
    first = np.searchsorted(lines, earliest, side="right")
    last = np.searchsorted(lines, latest, side="right")
    near = np.flatnonzero((last - first < MAX_SILENCES) & (last >= first))
    count = last[near] - first[near] + 1
    thing = np.repeat(near, count)
    silence = np.arange(len(thing)) - np.repeat(np.cumsum(count) - count, count) + first[thing]
    return thing, silence
