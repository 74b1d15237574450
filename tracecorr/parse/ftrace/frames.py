"""Frames of the part tables.

`schema.Table.schema` asks polars for a Schema with the class `Categorical`, which polars 2.1 refuses
("dtypes must be fully-specified"); these helpers use an instance and need only `Table.columns`.
They can go, in favour of `Table.empty` and `Table.conform`, once the schema uses an instance too.
"""

from __future__ import annotations

import polars as pl

from tracecorr.model import schema
from tracecorr.model.parts import Block


def dtypes(table: schema.Table) -> dict[str, pl.DataType | type[pl.DataType]]:
    """Return the columns of `table` and their types."""
    return {c.name: pl.Categorical() if c.dtype is pl.Categorical else c.dtype for c in table.columns}


def empty(table: schema.Table) -> pl.DataFrame:
    """Return `table` without rows."""
    return pl.DataFrame(schema=dtypes(table))


def conform(table: schema.Table, frame: pl.DataFrame) -> pl.DataFrame:
    """Return `frame` with exactly the columns of `table`: missing ones null, types cast."""
    return frame.select(
        (pl.col(name).cast(dtype) if name in frame.columns else pl.lit(None, dtype)).alias(name)
        for name, dtype in dtypes(table).items()
    )


def block_of(**frames: pl.DataFrame) -> Block:
    """Return a block with `frames`; those not given are empty."""
    tables = {"events": schema.PART_EVENTS, "packets": schema.PART_PACKETS, "args": schema.PART_ARGS,
              "ledger": schema.LEDGER, "losses": schema.LOSSES}  # fmt: skip
    return Block(**{name: frames[name] if name in frames else empty(table) for name, table in tables.items()})
