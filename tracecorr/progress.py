"""What is being done now, and how far it is: the stages of a long work, and the live line of a terminal."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TextIO

from tracecorr.model.printable import printable

_Show = Callable[[str], None]
_INTERVAL_SECONDS = 1.0
# A file that takes no longer than this is not worth a line.
_SOON_SECONDS = 0.5
_CLEAR_LINE = "\r\x1b[K"


def tell(stream: TextIO, text: str) -> None:
    """Write a message to a stream; if it cannot be written, all later ones are dropped: no message is worth a capture.

    Its reader may be gone, its terminal closed, or its disk full.
    """
    try:
        stream.write(text)
        stream.flush()
    except OSError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


class LiveLine:
    """Show a line that the next one replaces, only where the stream (stderr) is a terminal."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._on = self._stream.isatty()
        self._next = 0.0
        self._shown = False

    def is_due(self) -> bool:
        """Tell whether a line was shown a second ago, or never."""
        return self._on and time.monotonic() >= self._next

    def show(self, text: str) -> None:
        """Replace the line; what is wider than the terminal is left out."""
        if not self._on:
            return
        self._next = time.monotonic() + _INTERVAL_SECONDS
        tell(self._stream, _CLEAR_LINE + printable(text)[: shutil.get_terminal_size().columns - 1])
        self._shown = True

    def clear(self) -> None:
        """Take the line away before other text is printed."""
        if self._shown:
            tell(self._stream, _CLEAR_LINE)
            self._shown = False


class Stages:
    """Tell the stages of a work, and measure how long each takes.

    Args:
        lasting: called with a line after each stage; None = no listener.
        live: called with what is being done now, when a stage begins and about once a second; None = no listener.
    """

    def __init__(self, lasting: _Show | None = None, live: _Show | None = None) -> None:
        self._lasting, self._live = lasting, live
        self._since = self._told = time.monotonic()

    def begin(self, what: str) -> None:
        """Say what is done from now on."""
        self._told = time.monotonic()
        if self._live:
            self._live(f"{what} ...")

    def end(self, stage: str) -> None:
        """Say how long a stage took: since the end of the one before."""
        now = time.monotonic()
        if self._lasting:
            self._lasting(f"{stage}: {now - self._since:.2f} s")
        self._since = now

    def watch(self, name: str, total: int) -> Watch:
        """Return what tells how far the reading of `total` bytes of `name` is."""
        return Watch(self, name, total)

    def tick(self, describe: Callable[[], str]) -> None:
        """Say what is being done, when that was last said a while ago."""
        if self._live and time.monotonic() - self._told >= _SOON_SECONDS:
            self._told = time.monotonic()
            self._live(describe())


@dataclass
class Watch:
    """Count the bytes that are read of one source, of all its files together.

    Args:
        stages: told about once a second.
        name: what is read.
        total: bytes, decompressed.
    """

    stages: Stages
    name: str
    total: int
    _seen: int = 0

    def follow(self, chunks: Iterator[bytes]) -> Iterator[bytes]:
        """Yield the chunks, and tell how much of the source they are."""
        for chunk in chunks:
            self.count(len(chunk))
            yield chunk

    def count(self, size: int) -> None:
        """Take note of some more bytes, and tell how much of the source is read."""
        self._seen += size
        self.stages.tick(self._describe)

    def _describe(self) -> str:
        share = 100 * self._seen // max(self.total, 1)
        return f"reading {self.name}: {share} % of {self.total / 1e6:,.0f} MB"
