"""Compare two captures: what differs, and which differences are more than chance."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from tracecorr.analyze.calls import is_called, sum_up_graphs
from tracecorr.analyze.compare.counts import (
    compare_calls,
    compare_failures,
    compare_gpu_times,
    compare_ioctls,
    compare_kernels,
    compare_machines,
    compare_packets,
    compare_packets_per_call,
    compare_queues,
    compare_rates,
    join_sides,
    list_topology,
    name_changes,
    name_extra_packets,
    name_kernels,
    name_machine_changes,
    name_unrecorded,
    tell_gpu_times,
    tell_kinds,
)
from tracecorr.analyze.compare.statistics import (
    MIN_VALUES,
    QUANTILES,
    STAGES,
    compare_latency,
    count_needed,
    name_uncompared,
    read_steady,
    tell_bounds,
)  # fmt: skip
from tracecorr.analyze.evidence import Evidence, list_partial, name_partial
from tracecorr.analyze.kernels import UNKNOWN_KERNEL
from tracecorr.analyze.latency import LOG_MOMENTS, summarize_paths
from tracecorr.analyze.launches import count_packets
from tracecorr.analyze.memory import summarize_copies
from tracecorr.analyze.occupancy import describe_occupancy
from tracecorr.analyze.queues import NO_STREAM_NAMES, names_streams
from tracecorr.analyze.report.answers import Section
from tracecorr.analyze.run_facts import describe_overhead
from tracecorr.analyze.values import Tables, collect, plain_rows, render_ns
from tracecorr.analyze.verdicts import Verdict, judge_capture
from tracecorr.model.errors import InputError
from tracecorr.model.reasons import BEHIND_NULS, BLANK_LINE, NUL_BYTES, PROGRAM_OUTPUT, TORN_RECORD
from tracecorr.store.recording import describe_event_cost

# Rows of the ledger of a log that are not lines of the runtime, or parts of lines counted elsewhere.
_NO_LINES = (PROGRAM_OUTPUT, BLANK_LINE, NUL_BYTES, BEHIND_NULS, TORN_RECORD)
_NOT_MEASURED = "not measured (tracecorr experiment measures it)"


def _describe_conditions(evidence: Evidence) -> dict[str, str]:
    """Return the conditions of the latencies: log level, log lines per dispatch, trace, doorbell probe, overhead.

    The level is that of capture.json, else the lowest level with such lines (ROCm 7.2: calls at 3, copies at 4,
    packets and commands at 5; before 7.2 packets at 4).
    """
    tables, layers = evidence.tables, evidence.layers
    of_log = pl.col("source").cast(pl.String) == "amd_log"
    no_line = pl.col("reason").cast(pl.String).is_in(_NO_LINES).fill_null(value=False)
    lines = collect(tables("ledger").filter(of_log & ~no_line).select(pl.col("records").sum())).item()
    dispatches = collect(tables("launches").filter(pl.col("kind") == "dispatch").select(pl.len())).item()
    per_dispatch = f"{lines / dispatches:.1f}" if lines and dispatches else "-"
    return {
        "AMD_LOG_LEVEL": _log_level(evidence),
        "log lines per dispatch": per_dispatch,
        "kernel trace": _describe_trace(evidence),
        "doorbell probe": "yes" if layers.get("doorbell") else "no",
        "most compute queues": describe_occupancy(tables) or "not polled",
        "overhead": describe_overhead(evidence.info) or _NOT_MEASURED,
        "cost of an event": describe_event_cost(evidence.info) or "not measured (tracecorr capture measures it)",
    }


def _describe_trace(evidence: Evidence) -> str:
    if not any(evidence.layers.get(layer) for layer in ("syscall", "ioctl", "kfd")):
        return "no"
    part = name_partial(evidence)
    return f"yes, {part}" if part else "yes"


def _log_level(evidence: Evidence) -> str:
    environment = evidence.info.get("environment")
    named = environment.get("AMD_LOG_LEVEL") if isinstance(environment, Mapping) else None
    if named:
        return str(named)
    launches = evidence.tables("launches")
    if count_packets(launches):
        return "4 or more (packets and commands are printed; from ROCm 7.2 on at 5)"
    if evidence.layers.get("command") or collect(launches.select(pl.len())).item():
        return "4 or more (no packet is printed)"
    # Calls of a profiler are not lines of a log.
    logged = evidence.tables("events").filter(is_called() | is_called(internal=True)).head(1)
    return "3 or more (no packet is printed)" if collect(logged.select(pl.len())).item() else "no log"


def _compare_conditions(*sides: Evidence) -> pl.DataFrame:
    """Return one row per condition, with the value of each side."""
    first, second = map(_describe_conditions, sides)
    rows = [(name, first[name], second[name]) for name in first]
    return pl.DataFrame(rows, schema={"condition": pl.String, "a": pl.String, "b": pl.String}, orient="row")


_ROUNDS = 20_000
_MAX_FAILURES = 5
_OF_LOG = [stage for stage, start, end in STAGES if start in LOG_MOMENTS and end in LOG_MOMENTS]
_STEPS = ", in steps of 1 us"


@dataclass(frozen=True)
class Side:
    """Hold one capture of a comparison: its name, tables and capture.json, and the tables of its nodes."""

    name: str
    tables: Tables
    info: Mapping[str, Any] = field(default_factory=dict)
    nodes: Mapping[str, Tables] = field(default_factory=dict)


@dataclass(frozen=True)
class Comparison:
    """Hold what differs between two captures.

    Args:
        first, second: names of the captures A and B.
        findings: the differences in words.
        sections: the tables behind them.
    """

    first: str
    second: str
    findings: tuple[str, ...]
    sections: tuple[Section, ...]

    def frame(self, key: str) -> pl.DataFrame:
        """Return the table of a section.

        Raises:
            InputError: there is no such section.
        """
        for section in self.sections:
            if section.key == key:
                return section.frame
        sections = ", ".join(section.key for section in self.sections)
        raise InputError(f"a comparison has no section {key!r}", f"its sections are: {sections}")

    def as_dict(self) -> dict[str, Any]:
        """Return the comparison for JSON."""
        return {
            "a": self.first,
            "b": self.second,
            "findings": list(self.findings),
            "sections": {
                s.key: {"title": s.title, "evidence": s.evidence, "rows": plain_rows(s.frame)} for s in self.sections
            },
        }


def compare_captures(first: Side, second: Side, confidence: float = 0.95, rounds: int = _ROUNDS) -> Comparison:
    """Return how B differs from A.

    Args:
        first, second: the captures A and B.
        confidence: probability that all intervals of a table together contain the true differences.
        rounds: bootstrap rounds; the same captures give the same intervals each time.
    """
    named = zip((first, second), name_kernels(first.tables, second.tables), strict=True)
    a, b = (Evidence(tables, info=side.info, nodes=side.nodes) for side, tables in named)
    sections = (
        *_topology_sections(a.tables, b.tables),
        *_work_sections(a, b, confidence, rounds),
        *_path_sections(a, b),
    )
    by_key = {s.key: s for s in sections}
    missing = (*_name_missing(a.sources, b.sources), *_name_silent(a, b), *_name_partial(a, b))
    findings = (*missing, *_find(by_key, (a, b), confidence))
    return Comparison(first.name, second.name, findings, sections)


def _topology_sections(a: Tables, b: Tables) -> Iterator[Section]:
    queues = compare_queues(a, b)
    blank = "".join(f"; not recorded in {side.upper()}" for side in ("a", "b") if queues[side].drop_nulls().is_empty())
    yield Section("queues", "Queues", queues, f"recorded by the log's lines and packets, and by the trace{blank}")
    for key, side, tables in (("topology_a", "A", a), ("topology_b", "B", b)):
        yield Section(key, f"Streams and queues of {side}", list_topology(tables), nothing=_why_no_stream(tables))


def _why_no_stream(tables: Tables) -> str:
    launches = tables("launches")
    if not count_packets(launches):
        return "no packet is recorded: which stream submitted to which queue is unknown"
    return "no stream submitted to a queue" if names_streams(launches) else NO_STREAM_NAMES


def _work_sections(first: Evidence, second: Evidence, confidence: float, rounds: int) -> Iterator[Section]:
    a, b = first.tables, second.tables
    steady = read_steady(a, first.setup_calls), read_steady(b, second.setup_calls)
    interval = (
        "jitter = P99 - P50; launches with an unknown call, or whose call created a queue, loaded code or allocated "
        f"memory, are left out; intervals by bootstrap ({rounds} rounds, correlation of neighbours included), "
        f"{confidence:.0%} for all rows together; significant = the interval does not contain 0, and the difference is "
        "at least the 1 us step of the log; an end of an interval is open if a side has so few launches that the "
        "percentile may be larger than all of them"
    )
    clocks = (
        f"{interval}; the times of a barrier on the GPU include those of the packets before it; if the queues of a "
        "side have several priorities, each is compared separately; `clock error` = how far the two clocks of a stage "
        "may move a difference: the interval is wider by it. It is 0 if both ends are stamps of the log (whole us, so "
        "that the true difference may be up to 2 us more or less), and between two times of one GPU, whose clock steps "
        "(10 ns at 100 MHz) are not included"
    )
    yield Section(
        "machines", "Machines", compare_machines(first, second),
        "what captures and logs say about machine, driver, software and environment; `differs` = also if one side does "
        "not say it",
        nothing="no source describes the machines",
    )  # fmt: skip
    yield Section(
        "failures", "Errors and failed calls", compare_failures(first, second),
        "errors and warnings of the runtime, notices beside the log, calls and ioctls that failed; messages that "
        "differ only in numbers are one",
        nothing="neither side has an error or a failed call",
    )  # fmt: skip
    yield Section("conditions", "Conditions of the latencies", _compare_conditions(first, second))
    latency = compare_latency(*steady, confidence, rounds)
    yield Section(
        "latency", "Latency", latency, clocks, name_uncompared(*steady, latency),
        nothing="no stage has enough launches on both sides",
    )  # fmt: skip
    yield Section(
        "kernels", "Kernels",
        name_unrecorded(compare_kernels(a, b, steady, confidence, rounds), _with_packets(first, second)),
        f"counts are recorded; times are medians from call to packet, without graphs: {interval}",
        nothing="no kernel on either side",
    )  # fmt: skip
    yield Section(
        "gpu_times", "GPU times of kernels",
        name_unrecorded(compare_gpu_times(a, b, confidence, rounds), [False, False]),
        "of the `timed` kernels, with a recorded start and end: those of the log, or of a profile if no kernel of the "
        "log is timed; `total` = sum of their times (what ran at once counts twice); medians are compared as in "
        "Latency, with the same step of 1 us",
        nothing="no kernel has GPU times on either side",
    )  # fmt: skip
    yield Section("rates", "Submission rate", compare_rates(a, b), "recorded: times of the packet lines, 100 slices")
    logged, traced = _with_log_and_ioctls(first, second)
    yield Section(
        "packets", "Packets and copies", name_unrecorded(compare_packets(a, b), _with_packets(first, second)),
        "recorded by the log", nothing="no packet or copy on either side",
    )  # fmt: skip
    yield Section(
        "packets_per_call", "Packets per HIP call",
        name_unrecorded(compare_packets_per_call(a, b), _with_packets(first, second)),
        "packets and copies whose call is known, divided by the calls of that function",
        nothing="no packet has a known call on either side",
    )  # fmt: skip
    yield Section("hip_calls", "HIP calls", name_unrecorded(compare_calls(a, b), logged), "recorded by the log")
    yield Section(
        "ioctls", "Ioctls", name_unrecorded(compare_ioctls(a, b), traced),
        f"recorded by the trace{_tell_partial((first, second))}",
        nothing="no ioctl on either side",
    )  # fmt: skip


def _path_sections(first: Evidence, second: Evidence) -> Iterator[Section]:
    sides = (first.tables, first.setup_calls), (second.tables, second.setup_calls)
    paths = [
        summarize_paths(t("launches"), t("events"), setup).with_columns(way=pl.format("{}: {}", "phase", "layer"))
        for t, setup in sides
    ]
    ways = join_sides(paths[0], paths[1], "way", ["launches", "mean_ns", "p50_ns", "p99_ns"])
    yield Section(
        "paths", "Time by layer", name_unrecorded(ways, _with_packets(first, second)),
        "launches that are steady, with set-up work, of graphs, and of an unknown call are separate; times that end or "
        "begin at a doorbell or on the GPU have the clock error of Latency",
    )  # fmt: skip
    graphs = [
        sum_up_graphs(t("launches"), t("events")).select(pl.lit(side).alias("side"), pl.all())
        for side, (t, _) in zip("AB", sides, strict=True)
    ]
    yield Section(
        "graphs", "Graph launches", pl.concat(graphs),
        "recorded: the calls that launch graphs, and their packets; `per dispatch` = time of the calls divided by "
        "their dispatches; latencies of packets of graphs are compared separately",
        nothing="no graph launch is recorded on either side",
    )  # fmt: skip
    copies = [
        summarize_copies(t("events"), t("launches"), t("kernels"))
        .group_by("path")
        .agg(pl.col("copies").sum(), pl.when(pl.col("bytes").null_count() == 0).then(pl.col("bytes").sum()))
        for t, _ in sides
    ]
    yield Section(
        "copies",
        "Copies",
        name_unrecorded(
            join_sides(copies[0], copies[1], "path", ["copies", "bytes"]),
            ["amd_log" in side.sources for side in (first, second)],
        ),
        nothing="no copy on either side",
    )
    yield Section("verdicts", "Verdicts", _compare_verdicts(judge_capture(first), judge_capture(second)))


def _with_packets(*sides: Evidence) -> list[bool]:
    return [count_packets(side.tables("launches")) > 0 for side in sides]


def _compare_verdicts(first: Sequence[Verdict], second: Sequence[Verdict]) -> pl.DataFrame:
    """Return one row per verdict, with the outcome and reason of each side; different outcomes first."""
    rows = [
        (x.name, str(x.outcome), str(y.outcome), x.outcome != y.outcome, x.finding.reason, y.finding.reason)
        for x, y in zip(first, second, strict=True)
    ]
    columns = ["verdict", "a", "b", "differs", "a_because", "b_because"]
    return pl.DataFrame(rows, schema=columns, orient="row").sort("differs", descending=True, maintain_order=True)


_SOURCES = {
    "amd_log": "HIP log: no calls, packets, queues and latencies are recorded there",
    "ftrace": "kernel trace: no ioctls and doorbells are recorded there",
}


def _name_missing(first: set[str], second: set[str]) -> Iterator[str]:
    """Yield which source is missing on a side: a count of 0 there means nothing."""
    for source, what in _SOURCES.items():
        sides = [side for side, known in (("A", first), ("B", second)) if source not in known]
        if sides:
            yield f"{' and '.join(sides)} {'has' if len(sides) == 1 else 'have'} no {what}"


def _name_silent(first: Evidence, second: Evidence) -> Iterator[str]:
    """Yield which HIP log has no packet: up to level 3, from ROCm 7.2 on up to 4, none is printed."""
    for side, evidence in (("A", first), ("B", second)):
        logged = evidence.layers.get("hip") and "amd_log" in evidence.sources
        if logged and not count_packets(evidence.tables("launches")):
            yield (
                f"the HIP log of {side} has no packet: its program submitted none, or AMD_LOG_LEVEL was too low to "
                "print them"
            )


def _name_partial(first: Evidence, second: Evidence) -> Iterator[str]:
    """Yield which part of the run the trace of a side covers: a smaller count may not be a difference."""
    for side, evidence in (("A", first), ("B", second)):
        for told in list_partial(evidence):
            yield f"in {side} {told}; its ioctls and recorded doorbells are only those of that time"


def _tell_partial(sides: tuple[Evidence, Evidence]) -> str:
    """Return which traces cover a part of the run; empty if both cover all of it."""
    told = [f"{side}: {part}" for side, evidence in zip("AB", sides, strict=True) if (part := name_partial(evidence))]
    return f" ({'; '.join(told)})" if told else ""


def _find(sections: Mapping[str, Section], sides: tuple[Evidence, Evidence], confidence: float) -> Iterator[str]:
    frames = {key: section.frame for key, section in sections.items()}
    yield from name_machine_changes(frames["machines"])
    yield from _find_failures(frames["failures"])
    yield from _find_in_counts(frames, sides)
    yield from name_extra_packets(frames["packets_per_call"], _with_packets(*sides))
    yield from tell_gpu_times(frames["gpu_times"])
    yield from _find_in_latency(frames["latency"], confidence)
    if left := sections["latency"].missing:
        yield f"latencies leave out launches: {left}"
    for row in frames["verdicts"].filter("differs").iter_rows(named=True):
        yield f"verdict {row['verdict']}: {row['a']} in A, {row['b']} in B"


def _find_failures(failures: pl.DataFrame) -> Iterator[str]:
    """Yield the errors and failed calls whose numbers differ, the largest differences first."""
    times = failures.with_columns(pl.col("a_times", "b_times").fill_null(0))
    change = (pl.col("b_times") - pl.col("a_times")).abs()
    changed = times.filter(change > 0).sort(-change, "failure")
    for row in changed.head(_MAX_FAILURES).iter_rows(named=True):
        yield f"failure `{row['failure']}`: {row['a_times']:,} in A, {row['b_times']:,} in B"


def _find_in_counts(frames: Mapping[str, pl.DataFrame], sides: tuple[Evidence, Evidence]) -> Iterator[str]:
    queues = {row["what"]: row for row in frames["queues"].iter_rows(named=True)}
    for what in ("queues with dispatches", "queues made by HIP (Created lines)", "queues shared by streams"):
        row = queues[what]
        a, b = ("unknown" if row[side] is None else row[side] for side in ("a", "b"))
        yield f"{what}: {a} in A, {b} in B" + (" (no difference)" if row["difference"] == 0 else "")
    yield _compare_dispatches(frames["rates"])
    shown = _with_packets(*sides)
    logged, traced = _with_log_and_ioctls(*sides)
    yield from _compare_graphs(frames["graphs"], logged)
    # Dispatches without a name are not a kernel of their own.
    yield tell_kinds(frames["kernels"].filter(pl.col("name") != UNKNOWN_KERNEL), "names of kernels", shown)
    yield tell_kinds(frames["hip_calls"], "HIP functions", logged, "calls")
    partial = _tell_partial(sides)
    yield tell_kinds(frames["ioctls"], "kinds of ioctls", traced, "ioctls") + partial
    yield from name_changes(frames["packets"], "packets and copies by kind", shown)
    yield from (f"{line}{partial}" for line in name_changes(frames["ioctls"], "ioctls by kind", traced))


def _find_in_latency(latency: pl.DataFrame, confidence: float) -> Iterator[str]:
    for row in latency.filter("significant").iter_rows(named=True):
        percent = f", {row['percent']:+.1f} %" if row["percent"] is not None else ""
        yield (
            f"SIGNIFICANT {row['stage']} of {row['kind']}, {row['statistic']}: {render_ns(row['a_ns'])} in A, "
            f"{render_ns(row['b_ns'])} in B{percent} ({tell_bounds(row['low_ns'], row['high_ns'])}"
            f"{_STEPS if row['stage'] in _OF_LOG else ''})"
        )
    if latency.is_empty():
        yield f"no latency is compared: no stage has {MIN_VALUES} launches of one kind on both sides"
        return
    same = latency.filter(~pl.col("significant"))
    yield f"{same.height} of {latency.height} latency figures do not differ significantly"
    if open_ones := latency["significant"].null_count():
        risk = (1 - confidence) / latency.height
        p95, p99 = (count_needed(QUANTILES.index(share), 1 - risk) for share in (0.95, 0.99))
        yield (
            f"{open_ones} of {latency.height} latency figures cannot be judged: the percentile of the faster side may "
            f"be larger than all of its launches (P95 needs {p95} independent launches, P99 {p99})"
        )


def _with_log_and_ioctls(*sides: Evidence) -> tuple[list[bool], list[bool]]:
    """Return which sides have a HIP log, and which a trace of ioctls."""
    return ["amd_log" in side.sources for side in sides], [side.saw("ioctl", "sys_enter_ioctl") for side in sides]


def _compare_dispatches(rates: pl.DataFrame) -> str:
    sides = (
        f"{'unknown' if row['dispatches'] is None else row['dispatches']} in {row['side']}"
        + ("" if row["per_second"] is None else f" ({row['per_second']} per second)")
        for row in rates.iter_rows(named=True)
    )
    return f"dispatches: {', '.join(sides)}"


def _compare_graphs(graphs: pl.DataFrame, logged: Sequence[bool]) -> Iterator[str]:
    """Yield how many dispatches graph launches submitted, if there are any."""
    rows = {row["side"]: row for row in graphs.iter_rows(named=True)}
    if rows:
        told = ", ".join(
            _tell_graphs(side, rows.get(side), has_log) for side, has_log in zip("AB", logged, strict=True)
        )
        yield f"dispatches by graph launches, whose latencies are compared separately: {told}"


def _tell_graphs(side: str, row: Mapping[str, Any] | None, has_log: bool) -> str:
    if row is None:
        return f"{0 if has_log else 'unknown'} in {side}"
    return f"{'unknown' if row['dispatches'] is None else row['dispatches']} in {side} ({row['calls']} calls)"
