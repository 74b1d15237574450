"""A recording that still runs: its logs and kernel trace so far, read into a capture of their own; it is left alone."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
import weakref
from collections.abc import Iterator
from pathlib import Path

from tracecorr.pipeline import correlate
from tracecorr.store import Capture
from tracecorr.store.capture import write_info
from tracecorr.store.followed import list_growing, read_growing
from tracecorr.store.ownership import LOG_FOLDER
from tracecorr.store.recording import is_recorded_now, list_raw_files

_TRACE, _CLOCK = "raw/ftrace", "raw/clock.json"
_PAGE = 4096  # bytes; the reader leaves a larger one out if its end is missing
LIVE = "live"  # the state of a capture that holds a reading
_PAUSE = 4.0  # at least this many times the last reading's duration pass before the next
_TRIES, _BREATH = 100, 0.05  # how often, and after how many s each, a folder is removed that is still written to
_REST = 3.0  # s from one try to read a recording that has ended to the next: its tables may still be built


class Live:
    """Read the logs of one running recording; every reading replaces the one before."""

    def __init__(self, capture: Capture) -> None:
        """Follow the recording of `capture`."""
        self._capture = capture
        self._folder = Path(tempfile.mkdtemp(prefix="tracecorr-live-"))
        weakref.finalize(self, _remove, self._folder)
        self._sizes: dict[str, int] = {}
        self._again = 0.0  # when the next reading may begin
        self.readings = 0
        self.ended = False  # it is shown as any other capture by now

    def has_grown(self) -> bool:
        """Tell whether there is more than at the last reading, or its end, and whether it is time to read it."""
        if self.ended or time.monotonic() < self._again:
            return False
        return self._sizes_now() != self._sizes or not is_recorded_now(Capture.open(self._capture.path))

    def rest(self) -> None:
        """Have nothing new for a moment: what came could not be read."""
        self._again = time.monotonic() + _REST

    def read(self) -> Capture:
        """Return a capture with all whole lines that the logs have now, and the pages of the trace.

        The kernel hands over the newest pages a moment later.

        Raises:
            OSError: there is no room for a copy of the logs.
        """
        begun = time.monotonic()
        self._sizes = self._sizes_now()
        path = self._folder / f"{self.readings}" / self._capture.path.name
        (path / LOG_FOLDER).mkdir(parents=True)
        for name in self._sizes:
            if not name.startswith(_TRACE):
                _write_lines(path / LOG_FOLDER / name, read_growing(self._capture.path, name))
        self._copy_trace(path)
        warning = "this is still being recorded: the kernel trace ends a moment before the log"
        write_info(path, {**self._capture.info, "state": LIVE, "files": list_raw_files(path)})
        warnings = [warning, *correlate(path)]
        write_info(path, {**Capture.open(path).info, "warnings": warnings})
        if self.readings > 1:  # the last one may still be on a screen
            shutil.rmtree(self._folder / f"{self.readings - 2}", ignore_errors=True)
        self.readings += 1
        self._again = time.monotonic() + _PAUSE * (time.monotonic() - begun)
        return Capture.open(path)

    def _sizes_now(self) -> dict[str, int]:
        trace = sorted((self._capture.path / _TRACE).glob("*/*cpu*.bin"))
        pages = {str(path.relative_to(self._capture.path)): path.stat().st_size for path in trace}
        return list_growing(self._capture.path) | pages

    def _copy_trace(self, path: Path) -> None:
        """Copy what there is of the trace with its formats, and the samples of the clocks; of pages only whole ones."""
        root = self._capture.path
        known = [file for file in (root / _TRACE).rglob("*") if file.is_file() and not file.is_symlink()]
        for file in [*known, *root.glob(_CLOCK)]:
            target = path / file.relative_to(root)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, target)
            if file.suffix == ".bin":
                os.truncate(target, target.stat().st_size // _PAGE * _PAGE)


def _remove(folder: Path) -> None:
    """Take a folder away, into which a reading may still write while the server ends; without it that fails soon."""
    for _ in range(_TRIES):
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
            return
        time.sleep(_BREATH)


def _write_lines(target: Path, pieces: Iterator[bytes]) -> None:
    """Write all whole lines of `pieces`."""
    with target.open("wb") as writer:
        line = b""
        for piece in pieces:
            whole, newline, rest = piece.rpartition(b"\n")
            if newline:
                writer.write(line + whole + newline)
                line = rest
            else:
                line += rest
