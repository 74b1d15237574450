"""Usual calls: which calls of a log that lost lines are not known to be like the others of their name.

A call that is two holds lines of both. That it does is told by the others of its name, if enough of them are left.
"""

from __future__ import annotations

import polars as pl

from tracecorr.align.rows import number_groups

# Of fewer calls of a name nothing is usual: false ones may be most of them.
_LEAST_CALLS = 5
# Rows in an order that fewer of the calls that hold both show are lines of two calls.
_LEAST_SHARE = 0.2


def list_rare(damaged: pl.DataFrame, most_lost: float) -> pl.DataFrame:
    """Return the calls (event) of functions of which few are left, where many lines lack.

    Args:
        damaged: calls of files that lost lines: event, file, name, lost (the share of lines that lack).
        most_lost: a share that is many.
    """
    few = pl.len().over("file", "name") < _LEAST_CALLS
    return damaged.filter(few & (pl.col("lost") >= most_lost)).select("event")


def list_disordered(damaged: pl.DataFrame, inner: pl.DataFrame) -> pl.DataFrame:
    """Return the calls (event) that hold rows in an order in which hardly any other call of their name holds them.

    What counts is where a call holds the first row of each kind. Lost lines change no order.

    Args:
        damaged: calls of files that lost lines: event, name.
        inner: rows in calls, in the order of their lines: parent, layer, child (their name).
    """
    if damaged.is_empty():
        return damaged.select("event")
    inside = inner.join(damaged.select(parent="event"), on="parent", how="semi", maintain_order="left")
    codes, _ = number_groups(inside, ["layer", "child"])
    firsts = inside.select("parent", kind=pl.Series(codes)).unique(keep="first", maintain_order=True)
    held = firsts.group_by("parent", maintain_order=True).agg("kind").join(
        damaged.select("name", parent="event"), on="parent"
    )  # fmt: skip
    held = held.with_columns(order=pl.col("kind").cast(pl.List(pl.String)).list.join(" "))
    # Many calls show few orders.
    orders = held.group_by("name", "order").agg(pl.col("kind").first(), calls=pl.len()).with_row_index("number")
    odd = orders.join(_list_odd(orders), on="number", how="semi")
    return held.join(odd, on=["name", "order"], how="semi").select(event="parent")


def _list_odd(orders: pl.DataFrame) -> pl.DataFrame:
    """Return number of the orders in which two kinds of rows are the other way round than in nearly all calls."""
    rows = orders.explode("kind").with_columns(place=pl.int_range(pl.len()).over("number"))
    later = rows.select("number", after="kind", later="place")
    pairs = rows.join(later, on="number").filter(pl.col("place") < pl.col("later"))
    counts = pairs.group_by("name", "kind", "after").agg(calls=pl.col("calls").sum())
    both = counts.join(counts.select("name", kind="after", after="kind", others="calls"), on=["name", "kind", "after"])
    rare = both.filter(pl.col("calls") < _LEAST_SHARE * (pl.col("calls") + pl.col("others")))
    return pairs.join(rare, on=["name", "kind", "after"], how="semi").select("number").unique()
