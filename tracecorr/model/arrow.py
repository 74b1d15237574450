"""Columns that arrow made, as columns of polars."""

from __future__ import annotations

from typing import Any

import polars as pl
import pyarrow as pa


def take_column(array: pa.Array) -> pl.Series:
    """Return an array of arrow as a column without a name; its memory is shared.

    `polars.from_arrow` would import what arrow computes with, which takes some 40 ms, to look at chunks that an array
    does not have (polars 2.1).
    """
    return pl.Series(_Exported(array))


class _Exported:
    """Show of an array no more than the interface that all libraries of arrow's columns have."""

    def __init__(self, array: pa.Array) -> None:
        self._array = array

    def __arrow_c_array__(self, requested_schema: object | None = None) -> Any:
        """Return the array as two capsules of its type and its memory."""
        return self._array.__arrow_c_array__(requested_schema)
