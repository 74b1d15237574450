"""What the captured rounds say of preemption and load; a figure that nothing recorded is UNKNOWN, not zero."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import polars as pl

from tracecorr.analyze.experiment import (
    APART,
    TIMES,
    TOGETHER,
    add_causes,
    describe_apart,
    find_limit,
    is_apart,
    judge_latency,
    list_overlaps,
    measure_overhead,
    summarize_phases,
    summarize_throughput,
    summarize_yields,
)
from tracecorr.analyze.occupancy import summarize_occupancy
from tracecorr.analyze.policies import compare_stamps, describe_policy, summarize_low, summarize_policies
from tracecorr.analyze.priorities import summarize_priorities
from tracecorr.analyze.queues import summarize_backlog
from tracecorr.analyze.report.answers import Section
from tracecorr.analyze.run_facts import describe_model, list_armed
from tracecorr.analyze.values import collect, percentile, plain_rows, render_ns
from tracecorr.analyze.verdicts.model import Finding
from tracecorr.experiment.policies import CUMASK, NONE, STOP, SUSPEND
from tracecorr.experiment.preempt import Runs
from tracecorr.model.columns import is_counted
from tracecorr.read.kfd.ioctls import SET_CU_MASK
from tracecorr.store import Capture

# Driver functions and SMI events that take a queue off the GPU, or put it back.
_MOVES = {"evictions": r"(?i)evict", "suspends": r"(?i)suspend", "resumes and restores": r"(?i)resume|restore"}
_LAYERS = ("kfd", "mqd", "smi")
_POLLED = {
    "GPU busy": ("gpu_busy_percent", "%"),
    "memory busy": ("mem_busy_percent", "%"),
    "memory used": ("mem_info_vram_used", "bytes"),
}
_RECORDED = "recorded"
_NOT_ARMED = "UNKNOWN: neither such driver functions nor SMI events were recorded"


def count_moves(capture: Capture) -> pl.DataFrame:
    """Return one row per kind of move.

    Returns: what, n (null = UNKNOWN), first_ns, known (`recorded`, or why it is UNKNOWN).
    """
    events = capture.table("events").filter(pl.col("layer").cast(pl.String).is_in(_LAYERS) & is_counted())
    names = collect(events.select("ts_ns", "dur_ns", name=pl.col("name").cast(pl.String)))
    # An SMI event of an eviction lasts until the restore.
    ends = names.filter(pl.col("name").eq("QUEUE_EVICTION") & pl.col("dur_ns").is_not_null())
    ends = ends.with_columns(ts_ns=pl.col("ts_ns") + pl.col("dur_ns"), name=pl.lit("QUEUE_RESTORE"))
    names = pl.concat([names, ends])
    armed = list_armed(capture.info)
    smi = any(entry.get("form") == "smi" for entry in capture.info.get("files") or [])
    rows = []
    for what, pattern in _MOVES.items():
        found = names.filter(pl.col("name").str.contains(pattern))
        seen = smi or any(pl.Series([name]).str.contains(pattern).item() for name in armed)
        known = _RECORDED if seen or len(found) else _NOT_ARMED
        rows.append((what, len(found) if known == _RECORDED else None, found["ts_ns"].min(), known))
    return pl.DataFrame(
        rows, schema={"what": pl.String, "n": pl.Int64, "first_ns": pl.Int64, "known": pl.String}, orient="row"
    )


def summarize_load(capture: Capture) -> pl.DataFrame:
    """Return one row per figure of load and GPU or queue.

    Returns: figure, of (GPU or queue, null = UNKNOWN), unit, values (number of samples), mean, max, known.
    """
    parts = [_polled(capture, *told) for told in ((f, *names) for f, names in _POLLED.items())]
    return pl.concat([*parts, _ring_fill(capture)])


def _polled(capture: Capture, figure: str, name: str, unit: str) -> pl.DataFrame:
    samples = capture.table("samples").with_columns(pl.col("name").cast(pl.String))
    values = collect(
        samples.filter(pl.col("name").str.starts_with(name))
        .group_by(of=pl.coalesce(pl.format("GPU {}", "gpu"), "name"))
        .agg(values=pl.len().cast(pl.Int64), mean=pl.col("value").mean(), max=pl.col("value").max())
        .sort("of")
    )
    return _told(figure, unit, values, f"UNKNOWN: no card in sysfs shows {name}")


def _ring_fill(capture: Capture) -> pl.DataFrame:
    filled = summarize_backlog(capture.table).drop_nulls("mean")
    share = 100 / pl.col("size")
    values = filled.filter(pl.col("size") > 0).select(
        of=pl.format("queue {}", "queue"), values="measured", mean=(pl.col("mean") * share).round(3),
        max=(pl.col("peak") * share).round(3),
    )  # fmt: skip
    return _told("ring filled", "%", values, "UNKNOWN: the log has no packet with both indexes, or no ring size")


def _told(figure: str, unit: str, values: pl.DataFrame, otherwise: str) -> pl.DataFrame:
    nothing = {"of": None, "values": 0, "mean": None, "max": None}
    shown = values if len(values) else pl.DataFrame([nothing])
    return shown.select(
        figure=pl.lit(figure), of=pl.col("of").cast(pl.String), unit=pl.lit(unit),
        values=pl.col("values").cast(pl.Int64), mean=pl.col("mean").cast(pl.Float64),
        max=pl.col("max").cast(pl.Float64),
        known=pl.lit(_RECORDED if len(values) else otherwise),
    )  # fmt: skip


_BOTH = "both were started at once; beside = launches while the other one was at work (first start to last completion)"
_PARTS = (
    f"together = launches of these rounds beside the other one's work, {APART} = the other launches of the same rounds"
)
_NOTHING = "UNKNOWN: nothing was captured"


@dataclass(frozen=True)
class _ExperimentReport:
    """Hold the answers of an experiment.

    Args:
        finding: the verdict.
        sections: the tables.
        notices: warnings, one fact a line.
    """

    finding: Finding
    sections: tuple[Section, ...]
    notices: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Return the report for JSON."""
        found = self.finding
        return {
            "notices": list(self.notices),
            "verdict": {"name": "high_keeps_its_latency", "outcome": str(found.outcome), "reason": found.reason,
                        "counts": dict(found.counts), "remedy": found.remedy or None},
            "sections": {s.key: plain_rows(s.frame) for s in self.sections},
        }  # fmt: skip


def summarize_experiment(runs: Runs, kept: float, target_ns: int = 5_000_000) -> _ExperimentReport:
    """Return the answers of an experiment.

    Args:
        runs: what was measured.
        kept: limit of the high one's P95 together, as a multiple of its P95 alone.
        target_ns: how soon the high one shall have the GPU.
    """
    plain, captured = (rows.filter(pl.col("policy") == NONE) for rows in (runs.stamps, runs.captured))
    sides = (("plain", plain), ("captured", captured))
    notices = tuple(told for name, stamps in sides if (told := describe_apart(stamps, name)))
    overhead = measure_overhead(plain, captured)
    shown = {section.key: section for section in _captured_sections(runs, captured)}
    finding = add_causes(judge_latency(plain, overhead, kept), shown["priorities"].frame, len(os.sched_getaffinity(0)))
    model = _describe_models(runs)
    finding = replace(finding, reason=f"{finding.reason}; {model}") if model else finding
    policies = _policy_sections(runs, kept, target_ns) if len(runs.tried) > 1 else ()
    sections = (*policies, *_plain_sections(runs, plain, captured), _overhead_section(overhead), *shown.values())
    return _ExperimentReport(finding, sections, notices)


def _describe_models(runs: Runs) -> str:
    """Return what stood for a GPU, as the captures or the workload's environment say; empty for a GPU."""
    infos = [Capture.open(path).info for path in runs.captures.values()]
    told = map(describe_model, [*({"environment": tried.environment} for tried in runs.tried), *infos])
    return "; ".join(dict.fromkeys(filter(None, told)))


def _policy_sections(runs: Runs, kept: float, target_ns: int) -> Iterator[Section]:
    told = list(_describe_policies(runs, kept, target_ns))
    yield Section(
        "verdicts", "What the numbers mean", pl.DataFrame(told, schema=("policy", "verdict"), orient="row"),
        is_whole=True,
    )  # fmt: skip
    yield Section(
        "policies", "The high one under each policy", summarize_policies(runs.stamps),
        "launch to completion beside the low one, uninstrumented; the interval of P95 is a bootstrap of 95 %; cost = "
        "the high one's median alone under the policy, as a multiple of that without one",
    )  # fmt: skip
    yield Section(
        "low_one", "The low one under each policy", summarize_low(runs.stamps),
        "way = from a launch of the high one to the low one's last completion before its end; back = from its end to "
        "the low one's next completion; as the hosts notice them. beside, idle, alone = completions per second "
        "during the high one's launches, between them, and without it",
    )  # fmt: skip
    yield Section(
        "control", "What the controller did", _describe_control(runs),
        "holds = how often the low one was held; reads = how often it asked, 0 if it does not cooperate; "
        "reached = its processes (stop) or queues (suspend) that were held, in all holds together",
    )  # fmt: skip
    yield Section("machine", "The machine", pl.DataFrame(_list_settings(), schema=("setting", "value", "meaning"),
                                                         orient="row"), is_whole=True)  # fmt: skip


def _describe_policies(runs: Runs, kept: float, target_ns: int) -> Iterator[tuple[str, str]]:
    """Yield each policy and what its numbers mean; the alone rounds without a policy are the base of all."""
    model = _describe_models(runs)
    base = runs.stamps.filter((pl.col("policy") == NONE) & (pl.col("phase") != TOGETHER))
    longest = _find_longest(runs)
    for tried in runs.tried:
        if tried.refused:
            yield tried.policy, f"no result: {tried.refused}"
            continue
        own = runs.stamps.filter((pl.col("policy") == tried.policy) & (pl.col("phase") == TOGETHER))
        finding = judge_latency(
            pl.concat([base, own]), pl.DataFrame(schema={"role": pl.String, "ratio": pl.Float64}), kept
        )
        shown = TOGETHER if tried.policy == NONE else f"{TOGETHER} under {tried.policy}"
        seen = runs.captures.get(shown)
        moves = {} if seen is None else dict(count_moves(Capture.open(seen)).select("what", "n").rows())
        said = describe_policy(tried.policy, finding, moves, longest, target_ns)
        if tried.reads == 0:
            said += "; the low one never asked whether it may launch (TRACECORR_CHANNEL), so it was not held"
        if tried.holds and tried.reached == 0:
            said += f"; nothing of the low one was held: {_NOT_FOUND[tried.policy]}"
        if tried.policy == CUMASK and seen is not None:
            said += _describe_masks(Capture.open(seen))
        yield tried.policy, f"{said}; {model}" if model else said


_NOT_FOUND = {
    STOP: "it had no process of the caller's below its shell",
    SUSPEND: "sysfs showed no queues of its processes, or the tool sees other pids, as in a container",
}


def _describe_masks(capture: Capture) -> str:
    """Return how often the runtime asked for a mask of CUs, and what the driver said, as the end of a sentence."""
    events = capture.table("events").filter((pl.col("layer").cast(pl.String) == "ioctl") & is_counted())
    rows = collect(events.select(pl.col("name", "result").cast(pl.String)))
    if rows.is_empty():
        return "; whether the mask reached the driver is UNKNOWN, no ioctl was recorded"
    results = rows.filter(pl.col("name") == SET_CU_MASK)["result"]
    if results.is_empty():
        return "; the runtime asked for no mask (SET_CU_MASK): every queue may use all CUs"
    refused = (results.drop_nulls() != "0").sum()
    return f"; the runtime set the mask of queues {len(results)} times (SET_CU_MASK), the driver refused {refused}"


def _find_longest(runs: Runs) -> int | None:
    """Return the longest kernel of the low one alone that a capture shows; None if none does."""
    if "low_alone" not in runs.captures:
        return None
    launches = Capture.open(runs.captures["low_alone"]).table("launches")
    launches = launches.filter(pl.col("kind").cast(pl.String) == "dispatch")
    longest = collect(launches.select((pl.col("gpu_end_ns") - pl.col("gpu_start_ns")).max())).item()
    return None if longest is None else int(longest)


def _describe_control(runs: Runs) -> pl.DataFrame:
    rows = []
    for tried in runs.tried:
        took = sorted(tried.took_ns)
        times = (took[len(took) // 2], took[-1]) if took else (None, None)
        rows += [] if tried.refused else [(tried.policy, tried.holds, tried.reads, tried.reached, *times)]
    schema = {"policy": pl.String, "holds": pl.Int64, "reads": pl.Int64, "reached": pl.Int64, "action_p50_ns": pl.Int64,
              "action_max_ns": pl.Int64}  # fmt: skip
    return pl.DataFrame(rows, schema=schema, orient="row")


_PARAMETERS = Path("/sys/module/amdgpu/parameters")
_MEANINGS = {
    "sched_policy": "0 HWS with oversubscription, 1 HWS without, 2 no HWS: no preemption by the firmware",
    "num_kcq": "kernel compute queues; each takes a slot from the user's queues",
    "hws_max_conc_proc": "processes that the firmware maps at once",
    "queue_preemption_timeout_ms": "how long the driver waits for waves to be saved before it resets",
    "cwsr_enable": "1 = waves can be saved (CWSR); 0 = a running kernel is waited for",
}


def _list_settings() -> Iterator[tuple[str, str, str]]:
    """Yield the settings that decide whether a policy can act: of the driver, and of the runtime's environment."""
    for name, meaning in _MEANINGS.items():
        try:
            value = (_PARAMETERS / name).read_text().strip()
        except OSError:
            value = "UNKNOWN: no amdgpu module here"
        yield f"amdgpu.{name}", value, meaning
    for name, meaning in (
        ("GPU_MAX_HW_QUEUES", "hardware queues of each priority that HIP makes (4 if it is not set)"),
        ("DEBUG_HIP_IGNORE_STREAM_PRIORITY", "1 = no priority of a stream reaches the KFD; the default of HIP from "
                                             "ROCm 10 on: set 0 to measure priorities"),
        ("HSA_CU_MASK", "CUs that the queues of a process may use"),
    ):  # fmt: skip
        yield name, os.environ.get(name, "not set"), meaning


def _plain_sections(runs: Runs, plain: pl.DataFrame, captured: pl.DataFrame) -> Iterator[Section]:
    workloads = pl.DataFrame(
        list(runs.commands.items()), schema={"role": pl.String, "command": pl.String}, orient="row"
    )
    yield Section("workloads", "Workloads", workloads, is_whole=True)
    overlaps = [list_overlaps(plain, "plain"), list_overlaps(captured, "captured")]
    yield Section("overlap", "Were both at work at once?", pl.concat(overlaps), _BOTH)
    yield Section(
        "phases", "Latency and throughput", summarize_phases(plain),
        f"stamps of the workloads themselves, without any instrumentation; {_PARTS} (the verdict takes `together`); "
        "call = start to return, done = start to the completion that the host noticed",
    )  # fmt: skip
    yield Section(
        "throughput", "Throughput of both", summarize_throughput(plain),
        "launches by the time from the first start to the last completion; sequential: the times of both, without the "
        f"start of the second; together is called {APART} if hardly a launch of the high one ran beside the low one",
    )  # fmt: skip
    yield Section(
        "yields", "What the low one did during launches of the high one", summarize_yields(plain),
        _define_stop(plain), nothing="UNKNOWN: no launch of the high one was stamped in rounds of both at once",
    )  # fmt: skip


def _define_stop(stamps: pl.DataFrame) -> str:
    limit = find_limit(stamps)
    told = "unknown: too few completions of it alone" if limit is None else render_ns(limit)
    return (
        f"completions of the low one as its host observed them: bounds, not the GPU's schedule. The limit is {TIMES} "
        f"times the P99 of the low one alone ({told}). stopped = no completion for longer than the limit inside the "
        "launch (a host without CPU time shows the same); went on = no such pause in a longer launch; too short to "
        "tell = the launch is not longer than the limit, or there is none; not at work throughout = the low one began "
        "after the launch or ended before its end"
    )


def _overhead_section(overhead: pl.DataFrame) -> Section:
    return Section(
        "overhead", "What instrumentation costs", overhead,
        f"medians of launch to completion, plain and captured; {_PARTS}. No ratio if a side has too few launches",
        nothing="nothing was captured, or the captured rounds printed no stamps",
    )  # fmt: skip


def _captured_sections(runs: Runs, captured: pl.DataFrame) -> Iterator[Section]:
    captures = {phase: Capture.open(path) for phase, path in runs.captures.items()}
    # Captures of workloads that were not at work at once do not show both together.
    if TOGETHER in captures and is_apart(captured):
        captures[APART] = captures.pop(TOGETHER)
    yield Section(
        "stamps", "Stamps of the workloads and launches of the log", _compare_stamps(captures, captured),
        "of the captured rounds of one workload alone; late = how much later than the log the workload noticed the "
        "completion (negative: HIP looks, and logs, only later); a stamp without a launch is one whose call the log "
        "does not show", nothing=_NOTHING,
    )  # fmt: skip
    yield Section(
        "longest", "The longest kernels of the low one", _list_longest(captures.get("low_alone")),
        "alone, by its capture; percent of the phase from the first kernel's start to the last one's end: a persistent "
        "kernel takes most of it", nothing="UNKNOWN: no capture of the low one alone shows GPU times",
    )  # fmt: skip
    yield Section(
        "slots", "Queue slots and oversubscription", _by_phase(captures, lambda c: summarize_occupancy(c.table)),
        nothing="UNKNOWN: sysfs showed no queues of the KFD",
    )  # fmt: skip
    no_queue = "UNKNOWN: no captured round shows a queue of HIP"
    yield Section(
        "priorities", "Queue priorities of the captured rounds", _by_phase(captures, _priorities),
        nothing=no_queue if captures else "nothing was captured",
    )  # fmt: skip
    yield Section(
        "moves", "Evictions, suspends and resumes", _known_or_once(_by_phase(captures, count_moves)),
        "of the driver; preemption by the firmware alone leaves no event", nothing=_NOTHING,
    )  # fmt: skip
    yield Section(
        "utilisation", "Utilisation", _known_or_once(_by_phase(captures, summarize_load)),
        "polled once a second; ring filled = packets in a ring when one was written, by its size",
        nothing=_NOTHING,
    )  # fmt: skip


def _list_longest(capture: Capture | None) -> pl.DataFrame:
    """Return the kernels of a capture that took longest.

    Returns: kernel, launches (with GPU times), p50_ns, longest_ns, percent (of the time from the first start to the
        last end on the GPU, by the longest launch); the five longest.
    """
    if capture is None:
        return pl.DataFrame()
    names = capture.table("kernels").select("kernel", name=pl.coalesce("display", "name"))
    launches = capture.table("launches").filter(pl.col("kind").cast(pl.String) == "dispatch")
    timed = launches.drop_nulls(["gpu_start_ns", "gpu_end_ns"]).join(names, on="kernel", how="left")
    took = pl.col("gpu_end_ns") - pl.col("gpu_start_ns")
    span = pl.col("gpu_end_ns").max() - pl.col("gpu_start_ns").min()
    found = timed.with_columns(took=took, span=span).group_by(kernel=pl.col("name").fill_null("not named")).agg(
        launches=pl.len().cast(pl.Int64), p50_ns=percentile(pl.col("took"), 50), longest_ns=pl.col("took").max(),
        percent=(100 * pl.col("took").max() / pl.col("span").first()).round(1),
    )  # fmt: skip
    return collect(found.sort("longest_ns", descending=True).head(5))


def _compare_stamps(captures: Mapping[str, Capture], captured: pl.DataFrame) -> pl.DataFrame:
    parts = []
    for phase in ("high_alone", "low_alone"):
        if phase in captures:
            launches = collect(captures[phase].table("launches").select("call_ns", "complete_ns"))
            found = compare_stamps(captured.filter(pl.col("phase") == phase), launches)
            parts.append(found.select(pl.lit(phase).alias("phase"), pl.all()))
    return pl.concat(parts) if parts else pl.DataFrame()


def _by_phase(captures: Mapping[str, Capture], question: Any) -> pl.DataFrame:
    parts = [question(c).select(pl.lit(phase).alias("phase"), pl.all()) for phase, c in captures.items()]
    return pl.concat(parts) if parts else pl.DataFrame()


def _known_or_once(rows: pl.DataFrame) -> pl.DataFrame:
    """Return the rows of phases; what is UNKNOWN in several of them for one reason is one row."""
    if rows.is_empty():
        return rows
    unknown = pl.col("known").str.starts_with("UNKNOWN")
    others = [name for name in rows.columns if name != "phase"]
    once = rows.filter(unknown).group_by(others, maintain_order=True).agg(pl.col("phase").str.join(", "))
    return pl.concat([rows.filter(~unknown), once.select(rows.columns)])


def _priorities(capture: Capture) -> pl.DataFrame:
    return summarize_priorities(capture.table)
