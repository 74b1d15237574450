"""One clock map for every clock of a capture, from whatever evidence it holds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import polars as pl

from tracecorr.align.causal_pairs import LOG_STEP_NS, bound_doorbells, bound_queue_creations
from tracecorr.align.clock_map import Bounds, ClockMap, fit_clock_map, join_bounds
from tracecorr.align.samples import bound_marks, bound_readings
from tracecorr.model.kinds import PACKET_KINDS

# A mark is written microseconds after its clock was read (p99 741 ns, measured); pre-emption takes milliseconds,
# but not of every mark.
MARK_DELAY_NS = 1_000_000


@dataclass(frozen=True)
class ClockEvidence:
    """Hold what speaks of the clocks.

    Args:
        records: part events with `source` and `thread`.
        args: part args.
        samples: contents of clock.json (`{"samples": []}` when there is none).
    """

    records: pl.DataFrame
    args: pl.DataFrame
    samples: dict[str, Any]


def fit_clocks(evidence: ClockEvidence) -> dict[str, ClockMap]:
    """Return a clock map by `source:clock` for every clock that the records name."""
    keys = evidence.records.select(
        pl.col("source").cast(pl.String), pl.col("clock").cast(pl.String).fill_null("unknown")
    ).unique()
    return {f"{source}:{clock}": _fit(source, clock, evidence) for source, clock in keys.iter_rows()}


def _fit(source: str, clock: str, evidence: ClockEvidence) -> ClockMap:
    if source == "amd_log":
        return _fit_log(clock, evidence)
    trace = evidence.records.filter(pl.col("source") == source)
    step = int(trace["step_hi_ns"].max() or 0)  # type: ignore[arg-type]
    marks = _marks(trace, evidence.args)
    pairs = causal_bounds(evidence, step)
    sampled = bound_marks(marks, evidence.samples["samples"], step)
    if clock == "mono":
        return _prove_mono(join_bounds(sampled, pairs), sampled, count_foreign_creations(evidence, step))
    if evidence.samples["samples"] and not marks.is_empty():
        # Samples that cause and effect contradict are of another run: both together leave no line.
        return fit_clock_map(join_bounds(sampled, pairs), "samples")
    if len(pairs):
        return fit_clock_map(pairs, "causal_pairs")
    return _unaligned(evidence, trace)


def _fit_log(clock: str, evidence: ClockEvidence) -> ClockMap:
    if clock == "mono_raw":
        readings = bound_readings(evidence.samples["samples"], "raw")
        if len(readings):
            return fit_clock_map(readings, "samples")
        return ClockMap("unaligned", reason="no samples of CLOCK_MONOTONIC_RAW for ROCr's lines")
    # CLR prints CLOCK_MONOTONIC in all releases (4.5.2 to 6.4.1 read, 7.2.4 measured).
    return ClockMap("same_clock")


def _prove_mono(bounds: Bounds, marks: Bounds, foreign_creations: int) -> ClockMap:
    """Return the identity, with the number of marks and pairs that it satisfies and violates.

    Args:
        bounds: all inequalities.
        marks: those of them that come from marks.
        foreign_creations: queue creations that do not hold their ioctl when the clock is mono.
    """
    violated = int(((bounds.low_ns > 0) | (bounds.high_ns < 0)).sum()) + foreign_creations
    if len(marks) and marks.low_ns.max() < -MARK_DELAY_NS:
        violated += len(marks)
    if violated * 100 > len(bounds):
        fitted = fit_clock_map(bounds, "causal_pairs")
        reason = f"said to be mono, but {violated} of {len(bounds)} marks and pairs contradict it"
        return fitted if fitted.aligned else ClockMap("unaligned", pairs=len(bounds), violated=violated, reason=reason)
    return ClockMap("same_clock", pairs=len(bounds), violated=violated)


def _unaligned(evidence: ClockEvidence, trace: pl.DataFrame) -> ClockMap:
    """Return a map that only puts the start of the trace beside the start of the log."""
    log = evidence.records.filter(pl.col("source") == "amd_log")["stamp_ns"]
    starts = log.min(), trace["stamp_ns"].min()
    shift = int(starts[0]) - int(starts[1]) if None not in starts else 0  # type: ignore[arg-type]
    why = "no clock samples, and no doorbell or queue creation that log and trace both show"
    if len(log) == 0:
        why = "no log to compare it with, and no clock samples"
    return ClockMap("unaligned", base_offset_ns=shift, reason=why)


def count_foreign_creations(evidence: ClockEvidence, step_ns: int) -> int:
    """Count the queue creations whose thread makes CREATE_QUEUE ioctls, but none between the lines of the creation."""
    log, trace = _split(evidence)
    ioctls = trace.filter((pl.col("layer") == "ioctl") & (pl.col("name") == "AMDKFD_IOC_CREATE_QUEUE"))
    crossed = _creations(log).with_row_index("creation").join(ioctls.select("thread", "stamp_ns"), on="thread")
    inside = (pl.col("stamp_ns") + step_ns >= pl.col("from_ns")) & (
        pl.col("stamp_ns") - step_ns <= pl.col("to_ns") + LOG_STEP_NS
    )
    return crossed.group_by("creation").agg(found=inside.any()).filter(~pl.col("found")).height


def _split(evidence: ClockEvidence) -> tuple[pl.DataFrame, pl.DataFrame]:
    rows = evidence.records.drop_nulls(["thread", "stamp_ns"])
    return rows.filter(pl.col("source") == "amd_log"), rows.filter(pl.col("source") == "ftrace")


def _marks(trace: pl.DataFrame, args: pl.DataFrame) -> pl.DataFrame:
    marks = trace.filter((pl.col("layer") == "marker") & (pl.col("name") == "clock_sync"))
    for key in ("id", "mono"):
        values = args.filter(pl.col("key").cast(pl.String) == key).select("file", "offset", pl.col("u64").alias(key))
        marks = marks.join(values, on=["file", "offset"], how="left", maintain_order="left")
    # A mark that no clock can have shown is not one of ours.
    marks = marks.filter(pl.col("mono") < 2**62)
    return marks.select("stamp_ns", "id", "mono").drop_nulls(["stamp_ns", "mono"])


def causal_bounds(evidence: ClockEvidence, step_ns: int) -> Bounds:
    """Return the inequalities that doorbells and queue creations give for the trace's clock."""
    name = pl.col("name").cast(pl.String)
    log, trace = _split(evidence)
    stores = trace.filter(pl.col("layer") == "doorbell").select("thread", "stamp_ns", "packet_index")
    lines = log.filter((pl.col("layer") == "aql") & name.is_in(PACKET_KINDS)).sort("file", "offset")
    doorbells = bound_doorbells(stores, lines.select("thread", "stamp_ns", "packet_index", "name"), step_ns)
    ioctls = trace.filter((pl.col("layer") == "ioctl") & (name == "AMDKFD_IOC_CREATE_QUEUE"))
    creations = bound_queue_creations(
        _creations(log), ioctls.select("thread", "stamp_ns", "end_stamp_ns").drop_nulls(), step_ns
    )
    return join_bounds(doorbells, creations)


def _creations(log: pl.DataFrame) -> pl.DataFrame:
    name = pl.col("name").cast(pl.String)
    lines = log.filter(name.is_in(["queue_allocated_count", "queue_created"])).sort("file", "offset")
    counted = pl.when(name == "queue_allocated_count").then("stamp_ns")
    lines = lines.with_columns(from_ns=counted.forward_fill().over("thread"))
    return lines.filter(name == "queue_created").select("thread", "from_ns", to_ns="stamp_ns").drop_nulls()
