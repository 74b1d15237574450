"""Kinds of drawn things: the few combinations of values that decide lane, name and style of millions of rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from tracecorr.timeline.levels import I32

# So many rows at once: the arrays of more would not fit the cache.
_SLICE_ROWS = 1 << 18


class Kinds:
    """Number the distinct combinations of some columns, frame after frame.

    Numbers are provisional until all frames were added: `settle` gives the final ones.

    Example:
        >>> kinds = Kinds(["depth"])
        >>> kinds.add(pl.DataFrame({"depth": [7, 7, None]})).tolist(), kinds.add(pl.DataFrame({"depth": [7]})).tolist()
        ([0, 0, 1], [2])
        >>> distinct, number = kinds.settle()
        >>> distinct["depth"].to_list(), number.tolist()
        ([7, None], [0, 1, 0])
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
        groups = rows.with_row_index("_row").group_by(self._columns, maintain_order=True).agg("_row")
        code = np.empty(rows.height, np.int32)
        placed = groups.select(pl.col("_row"), code=pl.int_range(pl.len(), dtype=pl.Int32)).explode("_row")
        code[placed["_row"].to_numpy()] = placed["code"].to_numpy() + self._count
        self._found.append(groups.drop("_row"))
        self._count += groups.height
        return code

    def settle(self) -> tuple[pl.DataFrame, I32]:
        """Return the distinct combinations, and the final number of each provisional one."""
        every = pl.concat(self._found)  # one frame at least, for its columns
        distinct = every.unique(maintain_order=True).with_row_index("kind")
        joined = every.join(distinct, on=self._columns, how="left", nulls_equal=True, maintain_order="left")
        return distinct.drop("kind"), joined["kind"].to_numpy().astype(np.int32)
