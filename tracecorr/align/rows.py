"""Rows of large frames: found and filled by their number or their place in a file, without joining whole frames."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from tracecorr.align.bounds import Ints, Mask
from tracecorr.model.kinds import PACKET_KINDS

# No file of a capture is that long (128 TiB), so file and offset fit one number.
_OFFSET_BITS = 47
# Values that lie so near each other are numbered by a table of all between them.
_NEAR = 2**20
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
    place = np.full(frame.height, found.height, dtype=np.uint32)
    place[found[key].to_numpy()] = np.arange(found.height, dtype=np.uint32)
    gathered = pl.Series(place)
    return frame.with_columns(found[name].extend_constant(None, 1).gather(gathered) for name in names)


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
    return frame.with_columns(_fold(column) for column in frame.iter_columns())


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
        _fold(pl.concat([(frame if name in own else lacking).drop_in_place(name), rows[name]]).rechunk())
        for name in rows.columns
    )


def _fold(column: pl.Series) -> pl.Series | pl.Expr:
    return pl.lit(column.first()).cast(column.dtype).alias(column.name) if _is_one(column) else column


def _is_one(column: pl.Series) -> bool:
    """Tell whether a column of numbers or categories has rows, and all of them are equal."""
    nulls, values = column.null_count(), column.to_physical()
    if not len(column) or 0 < nulls < len(column) or values[0] != values[-1]:
        return False
    return nulls > 0 or values.min() == values.max()


def select_source(records: pl.DataFrame, source: str, columns: Sequence[str]) -> pl.DataFrame:
    """Return these columns of the rows of one source; without a copy where all rows are."""
    own = records["source"] == source
    return records.select(columns) if own.all() else records.select(columns).filter(own)


def number_groups(frame: pl.DataFrame, keys: list[str]) -> tuple[Ints, pl.DataFrame]:
    """Return the number of the group that each row belongs to, and the groups in the order of their first rows.

    Meant for few groups and many rows. Null is a value like others.

    Args:
        frame: has at least the columns `keys`, numbers or categories.
        keys: what makes a group.
    """
    codes, count = np.zeros(frame.height, dtype=np.int64), int(frame.height > 0)
    for name in keys:
        own, values = _number_values(frame[name].to_physical())
        if values > 1:
            codes, count = (own, values) if count == 1 else _narrow(codes * values + own)
    first = np.empty(count, dtype=np.int64)
    # Of several rows that write to one place the last one stays.
    first[codes[::-1]] = np.arange(frame.height - 1, -1, -1)
    order = np.argsort(first)
    rank = np.empty(count, dtype=np.int64)
    rank[order] = np.arange(count)
    return rank[codes], frame.select(keys)[first[order]]


def order_by_group(frame: pl.DataFrame, keys: list[str]) -> tuple[Ints, Ints, pl.DataFrame]:
    """Return the rows of `frame` group by group, each group's in their order; the group of each; and the groups.

    Args:
        frame, keys: as in `number_groups`.
    """
    codes, groups = number_groups(frame, keys)
    # Few groups are sorted by counting.
    order = np.argsort(codes.astype(np.uint16) if len(groups) < 2**16 else codes, kind="stable")
    return order, codes[order], groups


def _number_values(column: pl.Series) -> tuple[Ints, int]:
    """Return the number of each value of a column among its values, null as the last of them, and how many they are."""
    null = column.null_count() > 0
    low, high = column.min(), column.max()
    if low is None or (low == high and not null):
        return np.zeros(len(column), dtype=np.int64), int(len(column) > 0)
    filled = column.fill_null(low).to_numpy()
    if int(high) - int(low) < _NEAR:  # type: ignore[arg-type]
        codes, count = _narrow((filled - filled.dtype.type(low)).astype(np.int64))
    else:
        values = column.unique().drop_nulls().sort().to_numpy()
        codes, count = np.searchsorted(values, filled), len(values)
    return (np.where(column.is_null().to_numpy(), count, codes), count + 1) if null else (codes, count)


def _narrow(codes: Ints) -> tuple[Ints, int]:
    """Return each code's number among those that occur, and how many they are."""
    size = int(codes.max(initial=-1)) + 1
    if size > max(_NEAR, 4 * len(codes)):
        values, numbers = np.unique(codes, return_inverse=True)
        return numbers, len(values)
    seen = np.zeros(size, dtype=np.bool_)
    seen[codes] = True
    return (np.cumsum(seen) - 1)[codes], int(seen.sum())


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
        rows = np.arange(frame.height) if chosen is None else np.flatnonzero(chosen)
        places = frame.select("file", "offset")
        keys = _place_keys(places if chosen is None else places.filter(pl.Series(chosen)), "offset")
        order = np.argsort(keys, kind="stable")
        return cls(keys[order], rows[order])

    def find(self, frame: pl.DataFrame, offset: str = "offset") -> pl.Series:
        """Return the row that each row of `frame` names by its columns file and `offset`; null where there is none."""
        wanted = _place_keys(frame, offset)
        at = np.minimum(np.searchsorted(self.keys, wanted), max(len(self.keys) - 1, 0))
        hit = (self.keys[at] == wanted) & (wanted >= 0) if len(self.keys) else np.zeros(len(wanted), dtype=np.bool_)
        rows = self.rows[at] if len(self.keys) else np.full(len(wanted), -1)
        return _with_nulls(rows, hit)


def _place_keys(frame: pl.DataFrame, offset: str) -> Ints:
    key = pl.col("file").cast(pl.Int64) * 2**_OFFSET_BITS + pl.col(offset)
    keys: Ints = frame.select(key.fill_null(-1)).to_series().to_numpy()
    return keys


def _with_nulls(values: Ints, valid: Mask) -> pl.Series:
    return pl.DataFrame({"v": values, "m": valid}).select(pl.when("m").then("v")).to_series()
