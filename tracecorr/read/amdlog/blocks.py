"""Bytes to blocks of whole lines; a cut is made before a record."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from tracecorr.read.byte_text import PAD, Text, pad

# Calls are paired and tables made once for so many bytes.
BLOCK_BYTES = 16 << 20
_LONGEST_LINE = 64 << 20
# A run leaves hundreds of logs that are no longer than this; room for a whole block costs more than to read one.
_SHORT_LOG = 1 << 20
_NEWLINE = 10
_PADDING = len(pad())
# What is read at once; progress is reported in between.
_READ_BYTES = 1 << 20
# If no line begins like a record, a block is cut at any line.
_LOOK_AHEAD = 1 << 20


class LogBytes(Protocol):
    """Give the bytes of a log at any place: `bytes`, a mapped file, or what decompresses them."""

    def __len__(self) -> int:
        """Return how many there are."""

    def __getitem__(self, part: slice, /) -> bytes | bytearray:
        """Return some of them."""

    def find(self, text: bytes, start: int, end: int, /) -> int:
        """Return where a text begins first between two places; -1 = nowhere."""

    def rfind(self, text: bytes, start: int, end: int, /) -> int:
        """Return where a text begins last between two places; -1 = nowhere."""


class ByteStream(Protocol):
    """Give the bytes of a log one after the other, as binary files do."""

    def readinto(self, buffer: memoryview, /) -> int | None:
        """Put the next bytes into a buffer; return how many, 0 at the end."""


class BlockCutter:
    """Cut a stream into blocks that end at a line end; the cuts depend on the content only.

    Bytes are read to where they are looked at. The memory of a block is that of the next one, too.

    Args:
        stream: the decompressed bytes.
        size: about how many bytes a block has.
    """

    def __init__(self, stream: ByteStream, size: int) -> None:
        self._stream, self._size = stream, size
        self._data = pad(bytes(_SHORT_LOG))
        self._filled = PAD

    def read_head(self, size: int) -> bytes:
        """Return the first bytes, at most `_SHORT_LOG`; they are part of the first block, too."""
        while self._filled - PAD < size and self._fill():
            pass
        return bytes(self._data[PAD : min(PAD + size, self._filled)])

    def cut(self) -> Iterator[Text]:
        """Yield the blocks."""
        enough, goes_on = self._size, True
        while goes_on:
            goes_on = self._fill() > 0
            if goes_on and self._filled - PAD < enough:
                continue
            start = PAD
            while self._filled - start >= self._size:
                stop = _cut_at(self._data, start, self._filled, self._size)
                if not stop:
                    break
                ends_line = self._data[stop - 1] == _NEWLINE
                yield Text.within(self._data, start, stop) if ends_line else Text(self._data[start:stop])
                start = stop
            self._data[PAD : PAD + self._filled - start] = self._data[start : self._filled]
            self._filled -= start - PAD
            # A line longer than a block: look again when there is more of it.
            enough = self._size if self._filled - PAD < self._size else 2 * (self._filled - PAD)
        if self._filled > PAD:
            yield Text(self._data[PAD : self._filled])

    def _fill(self) -> int:
        """Read some more bytes; return how many."""
        end = len(self._data) - _PADDING + PAD
        if self._filled == end:
            # Room for a block, then twice as much, so that a very long line is not copied for each piece of it.
            room = max(self._filled, self._size + _LOOK_AHEAD - self._filled)
            # Not joined from parts: memory that was not written takes neither time nor room.
            grown = bytearray(self._filled - PAD + room + _PADDING)
            grown[PAD : self._filled] = memoryview(self._data)[PAD : self._filled]
            self._data, end = grown, len(grown) - _PADDING + PAD
        with memoryview(self._data) as data, data[self._filled : min(end, self._filled + _READ_BYTES)] as free:
            size = self._stream.readinto(free) or 0
        self._filled += size
        return size


def _cut_at(data: LogBytes, start: int, end: int, size: int) -> int:
    """Return where a block ends that begins at `start`; 0 = the data up to `end` does not show it yet.

    A block begins with a line that may be a record: what follows a record stays with it.
    """
    stop = min(start + size + 1, end)
    while (stop := data.rfind(b"\n:", start + 1, stop) + 1) > start + 1:
        if not _is_rest(data, stop):
            return stop
    stop = start + size
    while stop := data.find(b"\n:", stop, min(start + size + _LOOK_AHEAD, end)) + 1:
        if not _is_rest(data, stop):
            return stop
    if end - start < size + _LOOK_AHEAD:
        return 0
    stop = data.rfind(b"\n", start, start + size) + 1
    stop = stop or data.find(b"\n", start + size, min(start + _LONGEST_LINE, end)) + 1
    if not stop and end - start >= _LONGEST_LINE:
        stop = start + _LONGEST_LINE
    return stop


def _is_rest(data: LogBytes, start: int) -> bool:
    """Tell whether a line that begins with a colon is the rest of a record that a paste has wrapped."""
    return data[start + 1 : start + 2] == b" "


def find_borders(data: LogBytes, block_bytes: int) -> list[int]:
    """Return where the blocks of a whole log begin, and its size at the end: those that `BlockCutter` makes of it."""
    borders = [0]
    while len(data) - borders[-1] >= block_bytes:
        stop = _cut_at(data, borders[-1], len(data), block_bytes)
        if not stop:
            break
        borders.append(stop)
    return borders if borders[-1] == len(data) else [*borders, len(data)]
