"""Rows of large frames: found and filled by their number or their place in a file, without joining whole frames."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracecorr import native
from tracecorr.clock.bounds import Ints, Mask
from tracecorr.model.arrow import take_column
from tracecorr.model.kinds import PACKET_KINDS

# No file of a capture is that long (128 TiB), so file and offset fit one number.
_OFFSET_BITS = 47
_COUNTS = {"total": pl.UInt32, "marked": pl.UInt32}
# Numbers of groups, in the smallest type that holds them.
Codes = NDArray[np.integer[Any]]
# Which rows are packets in a ring; lines about queues are of layer `aql`, too.
IS_PACKET = (pl.col("layer") == "aql") & pl.col("name").is_in(PACKET_KINDS)


def attach_columns(frame: pl.DataFrame, found: pl.DataFrame, key: str = "event") -> pl.DataFrame:
    """Return `frame` with the columns of `found`, null in rows that `found` does not name.

    Args:
        frame: its row i is number i.
        found: one row per number that it names.
        key: column of `found` with the numbers.
    """
    names = [name for name in found.columns if name != key]
    if found.is_empty():
        return frame.with_columns(pl.lit(None, found.schema[name]).alias(name) for name in names)
    at = found[key].cast(pl.UInt32)
    return frame.with_columns(_place(found[name], at, frame.height) for name in names)


def _place(values: pl.Series, at: pl.Series, height: int) -> pl.Series:
    """Return a column with some values in their rows, and null in all others."""
    if not values.dtype.is_integer():
        return pl.repeat(None, height, dtype=values.dtype, eager=True).scatter(at, values).alias(values.name)
    return take_column(native.place_values(height, at.to_numpy(), values.to_arrow())).alias(values.name)


def fill_columns(frame: pl.DataFrame, found: pl.DataFrame, key: str = "event") -> pl.DataFrame:
    """Return `frame` with the values of `found` where its own are null; arguments as in `attach_columns`."""
    names = [name for name in found.columns if name != key]
    if found.is_empty():
        return frame
    added = attach_columns(pl.DataFrame(height=frame.height), found, key)
    return frame.with_columns(pl.coalesce(name, added[name]).alias(name) for name in names)


def attach_args(
    rows: pl.DataFrame, args: pl.DataFrame, keys: Sequence[str], value: pl.Expr | None = None, suffix: str = ""
) -> pl.DataFrame:
    """Return `rows` with a column for each of some named fields of their records, null where a record has none.

    Args:
        rows: columns file, offset.
        args: part args; a record has a field at most once.
        keys: the names of the fields.
        value: what is taken of a field; None = `u64`.
        suffix: of the names of the columns.
    """
    place = ["file", "offset"]
    taken = pl.col("u64") if value is None else value
    for key in keys:
        values = args.filter(pl.col("key") == key).select(*place, taken.alias(f"{key}{suffix}"))
        rows = rows.join(values, on=place, how="left", maintain_order="left")
    return rows


def fold_constants(frame: pl.DataFrame) -> pl.DataFrame:
    """Return `frame` with the columns that hold one value throughout as literals, which take no memory."""
    first = frame.head(1)
    return frame.with_columns(_as_literal(first[name]) for name in list_constants(frame))


def list_constants(frame: pl.DataFrame) -> list[str]:
    """Return the columns of numbers or categories that hold one value throughout; none of a frame without rows.

    What is asked of a literal as an expression makes no column of it.
    """
    if frame.is_empty():
        return []
    ends = frame.select(pl.col(name).first().eq_missing(pl.col(name).last()) for name in frame.columns)
    nulls = dict(zip(frame.columns, frame.null_count().row(0), strict=True))
    likely = [
        column.name for column in ends.iter_columns() if column.item() and nulls[column.name] in (0, frame.height)
    ]
    values = {name: pl.col(name).to_physical() for name in likely if not nulls[name]}
    alike = frame.select((value.min() == value.max()).alias(name) for name, value in values.items())
    return [name for name in likely if nulls[name] or alike[name].item()]


def append_rows(frame: pl.DataFrame, rows: pl.DataFrame) -> pl.DataFrame:
    """Return the rows of both, each column in one piece, or a literal where it holds one value throughout.

    A frame whose columns come in different pieces is copied by every look at one of them.

    Args:
        frame: many rows; it is taken apart meanwhile, so that only one column is in memory twice.
        rows: more of them, perhaps with more columns, which are null in the others.
    """
    many, own = frame.height, set(frame.columns)
    lacking = rows.clear(many).select(pl.all().exclude(own))
    joined = pl.DataFrame(height=many + rows.height)
    return joined.with_columns(
        fold_column(pl.concat([(frame if name in own else lacking).drop_in_place(name), rows[name]]))
        for name in rows.columns
    )


def fold_column(column: pl.Series) -> pl.Series | pl.Expr:
    """Return a column in one piece, or as a literal where it holds one value throughout: that takes no memory."""
    return _as_literal(column) if list_constants(column.to_frame()) else column.rechunk()


def _as_literal(column: pl.Series) -> pl.Expr:
    return pl.lit(column.first()).cast(column.dtype).alias(column.name)


def split_groups(codes: Codes, chosen: Mask) -> Iterator[tuple[int, Ints]]:
    """Yield the numbers of some groups, each with its rows in their order.

    Args:
        codes: the group of each row.
        chosen: which groups are wanted.
    """
    rows = np.flatnonzero(chosen[codes])
    order = rows[np.argsort(codes[rows], kind="stable")]
    starts = np.flatnonzero(np.append(True, np.diff(codes[order]) != 0)[: len(order)])
    for start, end in itertools.pairwise([*starts.tolist(), len(order)]):
        yield int(codes[order[start]]), order[start:end]


def select_source(records: pl.DataFrame, source: str, columns: Sequence[str]) -> pl.DataFrame:
    """Return these columns of the rows of one source; without a copy where all rows are."""
    return select_marked(records, pl.col("source") == source).select(columns)


def select_marked(frame: pl.DataFrame, mark: pl.Expr) -> pl.DataFrame:
    """Return the rows that are marked; without a copy where all are."""
    marked = frame.select(mark).to_series()
    return frame if marked.all() else frame.filter(marked)


def number_groups(frame: pl.DataFrame, keys: list[str]) -> tuple[Ints, pl.DataFrame]:
    """Return the number of the group that each row belongs to, and the groups in the order of their first rows.

    Meant for few groups and many rows. Null is a value like others.

    Args:
        frame: has at least the columns `keys`, numbers or categories.
        keys: what makes a group.
    """
    codes, first = number_rows(frame, keys)
    return codes.astype(np.int64), frame.select(keys)[first]


def list_groups(frame: pl.DataFrame, keys: list[str]) -> pl.DataFrame:
    """Return the groups that `number_groups` finds, in the order of their first rows."""
    _, first = number_rows(frame, keys)
    return frame.select(keys)[first]


def select_groups(frame: pl.DataFrame, keys: list[str], wanted: pl.DataFrame, *, chosen: bool = True) -> pl.DataFrame:
    """Return the rows of few groups that some other rows are of, too, or those that are of none of these.

    Args:
        frame, keys: as in `number_groups`; a row that has null among `keys` is of no group.
        wanted: rows with the columns `keys`.
        chosen: whether the rows that are of these groups are wanted.
    """
    if wanted.is_empty():
        return frame.clear() if chosen else frame
    codes, first = number_rows(frame, keys)
    groups = frame.select(keys)[first].with_columns(number=pl.int_range(len(first)))
    among = np.zeros(len(first), dtype=np.bool_)
    among[groups.join(wanted, on=keys, how="semi")["number"].to_numpy()] = True
    return frame.filter(pl.Series((among if chosen else ~among)[codes]))


def order_by_group(frame: pl.DataFrame, keys: list[str]) -> tuple[Ints, Codes, pl.DataFrame]:
    """Return the rows of `frame` group by group, each group's in their order; the group of each; and the groups.

    Args:
        frame, keys: as in `number_groups`.
    """
    codes, first = number_rows(frame, keys)
    # Few groups are sorted by counting.
    codes = codes.astype(np.min_scalar_type(len(first)), copy=False)
    order = np.argsort(codes, kind="stable")
    return order, codes[order], frame.select(keys)[first]


def count_groups(frame: pl.DataFrame, keys: list[str], mark: pl.Expr | None = None) -> pl.DataFrame:
    """Return the groups of `number_groups` with `total`, how many rows each has, and `marked`, how many of those.

    Args:
        frame, keys: as in `number_groups`.
        mark: true or false for each row; None = without `marked`.
    """
    codes, first = number_rows(frame, keys)
    marks = np.zeros(frame.height, dtype=np.bool_) if mark is None else frame.select(mark).to_series().to_numpy()
    total, marked = (np.bincount(some, minlength=len(first)) for some in (codes, codes[marks]))
    counted = pl.DataFrame({"total": total, "marked": marked}, schema=_COUNTS)
    groups = frame.select(keys)[first].with_columns(counted.get_columns())
    return groups.drop("marked") if mark is None else groups


def span_groups(frame: pl.DataFrame, keys: list[str], low: str, high: str) -> pl.DataFrame:
    """Return the groups of `number_groups` with `first`, the lowest value in `low`, and `last`, the highest in `high`.

    Args:
        frame, keys: as in `number_groups`.
        low, high: columns of numbers without nulls.
    """
    codes, first = number_rows(frame, keys)
    values = frame.select(code=pl.Series(codes), first=pl.col(low), last=pl.col(high))
    spans = values.group_by("code").agg(pl.min("first"), pl.max("last")).sort("code")
    return frame.select(keys)[first].with_columns(spans["first"], spans["last"])


def number_rows(frame: pl.DataFrame, keys: list[str]) -> tuple[Codes, Ints]:
    """Return the number of each row's group, and the first row of each group, in this order."""
    codes: Codes = np.zeros(frame.height, dtype=np.uint8)
    first: Ints = np.zeros(min(frame.height, 1), dtype=np.int64)
    constant = list_constants(frame.select(keys))
    for name in keys:
        if name not in constant and frame.height:
            codes, first = native.number_values(frame[name].to_physical().to_arrow(), codes)
    return codes, first


@dataclass(frozen=True)
class Places:
    """Find rows by file and offset of their record; of several with one place the first.

    Args:
        keys: places, sorted.
        rows: the row of each place.
    """

    keys: Ints
    rows: Ints

    @classmethod
    def of(cls, frame: pl.DataFrame, chosen: Mask | None = None) -> Places:
        """Return the places of the rows of `frame` (columns file, offset) that `chosen` selects; None for all."""
        places = frame.select("file", "offset")
        keys = _place_keys(places if chosen is None else places.filter(pl.Series(chosen)), "offset")
        rows = np.arange(frame.height) if chosen is None else np.flatnonzero(chosen)
        if (keys[1:] >= keys[:-1]).all():
            return cls(keys, rows)
        order = np.argsort(keys, kind="stable")
        return cls(keys[order], order if len(rows) == frame.height else rows[order])

    def find(self, frame: pl.DataFrame, offset: str = "offset") -> pl.Series:
        """Return the row that each row of `frame` names by its columns file and `offset`; null where there is none."""
        return take_column(native.find_rows(self.keys, self.rows, _place_keys(frame, offset)))


def _place_keys(frame: pl.DataFrame, offset: str) -> Ints:
    key = pl.col("file").cast(pl.Int64) * 2**_OFFSET_BITS + pl.col(offset)
    keys: Ints = frame.select(key.fill_null(-1)).to_series().to_numpy()
    return keys
