"""The captures of the page: found by name, opened when first asked for."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from tracecorr.app import index
from tracecorr.app.filters import Filters
from tracecorr.app.find import Finder
from tracecorr.app.source import CaptureLike


class Tints:
    """Give the key of each event by which the page may colour it."""

    _COLUMNS = ("stream", "queue")

    def __init__(self, capture: CaptureLike) -> None:
        """Read from `capture` when first asked."""
        self._capture = capture
        self._known: dict[str, npt.NDArray[np.uint16]] = {}

    def get(self, column: str) -> npt.NDArray[np.uint16] | None:
        """Return 1 + the key of each event (0 = none) in a column of `events`; None for another column."""
        if column not in self._COLUMNS:
            return None
        if column not in self._known:
            key = (pl.col(column) % 0xFFFF + 1).fill_null(0).cast(pl.UInt16)
            events = self._capture.table("events").select("event", key).sort("event").collect()
            self._known[column] = events[column].to_numpy()
        return self._known[column]


@dataclass(frozen=True)
class Opened:
    """Hold one opened capture and what answers questions about it."""

    name: str
    index: index.CaptureIndex
    finder: Finder
    filters: Filters
    tints: Tints


class Library:
    """Hold the captures of the page; each is opened when it is first asked for."""

    def __init__(self, captures: Mapping[str, CaptureLike]) -> None:
        """Serve `captures`, by the name under which the page selects them."""
        self._captures = captures
        self._opened: dict[str, Opened] = {}
        self._lock = threading.Lock()

    def names(self) -> list[str]:
        """Return the names of all captures."""
        return list(self._captures)

    def get(self, name: str) -> Opened:
        """Return an opened capture.

        Raises:
            KeyError: there is no such capture.
        """
        with self._lock:
            if name not in self._opened:
                capture = self._captures[name]
                built = index.build(capture)
                self._opened[name] = Opened(name, built, Finder(built), Filters(built), Tints(capture))
            return self._opened[name]
