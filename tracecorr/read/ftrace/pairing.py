"""Pair enters with exits per kernel thread, across blocks, and nest kernel functions in their call."""

from __future__ import annotations

import numpy as np
import polars as pl

from tracecorr.model import schema
from tracecorr.model.kinds import Flag
from tracecorr.read.digits import Ints, Mask
from tracecorr.read.ftrace.calls import Calls
from tracecorr.read.ftrace.gaps import Gaps
from tracecorr.read.ftrace.halves import (
    ENTER,
    EXIT,
    FUNCTION,
    GRAPH,
    HALF,
    INSTANT,
    SYSCALL,
    Batch,
    all_args,
    number_values,
)
from tracecorr.read.ftrace.prefixes import in_ns

# trace_clock `uptime` counts in clock_t, hundredths of a second where the KFD runs (measured on 6.18).
UPTIME_TICK_NS = 10_000_000
# Open enters kept per (thread, function): deeper ones are recursion or missed returns.
_MAX_OPEN = 8
_END = {"file": "end_file", "offset": "end_offset", "length": "end_length", "stamp_ns": "end_stamp_ns",
        "result": "end_result"}  # fmt: skip
# Columns that pairing reads, whether a batch has them or not.
_NEEDED = (
    "tid", "cpu", "layer", "key", "depth", "parent_offset", "dur_ns", "result", "stamp_ns", "length", "fd", "arg",
    "is_raw", "is_crossed", "probe", "cmd",
)  # fmt: skip
_KEPT = {*schema.PART_EVENTS.schema, "dur_ns"}


class Pairer:
    """Turn halves into rows of `PART_EVENTS`; halves of one call may come in different blocks."""

    def __init__(self, clock: str) -> None:
        self.clock = clock
        self._open = HALF.to_frame()
        self._with_return = np.zeros(0, np.uint32)
        # Whether `raw_syscalls` and `syscalls` both tell of the calls.
        self._is_doubled = False
        # Whether several probes tell of the calls of one kernel function.
        self._is_twinned = False
        self._told = schema.PART_ARGS.empty().select("file", "offset", "key")
        self._gaps = Gaps()

    @property
    def unit_ns(self) -> int:
        """Return the nanoseconds of one step of the clock's stamps; 1 where they count another unit."""
        return UPTIME_TICK_NS if self.clock == "uptime" else 1

    def feed(self, batch: Batch, losses: pl.DataFrame | None = None) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Return (events, args) of everything that is complete with this batch.

        `seq` of the halves of one batch orders them and is dense: about as many numbers as halves. What the trace
        tells that it lost among them is in `losses`, with stamps like theirs: no call is whole over that.
        """
        if losses is not None:
            self._gaps.add(losses)
        halves = pl.concat([self._open, *batch.halves], how="diagonal", rechunk=True)
        halves = halves.with_columns(pl.lit(None, HALF[c]).alias(c) for c in _NEEDED if c not in halves.columns)
        calls = Calls.of(halves, self._open.height)
        self._with_return = np.union1d(self._with_return, calls.key[(calls.phase == EXIT) & (calls.call >= FUNCTION)])
        returns = np.isin(calls.key, self._with_return)
        doubled = calls.list_doubled()
        self._is_doubled |= len(doubled) > 0
        twins, kept = calls.without(doubled).list_twins()
        halves = _fill_kept(halves, twins, kept)
        self._is_twinned |= len(twins) > 0
        doubled = np.concatenate([doubled, twins])
        calls = calls.without(doubled)
        partner, is_open = _pair(calls)
        _part_lossy(calls, partner, self._gaps)
        crossed = _part_outlived(calls, partner, is_open)
        if self._is_doubled:
            _keep_last_exits(calls, calls.call == SYSCALL, partner, is_open)
        if self._is_twinned:
            _keep_last_exits(calls, (calls.probe > 0) & (calls.phase > 0), partner, is_open)
        depth, parent = _nest(calls, partner, returns, self._gaps)
        used = np.zeros(len(partner), np.bool_)
        used[partner[partner >= 0]] = True
        used[doubled] = True
        rows = calls.order[~(used | is_open)[calls.order]]
        opened = calls.order[is_open[calls.order]]
        halves = _with_places(halves, depth, parent)
        self._open = _without_empty(halves[opened].with_columns(is_crossed=pl.Series(crossed[opened])))
        events = self._events(halves, rows, partner, returns)
        batch = _move_args(batch, self._told, halves, twins, kept)
        self._told = self._list_told(batch)
        return events, _args(batch, halves, partner)

    def _list_told(self, batch: Batch) -> pl.DataFrame:
        """Return file, offset, key of the args of open probes: a twin in the next batch may tell them again."""
        if "probe" not in self._open.columns:
            return self._told.clear()
        own = all_args([*batch.args, *batch.exit_args]).select(self._told.columns)
        return pl.concat([self._told, own]).join(self._open, on=["file", "offset"], how="semi")

    def finish(self) -> pl.DataFrame:
        """Return the events of the enters that nothing ended."""
        if self._open.is_empty():
            return schema.PART_EVENTS.empty()
        if self._is_doubled or self._is_twinned:
            self._is_doubled = self._is_twinned = False
            return pl.concat([self.feed(Batch())[0], self.finish()])
        rows = np.arange(self._open.height)
        returns = np.isin(self._open["key"].to_physical().to_numpy(), self._with_return)
        halves = self._open.with_columns(pl.lit(None, HALF[c]).alias(c) for c in HALF if c not in self._open.columns)
        events = self._events(halves, rows, np.full(len(rows), -1), returns)
        self._open = HALF.to_frame()
        return events

    def _events(self, halves: pl.DataFrame, rows: Ints, partner: Ints, returns: Mask) -> pl.DataFrame:
        phase, call = halves["phase"].to_numpy()[rows], halves["call"].to_numpy()[rows]
        if self.unit_ns != 1:
            halves = halves.with_columns(in_ns(pl.col("stamp_ns"), self.unit_ns))
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
            pl.coalesce("end_stamp_ns", pl.col("stamp_ns") + pl.when(pl.Series(phase != EXIT)).then("dur_ns")).alias(
                "end_stamp_ns"
            ),
            pl.when(same_file).then(pl.col("end_offset")).alias("end_offset"),
            pl.when(same_file).then(pl.col("end_length")).alias("end_length"),
        )
        return schema.PART_EVENTS.conform(frame.select(c for c in frame.columns if c in schema.PART_EVENTS.schema))


def _pair(calls: Calls) -> tuple[Ints, Mask]:
    """Return for each half its exit (-1 = none), and which enters may still end in a later batch."""
    partner = np.full(len(calls.phase), -1)
    is_open = np.zeros(len(calls.phase), np.bool_)
    call, user = calls.call[calls.by_thread], calls.user[calls.by_thread]
    _pair_syscalls(calls, calls.by_thread[(call == SYSCALL) | user], partner, is_open)
    functions = calls.by_thread[call >= FUNCTION]
    _pair_functions(calls, functions[calls.phase[functions] != 0], partner, is_open)
    if calls.doubtful.any():
        partner[calls.doubtful | calls.doubtful[partner] & (partner >= 0)] = -1
    return partner, is_open


def _part_lossy(calls: Calls, partner: Ints, gaps: Gaps) -> None:
    """Part enters and exits between which their thread may have lost an exit and an enter."""
    enters = np.flatnonzero(partner >= 0)
    exits = partner[enters]
    stamp, cpu = calls.stamp, calls.cpu
    partner[enters[gaps.list_doubtful(stamp[enters], stamp[exits], cpu[enters], cpu[exits])]] = -1


def _part_outlived(calls: Calls, partner: Ints, is_open: Mask) -> Mask:
    """Part enters and exits of kernel functions between which their thread was in user space, and end what is open.

    A record of user space tells that, as does an entry into a system call behind another record of one: what comes
    first in a function may be its own call's (do_syscall_64, syscall_trace_enter).

    Returns: the enters after which their thread entered or left a system call.
    """
    rows, crossed = calls.by_thread, calls.crossed.copy()
    user, thread = calls.user[rows], calls.thread[rows]
    edge = user | (calls.call[rows] == SYSCALL)
    enters = np.flatnonzero(~edge & calls.of_kernel[rows] & ((partner[rows] >= 0) | is_open[rows]))
    if not len(enters) or not edge.any():
        return crossed
    place = np.zeros(len(partner), np.int64)
    place[rows] = np.arange(len(rows))
    ends = np.append(np.flatnonzero(thread[1:] != thread[:-1]) + 1, len(rows))
    stop = ends[np.searchsorted(ends, enters, "right")]
    stop = np.where(partner[rows[enters]] >= 0, place[partner[rows[enters]]], stop)
    begun = edge & (calls.phase[rows] == ENTER)
    edges, entries, users = (np.append(0, np.cumsum(marks)) for marks in (edge, begun, user))
    first = np.append(np.flatnonzero(edge), len(rows) - 1)[edges[enters]]
    own = begun[first] & ~crossed[rows[enters]]
    out = rows[enters[(entries[stop] - entries[enters] > own) | (users[stop] > users[enters])]]
    partner[out] = -1
    is_open[out] = False
    crossed[rows[enters[edges[stop] > edges[enters]]]] = True
    return crossed


def _keep_last_exits(calls: Calls, chosen: Mask, partner: Ints, is_open: Mask) -> None:
    """Keep the chosen exit that comes last in a thread open, and its enter: the next record may tell of it again."""
    rows = calls.by_thread[chosen[calls.by_thread]]
    last = rows[np.append(calls.thread[rows[1:]] != calls.thread[rows[:-1]], True)[: len(rows)]]
    exits = last[calls.phase[last] == EXIT]
    enters = np.flatnonzero(np.isin(partner, exits))
    partner[enters] = -1
    is_open[exits] = is_open[enters] = True


def _pair_syscalls(calls: Calls, rows: Ints, partner: Ints, is_open: Mask) -> None:
    """A thread is in one system call at a time: an enter is ended by the thread's next record or never.

    Where that is one of user space, the exit was lost.
    """
    if not len(rows):
        return
    phase = np.where(calls.user[rows], INSTANT, calls.phase[rows])
    thread, key = calls.thread[rows], calls.key[rows]
    enters = phase == ENTER
    same_thread = np.append(thread[1:] == thread[:-1], False)
    fits = np.append((phase[1:] == EXIT) & (key[1:] == key[:-1]), False) & same_thread & enters
    at = np.flatnonzero(fits)
    partner[rows[at]] = rows[at + 1]
    is_open[rows[enters & ~same_thread]] = True


def _pair_functions(calls: Calls, rows: Ints, partner: Ints, is_open: Mask) -> None:
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


def _nest(calls: Calls, partner: Ints, returns: Mask, gaps: Gaps) -> tuple[Ints, Ints]:
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
    stamp, cpu = calls.stamp, calls.cpu
    nested &= ~gaps.list_doubtful(stamp[outer], stamp[rows], cpu[outer], cpu[rows])
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


def _fill_kept(halves: pl.DataFrame, twins: Ints, kept: Ints) -> pl.DataFrame:
    """Give halves that stay the result and the request that only a twin tells."""
    if not len(twins):
        return halves
    columns = ("result", "cmd", "arg")
    told = halves[twins].select(columns).with_columns(row=pl.Series(kept)).group_by("row").agg(
        pl.col(columns).drop_nulls().first().name.suffix("_told")
    )  # fmt: skip
    filled = halves.with_row_index("row").with_columns(pl.col("row").cast(pl.Int64))
    filled = filled.join(told, on="row", how="left", maintain_order="left")
    return filled.with_columns(pl.coalesce(c, f"{c}_told").alias(c) for c in columns).select(halves.columns)


def _move_args(batch: Batch, told: pl.DataFrame, halves: pl.DataFrame, twins: Ints, kept: Ints) -> Batch:
    """Return the batch with the args of twins as those of the halves that stay; what both tell is told once.

    Args:
        batch: of the halves.
        told: file, offset, key of the args of open halves that earlier batches told.
        halves: all of them.
        twins, kept: rows of the halves that go, and of those that stay.
    """
    if not len(twins):
        return batch
    places = halves.select("file", "offset")
    moved = pl.concat([places[twins], places[kept].rename({"file": "to_file", "offset": "to"})], how="horizontal")
    frames = []
    for rows in (batch.args, batch.exit_args):
        own = all_args(rows).join(moved, on=["file", "offset"], how="anti", maintain_order="left")
        more = all_args(rows).join(moved, on=["file", "offset"], maintain_order="left").with_columns(
            file="to_file", offset="to"
        )  # fmt: skip
        more = more.join(pl.concat([told, own.select(told.columns)]), on=told.columns, how="anti")
        frames.append([own, more.select(own.columns).unique(told.columns, keep="first", maintain_order=True)])
    return Batch(batch.halves, *frames)


def _args(batch: Batch, halves: pl.DataFrame, partner: Ints) -> pl.DataFrame:
    """Return the args; those of an exit belong to its enter."""
    if not batch.exit_args:
        return all_args(batch.args)
    exits = pl.concat(batch.exit_args, how="vertical_relaxed").with_columns(pl.col("file").cast(pl.UInt16))
    enters = np.flatnonzero(partner >= 0)
    places = halves.select("file", "offset")
    pairs = pl.concat(
        [
            places[partner[enters]],
            places[enters].rename({"file": "to_file", "offset": "to"}),
        ],
        how="horizontal",
    )
    moved = exits.join(pairs, on=["file", "offset"], how="left", maintain_order="left").select(
        pl.coalesce("to_file", "file").alias("file"), pl.coalesce("to", "offset").alias("offset"), "key", "u64", "text"
    )
    return all_args([*batch.args, moved])
