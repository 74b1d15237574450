"""One clock map for every clock of a capture, from whatever evidence it holds."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl

from tracecorr.clock.bounds import NO_HIGH, NO_LOW, Bounds, join_bounds, pick_tightest
from tracecorr.clock.causal_pairs import LOG_STEP_NS, bound_silences, bound_spans
from tracecorr.clock.clock_map import MAX_RATE, ClockMap, fit_clock_map
from tracecorr.clock.evidence import (
    ClockEvidence,
    bound_causes,
    bound_creations,
    count_held_creations,
    list_calls_and_moments,
    list_gpu_time_spans,
    list_marks,
    list_raw_line_spans,
    list_requests_and_calls,
    select_monotonic,
    select_trace,
)
from tracecorr.clock.lines import fit_lines
from tracecorr.clock.outside_calls import count_outside
from tracecorr.clock.refuted import find_refuted
from tracecorr.clock.rocprof_pairs import bound_profile
from tracecorr.clock.rows import list_groups
from tracecorr.clock.samples import are_of_another_run, bound_marks, bound_readings, bound_top_buffer
from tracecorr.clock.silences import count_spoken
from tracecorr.clock.steps import COUNTS

# A mark is written microseconds after its clock was read (p99 741 ns, measured); pre-emption takes milliseconds,
# but not of every mark.
_MARK_DELAY_NS = 1_000_000
# These run at one rate with CLOCK_MONOTONIC and are only ever stepped (suspend, setting the time).
_SAME_RATE = ("boot", "tai")
# How far the first guess of the rate of a clock that counts cycles may lie beside it, and how far what is then known of
# it.
_ROUGH_RATE, _MOST_UNSURE = 0.02, 0.002
# Each round of system calls narrows the bounds for the next one; it ends when a round changes little.
_ROUNDS = 12
# A span of one thing bounds the offset on each side once.
_OF_ONE = 2


def fit_clocks(evidence: ClockEvidence) -> dict[str, ClockMap]:
    """Return a clock map by `source:clock` for every clock that the records name."""
    if are_of_another_run(list_marks(select_trace(evidence.records), evidence.args), evidence.samples["samples"]):
        evidence = replace(evidence, samples={"samples": []})
    if evidence.monotonic_ns or evidence.boottime_ns:
        return _fit_namespace(evidence)
    clocks = list_groups(evidence.records, ["source", "clock"])
    keys = clocks.select(pl.col("source").cast(pl.String), pl.col("clock").cast(pl.String).fill_null("unknown"))
    fitted = {(source, clock): _fit(source, clock, evidence) for source, clock in keys.iter_rows()}
    if _is_no_boot(fitted, evidence):
        trace = select_trace(evidence.records)
        other = _fit_other(fitted["ftrace", "boot"], evidence, trace)
        fitted["ftrace", "boot"] = other.settle(_list_stamps(trace.lazy()))
    return {f"{source}:{clock}": _draw(m, source, clock, evidence) for (source, clock), m in fitted.items()}


def _is_no_boot(fitted: dict[tuple[str, str], ClockMap], evidence: ClockEvidence) -> bool:
    """Tell whether a trace that is said to be on CLOCK_BOOTTIME is not: of another one the rate is not that."""
    if ("ftrace", "boot") not in fitted:
        return False
    boot = evidence.records.lazy().filter(pl.col("clock").cast(pl.String) == "boot").drop_nulls("stamp_ns")
    spans = boot.group_by(pl.col("source").cast(pl.String)).agg(
        first=pl.col("stamp_ns").min(), last=pl.col("stamp_ns").max()
    )
    rows = [
        row
        for source, first, last in spans.collect().iter_rows()
        if fitted[source, "boot"].aligned
        for row in fitted[source, "boot"].summarize(f"{source}:boot", first, last)
    ]
    return bool(rows) and find_refuted(pl.DataFrame(rows)) is not None


def _draw(clock_map: ClockMap, source: str, clock: str, evidence: ClockEvidence) -> ClockMap:
    """Return a map with the lines that are shown for all stamps of its source."""
    if clock_map.curve is None:
        return clock_map
    own = (pl.col("source") == source) & (pl.col("clock").cast(pl.String).fill_null("unknown") == clock)
    return clock_map.drawn(_list_stamps(evidence.records.lazy().filter(own)))


def _list_stamps(records: pl.LazyFrame) -> np.ndarray:
    """Return all stamps of some records, sorted."""
    starts, ends = (records.select(pl.col(name).alias("stamp_ns")) for name in ("stamp_ns", "end_stamp_ns"))
    return pl.concat([starts, ends]).drop_nulls().sort("stamp_ns").collect()["stamp_ns"].to_numpy()


def _fit_namespace(evidence: ClockEvidence) -> dict[str, ClockMap]:
    """Return the maps of a log that was written in a time namespace of its own."""
    added = {"mono": evidence.monotonic_ns, "mono_raw": evidence.monotonic_ns, "boot": evidence.boottime_ns}
    is_log, clock = pl.col("source") == "amd_log", pl.col("clock").cast(pl.String)
    shift = pl.when(is_log).then(clock.replace_strict(added, default=0, return_dtype=pl.Int64)).otherwise(0)
    lines = [pl.col("line_stamp_ns") - evidence.monotonic_ns] if "line_stamp_ns" in evidence.records.columns else []
    records = evidence.records.with_columns(pl.col("stamp_ns") - shift, pl.col("end_stamp_ns") - shift, *lines)
    maps = fit_clocks(replace(evidence, records=records, monotonic_ns=0, boottime_ns=0))
    return {
        key: clock_map.shifted(-added.get(key.partition(":")[2], 0)) if key.startswith("amd_log:") else clock_map
        for key, clock_map in maps.items()
    }


def _fit(source: str, clock: str, evidence: ClockEvidence) -> ClockMap:
    if source == "amd_log":
        if clock == "boot":
            return _fit_boot(evidence)
        # CLR prints CLOCK_MONOTONIC in all releases (4.5.2 to 6.4.1 read, 7.2.4 measured).
        return _fit_raw_lines(evidence) if clock == "mono_raw" else ClockMap("same_clock")
    if source == "rocprof":
        return _fit_rocprof(evidence)
    if source == "kfd_smi" and clock == "boot":
        readings = bound_readings(evidence.samples["samples"], "boot")
        unknown = ClockMap("unaligned", reason="no samples of CLOCK_BOOTTIME, by which the KFD stamps")
        return fit_clock_map(readings, "samples", 0.0) if len(readings) else unknown
    if source == "trace_printk" and clock != "mono":
        return _fit_top_buffer(clock, evidence.samples.get("top_buffer"))
    if source in ("hqd", "kfd_smi", "trace_printk"):
        # The reader took CLOCK_MONOTONIC itself.
        return ClockMap("same_clock")
    if clock == "counter":
        return ClockMap("unaligned", reason="trace_clock `counter` counts events and shows no time")
    trace = select_trace(evidence.records)
    fitted = _fit_trace(clock, evidence, trace)
    return fitted if fitted.curve is None else fitted.settle(_list_stamps(trace.lazy()))


def _fit_top_buffer(clock: str, readings: Any) -> ClockMap:
    """Return the map of the clock of the top tracing buffer, of which a capture took readings."""
    if not isinstance(readings, dict) or not readings.get("samples"):
        told = f" {clock}" if clock != "unknown" else ", which is not that of the ioctls that its prints tell of"
        return ClockMap("unaligned", reason=f"no reading of the top buffer's clock{told}")
    bounds = bound_top_buffer(readings["samples"])
    return fit_clock_map(bounds, "samples", 0.0 if clock in _SAME_RATE else MAX_RATE)


def _fit_rocprof(evidence: ClockEvidence) -> ClockMap:
    """Return the map of rocprof's stamps, CLOCK_BOOTTIME: from samples, else from the calls that the log shows too."""
    readings = bound_readings(evidence.samples["samples"], "boot")
    if len(readings):
        return fit_clock_map(readings, "samples", 0.0)
    pairs, told = bound_profile(evidence.records, evidence.args)
    fitted = fit_clock_map(pairs, "causal_pairs", 0.0)
    if fitted.aligned:
        return replace(fitted, likely_ns=0)  # a host that never slept
    why = f"no samples of CLOCK_BOOTTIME, by which rocprof stamps; {told}"
    return replace(fitted, reason=f"{why}: {fitted.reason}" if len(pairs) else why)


def _fit_trace(clock: str, evidence: ClockEvidence, trace: pl.DataFrame) -> ClockMap:
    steps = int(trace["step_lo_ns"].max() or 0), int(trace["step_hi_ns"].max() or 0)  # type: ignore[arg-type]
    sampled = bound_marks(list_marks(trace, evidence.args), evidence.samples["samples"], steps)
    pairs = bound_causes(evidence, steps)
    both = join_bounds(sampled, pairs)
    if clock == "mono":
        proven = _prove_mono(both, sampled, evidence, steps)
        return proven if proven.curve is None else _fit_other(proven, evidence, trace)
    rate, unsure = _guess_rate(both) if clock in COUNTS else (0.0, 0.0)
    if unsure > _MOST_UNSURE:
        return ClockMap(
            "unaligned", pairs=len(both), reason=f"{len(both)} pairs are too near to tell the rate of {clock}"
        )
    max_rate = 0.0 if clock in _SAME_RATE else MAX_RATE + unsure
    # Samples that cause and effect contradict are of another run: both together leave no line.
    method = "samples" if evidence.samples["samples"] and len(sampled) else "causal_pairs"
    if method == "causal_pairs" and not len(pairs) and clock not in COUNTS:
        pairs = bound_creations(evidence, steps)
        both = join_bounds(sampled, pairs)
    if method == "samples" or len(pairs):
        fitted = _refine(fit_clock_map(both, method, max_rate, rate), both, evidence, steps, (max_rate, rate))
        is_named = method == "samples" or (trace["layer"] == "doorbell").any()
        return fitted if is_named else _doubt(fitted, evidence, trace, steps)
    return _unaligned(evidence, trace)


def _fit_other(proven: ClockMap, evidence: ClockEvidence, trace: pl.DataFrame) -> ClockMap:
    """Return the map of a trace that is not on the clock that was said: as much is asked as where none is named."""
    other = _fit_trace("unknown", evidence, trace)
    return other if other.aligned else proven


def _doubt(fitted: ClockMap, evidence: ClockEvidence, trace: pl.DataFrame, steps: tuple[int, int]) -> ClockMap:
    """Return the map, or none where by it most requests lie outside of HIP calls.

    Queue creations name nothing but a thread's address, which is given out again: those of a later thread, or of
    another run, may fit, and silences are everywhere.
    """
    if not fitted.aligned:
        return fitted
    outside, asked = count_outside(*list_requests_and_calls(evidence), fitted, steps)
    why = (
        f"by the queue creations {outside} of {asked} requests to the KFD lie outside of the HIP calls of their "
        "thread: the sides are of two runs, or calls were left out of the log"
    )
    if not outside:
        return fitted
    return replace(_unaligned(evidence, trace), pairs=fitted.pairs, reason=why)


def _guess_rate(bounds: Bounds) -> tuple[float, float]:
    """Return the growth of the offset per tick of a clock that counts other things than ns, and how far it may be off.

    Both are zero where nothing bounds it.
    """
    usable = bounds.keep((bounds.low_ns != NO_LOW) | (bounds.high_ns != NO_HIGH)).sort()
    if len(usable) < 2 or usable.stamp_ns[0] == usable.stamp_ns[-1] or (usable.low_ns == NO_LOW).all():
        return 0.0, 0.0
    offset = np.where(usable.low_ns != NO_LOW, usable.low_ns, usable.high_ns).astype(np.float64)
    part = max(len(usable) // 10, 1)
    first, last = slice(0, part), slice(len(usable) - part, None)
    run = float(np.median(usable.stamp_ns[last]) - np.median(usable.stamp_ns[first]))
    rough = float(np.median(offset[last]) - np.median(offset[first])) / run if run else 0.0
    return _fit_rate(usable, rough)


def _fit_rate(bounds: Bounds, rough: float) -> tuple[float, float]:
    """Return the middle slope of the lines that inequalities allow near a rough one, and how far others lie from it."""
    given = bounds.around(int(bounds.stamp_ns[0]), int(np.median(bounds.low_ns[bounds.low_ns != NO_LOW])))
    chosen = pick_tightest(given.level(rough * given.x), trim=True)
    lines = fit_lines(given[chosen], rough, _ROUGH_RATE)
    return (lines.rate, lines.spread) if lines else (rough, 0.0)


def _refine(
    rough: ClockMap, bounds: Bounds, evidence: ClockEvidence, steps: tuple[int, int], rates: tuple[float, float]
) -> ClockMap:
    """Return the map with what the system calls of known threads add to it, as long as it gets better."""
    calls, moments = list_calls_and_moments(evidence)
    calls = calls.drop_nulls()
    if calls.is_empty() or not moments:
        return rough
    stamps = calls["stamp_ns"].to_numpy()
    for _ in range(_ROUNDS):
        if not rough.aligned:
            break
        found = bound_silences(calls, moments, rough, steps)
        if not len(found):
            break
        finer = fit_clock_map(join_bounds(bounds, found), rough.method, *rates)
        if not finer.aligned or _width(finer, stamps) > 0.95 * _width(rough, stamps):
            break
        rough = finer
    return rough


def _width(clock: ClockMap, stamps: np.ndarray) -> float:
    low, high = clock.bound(stamps)
    return float((high - low).mean())


def _fit_raw_lines(evidence: ClockEvidence) -> ClockMap:
    """Return the map of ROCr's own lines (CLOCK_MONOTONIC_RAW): from samples, and from the CLR lines around them."""
    readings = bound_readings(evidence.samples["samples"], "raw")
    both = join_bounds(readings, bound_spans(list_raw_line_spans(evidence), (0, LOG_STEP_NS)))
    fitted = fit_clock_map(both, "samples" if len(readings) else "causal_pairs")
    if fitted.aligned or len(both):
        return fitted
    return ClockMap("unaligned", reason="no samples of CLOCK_MONOTONIC_RAW, and no lines of ROCr's threads in order")


def _fit_boot(evidence: ClockEvidence) -> ClockMap:
    """Return the map of the GPU times of `Signal =` lines: CLOCK_BOOTTIME, which differs by the time spent suspended.

    On a host that never slept the clocks are equal: zero is shown where it is allowed.
    """
    readings = bound_readings(evidence.samples["samples"], "boot")
    both = join_bounds(readings, bound_spans(list_gpu_time_spans(evidence), (0, 0)))
    fitted = fit_clock_map(both, "samples" if len(readings) else "causal_pairs", 0.0)
    return replace(fitted, likely_ns=0)


def _prove_mono(bounds: Bounds, marks: Bounds, evidence: ClockEvidence, steps: tuple[int, int]) -> ClockMap:
    """Return the identity, with the number of marks and pairs that it satisfies and violates.

    Some pairs are of two things that only look alike, the more where lines were lost: the identity is given up where
    the clock that all of them together tell is another one, or explains more of the queue creations; and where no
    marks speak for it, but lines of the log stand within system calls of their thread. A single pair tells no other
    clock where by the identity all queue creations hold their ioctls: it may be of two lives of one ring.

    Args:
        bounds: all inequalities.
        marks: those of them that come from marks.
        evidence: what is there.
        steps: how far the true time of a trace stamp may lie below and above it.
    """
    held, foreign = count_held_creations(evidence, steps, ClockMap("same_clock"))
    contradicted = int(((bounds.low_ns > 0) | (bounds.high_ns < 0)).sum())
    if len(marks) and marks.low_ns.max() < -_MARK_DELAY_NS:
        contradicted += len(marks)
    total, violated = len(bounds) + foreign, contradicted + foreign
    same = ClockMap("same_clock", pairs=total, violated=violated)
    # One thing alone that both sides seem to show leaves some clock in any case.
    alone = len(bounds) <= _OF_ONE and not len(marks) and held > 0 and not foreign
    told = not alone and violated * 100 > total and (contradicted > 0 or foreign > held)
    # The bracket of a mark is narrower than what system calls tell.
    spoken = 0 if told or len(marks) else count_spoken(*list_calls_and_moments(evidence), steps, evidence.guessed)
    if not told and not spoken:
        return same
    fitted = fit_clock_map(bounds, "causal_pairs")
    if fitted.aligned and spoken:
        return _refine(fitted, bounds, evidence, steps, (MAX_RATE, 0.0))
    if fitted.aligned:
        low, high = fitted.bound(bounds.stamp_ns)
        explained = foreign <= max(held, count_held_creations(evidence, steps, fitted)[1])
        return same if explained and ((low <= 0) & (high >= 0)).all() else fitted
    why = f"{violated} of {total} marks and pairs contradict it"
    why = f"in {spoken} system calls their own thread prints a line" if spoken else why
    return ClockMap("unaligned", pairs=total, violated=violated, reason=f"said to be mono, but {why}")


def _unaligned(evidence: ClockEvidence, trace: pl.DataFrame) -> ClockMap:
    """Return a map that only puts the start of the trace beside the start of the log."""
    rows = evidence.records.select("source", "clock", "stamp_ns")
    log = select_monotonic(rows.filter(pl.col("source") == "amd_log"))["stamp_ns"]
    starts = log.min(), trace["stamp_ns"].min()
    shift = int(starts[0]) - int(starts[1]) if None not in starts else 0  # type: ignore[arg-type]
    why = "no clock samples, and no doorbell or queue creation that log and trace both show"
    if evidence.sides[0].is_empty():
        # Calls and ioctls of another run of the program would fit as well, at another shift.
        why = (
            "no clock samples, and the lines of the log name neither process nor thread, so that nothing ties them to "
            "the trace; log with AMD_LOG_LEVEL=4 or 5, or trace with trace_clock mono"
        )
    if len(log) == 0:
        why = "no log to compare it with, and no clock samples"
    return ClockMap("unaligned", shift, reason=why)
