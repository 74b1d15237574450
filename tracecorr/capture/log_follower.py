"""One growing log followed: compressed frame by frame, the space behind the reader given back."""

from __future__ import annotations

import os
import time
from pathlib import Path

from tracecorr.model.checksum import Checksum
from tracecorr.store.frames import FRAME_BYTES, SUFFIX, FrameWriter
from tracecorr.store.space import free_space

_BLOCK = 4096
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
        """Tell whether the file no longer holds what was read of it: its runtime began anew."""
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
        data = os.pread(descriptor, min(FRAME_BYTES, waiting), self.position)
        if waiting >= FRAME_BYTES:
            # A frame that ends with a line can be read without its neighbour.
            data = data[: data.rfind(b"\n") + 1] or data
        try:
            self._append(descriptor, data)
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

    def _append(self, descriptor: int, data: bytes) -> None:
        if self._writer is None:
            self.path.parent.mkdir(exist_ok=True)
            self._writer = FrameWriter.create(self.path)
        if not self._writer.reserve(_LARGEST_FRAME):
            # On a full disk what was read makes the room for what comes.
            self._free_behind(descriptor)
            self._writer.reserve(_LARGEST_FRAME)
        self._writer.append(data)
        self._checksum.update(data)
        self.position += len(data)
        self._remembered = data[-_REMEMBERED:]

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
