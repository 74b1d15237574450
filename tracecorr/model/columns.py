"""What a table is made of: columns with type, unit and meaning; expressions that tell packets, calls and failures."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import polars as pl

from tracecorr.model.kinds import NOT_YET, NUMBER, PACKET_KINDS, SUCCEEDED, Flag

if TYPE_CHECKING:
    import pyarrow as pa

CAT = pl.Categorical()
_Frame = TypeVar("_Frame", pl.DataFrame, pl.LazyFrame)


@dataclass(frozen=True)
class Column:
    """Describe one column: its name, type, unit and meaning."""

    name: str
    dtype: pl.DataType | type[pl.DataType]
    meaning: str
    unit: str = ""


@dataclass(frozen=True, eq=False)
class Table:
    """Describe one table: its name, what a row is, and its columns; each is one of its kind."""

    name: str
    row: str
    columns: tuple[Column, ...]

    @cached_property
    def schema(self) -> pl.Schema:
        """Return the polars schema of the table."""
        return pl.Schema({c.name: c.dtype for c in self.columns})

    def empty(self) -> pl.DataFrame:
        """Return the table without rows."""
        return self._empty.clone()

    @cached_property
    def _empty(self) -> pl.DataFrame:
        return pl.DataFrame(schema=self.schema)

    def conform(self, frame: _Frame) -> _Frame:
        """Return `frame` with exactly the columns of the table: missing ones null, types cast.

        A number that its column cannot hold becomes null.

        Raises:
            ValueError: `frame` has a column that the table does not know.
        """
        given = frame.collect_schema().names()
        foreign = set(given) - set(self.schema)
        if foreign:
            raise ValueError(f"table {self.name} has no column {sorted(foreign)}")
        return frame.select(
            (pl.col(c.name).cast(c.dtype, strict=False) if c.name in given else pl.lit(None, c.dtype)).alias(c.name)
            for c in self.columns
        )

    def take(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Return `frame` with exactly the columns of the table, in its order and of its types.

        Raises:
            polars.exceptions.ColumnNotFoundError: `frame` does not have one of them.
        """
        same = frame.schema == self.schema
        return frame if same else frame.select(self.schema.names()).cast(self.schema)


def fold_constant(column: pl.Series) -> pl.Series | pl.Expr:
    """Return a column as a literal if it holds one value throughout: that takes no memory."""
    if column.null_count() == len(column):
        return pl.lit(column.first() if len(column) else None).cast(column.dtype).alias(column.name)
    if (column.dtype.is_integer() or column.dtype == CAT) and not column.null_count():
        codes = column.to_physical()
        if codes.min() == codes.max():
            return pl.lit(column.first()).cast(column.dtype).alias(column.name)
    return column


def columns_of(*rows: tuple[object, ...]) -> tuple[Column, ...]:
    """Return columns from rows of name, type, meaning and, where there is one, unit."""
    return tuple(Column(*row) for row in rows)  # type: ignore[arg-type]


I64, U64, U32, U16, I32 = pl.Int64, pl.UInt64, pl.UInt32, pl.UInt16, pl.Int32

LOCATION = columns_of(
    ("file", U16, "key of `files`: the raw file behind the row"),
    ("offset", I64, "first byte of the (enter) record in the decompressed file", "bytes"),
    ("length", U32, "length of that record without its line end", "bytes"),
    ("end_offset", I64, "first byte of the exit record; null when there is none", "bytes"),
    ("end_length", U32, "length of the exit record", "bytes"),
)


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


# Which rows are packets in a ring; lines about queues are of layer `aql`, too.
IS_PACKET = (pl.col("layer") == "aql") & pl.col("name").is_in(PACKET_KINDS)
# What the names of calls that make a stream begin with.
STREAM_MAKERS = ("hipStreamCreate", "hipExtStreamCreate")


def is_counted() -> pl.Expr:
    """Tell of rows with `flags` whether each is the one that counts of its call; never null.

    Example:
        >>> pl.DataFrame({"flags": [None, 0, 512, 1024, 1536]}).select(is_counted()).to_series().to_list()
        [True, True, True, False, False]
    """
    return pl.col("flags").fill_null(0) & int(Flag.TWIN) == 0


def is_failed(result: pl.Expr) -> pl.Expr:
    """Tell of results (strings, as in `events.result`) whether they are known and a failure; never null.

    Example:
        >>> results = ["hipErrorNotFound", "HIPRTC_ERROR_COMPILATION", "EINVAL"]
        >>> pl.select(is_failed(pl.lit(pl.Series(results)))).to_series().to_list()
        [True, True, True]
        >>> results = ["hipSuccess", "hipErrorNotReady", "ERESTART_RESTARTBLOCK", "0", "12", "0x7f00", None]
        >>> pl.select(is_failed(pl.lit(pl.Series(results)))).to_series().any()
        False
    """
    fine = result.is_in([*SUCCEEDED, *NOT_YET]) | result.str.contains(NUMBER)
    return (~fine).fill_null(value=False)


def makes_stream(name: pl.Expr) -> pl.Expr:
    """Tell of names (categories) whether such a call makes a stream."""
    return pl.any_horizontal(name.cat.starts_with(maker) for maker in STREAM_MAKERS)


def is_internal(name: pl.Expr) -> pl.Expr:
    """Tell of names (strings) whether no program calls such a function by name; also of none.

    The log names a function inside HIP when it is entered (`ihipLaunchKernel`), or only when it returns an error
    (`hipStreamSynchronize_common`, of 7.2).

    Example:
        >>> names = ["hipMalloc", "hipMemcpy_spt", "ihipLaunchKernel", "hipMemcpyToSymbol_common", None]
        >>> pl.select(is_internal(pl.lit(pl.Series(names)))).to_series().to_list()
        [False, False, True, True, True]
    """
    return (~name.str.starts_with("hip") | name.str.ends_with("_common")).fill_null(value=True)
