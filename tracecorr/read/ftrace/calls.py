"""The halves of one batch as arrays: what pairing looks at, thread by thread."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import polars as pl

from tracecorr.read.digits import Ints, Mask
from tracecorr.read.ftrace.halves import EXIT, FUNCTION, GRAPH, SYSCALL, number_values

# Layers whose records tell that their thread was in user space.
_OF_USER = ("doorbell", "signal", "hsa")
# Two events that tell of one enter or exit follow each other within this time, an interrupt in between included.
_TWIN_NS = 50_000
# Two probes of one function fire one after the other; an emulated CPU took 0.24 ms from one tracer to the next (6.1 in
# the VM rig).
_BOTH_PROBES_NS = 1_000_000


@dataclass
class Calls:
    """Hold what pairing looks at, one entry per half.

    Args:
        order: the halves in the order of the recording.
        by_thread: the halves that enter, leave or lie in calls, thread by thread, each in order.
        thread: code of the thread.
        phase: INSTANT, ENTER or EXIT.
        call: 0, SYSCALL, FUNCTION, GRAPH or MOMENT.
        key: code of what an exit must share with its enter.
        probed: calls of kernel functions that a probe or the function tracer saw.
        of_kernel: calls of kernel functions, function_graph's too, whose thread is known.
        inside: those of the probed ones whose depth is not known yet.
        child: functions, function_graph's too, that may lie in a system call of their thread.
        user: records that a thread leaves in user space.
        raw: records of `raw_syscalls`.
        probe: code of the event of a probe of a kernel function; 0 for others.
        crossed: enters of earlier batches after which their thread entered or left a system call.
        doubtful: halves of a thread whose records are out of order, where two have one time.
        stamp: time; -1 where there is none.
        cpu: CPU; -1 where it is not known.
        given: hash of what a system call was given.
        file: key of the file.
        offset: first byte of the record.
    """

    order: Ints
    by_thread: Ints
    thread: npt.NDArray[np.uint32]
    phase: npt.NDArray[np.int8]
    call: npt.NDArray[np.int8]
    key: npt.NDArray[np.uint32]
    probed: Mask
    of_kernel: Mask
    inside: Mask
    child: Mask
    user: Mask
    raw: Mask
    probe: npt.NDArray[np.uint32]
    crossed: Mask
    doubtful: Mask
    stamp: Ints
    cpu: Ints
    given: npt.NDArray[np.uint64]
    file: npt.NDArray[np.uint16]
    offset: Ints

    @classmethod
    def of(cls, halves: pl.DataFrame, carried: int) -> Calls:
        """Return the calls of `halves`, whose first `carried` rows come from earlier batches, in order."""
        order = _order(halves["seq"].to_numpy(), carried)
        call, phase = halves["call"].to_numpy(), halves["phase"].to_numpy()
        thread = number_values(halves["tid"].fill_null(0).to_numpy())[1]
        known = halves["tid"].is_not_null().to_numpy()
        user = halves["layer"].is_in(_OF_USER).fill_null(value=False).to_numpy() & known
        chosen = order[((call > 0) | user)[order]]
        of_user = (halves["layer"] == "hsa") | (halves["layer"] == "marker")
        kernel = (~of_user).fill_null(value=False).to_numpy()
        of_kernel = (call >= FUNCTION) & kernel
        probed = of_kernel & (call != GRAPH)
        inside = probed & (phase != EXIT) & halves["depth"].is_null().to_numpy()
        child = of_kernel & (phase != EXIT) & known
        child &= halves["parent_offset"].is_null().to_numpy()
        key = halves["key"].to_physical().fill_null(0).to_numpy()
        file, offset = halves["file"].to_numpy(), halves["offset"].to_numpy()
        raw = halves["is_raw"].fill_null(value=False).to_numpy()
        probe = (halves["probe"].to_physical().cast(pl.UInt32) + 1).fill_null(0).to_numpy()
        crossed = halves["is_crossed"].fill_null(value=False).to_numpy()
        stamp = halves["stamp_ns"].fill_null(-1).to_numpy()
        cpu = halves["cpu"].cast(pl.Int64).fill_null(-1).to_numpy()
        given = halves.select(pl.struct("fd", "arg").hash()).to_series().to_numpy() if raw.any() else np.zeros(0, "u8")
        by_thread, doubtful = _order_by_thread(chosen, thread, stamp)
        return cls(
            order, by_thread, thread, phase, call, key, probed, of_kernel & known, inside, child, user, raw, probe,
            crossed, doubtful, stamp, cpu, given, file, offset,
        )  # fmt: skip

    def list_doubled(self) -> Ints:
        """Return the halves of `raw_syscalls` that stand beside the same half as `syscalls` tells it."""
        if not self.raw.any() or self.raw.all():
            return np.zeros(0, np.int64)
        rows = self.by_thread[(self.call == SYSCALL)[self.by_thread]]
        before, after = rows[:-1], rows[1:]
        twin = (self.thread[before] == self.thread[after]) & (self.phase[before] == self.phase[after])
        twin &= (self.key[before] == self.key[after]) & (self.raw[before] != self.raw[after])
        twin &= (self.phase[before] == EXIT) | (self.given[before] == self.given[after])
        twin &= np.abs(self.stamp[after] - self.stamp[before]) <= _TWIN_NS
        # Of raw, other, raw the first two are one.
        at = np.flatnonzero(twin)
        at = at[np.append(True, np.diff(at) > 1)[: len(at)]]
        doubled: Ints = np.where(self.raw[before[at]], before[at], after[at])
        return doubled

    def list_twins(self) -> tuple[Ints, Ints]:
        """Return the halves of probes that tell what another probe of the same function does, and these."""
        rows = self.by_thread[(self.probe > 0)[self.by_thread]]
        rows = rows[np.isin(self.key[rows], self._list_shared(rows))]
        if not len(rows):
            return rows, rows
        lane = (self.thread[rows].astype(np.uint64) << np.uint64(32)) | self.key[rows]
        order = np.argsort(lane, kind="stable")
        rows, lane = rows[order], lane[order]
        phase, stamp = self.phase[rows], self.stamp[rows]
        beside = (lane[1:] == lane[:-1]) & (phase[1:] == phase[:-1]) & (np.diff(stamp) <= _BOTH_PROBES_NS)
        twins, kept = [], []
        group: dict[int, int] = {}
        for row, code, is_beside in zip(
            rows.tolist(), self.probe[rows].tolist(), [False, *beside.tolist()], strict=True
        ):
            if not is_beside or code in group:
                group = {}
            group[code] = row
            first = next(iter(group.values()))
            if row != first:
                twins.append(row)
                kept.append(first)
        return np.array(twins, np.int64), np.array(kept, np.int64)

    def _list_shared(self, rows: Ints) -> npt.NDArray[np.uint32]:
        """Return the keys of functions on whose entry or return several probes are."""
        side = (self.key[rows].astype(np.uint64) << np.uint64(32)) | self.phase[rows].astype(np.uint64) << np.uint64(30)
        sides = number_values(side | self.probe[rows])[0] >> np.uint64(30)
        distinct, counts = np.unique(sides, return_counts=True)
        return np.unique(distinct[counts > 1] >> np.uint64(2)).astype(np.uint32)

    def without(self, rows: Ints) -> Calls:
        """Return the calls without some halves."""
        if not len(rows):
            return self
        left_out = np.zeros(len(self.phase), np.bool_)
        left_out[rows] = True
        return replace(self, by_thread=self.by_thread[~left_out[self.by_thread]])


def _order_by_thread(chosen: Ints, thread: npt.NDArray[np.uint32], stamp: Ints) -> tuple[Ints, Mask]:
    """Return halves thread by thread, each thread's in order, and which have a place that is doubtful.

    Records are in the order of their times; where a thread's are not, their times order them, and one without a
    readable time stands behind the one before it.
    """
    codes = thread[chosen]
    narrow = codes.astype(np.uint16) if len(codes) and codes.max() < 1 << 16 else codes
    by_thread = chosen[np.argsort(narrow, kind="stable")]
    doubtful = np.zeros(len(thread), np.bool_)
    same = thread[by_thread[1:]] == thread[by_thread[:-1]]
    time = _fill_times(stamp[by_thread], same)
    fell = same & (time[1:] < time[:-1])
    if not fell.any():
        return by_thread, doubtful
    moved = np.zeros(int(codes.max()) + 1, np.bool_)
    moved[thread[by_thread[1:]][fell]] = True
    doubtful[chosen] = (stamp[chosen] < 0) & moved[codes]
    by_time = np.lexsort((time, thread[by_thread]))
    by_thread, time = by_thread[by_time], time[by_time]
    tie = same & (time[1:] == time[:-1]) & moved[thread[by_thread[1:]]]
    doubtful[by_thread[1:][tie]] = doubtful[by_thread[:-1][tie]] = True
    return by_thread, doubtful


def _fill_times(stamps: Ints, same: Mask) -> Ints:
    """Return the stamps, that of the same thread's record before it where one is not readable (-1)."""
    if not (stamps < 0).any():
        return stamps
    place = np.arange(len(stamps))
    filled: Ints = stamps[np.maximum.accumulate(np.where((stamps >= 0) | ~np.append(False, same), place, 0))]
    return filled


def _order(seq: Ints, carried: int) -> Ints:
    """Return the rows in order of `seq`: the carried ones as they come, then the others."""
    fresh = seq[carried:]
    if not len(fresh):
        return np.arange(carried)
    place = np.full(int(fresh.max() - fresh.min()) + 1, -1)
    place[fresh - fresh.min()] = np.arange(carried, len(seq))
    return np.concatenate([np.arange(carried), place[place >= 0]])
