"""A recording that still runs: its HIP logs so far, read into a capture of their own. The recording is left alone."""

from __future__ import annotations

import shutil
import tempfile
import time
from pathlib import Path

from tracecorr.pipeline import correlate
from tracecorr.store import Capture
from tracecorr.store.capture import write_info
from tracecorr.store.recording import list_raw_files

_LOGS = Path("raw") / "amd_log"
_PAUSE = 4.0  # at least this many times the last reading's duration pass before the next
_PIECE = 1 << 20


class Live:
    """Read the logs of one running recording; every reading replaces the one before."""

    def __init__(self, capture: Capture) -> None:
        """Follow the recording of `capture`."""
        self._capture = capture
        self._folder = tempfile.TemporaryDirectory(prefix="tracecorr-live-")
        self._sizes: dict[str, int] = {}
        self._again = 0.0  # when the next reading may begin
        self.readings = 0

    def has_grown(self) -> bool:
        """Tell whether there is more than at the last reading, and whether it is time to read it."""
        return time.monotonic() >= self._again and self._sizes_now() != self._sizes

    def read(self) -> Capture:
        """Return a capture with all whole lines that the logs have now.

        Raises:
            OSError: there is no room for a copy of the logs.
        """
        begun = time.monotonic()
        self._sizes = self._sizes_now()
        path = Path(self._folder.name) / f"{self.readings}" / self._capture.path.name
        for name, size in self._sizes.items():
            _copy_lines(self._capture.path / _LOGS / name, path / _LOGS / name, size)
        (path / _LOGS).mkdir(parents=True, exist_ok=True)
        warning = "this is still being recorded: the kernel trace comes when it has ended"
        write_info(path, {**self._capture.info, "state": "live", "files": list_raw_files(path)})
        warnings = [warning, *correlate(path)]
        write_info(path, {**Capture.open(path).info, "warnings": warnings})
        if self.readings > 1:  # the last one may still be on a screen
            shutil.rmtree(Path(self._folder.name) / f"{self.readings - 2}", ignore_errors=True)
        self.readings += 1
        self._again = time.monotonic() + _PAUSE * (time.monotonic() - begun)
        return Capture.open(path)

    def _sizes_now(self) -> dict[str, int]:
        logs = self._capture.path / _LOGS
        return {p.name: p.stat().st_size for p in sorted(logs.glob("*")) if p.is_file() and not p.is_symlink()}


def _copy_lines(source: Path, target: Path, size: int) -> None:
    """Copy at most `size` bytes, and no part of a line."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with source.open("rb") as reader, target.open("wb") as writer:
        left = size
        while left and (piece := reader.read(min(left, _PIECE))):
            writer.write(piece)
            left -= len(piece)
    with target.open("rb+") as copied:
        end = size
        while end:
            begin = max(0, end - _PIECE)
            copied.seek(begin)
            newline = copied.read(end - begin).rfind(b"\n")
            if newline >= 0:
                copied.truncate(begin + newline + 1)
                return
            end = begin
        copied.truncate(0)
