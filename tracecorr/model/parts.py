"""What every reader yields: one block of a source, ready to be stored."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache

import polars as pl
import pyarrow as pa

from tracecorr.model import schema

_TABLES = {"events": schema.PART_EVENTS, "packets": schema.PART_PACKETS, "args": schema.PART_ARGS}


@dataclass
class Block:
    """Hold the rows that one block of a source gave.

    Args:
        events: rows of `schema.PART_EVENTS`.
        packets: rows of `schema.PART_PACKETS` (AMD log only).
        args: rows of `schema.PART_ARGS`.
        ledger: rows of `schema.LEDGER`; the rows of all blocks of a file add up to its size.
        losses: rows of `schema.LOSSES`, on the source's clock.
        hqd: rows of `schema.HQD` (dumps of the KFD only).
        polls: rows of `schema.PART_POLLS` (polled values of sysfs only).
    """

    events: pl.DataFrame = field(default_factory=schema.PART_EVENTS.empty)
    packets: pl.DataFrame = field(default_factory=schema.PART_PACKETS.empty)
    args: pl.DataFrame = field(default_factory=schema.PART_ARGS.empty)
    ledger: pl.DataFrame = field(default_factory=schema.LEDGER.empty)
    losses: pl.DataFrame = field(default_factory=schema.LOSSES.empty)
    hqd: pl.DataFrame = field(default_factory=schema.HQD.empty)
    polls: pl.DataFrame = field(default_factory=schema.PART_POLLS.empty)

    def table(self, name: str) -> pl.DataFrame | pa.Table:
        """Return the rows of a table as the reader made them."""
        rows: pl.DataFrame = getattr(self, name)
        return rows


class ArrowBlock(Block):
    """Hold one block of a fast reader: Arrow tables, which are stored as they are; they become frames when asked for.

    Args:
        tables: `events`, `packets` and `args`, of the types that `arrow_types` tells; columns may be missing.
        ledger, losses: rows of these tables.
    """

    def __init__(self, tables: dict[str, pa.Table], ledger: pl.DataFrame, losses: pl.DataFrame) -> None:
        self._tables = tables
        self.ledger, self.losses = ledger, losses
        self.hqd, self.polls = schema.HQD.empty(), schema.PART_POLLS.empty()

    def __getattr__(self, name: str) -> pl.DataFrame:
        """Return a table as a frame; it is made when it is asked for first."""
        if name not in _TABLES:
            raise AttributeError(name)
        given = pl.from_arrow(self._tables[name])
        assert isinstance(given, pl.DataFrame)
        frame = _TABLES[name].conform(given)
        setattr(self, name, frame)
        return frame

    def table(self, name: str) -> pl.DataFrame | pa.Table:
        """Return the rows of a table as the reader made them."""
        return self._tables[name] if name in self._tables else super().table(name)


# Of this type alone the writer of parts takes the codes as they are; polars has 64-bit texts.
_ARROW_CODES = pa.dictionary(pa.int32(), pa.string())


@cache
def arrow_types(table: schema.Table) -> dict[str, pa.DataType]:
    """Return the Arrow types of the columns of a table."""
    fields = table.empty().to_arrow().schema
    return {f.name: _ARROW_CODES if pa.types.is_dictionary(f.type) else f.type for f in fields}
