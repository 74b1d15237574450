"""Lines of the kernel log in a recorded run: on its clock, with the process, GPU and queue that they name.

The lines are made up in the words of the driver; the run is recorded.
"""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from tracecorr.analyze.failures import summarize_kernel_log
from tracecorr.model.kinds import Flag
from tracecorr.pipeline import correlate, import_files
from tracecorr.store import Capture

# printk's clock (local_clock) lies so far behind CLOCK_MONOTONIC, and by so much more each second.
_BEHIND_NS, _DRIFT_NS = 45_200_000, 20_000
_AT_NS, _PID, _RING = 4975200000000, 14446, 0x7000000


def _printk(mono_ns: int, first_ns: int) -> int:
    return mono_ns - _BEHIND_NS - (mono_ns - first_ns) * _DRIFT_NS // 10**9


@pytest.fixture(scope="module")
def capture(data_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Capture:
    """Return a recorded capture with a kernel log, readings of its clock, and two of its lines in the trace."""
    source, tmp = data_folder / "captures" / "streams-priority", tmp_path_factory.mktemp("kernel_log")
    clock = json.loads((source / "clock.json").read_text())
    first = int(clock["samples"][0]["mono1"])
    for sample in clock["samples"]:
        at = int(sample["mono1"])
        sample["printk"] = {"mono0": at, "value": _printk(at, first), "mono1": at + 1000}
    (tmp / "clock.json").write_text(json.dumps(clock))
    lines = [
        f"amdgpu: process pid {_PID} DQM create queue type 0 failed. ret -12",
        f"amdgpu: Freeing queue vital buffer {_RING:#x}, queue evicted",
        "usb 1-1: reset",
        "amdgpu: Runlist is getting oversubscribed. Expect reduced ROCm performance.",
    ]
    stamps = [_printk(_AT_NS + 1_000_000 * number, first) // 1000 for number in range(len(lines))]
    told = zip(stamps, lines, strict=True)
    (tmp / "dmesg").write_text("".join(f"[{s // 10**6:5}.{s % 10**6:06}] {line}\n" for s, line in told))
    trace = (source / "ftrace.txt").read_text().splitlines()
    shown = [
        f"    kworker/0:1-77      (     77) [000] d....  {(_AT_NS + 1_000_000 * n + 30_000) / 1e9:.6f}: console: "
        f"{lines[n]}"
        for n in (0, 3)
    ]
    head = [number for number, line in enumerate(trace) if line.startswith("#")][-1] + 1
    later = next(number for number, line in enumerate(trace[head:], head) if _stamp(line) > _AT_NS / 1e9)
    (tmp / "ftrace.txt").write_text("\n".join([*trace[:later], *shown, *trace[later:], ""]))
    out = tmp / "x.tracecorr"
    import_files(
        out, [source / "amd.log"], [tmp / "ftrace.txt"], clock_samples=tmp / "clock.json", kernel_logs=[tmp / "dmesg"]
    )
    correlate(out)
    return Capture.open(out)


def _stamp(line: str) -> float:
    return float(line.split("]", 1)[1].split(":")[0].split()[-1])


def test_a_line_is_within_its_bounds_of_when_it_was_printed(capture: Capture) -> None:
    events = capture.table("events").filter(pl.col("source") == "kernel_log").sort("ts_ns").collect()
    assert events["name"].to_list() == ["create_queue_failed", "queue_buffer_freed", "runlist_oversubscribed"]
    for at, row in zip((0, 1, 3), events.iter_rows(named=True), strict=True):
        true = _AT_NS + at * 1_000_000
        assert row["ts_ns"] - row["err_lo_ns"] <= true <= row["ts_ns"] + row["err_hi_ns"]
        assert row["err_lo_ns"] + row["err_hi_ns"] < 10_000


def test_a_line_belongs_to_the_process_and_queue_that_it_names(capture: Capture) -> None:
    pids = dict(capture.table("processes").select("process", "pid").collect().iter_rows())
    lines = capture.table("events").filter(pl.col("source") == "kernel_log").sort("ts_ns").collect()
    assert [pids.get(process) for process in lines["process"]] == [_PID, _PID, None]
    ring = capture.table("queues").filter(pl.col("hwq") == _RING).select("queue").collect().item()
    assert lines["queue"].to_list() == [None, ring, None]
    links = capture.table("links").filter(pl.col("rule").cast(pl.String) == "log_of_queue").collect()
    assert links["to_event"].to_list() == [lines["event"][1]]


def test_what_the_trace_shows_too_counts_once(capture: Capture) -> None:
    seen = capture.table("events").filter((pl.col("layer") == "kernel") & (pl.col("source") == "ftrace")).collect()
    assert (seen["flags"] & int(Flag.TWIN) != 0).to_list() == [True, True]
    # A worker of the kernel printed it; it is about nobody's thread.
    assert seen["thread"].null_count() == 2
    rows = summarize_kernel_log(capture.table)
    assert rows.select("name", "lines").rows() == [
        ("create_queue_failed", 1), ("queue_buffer_freed", 1), ("runlist_oversubscribed", 1),
    ]  # fmt: skip
    assert rows["helps"].to_list()[-1] is not None


def test_a_log_of_another_boot_names_nobody(data_folder: Path, tmp_path: Path) -> None:
    source = data_folder / "captures" / "streams-priority"
    (tmp_path / "dmesg").write_text(f"[    1.000000] amdgpu: Failed to suspend process pid {_PID}\n")
    out = tmp_path / "x.tracecorr"
    files = [source / "amd.log"], [source / "ftrace.txt"]
    import_files(out, *files, clock_samples=source / "clock.json", kernel_logs=[tmp_path / "dmesg"])
    warnings = correlate(out)
    line = Capture.open(out).table("events").filter(pl.col("source") == "kernel_log").collect().row(0, named=True)
    assert (line["process"], line["flags"] & int(Flag.UNALIGNED)) == (None, int(Flag.UNALIGNED))
    assert any("kernel_log:printk is UNALIGNED" in warning for warning in warnings)
