"""The raw side of a capture: copy files in, read their bytes back."""

from __future__ import annotations

import fcntl
import gzip
import json
import os
import sqlite3
import threading
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from functools import lru_cache
from io import RawIOBase
from pathlib import Path
from typing import IO, Any, cast
from urllib.parse import quote

import zstandard

from tracecorr.model.checksum import Checksum
from tracecorr.model.errors import InputError, explain_unread
from tracecorr.read.amdlog.blocks import ByteStream
from tracecorr.store import frames
from tracecorr.store.frames import FRAME_BYTES, FrameReader, FrameWriter
from tracecorr.store.ownership import make_folder, replace_file
from tracecorr.store.space import reserve_space

CHUNK_BYTES = 1 << 20
# Number of the ioctl of linux/fs.h that shares blocks (Linux 4.5).
_FICLONE = 0x40049409
_GZIP_MAGIC = b"\x1f\x8b"
_DAMAGES = (EOFError, zlib.error, zstandard.ZstdError, gzip.BadGzipFile)
_PACKED_PIECE = 16 << 10
# So much stays in the cache of a CPU between its reading, its checksum and its writing.
_COPIED_PIECE = 256 << 10
_STANDARD_INPUT = Path("-")


def open_decompressed(path: Path) -> IO[bytes]:
    """Open a plain, gzip or zstd file for reading its decompressed bytes.

    Raises:
        InputError: the file is missing, a folder, a pipe or device, or not readable.
    """
    is_stream = path == _STANDARD_INPUT if not path.exists() else not (path.is_file() or path.is_dir())
    if is_stream:
        # Files are looked at before they are read; what was read of a pipe would lack then.
        name = "standard input" if path == _STANDARD_INPUT else path
        raise InputError(f"{name} is no regular file: it cannot be read twice", "write its contents to a file first")
    try:
        compression = find_compression(path)
        if compression == "gzip":
            return cast("IO[bytes]", gzip.open(path, "rb"))
        stream = path.open("rb")
        if compression == "zstd":
            return cast("IO[bytes]", zstandard.ZstdDecompressor().stream_reader(stream, read_across_frames=True))
        return stream
    except OSError as error:
        raise explain_unread(path, error) from error


def find_compression(path: Path) -> str | None:
    """Return `gzip` or `zstd` where the first bytes say so; those of binary pages are a time and may be anything."""
    if path.suffix == ".bin":
        return None
    with path.open("rb") as stream:
        magic = stream.read(len(frames.MAGIC))
    return "gzip" if magic.startswith(_GZIP_MAGIC) else "zstd" if magic == frames.MAGIC else None


def read_chunks(path: Path, chunk_bytes: int = CHUNK_BYTES) -> Iterator[bytes]:
    """Yield the decompressed bytes of a file, at most `chunk_bytes` at a time.

    Raises:
        InputError: the file cannot be read, or its compressed data is damaged.
    """
    if path.suffix == frames.SUFFIX:
        yield from FrameReader(path).read_all()
        return
    try:
        with open_decompressed(path) as stream:
            while chunk := stream.read(chunk_bytes):
                yield chunk
    except (*_DAMAGES, OSError) as error:
        raise _explain_damage(path, error) from error


def _explain_damage(path: Path, error: Exception) -> InputError:
    if isinstance(error, OSError) and not isinstance(error, gzip.BadGzipFile):
        return explain_unread(path, error)
    return InputError(f"cannot read {path}: {error}", "the compressed data is damaged; copy the file again")


class ChunkStream:
    """Read chunks as a binary file is read."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks, self._chunk = chunks, memoryview(b"")

    def readinto(self, buffer: memoryview, /) -> int:
        """Put the next bytes into a buffer; return how many, 0 at the end."""
        while not self._chunk:
            chunk = next(self._chunks, None)
            if chunk is None:
                return 0
            self._chunk = memoryview(chunk)
        size = min(len(buffer), len(self._chunk))
        buffer[:size] = self._chunk[:size]
        self._chunk = self._chunk[size:]
        return size


@contextmanager
def open_stream(path: Path) -> Iterator[ByteStream]:
    """Open a file for reading its decompressed bytes one after the other.

    Raises:
        InputError: the file cannot be read, or its compressed data is damaged.
    """
    if path.suffix == frames.SUFFIX:
        yield ChunkStream(FrameReader(path).read_all())
        return
    with open_decompressed(path) as stream:
        yield cast("ByteStream", stream)


@contextmanager
def open_read_at(path: Path) -> Iterator[tuple[Callable[[int, int], bytes], int]]:
    """Open a raw file for reading anywhere in it: a function of (offset, bytes), and its size, both decompressed.

    Raises:
        InputError: the file is missing or not readable.
    """
    if path.suffix == frames.SUFFIX:
        reader = FrameReader(path)
        yield lambda offset, size: reader.read(offset, size), reader.size
        return
    try:
        handle = os.open(path, os.O_RDONLY)
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
    if path.suffix == frames.SUFFIX:
        return _reader_of(path, path.stat().st_mtime_ns).read(offset, length)
    with path.open("rb") as stream:
        stream.seek(offset)
        return stream.read(length)


@lru_cache(maxsize=16)
def _reader_of(path: Path, _changed_ns: int) -> FrameReader:
    return FrameReader(path)


@contextmanager
def open_database(path: Path) -> Iterator[sqlite3.Connection]:
    """Open an SQLite database for reading only; nothing is written beside it.

    Raises:
        InputError: the file cannot be opened.
    """
    address = f"file:{quote(str(path.resolve()))}?mode=ro&immutable=1"
    try:
        connection = sqlite3.connect(address, uri=True)
    except sqlite3.OperationalError as error:
        raise InputError(f"cannot open {path}: {error}", "check the path and its permissions") from error
    connection.text_factory = lambda data: data.decode("utf-8", "replace")
    with closing(connection):
        yield connection


def read_head(path: Path, head_bytes: int = 1 << 20) -> bytes:
    """Return the first decompressed bytes of a file.

    Raises:
        InputError: the file cannot be read, or its gzip data is damaged.
    """
    try:
        with open_decompressed(path) as stream:
            return stream.read(head_bytes)
    except (*_DAMAGES, OSError) as error:
        raise _explain_damage(path, error) from error


def copy_in(source: Path, target: Path, checksum: Checksum | None = None, *, compress: bool = False) -> Path:
    """Copy a foreign file to `target`, stored so that any byte of it can be reached at once; return its path.

    A copy and not a hard link: a log that is still written to must not change under the capture.
    A symlink is followed, never copied.

    Args:
        source: plain, gzip or zstd.
        target: where it goes; a compressed copy gets the suffix of zstd.
        checksum: gets the decompressed bytes on their way, so that nobody reads them again for it.
        compress: store a large file that comes compressed in frames of zstd; else it is decompressed.

    Raises:
        InputError: the file cannot be read, or its compressed data is cut short or damaged.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        compression = find_compression(source)
    except OSError as error:
        raise explain_unread(source, error) from error
    checksum = checksum or Checksum()
    if compression is None:
        _copy_plain(source.resolve(), target, checksum)
        return target
    try:
        return store_decompressed(checksum.follow(_decompress(source, compression)), target, compress=compress)
    except _DAMAGES as error:
        raise InputError(
            f"cannot decompress {source}: {error}", f"the {compression} data is damaged; copy the file again"
        ) from error


def _copy_plain(source: Path, target: Path, checksum: Checksum) -> None:
    """Copy a file; file systems that can (btrfs, XFS) let both share the same blocks until one is changed."""
    with source.open("rb", buffering=0) as given, target.open("w+b") as stored:
        try:
            fcntl.ioctl(stored, _FICLONE, given.fileno())
        except OSError:
            # To write into blocks that are known takes the kernel less time.
            with suppress(OSError):
                reserve_space(stored.fileno(), 0, os.fstat(given.fileno()).st_size)
            for piece in _read_pieces(given):
                checksum.update(piece)
                stored.write(piece)
        else:
            # Of the copy: what is given may have grown.
            for piece in _read_pieces(stored.raw):
                checksum.update(piece)


def _read_pieces(stream: RawIOBase) -> Iterator[memoryview]:
    """Yield what is left of a stream; the memory of a piece is that of the next one, too."""
    buffer = memoryview(bytearray(_COPIED_PIECE))
    while size := stream.readinto(buffer):
        yield buffer[:size]


def _decompress(source: Path, compression: str) -> Iterator[bytes]:
    """Yield pieces of the decompressed bytes of a gzip or zstd file.

    Raises:
        EOFError: the data ends early.
    """
    with source.open("rb") as stream:
        if compression == "gzip":
            with gzip.open(stream) as unpacked:
                while piece := unpacked.read(CHUNK_BYTES):
                    yield piece
            return
        unpacker = zstandard.ZstdDecompressor().decompressobj(read_across_frames=False)
        rest = b""
        while piece := rest or stream.read(_PACKED_PIECE):
            if unpacker.eof:
                unpacker = zstandard.ZstdDecompressor().decompressobj(read_across_frames=False)
            yield unpacker.decompress(piece)
            rest = unpacker.unused_data if unpacker.eof else b""
        if not unpacker.eof:
            raise EOFError("it ends inside a frame")


def store_decompressed(pieces: Iterator[bytes], target: Path, *, compress: bool) -> Path:
    """Write pieces to `target`, or in frames of zstd beside it when there is more than one frame of them."""
    head = bytearray()
    for piece in pieces:
        head += piece
        if len(head) > FRAME_BYTES and compress:
            target = target.with_name(target.name + frames.SUFFIX)
            _write_frames(bytes(head), pieces, target)
            return target
        if len(head) > FRAME_BYTES:
            break
    with target.open("wb") as out:
        out.write(head)
        out.writelines(pieces)
    return target


def _write_frames(head: bytes, pieces: Iterator[bytes], target: Path) -> None:
    writer = FrameWriter.create(target)
    waiting = bytearray(head)
    for piece in pieces:
        waiting += piece
        while len(waiting) >= FRAME_BYTES:
            writer.append(bytes(waiting[:FRAME_BYTES]))
            del waiting[:FRAME_BYTES]
    for start in range(0, len(waiting), FRAME_BYTES):
        writer.append(bytes(waiting[start : start + FRAME_BYTES]))
    writer.finish()


def describe_file(path: Path) -> tuple[int, str]:
    """Return size in bytes and checksum of a file, decompressed."""
    checksum = Checksum()
    for chunk in read_chunks(path):
        checksum.update(chunk)
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
        content = json.loads(path.read_bytes())
        if isinstance(content, dict) and all(_is_sample(s) for s in content["samples"]):
            return content
    except OSError as error:
        raise explain_unread(path, error) from error
    except (ValueError, KeyError, TypeError):
        pass
    raise InputError(
        f"{path} is no file of clock samples", "it must be JSON with a list `samples` of id, mono0 <= mono1 (ns)"
    )


def read_topology(folder: Path) -> list[tuple[int, str, str]]:
    """Return node number, `gpu_id` and `properties` of each KFD node in a folder like sysfs `topology/nodes`."""
    nodes = []
    for node in folder.glob("[0-9]*"):
        try:
            texts = [(node / name).read_text(errors="replace") for name in ("gpu_id", "properties")]
        except OSError:
            continue  # a node that went away while it was copied
        if node.name.isdecimal():
            nodes.append((int(node.name), texts[0], texts[1]))
    return sorted(nodes)
