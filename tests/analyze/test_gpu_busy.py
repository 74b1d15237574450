"""How busy a GPU was: never more than its known packets show, and no idle time where some are unknown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest
from analyze_tables import Rows, tables_of
from synthetic_run import make_run

from tracecorr.analyze.evidence import Evidence
from tracecorr.analyze.gpu import GpuTimes, measure_gpu_times
from tracecorr.analyze.report import summarize_capture
from tracecorr.analyze.report.questions import describe_busy
from tracecorr.pipeline import correlate, import_files
from tracecorr.store import Capture

_PROFILE = '"Kind","Queue_Id","Process_Id","Thread_Id","Dispatch_Id","Kernel_Name","Start_Timestamp","End_Timestamp"\n'
# The kernels of the recorded run, in the order of their first start.
_ARGUMENTS = "(float const*, float const*, float*, int)"
_NAMES = ("__amd_rocclr_fillBufferAligned", f"vadd{_ARGUMENTS}", f"gemm16{_ARGUMENTS}")


def _run() -> Rows:
    """Return the SYNTHETIC run, its two kernels timed: 100 ns each, 800 ns apart; the second waits for its call."""
    run = make_run()
    for packet, start in zip(run["launches"], (5_500, 6_500), strict=False):
        packet |= {"gpu_event": 50 + start, "gpu_start_ns": start, "gpu_end_ns": start + 200}
        run["events"].append({
            "event": 50 + start, "ts_ns": start, "dur_ns": 200, "layer": "gpu", "name": "gpu_time", "err_lo_ns": 30,
            "err_hi_ns": 20,
        })  # fmt: skip
    return run


def _measure(run: Rows) -> GpuTimes:
    return measure_gpu_times(tables_of(run))


def _kernels(run: Rows) -> dict[str, Any]:
    return _measure(run).gpus.filter(work="kernels").row(0, named=True)


def test_busy_and_idle_of_a_gpu_all_of_whose_kernels_are_timed() -> None:
    row = _kernels(_run())
    assert row == {
        "work": "kernels", "gpu": 0, "agent": None, "packets": 2, "timed": 2, "figures": "exact", "queues": 1,
        "from_ns": 5_500, "to_ns": 6_700, "span_ns": 1_200, "busy_ns": 400, "share": 33.3, "overlap_ns": 0, "gaps": 1,
        "idle_ns": 800, "idle_p50_ns": 800, "idle_max_ns": 800, "unsubmitted_ns": 700, "in_ring_ns": 95, "error_ns": 30,
    }  # fmt: skip


def test_a_gap_tells_what_the_host_did_until_it_submitted() -> None:
    gap = _measure(_run()).gaps.row(0, named=True)
    assert gap == {
        "gpu": 0, "agent": None, "from_ns": 5_700, "idle_ns": 800, "event": 24, "kernel": "gemm", "queue": 0,
        "call": "hipLaunchKernel", "unsubmitted_ns": 700, "in_ring_ns": 95, "host_call": "hipLaunchKernel",
        "in_it_ns": 400, "outside_ns": 100, "error_ns": 1_030,
    }  # fmt: skip
    run = _run()
    run["events"].append({"event": 22, "ts_ns": 5_950, "layer": "hip", "name": "hipFree", "source": "amd_log",
                          "thread": 0, "chain": 22, "flags": 1})  # fmt: skip
    assert _measure(run).gaps["outside_ns"].to_list() == [None]


def test_without_all_packets_busy_is_a_lower_bound_and_idle_is_not_told() -> None:
    untimed, lossy, mixed = _run(), _run(), _run()
    untimed["launches"].append({"event": 30, "kind": "dispatch", "gpu": 0, "queue": 0})
    lossy["losses"] = [{"source": "amd_log", "count": 1}]
    mixed["launches"].append({"event": 30, "kind": "dispatch", "gpu_start_ns": 1, "gpu_end_ns": 2})
    for run, packets in ((untimed, 3), (lossy, 2), (mixed, 2)):
        row = _kernels(run)
        assert (row["packets"], row["timed"], row["figures"], row["busy_ns"]) == (packets, 2, "at least", 400)
        assert {row[c] for c in ("gaps", "idle_ns", "idle_p50_ns", "idle_max_ns", "unsubmitted_ns")} == {None}
        assert _measure(run).gaps.is_empty()
        told = describe_busy(Evidence(tables_of(run)))[0]
        assert "busy at least 400 ns of 1.20 us (at least 33.3 %); when it was idle is unknown" in told[0]
        assert not [line for line in told if "idle 1 time" in line]


def test_a_barrier_is_no_work(data_folder: Path, tmp_path: Path) -> None:
    """RECORDED: the log tells the GPU times of all of its barriers with a value, and of no kernel."""
    capture = import_files(tmp_path / "x.tracecorr", [data_folder / "captures/t1-local-clock/amd.log"], [])
    correlate(capture.path)
    assert capture.table("launches").filter(pl.col("gpu_start_ns").is_not_null()).collect().height == 100
    times = measure_gpu_times(capture.table)
    assert times.gpus.select("work", "packets", "timed", "figures", "busy_ns").rows() == [
        ("kernels", 101, 0, None, None), ("copies", 3, 0, None, None),
    ]  # fmt: skip
    assert times.gaps.is_empty()
    report = summarize_capture("x", capture.table).as_dict()
    answers = [answer["answer"] for answer in report["answers"]]
    assert ["GPU not known: none of 101 kernels has GPU times: how busy it was is unknown"] in answers
    assert "no kernel has GPU times" in report["sections"]["gpu_busy"]["missing"]


@pytest.fixture(scope="module")
def truth(data_folder: Path) -> pl.DataFrame:
    """Return what the model of a RECORDED run retired of its own three queues, in order of start."""
    rows = pl.read_csv(data_folder / "captures" / "streams-priority" / "truth.csv").filter(pl.col("type") == "dispatch")
    return rows.sort("start_mono_ns")


@pytest.fixture(scope="module")
def profile(truth: pl.DataFrame, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return that as a kernel table of rocprof (SYNTHETIC in its layout); its ids are those of the log."""
    columns = ("queue_ring_base", "kernel_object", "start_mono_ns", "end_mono_ns")
    rings, codes = (truth[column].unique(maintain_order=True).to_list() for column in columns[:2])
    lines = [
        f'"KERNEL_DISPATCH",{1 + rings.index(ring)},14446,14446,{n},"{_NAMES[codes.index(code)]}",{start},{end}\n'
        for n, (ring, code, start, end) in enumerate(truth.select(columns).iter_rows())
    ]
    path = tmp_path_factory.mktemp("profile") / "kernel_trace.csv"
    path.write_text(_PROFILE + "".join(lines))
    return path


def test_the_gpus_of_a_profile_are_told_apart(tmp_path: Path) -> None:
    """SYNTHETIC: two GPUs of which one begins when the other one ends are each idle half the time."""
    lines = [f'"KERNEL_DISPATCH","Agent {4 + n % 2}",1,{10 * n},{10 * n + 10},"k"' for n in range(6)]
    table = tmp_path / "kernel_trace.csv"
    table.write_text(
        "\n".join(['"Kind","Agent_Id","Queue_Id","Start_Timestamp","End_Timestamp","Kernel_Name"', *lines, ""])
    )
    capture = import_files(tmp_path / "x.tracecorr", [], [], rocprof=[table])
    correlate(capture.path)
    times = measure_gpu_times(capture.table)
    shown = times.gpus.select("agent", "timed", "busy_ns", "idle_ns", "gaps").rows()
    assert shown == [("Agent 4", 3, 30, 20, 2), ("Agent 5", 3, 30, 20, 2)]
    assert times.gaps["agent"].to_list() == ["Agent 4", "Agent 4", "Agent 5", "Agent 5"]
    assert [line.partition(": ")[0] for line in describe_busy(Evidence(capture.table))[0]] == [
        "Agent 4", "Agent 4", "Agent 4", "Agent 5", "Agent 5", "Agent 5",
    ]  # fmt: skip


def test_a_profile_with_calls_tells_what_the_host_did(tmp_path: Path) -> None:
    """SYNTHETIC: the second kernel is submitted 100 ns after the first one ended, 80 of them in a wait."""
    kernels, calls = tmp_path / "kernel_trace.csv", tmp_path / "hip_api_trace.csv"
    kernels.write_text(
        '"Kind","Agent_Id","Queue_Id","Kernel_Name","Correlation_Id","Start_Timestamp","End_Timestamp"\n'
        '"KERNEL_DISPATCH","Agent 4",1,"k",1,100,200\n"KERNEL_DISPATCH","Agent 4",1,"k",3,400,500\n'
    )
    calls.write_text(
        '"Domain","Function","Process_Id","Thread_Id","Correlation_Id","Start_Timestamp","End_Timestamp"\n'
        '"HIP_RUNTIME_API","hipLaunchKernel",9,7,1,50,60\n"HIP_RUNTIME_API","hipDeviceSynchronize",9,7,2,190,280\n'
        '"HIP_RUNTIME_API","hipFree",9,8,4,201,299\n"HIP_RUNTIME_API","hipLaunchKernel",9,7,3,300,320\n'
    )
    capture = import_files(tmp_path / "x.tracecorr", [], [], rocprof=[kernels, calls])
    correlate(capture.path)
    times = measure_gpu_times(capture.table)
    gap = times.gaps.drop("event").row(0, named=True)
    assert gap == {
        "gpu": None, "agent": "Agent 4", "from_ns": 200, "idle_ns": 200, "kernel": "k", "queue": 1,
        "call": "hipLaunchKernel", "unsubmitted_ns": 100, "in_ring_ns": None, "host_call": "hipDeviceSynchronize",
        "in_it_ns": 80, "outside_ns": 20, "error_ns": 0,
    }  # fmt: skip
    assert times.gpus.select("unsubmitted_ns", "in_ring_ns").rows() == [(100, None)]


def _list_gaps(truth: pl.DataFrame) -> list[int]:
    spans = truth.select("start_mono_ns", "end_mono_ns").rows()
    ends = [max(end for _, end in spans[:n]) for n in range(1, len(spans))]
    return [start - until for (start, _), until in zip(spans[1:], ends, strict=True) if start > until]


def _expect(truth: pl.DataFrame) -> dict[str, int]:
    """Return busy and idle time by walking along the kernels of the model one by one."""
    busy, gaps, until = 0, _list_gaps(truth), 0
    for start, end in truth.select("start_mono_ns", "end_mono_ns").iter_rows():
        busy += max(0, end - max(start, until))
        until = max(until, end)
    return {"busy_ns": busy, "gaps": len(gaps), "idle_ns": sum(gaps), "idle_max_ns": max(gaps),
            "from_ns": truth["start_mono_ns"][0], "to_ns": until}  # fmt: skip


def _check(capture: Capture, truth: pl.DataFrame, figures: str) -> GpuTimes:
    correlate(capture.path)
    times = measure_gpu_times(capture.table)
    row = times.gpus.filter(work="kernels").row(0, named=True)
    expected = _expect(truth)
    assert {name: row[name] for name in expected} == expected
    assert (row["timed"], row["figures"], row["queues"], row["overlap_ns"]) == (101, figures, 3, 0)
    assert row["busy_ns"] + row["idle_ns"] == row["span_ns"]
    assert times.gaps["idle_ns"].to_list() == sorted(_list_gaps(truth), reverse=True)[:10]
    return times


def test_a_profile_alone_is_measured_and_says_that_it_may_not_be_all(
    truth: pl.DataFrame, profile: Path, tmp_path: Path
) -> None:
    times = _check(import_files(tmp_path / "x.tracecorr", [], [], rocprof=[profile]), truth, "of the profile")
    row = times.gpus.row(0, named=True)
    assert (row["packets"], row["unsubmitted_ns"], row["in_ring_ns"], row["error_ns"]) == (None, None, None, None)
    assert times.queues.select("queue", "timed").rows() == [(1, 35), (2, 34), (3, 32)]
