"""Compressed raw files in the seekable format of zstd: any byte of them is one small frame away.

The file is a row of zstd frames, each of at most `FRAME_BYTES` decompressed, and at its end a skippable frame with
the sizes of all (zstd 1.5, contrib/seekable_format). Every zstd tool reads it. A file whose writer was killed has no
such table and perhaps a torn frame at its end: then the frames are found by walking over their block headers
(RFC 8878, section 3.1.1). A skippable frame of `_MARK` tells where the file that was followed began again. One of
`_HOLE` stands for the zeros of a hole of a sparse file, so that a hole of a terabyte costs 16 bytes: offsets behind it
are those of the file; other zstd tools leave out its zeros.
"""

from __future__ import annotations

import errno
import os
import struct
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import accumulate
from pathlib import Path

import zstandard

from tracecorr.model.checksum import Checksum
from tracecorr.model.errors import InputError, explain_unread
from tracecorr.store.space import find_hole, open_regular, reserve_space

SUFFIX = ".zst"
MAGIC = b"\x28\xb5\x2f\xfd"
FRAME_BYTES = 4 << 20
# Of skippable frames of our own: 8 bytes follow, a place or a length.
_MARK, _HOLE = 0x184D2A51, 0x184D2A52
# Level 1 is as small as level 3 on HIP logs at four fifths of its time, and four times faster than level 5.
_LEVEL = 1
# Magic numbers and headers of frames and blocks (RFC 8878), and of the table of the seekable format (zstd, contrib).
_SKIPPABLE, _SKIPPABLE_MASK, _TABLE = 0x184D2A50, 0xFFFFFFF0, 0x184D2A5E
_SEEKABLE = 0x8F92EAB1
_HEADER, _ENTRY, _FOOTER, _PLACE = (
    struct.Struct("<II"),
    struct.Struct("<II"),
    struct.Struct("<IBI"),
    struct.Struct("<Q"),
)
_HAS_CHECKSUMS, _CHECKSUM_BYTES = 0x80, 4
_LARGEST_HEADER, _BLOCK_HEADER = 18, 3
_LARGEST_FILE = 1 << 60
_RLE = 1


@dataclass
class _FrameTable:
    """Sizes of the frames of a file, compressed and decompressed, which of them are holes, and where its source began.

    A hole has the size of its zeros here; in the stored table, of 32 bits, it has 0.
    """

    sizes: list[tuple[int, int]] = field(default_factory=list)
    holes: set[int] = field(default_factory=set)
    begins: int = 0

    @property
    def stored(self) -> int:
        """Return the bytes of all frames in the file."""
        return sum(stored for stored, _ in self.sizes)

    @property
    def size(self) -> int:
        """Return the decompressed bytes."""
        return sum(size for _, size in self.sizes)


class FrameWriter:
    """Write a compressed file frame by frame; what a failed or killed write leaves is cut off.

    Args:
        descriptor: the file, open for reading and writing; closed by `close`.
        table: the frames that are in it; what lies behind them is dropped.
    """

    def __init__(self, descriptor: int, table: _FrameTable | None = None) -> None:
        self.descriptor = descriptor
        self.table = table or _FrameTable()
        self.size, self._end = self.table.size, self.table.stored
        self._compressor = zstandard.ZstdCompressor(level=_LEVEL, write_checksum=True)

    @classmethod
    def create(cls, path: Path) -> FrameWriter:
        """Make a new file."""
        return cls(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644))

    @classmethod
    def reopen(cls, path: Path) -> FrameWriter:
        """Open a file whose writer was killed; a torn frame at its end is dropped."""
        descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        table = _walk(descriptor, os.fstat(descriptor).st_size)
        while table.sizes and not _is_whole(descriptor, table):
            table.sizes.pop()
            table.holes.discard(len(table.sizes))
        os.ftruncate(descriptor, table.stored)
        return cls(descriptor, table)

    def append(self, data: bytes) -> None:
        """Write `data` as one frame.

        Raises:
            OSError: the disk took none of it; the file is as it was before.
        """
        self._write(self._compressor.compress(data), len(data))
        self.size += len(data)

    def append_hole(self, size: int) -> None:
        """Note that the next `size` bytes are zeros that are not stored.

        Raises:
            OSError: the disk is full; the file is as it was before.
        """
        self._write(_HEADER.pack(_HOLE, _PLACE.size) + _PLACE.pack(size), size)
        self.table.holes.add(len(self.table.sizes) - 1)
        self.size += size

    def append_from(self, source: int, offset: int, end: int, checksum: Checksum | None = None) -> int:
        """Write the next frame, or the next hole, of a file; return where in the file it ends.

        A frame of a longer rest ends with a line end, so that it can be read without its neighbour.

        Args:
            source: descriptor of a regular file, which may be sparse and may still grow.
            offset: where to go on in it.
            end: how far it may be read.
            checksum: gets what is stored; of a hole nothing.

        Raises:
            OSError: the file cannot be read, or the disk is full; what was written before stays whole.
        """
        hole, data_at = find_hole(source, offset)
        if hole == offset < end:
            self.append_hole(min(data_at, end) - offset)
            return min(data_at, end)
        stop = min(end, hole)
        data = os.pread(source, min(FRAME_BYTES, stop - offset), offset)
        if stop - offset >= FRAME_BYTES:
            data = data[: data.rfind(b"\n") + 1] or data
        if data:
            self.append(data)
            if checksum:
                checksum.update(data)
        return offset + len(data)

    def mark_begin(self) -> None:
        """Note that the file which is followed begins again here."""
        self._write(_HEADER.pack(_MARK, _PLACE.size) + _PLACE.pack(self.size), 0)
        self.table.begins = self.size

    def reserve(self, size: int) -> bool:
        """Have the file system keep space for the next `size` bytes; return False if the disk is full."""
        try:
            reserve_space(self.descriptor, self._end, size)
        except OSError as error:
            return error.errno not in (errno.ENOSPC, errno.EDQUOT)
        return True

    def sync(self) -> None:
        """Wait until all frames are on the disk."""
        os.fdatasync(self.descriptor)

    def finish(self) -> None:
        """Write the table and close the file."""
        sizes = (
            (stored, 0 if number in self.table.holes else size)
            for number, (stored, size) in enumerate(self.table.sizes)
        )
        entries = b"".join(_ENTRY.pack(*each) for each in sizes)
        footer = _FOOTER.pack(len(self.table.sizes), 0, _SEEKABLE)
        count, end = len(self.table.sizes), self._end
        self._write(_HEADER.pack(_TABLE, len(entries) + len(footer)) + entries + footer, 0)
        del self.table.sizes[count:]
        os.ftruncate(self.descriptor, self._end)
        self._end = end
        self.close()

    def close(self) -> None:
        """Let go of the file."""
        os.close(self.descriptor)

    def _write(self, frame: bytes, size: int) -> None:
        try:
            written = 0
            while written < len(frame):
                written += os.pwrite(self.descriptor, frame[written:], self._end + written)
        except OSError:
            os.ftruncate(self.descriptor, self._end)
            raise
        self.table.sizes.append((len(frame), size))
        self._end += len(frame)


class FrameReader:
    """Read a compressed file at any place.

    Args:
        path: the file.
        growing: whether its writer may be at work, or was killed: then it may hold nothing but a torn frame.

    Raises:
        InputError: the file is missing, unreadable, or holds no such frames.
    """

    def __init__(self, path: Path, *, growing: bool = False) -> None:
        self._path = path
        with self._open() as descriptor:
            table = _read_table(descriptor) or (_FrameTable() if growing else None)
        if table is None:
            raise self._damage("it is not a sequence of zstd frames with known sizes")
        self._table = table
        self._stored = [0, *accumulate(stored for stored, _ in self._table.sizes)]
        self._offsets = [0, *accumulate(size for _, size in self._table.sizes)]
        self._frame = lru_cache(maxsize=4)(self._decompress)

    @property
    def size(self) -> int:
        """Return the decompressed bytes of the file."""
        return self._offsets[-1]

    @property
    def has_holes(self) -> bool:
        """Tell whether zeros of holes are left out."""
        return bool(self._table.holes)

    @property
    def begins(self) -> int:
        """Return the offset from which on the file that was followed begins again."""
        return self._table.begins

    def read(self, offset: int, length: int) -> bytes:
        """Return up to `length` decompressed bytes from `offset` on.

        Raises:
            InputError: the file is damaged there.
        """
        end = min(offset + length, self.size)
        pieces = []
        number = max(bisect_right(self._offsets, offset) - 1, 0)
        while number < len(self._offsets) - 1 and self._offsets[number] < end:
            first, last = max(offset, self._offsets[number]), min(end, self._offsets[number + 1])
            start = self._offsets[number]
            is_hole = number in self._table.holes
            pieces.append(bytes(last - first) if is_hole else self._frame(number)[first - start : last - start])
            number += 1
        return b"".join(pieces)

    def read_all(self) -> Iterator[bytes | int]:
        """Yield the decompressed frames one after the other; of a hole its size.

        Raises:
            InputError: the file is damaged.
        """
        for number, (_, size) in enumerate(self._table.sizes):
            if number in self._table.holes:
                yield size
            elif size:
                yield self._decompress(number)

    def _decompress(self, number: int) -> bytes:
        start, end = self._stored[number], self._stored[number + 1]
        size = self._offsets[number + 1] - self._offsets[number]
        if not size:
            return b""
        with self._open() as descriptor:
            frame = os.pread(descriptor, end - start, start)
        try:
            data = zstandard.ZstdDecompressor().decompress(frame, max_output_size=size)
        except zstandard.ZstdError as error:
            raise self._damage(str(error)) from error
        if len(data) != size:
            raise self._damage(f"a frame has {len(data)} bytes, its table says {size}")
        return data

    @contextmanager
    def _open(self) -> Iterator[int]:
        try:
            descriptor = open_regular(self._path)
        except OSError as error:
            raise explain_unread(self._path, error) from error
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    def _damage(self, why: str) -> InputError:
        return InputError(f"cannot decompress {self._path}: {why}", "the zstd data is damaged; copy the file again")


def begins_frames(head: bytes) -> bool:
    """Tell whether the first four bytes of a file are those of zstd: of a frame, or of a skippable one of our own."""
    return head == MAGIC or int.from_bytes(head, "little") in (_MARK, _HOLE, _TABLE)


def is_seekable(descriptor: int) -> bool:
    """Tell whether a file of zstd is one of small frames with known sizes from end to end, as this tool writes them."""
    size = os.fstat(descriptor).st_size
    table = _read_stored_table(descriptor, size)
    return table is not None or (size > 0 and _walk(descriptor, size).stored == size)


def _read_table(descriptor: int) -> _FrameTable | None:
    """Return the frames of a file from its table, or by walking where it has none; None for anything else."""
    size = os.fstat(descriptor).st_size
    table = _read_stored_table(descriptor, size)
    if table is None:
        table = _walk(descriptor, size)
        if size and not table.sizes:
            return None
    return table


def _read_stored_table(descriptor: int, size: int) -> _FrameTable | None:
    tail = os.pread(descriptor, _FOOTER.size, max(size - _FOOTER.size, 0))
    if len(tail) < _FOOTER.size:
        return None
    count, flags, magic = _FOOTER.unpack(tail)
    entry = _ENTRY.size + (_CHECKSUM_BYTES if flags & _HAS_CHECKSUMS else 0)
    length = _HEADER.size + count * entry + _FOOTER.size
    if magic != _SEEKABLE or length > size:
        return None
    data = os.pread(descriptor, length, size - length)
    sizes = [_ENTRY.unpack_from(data, _HEADER.size + number * entry) for number in range(count)]
    table = _FrameTable(sizes)
    fits = _HEADER.unpack_from(data) == (_TABLE, length - _HEADER.size) and table.stored + length == size
    if not fits or any(large > 2 * FRAME_BYTES for _, large in sizes):
        return None
    _read_own_frames(descriptor, table)
    return table


def _read_own_frames(descriptor: int, table: _FrameTable) -> None:
    """Complete a stored table by what our own skippable frames say."""
    at = 0
    for number, (stored, size) in enumerate(table.sizes):
        if not size and stored == _HEADER.size + _PLACE.size:
            _read_own_frame(os.pread(descriptor, stored, at), number, stored, table)
        at += stored


def _read_own_frame(frame: bytes, number: int, stored: int, table: _FrameTable) -> int:
    """Note in the table what a skippable frame says; return the decompressed bytes that it stands for."""
    if len(frame) < _HEADER.size + _PLACE.size or _HEADER.unpack_from(frame)[1] != _PLACE.size:
        return 0
    magic, place = _HEADER.unpack_from(frame)[0], int(_PLACE.unpack_from(frame, _HEADER.size)[0])
    if magic == _MARK:
        table.begins = place
    if magic != _HOLE or place > _LARGEST_FILE:
        return 0
    table.holes.add(number)
    if number < len(table.sizes):
        table.sizes[number] = (stored, place)
    return place


def _walk(descriptor: int, size: int) -> _FrameTable:
    """Return the whole frames from the beginning on; ends at the table, at a torn frame, or at anything else."""
    table, at = _FrameTable(), 0
    while at < size:
        head = os.pread(descriptor, _LARGEST_HEADER, at)
        if len(head) >= _HEADER.size and _HEADER.unpack_from(head)[0] & _SKIPPABLE_MASK == _SKIPPABLE:
            magic, length = _HEADER.unpack_from(head)
            end = at + _HEADER.size + length
            if magic == _TABLE or end > size:
                break
            content = _read_own_frame(head, len(table.sizes), end - at, table)
        else:
            found = _find_frame_end(descriptor, at, head, size)
            if found is None:
                break
            end, content = found
        table.sizes.append((end - at, content))
        at = end
    return table


def _find_frame_end(descriptor: int, at: int, head: bytes, size: int) -> tuple[int, int] | None:
    """Return where the frame at `at` ends and its decompressed bytes; None if it is torn or has no such size."""
    try:
        facts = zstandard.get_frame_parameters(head)
        at += zstandard.frame_header_size(head)
    except zstandard.ZstdError:
        return None
    if facts.content_size > 2 * FRAME_BYTES:
        return None
    while True:
        header = os.pread(descriptor, _BLOCK_HEADER, at)
        if len(header) < _BLOCK_HEADER:
            return None
        word = int.from_bytes(header, "little")
        at += _BLOCK_HEADER + (1 if word >> 1 & 3 == _RLE else word >> 3)
        if word & 1:
            break
    at += _CHECKSUM_BYTES if facts.has_checksum else 0
    return (at, facts.content_size) if at <= size else None


def _is_whole(descriptor: int, table: _FrameTable) -> bool:
    """Tell whether the last frame can be decompressed; a crash of the machine may leave zeros in it."""
    stored, size = table.sizes[-1]
    if not size or len(table.sizes) - 1 in table.holes:
        return True
    frame = os.pread(descriptor, stored, table.stored - stored)
    try:
        return len(zstandard.ZstdDecompressor().decompress(frame, max_output_size=size)) == size
    except zstandard.ZstdError:
        return False
