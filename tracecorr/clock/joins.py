"""Large frames put in order and joined: by numbers of events, or by what is near in time or place."""

from __future__ import annotations

import numpy as np
import polars as pl

from tracecorr.clock.rows import number_rows
from tracecorr.model.arrow import take_column
from tracecorr.native import find_near


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
    more = right.drop(*by, *([right_on] if left_on == right_on else []))
    if right.is_empty():
        return _add_columns(left, more.clear(left.height))
    (codes, first), count = number_rows(pl.concat([right.select(by), left.select(by)]), by), right.height
    asked = left.select(pl.all_horizontal(pl.col(*by, left_on).is_not_null())).to_series().to_numpy()
    near = find_near(
        codes[count:], left[left_on].fill_null(0).to_numpy(), asked, codes[:count], right[right_on].to_numpy(),
        len(first), forward=forward, exact=exact,
    )  # fmt: skip
    return _add_columns(left, more.select(pl.all().gather(take_column(near))))


def _add_columns(left: pl.DataFrame, found: pl.DataFrame) -> pl.DataFrame:
    names = ((name, f"{name}_right" if name in left.columns else name) for name in found.columns)
    return left.with_columns(found[name].alias(free) for name, free in names)


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
