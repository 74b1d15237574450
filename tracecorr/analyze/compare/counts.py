"""How many packets, calls and ioctls did each side have, and which of these counts differ most?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import polars as pl

from tracecorr.analyze.compare.sides import join_sides, tell_recorded
from tracecorr.analyze.frames import Tables
from tracecorr.analyze.launches import summarize_launches

# How many of the counts that differ most are told.
_MAX_CHANGES = 3
# A count that differs by less than this share of the larger one is about the same.
_LEAST_CHANGE = 0.1


def compare_packets(first: Tables, second: Tables) -> pl.DataFrame:
    """Return one row per kind of packet or copy of either side: kind, only, a_packets, b_packets."""
    sides = [summarize_launches(tables("launches")) for tables in (first, second)]
    return join_sides(sides[0], sides[1], "kind", ["packets"])


def tell_kinds(frame: pl.DataFrame, what: str, sources: Sequence[bool], counted: str = "") -> str:
    """Return how many rows each side has for its own; what a side did not record is no difference.

    Args:
        frame: rows of `join_sides`.
        what: what a row is, as a plural.
        sources: whether A and B have the source that tells of them.
        counted: what `a_calls` and `b_calls` count, as a plural, to tell their sums; empty to leave them out.
    """
    known = tell_recorded(frame, sources)
    kinds = {only: frame.filter(pl.col("only").str.starts_with(only)).height for only in ("both", "A", "B")}
    if all(known):
        told = f"{what}: {kinds['both']} in both, {kinds['A']} only in A, {kinds['B']} only in B"
    else:
        told = f"{what}: {_tell_sides([kinds['A'], kinds['B']], known)}"
    if not counted:
        return told
    sums = [int(frame[f"{side}_calls"].sum() or 0) for side in ("a", "b")]
    return f"{told}; {counted}: {_tell_sides(sums, known)}"


def _tell_sides(numbers: Sequence[int], known: Sequence[bool]) -> str:
    told = (f"{n:,}" if is_known else "unknown" for n, is_known in zip(numbers, known, strict=True))
    return ", ".join(f"{number} in {side}" for number, side in zip(told, "AB", strict=True))


def name_changes(frame: pl.DataFrame, what: str, sources: Sequence[bool]) -> Iterator[str]:
    """Yield, in one line, the counts that differ most between the sides, where both recorded them.

    Args:
        frame: rows of `join_sides`: its first column names what the next but one, `a_...` and `b_...`, count.
        what: what is counted, as a plural.
        sources: whether A and B have the source that tells of them.
    """
    if not all(tell_recorded(frame, sources)):
        return
    name, _, first, second = frame.columns[:4]
    counts = frame.select(name, a=pl.col(first).fill_null(0), b=pl.col(second).fill_null(0))
    change = (pl.col("b") - pl.col("a")).abs()
    large = counts.filter((change > 0) & (change >= _LEAST_CHANGE * pl.max_horizontal("a", "b")))
    rows = large.sort(-change, name).head(_MAX_CHANGES)
    if rows.height:
        told = "; ".join(f"{named} {a:,} in A, {b:,} in B" for named, a, b in rows.iter_rows())
        yield f"largest changes of {what}: {told}"
