"""Logs that are compressed while they grow: read during the recording, completed after one that was killed.

While it is recorded, `raw/.amd_log/NAME.zst` holds the beginning of the log `raw/amd_log/NAME`, whose space there may
have been given back. What the frames do not hold begins in the log at their size, less if it was emptied.
"""

from __future__ import annotations

import fcntl
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tracecorr.store.ownership import LOG_FOLDER, find_owners, is_log, open_log
from tracecorr.store.zstd_frames import FRAME_BYTES, SUFFIX, FrameReader, FrameWriter

FRAMES_FOLDER = "raw/.amd_log"


def adopt_frames(root: Path) -> None:
    """Move the compressed logs of a recording into the folder of the logs.

    Args:
        root: the capture folder; the folder of the logs must no longer be the workload's.
    """
    frames = root / FRAMES_FOLDER
    if not frames.is_dir():
        return
    for path in sorted(frames.iterdir()):
        path.replace(root / LOG_FOLDER / path.name)
    frames.rmdir()


def complete_frames(root: Path) -> list[str]:
    """Bring together what a killed recording left of its logs: frames, and the rest that was not compressed.

    A rest for which the disk had no room stays beside the frames, and can be tried again. So does the log of a program
    that still writes it: without its name, what it writes from now on would be lost, and its space with it.

    Args:
        root: the capture folder.

    Returns: why a log is not whole.
    """
    problems = []
    for path in [*sorted((root / FRAMES_FOLDER).glob(f"*{SUFFIX}")), *list_unfinished(root)]:
        log = root / LOG_FOLDER / path.name.removesuffix(SUFFIX)
        try:
            if not _complete(path, log):
                problems.append(
                    f"the log {log.name} is not compressed, because a program may still write it; run `tracecorr "
                    "correlate` again to read what it writes from now on"
                )
        except OSError as error:
            problems.append(f"the end of the log {log.name} could not be compressed: {error.strerror or error}")
    adopt_frames(root)
    return problems


def list_unfinished(root: Path) -> list[Path]:
    """Return the compressed logs beside which their log lies: the disk had no room for its rest, or it is written.

    Args:
        root: the folder of a capture that was killed, and completed as far as its disk had room.
    """
    stored = sorted((root / LOG_FOLDER).glob(f"*{SUFFIX}"))
    return [path for path in stored if _is_plain(path.with_name(path.name.removesuffix(SUFFIX)))]


def list_growing(root: Path) -> dict[str, int]:
    """Return the logs of a running recording by name, each with a size that changes when it grows."""
    frames = {p.name.removesuffix(SUFFIX): p.stat().st_size for p in (root / FRAMES_FOLDER).glob(f"*{SUFFIX}")}
    logs = (root / LOG_FOLDER).glob("*")
    return dict(sorted({**frames, **{p.name: p.lstat().st_size for p in logs if _is_plain(p)}}.items()))


def read_growing(root: Path, name: str) -> Iterator[bytes]:
    """Yield a log of a running recording from its beginning: its frames, then what is not compressed yet.

    Args:
        root: the capture folder.
        name: the log's.

    Raises:
        OSError: the log cannot be read.
    """
    frames, offset, begins = root / FRAMES_FOLDER / f"{name}{SUFFIX}", 0, 0
    while True:
        if frames.exists():
            reader = FrameReader(frames, growing=True)
            begins = reader.begins
            while piece := reader.read(offset, FRAME_BYTES):
                yield piece
                offset += len(piece)
        try:
            with _open_plain(root / LOG_FOLDER / name) as descriptor:
                rest = os.pread(descriptor, FRAME_BYTES, offset - begins)
        except FileNotFoundError:
            return  # the recording ended meanwhile
        # If its space was given back meanwhile, there are new frames.
        if rest.startswith(b"\0") and frames.exists() and FrameReader(frames, growing=True).size > offset:
            continue
        if not rest:
            return
        yield rest
        offset += len(rest)


def _is_plain(path: Path) -> bool:
    """Tell whether a file of the log folder is a log of the workload."""
    try:
        return is_log(path.lstat(), find_owners(path.parent))
    except OSError:
        return False


def _complete(path: Path, log: Path) -> bool:
    """Append to the frames what is missing in them of a log; return whether that was all and the log is gone."""
    may_grow = _is_written(log)  # asked before: afterwards it may have been written and closed
    writer = FrameWriter.reopen(path)
    try:
        _append_rest(writer, log)
        writer.finish()
    except BaseException as error:
        writer.close()
        if writer.size or not isinstance(error, OSError) or not _is_plain(log):
            raise
        path.unlink()  # it holds nothing, and the log itself is whole
        return True
    if not may_grow:
        log.unlink(missing_ok=True)
    return not may_grow


def _is_written(path: Path) -> bool:
    """Tell whether a process has a file open for writing, or that cannot be known; what is no file is not written.

    The kernel gives a read lease on a file that none can write (fcntl(2)): to its owner and to root, where the file
    system has leases.
    """
    try:
        with _open_plain(path) as descriptor:
            # Sent when another process opens the file meanwhile; the default, SIGIO, would end this process.
            fcntl.fcntl(descriptor, fcntl.F_SETSIG, signal.SIGURG)
            fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_RDLCK)
    except OSError:
        return _is_plain(path)
    return False


def _append_rest(writer: FrameWriter, log: Path) -> None:
    try:
        with _open_plain(log) as descriptor:
            while data := os.pread(descriptor, FRAME_BYTES, writer.size - writer.table.begins):
                writer.append(data)
    except FileNotFoundError:
        return  # it was compressed to its end


@contextmanager
def _open_plain(path: Path) -> Iterator[int]:
    descriptor = open_log(path, os.O_RDONLY, find_owners(path.parent))
    try:
        yield descriptor
    finally:
        os.close(descriptor)
