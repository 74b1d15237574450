"""One clock map for every clock of a capture, from whatever evidence it holds; traces that are not on the clock that
was said.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from tracecorr.clock.causal_pairs import (
    LOG_STEP_NS,
    bound_causes,
    bound_spans,
    list_gpu_time_spans,
    list_raw_line_spans,
)
from tracecorr.clock.clock_map import MAX_RATE, ClockMap, fit_clock_map
from tracecorr.clock.hull import NO_LOW, Bounds, find_rates, join_bounds
from tracecorr.clock.placing import COUNTS
from tracecorr.clock.rocprof_pairs import bound_profile
from tracecorr.clock.samples import are_of_another_run, bound_marks, bound_readings, bound_top_buffer, list_marks
from tracecorr.model import frames

# A mark is written microseconds after its clock was read (p99 741 ns, measured); pre-emption takes milliseconds,
# but not of every mark.
_MARK_DELAY_NS = 1_000_000
# A trace that is said to be on CLOCK_MONOTONIC is on another clock where more than this share contradicts it.
_FEW_WRONG = 0.01
# These run at one rate with CLOCK_MONOTONIC.
_SAME_RATE = ("boot", "tai")
# How far the first guess of the rate of a clock that counts cycles may lie beside it, and how far what is then known of
# it.
_ROUGH_RATE, _MOST_UNSURE = 0.02, 0.002
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
        shared: file and offset of the Created lines that made no queue (`link.queues.list_shared`).
        samples: contents of clock.json (`{"samples": []}` when there is none).
        monotonic_ns, boottime_ns: what the time namespace of the log's processes adds to these clocks of the host
            (`/proc/PID/timens_offsets`); CLOCK_MONOTONIC_RAW is shifted like CLOCK_MONOTONIC.
        writes: between which stamps of the log its writes were entered, as spans for `bound_spans`.
    """

    records: pl.DataFrame
    args: pl.DataFrame
    shared: pl.DataFrame
    samples: dict[str, Any]
    monotonic_ns: int = 0
    boottime_ns: int = 0
    writes: pl.DataFrame = field(default_factory=frames.SPANS.empty)

    @cached_property
    def known(self) -> pl.DataFrame:
        """Return the rows whose thread and time are known."""
        return self.records.select(_COLUMNS).drop_nulls(["thread", "stamp_ns"])

    @cached_property
    def hip(self) -> pl.DataFrame:
        """Return the lines of HIP, whose stamps are of CLOCK_MONOTONIC, with a known thread."""
        return self.known.filter((pl.col("source") == "amd_log") & (pl.col("clock") == "mono"))


def fit_clocks(evidence: ClockEvidence) -> dict[str, ClockMap]:
    """Return a clock map by `source:clock` for every clock that the records name."""
    if are_of_another_run(list_marks(evidence.records, evidence.args), evidence.samples["samples"]):
        evidence = replace(evidence, samples={"samples": []})
    if evidence.monotonic_ns or evidence.boottime_ns:
        return _fit_namespace(evidence)
    source, clock = pl.col("source").cast(pl.String), pl.col("clock").cast(pl.String).fill_null("unknown")
    starts, ends = pl.col("stamp_ns"), pl.col("end_stamp_ns")
    clocks = evidence.records.group_by("source", "clock").agg(
        first=pl.min_horizontal(starts.min(), ends.min()), last=pl.max_horizontal(starts.max(), ends.max())
    )
    spans = {row[:2]: row[2:] for row in clocks.select(source, clock, "first", "last").sort(source, clock).iter_rows()}
    fitted = {key: _draw(_fit(key[0], key[1], evidence), key, spans[key]) for key in spans}
    boot = ("ftrace", "boot")
    if boot in fitted and _is_refuted(fitted, spans, "boot"):
        # Of another clock the rate is not that of CLOCK_BOOTTIME.
        fitted[boot] = _draw(_fit_other(fitted[boot], evidence), boot, spans[boot])
    return {f"{source}:{clock}": found for (source, clock), found in fitted.items()}


def _draw(found: ClockMap, key: tuple[str, str], span: tuple[int | None, int | None]) -> ClockMap:
    """Return a map with the lines that are shown for the stamps of its source."""
    first, last = span
    if first is None or last is None:
        return found
    # On a host that never slept CLOCK_BOOTTIME is CLOCK_MONOTONIC: zero is shown where it is allowed.
    return found.drawn(first, last, 0 if key in (("amd_log", "boot"), ("rocprof", "boot")) else None)


def _is_refuted(
    fitted: dict[tuple[str, str], ClockMap], spans: dict[tuple[str, str], tuple[int, int]], clock: str
) -> bool:
    """Tell whether a trace that is said to be on a clock is not, as other sources show it."""
    of_clock = [key for key, found in fitted.items() if key[1] == clock and found.aligned and spans[key][0] is not None]
    rows = [row for key in of_clock for row in fitted[key].summarize(":".join(key), *spans[key])]
    return bool(rows) and find_refuted(pl.DataFrame(rows)) is not None


def _fit_namespace(evidence: ClockEvidence) -> dict[str, ClockMap]:
    """Return the maps of a log that was written in a time namespace of its own."""
    added = {"mono": evidence.monotonic_ns, "mono_raw": evidence.monotonic_ns, "boot": evidence.boottime_ns}
    is_log, clock = pl.col("source") == "amd_log", pl.col("clock").cast(pl.String)
    shift = pl.when(is_log).then(clock.replace_strict(added, default=0, return_dtype=pl.Int64)).otherwise(0)
    lines = [pl.col("line_stamp_ns") - evidence.monotonic_ns] if "line_stamp_ns" in evidence.records.columns else []
    records = evidence.records.with_columns(pl.col("stamp_ns") - shift, pl.col("end_stamp_ns") - shift, *lines)
    writes = evidence.writes.with_columns(pl.col("from_ns", "to_ns") - evidence.monotonic_ns)
    maps = fit_clocks(replace(evidence, records=records, writes=writes, monotonic_ns=0, boottime_ns=0))
    return {
        key: found.shifted(-added.get(key.partition(":")[2], 0)) if key.startswith("amd_log:") else found
        for key, found in maps.items()
    }


def _fit(source: str, clock: str, evidence: ClockEvidence) -> ClockMap:
    if source == "amd_log":
        if clock == "boot":
            return _fit_gpu_times(evidence)
        # CLR prints CLOCK_MONOTONIC in all releases (4.5.2 to 6.4.1 read, 7.2.4 measured).
        return _fit_raw_lines(evidence) if clock == "mono_raw" else ClockMap("same_clock")
    if source == "rocprof":
        return _fit_rocprof(evidence)
    if source == "kfd_smi" and clock == "boot":
        readings = bound_readings(evidence.samples["samples"], "boot")
        unknown = ClockMap("unaligned", reason="no samples of CLOCK_BOOTTIME, the clock of the KFD's times")
        return fit_clock_map(readings, "samples", 0.0) if len(readings) else unknown
    if source == "trace_printk" and clock != "mono":
        return _fit_top_buffer(clock, evidence.samples.get("top_buffer"))
    if source == "kernel_log":
        return _fit_kernel_log(clock, evidence)
    if source in ("hqd", "kfd_smi", "trace_printk"):
        # The reader took CLOCK_MONOTONIC itself.
        return ClockMap("same_clock")
    if clock == "counter":
        return ClockMap("unaligned", reason="trace_clock `counter` counts events and shows no time")
    return _fit_trace(clock, evidence)


def _fit_top_buffer(clock: str, readings: Any) -> ClockMap:
    """Return the map of the clock of the top tracing buffer, which a capture read."""
    if not isinstance(readings, dict) or not readings.get("samples"):
        told = f" {clock}" if clock != "unknown" else ", which is not that of the ioctls that its prints tell of"
        return ClockMap("unaligned", reason=f"no reading of the top buffer's clock{told}")
    bounds = bound_top_buffer(readings["samples"])
    return fit_clock_map(bounds, "samples", 0.0 if clock in _SAME_RATE else MAX_RATE)


def _fit_kernel_log(clock: str, evidence: ClockEvidence) -> ClockMap:
    """Return the map of printk's stamps, local_clock: from readings of both clocks at once, and from nothing else.

    The same line in the trace (`printk:console`) bounds it from above only: consoles may be written late.
    """
    if clock != "printk":
        told = {"earlier_boot": "of an earlier boot", "realtime": "by a wall clock, or without a time"}
        return ClockMap("unaligned", reason=f"its lines are {told.get(clock, clock)}")
    readings = bound_readings(evidence.samples["samples"], "printk")
    if not len(readings):
        return ClockMap("unaligned", reason="no readings of printk's clock (local_clock), as `capture` takes them")
    return fit_clock_map(readings, "samples")


def _fit_rocprof(evidence: ClockEvidence) -> ClockMap:
    """Return the map of rocprof's stamps, CLOCK_BOOTTIME: from samples, else from the calls that the log shows too."""
    readings = bound_readings(evidence.samples["samples"], "boot")
    if len(readings):
        return fit_clock_map(readings, "samples", 0.0)
    pairs, told = bound_profile(evidence.records, evidence.args)
    fitted = fit_clock_map(pairs, "causal_pairs", 0.0)
    if fitted.aligned:
        return fitted
    why = f"no samples of CLOCK_BOOTTIME, the clock of rocprof's times; {told}"
    return replace(fitted, reason=f"{why}: {fitted.reason}" if len(pairs) else why)


def _fit_raw_lines(evidence: ClockEvidence) -> ClockMap:
    """Return the map of ROCr's own lines (CLOCK_MONOTONIC_RAW): from samples, and from the HIP lines around them."""
    readings = bound_readings(evidence.samples["samples"], "raw")
    spans = list_raw_line_spans(evidence.known.filter(pl.col("source") == "amd_log"))
    both = join_bounds(readings, bound_spans(spans, (0, LOG_STEP_NS)))
    fitted = fit_clock_map(both, "samples" if len(readings) else "causal_pairs")
    if fitted.aligned or len(both):
        return fitted
    return ClockMap("unaligned", reason="no samples of CLOCK_MONOTONIC_RAW, and no lines of ROCr's threads in order")


def _fit_gpu_times(evidence: ClockEvidence) -> ClockMap:
    """Return the map of the GPU times of `Signal =` lines: CLOCK_BOOTTIME."""
    readings = bound_readings(evidence.samples["samples"], "boot")
    times = evidence.records.filter((pl.col("source") == "amd_log") & (pl.col("layer") == "gpu"))
    both = join_bounds(readings, bound_spans(list_gpu_time_spans(times, evidence.hip), (0, 0)))
    return fit_clock_map(both, "samples" if len(readings) else "causal_pairs", 0.0)


def _fit_trace(clock: str, evidence: ClockEvidence) -> ClockMap:
    trace = evidence.records.lazy().filter(pl.col("source") == "ftrace")
    widest = trace.select(pl.col("step_lo_ns", "step_hi_ns").max().fill_null(0)).collect().row(0)
    steps = int(widest[0]), int(widest[1])
    samples = evidence.samples["samples"]
    marks = bound_marks(list_marks(evidence.records, evidence.args), samples, steps)
    pairs = bound_causes(
        evidence.hip, evidence.known.filter(pl.col("source") == "ftrace"), evidence.args, evidence.shared, steps
    )
    pairs = join_bounds(pairs, bound_spans(evidence.writes, steps))
    both = join_bounds(marks, pairs)
    if clock == "mono":
        return _prove_mono(both, marks, evidence)
    rate, unsure = _guess_rate(both) if clock in COUNTS else (0.0, 0.0)
    if unsure > _MOST_UNSURE:
        why = f"{len(both)} pairs are too close together to show the rate of {clock}"
        return ClockMap("unaligned", pairs=len(both), reason=why)
    # Samples that cause and effect contradict are of another run: both together leave no line.
    method = "samples" if samples and len(marks) else "causal_pairs"
    if method == "causal_pairs" and not len(pairs):
        return _unaligned(evidence)
    fitted = fit_clock_map(both, method, 0.0 if clock in _SAME_RATE else MAX_RATE + unsure, rate)
    return fitted if fitted.aligned else replace(fitted, shift_ns=_unaligned(evidence).shift_ns)


def _fit_other(proven: ClockMap, evidence: ClockEvidence) -> ClockMap:
    """Return the map of a trace that is not on the clock that was said: as much is asked as where none is named."""
    other = _fit_trace("unknown", evidence)
    return other if other.aligned else proven


def _guess_rate(bounds: Bounds) -> tuple[float, float]:
    """Return the growth of the offset per tick of a clock that counts other things than ns, and how far it may be off.

    Both are zero if nothing bounds it.
    """
    usable = bounds.select_usable()
    if not usable.is_two_sided or usable.stamp_ns[0] == usable.stamp_ns[-1]:
        return 0.0, 0.0
    offset = np.where(usable.low_ns != NO_LOW, usable.low_ns, usable.high_ns).astype(np.float64)
    part = max(len(usable) // 10, 1)
    run, grown = (float(np.median(side[-part:]) - np.median(side[:part])) for side in (usable.stamp_ns, offset))
    rough = grown / run if run else 0.0
    least, most = find_rates(usable, rough, _ROUGH_RATE)
    return (least + most) / 2, (most - least) / 2


def _prove_mono(bounds: Bounds, marks: Bounds, evidence: ClockEvidence) -> ClockMap:
    """Return the identity, with the number of marks and pairs that it satisfies and violates; else the other clock.

    If lines were lost, some pairs are of two things that only look alike: the identity is given up if many pairs
    contradict it, and all of them together show another clock.

    Args:
        bounds: all inequalities.
        marks: those of them that come from marks.
        evidence: what is there.
    """
    violated = int(((bounds.low_ns > 0) | (bounds.high_ns < 0)).sum())
    if len(marks) and marks.low_ns.max() < -_MARK_DELAY_NS:
        violated += len(marks)
    same = ClockMap("same_clock", pairs=len(bounds), violated=violated)
    if violated <= _FEW_WRONG * len(bounds):
        return same
    other = _fit_trace("unknown", evidence)
    if other.aligned:
        low, high = other.bound(bounds.stamp_ns)
        return same if ((low <= 0) & (high >= 0)).all() else other
    why = f"said to be mono, but {violated} of {len(bounds)} marks and pairs contradict it"
    return ClockMap("unaligned", pairs=len(bounds), violated=violated, reason=why)


def _unaligned(evidence: ClockEvidence) -> ClockMap:
    """Return a map that only puts the start of the trace beside the start of the log."""
    rows = evidence.records.lazy().select("source", "clock", "stamp_ns")
    is_hip = (pl.col("source") == "amd_log") & (pl.col("clock") == "mono")
    starts = [
        rows.filter(mark).select(pl.col("stamp_ns").min()).collect().item()
        for mark in (is_hip, pl.col("source") == "ftrace")
    ]
    shift = int(starts[0]) - int(starts[1]) if None not in starts else 0
    why = "no clock samples, and no doorbell or queue creation that log and trace both show"
    if evidence.known.filter(pl.col("source") == "amd_log").is_empty():
        # Calls and ioctls of another run of the program would fit as well, at another shift.
        why = (
            "no clock samples, and the lines of the log name neither process nor thread, so that nothing ties them to "
            "the trace; log with AMD_LOG_LEVEL=4 or 5, or trace with trace_clock mono"
        )
    if starts[0] is None:
        why = "no log to compare it with, and no clock samples"
    return ClockMap("unaligned", shift, reason=why)


_CLOCKS = {"mono": "CLOCK_MONOTONIC", "boot": "CLOCK_BOOTTIME", "mono_raw": "CLOCK_MONOTONIC_RAW"}


class Refuted(NamedTuple):
    """Tell of a trace that is not on the clock that was said.

    Args:
        clock: what was said, as ftrace calls it.
        beside_ns: the largest offset from that clock that is shown, ns.
    """

    clock: str
    beside_ns: int

    @property
    def name(self) -> str:
        """Return what the clock is called by clock_gettime."""
        return _CLOCKS[self.clock]


def find_refuted(clock_map: pl.DataFrame) -> Refuted | None:
    """Return which trace is said to be on a clock that its bounds leave no room for; None if none is.

    CLOCK_MONOTONIC has no offset to itself, and CLOCK_BOOTTIME is never behind it. If other sources show the same
    clock (GPU times, ROCr's lines), it is at the same time where they show it.

    Args:
        clock_map: the table.
    """
    maps = clock_map.with_columns(pl.col("source", "method").cast(pl.String))
    fitted = maps.filter(~pl.col("method").is_in(["same_clock", "unaligned"]))
    # A sleep of the host may show in no other clock: clocks that cannot be mapped show nothing.
    for clock in _CLOCKS:
        own = _list_ends(fitted.filter(pl.col("source") == f"ftrace:{clock}"))
        others = fitted.filter(
            pl.col("source").str.ends_with(f":{clock}") & ~pl.col("source").str.starts_with("ftrace")
        )
        beside = pl.concat([_compare_zero(own, clock), _compare(own, others)])
        if beside.len():
            return Refuted(clock, int(beside.gather(beside.abs().arg_max())[0]))  # type: ignore[arg-type]
    return None


def _list_ends(pieces: pl.DataFrame) -> pl.DataFrame:
    return pl.concat([pieces.with_columns(_offset(end).alias("at")) for end in ("from_ns", "to_ns")])


def _offset(stamp: str, suffix: str = "") -> pl.Expr:
    """Return the offset of a piece at a stamp."""
    run = pl.col(stamp) - pl.col(f"from_ns{suffix}")
    return pl.col(f"offset_ns{suffix}") + (pl.col(f"rate_ppb{suffix}") * 1e-9 * run).round().cast(pl.Int64)


def _compare_zero(own: pl.DataFrame, clock: str) -> pl.Series:
    """Return the offsets that the clock cannot have."""
    ahead, behind = pl.col("at") > pl.col("lo_ns"), pl.col("at") < -pl.col("hi_ns")
    wrong = {"mono": ahead | behind, "boot": ahead}.get(clock, pl.lit(value=False))
    return own.filter(wrong)["at"]


def _compare(own: pl.DataFrame, others: pl.DataFrame) -> pl.Series:
    """Return how far beside the same clock of other sources a trace is, where the bounds of both leave no zero."""
    # The host may have slept in between: only times that both show can be compared.
    both = own.drop("at").unique().join(others, how="cross", suffix="_2").with_columns(
        begin=pl.max_horizontal("from_ns", "from_ns_2"), end=pl.min_horizontal("to_ns", "to_ns_2")
    )  # fmt: skip
    both = both.filter(pl.col("begin") <= pl.col("end"))
    ends = [both.with_columns(at=_offset(end) - _offset(end, "_2")) for end in ("begin", "end")]
    wrong = (pl.col("at") > pl.col("lo_ns") + pl.col("hi_ns_2")) | (pl.col("at") < -pl.col("hi_ns") - pl.col("lo_ns_2"))
    return pl.concat(ends).filter(wrong)["at"]


def warn_refuted(clock_map: pl.DataFrame) -> list[str]:
    """Return what to say of a trace that is on another clock than was said, and what to do about it."""
    found = find_refuted(clock_map)
    if found is None:
        return []
    return [
        f"ftrace:{found.clock}: the trace was said to be on {found.name}, but the evidence shows that it runs "
        f"{found.beside_ns / 1e6:+.3f} ms beside it; times are those that the evidence gives. Name the clock that it "
        "was recorded with (--ftrace-clock local, unless trace_clock was set), or leave the option out. If it was "
        f"{found.clock}, the log is of another time namespace or machine"
    ]
