"""Compressed raw files in the seekable format of zstd: any byte of them is one small frame away.

The file is a row of zstd frames, each of at most `FRAME_BYTES` decompressed, and at its end a skippable frame with
the sizes of all (zstd 1.5, contrib/seekable_format). Every zstd tool reads it. A file whose writer was killed has no
such table and perhaps a torn frame at its end: then the frames are found by walking over their block headers
(RFC 8878, section 3.1.1). A skippable frame of `MARK` tells where the file that was followed began anew.
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

from tracecorr.model.errors import InputError, explain_unread
from tracecorr.store.space import reserve_space

SUFFIX = ".zst"
MAGIC = b"\x28\xb5\x2f\xfd"
FRAME_BYTES = 4 << 20
# Of a skippable frame of our own.
MARK = 0x184D2A51
# Level 1 is as small as level 3 on HIP logs at four fifths of its time, and four times faster than level 5.
_LEVEL = 1
# Magic numbers and headers of frames and blocks (RFC 8878), and of the table of the seekable format (zstd, contrib).
_SKIPPABLE, _SKIPPABLE_MASK, _TABLE = 0x184D2A50, 0xFFFFFFF0, 0x184D2A5E
_SEEKABLE = 0x8F92EAB1
_HEADER, _ENTRY, _FOOTER, _OFFSET = (
    struct.Struct("<II"),
    struct.Struct("<II"),
    struct.Struct("<IBI"),
    struct.Struct("<Q"),
)
_HAS_CHECKSUMS, _CHECKSUM_BYTES = 0x80, 4
_LARGEST_HEADER, _BLOCK_HEADER = 18, 3
_RLE = 1


@dataclass
class FrameTable:
    """Sizes of the frames of a file, compressed and decompressed, and where its source began anew."""

    sizes: list[tuple[int, int]] = field(default_factory=list)
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

    def __init__(self, descriptor: int, table: FrameTable | None = None) -> None:
        self.descriptor = descriptor
        self.table = table or FrameTable()
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
        os.ftruncate(descriptor, table.stored)
        return cls(descriptor, table)

    def append(self, data: bytes) -> None:
        """Write `data` as one frame.

        Raises:
            OSError: the disk took none of it; the file is as it was before.
        """
        self._write(self._compressor.compress(data), len(data))
        self.size += len(data)

    def mark_begin(self) -> None:
        """Note that the file which is followed begins anew here."""
        self._write(_HEADER.pack(MARK, _OFFSET.size) + _OFFSET.pack(self.size), 0)
        self.table.begins = self.size

    def reserve(self, size: int) -> bool:
        """Have the file system keep space for the next `size` bytes; return False where the disk is full."""
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
        entries = b"".join(_ENTRY.pack(*sizes) for sizes in self.table.sizes)
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
            self._table = read_table(descriptor) or (FrameTable() if growing else None)
        if self._table is None:
            raise self._damage("it holds something else than zstd frames with known sizes")
        self._stored = [0, *accumulate(stored for stored, _ in self._table.sizes)]
        self._offsets = [0, *accumulate(size for _, size in self._table.sizes)]
        self._frame = lru_cache(maxsize=4)(self._decompress)

    @property
    def size(self) -> int:
        """Return the decompressed bytes of the file."""
        return self._offsets[-1]

    @property
    def begins(self) -> int:
        """Return the offset from which on the file that was followed begins anew."""
        assert self._table is not None
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
            start = self._offsets[number]
            pieces.append(self._frame(number)[max(offset - start, 0) : end - start])
            number += 1
        return b"".join(pieces)

    def read_all(self) -> Iterator[bytes]:
        """Yield the decompressed frames one after the other.

        Raises:
            InputError: the file is damaged.
        """
        for number, (_, size) in enumerate(self._table.sizes if self._table else ()):
            if size:
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
            descriptor = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise explain_unread(self._path, error) from error
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    def _damage(self, why: str) -> InputError:
        return InputError(f"cannot decompress {self._path}: {why}", "the zstd data is damaged; copy the file again")


def read_table(descriptor: int) -> FrameTable | None:
    """Return the frames of a file from its table, or by walking where it has none; None for anything else."""
    size = os.fstat(descriptor).st_size
    table = _read_stored_table(descriptor, size)
    if table is None:
        table = _walk(descriptor, size)
        if size and not table.sizes:
            return None
    return table


def _read_stored_table(descriptor: int, size: int) -> FrameTable | None:
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
    table = FrameTable(sizes)
    fits = _HEADER.unpack_from(data) == (_TABLE, length - _HEADER.size) and table.stored + length == size
    return table if fits and all(large <= 2 * FRAME_BYTES for _, large in sizes) else None


def _walk(descriptor: int, size: int) -> FrameTable:
    """Return the whole frames from the beginning on; ends at the table, at a torn frame, or at anything else."""
    table, at = FrameTable(), 0
    while at < size:
        head = os.pread(descriptor, _LARGEST_HEADER, at)
        if len(head) >= _HEADER.size and _HEADER.unpack_from(head)[0] & _SKIPPABLE_MASK == _SKIPPABLE:
            magic, length = _HEADER.unpack_from(head)
            end, content = at + _HEADER.size + length, 0
            if magic == _TABLE or end > size:
                break
            if magic == MARK and length == _OFFSET.size and len(head) >= _HEADER.size + length:
                table.begins = int(_OFFSET.unpack_from(head, _HEADER.size)[0])
        else:
            found = _find_frame_end(descriptor, at, head, size)
            if found is None:
                break
            end, content = found
        table.sizes.append((end - at, content))
        at = end
    return table


def _find_frame_end(descriptor: int, at: int, head: bytes, size: int) -> tuple[int, int] | None:
    """Return where the frame at `at` ends and its decompressed bytes; None where it is torn or has no such size."""
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


def _is_whole(descriptor: int, table: FrameTable) -> bool:
    """Tell whether the last frame can be decompressed; a crash of the machine may leave zeros in it."""
    stored, size = table.sizes[-1]
    frame = os.pread(descriptor, stored, table.stored - stored)
    if not size:
        return True
    try:
        return len(zstandard.ZstdDecompressor().decompress(frame, max_output_size=size)) == size
    except zstandard.ZstdError:
        return False
