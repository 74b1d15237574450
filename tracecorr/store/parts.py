"""The parts of a capture on disk: what each reader gave, before clocks and links."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from tracecorr.model import schema
from tracecorr.model.parts import Block
from tracecorr.store.columns import FrameWriter

_TABLES = {"events": schema.PART_EVENTS, "packets": schema.PART_PACKETS, "args": schema.PART_ARGS}
_SMALL = {"ledger": schema.LEDGER, "losses": schema.LOSSES, "hqd": schema.HQD, "polls": schema.PART_POLLS}


@dataclass
class StoredPart:
    """Name the files of one source, and hold its small tables.

    Args:
        paths: `events`, `packets` and `args` -> file.
        ledger, losses, hqd, polls: rows of these tables.
    """

    paths: dict[str, Path]
    ledger: pl.DataFrame
    losses: pl.DataFrame
    hqd: pl.DataFrame
    polls: pl.DataFrame

    def read(self, name: str) -> pl.DataFrame:
        """Return all rows of `events`, `packets` or `args`."""
        frame = pl.read_parquet(self.paths[name])
        rows = pl.DataFrame(height=frame.height)
        # Column by column: what is read comes in pieces, and is put together in a copy.
        return rows.with_columns(_in_one_piece(frame.drop_in_place(column)) for column in frame.columns)


def _in_one_piece(column: pl.Series) -> pl.Series | pl.Expr:
    # A source leaves many columns empty; as literals they take no memory, whatever is done to their frame.
    empty = column.null_count() == len(column)
    return pl.lit(None, column.dtype).alias(column.name) if empty else column.rechunk()


def write_part(folder: Path, name: str, blocks: Iterator[Block]) -> StoredPart:
    """Write the blocks of a reader to `folder`, one after the other.

    Args:
        folder: exists.
        name: `SOURCE-N`; the events go to `SOURCE-N.parquet`, the others to `SOURCE-N.packets.parquet` and so on.
        blocks: what the reader yields.

    Raises:
        OSError: the folder cannot be written.
    """
    names = {"events": f"{name}.parquet", "packets": f"{name}.packets.parquet", "args": f"{name}.args.parquet"}
    paths = {table: folder / file for table, file in names.items()}
    small: dict[str, list[pl.DataFrame]] = {table: [] for table in _SMALL}
    with ExitStack() as stack:
        writers = {table: stack.enter_context(FrameWriter(path, statistics=False)) for table, path in paths.items()}
        for table, writer in writers.items():
            writer.write(_TABLES[table].empty())
        for block in blocks:
            for table, writer in writers.items():
                writer.write(getattr(block, table))
            for table, rows in small.items():
                rows.append(getattr(block, table))
    return StoredPart(paths, **{table: pl.concat([_SMALL[table].empty(), *rows]) for table, rows in small.items()})
