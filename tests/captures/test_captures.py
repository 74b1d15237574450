"""Every recorded capture gives exactly the counts that its README tells, through `query`."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from as_rocm10 import Converter, Write, convert_written
from typer.testing import CliRunner

from tracecorr.analyze.report import summarize_capture
from tracecorr.analyze.report.markdown import render_markdown
from tracecorr.analyze.still_open import find_still_open
from tracecorr.analyze.verdicts import Outcome, judge_capture
from tracecorr.cli import app
from tracecorr.link.writes.place import TRACE_COLUMNS, place_writes
from tracecorr.model import schema
from tracecorr.pipeline import correlate, import_files
from tracecorr.progress import Stages
from tracecorr.sources import list_log_starts, read_others
from tracecorr.store import Capture
from tracecorr.store.capture import make_parts_folder

EXPECTED = json.loads((Path(__file__).parent / "expected.json").read_text())
WITH_TRACE = [name for name, counts in EXPECTED.items() if counts["ioctls"]]

Importer = Callable[..., Capture]


@pytest.fixture
def imported(recorded: Importer) -> Importer:
    """Return a function that imports a recorded capture."""

    def make(name: str, *, pages: bool = False, samples: bool = True) -> Capture:
        capture = recorded(f"captures/{name}", trace="raw" if pages else "ftrace.txt", samples=samples)
        warnings = capture.info["warnings"]
        # Without the readings the marks of the trace are of no use, and that is said.
        bare = name in WITH_TRACE and not samples
        assert [w for w in warnings if "bound the clock from one side only" not in w] == []
        assert len(warnings) == (1 if bare else 0)
        return capture

    return make


def _query(capture: Capture, sql: str) -> list[dict[str, Any]]:
    result = CliRunner().invoke(app, ["query", str(capture.path), sql, "--format", "json"])
    assert result.exit_code == 0, result.output
    rows: list[dict[str, Any]] = json.loads(result.stdout)
    return rows


def _counts(capture: Capture, sql: str) -> dict[str, int]:
    return {row["k"]: row["n"] for row in _query(capture, sql)}


@pytest.mark.parametrize("name", EXPECTED)
def test_a_recorded_capture_gives_its_known_counts(imported: Importer, name: str) -> None:
    capture, expected = imported(name), EXPECTED[name]
    kinds = _counts(capture, "select kind as k, count(*) as n from launches group by kind")
    assert {kind: kinds.get(kind, 0) for kind in expected["launches"]} == expected["launches"]
    hip = _query(capture, "select count(*) as n from events where layer = 'hip' and not starts_with(name, '__')")
    assert hip == [{"n": expected["hip_calls"]}]
    ioctls = _counts(capture, "select name as k, count(*) as n from events where layer = 'ioctl' group by name")
    assert {k: n for k, n in ioctls.items() if k.startswith("AMDKFD")} == expected["ioctls"]
    # `gemm-rocblas-300` ends with hipGetLastError, which prints no return.
    assert find_still_open(capture.table).calls.is_empty()
    doorbells = _query(capture, "select count(*) as n from events where layer = 'doorbell'")
    assert doorbells == [{"n": expected["doorbells"]}]
    queues = _query(
        capture,
        "select count(created_line_event) as lines, count(create_ioctl_event) as ioctls, count(*) as n from queues",
    )
    assert queues == [expected["queues"]]


def test_one_program_has_the_same_queues_in_every_release(imported: Importer) -> None:
    """Up to ROCm 6.1 the line of a creation names no ring; the null stream's queue got no packet there to tell it."""
    sql = "select dispatches, priority_hip, priority_log, ring_evidence from queues order by created_ns"
    found = {name: _query(imported(name), sql) for name in ("hip-5.7.1", "hip-6.4.3", "hip-7.2.4")}
    for name, rows in found.items():
        told = [(r["dispatches"], r["priority_hip"], r["priority_log"]) for r in rows]
        assert told == [(10, 0, 1), (10, 0, 1), (0, None, 1)], name
    evidence = {name: [r["ring_evidence"] for r in rows] for name, rows in found.items()}
    assert evidence.pop("hip-5.7.1") == ["inferred", "inferred", None]
    assert all(of_release == ["recorded"] * 3 for of_release in evidence.values())
    text = render_markdown(summarize_capture("hip-5.7.1", imported("hip-5.7.1").table))
    assert ", 3 queues, " in text and "the created ring is inferred for 2 of them" in text


def test_queues_have_the_priority_that_their_streams_asked_for(imported: Importer) -> None:
    rows = _query(imported("caseB-4streams"), "select priority_hip, priority_log from queues where hwq is not null")
    assert [(r["priority_hip"], r["priority_log"]) for r in rows] == [(-1, 2), (1, 0), (0, 1), (0, 1), (None, 1)]


@pytest.mark.parametrize("name", EXPECTED)
@pytest.mark.parametrize("pages", [False, True])
def test_ledger_accounts_for_every_byte(imported: Importer, name: str, pages: bool) -> None:
    if pages and name not in WITH_TRACE:
        return
    capture = imported(name, pages=pages)
    sums = capture.table("ledger").group_by("file").agg(pl.col("bytes").sum())
    both = capture.table("files").join(sums, on="file").collect()
    assert both["bytes"].to_list() == both["size"].to_list()
    read = [e for e in capture.info["files"] if e["form"] in ("log", "text", "pages")]
    assert len(both) == len(read)
    skipped = capture.table("ledger").filter(pl.col("outcome") != "used").select("reason", "records").collect()
    assert [list(row) for row in skipped.rows()] == EXPECTED[name]["skipped"]


@pytest.mark.parametrize("name", EXPECTED)
def test_packets_equal_the_truth(imported: Importer, data_folder: Path, name: str) -> None:
    """What the null GPU retired is what `launches` names, ring by ring and index by index."""
    capture = imported(name)
    packets = capture.table("launches").filter(pl.col("kind").cast(pl.String) != "copy")
    rings = capture.table("queues").select("queue", ring=pl.coalesce("hwq", "ring_base"))
    ours = packets.join(rings, on="queue", how="left").collect()
    kinds = {"dispatch": "dispatch", "barrier": "barrier_and", "vendor": "barrier_value"}
    truth = pl.read_csv(data_folder / "captures" / name / "truth.csv").filter(pl.col("type").is_in(list(kinds)))
    truth = truth.with_columns(
        ring=pl.col("queue_ring_base").str.slice(2).str.to_integer(base=16).cast(pl.UInt64),
        type=pl.col("type").replace_strict(kinds),
    )
    indexed = ours.drop_nulls("packet_index")
    both = indexed.join(truth, on=["ring", "packet_index"])
    assert both.height == indexed.height
    assert (both["kind"].cast(pl.String) == both["type"]).all()
    # A packet without an index (barriers up to ROCm 6.4, all of 5.7) still counts on its ring.
    shared = truth.join(ours.select("ring").unique(), on="ring", how="semi")
    assert ours.group_by("ring", pl.col("kind").cast(pl.String)).len().sort("ring", "kind").rows() == (
        shared.group_by("ring", kind="type").len().sort("ring", "kind").rows()
    )
    # No completion was observed before the packet had ended.
    ended = both.drop_nulls("complete_ns")
    assert (ended["complete_ns"] + 1000 >= ended["end_mono_ns"]).all()


def test_the_same_dispatches_are_of_the_same_streams_in_every_release(imported: Importer) -> None:
    """Commands name their stream from ROCm 7.0 on; before that the calls do that enqueued them."""
    query = """SELECT s.created_ns, k.name AS kernel, t.evidence FROM launches l JOIN streams s ON l.stream = s.stream
        JOIN kernels k ON l.kernel = k.kernel JOIN stream_queues t ON t.stream = s.stream AND t.queue = l.queue
        WHERE l.kind = 'dispatch' ORDER BY l.packet_ns, l.event"""
    found = {name: _query(imported(name), query) for name in ("hip-5.7.1", "hip-6.4.3", "hip-7.2.4")}
    orders = []
    for name, rows in found.items():
        assert {row["evidence"] for row in rows} == {"recorded" if name == "hip-7.2.4" else "derived"}
        made = sorted({row["created_ns"] for row in rows})
        orders.append([(made.index(row["created_ns"]), row["kernel"]) for row in rows])
    assert orders[0] == orders[1] == orders[2] == [(n % 2, orders[0][0][1]) for n in range(20)]


@pytest.mark.parametrize("name", WITH_TRACE)
@pytest.mark.parametrize("pages", [False, True])
def test_every_packet_has_its_recorded_doorbell(imported: Importer, name: str, pages: bool) -> None:
    capture = imported(name, pages=pages)
    stores = capture.table("events").select(doorbell_event="event", value="packet_index", store_thread="thread")
    packets = capture.table("launches").filter(pl.col("kind").cast(pl.String) != "copy")
    joined = packets.join(stores, on="doorbell_event", how="left").collect()
    # A graph launch stores once for several packets; only mt-threads has one.
    own = pl.col("value") == pl.col("wptr")
    evidence = joined.select(pl.when(own).then(pl.lit("recorded")).otherwise(pl.lit("derived")).alias("e"))["e"]
    assert (joined["doorbell_evidence"].cast(pl.String) == evidence).all()
    assert (joined["thread"] == joined["store_thread"]).all()
    batched = joined.filter(pl.col("value") != pl.col("wptr"))
    assert batched.height == EXPECTED[name]["batched_packets"]
    assert (batched["value"] > batched["wptr"]).all()
    dispatches = joined.filter(pl.col("kind") == "dispatch")
    assert (dispatches["doorbell_ns"] >= dispatches["packet_ns"] - 2000).all()


def test_packets_of_a_graph_launch_name_its_task(imported: Importer) -> None:
    graph = """SELECT l.kind, p.command, c.name AS by, l.complete_ns >= l.packet_ns AS ended FROM launches l
        JOIN events p ON p.event = l.event JOIN events g ON g.event = l.call_event
        LEFT JOIN events c ON c.event = l.command_event AND c.command = p.command
        WHERE g.name = 'hipGraphLaunch' ORDER BY l.event"""
    rows = _query(imported("mt-threads"), graph)
    # Each of four threads launches a graph of three kernels once; its barriers follow their own command.
    assert [(row["kind"], row["by"]) for row in rows] == 4 * [
        *3 * [("dispatch", "Task")], ("barrier_value", "Task"), ("barrier_and", "Marker"),
    ]  # fmt: skip
    # The last task is reported after the marker behind it; two lines of the log hold its pointer: both are its own.
    assert [row["ended"] for row in rows] == 20 * [True]


@pytest.mark.parametrize("name", EXPECTED)
def test_every_command_has_the_end_that_the_log_prints(imported: Importer, data_folder: Path, name: str) -> None:
    """The first `complete` line of its pointer after its packet, if no other command uses the pointer before.

    The line of a barrier is printed after its store: the end may come before it, but after that of the command.
    """
    text = (data_folder / "captures" / name / "amd.log").read_bytes()
    lines = rb" (\d+) us: .*Command (?:\(\w+\) enqueued: (0x[0-9a-f]+)|(0x[0-9a-f]+) complete)"
    found = [(int(at), int(begun or ended, 16), bool(begun)) for at, begun, ended in re.findall(lines, text)]
    query = """SELECT l.kind, l.complete_ns, l.packet_ns, l.enqueue_ns, c.command FROM launches l
        JOIN events c ON c.event = l.command_event"""
    rows = _query(imported(name), query)
    assert rows
    for row in rows:
        # The packets of a graph launch come before their command.
        last_ns = row["enqueue_ns"] if "barrier" in row["kind"] else max(row["packet_ns"], row["enqueue_ns"])
        command, after_us = int(row["command"], 16), last_ns // 1000
        later = [(at, begins) for at, pointer, begins in found if pointer == command and at > after_us]
        at, begins = later[0] if later else (0, True)
        assert row["complete_ns"] == (None if begins else 1000 * at)


@pytest.mark.parametrize("name", WITH_TRACE)
@pytest.mark.parametrize("pages", [False, True])
def test_no_effect_comes_before_its_cause(imported: Importer, name: str, pages: bool) -> None:
    (verdict,) = judge_capture(imported(name, pages=pages).table, names={"causality"})
    assert verdict.outcome == Outcome.PASS, verdict


@pytest.mark.parametrize("name", WITH_TRACE)
def test_log_queues_are_joined_to_their_ioctls(imported: Importer, name: str) -> None:
    capture = imported(name)
    queues = capture.table("queues").drop_nulls("created_line_event").collect()
    assert queues["create_ioctl_event"].null_count() == 0
    assert set(queues["create_evidence"].cast(pl.String)) == {EXPECTED[name]["create_evidence"]}
    times = capture.table("events").select("ts_ns", "dur_ns", "thread", event="event")
    lines = queues.lazy().join(times, left_on="created_line_event", right_on="event")
    both = lines.join(times, left_on="create_ioctl_event", right_on="event", suffix="_ioctl").collect()
    assert (both["ts_ns_ioctl"] + both["dur_ns_ioctl"] <= both["ts_ns"] + 1500).all()
    assert (both["thread"] == both["thread_ioctl"]).all()


def test_local_clock_is_found_from_causal_pairs_alone(imported: Importer) -> None:
    def ftrace_row(capture: Capture) -> dict[str, Any]:
        rows = capture.table("clock_map").filter(pl.col("source").cast(pl.String).str.starts_with("ftrace"))
        return rows.collect().row(0, named=True)

    def bounds(capture: Capture) -> pl.DataFrame:
        events = capture.table("events").filter(pl.col("source").cast(pl.String) == "ftrace")
        low, high = (pl.col(name).cast(pl.Int64) for name in ("err_lo_ns", "err_hi_ns"))
        return events.select("file", "offset", low=pl.col("ts_ns") - low, high=pl.col("ts_ns") + high).collect()

    captures = imported("t1-local-clock"), imported("t1-local-clock", samples=False)
    sampled, paired = map(ftrace_row, captures)
    assert (sampled["method"], paired["method"]) == ("samples", "causal_pairs")
    assert sampled["violated"] == paired["violated"] == 0
    assert sampled["width_ns"] < 5_000
    # No more is known: the straight lines through all 460 pairs grow by -467 to +73 ppm, and differ by 78 us at the
    # first pair (by 23 us at the median row). Narrower bounds would guess the rate.
    assert paired["width_ns"] < 80_000
    both = bounds(captures[0]).join(bounds(captures[1]), on=["file", "offset"], suffix="_paired")
    assert both.height > 1_500
    assert both.select(
        ((pl.col("low") <= pl.col("high_paired")) & (pl.col("low_paired") <= pl.col("high"))).all()
    ).item()
    assert both.select((pl.col("high_paired") - pl.col("low_paired")).median()).item() < 30_000
    distance = sampled["offset_ns"] - paired["offset_ns"]
    assert -paired["lo_ns"] <= distance <= paired["hi_ns"]


def test_two_imports_give_equal_tables(imported: Importer, data_folder: Path, tmp_path: Path) -> None:
    first = imported("streams-priority")
    again = tmp_path / "again.tracecorr"
    source = data_folder / "captures" / "streams-priority"
    import_files(again, [source / "amd.log"], [source / "ftrace.txt"], clock_samples=source / "clock.json")
    correlate(again)
    correlate(again)
    second = Capture.open(again)
    for name in ("events", "launches", "queues", "links", "ledger", "args"):
        assert first.table(name).collect().equals(second.table(name).collect()), name


def _import_changed(
    source: Path, out: Path, change: Callable[[bytes], bytes], **options: Any
) -> tuple[Capture, list[str]]:
    trace = out.with_suffix(".txt")
    trace.write_bytes(change((source / "ftrace.txt").read_bytes()))
    import_files(out, [source / "amd.log"], [trace], **options)
    return Capture.open(out), correlate(out)


def test_lost_stores_leave_packets_unlinked(data_folder: Path, tmp_path: Path) -> None:
    """A packet whose store was lost never takes the store of another packet."""

    def drop(text: bytes) -> bytes:
        lines = text.splitlines(keepends=True)
        stores = [i for i, line in enumerate(lines) if b" doorbell: " in line]
        lost = set(stores[:60])
        return b"".join(line for i, line in enumerate(lines) if i not in lost)

    source = data_folder / "captures" / "streams-priority"
    capture, _ = _import_changed(source, tmp_path / "lost.tracecorr", drop, clock_samples=source / "clock.json")
    packets = capture.table("launches").filter(pl.col("kind").cast(pl.String) != "copy")
    values = capture.table("events").select(doorbell_event="event", value="packet_index")
    joined = packets.join(values, on="doorbell_event", how="left").collect()
    linked = joined.drop_nulls("doorbell_event")
    assert (linked["value"] == linked["wptr"]).all()
    assert linked.height == 235 - 60
    assert joined.filter(pl.col("doorbell_event").is_null())["unlinked_reason"].null_count() == 0


def test_a_local_clock_called_mono_is_not_believed(data_folder: Path, tmp_path: Path) -> None:
    """Without doorbells the marks and the queue creations still contradict it, and nothing is linked by time."""

    def drop(text: bytes) -> bytes:
        return b"".join(line for line in text.splitlines(keepends=True) if b" doorbell: " not in line)

    source = data_folder / "captures" / "t1-local-clock"
    capture, _ = _import_changed(source, tmp_path / "wrong.tracecorr", drop, clock="mono")
    row = capture.table("clock_map").filter(pl.col("source").cast(pl.String) == "ftrace:mono").collect()
    assert row["method"].to_list() != ["same_clock"]
    if row["method"].to_list() == ["unaligned"]:
        assert capture.table("links").filter(pl.col("rule").cast(pl.String) == "syscall_in_call").collect().is_empty()


_OF_PROBES = (b" doorbell: ", b"tracing_mark_write", b" launch", b" queue_create")
_OF_MEMORY = (b"hipMalloc", b"hipFree", b"hipHostMalloc", b"hipMemcpy", b"hipMemset", b"hipModuleLoad", b"hipInit")


@pytest.mark.parametrize("clock", ["mono", "auto"])
def test_a_log_from_which_calls_were_left_out_keeps_its_clock(clock: str, data_folder: Path, tmp_path: Path) -> None:
    """What it shows of a thread's requests lies outside of its calls by any clock: that tells nothing of this one."""
    source, log, trace = data_folder / "captures" / "gemm-rocblas-300", tmp_path / "amd.log", tmp_path / "ftrace.txt"
    for name, left_out in ((log, (*_OF_MEMORY, b"hipGetDevice", b"hipSetDevice")), (trace, _OF_PROBES)):
        lines = (source / name.name).read_bytes().splitlines(keepends=True)
        name.write_bytes(b"".join(line for line in lines if not any(part in line for part in left_out)))
    import_files(tmp_path / "thin.tracecorr", [log], [trace], clock=clock)
    correlate(tmp_path / "thin.tracecorr")
    row = Capture.open(tmp_path / "thin.tracecorr").table("clock_map").collect()
    row = row.filter(pl.col("source").cast(pl.String).str.starts_with("ftrace"))
    assert row["method"].to_list() == ["same_clock" if clock == "mono" else "causal_pairs"]
    # Both sides were recorded on CLOCK_MONOTONIC.
    assert (row["offset_ns"] - row["lo_ns"] <= 0).all()
    assert (row["offset_ns"] + row["hi_ns"] >= 0).all()


@pytest.mark.parametrize(
    ("log", "trace"),
    [("caseA-1stream", "caseB-4streams"), ("kfd-6.12-t1", "mt-threads"), ("t1-local-clock", "streams-priority")],
)
def test_log_and_trace_of_different_runs_share_no_link(log: str, trace: str, data_folder: Path, tmp_path: Path) -> None:
    folder = data_folder / "captures"
    out = tmp_path / "mixed.tracecorr"
    samples = folder / trace / "clock.json"
    import_files(out, [folder / log / "amd.log"], [folder / trace / "ftrace.txt"], clock_samples=samples)
    warnings = correlate(out)
    assert any("no thread of the log was found in the trace" in w for w in warnings)
    capture = Capture.open(out)
    sources = capture.table("events").select("event", pl.col("source").cast(pl.String))
    links = capture.table("links").join(sources, left_on="from_event", right_on="event")
    links = links.join(sources, left_on="to_event", right_on="event", suffix="_to")
    assert links.filter(pl.col("source") != pl.col("source_to")).collect().is_empty()
    assert set(sources.collect()["source"]) == {"amd_log", "ftrace"}


# Of a capture in the form of ROCm 10: the packets' own new fields, which the old form does not print. Not there:
# correlation_id is gone, threads are hashes that the trace's addresses explain, a CU mask is part of its Created line.
# No link rests on the signal that Handler lines named.
NEW_COLUMNS = {"stream_priority", "virtual_pipe"}
# Without recorded writes nothing tells whose the pieces are that two processes cut each other's lines into
# (two-processes).
CONVERTED = ["mt-local", "t1-x86-tsc", "hang-deadlock"]


def _keyed(capture: Capture, name: str) -> pl.DataFrame:
    """Return a table with what its event ids stand for: layer, name and time."""
    events = capture.table("events").select(pl.col("layer", "name", "ts_ns").cast(pl.String)).collect()
    said = events.select(key=pl.concat_str(pl.all(), separator=" "))["key"]
    table = capture.table(name).collect()
    ids = [column for column in table.columns if column == "event" or column.endswith("_event")]
    return table.with_columns(said.gather(table[column]).alias(column) for column in ids)


def _list_links(capture: Capture) -> pl.DataFrame:
    """Return the links but for those of the calls that ROCm 10 no longer prints."""
    links = _keyed(capture, "links").with_columns(pl.col("rule", "evidence").cast(pl.String))
    ends = pl.concat_str("from_event", pl.lit("|"), "to_event")
    return links.filter(~ends.str.contains("hip __hip"))


@pytest.mark.parametrize("name", [*EXPECTED, *CONVERTED])
def test_a_capture_in_the_form_of_rocm_10_gives_the_same(
    recorded: Importer, data_folder: Path, tmp_path: Path, name: str
) -> None:
    source, new = data_folder / "captures" / name, tmp_path / "amd.log"
    new.write_bytes(Converter().convert((source / "amd.log").read_bytes()))
    made = _correlate(source, new, source / "ftrace.txt", tmp_path / "new")
    _check_same(source, recorded(f"captures/{name}"), made)


@pytest.mark.parametrize(
    ("name", "log"),
    [("writes-local", "amd.log"), ("writes-file", "hip.log_18058"), ("writes-two-processes", "amd.log")],
)
def test_recorded_writes_in_the_form_of_rocm_10_give_the_same(
    data_folder: Path, tmp_path: Path, name: str, log: str
) -> None:
    source = data_folder / "captures" / name
    old, trace = source / log, source / "ftrace.txt"
    both = [_correlate(source, old, trace, tmp_path / "old")]
    converted = convert_written(old.read_bytes(), trace.read_bytes(), _list_writes(both[0], old))
    for file, text in zip((old, trace), converted, strict=True):
        (tmp_path / file.name).write_bytes(text)
    both.append(_correlate(source, tmp_path / log, tmp_path / trace.name, tmp_path / "new"))
    assert both[1].table("ledger").filter(pl.col("outcome") == "lost").collect().is_empty()
    _check_same(source, *both, blurred=OF_WRITES)


# Lines that are no longer printed bounded the clock of writes-local by some nanoseconds more; two writes of one length,
# whose order nothing told, have two lengths now (writes-two-processes).
OF_WRITES = (
    pl.lit(None).alias("gap_err_ns"),
    pl.when(pl.col("rule") != "write_of_record").then("evidence").alias("evidence"),
)


def _list_writes(capture: Capture, log: Path) -> list[Write]:
    traces, starts = read_others(capture, make_parts_folder(capture.path), Stages()), list_log_starts(capture, Stages())
    rows, sizes = traces.read_events(TRACE_COLUMNS[1:]).select(TRACE_COLUMNS), {0: log.stat().st_size}
    placed = place_writes(rows, traces.args, schema.LOSSES.empty(), starts, sizes).placed
    return [Write(*row) for row in placed.select("position", "length", "pid", "trace_offset").iter_rows()]


def _correlate(source: Path, log: Path, trace: Path, out: Path) -> Capture:
    clock = source / "clock.json"
    made = import_files(
        out.with_suffix(".tracecorr"), [log], [trace] if trace.exists() else [],
        clock_samples=clock if clock.exists() else None,
    )  # fmt: skip
    correlate(made.path)
    return Capture.open(made.path)


def _check_same(source: Path, *both: Capture, blurred: tuple[pl.Expr, ...] = ()) -> None:
    old, new = (_keyed(capture, "launches").drop(NEW_COLUMNS) for capture in both)
    assert old.equals(new)
    told = both[1].table("launches").select(pl.col("stream_priority").count()).collect().item()
    assert told > 0 or source.name == "hip-5.7.1"
    assert _keyed(both[0], "queues").equals(_keyed(both[1], "queues"))
    links = [_list_links(capture).with_columns(*blurred).sort(pl.all()) for capture in both]
    assert links[0].equals(links[1])
