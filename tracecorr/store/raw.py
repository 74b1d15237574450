"""The raw side of a capture: copy files in, read their bytes back."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import shutil
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, cast

from tracecorr.model.errors import InputError

CHUNK_BYTES = 4 << 20
_GZIP_MAGIC = b"\x1f\x8b"


def open_decompressed(path: Path) -> IO[bytes]:
    """Open a plain or gzip file for reading its decompressed bytes.

    Raises:
        InputError: the file is missing, a folder, or not readable.
    """
    try:
        with path.open("rb") as plain:
            magic = plain.read(2)
        return cast("IO[bytes]", gzip.open(path, "rb")) if magic == _GZIP_MAGIC else path.open("rb")
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}", "check the path and its permissions") from error


def read_chunks(path: Path, chunk_bytes: int = CHUNK_BYTES) -> Iterator[bytes]:
    """Yield the decompressed bytes of a file, `chunk_bytes` at a time."""
    with open_decompressed(path) as stream:
        while chunk := stream.read(chunk_bytes):
            yield chunk


@contextmanager
def open_read_at(path: Path) -> Iterator[tuple[Callable[[int, int], bytes], int]]:
    """Open a plain file for reading anywhere in it: a function of (offset, bytes), and the size of the file.

    Raises:
        InputError: the file is missing or not readable.
    """
    try:
        handle = os.open(path, os.O_RDONLY)
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}", "check the path and its permissions") from error
    try:
        yield lambda offset, size: os.pread(handle, size, offset), os.fstat(handle).st_size
    finally:
        os.close(handle)


def read_head(path: Path, head_bytes: int = 1 << 20) -> bytes:
    """Return the first decompressed bytes of a file.

    Raises:
        InputError: the file cannot be read, or its gzip data is damaged.
    """
    try:
        with open_decompressed(path) as stream:
            return stream.read(head_bytes)
    except (EOFError, zlib.error, OSError) as error:
        raise InputError(f"cannot read {path}: {error}", "the gzip data is damaged; copy the file again") from error


def copy_in(source: Path, target: Path) -> None:
    """Copy a foreign file to `target`, decompressed, so that any byte of it can be reached at once.

    A copy and not a hard link: a log that is still written to must not change under the capture.
    A symlink is followed, never copied.

    Raises:
        InputError: the file cannot be read, or its gzip data is cut short or damaged.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    with open_decompressed(source.resolve()) as stream:
        compressed = isinstance(stream, gzip.GzipFile)
        if not compressed:
            shutil.copyfile(source.resolve(), target)
            return
        try:
            with target.open("wb") as out:
                shutil.copyfileobj(stream, out, CHUNK_BYTES)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise InputError(
                f"cannot decompress {source}: {error}", "the gzip data is damaged; copy the file again"
            ) from error


def describe_file(path: Path) -> tuple[int, str]:
    """Return size in bytes and SHA-256 of a file."""
    digest = hashlib.sha256()
    size = 0
    for chunk in read_chunks(path):
        digest.update(chunk)
        size += len(chunk)
    return size, digest.hexdigest()


def write_atomically(path: Path, data: bytes) -> None:
    """Write a file so that a reader sees the old or the new bytes, never a part."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_bytes(data)
    temporary.replace(path)


def _is_sample(sample: object) -> bool:
    """Tell whether a sample is an object whose times are whole ns that leave room for arithmetic."""
    if not isinstance(sample, dict):
        return False
    readings = [sample, *(r for r in sample.values() if isinstance(r, dict))]
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
    except (OSError, ValueError, KeyError, TypeError):
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
