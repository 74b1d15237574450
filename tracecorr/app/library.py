"""The captures of the page: found by name, opened when first asked for."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import count
from traceback import format_exception

import numpy as np
import numpy.typing as npt
import polars as pl

from tracecorr.analyze.chain import STEPS
from tracecorr.app import index
from tracecorr.app.captures import CaptureLike, Nodes, Pair
from tracecorr.app.filters import Filters
from tracecorr.app.find import Finder
from tracecorr.app.live import Live
from tracecorr.model.errors import CaptureError, InputError, TracecorrError
from tracecorr.model.printable import printable
from tracecorr.pipeline import correlate
from tracecorr.store import Capture
from tracecorr.store.recording import is_completed_now, is_recorded_now

_log = logging.getLogger(__name__)
_FAILURES = (TracecorrError, OSError, ValueError, pl.exceptions.PolarsError, pl.exceptions.PanicException)


class Tints:
    """Give the key of each event by which the page may colour it: its own, else that of its launch."""

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
            own = self._capture.table("events").select("event", key).sort("event").collect()
            found = own[column].to_numpy(writable=True)
            launches = self._capture.table("launches").select(*STEPS, tint=key).collect()
            for step in STEPS:
                # A call whose launches differ, as one of a graph, has no key of its own.
                pairs = launches.select(step, "tint").drop_nulls().filter(pl.col("tint") > 0).unique()
                of_launch = pairs.filter(pl.len().over(step) == 1)
                events, tint = of_launch[step].to_numpy(), of_launch["tint"].to_numpy()
                found[events] = np.where(found[events] == 0, tint, found[events])
            self._known[column] = found
        return self._known[column]


@dataclass(frozen=True, eq=False)
class Opened:
    """Hold one opened capture and what answers questions about it; each is one of its own, whatever it holds."""

    name: str
    index: index.CaptureIndex
    finder: Finder
    filters: Filters
    tints: Tints
    readings: int | None = None  # which reading of a running recording it holds; None of what is not being recorded
    edition: int = 0  # tells it from what was opened under the same name before: numbers of events are its own
    stamps: Mapping[str, object] = field(default_factory=dict)  # by capture what changes when its tables do


@dataclass(frozen=True)
class Wanted:
    """Name what is to be shown: one capture, or two (`other`) put together at an anchor of `pair.ANCHORS`."""

    name: str
    other: str = ""
    anchor: str = "start"


class Library:
    """Hold the captures of the page; each is opened when it is first asked for."""

    def __init__(self, captures: Mapping[str, CaptureLike]) -> None:
        """Serve `captures`, by the name under which the page selects them."""
        self._captures = captures
        self._opened: dict[Wanted, Opened] = {}
        self._working: dict[Wanted, str] = {}  # what is being opened, and what goes on
        self._failed: dict[Wanted, InputError] = {}
        self._lock = threading.RLock()
        self._live: dict[str, Live] = {}
        self._before: dict[Wanted, Opened] = {}  # the reading before the newest: a page may still show it
        self._editions = count(1)
        self._told: dict[Wanted, str] = {}  # the last failure of following

    def names(self) -> list[str]:
        """Return the names of all captures."""
        return list(self._captures)

    def get(self, wanted: Wanted, edition: int | None = None) -> Opened:
        """Return an opened capture or pair; build missing tables first.

        Args:
            wanted: what is to be shown.
            edition: what the question is about; None = the newest.

        Raises:
            KeyError: there is no such capture.
            ValueError: there is no such anchor.
            TracecorrError: it cannot be opened, or this edition of it is no longer known.
        """
        newest = self._get_newest(wanted)
        known = (newest, self._before.get(wanted, newest))
        found = newest if edition is None else next((one for one in known if one.edition == edition), None)
        if found is None:
            raise InputError(f"{wanted.name} was rebuilt since the page was opened", "reload the page")
        return found

    def _get_newest(self, wanted: Wanted) -> Opened:
        opened = self._current(wanted)
        if opened is not None:
            return opened  # also while another one is opened, which may take minutes
        with self._lock:
            opened = self._current(wanted)
            if opened is None:
                opened = self._opened[wanted] = self._open(wanted)
            return opened

    def _current(self, wanted: Wanted) -> Opened | None:
        """Return what is open, unless its tables were rebuilt since: event numbers would be wrong."""
        opened = self._opened.get(wanted)
        same = opened is not None and all(self._stamp(name) == stamp for name, stamp in opened.stamps.items())
        return opened if same else None

    def _stamp(self, name: str) -> object:
        capture = self._captures[name]
        if not isinstance(capture, Capture):
            return None
        try:
            found = (capture.path / "tables").stat()
        except OSError:
            return None
        return found.st_ino, found.st_mtime_ns

    def state(self, wanted: Wanted) -> str | None:
        """Begin to open a capture in the background; return what goes on, or None when it is open.

        Raises:
            KeyError: there is no such capture.
            InputError: it cannot be opened.
        """
        if self._current(wanted) is not None:
            return None  # also while a recording is read again
        if wanted in self._failed:
            raise self._failed.pop(wanted)
        for name in filter(None, (wanted.name, wanted.other)):
            self._captures[name]
        # Not asked for again: the thread may have ended by now, and the capture not be open.
        going_on = self._working.get(wanted)
        if going_on is None:
            going_on = self._working[wanted] = "opening the capture"
            threading.Thread(target=self._open_behind, args=(wanted,), daemon=True).start()
        return going_on

    def follow(self, wanted: Wanted) -> int | None:
        """Read what a running recording has written since, in the background.

        Returns: the reading that is open: a newer one is only told of when its picture can be had; None when nothing
            of what is shown is being recorded.
        """
        opened, live = self._opened.get(wanted), self._live_of(wanted)
        ended = opened is not None and opened.readings is not None and all(one.ended for one in live)
        grown = ended or any(one.has_grown() for one in live)
        if opened is not None and wanted not in self._working and grown:
            self._working[wanted] = "reading what was recorded since"
            threading.Thread(target=self._open_anew, args=(wanted,), daemon=True).start()
        return None if opened is None else opened.readings

    def _live_of(self, wanted: Wanted) -> list[Live]:
        return [self._live[name] for name in (wanted.name, wanted.other) if name in self._live]

    def _open_anew(self, wanted: Wanted) -> None:
        try:
            newest = self._open(wanted)  # until then the older picture is shown
            self._before[wanted] = self._opened[wanted]
            self._opened[wanted] = newest
        except _FAILURES as problem:
            for one in self._live_of(wanted):
                one.rest()
            if self._told.get(wanted) != str(problem):
                _report(f"{wanted.name} cannot be followed", problem)
            self._told[wanted] = str(problem)
        finally:
            self._working.pop(wanted, None)

    def _open_behind(self, wanted: Wanted) -> None:
        try:
            self.get(wanted)
        except _FAILURES as problem:
            _report(f"{wanted.name} cannot be opened", problem)
            next_step = getattr(problem, "next_step", "") or "see the server's messages"
            self._failed[wanted] = InputError(str(problem), next_step)
        finally:
            self._working.pop(wanted, None)

    def _open(self, wanted: Wanted) -> Opened:
        capture = self._with_tables(wanted, wanted.name)
        if wanted.other:
            capture = Pair(capture, self._with_tables(wanted, wanted.other), wanted.anchor)
        elif isinstance(capture, Capture) and capture.nodes:
            capture = Nodes(capture)
        self._tell(wanted, "reading the tables")
        live = {name: one for name, one in self._live.items() if name in (wanted.name, wanted.other) and not one.ended}
        readings = sum(one.readings for one in live.values()) if live else None
        stamps = {name: self._stamp(name) for name in (wanted.name, wanted.other) if name and name not in live}
        built = index.build(capture)
        parts = Finder(built), Filters(built), Tints(capture)
        return Opened(wanted.name, built, *parts, readings, next(self._editions), stamps)

    def _with_tables(self, wanted: Wanted, name: str) -> CaptureLike:
        capture = self._captures[name]
        if not isinstance(capture, Capture):
            return capture
        capture = Capture.open(capture.path)  # a recording wrote what it has only at its end
        if is_recorded_now(capture):
            return self._live.setdefault(name, Live(capture)).read()
        if is_completed_now(capture):
            raise CaptureError(f"the tables of {capture.path} are being built by its recording", "wait for its end")
        if not capture.has_tables() or capture.is_outdated():
            correlate(capture.path, live=lambda text: self._tell(wanted, f"building the tables: {text}"))
            capture = Capture.open(capture.path)
        if name in self._live:
            self._live[name].ended = True
        return capture

    def _tell(self, wanted: Wanted, text: str) -> None:
        """Note what is being done for a background opening, which no other one removes."""
        if wanted in self._working:
            self._working[wanted] = text


def _report(what: str, problem: BaseException) -> None:
    """Tell the server's user what failed; only an unexpected failure needs the place in the code."""
    if isinstance(problem, TracecorrError):
        told = map(printable, (what, problem.what, problem.next_step))
        _log.warning("%s: %s\nnext step: %s", *told)
    else:
        _log.error("%s", printable("".join([f"{what}\n", *format_exception(problem)]), keep="\n"))
