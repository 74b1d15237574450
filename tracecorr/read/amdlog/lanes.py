"""Lanes: the records of one thread in one run of its program, between which calls nest and lines belong together.

ROCm 6.4 and later append to the file of an earlier process with the same number. The clock of a
thread never goes back, so where it does, another run begins, and nothing of the one before goes on.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tracecorr import native
from tracecorr.read.amdlog.split import Thread
from tracecorr.read.digits import Ints, Mask

# Without a thread in the prefix several threads share a lane, and their lines may be out of order by some time.
_STEP_NS = 1_000_000_000
_NEVER = -(1 << 62)


class Lanes:
    """Number the lanes; remembers the last time of each."""

    def __init__(self) -> None:
        self._keys: dict[tuple[object, ...], int] = {}
        # Of each thread its key's number; of each key its lane now and its last time.
        self._key_of = np.zeros(0, np.int64)
        self._lane_now = np.zeros(0, np.int64)
        self._last = np.zeros(0, np.int64)
        self._count = 0

    def of(
        self, threads: list[Thread], thread: Ints, stamp: Ints, is_rocr: Mask, room: int = 0
    ) -> npt.NDArray[np.int32]:
        """Return the lane of each record, in the order of the file, behind room for others.

        Args:
            threads: what the codes in `thread` stand for.
            thread: codes of threads.
            stamp: times, in ns.
            is_rocr: records of another clock.
            room: for so many records.
        """
        self._add(threads)
        lane, last, told = native.set_lanes(thread, self._key_of, self._lane_now, stamp, is_rocr, self._last, room)
        least, latest, behind = told
        if least < latest - _STEP_NS or behind > _STEP_NS:
            rows = np.flatnonzero(~is_rocr)
            self._part(lane[room:], self._key_of[thread], rows, stamp[rows])
        self._last = last
        return lane

    def _add(self, threads: list[Thread]) -> None:
        for thread in threads[len(self._key_of) :]:
            number = self._keys.setdefault(thread.lane, len(self._keys))
            self._key_of = np.append(self._key_of, number)
            if number == len(self._lane_now):
                self._lane_now = np.append(self._lane_now, self._count)
                self._last = np.append(self._last, _NEVER)
                self._count += 1

    def _part(self, lane: npt.NDArray[np.int32], key: Ints, rows: Ints, time: Ints) -> None:
        """Give records behind a step back lanes of their own."""
        order = np.argsort(key[rows], kind="stable")
        sorted_key, sorted_time = key[rows][order], time[order]
        before = np.append(_NEVER, sorted_time[:-1])
        is_first = np.append(True, sorted_key[1:] != sorted_key[:-1])
        before[is_first] = self._last[sorted_key[is_first]]
        steps = np.flatnonzero(sorted_time < before - _STEP_NS)
        # Between two steps all belongs to one run; what stands before the first one to the run that was.
        begins = rows[order[steps]]
        for number in np.unique(sorted_key[steps]).tolist():
            own = np.flatnonzero(key == number)
            runs = np.searchsorted(np.sort(begins[sorted_key[steps] == number]), own, side="right")
            lane[own] = np.where(runs > 0, self._count + runs - 1, lane[own])
            self._count += int(runs[-1])
            self._lane_now[number] = self._count - 1
