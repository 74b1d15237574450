"""Kernels that a profiler timed become the GPU times of their packets; those of another run do not.

The log and the GPU times are those of a RECORDED run; the table of rocprof is SYNTHETIC, made of what the model
retired.
"""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from tracecorr.analyze.kernels import summarize_rocprof
from tracecorr.pipeline import correlate, import_files
from tracecorr.store import Capture

_HEAD = '"Kind","Queue_Id","Process_Id","Thread_Id","Dispatch_Id","Kernel_Name","Start_Timestamp","End_Timestamp"\n'


@pytest.fixture(scope="module")
def recorded(data_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, pl.DataFrame]:
    """Return the folder of a run, and its dispatches: name, log_id, start_mono_ns, end_mono_ns, in order of start."""
    folder = data_folder / "captures" / "streams-priority"
    plain = import_files(tmp_path_factory.mktemp("plain") / "x.tracecorr", [folder / "amd.log"], [])
    correlate(plain.path)
    truth = pl.read_csv(folder / "truth.csv").filter(pl.col("type") == "dispatch")
    truth = truth.with_columns(hwq=pl.col("queue_ring_base").str.slice(2).str.to_integer(base=16).cast(pl.UInt64))
    named = plain.table("launches").filter(pl.col("kind") == "dispatch").join(plain.table("kernels"), on="kernel")
    named = named.join(plain.table("queues").select("queue", "log_id", "hwq"), on="queue")
    columns = ("name", "log_id", "hwq", "packet_index", "grid_x", "grid_y", "grid_z")
    rows = named.select(columns).collect().join(truth, on=["hwq", "packet_index"])
    return folder, rows.sort("start_mono_ns")


def profiled(
    folder: Path, rows: pl.DataFrame, out: Path, pid: int = 14446, *, samples: bool = True
) -> tuple[Capture, list[str]]:
    """Import the run with a table of rocprof made of `rows`, and return the capture and its warnings."""
    table = out.with_suffix(".csv")
    lines = [
        f'"KERNEL_DISPATCH",{r["log_id"]},{pid},{pid},{i},"{r["name"]}",{r["start_mono_ns"]},{r["end_mono_ns"]}\n'
        for i, r in enumerate(rows.iter_rows(named=True))
    ]
    table.write_text(_HEAD + "".join(lines))
    clock = folder / "clock.json" if samples else None
    made = import_files(out, [folder / "amd.log"], [folder / "ftrace.txt"], clock_samples=clock, rocprof=[table])
    return made, correlate(made.path)


def test_user_events_in_the_trace_time_packets_like_a_profile(
    recorded: tuple[Path, pl.DataFrame], tmp_path: Path
) -> None:
    """What rocprofiler writes at the end of a process, after all of it; SYNTHETIC, by generatePerfUserEvents.cpp."""
    folder, rows = recorded
    end, pid = (folder / "ftrace.txt").read_text(), 14446
    head = f"              t1-{pid}   (  {pid}) [001] .....  {{:.6f}}: "
    kernel = (
        "rocprof_kernel_dispatch: dispatch_id={0} correlation_id={0} kernel_id=7 start_ts={1} end_ts={2} agent_id=1 "
        "queue_id={3} grid_x={4} grid_y={5} grid_z={6} wg_x=1 wg_y=1 wg_z=1\n"
    )
    last = float(end.rstrip().splitlines()[-1].split("] ")[1].split()[1].rstrip(":"))
    told = [
        head.format(last + i / 1e6)
        + kernel.format(i, r["start_mono_ns"], r["end_mono_ns"], r["log_id"], r["grid_x"], r["grid_y"], r["grid_z"])
        for i, r in enumerate(rows.iter_rows(named=True), 1)
    ]
    api = f"rocprof_hip_api: kind=2 operation=17 correlation=1 start_ts={rows['start_mono_ns'][0] - 9000}"
    told.append(head.format(last + 1) + f"{api} end_ts={rows['start_mono_ns'][0] - 1000} thread_id={pid}\n")
    (tmp_path / "ftrace.txt").write_text(end.rstrip() + "\n" + "".join(told))
    clock = folder / "clock.json"
    made = import_files(tmp_path / "x.tracecorr", [folder / "amd.log"], [tmp_path / "ftrace.txt"], clock_samples=clock)
    assert correlate(made.path) == []
    found = links(made)
    assert found.height == rows.height == 101
    gpu = made.table("events").filter(pl.col("source") == "rocprof").collect()
    kernels = gpu.filter(pl.col("layer") == "gpu").sort("ts_ns")
    assert kernels["ts_ns"].to_list() == rows["start_mono_ns"].to_list()
    assert kernels["dur_ns"].to_list() == (rows["end_mono_ns"] - rows["start_mono_ns"]).to_list()
    launches = made.table("launches").filter(pl.col("kind") == "dispatch").collect()
    assert launches["gpu_event"].null_count() == 0
    (call,) = gpu.filter(pl.col("layer") == "hip").to_dicts()
    assert (str(call["name"]), call["dur_ns"]) == ("rocprof_hip_api", 8000)
    rules = made.table("links").filter(pl.col("rule") == "rocprof_correlation").collect()
    assert rules["from_event"].to_list() == [call["event"]]


def links(capture: Capture) -> pl.DataFrame:
    """Return the links that rocprof gave."""
    return capture.table("links").filter(pl.col("rule").cast(pl.String) == "rocprof_of_packet").collect()


def test_every_kernel_finds_its_packet(recorded: tuple[Path, pl.DataFrame], tmp_path: Path) -> None:
    folder, rows = recorded
    capture, warnings = profiled(folder, rows, tmp_path / "x.tracecorr")
    assert warnings == []
    assert links(capture).height == rows.height == 101
    queues = capture.table("queues").select("queue", "hwq")
    ours = capture.table("launches").filter(pl.col("kind") == "dispatch").join(queues, on="queue").collect()
    both = ours.join(rows, on=["hwq", "packet_index"])
    assert (both["gpu_start_ns"] - both["start_mono_ns"]).abs().max() < 1000
    assert (both["gpu_end_ns"] - both["gpu_start_ns"] == both["end_mono_ns"] - both["start_mono_ns"]).all()
    calls = summarize_rocprof(capture.table("events"), capture.table("kernels"))
    assert calls.select("domain", "calls").rows() == [("KERNEL_DISPATCH", n) for n in (50, 50, 1)]


def test_another_run_is_told_by_its_process(recorded: tuple[Path, pl.DataFrame], tmp_path: Path) -> None:
    capture, warnings = profiled(*recorded, tmp_path / "x.tracecorr", pid=99)
    assert any("of another run" in w and "99" in w for w in warnings)
    assert links(capture).is_empty()


def test_kernels_in_another_order_are_not_linked(recorded: tuple[Path, pl.DataFrame], tmp_path: Path) -> None:
    folder, rows = recorded
    mixed = rows.with_columns(pl.col("name").reverse())
    capture, warnings = profiled(folder, mixed, tmp_path / "x.tracecorr")
    assert links(capture).height < rows.height
    assert any("are no packets of the log" in w for w in warnings)


def test_a_part_of_a_queue_is_not_linked(recorded: tuple[Path, pl.DataFrame], tmp_path: Path) -> None:
    folder, rows = recorded
    capture, _ = profiled(folder, rows.head(40), tmp_path / "x.tracecorr")
    assert links(capture).is_empty()


def test_without_samples_the_clock_is_not_guessed(recorded: tuple[Path, pl.DataFrame], tmp_path: Path) -> None:
    capture, warnings = profiled(*recorded, tmp_path / "x.tracecorr", samples=False)
    assert any("rocprof:boot is UNALIGNED" in w for w in warnings)
    assert links(capture).height == 101
    packets = capture.table("launches").filter(pl.col("kind") == "dispatch").collect()
    assert packets["gpu_event"].null_count() == 0
    assert packets["gpu_start_ns"].null_count() == packets.height


def test_one_run_in_two_formats_counts_once(recorded: tuple[Path, pl.DataFrame], tmp_path: Path) -> None:
    rows = recorded[1]
    table, other = tmp_path / "kernel_trace.csv", tmp_path / "later.csv"
    lines = [
        f'"KERNEL_DISPATCH",1,7,7,{i},"{r["name"]}",{r["start_mono_ns"]},{r["end_mono_ns"]}\n'
        for i, r in enumerate(rows.iter_rows(named=True))
    ]
    table.write_text(_HEAD + "".join(lines))
    again = tmp_path / "counter_collection.csv"
    again.write_text(_HEAD + "".join(lines[:-3]))
    other.write_text(_HEAD + '"KERNEL_DISPATCH",1,7,7,0,"k",5,9\n' + lines[-1])
    made = import_files(tmp_path / "x.tracecorr", [], [], rocprof=[table, again, other])
    said = [w for w in correlate(made.path) if "count once" in w]
    assert [f"too: {rows.height - 3};" in said[0], "later.csv" in said[1] and "too: 1;" in said[1]] == [True, True]
    kernels = made.table("events").filter(pl.col("layer").cast(pl.String) == "gpu").collect()
    assert kernels.height == rows.height + 1
    ledger = made.table("ledger").filter(pl.col("source").cast(pl.String) == "rocprof").collect()
    assert ledger["bytes"].sum() == sum(path.stat().st_size for path in (table, again, other))
    one = import_files(tmp_path / "y.tracecorr", [], [], rocprof=[table])
    assert not [w for w in correlate(one.path) if "count once" in w]


def test_a_record_that_two_runs_have_by_chance_counts_in_both(tmp_path: Path) -> None:
    """SYNTHETIC: of four kernels of each run one has the same times."""
    tables = [tmp_path / "one.csv", tmp_path / "two.csv"]
    for table, starts in zip(tables, ((5, 20, 30, 40), (5, 120, 130, 140)), strict=True):
        lines = [f'"KERNEL_DISPATCH",1,7,7,{n},"k",{start},{start + 4}\n' for n, start in enumerate(starts)]
        table.write_text(_HEAD + "".join(lines))
    made = import_files(tmp_path / "x.tracecorr", [], [], rocprof=tables)
    assert not [w for w in correlate(made.path) if "count once" in w]
    assert made.table("events").filter(pl.col("layer").cast(pl.String) == "gpu").collect().height == 8


def test_a_statistic_is_said_to_show_nothing(tmp_path: Path) -> None:
    """SYNTHETIC, in the layout of rocprof v1's stats.csv."""
    table = tmp_path / "hip_stats.csv"
    table.write_text('"Name","Calls","TotalDurationNs","AverageNs","Percentage"\n"hipMemcpy",3,100,33,100.0\n')
    made = import_files(tmp_path / "x.tracecorr", [], [], rocprof=[table])
    assert [w for w in correlate(made.path) if "hip_stats.csv is a statistic without times" in w]
