"""Compare what tracecorr finds with what is true: links, bounds of times, identities.

Most runs are SYNTHETIC (scripts/simulator): their truth is known to the nanosecond. With the recorded captures of
the null GPU the packets are compared with those that its model retired.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl
from simulator import Scene, Simulation, simulate

from benchmarks import measure
from benchmarks.recorded_clocks import EVIDENCE, measure_clock
from benchmarks.scenes import list_scenes
from tracecorr.model.errors import TracecorrError
from tracecorr.pipeline import correlate, import_files
from tracecorr.store import Capture

# Rule of tracecorr -> pairs of the simulator.
RULES = {
    "call_nesting": "calls", "command_in_call": "inside", "packet_in_call": "inside", "syscall_in_call": "syscalls",
    "packet_of_command": "commands",
    "copy_of_command": "commands", "doorbell_of_packet": "doorbells", "ioctl_creates_queue": "creations",
    "signal_dependency": "dependencies", "completion_of_packet": "completions", "gpu_time_of_signal": "gpu_times",
    "doorbell_mapping": "mappings", "write_of_record": "writes",
}  # fmt: skip
# Recorded on another clock than CLOCK_MONOTONIC.
_CLOCKS = {"t1-x86-tsc": "x86-tsc", "mt-local": "local", "t1-local-clock": "local", "writes-local": "local"}
_CAPTURES = ("caseA-1stream", "caseB-4streams", "gemm-rocblas-300", "mt-threads", "streams-priority", "t1-local-clock")


@dataclass
class Score:
    """Hold how one run compares with its truth.

    Args:
        name: of the run.
        kind: `complete`, the share of lost lines, or `poor` where the log's level or the clock leave much unknown.
        method: how the trace's clock was mapped.
        links: rule -> found, right, true, and wrong ones called `recorded`.
        covered: events whose true time lies inside their bounds, and all events with bounds.
        unknown: events of the trace without bounds.
        width_ns: median and 99th percentile of the width of the bounds of trace events.
        identities: right, found and true threads, packets and GPU times.
    """

    name: str
    kind: str = "complete"
    method: str = ""
    links: dict[str, tuple[int, int, int, int]] = field(default_factory=dict)
    covered: tuple[int, int] = (0, 0)
    unknown: int = 0
    width_ns: tuple[int, int] = (0, 0)
    identities: dict[str, tuple[int, int, int]] = field(default_factory=dict)
    seconds: float = 0.0


def score_scene(name: str, scene: Scene, folder: Path) -> Score:
    """Simulate a scene, import it and compare the tables with its truth."""
    made = simulate(scene, folder)
    out = folder / "run.tracecorr"
    import_files(out, made.logs, [made.trace], clock=scene.clock.name, clock_samples=made.samples)
    started = time.monotonic()
    correlate(out)
    score = compare(name, made, Capture.open(out))
    score.seconds = time.monotonic() - started
    if scene.log_damage or scene.trace_damage:
        score.kind = scene.log_damage or scene.trace_damage
    elif scene.level < 5 or scene.clock.name == "uptime" or "unaligned" in score.method or scene.same_layout:
        score.kind = "poor"
    return score


def compare(name: str, made: Simulation, capture: Capture) -> Score:
    """Compare the tables of an imported simulation with its truth."""
    events = capture.table("events").select(
        "event", "ts_ns", "dur_ns", "err_lo_ns", "err_hi_ns", "file", "offset", "end_offset", "parent",
        pl.col("layer", "source").cast(pl.String),
    ).collect()  # fmt: skip
    score = Score(name)
    clocks = capture.table("clock_map").select(pl.col("source", "method").cast(pl.String)).collect()
    score.method = ", ".join(clocks.filter(pl.col("source").str.starts_with("ftrace"))["method"].unique().sort())
    _score_times(score, events, made)
    _score_links(score, events, made, capture)
    _score_packets(score, events, made, capture)
    _score_owners(score, events, made, capture)
    _score_threads(score, made, capture)
    _score_gpus(score, events, made, capture)
    return score


def _score_times(score: Score, events: pl.DataFrame, made: Simulation) -> None:
    lines = events.filter(pl.col("layer") != "gpu").join(made.moments.drop("line"), on=["file", "offset"])
    begun = made.truth["gpu"].join(events.select("file", "offset", packet="event"), on=["file", "offset"])
    times = events.filter(pl.col("layer") == "gpu").join(begun.select(parent="packet", true_ns="start_ns"), on="parent")
    both = pl.concat([lines, times.select(lines.columns)])
    known = both.drop_nulls("err_lo_ns")
    low, high = pl.col("ts_ns") - pl.col("err_lo_ns"), pl.col("ts_ns") + pl.col("err_hi_ns")
    # The truth is a fraction of a nanosecond finer than the tables.
    inside = known.filter((pl.col("true_ns") >= low - 1) & (pl.col("true_ns") <= high + 1))
    score.covered = inside.height, known.height
    trace = both.filter(pl.col("source") == "ftrace")
    score.unknown = trace["err_lo_ns"].null_count()
    width = trace.select(
        (pl.col("err_lo_ns").cast(pl.Int64) + pl.col("err_hi_ns").cast(pl.Int64)).alias("w")
    ).drop_nulls()["w"]
    if len(width):
        score.width_ns = int(width.median()), int(width.quantile(0.99) or 0)  # type: ignore[arg-type]


def _score_links(score: Score, events: pl.DataFrame, made: Simulation, capture: Capture) -> None:
    links = (
        capture.table("links").select("from_event", "to_event", pl.col("rule", "evidence").cast(pl.String)).collect()
    )
    places = events.select("event", "file", "offset")
    placed = (
        links.join(places, left_on="from_event", right_on="event")
        .join(places, left_on="to_event", right_on="event", suffix="_to")
        .select("rule", "evidence", from_file="file", from_offset="offset", to_file="file_to", to_offset="offset_to")
    )
    for truth_name in dict.fromkeys(RULES.values()):
        rules = [rule for rule, name in RULES.items() if name == truth_name]
        found = placed.filter(pl.col("rule").is_in(rules))
        truth = made.truth[truth_name]
        if truth_name in ("syscalls", "calls", "inside"):
            truth = truth.select(
                from_file="to_file", from_offset="to_offset", to_file="from_file", to_offset="from_offset"
            )
        truth = truth.unique()
        if truth_name == "inside":
            # A copy is linked to its call by its command.
            copies = events.filter(pl.col("layer") == "copy").select(to_file="file", to_offset="offset")
            truth = truth.join(copies, on=["to_file", "to_offset"], how="anti")
        if truth_name in ("syscalls", "calls"):
            # A call is named by the record of its enter, or by that of its exit where the enter is missing.
            rows = events.select(to_file="file", to_offset="offset")
            truth = truth.join(rows, on=["to_file", "to_offset"], how="semi")
        ends = ["from_file", "from_offset", "to_file", "to_offset"]
        wrong = found.join(truth, on=ends, how="anti")
        if truth_name == "syscalls" and made.scene.log_damage:
            # Where a line of the innermost call is lost, one around it is told, and not wrong.
            wrong = wrong.join(
                made.truth["around"], left_on=ends,
                right_on=["to_file", "to_offset", "from_file", "from_offset"], how="anti",
            )  # fmt: skip
        recorded = wrong.filter(pl.col("evidence") == "recorded").height
        # Found and neither right nor wrong: true of a call around the one meant.
        score.links[" + ".join(rules)] = found.height, found.height - wrong.height, truth.height, recorded


def _score_packets(score: Score, events: pl.DataFrame, made: Simulation, capture: Capture) -> None:
    rings = capture.table("queues").select("queue", ring=pl.coalesce("hwq", "ring_base")).collect()
    launches = capture.table("launches").select(
        "event", "queue", "packet_index", "gpu_start_ns", "gpu_end_ns", kind=pl.col("kind").cast(pl.String)
    ).collect()  # fmt: skip
    launches = launches.filter(pl.col("kind") != "copy").join(rings, on="queue", how="left")
    launches = launches.join(events.select("event", "file", "offset"), on="event")
    truth = made.truth["packets"]
    both = launches.join(truth, on=["file", "offset"], suffix="_true")
    # Without a process no queue is known, but an index may be.
    same = (pl.col("ring") == pl.col("ring_true")).fill_null(value=True)
    right = both.filter(same & (pl.col("packet_index") == pl.col("index")))
    score.identities["packets"] = right.height, both.drop_nulls("packet_index").height, truth.height
    timed = launches.drop_nulls("gpu_start_ns").join(made.truth["gpu"], on=["file", "offset"])
    near = timed.filter(
        ((pl.col("gpu_start_ns") - pl.col("start_ns")).abs() < 5_000)
        & ((pl.col("gpu_end_ns") - pl.col("end_ns")).abs() < 5_000)
    )
    score.identities["gpu times"] = near.height, timed.height, timed.height


def _score_owners(score: Score, events: pl.DataFrame, made: Simulation, capture: Capture) -> None:
    """Compare the Created line of each packet's queue with the true one; queues without one are not counted."""
    places = events.select("event", "file", "offset")
    queues = capture.table("queues").select("queue", line="created_line_event").drop_nulls("line").collect()
    packets = capture.table("launches").select("event", "queue").collect().join(queues, on="queue")
    found = packets.join(places, on="event").join(places, left_on="line", right_on="event", suffix="_made")
    truth = made.truth["owners"].rename(
        {"from_file": "file_made", "from_offset": "offset_made", "to_file": "file", "to_offset": "offset"}
    )
    right = found.join(truth, on=truth.columns, how="semi")
    score.identities["queues of packets"] = right.height, found.height, truth.height


def _score_threads(score: Score, made: Simulation, capture: Capture) -> None:
    threads = capture.table("threads").select("log_tid", "tid").collect().drop_nulls()
    truth = made.truth["threads"].select("log_tid", pl.col("tid").cast(pl.Int32))
    seen = capture.table("threads").select("log_tid").drop_nulls().collect()
    right = threads.join(truth, on=["log_tid", "tid"], how="semi")
    score.identities["threads"] = right.height, threads.height, seen.height


def _score_gpus(score: Score, events: pl.DataFrame, made: Simulation, capture: Capture) -> None:
    """Compare the GPU of queues and of what was submitted to them; only a probe in the driver names it."""
    gpus = capture.table("gpus").select("gpu", "gpu_id").collect()
    queues = capture.table("queues").select("queue", "gpu", event="created_line_event").collect()
    owned = queues.join(gpus, on="gpu", how="left").join(events.select("event", "file", "offset"), on="event")
    truth = owned.join(made.truth["queue_gpus"], on=["file", "offset"], suffix="_true")
    right = truth.filter(pl.col("gpu_id") == pl.col("gpu_id_true"))
    launches = (
        capture.table("launches").select("queue", "gpu").collect().join(truth.select("queue", own="gpu"), on="queue")
    )
    wrong = launches.filter(pl.col("gpu").ne_missing(pl.col("own"))).height
    found = truth.drop_nulls("gpu_id").height
    score.identities["queue GPUs"] = right.height if not wrong else 0, found, made.truth["queue_gpus"].height


def report(scores: list[Score]) -> str:
    """Return the tables of all runs: times, links and identities of each, then one row per rule."""
    times = [(s.name, s.method, _share(*s.covered), s.unknown, *s.width_ns) for s in scores]
    head = ("run", "clock by", "truth inside the bounds", "without bounds", "width p50 ns", "p99 ns")
    links = [
        (s.name, *_count(s), *(f"{right} of {found}" for right, found, _ in s.identities.values()), f"{s.seconds:.2f}")
        for s in scores
    ]
    link_head = (
        "run",
        "links",
        "wrong",
        "wrong recorded",
        "packets right",
        "GPU times right",
        "threads right",
        "GPUs right",
        "s",
    )
    poor = ", ".join(s.name for s in scores if s.kind == "poor")
    note = f"Not among the rules, because level or clock leave too much unknown: {poor or 'none'}."
    tables = [measure.markdown(head, times), measure.markdown(link_head, links), report_rules(scores), note]
    return "\n\n".join(tables)


def _count(score: Score) -> tuple[int, int, int]:
    found, right, recorded = (sum(n[i] for n in score.links.values()) for i in (0, 1, 3))
    return found, found - right, recorded


def report_rules(scores: list[Score]) -> str:
    """Return the table of rules: precision and recall of complete runs, precision where lines are missing."""
    rows = []
    for rule in scores[0].links:
        found, right, true = _sum_rule([s for s in scores if s.kind == "complete"], rule)
        row = [rule, found, _share(right, found), _share(right, true)]
        for kind in ("1%", "10%", "30%"):
            found, right, _ = _sum_rule([s for s in scores if s.kind == kind], rule)
            row.append(_share(right, found))
        for kind in ("1%", "10%", "30%"):
            _, right, true = _sum_rule([s for s in scores if s.kind == kind], rule)
            row.append(_share(right, true))
        rows.append(row)
    head = (
        "rule",
        "links",
        "precision",
        "recall",
        "precision with 1 % of the lines lost",
        "10 %",
        "30 %",
        "recall with 1 %",
        "10 %",
        "30 %",
    )
    return measure.markdown(head, rows)


def _sum_rule(scores: list[Score], rule: str) -> tuple[int, int, int]:
    found, right, true = (sum(s.links[rule][i] for s in scores) for i in range(3))
    return found, right, true


def _share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.3f} %" if whole else "-"


def score_capture(folder: Path, work: Path) -> tuple[object, ...]:
    """Compare a recorded capture with what the null GPU's model retired; return a row of a table."""
    out = work / f"{folder.name}.tracecorr"
    samples = folder / "clock.json"
    import_files(out, [folder / "amd.log"], [folder / "ftrace.txt"], clock_samples=samples)
    correlate(out)
    capture = Capture.open(out)
    rings = capture.table("queues").select("queue", ring=pl.coalesce("hwq", "ring_base"))
    ours = (
        capture.table("launches")
        .join(rings, on="queue", how="left")
        .collect()
        .filter(pl.col("kind").cast(pl.String) != "copy")
    )
    truth = pl.read_csv(folder / "truth.csv").filter(pl.col("type").is_in(["dispatch", "barrier", "vendor"]))
    truth = truth.with_columns(ring=pl.col("queue_ring_base").str.slice(2).str.to_integer(base=16).cast(pl.UInt64))
    both = ours.join(truth, on=["ring", "packet_index"])
    timed = both.drop_nulls("gpu_start_ns")
    equal = timed.filter((pl.col("gpu_end_ns") - pl.col("end_mono_ns")).abs() < 1_000_000)
    stored = ours.drop_nulls("doorbell_event").height
    marks, width = score_pages(folder, work)
    return folder.name, ours.height, both.height, stored, f"{equal.height}/{timed.height}", marks, width


def score_pages(folder: Path, work: Path) -> tuple[str, int]:
    """Compare the times of a capture's binary pages with its clock samples.

    Returns: how many marks lie between the two readings of CLOCK_MONOTONIC around them, of how many; the largest
    width of the bounds of a record, ns.
    """
    out = work / f"{folder.name}-pages.tracecorr"
    import_files(out, [folder / "amd.log"], [folder / "raw"], clock_samples=folder / "clock.json")
    correlate(out)
    capture = Capture.open(out)
    events = capture.table("events").filter(pl.col("source").cast(pl.String) == "ftrace")
    width = pl.col("err_lo_ns").cast(pl.Int64) + pl.col("err_hi_ns").cast(pl.Int64)
    events = events.select("event", "ts_ns", "err_lo_ns", "err_hi_ns", width=width).collect()
    ids = capture.table("args").filter(pl.col("key").cast(pl.String) == "id").select("event", id="u64").collect()
    samples = json.loads((folder / "clock.json").read_text())["samples"]
    read = pl.DataFrame(
        [{k: s[k] for k in ("id", "mono0", "mono1")} for s in samples], schema_overrides={"id": pl.UInt64}
    )
    marks = events.join(ids, on="event").join(read, on="id")
    right = marks.filter(
        (pl.col("ts_ns") + pl.col("err_hi_ns") >= pl.col("mono0"))
        & (pl.col("ts_ns") - pl.col("err_lo_ns").cast(pl.Int64) <= pl.col("mono1"))
    )
    return f"{right.height}/{len(samples)}", int(events["width"].max())  # type: ignore[arg-type]


def report_clocks(captures: Path) -> str:
    """Return the table of recorded clocks: how many rows have the truth, which their marks tell, outside of bounds."""
    rows = []
    for name, clock in _CLOCKS.items():
        for evidence in EVIDENCE:
            with tempfile.TemporaryDirectory() as work:
                score = measure_clock(captures / name, Path(work), evidence, clock)
            rows.append((name, evidence, score.rows, score.outside, score.worst_ns, *score.width_ns))
    head = ("recorded capture", "evidence", "rows", "truth outside", "by ns", "width p50 ns", "widest ns")
    return measure.markdown(head, rows)


def main(arguments: list[str]) -> None:
    """Run the grid and print its tables; fail when a link called recorded is wrong."""
    parser = argparse.ArgumentParser(prog="scripts/bench truth", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="the small grid")
    parser.add_argument("--only", default="", help="runs whose name holds this text")
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("TRACECORR_DATA", "../shared/data")))
    given = parser.parse_args(arguments)
    scores = []
    for name, scene in list_scenes(given.quick):
        if given.only not in name:
            continue
        with tempfile.TemporaryDirectory() as folder:
            try:
                scores.append(score_scene(name, scene, Path(folder)))
            except TracecorrError as error:
                print(f"{name}: {error.what}", file=sys.stderr)
    print("Synthetic runs (scripts/simulator)\n")
    print(report(scores))
    folders = [given.data / "captures" / name for name in _CAPTURES]
    if not given.only and all(f.is_dir() for f in folders):
        with tempfile.TemporaryDirectory() as work:
            rows = [score_capture(f, Path(work)) for f in folders]
        head = (
            "recorded capture",
            "packets",
            "retired with this ring and index",
            "with a recorded doorbell",
            "GPU times right",
            "marks of the pages between their readings",
            "widest bounds in pages, ns",
        )
        print("\nCaptures of the null GPU\n\n" + measure.markdown(head, rows))
        print("\nClocks of recorded traces\n\n" + report_clocks(given.data / "captures"))
    if any(n[3] for s in scores for n in s.links.values()):
        sys.exit("a link called recorded is wrong")
