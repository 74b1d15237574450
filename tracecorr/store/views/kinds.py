"""Kinds of drawn things: the few combinations of values that decide lane, name and style of millions of rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from tracecorr.store.views.levels import I32, I64

_MAX_TABLE = 1 << 22  # entries of a table of codes
_SLICE_ROWS = 1 << 18


class Kinds:
    """Number the distinct combinations of some columns, frame after frame.

    Numbers are provisional until all frames were added: `settle` gives the final ones.

    Example:
        >>> kinds = Kinds(["depth"])
        >>> kinds.add(pl.DataFrame({"depth": [7, 7, None]})).tolist(), kinds.add(pl.DataFrame({"depth": [7]})).tolist()
        ([1, 1, 0], [2])
        >>> distinct, number = kinds.settle()
        >>> distinct["depth"].to_list(), number.tolist()
        ([None, 7], [0, 1, 1])
    """

    def __init__(self, columns: Sequence[str]) -> None:
        """Start without any.

        Args:
            columns: numbers or categories.
        """
        self._columns = list(columns)
        self._found: list[pl.DataFrame] = []
        self._count = 0

    def add(self, rows: pl.DataFrame) -> I32:
        """Return the provisional number of the combination of each row."""
        parts = [self._add(rows.head(0)), *(self._add(part) for part in rows.iter_slices(_SLICE_ROWS))]
        return np.concatenate(parts)

    def _add(self, rows: pl.DataFrame) -> I32:
        code, size = np.zeros(rows.height, np.int64), 1
        for column in self._columns:
            numbers, most = _number(rows[column].to_physical())
            if not most:
                continue
            if size * (most + 1) > _MAX_TABLE:
                code, size = _dense(code)
            code = code * (most + 1) + numbers
            size *= most + 1
        code, size = _dense(code)
        example = np.zeros(size, np.int64)
        example[code] = np.arange(rows.height)
        self._found.append(rows.select(self._columns)[example])
        self._count += size
        return (code + (self._count - size)).astype(np.int32)

    def settle(self) -> tuple[pl.DataFrame, I32]:
        """Return the distinct combinations, and the final number of each provisional one."""
        every = pl.concat(self._found)  # one frame at least, for its columns
        distinct = every.unique(maintain_order=True).with_row_index("kind")
        joined = every.join(distinct, on=self._columns, how="left", nulls_equal=True, maintain_order="left")
        return distinct.drop("kind"), joined["kind"].to_numpy().astype(np.int32)


def _number(values: pl.Series) -> tuple[I64, int]:
    """Return small numbers for the values, and the largest of them; 0 stands for all when they are equal."""
    if values.null_count() == len(values):
        return np.zeros(0, np.int64), 0
    least = int(values.min())  # type: ignore[arg-type]
    if values.null_count():
        least -= 1
        values = values.cast(pl.Int64).fill_null(least)
    numbers = values.to_numpy().astype(np.int64) - least
    return numbers, int(numbers.max())


def _dense(code: I64) -> tuple[I64, int]:
    """Return the codes renumbered from 0 without gaps, and how many there are."""
    most = int(code.max(initial=-1)) + 1
    if most > _MAX_TABLE:
        found, number = np.unique(code, return_inverse=True)
        return number.astype(np.int64), len(found)
    seen = np.zeros(most, bool)
    seen[code] = True
    place = np.cumsum(seen)
    return (place - 1)[code], int(place[-1]) if most else 0
