"""Pair enters with exits per kernel thread, across blocks, and nest kernel functions in their call."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from tracecorr.model import schema
from tracecorr.model.kinds import Flag
from tracecorr.read.byte_text import Ints, Mask
from tracecorr.read.ftrace.events import ENTER, EXIT, FUNCTION, GRAPH, HALF, SYSCALL, Batch, all_args, number_values

# Open enters kept per (thread, function): deeper ones are recursion or missed returns.
_MAX_OPEN = 8
_END = {"file": "end_file", "offset": "end_offset", "length": "end_length", "stamp_ns": "end_stamp_ns",
        "result": "end_result", "dur_ns": "told_ns"}  # fmt: skip
# By as much the difference of two rounded stamps may miss the truth.
_ROUNDED_NS = 1_000
# Columns that pairing reads, whether a batch has them or not.
_NEEDED = ("tid", "layer", "key", "depth", "parent_offset", "dur_ns", "result", "stamp_ns", "length", "is_raw")
_KEPT = {*schema.PART_EVENTS.schema, "dur_ns"}


class Pairer:
    """Turn halves into rows of `PART_EVENTS`; the halves of one call may come in different blocks.

    Args:
        clock: name of the trace clock.
        is_rounded: whether stamps are rounded to a microsecond, as in text.
    """

    def __init__(self, clock: str, *, is_rounded: bool = False) -> None:
        self._is_rounded = is_rounded
        # Stamps of `uptime` are jiffies: too coarse to place anything by them.
        self.clock = "ticks" if clock == "uptime" else clock
        self._open = HALF.to_frame()
        self._with_return = np.zeros(0, np.uint32)
        self._named = np.zeros(0, np.uint32)

    def feed(self, batch: Batch) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Return (events, args) of everything that is complete with this batch.

        `seq` of the halves of one batch orders them and is dense: about as many numbers as halves.
        """
        halves = pl.concat([self._open, *batch.halves], how="diagonal", rechunk=True)
        halves = halves.with_columns(pl.lit(None, HALF[c]).alias(c) for c in _NEEDED if c not in halves.columns)
        calls = _Calls.of(halves, self._open.height)
        self._with_return = np.union1d(self._with_return, calls.key[(calls.phase == EXIT) & (calls.call >= FUNCTION)])
        self._named = np.union1d(self._named, calls.key[(calls.call == SYSCALL) & ~calls.raw])
        # `raw_syscalls` and `syscalls` may both have recorded a call.
        doubled = calls.raw & np.isin(calls.key, self._named)
        calls.by_thread = calls.by_thread[~doubled[calls.by_thread]]
        returns = np.isin(calls.key, self._with_return)
        partner, is_open = _pair(calls)
        depth, parent = _nest(calls, partner, returns)
        used = doubled.copy()
        used[partner[partner >= 0]] = True
        rows = calls.order[~(used | is_open)[calls.order]]
        halves = _with_places(halves, depth, parent)
        self._open = _without_empty(halves[calls.order[is_open[calls.order]]])
        return self._events(halves, rows, partner, returns), _args(batch, halves, partner)

    def finish(self) -> pl.DataFrame:
        """Return the events of the enters that nothing ended."""
        if self._open.is_empty():
            return schema.PART_EVENTS.empty()
        rows = np.arange(self._open.height)
        returns = np.isin(self._open["key"].to_physical().to_numpy(), self._with_return)
        halves = self._open.with_columns(pl.lit(None, HALF[c]).alias(c) for c in HALF if c not in self._open.columns)
        events = self._events(halves, rows, np.full(len(rows), -1), returns)
        self._open = HALF.to_frame()
        return events

    def _events(self, halves: pl.DataFrame, rows: Ints, partner: Ints, returns: Mask) -> pl.DataFrame:
        phase, call = halves["phase"].to_numpy()[rows], halves["call"].to_numpy()[rows]
        frame = halves.select(c for c in halves.columns if c in _KEPT)[rows]
        ends = halves.select(pl.col(c).alias(end) for c, end in _END.items())[_index(partner[rows])]
        half_seen = (partner[rows] < 0) & (call > 0)
        # Of these each call shows its end, of a probe those alone that have a return probe.
        ends_told = returns[rows] | (call == SYSCALL) | (call == GRAPH)
        flags = np.where(half_seen & (phase == ENTER) & ends_told, Flag.ENTER_ONLY.value, 0)
        flags += np.where(half_seen & (phase == EXIT), Flag.EXIT_ONLY.value, 0)
        flags += np.where(call >= GRAPH, Flag.TRACED.value, 0)
        flags += np.where(frame["stamp_ns"].is_null().to_numpy(), Flag.NO_TIME.value, 0)
        same_file = pl.col("file") == pl.col("end_file")
        frame = pl.concat([frame, ends], how="horizontal").with_columns(
            pl.Series("flags", flags.astype(np.uint16)),
            pl.lit(self.clock, schema.CAT).alias("clock"),
            pl.coalesce("end_result", "result").alias("result"),
            # A lone exit has a duration too, but it lies before its stamp.
            pl.coalesce(
                self._end_printed(),
                "end_stamp_ns",
                pl.col("stamp_ns") + pl.when(pl.Series(phase != EXIT)).then("dur_ns"),
            ).alias("end_stamp_ns"),
            pl.when(same_file).then(pl.col("end_offset")).alias("end_offset"),
            pl.when(same_file).then(pl.col("end_length")).alias("end_length"),
        )
        return schema.PART_EVENTS.conform(frame.select(c for c in frame.columns if c in schema.PART_EVENTS.schema))

    def _end_printed(self) -> pl.Expr:
        """Return the end of a call of function_graph by the duration that it prints, null if the stamps contradict it.

        It is finer than rounded stamps. With the option nosleep-time it leaves sleep out: then the stamps stand.
        """
        end = pl.col("stamp_ns") + pl.col("told_ns")
        fits = (end - pl.col("end_stamp_ns")).abs() <= _ROUNDED_NS
        return pl.when(fits & self._is_rounded).then(end)


@dataclass
class _Calls:
    """Hold what pairing looks at, one entry per half.

    Args:
        order: the halves in the order of the recording.
        by_thread: the halves that enter, leave or lie in calls, thread by thread, each in order.
        thread: code of the thread.
        phase: INSTANT, ENTER or EXIT.
        call: 0, SYSCALL, FUNCTION, GRAPH or MOMENT.
        key: code of what an exit must share with its enter.
        raw: records of `raw_syscalls`.
        probed: kernel functions that a probe or the function tracer saw, of known threads.
        inside: those of the probed ones for which no tracer tells the depth.
        child: functions, those of function_graph too, that may lie in a system call of their thread.
        file, offset: where the record is.
    """

    order: Ints
    by_thread: Ints
    thread: npt.NDArray[np.uint32]
    phase: npt.NDArray[np.int8]
    call: npt.NDArray[np.int8]
    key: npt.NDArray[np.uint32]
    raw: Mask
    probed: Mask
    inside: Mask
    child: Mask
    file: npt.NDArray[np.uint16]
    offset: Ints

    @classmethod
    def of(cls, halves: pl.DataFrame, carried: int) -> _Calls:
        """Return the calls of `halves`; the first `carried` rows come from earlier batches, in order."""
        order = _order(halves["seq"].to_numpy(), carried)
        call, phase = halves["call"].to_numpy(), halves["phase"].to_numpy()
        thread = number_values(halves["tid"].fill_null(0).to_numpy())[1]
        known = halves["tid"].is_not_null().to_numpy()
        chosen = order[(call > 0)[order]]
        codes = thread[chosen]
        narrow = codes.astype(np.uint16) if len(codes) and codes.max() < 1 << 16 else codes
        of_user = halves["layer"].is_in(["hsa", "marker"]).fill_null(value=False).to_numpy()
        of_kernel = (call >= FUNCTION) & ~of_user
        probed = of_kernel & (call != GRAPH)
        inside = probed & (phase != EXIT) & halves["depth"].is_null().to_numpy()
        child = of_kernel & (phase != EXIT) & known & halves["parent_offset"].is_null().to_numpy()
        raw = halves["is_raw"].fill_null(value=False).to_numpy()
        key = halves["key"].to_physical().fill_null(0).to_numpy()
        by_thread = chosen[np.argsort(narrow, kind="stable")]
        file, offset = halves["file"].to_numpy(), halves["offset"].to_numpy()
        return cls(order, by_thread, thread, phase, call, key, raw, probed & known, inside, child, file, offset)


def _order(seq: Ints, carried: int) -> Ints:
    """Return the rows in order of `seq`: the carried ones as they come, then the others."""
    fresh = seq[carried:]
    if not len(fresh):
        return np.arange(carried)
    place = np.full(int(fresh.max() - fresh.min()) + 1, -1)
    place[fresh - fresh.min()] = np.arange(carried, len(seq))
    return np.concatenate([np.arange(carried), place[place >= 0]])


def _pair(calls: _Calls) -> tuple[Ints, Mask]:
    """Return for each half its exit (-1 = none), and which enters may still end in a later batch."""
    partner = np.full(len(calls.phase), -1)
    is_open = np.zeros(len(calls.phase), np.bool_)
    call = calls.call[calls.by_thread]
    _pair_syscalls(calls, calls.by_thread[call == SYSCALL], partner, is_open)
    functions = calls.by_thread[call >= FUNCTION]
    _pair_functions(calls, functions[calls.phase[functions] != 0], partner, is_open)
    return partner, is_open


def _pair_syscalls(calls: _Calls, rows: Ints, partner: Ints, is_open: Mask) -> None:
    """A thread is in one system call at a time: an enter is ended by the thread's next record or never."""
    if not len(rows):
        return
    phase, thread, key = calls.phase[rows], calls.thread[rows], calls.key[rows]
    enters = phase == ENTER
    same_thread = np.append(thread[1:] == thread[:-1], False)
    fits = np.append((phase[1:] == EXIT) & (key[1:] == key[:-1]), False) & same_thread & enters
    at = np.flatnonzero(fits)
    partner[rows[at]] = rows[at + 1]
    is_open[rows[enters & ~same_thread]] = True


def _pair_functions(calls: _Calls, rows: Ints, partner: Ints, is_open: Mask) -> None:
    """Match like parentheses per (thread, key): neighbours on one level of nesting."""
    if not len(rows):
        return
    group = number_values((calls.thread[rows].astype(np.uint64) << np.uint64(32)) | calls.key[rows])[1].astype(np.int64)
    by_group = np.argsort(group, kind="stable")
    rows, group = rows[by_group], group[by_group]
    enters = calls.phase[rows] == ENTER
    step = np.where(enters, 1, -1)
    total = np.cumsum(step)
    firsts = np.flatnonzero(np.append(True, group[1:] != group[:-1]))
    before = np.repeat(total[firsts] - step[firsts], np.diff(np.append(firsts, len(rows))))
    level = total - before + np.where(enters, 0, 1)
    by_level = np.lexsort((level, group))
    g, lv, en = group[by_level], level[by_level], enters[by_level]
    fits = en[:-1] & ~en[1:] & (g[1:] == g[:-1]) & (lv[1:] == lv[:-1])
    at = np.flatnonzero(fits)
    partner[rows[by_level[at]]] = rows[by_level[at + 1]]
    # What is left open keeps its order; the newest of each group may still end.
    left = np.flatnonzero(enters & (partner[rows] < 0))
    after = np.searchsorted(group[left], group[left], "right") - np.arange(len(left))
    is_open[rows[left[after <= _MAX_OPEN]]] = True


def _nest(calls: _Calls, partner: Ints, returns: Mask) -> tuple[Ints, Ints]:
    """Return depth and offset of the enclosing call of each function; -1 = not known, or none."""
    depth, parent = np.full(len(partner), -1), np.full(len(partner), -1)
    if not (calls.inside | calls.child).any():
        return depth, parent
    rows = calls.by_thread
    thread, phase, call = calls.thread[rows], calls.phase[rows], calls.call[rows]
    place = np.arange(len(rows))
    first = np.maximum.accumulate(np.where(np.append(True, thread[1:] != thread[:-1]), place, 0))
    last = np.maximum.accumulate(np.where(call == SYSCALL, place, -1))
    nested = (last >= first) & (phase[last] == ENTER)
    outer = rows[np.maximum(last, 0)]
    span = calls.probed[rows] & (phase == ENTER) & ((partner[rows] >= 0) | returns[rows])
    ended = np.zeros(len(partner), np.bool_)
    ended[partner[partner >= 0]] = True
    step = span.astype(np.int64) - (calls.probed[rows] & (phase == EXIT) & ended[rows])
    total = np.cumsum(step) - step
    level = np.clip(total - total[first], 0, 1000) + nested
    mine = calls.inside[rows]
    depth[rows[mine]] = level[mine]
    inner = calls.child[rows] & nested & (calls.file[outer] == calls.file[rows])
    parent[rows[inner]] = calls.offset[outer[inner]]
    return depth, parent


def _without_empty(frame: pl.DataFrame) -> pl.DataFrame:
    """Return the frame without columns that are null throughout: the next batch need not carry them."""
    return frame.select(c for c in frame.columns if frame[c].null_count() < frame.height) if frame.height else frame


def _with_places(halves: pl.DataFrame, depth: Ints, parent: Ints) -> pl.DataFrame:
    if not ((depth >= 0) | (parent >= 0)).any():
        return halves
    new_depth, new_parent = pl.Series(depth), pl.Series(parent)
    return halves.with_columns(
        pl.when(new_depth >= 0).then(new_depth).otherwise("depth").cast(pl.UInt16).alias("depth"),
        pl.when(new_parent >= 0).then(new_parent).otherwise("parent_offset").alias("parent_offset"),
    )


def _index(rows: Ints) -> pl.Series:
    """Return row numbers for gathering: -1 becomes null and gathers nulls."""
    index = pl.Series(rows)
    return pl.select(pl.when(index >= 0).then(index).cast(pl.UInt32)).to_series()


def _args(batch: Batch, halves: pl.DataFrame, partner: Ints) -> pl.DataFrame:
    """Return the args; those of an exit belong to its enter."""
    if not batch.exit_args:
        return all_args(batch.args)
    exits = pl.concat(batch.exit_args, how="vertical_relaxed").with_columns(pl.col("file").cast(pl.UInt16))
    enters = np.flatnonzero(partner >= 0)
    places = halves.select("file", "offset")
    to = places[enters].rename({"file": "to_file", "offset": "to"})
    pairs = pl.concat([places[partner[enters]], to], how="horizontal")
    moved = exits.join(pairs, on=["file", "offset"], how="left", maintain_order="left").select(
        pl.coalesce("to_file", "file").alias("file"), pl.coalesce("to", "offset").alias("offset"), "key", "u64", "text"
    )
    return all_args([*batch.args, moved])
