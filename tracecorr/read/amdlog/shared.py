"""A log that several processes wrote at once: the bytes of each are read as a log of their own.

Which process wrote which bytes the write calls of a trace tell (`link/writes`). Records that were cut into each other
are whole again in the log of their process; what is read keeps the offsets of the file.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import BinaryIO

import numpy as np
import polars as pl
from polars import selectors as cs

from tracecorr.model.parts import Block
from tracecorr.native import Ints

_CHUNK_BYTES = 16 << 20
_NEWLINE, _COLON = b"\n:"


def find_swaps(
    position: Ints, length: Ints, pids: Sequence[int], read_at: Callable[[int, int], bytes], size: int
) -> Ints:
    """Return the writes that landed behind the next one, though they began before it: two processes at once.

    A process that has a record open goes on with it, and begins a record where it has none: a write that does neither
    is swapped with its neighbour, if both then do.

    Args:
        position, length, pids: of the writes, in the order in which they began.
        read_at: gives bytes of the log.
        size: bytes of the log.
    """
    first, last = _read_ends(position, length, read_at, size)
    codes = np.unique(np.asarray(pids), return_inverse=True)[1]
    order = np.argsort(codes, kind="stable")
    is_first = np.append(True, codes[order][1:] != codes[order][:-1])
    before, after = np.full(len(codes), -1), np.full(len(codes), -1)
    before[order[1:]] = np.where(is_first[1:], -1, order[:-1])
    after[order[:-1]] = np.where(is_first[1:], -1, order[1:])
    open_before = (before >= 0) & (last[before] != _NEWLINE)
    odd = np.flatnonzero((first == _COLON) == open_before)
    # The write itself, or the one before it of its process, may be one of two that are swapped.
    ones = np.unique(np.concatenate([odd, odd - 1, before[odd], before[odd] - 1]))
    swaps: list[int] = []
    for one in ones[(ones >= 0) & (ones < len(codes) - 1)].tolist():
        two = one + 1
        if codes[one] == codes[two]:
            continue
        if position[one] + length[one] != position[two] or (swaps and swaps[-1] == one - 1):
            continue
        data = read_at(int(position[one]), int(length[one] + length[two]))
        pieces = {two: data[: length[two]], one: data[length[two] :]}
        if all(
            (piece[0] == _COLON) != open_before[write]
            and (after[write] < 0 or (first[after[write]] == _COLON) == (piece[-1] == _NEWLINE))
            for write, piece in pieces.items()
        ):
            swaps.append(one)
    return np.array(swaps, dtype=np.int64)


def _read_ends(position: Ints, length: Ints, read_at: Callable[[int, int], bytes], size: int) -> tuple[Ints, Ints]:
    """Return the first and the last byte of each write."""
    ends = []
    for places in (position, position + length - 1):
        found = np.zeros(len(places), dtype=np.int64)
        for start in range(0, size, _CHUNK_BYTES):
            own = slice(*np.searchsorted(places, [start, start + _CHUNK_BYTES]).tolist())
            data = np.frombuffer(read_at(start, min(_CHUNK_BYTES, size - start)), dtype=np.uint8)
            found[own] = data[places[own] - start]
        ends.append(found)
    return ends[0], ends[1]


@dataclass(frozen=True)
class SharedLog:
    """Hold which process wrote which bytes of a log.

    Args:
        starts: where each write begins, sorted, without gaps.
        ends: where it ends.
        writers: the code of its process, 0, 1, ...; the last one stands for bytes that no write explains.
    """

    starts: Ints
    ends: Ints
    writers: Ints

    @classmethod
    def of(cls, position: Ints, length: Ints, pids: Sequence[int], size: int) -> SharedLog:
        """Return what writes tell of a log: where each begins (sorted), its bytes, and its process."""
        codes = np.unique(np.asarray(pids), return_inverse=True)[1].astype(np.int64)
        unknown = int(codes.max()) + 1
        before = np.insert(position + length, 0, 0)
        gap = np.flatnonzero(np.append(position, size) > before)
        starts = np.concatenate([position, before[gap]])
        ends = np.concatenate([position + length, np.append(position, size)[gap]])
        writers = np.concatenate([codes, np.full(len(gap), unknown)])
        order = np.argsort(starts, kind="stable")
        return cls(starts[order], ends[order], writers[order])

    @property
    def count(self) -> int:
        """Return how many writers there are, with the unknown one."""
        return int(self.writers.max()) + 1

    def split(self, read_at: Callable[[int, int], bytes], outputs: Sequence[BinaryIO]) -> None:
        """Write the bytes of each writer to its output."""
        size = int(self.ends[-1])
        for start in range(0, size, _CHUNK_BYTES):
            stop = min(start + _CHUNK_BYTES, size)
            data = np.frombuffer(read_at(start, stop - start), dtype=np.uint8)
            first, last = np.searchsorted(self.starts, [start + 1, stop]).tolist()
            own = slice(first - 1, last)
            lengths = np.minimum(self.ends[own], stop) - np.maximum(self.starts[own], start)
            of_byte = np.repeat(self.writers[own].astype(np.uint16), lengths)
            for code in np.unique(of_byte).tolist():
                outputs[code].write(data[of_byte == code].tobytes())

    def restore(self, block: Block, writer: int) -> Block:
        """Return a block that was read from the bytes of one writer with the offsets of the file."""
        mine = self.writers == writer
        starts, lengths = self.starts[mine], (self.ends - self.starts)[mine]
        begins = np.cumsum(lengths) - lengths

        def place(offsets: pl.Series) -> pl.Series:
            at = offsets.fill_null(0).to_numpy()
            piece = np.maximum(np.searchsorted(begins, at, side="right") - 1, 0)
            places = pl.Series(offsets.name, starts[piece] + at - begins[piece])
            return places if not offsets.null_count() else places.set(offsets.is_null(), None)

        def move(frame: pl.DataFrame) -> pl.DataFrame:
            moved = frame.with_columns(place(column) for column in frame.select(cs.ends_with("offset")))
            spans = [
                (place(frame[offset] + frame[length].cast(pl.Int64) - 1) + 1 - moved[offset]).alias(length)
                for offset, length in (("offset", "length"), ("end_offset", "end_length"))
                if length in frame.columns
            ]
            return moved.with_columns(column.cast(frame.schema[column.name]) for column in spans)

        return Block(
            events=move(block.events), packets=move(block.packets), args=move(block.args), ledger=block.ledger,
            losses=block.losses,
        )  # fmt: skip
