"""Prints of the top tracing buffer are copied, put on the common clock, and nothing of that buffer changes.

A write to the top `trace_marker` stands for a trace_printk of the driver: both are prints of the same buffer.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest
from machine_state import read_state

from tracecorr import open_capture
from tracecorr.capture.folder import RecordingFolder
from tracecorr.capture.plan.plan import InstancePlan, Plan
from tracecorr.capture.recorder import KernelRecorder
from tracecorr.capture.tracefs.control import Tracefs
from tracecorr.capture.tracefs.drain import TopBuffer, read_stats, read_top_clock
from tracecorr.capture.tracefs.journal import Journal, new_token
from tracecorr.capture.workload.invoker import find_invoker
from tracecorr.pipeline import correlate
from tracecorr.store.recording import list_raw_files

PRINT = "[KFD-TRACE] CREATE_QUEUE_SUCCESS: pid=4711 queue_id=3 doorbell_offset=4098"


@pytest.fixture
def top(tracefs: Tracefs) -> Iterator[Tracefs]:
    """Return the tracing folder with a top buffer that nobody uses, and leave it empty and as large as it was."""
    size = tracefs.read("buffer_size_kb").partition(" ")[0].strip()
    if any(int(c["entries"]) for c in read_stats(tracefs.root).values()):
        pytest.skip("somebody uses the top tracing buffer")
    yield tracefs
    (tracefs.root / "trace").write_text("\n")
    tracefs.write("buffer_size_kb", size)


def _print(top: Tracefs, text: str) -> tuple[int, int]:
    """Print into the top buffer; return the times before and after, CLOCK_MONOTONIC."""
    before = time.monotonic_ns()
    with contextlib.suppress(BlockingIOError):
        (top.root / "trace_marker").write_text(text)
    return before, time.monotonic_ns()


def test_prints_reach_the_tables_on_the_common_clock(top: Tracefs, tmp_path: Path) -> None:
    _print(top, "before the recording")
    before = read_state(top)
    folder = RecordingFolder.create(tmp_path / "x.tracecorr", find_invoker({"PATH": "/bin"}))
    token = new_token()
    plan = Plan((InstancePlan("gpu", "mono", False, 256),), (), (), copy_top_buffer=True)
    recorder = KernelRecorder.arm(plan, top, Journal.create(token), token, folder)
    time.sleep(0.002)
    recorder.start()
    assert recorder.plan.copy_top_buffer
    times = [_print(top, f"{PRINT} n={n}\nsecond line" if n == 1 else f"{PRINT} n={n}") for n in range(3)]
    recorder.stop()
    _print(top, "after the recording")
    assert recorder.disarm() == []
    assert (recorder.problems, recorder.losses) == ([], [])
    assert sum(int(c["entries"]) for c in read_stats(top.root).values()) == 5, "the copy consumed records"
    after = read_state(top)
    assert {k: v for k, v in after.items() if v != before[k]} == {}
    folder.write_info({"state": "complete", "ftrace_clock": "auto", "files": list_raw_files(folder.path)})
    folder.close()
    correlate(tmp_path / "x.tracecorr")
    capture = open_capture(tmp_path / "x.tracecorr")
    prints = capture.table("events").filter(pl.col("source").cast(pl.String) == "trace_printk").collect()
    assert prints.height == 3
    bounds = prints.select("ts_ns", "err_lo_ns", "err_hi_ns").iter_rows()
    for (before_ns, after_ns), (ts, low, high) in zip(times, bounds, strict=True):
        assert ts - low <= after_ns
        assert ts + high >= before_ns
    assert prints["err_lo_ns"].max() < 5_000_000
    (known,) = (
        capture.table("clock_map")
        .filter(pl.col("source").cast(pl.String).str.starts_with("trace_"))
        .collect()["method"]
    )
    assert known == ("same_clock" if read_top_clock(top.root) == "mono" else "samples")
    ledger = capture.table("ledger").filter(pl.col("source").cast(pl.String) == "trace_printk").collect()
    (size,) = capture.table("files").filter(pl.col("source").cast(pl.String) == "trace_printk").collect()["size"]
    assert ledger["bytes"].sum() == size


def test_copies_neither_repeat_nor_miss(top: Tracefs, tmp_path: Path) -> None:
    copy = TopBuffer(top.root, (tmp_path / "out").open("wb", buffering=0))
    copy.start()
    for number in range(60):
        _print(top, f"print {number}")
        copy._next_look = 0.0
        if number % 3 == 0:
            copy.tick()
    copy.stop()
    lines = (tmp_path / "out").read_text().splitlines()
    assert [line.rpartition(" ")[2] for line in lines] == [str(n) for n in range(60)]


def _synthetic(root: Path, text: str, *, now: str = "100.000000", overrun: int = 0) -> Path:
    (root / "per_cpu/cpu0").mkdir(parents=True, exist_ok=True)
    stats = f"entries: 1\noverrun: {overrun}\ncommit overrun: 0\nbytes: 99\nnow ts: {now}\nread events: 0\n"
    (root / "per_cpu/cpu0/stats").write_text(stats)
    (root / "trace_clock").write_text("local [global] mono\n")
    (root / "available_events").write_text("sched:sched_switch\n")
    (root / "trace").write_text(text)
    return root


def test_traces_of_others_are_left_out(tmp_path: Path) -> None:
    """Synthetic: somebody else traces scheduler events and functions into the top buffer."""
    head = "     kworker/0:1-12      [000] ..... "
    text = (
        "# tracer: nop\n"
        f"{head}99.999999: kfd_create: too early\n"
        f"{head}100.000001: sched_switch: prev_comm=x\n second line of it\n"
        f"{head}100.000002: kfd_create_queue: [KFD-TRACE] one\n and its second line\n"
        f"{head}100.000003: kfd_ioctl <-__x64_sys_ioctl\n"
        "CPU:0 [LOST 5 EVENTS]\n"
    )
    root = _synthetic(tmp_path / "tracing", text)
    copy = TopBuffer(root, (tmp_path / "out").open("wb", buffering=0))
    copy.start()
    _synthetic(root, text, now="101.000000", overrun=7)
    copy.stop()
    assert (tmp_path / "out").read_text() == (
        f"{head}100.000002: kfd_create_queue: [KFD-TRACE] one\n and its second line\n"
    )
    (loss,) = copy.losses
    assert (loss["records"], loss["source"]) == (7, "trace_printk")
    assert copy.clock_content()["top_buffer"]["clock"] == "global"
    json.dumps(copy.clock_content())


def test_a_clock_that_shows_no_time_is_told(tmp_path: Path) -> None:
    root = _synthetic(tmp_path / "tracing", "", now="12345")
    copy = TopBuffer(root, (tmp_path / "out").open("wb", buffering=0))
    copy.start()
    copy.stop()
    assert "does not show the time" in copy.problems[0]
