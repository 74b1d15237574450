"""What the rows of a capture say of its clocks: marks, doorbells, queue creations and calls, found in the tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import polars as pl

from tracecorr.clock.bounds import Bounds, join_bounds
from tracecorr.clock.causal_pairs import (
    LOG_STEP_NS,
    bound_spans,
    count_creations,
    drop_contradicted,
    pair_created_rings,
    pair_creations,
    pair_doorbells,
)
from tracecorr.clock.clock_map import ClockMap
from tracecorr.clock.cooperative import list_shared
from tracecorr.clock.creation_shift import bound_by_shift
from tracecorr.clock.intervals import Moments, bracket_doorbells, list_moments, span_batches
from tracecorr.clock.rows import IS_PACKET, attach_args
from tracecorr.model.kinds import QUEUE_CREATED, QUEUE_SELECTED, QUEUES_COUNTED
from tracecorr.read.kfd.ioctls import CREATE_QUEUE

_IS_CREATE = (pl.col("layer") == "ioctl") & (pl.col("name") == CREATE_QUEUE)
# Calls that ask the KFD for memory, or give it back.
_ASKING = ("hipMalloc", "hipExtMalloc", "hipHostMalloc", "hipHostAlloc", "hipMemAlloc", "hipFree")
# Functions of the driver of which a probe records the ring.
IS_CREATE_PROBE = (pl.col("layer") == "kfd") & pl.col("name").is_in(["kfd_ioctl_create_queue", "kfd_create_queue"])
_COLUMNS = (
    "source", "clock", "layer", "name", "process", "thread", "file", "offset", "stamp_ns", "end_stamp_ns", "ring",
    "packet_index", "signal",
)  # fmt: skip


@dataclass(frozen=True)
class ClockEvidence:
    """Hold what speaks of the clocks.

    Args:
        records: part events with `source`, `thread`, `step_lo_ns` and `step_hi_ns`.
        args: part args.
        samples: contents of clock.json (`{"samples": []}` when there is none).
        monotonic_ns, boottime_ns: what the time namespace of the log's processes adds to these clocks of the host
            (`/proc/PID/timens_offsets`); CLOCK_MONOTONIC_RAW is shifted like CLOCK_MONOTONIC.
        guessed: threads of the log that were found by what they did at the same time.
    """

    records: pl.DataFrame
    args: pl.DataFrame
    samples: dict[str, Any]
    monotonic_ns: int = 0
    boottime_ns: int = 0
    guessed: frozenset[int] = frozenset()

    @cached_property
    def sides(self) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Return the rows of the log and of the trace whose thread and time are known."""
        rows = self.records.select(_COLUMNS).drop_nulls(["thread", "stamp_ns"])
        return rows.filter(pl.col("source") == "amd_log"), rows.filter(pl.col("source") == "ftrace")


def select_trace(records: pl.DataFrame) -> pl.DataFrame:
    """Return the rows of the trace, of all threads, with how far the true time may lie below and above a stamp."""
    return records.select(*_COLUMNS, "step_lo_ns", "step_hi_ns").filter(pl.col("source") == "ftrace")


def list_marks(trace: pl.DataFrame, args: pl.DataFrame) -> pl.DataFrame:
    """Return stamp_ns, id and mono of the marks of clock samples in a trace, for `bound_marks`.

    Args:
        trace: part events of the trace, columns layer, name, file, offset, stamp_ns.
        args: part args; `id` and `mono` (ns) are what a mark printed.
    """
    marks = trace.filter((pl.col("layer") == "marker") & (pl.col("name") == "clock_sync"))
    # A mark that no clock can have shown is not one of ours.
    marks = attach_args(marks, args, ["id", "mono"]).filter(pl.col("mono") < 2**62)
    return marks.select("stamp_ns", "id", "mono").drop_nulls(["stamp_ns", "mono"])


def select_monotonic(log: pl.DataFrame) -> pl.DataFrame:
    """Return the rows of the log whose stamps are of CLOCK_MONOTONIC: those of CLR."""
    return log.filter(pl.col("clock") == "mono")


def bound_causes(evidence: ClockEvidence, steps: tuple[int, int]) -> Bounds:
    """Return the inequalities that doorbells and queue creations give for the trace's clock.

    Args:
        evidence: what is there.
        steps: how far the true time of a trace stamp may lie below and above it.
    """
    log, trace = evidence.sides
    doorbells = bound_spans(_doorbell_spans(select_monotonic(log), trace), steps)
    made = pair_created_rings(_list_created(log, evidence.args), list_created_rings(trace, evidence.args))
    if made.is_empty():
        made = pair_creations(_creations(log, evidence.args), _create_ioctls(trace), steps)
        made = drop_contradicted(made, doorbells, steps)
    return join_bounds(doorbells, bound_spans(made, steps))


def bound_creations(evidence: ClockEvidence, steps: tuple[int, int]) -> Bounds:
    """Return what queue creations say where the sides have no thread in common yet; arguments as in `bound_causes`."""
    log, trace = evidence.sides
    return bound_by_shift(_creations(log, evidence.args), _create_ioctls(trace), steps)


def count_held_creations(evidence: ClockEvidence, steps: tuple[int, int], clock: ClockMap) -> tuple[int, int]:
    """Count the queue creations that hold their ioctl, and those that do not, by a clock of the trace.

    Args:
        evidence: what is there.
        steps: how far the true time of a trace stamp may lie below and above it.
        clock: of the trace.
    """
    log, trace = evidence.sides
    ioctls = trace.filter(_IS_CREATE).select("thread", "stamp_ns")
    return count_creations(_creations(log, evidence.args), ioctls, clock, steps)


def list_calls_and_moments(evidence: ClockEvidence) -> tuple[pl.DataFrame, Moments]:
    """Return the ioctls and system calls of the trace, and when each thread printed lines."""
    log, trace = evidence.sides
    calls = trace.filter(pl.col("layer").is_in(["ioctl", "syscall"]))
    moments = list_moments(select_monotonic(log), "stamp_ns", pl.col("end_stamp_ns"))
    return calls.select("thread", pl.col("name").cast(pl.String), "stamp_ns", "end_stamp_ns"), moments


def list_requests_and_calls(evidence: ClockEvidence) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the ioctls of the trace, and the HIP calls of the log in the order of their lines.

    Of a log from which the calls that ask for memory were left out there are none: its requests lie in no call by any
    clock.
    """
    log, trace = evidence.sides
    ioctls = trace.filter(pl.col("layer") == "ioctl").with_columns(pl.col("name").cast(pl.String))
    calls = select_monotonic(log).filter(pl.col("layer") == "hip").sort("file", "offset")
    asks = pl.any_horizontal(pl.col("name").cast(pl.String).str.starts_with(name) for name in _ASKING)
    told = calls if calls.select(asks.any()).item() else calls.clear()
    return ioctls.select("thread", "name", "stamp_ns", "end_stamp_ns"), told.select(
        "thread", "stamp_ns", "end_stamp_ns"
    )


def list_raw_line_spans(evidence: ClockEvidence) -> pl.DataFrame:
    """Return ROCr's own lines between the CLR lines of the same thread around them, as spans for `bound_spans`.

    A thread prints its lines in order: in a file where some are not, lines were moved, and tell nothing of others.
    """
    log, _ = evidence.sides
    raw = pl.col("clock") == "mono_raw"
    ordered = log.sort("file", "offset").with_columns(
        from_ns=pl.when(~raw).then("stamp_ns").forward_fill().over("file", "thread"),
        to_ns=pl.when(~raw).then(pl.col("stamp_ns") + LOG_STEP_NS).backward_fill().over("file", "thread"),
    )
    moved = (pl.col("stamp_ns") < pl.col("from_ns").shift(1).over("file", "thread")) & ~raw
    moved_files = ordered.filter(moved)["file"].unique()
    ordered = ordered.filter(~pl.col("file").is_in(moved_files.implode()))
    return ordered.filter(raw).select("stamp_ns", "from_ns", "to_ns", end_stamp_ns="stamp_ns")


def list_gpu_time_spans(evidence: ClockEvidence) -> pl.DataFrame:
    """Return the GPU times of `Signal =` lines between their packet and that line, as spans for `bound_spans`.

    A packet starts after its line (a barrier: after its thread's line before that), and its GPU time was past when it
    was printed.
    """
    columns = ("source", "layer", "process", "signal", "file", "offset", "stamp_ns", "end_stamp_ns", "line_stamp_ns")
    times = evidence.records.select(columns).filter((pl.col("source") == "amd_log") & (pl.col("layer") == "gpu"))
    log = select_monotonic(evidence.sides[0])
    lines = log.filter((pl.col("layer") == "aql") & pl.col("signal").is_not_null())
    moments = list_moments(log, "stamp_ns", pl.col("end_stamp_ns"))
    packets = bracket_doorbells(lines.with_columns(at="stamp_ns"), moments, LOG_STEP_NS)
    latest = packets.select("file", "process", "signal", "offset", from_ns="doorbell_lo_ns").sort("offset")
    both = times.sort("offset").join_asof(latest, on="offset", by=["file", "process", "signal"], check_sortedness=False)
    return both.select("from_ns", "stamp_ns", "end_stamp_ns", to_ns=pl.col("line_stamp_ns") + LOG_STEP_NS)


def _doorbell_spans(log: pl.DataFrame, trace: pl.DataFrame) -> pl.DataFrame:
    lines = log.filter(IS_PACKET)
    moments = list_moments(log, "stamp_ns", pl.col("end_stamp_ns"))
    packets = lines.select("thread", "ring", "packet_index", "name", at="stamp_ns")
    stores = trace.filter(pl.col("layer") == "doorbell").select("thread", "ring", "packet_index", "stamp_ns")
    packets = span_batches(bracket_doorbells(packets, moments, LOG_STEP_NS), LOG_STEP_NS)
    return pair_doorbells(stores, packets)


def _creations(log: pl.DataFrame, args: pl.DataFrame) -> pl.DataFrame:
    return _list_created(log, args).drop_nulls("from_ns")


def _list_created(log: pl.DataFrame, args: pl.DataFrame) -> pl.DataFrame:
    """Return the Created lines of queues: thread, process, ring, from_ns (null where the line before lacks), to_ns."""
    made = list_made(log, "stamp_ns", ["thread"]).join(list_shared(log, args), on=["file", "offset"], how="anti")
    return made.select("thread", "process", "ring", "from_ns", to_ns="stamp_ns").drop_nulls("to_ns")


def list_made(log: pl.DataFrame, at: str, thread: Sequence[str]) -> pl.DataFrame:
    """Return the Created lines of queues, with `from_ns`: when their thread counted the queues before.

    It is null where another line tells what came of that count: then that of the line is lost.

    Args:
        log: rows of the log: file, offset, name, and those that follow.
        at: the column with their times, ns.
        thread: the columns that name their thread.
    """
    name = pl.col("name")
    lines = log.filter(name.is_in([QUEUES_COUNTED, QUEUE_CREATED, QUEUE_SELECTED])).sort("file", "offset")
    before, before_ns = (pl.col(column).shift(1).over(thread) for column in ("name", at))
    counted = pl.when(before == QUEUES_COUNTED).then(before_ns)
    return lines.with_columns(from_ns=counted).filter(name == QUEUE_CREATED)


def _create_ioctls(trace: pl.DataFrame) -> pl.DataFrame:
    ioctls = trace.filter(_IS_CREATE)
    # One whose exit is missing made its queue, too: left out, its creation would go to another one. It ended later.
    end = pl.coalesce("end_stamp_ns", "stamp_ns")
    return ioctls.select("thread", "process", "stamp_ns", end_stamp_ns=end).drop_nulls()


def list_created_rings(rows: pl.DataFrame, args: pl.DataFrame) -> pl.DataFrame:
    """Return the rows of probes in the kernel that recorded the `ring` of a CREATE_QUEUE.

    Args:
        rows: part events with file, offset, layer, name.
        args: part args.
    """
    probes = rows.filter(IS_CREATE_PROBE)
    rings = args.filter(pl.col("key") == "ring").select("file", "offset", made_ring="u64")
    return probes.join(rings, on=["file", "offset"]).with_columns(ring="made_ring").drop("made_ring")
