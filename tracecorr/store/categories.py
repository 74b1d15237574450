"""Columns of categories as `columns.FrameWriter` stores them: for each group of rows its texts, and their numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from tracecorr.model.columns import CAT


def read_categories(files: Sequence[pq.ParquetFile], name: str) -> pl.Series | pl.Expr:
    """Return a column of several files, one behind the other; as a literal where it holds one value throughout.

    Polars itself looks up the text of each row, which takes twice as long as all that is done here.

    Args:
        files: their rows are in the order of the column.
        name: the column.
    """
    # As long as these are there, a category keeps its number.
    texts, codes = [pl.Series(dtype=CAT)], [pl.Series(dtype=CAT).to_physical()]
    for group in _read_groups(files, name):
        texts.append(_list_texts(group))
        codes.append(_number(group, texts[-1].to_physical()))
    values, some = pl.concat(texts).unique(), any(part.null_count() for part in codes)
    if values.is_empty() or (len(values) == 1 and not some):
        return pl.lit(values.first(), CAT).alias(name)
    return pl.concat(codes).rechunk().cat.to(CAT).alias(name)


def _read_groups(files: Sequence[pq.ParquetFile], name: str) -> Iterator[pa.DictionaryArray]:
    for file in files:
        for number in range(file.num_row_groups):
            yield from file.read_row_group(number, [name], use_threads=False).column(0).chunks


def _list_texts(group: pa.DictionaryArray) -> pl.Series:
    texts: pl.Series = pl.from_arrow(group.dictionary)  # type: ignore[assignment]
    return texts.cast(CAT)


def _number(group: pa.DictionaryArray, numbers: pl.Series) -> pl.Series:
    """Return the number of each row's category, given those of the group's texts."""
    indices, count = group.indices, len(group)
    if numbers.is_empty():
        return pl.repeat(None, count, dtype=numbers.dtype, eager=True)
    valid, places = indices.buffers()
    at = np.frombuffer(places, np.int32, indices.offset + count)
    # Where a row is null any number may stand.
    taken = pa.py_buffer(numbers.to_numpy().take(at, mode="clip"))
    kind = numbers.to_frame().to_arrow().schema.field(0).type
    codes: pl.Series = pl.from_arrow(  # type: ignore[assignment]
        pa.Array.from_buffers(kind, count, [valid, taken], indices.null_count, indices.offset)
    )
    return codes
