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
from tracecorr.read.byte_text import Mask

_CHUNK_BYTES = 16 << 20
_NEWLINE, _COLON = b"\n:"


@dataclass(frozen=True)
class _Order:
    """Say of writes of several processes at once which landed in another order than they began.

    Args:
        swapped: writes that landed behind the next one, as the content of the log tells.
        unsure: writes that may have done so.
    """

    swapped: Ints
    unsure: Ints


def find_order(
    position: Ints, length: Ints, pids: Sequence[int], at_once: Mask, read_at: Callable[[int, int], bytes], size: int
) -> _Order:
    """Return which writes landed behind the next one.

    A process that has a record open goes on with it, and begins a record where it has none: only an order in which both
    writes do so is possible.

    Args:
        position, length, pids: of the writes, in the order in which they began.
        at_once: whether each was not over when the next one began.
        read_at: gives bytes of the log.
        size: bytes of the log.
    """
    codes = np.unique(np.asarray(pids), return_inverse=True)[1]
    ends = position + length
    first, last = (_read_bytes(places, read_at, size) for places in (position, ends - 1))
    before, after = _list_neighbours(codes)
    is_open = (before >= 0) & (last[before] != _NEWLINE)
    pairs = np.flatnonzero(at_once[:-1] & (codes[:-1] != codes[1:]) & (ends[:-1] == position[1:]))
    middle = position[pairs] + length[pairs + 1]
    middle_last, middle_first = (_read_bytes(places, read_at, size) for places in (middle - 1, middle))

    def fits(write: Ints, begin: Ints, end: Ints) -> Mask:
        """Tell whether writes that begin and end with some bytes go on where their process was, and it behind them."""
        follows = (first[after[write]] == _COLON) == (end == _NEWLINE)
        found: Mask = ((begin == _COLON) != is_open[write]) & (follows | (after[write] < 0))
        return found

    one, two = pairs, pairs + 1
    kept = fits(one, first[one], last[one]) & fits(two, first[two], last[two])
    swapped = fits(two, first[one], middle_last) & fits(one, middle_first, last[two])
    # A pair of more than two at once shows nothing.
    group = np.cumsum(np.append(True, ~at_once[:-1]))[one]
    many = np.bincount(group)[group] > 1
    return _Order(one[swapped & ~kept & ~many], one[(swapped == kept) | many])


def _list_neighbours(codes: Ints) -> tuple[Ints, Ints]:
    """Return the writes of the same process before and after each; -1 = none."""
    order = np.argsort(codes, kind="stable")
    same = codes[order][1:] == codes[order][:-1]
    before, after = np.full(len(codes), -1), np.full(len(codes), -1)
    before[order[1:]] = np.where(same, order[:-1], -1)
    after[order[:-1]] = np.where(same, order[1:], -1)
    return before, after


def _read_bytes(places: Ints, read_at: Callable[[int, int], bytes], size: int) -> Ints:
    """Return the byte of the log at each place; places are sorted, or nearly so."""
    found = np.zeros(len(places), dtype=np.int64)
    order = np.argsort(places, kind="stable")
    ordered = places[order]
    for start in range(0, size, _CHUNK_BYTES):
        own = slice(*np.searchsorted(ordered, [start, start + _CHUNK_BYTES]).tolist())
        data = np.frombuffer(read_at(start, min(_CHUNK_BYTES, size - start)), dtype=np.uint8)
        found[order[own]] = data[ordered[own] - start]
    return found


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
        # If bytes are missing in the log, the places of two writes may touch.
        ends = np.minimum(np.maximum.accumulate(position + length), size)
        position = np.maximum(position, np.append(0, ends[:-1]))
        length = ends - position
        position, length, codes = position[length > 0], length[length > 0], codes[length > 0]
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
