"""The kernel's log around a run: saved as it comes, its clock read beside ours; lines are written to this machine's."""

from __future__ import annotations

import os
import time
from pathlib import Path

import polars as pl
import pytest
from own_captures import Capture, unchanged

from tracecorr.api import open_capture
from tracecorr.capture.folder import RecordingFolder
from tracecorr.capture.kernel_log import KernelLog, read_printk_clock
from tracecorr.capture.tracefs.control import Tracefs
from tracecorr.capture.workload.invoker import Invoker

ME = Invoker(os.geteuid(), os.getegid(), (), "me", {})
KMSG = Path("/dev/kmsg")
HEAD = """Sched Debug Version: v0.11, 6.12.118+deb13-amd64 #1
ktime                                   : {ktime}
sched_clk                               : 75488.856575
cpu_clk                                 : 75488.856575
jiffies                                 : 4313745784
"""  # its form: kernel/sched/debug.c, Linux 6.12

needs_log = pytest.mark.skipif(not os.access(KMSG, os.R_OK | os.W_OK), reason="/dev/kmsg needs root")


def _print(text: str) -> None:
    KMSG.write_text(f"<3>{text}\n")


def _saved(folder: RecordingFolder) -> str:
    path = folder.path / "raw/kernel_log/kmsg.txt"
    return path.read_text() if path.exists() else ""


@needs_log
def test_records_before_and_during_a_run_are_saved_once(tmp_path: Path) -> None:
    folder = RecordingFolder.create(tmp_path / "x.tracecorr", ME)
    log, mark = KernelLog(folder), f"tracecorr test {os.getpid()} {time.monotonic_ns()}"
    _print(f"{mark} before")
    log.start()
    _print(f"{mark} during")
    log.tick()
    _print(f"{mark} at the end")
    log.stop()
    _print(f"{mark} after")
    log.stop()
    texts = [line.partition(f"{mark} ")[2] for line in _saved(folder).splitlines() if mark in line]
    assert texts == ["before", "during", "at the end"]
    assert (log.absent, log.problems) == ((), [])
    folder.close()


@needs_log
def test_what_is_older_than_a_minute_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tracecorr.capture.kernel_log._BEFORE_US", -3_600_000_000)
    folder = RecordingFolder.create(tmp_path / "x.tracecorr", ME)
    log = KernelLog(folder)
    _print("tracecorr test of an old record")
    log.start()
    log.stop()
    assert _saved(folder) == ""
    folder.close()


def test_a_log_that_cannot_be_read_is_absent(tmp_path: Path) -> None:
    folder = RecordingFolder.create(tmp_path / "x.tracecorr", ME)
    log = KernelLog(folder, tmp_path / "none")
    log.start()
    log.tick()
    log.stop()
    assert [(a.what, a.why) for a in log.absent] == [
        ("the kernel's log", f"cannot read {tmp_path}/none: No such file or directory")
    ]
    folder.close()


def test_the_clock_of_printk_is_believed_only_between_our_own_readings(tmp_path: Path) -> None:
    """The head has CLOCK_MONOTONIC too: of another machine, or a namespace of its own, it is not ours."""
    path = tmp_path / "debug"
    assert read_printk_clock(path) is None
    path.write_text(HEAD.format(ktime="75515.784233"))
    assert read_printk_clock(path) is None
    path.write_text("ktime : no number\n")
    assert read_printk_clock(path) is None


def test_the_clock_of_printk_lies_between_two_readings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, now = tmp_path / "debug", iter([75_515_784_000, 75_515_785_000])
    path.write_text(HEAD.format(ktime="75515.784233"))
    monkeypatch.setattr(time, "monotonic_ns", lambda: next(now))
    assert read_printk_clock(path) == {"mono0": 75_515_784_233, "value": 75_488_856_575, "mono1": 75_515_785_000}


@needs_log
def test_a_line_of_the_driver_during_a_run_is_an_event(tracefs: Tracefs, tmp_path: Path) -> None:
    """A line that a program writes is none of the kernel in its log; the trace does not tell who wrote it."""
    text = "amdgpu 0000:c5:00.0: amdgpu: Runlist is getting oversubscribed. Expect reduced ROCm performance."
    with unchanged(tracefs):
        before = time.monotonic_ns()
        capture = Capture(tmp_path, "--event-set", "minimal", "--", "sh", "-c", f"echo '<4>{text}' > /dev/kmsg")
        assert capture.end()[0] == 0
        after = time.monotonic_ns()
    opened = open_capture(capture.shown)
    lines = opened.events.filter(pl.col("layer") == "kernel").collect()
    assert lines.select("name", "source").rows() == [("runlist_oversubscribed", "ftrace")]
    assert before < lines["ts_ns"][0] < after
    ledger = opened.table("ledger").filter(pl.col("source") == "kernel_log").collect()
    assert ledger.filter(pl.col("reason") == "not_of_the_kernel")["records"].sum() >= 1
