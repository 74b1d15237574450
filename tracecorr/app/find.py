"""Search: which events match a text, an event number, an owner or an address, and which one comes next."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import polars as pl

from tracecorr.app.filters import find_kernels
from tracecorr.app.index import CaptureIndex
from tracecorr.model.columns import is_counted
from tracecorr.timeline import levels
from tracecorr.timeline.levels import I64

_MAX_NAMES = 2000  # names sent to the page for dimming what does not match


@dataclass(frozen=True)
class _Words:
    """A text that names are compared with, in lower case: they hold it, or between double quotes are it."""

    text: str
    whole: bool

    @classmethod
    def read(cls, text: str) -> _Words:
        """Read what was typed."""
        whole = len(text) > 2 and text[0] == text[-1] == '"'
        return cls(text[1:-1] if whole else text, whole)

    def fit(self, name: str) -> bool:
        """Tell whether a name is looked for."""
        return self.text == name.lower() if self.whole else self.text in name.lower()


class Finder:
    """Search one capture; the hits of the last queries stay in memory."""

    def __init__(self, index: CaptureIndex) -> None:
        """Search in `index`."""
        self._index = index
        self._cached = lru_cache(maxsize=8)(self._hits)

    def find(self, text: str, at: int, forward: bool) -> dict[str, Any]:
        """Return the number of hits and the next one after (or before) the event number `at`."""
        hits, names = self._cached(text.strip().lower())
        answer: dict[str, Any] = {"count": len(hits), "names": names[:_MAX_NAMES], "event": None}
        if len(hits) == 0:
            return answer
        if forward:
            position = int(np.searchsorted(hits, at, side="right")) % len(hits)
        else:
            position = (int(np.searchsorted(hits, at, side="left")) - 1) % len(hits)
        event = int(hits[position])
        place = self._index.place(event)
        return answer | {
            "event": event, "position": position + 1, "start": place.start, "lane": place.lane, "row": place.row,
        }  # fmt: skip

    def ticks(self, text: str, t0: int, t1: int, width: int) -> list[int]:
        """Return the pixels (of `width`) between two times in which hits start."""
        hits, _ = self._cached(text.strip().lower())
        views = self._index.views
        start = views.pyramid.finest.start[views.place[hits]]
        inside = start[(start >= t0) & (start < t1)]
        pixels: list[int] = np.unique((inside - t0) * width // max(1, t1 - t0)).tolist()
        return pixels

    def _hits(self, text: str) -> tuple[I64, list[int]]:
        if text.startswith("#") and text[1:].isdecimal():
            return self._by_number(int(text[1:])), []
        if text.startswith("0x"):
            try:
                return self._by_address(int(text, 16)), []
            except ValueError:
                return np.zeros(0, np.int64), []
        if (of_owner := self._by_owner(text)) is not None:
            return of_owner, []
        words = _Words.read(text)
        by_name, codes = self._by_name(words)
        if re.fullmatch(r"[0-9]{1,9}", text, re.ASCII):
            by_name = self._together(by_name, self._where(self._of_process(int(text)) | self._of_thread(int(text))))
        for same in self._columns_with(words):
            own = self._where(same)
            by_name = self._together(by_name, own)
            codes = sorted({*codes, *self._names_of(own)})
        return by_name, codes

    def _by_owner(self, text: str) -> I64 | None:
        """Return the events of an owner that a text names as the timeline does; None if it names none."""
        named = re.fullmatch(r"(queue|stream|process|pid|thread|tid) (0x[0-9a-f]{1,16}|[0-9]{1,9})", text, re.ASCII)
        if named is None:
            return None
        number = int(named[2], 16 if named[2].startswith("0x") else 10)
        if named[1] in ("process", "pid"):
            return self._where(self._of_process(number))
        return self._where(self._of_thread(number) if named[1] in ("thread", "tid") else pl.col(named[1]) == number)

    def _columns_with(self, words: _Words) -> Iterator[pl.Expr]:
        """Yield what finds a text in columns that are not drawn: kernels by their whole names, kinds, results."""
        if not words.text:
            return
        if kernels := find_kernels(self._index, words.text, words.whole):
            yield pl.col("kernel").is_in(pl.Series(kernels, dtype=pl.UInt32).implode())
        # A dispatch is drawn under the name of its kernel.
        if names := [name for name in self._undrawn if words.fit(name)]:
            yield pl.col("kernel").is_not_null() & pl.col("name").cast(pl.String).is_in(names)
        if results := [result for result in self._results if words.fit(result)]:
            yield pl.col("result").cast(pl.String).is_in(results)

    @cached_property
    def _undrawn(self) -> list[str]:
        events = self._index.capture.table("events").filter(pl.col("kernel").is_not_null())
        return events.select(pl.col("name").unique().cast(pl.String)).collect()["name"].drop_nulls().to_list()

    @cached_property
    def _results(self) -> list[str]:
        """Return the results that have a name: a number or an address, as many calls return it, is no text."""
        known = self._index.capture.table("events").select(pl.col("result").unique().cast(pl.String)).drop_nulls()
        return known.filter(~pl.col("result").str.contains(r"^(-|0x)?[0-9a-f]+$")).collect()["result"].to_list()

    def _together(self, *found: I64) -> I64:
        events = np.concatenate(found).astype(np.int32)
        return levels.distinct_events(events, self._index.views.events).astype(np.int64)

    def _names_of(self, events: I64) -> list[int]:
        """Return the codes of the names under which some events are drawn."""
        views = self._index.views
        used = np.bincount(views.pyramid.finest.name[views.place[events]], minlength=1)
        return [int(code) for code in np.flatnonzero(used)]

    def _by_name(self, words: _Words) -> tuple[I64, list[int]]:
        views = self._index.views
        codes = [i for i, name in enumerate(views.names) if words.fit(name)] if words.text else []
        wanted = np.zeros(len(views.names) + 1, bool)
        wanted[codes] = True
        # The record of an event's own picture: what is drawn a second time is not counted twice.
        found = np.flatnonzero(wanted[views.pyramid.finest.name[views.place]])
        # A second sight of a call has the record of the row that counts.
        return found[views.pyramid.finest.event[views.place[found]] == found], codes

    def _of_process(self, pid: int) -> pl.Expr:
        """Return what finds the events of the processes with a pid, of the host or of the log."""
        same = pl.any_horizontal(pl.col("pid", "log_pid") == pid)
        processes = self._index.capture.table("processes").filter(same).select("process").collect()
        return pl.col("process").is_in(processes["process"].implode())

    def _of_thread(self, tid: int) -> pl.Expr:
        """Return what finds the events of the threads with a tid, of the host or of the log."""
        same = (pl.col("tid") == tid) | (pl.col("log_tid") == pl.lit(tid, pl.UInt64))
        threads = self._index.capture.table("threads").filter(same).select("thread").collect()
        return pl.col("thread").is_in(threads["thread"].implode())

    def _where(self, same: pl.Expr) -> I64:
        events = self._index.capture.table("events").filter(same & is_counted()).select("event")
        return events.sort("event").collect()["event"].to_numpy()

    def _by_number(self, event: int) -> I64:
        return np.asarray([event] if event < self._index.views.events else [], np.int64)

    def _by_address(self, value: int) -> I64:
        if value >= 1 << 64:
            return np.zeros(0, np.int64)
        table, wanted = self._index.capture.table, pl.lit(value, pl.UInt64)
        queues = table("queues").filter(pl.any_horizontal(pl.col("hwq", "ring_base", "swq") == wanted))
        streams = table("streams").filter(pl.col("handle") == wanted)
        same = pl.any_horizontal(
            *(pl.col(c) == wanted for c in ("signal", "command", "arg")),
            pl.col("queue").is_in(queues.select("queue").collect()["queue"].implode()),
            pl.col("stream").is_in(streams.select("stream").collect()["stream"].implode()),
            self._of_thread(value),
        )
        return self._where(same)
