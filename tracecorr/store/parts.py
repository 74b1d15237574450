"""The parts of a capture on disk: what each reader gave, before clocks and links."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain, groupby
from pathlib import Path

import polars as pl
import pyarrow.parquet as pq

from tracecorr.model import schema
from tracecorr.model.columns import fold_constant
from tracecorr.model.parts import Block
from tracecorr.store.parquet import FrameWriter

_TABLES = {"events": schema.PART_EVENTS, "packets": schema.PART_PACKETS, "args": schema.PART_ARGS}
_SOURCE = {"source": schema.CAT, "step_lo_ns": pl.Int64(), "step_hi_ns": pl.Int64()}
_SMALL = {"ledger": schema.LEDGER, "losses": schema.LOSSES, "hqd": schema.HQD, "polls": schema.PART_POLLS}
# Files of less than this are read at once: to open them for each column takes longer than to read them.
_SMALL_BYTES = 4 << 20


@dataclass
class StoredPart:
    """Name the files of one source, and hold its small tables.

    Args:
        paths: `events`, `packets` and `args` -> files, in the order of their rows.
        ledger, losses, hqd, polls: rows of these tables.
    """

    paths: dict[str, list[Path]]
    ledger: pl.DataFrame
    losses: pl.DataFrame
    hqd: pl.DataFrame
    polls: pl.DataFrame

    def read(self, name: str, columns: Sequence[str] = ()) -> pl.DataFrame:
        """Return the rows of `events`, `packets` or `args`; all columns where none are named."""
        table, wanted = _TABLES[name].schema, list(columns or _TABLES[name].schema)
        file = pl.scan_parquet(self.paths[name])
        held = file.collect_schema().keys()
        rows = pl.DataFrame(height=file.select(pl.len()).collect().item())
        # A file has no columns that its source never fills.
        absent = [pl.lit(None, table[column]).alias(column) for column in wanted if column not in held]
        present = [column for column in wanted if column in held]
        # What is read comes in pieces, and is put together in a copy: column by column, where both are large.
        small = sum(path.stat().st_size for path in self.paths[name]) < _SMALL_BYTES
        turns = [present] if small else [[column] for column in present]
        read = (_in_one_piece(c) for turn in turns for c in file.select(turn).collect().iter_columns())
        return rows.with_columns(chain(absent, read)).select(wanted)


@dataclass(frozen=True)
class SourcePart:
    """Hold what one reader gave.

    Args:
        source: one of `kinds.SOURCES`.
        steps_ns: how far the source's rounding puts the true time below and above a stamp.
        stored: its files.
    """

    source: str
    steps_ns: tuple[int, int]
    stored: StoredPart

    def read_events(self, columns: Sequence[str] = ()) -> pl.DataFrame:
        """Return rows of `part_events` with `source`, `step_lo_ns` and `step_hi_ns`."""
        values = {"source": self.source, "step_lo_ns": self.steps_ns[0], "step_hi_ns": self.steps_ns[1]}
        literals = [pl.lit(value).cast(_SOURCE[name]).alias(name) for name, value in values.items()]
        return self.stored.read("events", columns).with_columns(literals)


@dataclass
class Parts:
    """Read what the readers gave, of all files; what is large stays on disk until it is asked for.

    Args:
        each: one part per reader.
    """

    each: list[SourcePart] = field(default_factory=list)

    @cached_property
    def _runs(self) -> list[SourcePart]:
        """Return neighbours of one source as one: hundreds of processes leave as many small files."""
        runs = groupby(self.each, key=lambda part: (part.source, part.steps_ns))
        return [SourcePart(*key, _chain([part.stored for part in run])) for key, run in runs]

    def read_events(self, columns: Sequence[str] = ()) -> pl.DataFrame:
        """Return `part_events`, all columns where none are named, with `source`, `step_lo_ns` and `step_hi_ns`."""
        empty = schema.PART_EVENTS.empty().select(columns or pl.all())
        empty = empty.with_columns(pl.lit(None, dtype).alias(name) for name, dtype in _SOURCE.items())
        return _join([part.read_events(columns) for part in self._runs], empty)

    def read_packets(self, columns: Sequence[str] = ()) -> pl.DataFrame:
        """Return `part_packets`, all columns where none are named."""
        empty = schema.PART_PACKETS.empty().select(columns or pl.all())
        return _join([part.stored.read("packets", columns) for part in self._runs], empty)

    def count_events(self) -> int:
        """Return the number of rows of `part_events`."""
        files = [path for part in self.each for path in part.stored.paths["events"]]
        return sum(pq.read_metadata(path).num_rows for path in files)

    @cached_property
    def args(self) -> pl.DataFrame:
        """Return `part_args`."""
        return _join([part.stored.read("args") for part in self._runs], schema.PART_ARGS.empty())

    def small(self, name: str) -> pl.DataFrame:
        """Return `ledger`, `losses`, `hqd` or `polls`."""
        rows: list[pl.DataFrame] = [getattr(part.stored, name) for part in self.each]
        return pl.concat([_SMALL[name].empty(), *rows])


def _join(frames: list[pl.DataFrame], empty: pl.DataFrame) -> pl.DataFrame:
    filled = [frame for frame in frames if not frame.is_empty()]
    if len(filled) < 2:
        return filled[0] if filled else empty
    rows = pl.DataFrame(height=sum(frame.height for frame in filled))
    columns = filled[0].columns
    return rows.with_columns(_in_one_piece(pl.concat([f.drop_in_place(c) for f in filled])) for c in columns)


def _in_one_piece(column: pl.Series) -> pl.Series | pl.Expr:
    """Return a column in one piece, or as a literal if it holds one value throughout."""
    folded = fold_constant(column)
    return folded.rechunk() if isinstance(folded, pl.Series) else folded


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
        writers = {table: stack.enter_context(FrameWriter(path)) for table, path in paths.items()}
        for table, writer in writers.items():
            writer.write(_TABLES[table].empty())
        for block in blocks:
            for table, writer in writers.items():
                writer.write(block.table(table))
            for table, rows in small.items():
                if len(given := getattr(block, table)):
                    rows.append(given)
    stored = {table: [path] for table, path in paths.items()}
    return StoredPart(stored, **{table: pl.concat([_SMALL[table].empty(), *rows]) for table, rows in small.items()})


def join_parts(parts: Sequence[StoredPart], folder: Path, name: str) -> StoredPart:
    """Return several parts of one source as one; their files are moved to `folder`.

    Args:
        parts: in the order of the source.
        folder: exists, on the file system of the parts.
        name: `SOURCE-N`; the files become `SOURCE-N.0.parquet` and so on.

    Raises:
        OSError: the folder cannot be written.
    """
    paths: dict[str, list[Path]] = {table: [] for table in _TABLES}
    for number, part in enumerate(parts):
        for table, files in part.paths.items():
            for path in files:
                tail = path.name[path.name.index(".") :]
                paths[table].append(path.replace(folder / f"{name}.{number}{tail}"))
    return replace(_chain(parts), paths=paths)


def _chain(parts: Sequence[StoredPart]) -> StoredPart:
    """Return parts as one, where their files are."""
    if len(parts) == 1:
        return parts[0]
    paths = {table: [path for part in parts for path in part.paths[table]] for table in _TABLES}
    return StoredPart(paths, **{table: pl.concat([getattr(part, table) for part in parts]) for table in _SMALL})
