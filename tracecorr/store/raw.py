"""The raw side of a capture: copy files in, read their bytes back."""

from __future__ import annotations

import fcntl
import gzip
import json
import os
import sqlite3
import threading
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import IO, Any
from urllib.parse import quote

import zstandard

from tracecorr.model.checksum import Checksum
from tracecorr.model.errors import InputError, explain_unread
from tracecorr.store import zstd_frames
from tracecorr.store.ownership import make_folder, replace_file
from tracecorr.store.space import find_hole, open_regular, reserve_space
from tracecorr.store.zstd_frames import FRAME_BYTES, FrameReader, FrameWriter

_CHUNK_BYTES = 1 << 20
# Number of the ioctl of linux/fs.h that shares blocks (Linux 4.5).
_FICLONE = 0x40049409
_GZIP_MAGIC = b"\x1f\x8b"
_DAMAGES = (EOFError, zlib.error, zstandard.ZstdError, gzip.BadGzipFile)
# A piece of this size becomes 128 MiB at most: four bytes of zstd can stand for a block of 128 KiB.
_PACKED_PIECE = 4 << 10
# So much stays in the cache of a CPU between its reading, its checksum and its writing.
_COPIED_PIECE = 256 << 10
# Of a hole so many zeros are read, so that a reader sees it.
SHOWN_BYTES = 4096
# Logs and traces shrink to a fifth to a sixtieth; what was made to fill memory or disk, to a thousandth.
_MOST_GROWTH, _GROWTH_FROM = 200, 64 << 20
_STANDARD_INPUT = Path("-")
# Bytes, or the size of a hole.
_Piece = bytes | memoryview | int


def find_compression(path: Path) -> str | None:
    """Return how a file is compressed, by its content: `gzip`, `zstd`, or `frames` that can be read at any place.

    Binary pages (`.bin`) begin with a time, which may be anything: they are never compressed.

    Raises:
        OSError: the file cannot be read.
    """
    if path.suffix == ".bin":
        return None
    descriptor = open_regular(path)
    try:
        magic = os.pread(descriptor, len(zstd_frames.MAGIC), 0)
        if magic.startswith(_GZIP_MAGIC):
            return "gzip"
        if not zstd_frames.begins_frames(magic):
            return None
        return "frames" if zstd_frames.is_seekable(descriptor) else "zstd"
    finally:
        os.close(descriptor)


def _refuse_stream(path: Path) -> None:
    """Refuse standard input, pipes and devices: files are looked at before they are read.

    Raises:
        InputError: `path` is no file that can be read twice.
    """
    if path == _STANDARD_INPUT if not path.exists() else not (path.is_file() or path.is_dir()):
        name = "standard input" if path == _STANDARD_INPUT else path
        raise InputError(f"{name} is no regular file: it cannot be read twice", "write its contents to a file first")


def _read_pieces(path: Path, piece_bytes: int = _COPIED_PIECE) -> Iterator[_Piece]:
    """Yield the decompressed bytes of a file; of a hole its size. The memory of a piece is that of the next one, too.

    Raises:
        InputError: the file cannot be read, or its compressed data is damaged, or was made to fill memory.
    """
    _refuse_stream(path)
    try:
        compression = find_compression(path)
        if compression == "frames":
            yield from FrameReader(path).read_all()
        elif compression:
            yield from _unpack(path, compression)
        else:
            yield from _read_plain(path, piece_bytes)
    except _DAMAGES as error:
        raise InputError(
            f"cannot decompress {path}: {error}", f"the {compression} data is damaged; copy the file again"
        ) from error
    except OSError as error:
        raise explain_unread(path, error) from error


def _read_plain(path: Path, piece_bytes: int) -> Iterator[memoryview | int]:
    buffer = memoryview(bytearray(piece_bytes))
    descriptor = open_regular(path)
    try:
        at = 0
        while True:
            hole, data = find_hole(descriptor, at)
            while at < hole and (size := os.preadv(descriptor, [buffer[: hole - at]], at)):
                yield buffer[:size]
                at += size
            if at < hole or hole == data:
                return
            yield data - hole
            at = data
    finally:
        os.close(descriptor)


def _unpack(path: Path, compression: str) -> Iterator[bytes]:
    """Yield pieces of the decompressed bytes of a gzip or zstd file.

    Raises:
        EOFError: the data ends early.
        InputError: it becomes so much larger as no log or trace does.
    """
    with os.fdopen(open_regular(path), "rb") as stream:
        size = 0
        for piece in _unpack_gzip(stream) if compression == "gzip" else _unpack_zstd(stream):
            size += len(piece)
            if size > max(_GROWTH_FROM, _MOST_GROWTH * stream.tell()):
                raise InputError(
                    f"{path} becomes more than {_MOST_GROWTH} times larger when it is decompressed, as no log or trace "
                    f"does ({size:,} bytes from {stream.tell():,})",
                    "decompress it first, if it is what you want to read",
                )
            yield piece


def _unpack_gzip(stream: IO[bytes]) -> Iterator[bytes]:
    with gzip.open(stream) as unpacked:
        while piece := unpacked.read(_CHUNK_BYTES):
            yield piece


def _unpack_zstd(stream: IO[bytes]) -> Iterator[bytes]:
    unpacker = zstandard.ZstdDecompressor().decompressobj(read_across_frames=False)
    rest = b""
    while piece := rest or stream.read(_PACKED_PIECE):
        if unpacker.eof:
            unpacker = zstandard.ZstdDecompressor().decompressobj(read_across_frames=False)
        yield unpacker.decompress(piece)
        rest = unpacker.unused_data if unpacker.eof else b""
    if not unpacker.eof:
        raise EOFError("it ends inside a frame")


def read_chunks(path: Path, chunk_bytes: int = _CHUNK_BYTES) -> Iterator[bytes]:
    """Yield the decompressed bytes of a file, piece by piece; those of a plain file at most `chunk_bytes` at a time.

    Raises:
        InputError: the file cannot be read, or its compressed data is damaged.
    """
    for piece in _read_pieces(path, chunk_bytes):
        if isinstance(piece, int):
            yield from (bytes(min(chunk_bytes, piece - at)) for at in range(0, piece, chunk_bytes))
        elif piece:
            yield bytes(piece)


class RawStream:
    """Read the decompressed bytes of a raw file once, in order; of a hole the first `SHOWN_BYTES` zeros alone.

    Args:
        path: the file.
        size: how many bytes are read at most, holes included; None = all.
        count: called with the bytes that were read, holes included.

    `skipped` names what was left out so far: where in what was read, and how many zeros.

    Raises:
        InputError: when it is read: the file cannot be read, or its compressed data is damaged.
    """

    def __init__(self, path: Path, size: int | None = None, count: Callable[[int], None] | None = None) -> None:
        self.skipped: list[tuple[int, int]] = []
        self._pieces = _read_pieces(path)
        self._left, self._count = size, count
        self._at, self._piece = 0, memoryview(b"")

    @property
    def size(self) -> int:
        """Return the bytes that were read so far, holes included."""
        return self._at + sum(size for _, size in self.skipped)

    def __iter__(self) -> Iterator[bytes]:
        while self._fill():
            piece = bytes(self._piece)
            self._take(len(piece))
            yield piece

    def readinto(self, buffer: memoryview, /) -> int:
        """Put the next bytes into a buffer; return how many, 0 at the end."""
        if not self._fill():
            return 0
        size = min(len(buffer), len(self._piece))
        buffer[:size] = self._piece[:size]
        self._take(size)
        return size

    def _take(self, size: int) -> None:
        self._piece = self._piece[size:]
        self._at += size

    def _fill(self) -> bool:
        """Make sure that there is a piece; return False at the end."""
        while not self._piece:
            piece = next(self._pieces, None)
            if piece is None or self._left == 0:
                return False
            size = piece if isinstance(piece, int) else len(piece)
            size = size if self._left is None else min(size, self._left)
            self._left = None if self._left is None else self._left - size
            if self._count:
                self._count(size)
            self._piece = memoryview(_show(piece))[:size]
            if size > len(self._piece):
                self.skipped.append((self._at + len(self._piece), size - len(self._piece)))
        return True


@contextmanager
def open_read_at(path: Path) -> Iterator[tuple[Callable[[int, int], bytes], int]]:
    """Open a raw file for reading anywhere in it: a function of (offset, bytes), and its size, both decompressed.

    Raises:
        InputError: the file is missing or not readable.
    """
    try:
        if reader := _find_reader(path):
            yield reader.read, reader.size
            return
        handle = open_regular(path)
    except OSError as error:
        raise explain_unread(path, error) from error
    try:
        yield lambda offset, size: os.pread(handle, size, offset), os.fstat(handle).st_size
    finally:
        os.close(handle)


def read_at(path: Path, offset: int, length: int) -> bytes:
    """Return up to `length` decompressed bytes of a raw file from `offset` on.

    Raises:
        InputError: the file cannot be read, or is damaged there.
    """
    with open_read_at(path) as (read, _):
        return read(offset, length)


def _find_reader(path: Path) -> FrameReader | None:
    """Return what reads a file of frames; None for any other file."""
    return _reader_of(path, path.stat().st_mtime_ns)


@lru_cache(maxsize=16)
def _reader_of(path: Path, _changed_ns: int) -> FrameReader | None:
    return FrameReader(path) if find_compression(path) == "frames" else None


def has_holes(path: Path) -> bool:
    """Tell whether a plain file, or one of frames, has holes."""
    if reader := _find_reader(path):
        return reader.has_holes
    descriptor = open_regular(path)
    try:
        hole, data = find_hole(descriptor, 0)
        return hole < data
    finally:
        os.close(descriptor)


def read_file(path: Path) -> bytes:
    """Return the content of a small file as it is.

    Raises:
        OSError: it cannot be read, or is no regular file.
    """
    with os.fdopen(open_regular(path), "rb") as stream:
        return stream.read()


@contextmanager
def open_database(path: Path) -> Iterator[sqlite3.Connection]:
    """Open an SQLite database for reading only; nothing is written beside it.

    Raises:
        InputError: the file cannot be opened.
    """
    address = f"file:{quote(str(path.resolve()))}?mode=ro&immutable=1"
    try:
        os.close(open_regular(path))
        connection = sqlite3.connect(address, uri=True)
    except OSError as error:
        raise explain_unread(path, error) from error
    except sqlite3.OperationalError as error:
        raise InputError(f"cannot open {path}: {error}", "check the path and its permissions") from error
    connection.text_factory = lambda data: data.decode("utf-8", "replace")
    with closing(connection):
        yield connection


def read_head(path: Path, head_bytes: int = 1 << 20) -> bytes:
    """Return the first decompressed bytes of a file.

    Raises:
        InputError: the file cannot be read, or its compressed data is damaged.
    """
    head = bytearray()
    for piece in RawStream(path, head_bytes):
        head += piece
    return bytes(head)


def copy_in(source: Path, target: Path, checksum: Checksum | None = None, *, compress: bool = False) -> Path:
    """Copy a foreign file to `target`, stored so that any byte of it can be reached at once; return its path.

    A copy and not a hard link: a log that is still written to must not change under the capture.
    A symlink is followed, never copied. A hole stays one.

    Args:
        source: plain, gzip or zstd.
        target: where it goes; a compressed copy gets the suffix of zstd.
        checksum: gets the decompressed bytes on their way, so that they are not read again for it.
        compress: store a large file that comes compressed in frames of zstd; else it is decompressed.

    Raises:
        InputError: the file cannot be read, or its compressed data is cut short or damaged.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    checksum = checksum or Checksum()
    _refuse_stream(source)
    try:
        compression = find_compression(source)
    except OSError as error:
        raise explain_unread(source, error) from error
    if compression is None:
        _copy_plain(source.resolve(), target, checksum)
        return target
    return _store_pieces(_read_pieces(source), target, checksum, compress=compress)


def _copy_plain(source: Path, target: Path, checksum: Checksum) -> None:
    """Copy a file; file systems that can (btrfs, XFS) let both share the same blocks until one is changed."""
    with os.fdopen(open_regular(source), "rb") as given, target.open("w+b") as stored:
        try:
            fcntl.ioctl(stored, _FICLONE, given.fileno())
        except OSError:
            size = os.fstat(given.fileno()).st_size
            # To write into blocks that are known takes the kernel less time.
            if not has_holes(source):
                with suppress(OSError):
                    reserve_space(stored.fileno(), 0, size)
            _write_pieces(_read_pieces(source), stored, checksum)
        else:
            # Of the copy: what is given may have grown.
            for piece in _read_pieces(target):
                _add(checksum, piece)


def _store_pieces(pieces: Iterator[_Piece], target: Path, checksum: Checksum, *, compress: bool) -> Path:
    """Write pieces to `target`, or in frames of zstd beside it when there is more than one frame of them."""
    head = bytearray()
    for piece in pieces:
        if isinstance(piece, int) or len(head) + len(piece) > FRAME_BYTES:
            pieces = chain([piece], pieces)
            break
        head += piece
        checksum.update(piece)
    else:
        target.write_bytes(head)
        return target
    if compress:
        target = target.with_name(target.name + zstd_frames.SUFFIX)
        _write_frames(head, pieces, target, checksum)
        return target
    with target.open("wb") as out:
        out.write(head)
        _write_pieces(pieces, out, checksum)
    return target


def join_files(paths: Sequence[Path], breaks: Sequence[bool]) -> tuple[Path, Checksum]:
    """Write several files as one in the place of the first, and remove them; return where it is, and its checksum.

    Args:
        paths: plain, or of frames; a line may end in one and go on in the next.
        breaks: whether each begins with a new line, even if the one before ends inside a line.
    """
    checksum, last = Checksum(), b"\n"

    def join() -> Iterator[_Piece]:
        nonlocal last
        for path, begins in zip(paths, breaks, strict=True):
            if begins and last != b"\n":
                yield b"\n"
            for piece in _read_pieces(path):
                yield piece
                last = b"\0" if isinstance(piece, int) else bytes(piece[-1:]) or last

    whole = paths[0].with_name(paths[0].name.removesuffix(zstd_frames.SUFFIX))
    compress = any(path.suffix == zstd_frames.SUFFIX for path in paths)
    stored = _store_pieces(join(), whole.with_name(f".{whole.name}"), checksum, compress=compress)
    for path in paths:
        path.unlink()
    return stored.rename(stored.with_name(stored.name.removeprefix("."))), checksum


def _write_pieces(pieces: Iterator[_Piece], out: IO[bytes], checksum: Checksum) -> None:
    for piece in pieces:
        _add(checksum, piece)
        if isinstance(piece, int):
            out.seek(piece, os.SEEK_CUR)
        else:
            out.write(piece)
    out.truncate(out.tell())


def _write_frames(waiting: bytearray, pieces: Iterator[_Piece], target: Path, checksum: Checksum) -> None:
    writer = FrameWriter.create(target)
    for piece in pieces:
        _add(checksum, piece)
        if isinstance(piece, int):
            _append(writer, waiting, least=1)
            writer.append_hole(piece)
        else:
            waiting += piece
            _append(writer, waiting, least=FRAME_BYTES)
    _append(writer, waiting, least=1)
    writer.finish()


def _append(writer: FrameWriter, waiting: bytearray, least: int) -> None:
    """Write frames of what waits, as long as there are `least` bytes."""
    while len(waiting) >= least:
        writer.append(bytes(waiting[:FRAME_BYTES]))
        del waiting[:FRAME_BYTES]


def _add(checksum: Checksum, piece: _Piece) -> None:
    shown = _show(piece)
    checksum.update(shown)
    if isinstance(piece, int):
        checksum.skip(piece - len(shown))


def _show(piece: _Piece) -> bytes | memoryview:
    """Return the bytes of a piece; of a hole its first ones."""
    return bytes(min(piece, SHOWN_BYTES)) if isinstance(piece, int) else piece


def describe_file(path: Path) -> tuple[int, str]:
    """Return size in bytes and checksum of a file, decompressed; of a hole the checksum sees a few zeros."""
    checksum = Checksum()
    for piece in _read_pieces(path):
        _add(checksum, piece)
    return checksum.size, checksum.text()


def write_atomically(path: Path, data: bytes) -> None:
    """Write a file so that a reader sees the old or the new bytes, never a part."""
    make_folder(path.parent)
    temporary = path.with_name(f".{path.name}.{threading.get_native_id()}")
    temporary.unlink(missing_ok=True)
    try:
        with temporary.open("xb") as stream:  # no link is followed: root writes into folders of users, too
            stream.write(data)
        replace_file(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _is_sample(sample: object) -> bool:
    """Tell whether a sample is an object whose times are whole ns that leave room for arithmetic."""
    if not isinstance(sample, dict):
        return False
    others = [reading for reading in sample.values() if isinstance(reading, dict)]
    if not all(reading.keys() >= {"mono0", "value", "mono1"} for reading in others):
        return False
    readings = [sample, *others]
    times = [r[key] for r in readings for key in ("id", "mono0", "mono1", "value") if key in r]
    ordered = all(r["mono0"] <= r["mono1"] for r in readings if {"mono0", "mono1"} <= r.keys())
    return all(isinstance(t, int) and abs(t) < 2**62 for t in times) and ordered


def read_clock_samples(path: Path) -> dict[str, Any]:
    """Return the contents of a clock.json: `trace_clock` and `samples`.

    Raises:
        InputError: the file cannot be read or is no such file.
    """
    try:
        content = json.loads(b"".join(read_chunks(path)))
        if isinstance(content, dict) and all(_is_sample(s) for s in content["samples"]):
            return content
    except (ValueError, KeyError, TypeError, RecursionError):
        pass
    raise InputError(
        f"{path} is no file of clock samples", "it must be JSON with a list `samples` of id, mono0 <= mono1 (ns)"
    )


def read_topology(folder: Path) -> list[tuple[int, str, str]]:
    """Return node number, `gpu_id` and `properties` of each KFD node in a folder like sysfs `topology/nodes`."""
    nodes = []
    for node in folder.glob("[0-9]*"):
        try:
            texts = [read_file(node / name).decode(errors="replace") for name in ("gpu_id", "properties")]
        except OSError:
            continue  # a node that went away while it was copied
        if node.name.isdecimal():
            nodes.append((int(node.name), texts[0], texts[1]))
    return sorted(nodes)
