"""One log of a workload while it is written: looked at, compressed, cut, its losses counted."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Container, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tracecorr.model.checksum import Checksum
from tracecorr.store.ownership import open_log
from tracecorr.store.space import LEAST_HOLE, free_space
from tracecorr.store.zstd_frames import FRAME_BYTES, SUFFIX, FrameWriter

_BLOCK, _BLOCK_UNIT = 4096, 512  # the latter is that of st_blocks
# Space is given back in steps: before each the frames must be on the disk, or a crash of the machine would take both.
_STEP_BYTES = 4 * FRAME_BYTES
_LARGEST_FRAME = FRAME_BYTES + (64 << 10)
_REMEMBERED = 64
_RETRY_SECONDS = 1.0


class LogFollower:
    """Compress a log while its runtime writes it.

    Offsets are those of the file as it is now; `begins` is what was read of it before it was emptied.
    A log that never fills a frame is left alone.

    Args:
        folder: where the frames go; made when the first is written.
        name: the log's.
    """

    def __init__(self, folder: Path, name: str) -> None:
        self.path = folder / f"{name}{SUFFIX}"
        self._writer: FrameWriter | None = None
        self._checksum = Checksum()
        self._remembered = b""
        self._freed = 0
        self._retry = 0.0
        self.begins = 0
        self.position = 0
        self.hole_bytes = 0
        self.cannot_free = ""

    @property
    def has_begun(self) -> bool:
        """Tell whether a part of the log is compressed."""
        return self._writer is not None

    @property
    def summary(self) -> tuple[int, str]:
        """Return size in bytes and checksum of what was compressed."""
        return self.begins + self.position, self._checksum.text()

    def wants(self, size: int) -> bool:
        """Tell whether there is something for it in a file of `size` bytes."""
        return size != self.position if self.has_begun else size >= FRAME_BYTES

    def was_emptied(self, descriptor: int, size: int) -> bool:
        """Tell whether the file no longer holds what was read of it: its runtime started it again."""
        if not self.has_begun:
            return False
        start = self.position - len(self._remembered)
        return size < self.position or os.pread(descriptor, len(self._remembered), start) != self._remembered

    def begin_anew(self) -> None:
        """Go on with a file that was emptied, behind what was compressed before.

        Raises:
            OSError: the disk takes nothing.
        """
        if self._writer is not None:
            self._writer.mark_begin()
            self.begins = self._writer.size
        self.position = self._freed = 0
        self._remembered = b""

    def step(self, descriptor: int, end: int, *, whole: bool = False) -> bool:
        """Compress the next frame; return whether one more can follow at once.

        Args:
            descriptor: the log, open for reading and writing.
            end: how far it may be read.
            whole: whether a last, short frame is wanted.

        Raises:
            OSError: the log cannot be read, or the frame not be written.
        """
        waiting = end - self.position
        if waiting < (1 if whole and self.has_begun else FRAME_BYTES) or time.monotonic() < self._retry:
            return False
        try:
            self._append(descriptor, end)
        except OSError:
            self._retry = time.monotonic() + _RETRY_SECONDS
            self._drop_empty()
            raise
        if self.position - self._freed >= _STEP_BYTES:
            self._free_behind(descriptor)
        return end - self.position >= FRAME_BYTES or (whole and end > self.position)

    def rename(self, name: str) -> None:
        """Follow the log's new name."""
        path = self.path.with_name(f"{name}{SUFFIX}")
        if self.has_begun:
            self.path.rename(path)
        self.path = path

    def finish(self) -> None:
        """Complete the compressed file.

        Raises:
            OSError: the disk takes no more; the frames can be read all the same.
        """
        if self._writer is not None:
            self._writer.finish()

    def _append(self, descriptor: int, end: int) -> None:
        if self._writer is None:
            self.path.parent.mkdir(exist_ok=True)
            self._writer = FrameWriter.create(self.path)
        if not self._writer.reserve(_LARGEST_FRAME):
            # On a full disk what was read makes the room for what comes.
            self._free_behind(descriptor)
            self._writer.reserve(_LARGEST_FRAME)
        holes, before = len(self._writer.table.holes), self.position
        self.position = self._writer.append_from(descriptor, before, end, self._checksum)
        if len(self._writer.table.holes) > holes:
            self.hole_bytes += self.position - before
        start = max(self.position - _REMEMBERED, 0)
        self._remembered = os.pread(descriptor, self.position - start, start)

    def _drop_empty(self) -> None:
        """Take away a file that got no frame: the log itself is whole."""
        if self._writer is not None and not self._writer.size:
            self._writer.close()
            self._writer = None
            self.path.unlink()

    def _free_behind(self, descriptor: int) -> None:
        end = (self.position - _REMEMBERED) // _BLOCK * _BLOCK
        if self._writer is None or self.cannot_free or end <= self._freed:
            return
        self._writer.sync()
        try:
            free_space(descriptor, self._freed, end - self._freed)
        except OSError as error:
            self.cannot_free = error.strerror or str(error)
        self._freed = end


# Why what a log holds beyond its cut is lost.
CUT_SHORT = "the recording had ended"
_CHUNK = 1 << 20


class GrowingLog:
    """One log file, and from where on it is not kept.

    Every method may raise OSError: the file is its workload's, which can remove or replace it at any moment.

    Args:
        path: where it is.
        inode: which file it is.
        follower: what compresses it; None to leave it as it is.
        owners: uids of the workload.

    `stored` is the size (bytes) and the checksum of what was compressed, when it is closed.
    """

    def __init__(
        self, path: Path, inode: int, follower: LogFollower | None, owners: Callable[[], Container[int]]
    ) -> None:
        self.path, self.inode, self.follower, self._owners = path, inode, follower, owners
        self.size = self._blocks = 0
        self._kept: int | None = None
        self._counted = self._lost_lines = self._cut_ns = 0
        self._losses: list[dict[str, Any]] = []
        self.stored: tuple[int, str] | None = None

    @property
    def kept_bytes(self) -> int:
        """Return how much of all that was written is kept."""
        return self._begins + self._end

    @property
    def data_bytes(self) -> int:
        """Return how much of what is kept is no hole: a file can be made longer by a terabyte at once."""
        position, holes = (self.follower.position, self.follower.hole_bytes) if self.follower is not None else (0, 0)
        waiting = max(self._end - position, 0)
        hole = max(waiting - self._blocks, 0)
        return self.kept_bytes - holes - (hole if hole >= LEAST_HOLE else 0)

    @property
    def is_compressed(self) -> bool:
        """Tell whether a part of it is compressed already."""
        return self.follower is not None and self.follower.has_begun

    def look(self, status: os.stat_result, *, whole: bool = False) -> bool:
        """Take notice of its size, and compress a frame of it; return whether one more can follow at once.

        Args:
            status: of the file.
            whole: whether a last, short frame is wanted.
        """
        size = status.st_size
        seen, self.size, self._blocks = self.size, size, status.st_blocks * _BLOCK_UNIT
        if size >= seen and (self.follower is None or not self.follower.wants(size)):
            return False
        with self._open(os.O_RDWR) as descriptor:
            if size < seen or (self.follower is not None and self.follower.was_emptied(descriptor, size)):
                self._begin_anew(seen)
            return self.follower is not None and self.follower.step(descriptor, self._end, whole=whole)

    def rename(self, path: Path) -> None:
        """Go on under a new name."""
        self.path = path
        if self.follower is not None:
            self.follower.rename(path.name)

    def cut(self, *, at_start: bool = False) -> None:
        """Keep nothing that comes behind its last whole line.

        Args:
            at_start: keep nothing of it at all.
        """
        if self._kept is None:
            self._kept = self._counted = 0 if at_start else self.size
            self._cut_ns = time.monotonic_ns()
            if not at_start:
                with self._open(os.O_RDONLY) as descriptor:
                    start = self.follower.position if self.follower is not None else 0
                    self._kept = self._counted = find_last_line_end(descriptor, start, self.size)

    def discard(self) -> None:
        """Count what was written behind the cut, and give its space back."""
        if self._kept is None or self.size <= self._counted:
            return
        with self._open(os.O_RDWR) as descriptor:
            for begin, stop in list_data(descriptor, self._counted, self.size):
                for at in range(begin, stop, _CHUNK):
                    self._lost_lines += os.pread(descriptor, min(_CHUNK, stop - at), at).count(b"\n")
            self._counted = self.size
            start, end = -(-self._kept // _BLOCK) * _BLOCK, self._counted // _BLOCK * _BLOCK
            if end > start:
                # A file system that cannot give it back keeps it until the end.
                with contextlib.suppress(OSError):
                    free_space(descriptor, start, end - start)

    def close(self, *, is_gone: bool, is_written: bool = False) -> None:
        """Cut the file to what is kept, or complete the compressed one and remove it.

        Args:
            is_gone: whether the file is gone already.
            is_written: whether its writer goes on: then a copy takes its place, which stays as it is.
        """
        if self.follower is None or not self.follower.has_begun:
            if is_written and not is_gone:
                self._replace_by_copy()
            elif not is_gone:
                self.shorten()
            return
        if not is_gone:
            self._compress_rest(self.follower)
        self.stored = self.follower.summary
        self.follower.finish()

    def shorten(self) -> None:
        """Cut the file itself to what is kept."""
        if self._kept is not None and self.size > self._kept:
            with self._open(os.O_WRONLY) as descriptor:
                os.ftruncate(descriptor, self._kept)

    def list_losses(self, *, is_gone: bool) -> list[dict[str, Any]]:
        """Return what was lost of it: path, reason, offset, bytes, lines where they were counted, times."""
        if is_gone:
            position = self.follower.position if self.follower is not None else 0
            if self.size > position or not self.is_compressed:
                reason = "the file was removed or replaced while the workload ran"
                self._add_loss(reason, self._begins + position, self.size - position)
        elif self._kept is not None and self.size > self._kept:
            self._add_loss(CUT_SHORT, self.kept_bytes, self.size - self._kept)
            self._losses[-1] |= {"records": self._lost_lines, "from_ns": self._cut_ns}
        return self._losses

    def _replace_by_copy(self) -> None:
        fresh = self.path.with_name(f".{self.path.name}.kept")
        with self._open(os.O_RDONLY) as descriptor:
            owner = os.fstat(descriptor)
            copy = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
            try:
                done = 0
                while done < self._end and (count := os.sendfile(copy, descriptor, done, self._end - done)):
                    done += count
                os.fchown(copy, owner.st_uid, owner.st_gid)
                fresh.replace(self.path)
            except BaseException:
                fresh.unlink()
                raise
            finally:
                os.close(copy)

    def _compress_rest(self, follower: LogFollower) -> None:
        try:
            with self._open(os.O_RDWR) as descriptor:
                while follower.step(descriptor, self._end, whole=True):
                    pass
            if self.path.lstat().st_ino == self.inode:
                self.path.unlink()
        except OSError as error:
            left = self._end - follower.position
            reason = f"not compressed: {error.strerror or error}; it is left in {self.path.name}"
            self._add_loss(reason, self.kept_bytes - left, left)

    @property
    def _end(self) -> int:
        return self.size if self._kept is None else self._kept

    @property
    def _begins(self) -> int:
        return self.follower.begins if self.follower is not None else 0

    def _begin_anew(self, seen: int) -> None:
        """Go on with a file that its runtime emptied; what was not read before is lost."""
        position = self.follower.position if self.follower is not None else 0
        reason = "the runtime emptied its log (AMD_LOG_LEVEL_SIZE)"
        self._add_loss(reason, self._begins + position, max(seen - position, 0))
        if self.follower is not None:
            self.follower.begin_anew()
        if self._kept is not None:
            self._kept = self._counted = 0

    def _add_loss(self, reason: str, offset: int, size: int) -> None:
        stored = self.follower.path.name if self.follower is not None and self.is_compressed else self.path.name
        self._losses.append({
            "source": "amd_log", "path": f"raw/amd_log/{stored}", "reason": reason, "offset": offset, "bytes": size,
            "from_ns": None, "to_ns": time.monotonic_ns(),
        })  # fmt: skip

    @contextmanager
    def _open(self, flags: int) -> Iterator[int]:
        descriptor = open_log(self.path, flags, self._owners())
        try:
            yield descriptor
        finally:
            os.close(descriptor)


def find_last_line_end(descriptor: int, start: int, size: int) -> int:
    """Return where the last whole line of a file ends, or `start` where none ends between it and `size`."""
    for begin, end in reversed(list(list_data(descriptor, start, size))):
        while end > begin:
            at = max(end - _CHUNK, begin)
            found = os.pread(descriptor, end - at, at).rfind(b"\n")
            if found >= 0:
                return at + found + 1
            end = at
    return start


def list_data(descriptor: int, start: int, size: int) -> Iterator[tuple[int, int]]:
    """Yield start and end of each part of a file between `start` and `size` that is no hole."""
    end = start
    with contextlib.suppress(OSError):  # ENXIO: there is no more data
        while end < size:
            begin = os.lseek(descriptor, end, os.SEEK_DATA)
            if begin >= size:
                return
            end = min(os.lseek(descriptor, begin, os.SEEK_HOLE), size)
            yield begin, end
