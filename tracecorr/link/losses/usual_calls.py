"""Usual calls: which calls of a log that lost lines are not known to be like the others of their name.

A call that is two holds lines of both. That it does is told by the others of its name, if enough of them are left.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from tracecorr import native
from tracecorr.clock.bounds import Ints
from tracecorr.clock.joins import select_rows
from tracecorr.clock.rows import count_groups, number_groups, number_rows
from tracecorr.model.columns import CAT

# What at least this share of a function's calls does is usual for it.
USUAL_SHARE = 0.2
# In a log that lost lines more of them must do so: some of those that do are false.
LOSSY_SHARE = 0.5
# Where fewer lines are lost, it hardly happens that several lines that belong together are.
MANY_LOST = 0.005
# Where more lines are lost, calls of functions that are called a few times may be false as well.
MOST_LOST = 0.05
# Where few lines were lost, a call is odd that lacks what nearly all hold, or holds more than all but a few.
_FEW_LACK, _FEW_HOLD, _LEAST_ALIKE = 0.9, 0.05, 2
# Of fewer calls of a name nothing is usual: false ones may be most of them.
_LEAST_CALLS = 5
_ORDER: dict[str, pl.DataType] = {"kind": pl.List(pl.Int64()), "calls": pl.UInt32()}
# Rows in an order that fewer of the calls that hold both show are lines of two calls.
_LEAST_SHARE = 0.2


def list_rare(damaged: pl.DataFrame) -> pl.DataFrame:
    """Return the calls (event) of functions of which few are left, where many lines lack.

    Args:
        damaged: calls of files that lost lines: event, file, name, lost (the share of lines that lack).
    """
    many = pl.col("lost") >= MOST_LOST
    if not damaged.select(many.any()).item():
        return damaged.select("event").clear()
    few = pl.len().over("file", "name") < _LEAST_CALLS
    return damaged.filter(few & many).select("event")


def number_kinds(damaged: pl.DataFrame, inner: pl.DataFrame) -> pl.DataFrame:
    """Return the rows in some calls: parent, kind (a number for layer and name).

    Args:
        damaged: calls of files that lost lines: event.
        inner: rows in calls: parent, layer, child (their name).
    """
    inside = select_rows(inner, damaged["event"], "parent")
    codes, _ = number_rows(inside, ["layer", "child"])
    return inside.select("parent", kind=pl.Series(codes))


def count_held(inside: pl.DataFrame) -> pl.DataFrame:
    """Return how many rows of each kind each call holds: event, kind, held; sorted.

    Args:
        inside: as `number_kinds` returns them.
    """
    kinds = int(inside["kind"].max() or 0) + 1  # type: ignore[arg-type]
    # One number for call and kind: equal ones side by side are what one call holds of one kind.
    pairs = inside["parent"].to_numpy() * kinds
    pairs += inside["kind"].to_numpy()
    pairs.sort()
    runs, sizes = _count_runs(pairs)
    event, kind = np.divmod(runs, kinds)
    return pl.DataFrame({"event": event, "kind": kind, "held": sizes})


def list_underfull(damaged: pl.DataFrame, held: pl.DataFrame) -> pl.DataFrame:
    """Return the calls of logs that lost lines that lack rows which most calls of their name hold.

    Lines inside them were lost, and with them perhaps their exit and the next enter. Where few lines were lost, nearly
    all calls must hold what they lack: of a program's calls each may do another thing.

    Args:
        damaged: calls of files that lost lines: event, file, name, lost (the share of lines that lack).
        held: what they hold (`count_held`).
    """
    names, calls = number_groups(damaged, ["file", "name"])
    row = _rows_of(damaged, held["event"].to_numpy())
    kinds = int(held["kind"].max() or 0) + 1  # type: ignore[arg-type]
    pair = names[row] * kinds + held["kind"].to_numpy()
    holders = np.bincount(pair, minlength=len(calls) * kinds).reshape(-1, kinds)
    share = np.where(_lost_by(names, damaged, len(calls)) >= MANY_LOST, LOSSY_SHARE, _FEW_LACK)
    usual = holders > (share * np.bincount(names, minlength=len(calls)))[:, None]
    holds = np.bincount(row, weights=usual.ravel()[pair], minlength=len(damaged))
    return damaged.filter(pl.Series(holds < usual.sum(axis=1)[names])).select("event")


def list_overfull(damaged: pl.DataFrame, held: pl.DataFrame) -> pl.DataFrame:
    """Return the calls of logs that lost lines that hold more rows of a kind than is usual for their name.

    Args:
        damaged: calls of files that lost lines: event, name, lost (the share of lines that lack).
        held: what they hold (`count_held`).
    """
    names, calls = number_groups(damaged, ["name"])
    held = held.with_columns(pl.Series("name", names[_rows_of(damaged, held["event"].to_numpy())]))
    # So many calls of a name hold at least as many.
    as_many = count_groups(held, ["name", "kind", "held"]).rename({"total": "calls"}).sort("held", descending=True)
    as_many = as_many.with_columns(pl.col("calls").cum_sum().over("name", "kind"))
    total = np.bincount(names, minlength=len(calls))
    # Of the few calls that are left of a rare function one that is false is many.
    lost = _lost_by(names, damaged, len(calls))
    many = np.where(lost >= MOST_LOST, LOSSY_SHARE, USUAL_SHARE) * total
    few = np.minimum(np.maximum(_FEW_HOLD * total, _LEAST_ALIKE), many)
    most = pl.Series(np.where(lost >= MANY_LOST, many, few))
    rare = as_many.filter(pl.col("calls") < most.gather(as_many["name"]))
    if rare.is_empty():
        return held.select("event").clear()
    return held.join(rare, on=["name", "kind", "held"], how="semi").select("event").unique()


def _lost_by(names: Ints, damaged: pl.DataFrame, count: int) -> np.ndarray:
    """Return the highest share of lost lines (`lost`) of the calls of each name."""
    lost = np.zeros(count)
    np.maximum.at(lost, names, damaged["lost"].to_numpy())
    return lost


def _rows_of(damaged: pl.DataFrame, events: Ints) -> Ints:
    """Return the row of `damaged`, whose events rise, of each of some of its events."""
    return native.search_near(damaged["event"].to_numpy(), events)


def _count_runs(values: Ints) -> tuple[Ints, Ints]:
    """Return each of some sorted values once, and how often it is there."""
    first = np.flatnonzero(np.append(True, values[1:] != values[:-1])[: len(values)])
    return values[first], np.diff(np.append(first, len(values)))


def list_disordered(damaged: pl.DataFrame, inside: pl.DataFrame) -> pl.DataFrame:
    """Return the calls (event) that hold rows in an order in which hardly any other call of their name holds them.

    What counts is where a call holds the first row of each kind. Lost lines change no order.

    Args:
        damaged: calls of files that lost lines: event, name.
        inside: the rows in them, in the order of their lines, as `number_kinds` returns them.
    """
    if damaged.is_empty():
        return damaged.select("event")
    calls, kinds, starts = _list_first_kinds(inside["parent"].to_numpy(), inside["kind"].to_numpy())
    names = damaged.select(pl.col("name").cast(CAT))[_rows_of(damaged, calls)]
    # Many calls show few orders.
    numbers, first = _number_orders(names, kinds, starts)
    ends = np.append(starts, len(kinds))[first + 1]
    shown = [kinds[start:end].tolist() for start, end in zip(starts[first], ends, strict=True)]
    orders = pl.DataFrame({"kind": shown, "calls": np.bincount(numbers, minlength=len(first))}, schema=_ORDER)
    odd = _list_odd(orders.with_columns(names[first].to_series()).with_row_index("number"))["number"]
    return pl.DataFrame({"event": calls[np.isin(numbers, odd.to_numpy())]})


def _list_first_kinds(parents: Ints, kinds: Ints) -> tuple[Ints, Ints, Ints]:
    """Return the calls that hold rows, the kinds of the rows that each holds in the order of their first ones, and
    where those of each call begin.

    Args:
        parents, kinds: the call and the kind of each row.
    """
    pair = parents * (int(kinds.max(initial=0)) + 1) + kinds
    order = np.argsort(pair, kind="stable")
    is_first = np.empty(len(pair), dtype=np.bool_)
    is_first[order] = np.append(True, pair[order][1:] != pair[order][:-1])[: len(pair)]
    rows = np.flatnonzero(is_first)
    rows = rows[np.argsort(parents[rows], kind="stable")]
    starts = np.flatnonzero(np.append(True, parents[rows][1:] != parents[rows][:-1])[: len(rows)])
    return parents[rows[starts]], kinds[rows], starts


def _number_orders(names: pl.DataFrame, kinds: Ints, starts: Ints) -> tuple[Ints, Ints]:
    """Return a number of each call's name and order of kinds, and the first call of each number.

    Args:
        names: the name of each call.
        kinds, starts: as `_list_first_kinds` returns them.
    """
    sizes = np.diff(np.append(starts, len(kinds)))
    numbers, groups = number_groups(names.with_columns(size=sizes), ["name", "size"])
    # One kind after the other: calls whose orders are equal so far have one number.
    for place in range(int(sizes.max(initial=0))):
        longer = np.flatnonzero(sizes > place)
        pairs = pl.DataFrame({"number": numbers[longer], "kind": kinds[starts[longer] + place]})
        found, groups = number_groups(pairs, ["number", "kind"])
        numbers[longer] = int(numbers.max()) + 1 + found
    found, groups = number_groups(pl.DataFrame({"number": numbers}), ["number"])
    first = np.empty(len(groups), dtype=np.int64)
    first[found[::-1]] = np.arange(len(found) - 1, -1, -1)
    return found, first


def _list_odd(orders: pl.DataFrame) -> pl.DataFrame:
    """Return number of the orders in which two kinds of rows are the other way round than in nearly all calls."""
    rows = orders.explode("kind").with_columns(place=pl.int_range(pl.len()).over("number"))
    later = rows.select("number", after="kind", later="place")
    pairs = rows.join(later, on="number").filter(pl.col("place") < pl.col("later"))
    counts = pairs.group_by("name", "kind", "after").agg(calls=pl.col("calls").sum())
    both = counts.join(counts.select("name", kind="after", after="kind", others="calls"), on=["name", "kind", "after"])
    rare = both.filter(pl.col("calls") < _LEAST_SHARE * (pl.col("calls") + pl.col("others")))
    return pairs.join(rare, on=["name", "kind", "after"], how="semi").select("number").unique()
