"""Columns of categories as `columns.FrameWriter` stores them: for each group of rows its texts, and their numbers."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from tracecorr.model.arrow import take_column
from tracecorr.model.columns import CAT


def read_categories(files: Sequence[pq.ParquetFile], name: str) -> pl.Series | pl.Expr:
    """Return a column of several files, one behind the other; as a literal where it holds one value throughout.

    Polars itself looks up the text of each row, which takes twice as long as all that is done here.

    Args:
        files: their rows are in the order of the column.
        name: the column.
    """
    groups = list(_read_groups(files, name))
    # As long as these are there, a category keeps its number.
    texts = pl.concat([pl.Series(dtype=pl.String), *(take_column(group.dictionary) for group in groups)]).cast(CAT)
    values = texts.unique()
    if values.is_empty() or (len(values) == 1 and not any(group.null_count for group in groups)):
        return pl.lit(values.first(), CAT).alias(name)
    bounds = itertools.accumulate((len(group.dictionary) for group in groups), initial=0)
    numbers = texts.to_physical().to_numpy()
    codes = [_number(group, numbers[a:b]) for group, (a, b) in zip(groups, itertools.pairwise(bounds), strict=True)]
    return pl.concat(codes).rechunk().cat.to(CAT).alias(name)


def _read_groups(files: Sequence[pq.ParquetFile], name: str) -> Iterator[pa.DictionaryArray]:
    for file in files:
        for number in range(file.num_row_groups):
            yield from file.read_row_group(number, [name], use_threads=False).column(0).chunks


def _number(group: pa.DictionaryArray, numbers: npt.NDArray[np.uint32]) -> pl.Series:
    """Return the number of each row's category, given those of the group's texts."""
    indices, count = group.indices, len(group)
    if not len(numbers):
        return pl.repeat(None, count, dtype=pl.UInt32, eager=True)
    valid, places = indices.buffers()
    at = np.frombuffer(places, np.int32, indices.offset + count)
    # Where a row is null any number may stand.
    taken = pa.py_buffer(numbers.take(at, mode="clip"))
    return take_column(pa.Array.from_buffers(pa.uint32(), count, [valid, taken], indices.null_count, indices.offset))
