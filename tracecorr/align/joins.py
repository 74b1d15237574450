"""Large frames put in order and joined: by numbers of events, or by what is near in time or place."""

from __future__ import annotations

import numpy as np
import polars as pl

from tracecorr.align.rows import number_rows
from tracecorr.native import search_near


def sort_rows(frame: pl.DataFrame, *keys: str) -> pl.DataFrame:
    """Return the rows in the order of some columns of numbers, equal ones in their own order.

    What is nearly in order, as rows of a log by place or time are, costs a part of what a frame's own sort takes.
    """
    columns = [frame[key] for key in reversed(keys)]
    if any(column.null_count() for column in columns):
        return frame.sort(keys, maintain_order=True)
    values = [column.to_numpy() for column in columns]
    order = np.argsort(values[0], kind="stable") if len(values) == 1 else np.lexsort(values)
    return frame if (order[1:] > order[:-1]).all() else frame[pl.Series(order.astype(np.uint32))]


def join_nearest(
    left: pl.DataFrame, right: pl.DataFrame, by: list[str], left_on: str, right_on: str,
    *, forward: bool = False, exact: bool = True,
) -> pl.DataFrame:  # fmt: skip
    """Return what `join_asof` does, which takes twice as long where both are many rows of many keys.

    Args:
        left, right: columns `by`, and others; `right` is in the order of `right_on`.
        by: what must be equal; null equals nothing.
        left_on, right_on: columns of numbers; the latter is left out where it has the name of the former.
        forward: whether the first row at or behind each is wanted, not the last one at or before it.
        exact: whether a row of `right` with the same number is one of these.
    """
    right = right.drop_nulls(right_on)
    if right.is_empty():
        # One row that nothing is near to.
        right = right.clear(1)
    keys = pl.concat([right.select(by), left.select(by)])
    (codes, first), count = number_rows(keys, by), right.height
    codes = codes.astype(np.min_scalar_type(len(first)), copy=False)
    own, other = codes[count:], codes[:count]
    numbers = left[left_on].fill_null(0).to_numpy()
    at = np.searchsorted(right[right_on].to_numpy(), numbers, side="left" if forward == exact else "right")
    # The rows of `right` key by key, and where each of `left` would stand among them.
    order, asked = np.argsort(other, kind="stable"), np.argsort(own, kind="stable")
    width = count + 1
    stood = other[order].astype(np.int64) * width + order
    stands = search_near(stood, own[asked].astype(np.int64) * width + at[asked]) - (not forward)
    near = np.clip(stands, 0, count - 1)
    hit = (stands == near) & (other[order[near]] == own[asked])
    hit &= left.select(pl.all_horizontal(pl.col(*by, left_on).is_not_null())).to_series().to_numpy()[asked]
    places, met = (pl.Series(side[hit].astype(np.uint32)) for side in (asked, order[near]))
    rows = pl.repeat(None, left.height, dtype=pl.UInt32, eager=True).scatter(places, met)
    more = right.drop(*by, *([right_on] if left_on == right_on else []))
    found = more.select(pl.all().gather(rows))
    return left.with_columns(column.alias(_free_name(column.name, left)) for column in found.iter_columns())


def _free_name(name: str, frame: pl.DataFrame) -> str:
    return f"{name}_right" if name in frame.columns else name


def select_rows(frame: pl.DataFrame, events: pl.Series, key: str = "event", *, chosen: bool = True) -> pl.DataFrame:
    """Return the rows of `frame` whose `key` is among some numbers of events, or those whose is not, in their order.

    Args:
        frame: its `key` holds numbers of events; null is none.
        events: numbers of events.
        chosen: whether the rows that are among them are wanted.
    """
    if events.is_empty() or frame.is_empty():
        return frame.clear() if chosen else frame
    keys = frame[key]
    most = max(events.max(), keys.max() or 0)  # type: ignore[type-var]
    among = np.zeros(int(most) + 1, dtype=np.bool_)  # type: ignore[arg-type]
    among[events.to_numpy()] = True
    found = among[keys.fill_null(0).to_numpy()]
    if keys.null_count():
        found &= keys.is_not_null().to_numpy()
    return frame.filter(pl.Series(found if chosen else ~found))
