"""A clock that is wide where nothing was recorded with it: SYNTHETIC maps, and what the verdict on them says."""

from __future__ import annotations

from typing import Any

import pytest
from analyze_tables import Rows
from judging import judge
from synthetic_run import make_run

_WIDE = {"source": "amd_log:mono_raw", "method": "samples", "lo_ns": 0, "hi_ns": 400_000_000, "violated": 0}


def _run(clock: str = "amd_log:mono_raw", **line: Any) -> Rows:
    """Return the run with a line of a log whose clock is wide at some time."""
    rows = make_run()
    rows["clock_map"].append({**_WIDE, "source": clock})
    source = clock.partition(":")[0]
    rows["events"].append({"event": 70, "layer": "other", "source": source, "process": 0, "err_lo_ns": 0, **line})
    return rows


@pytest.mark.parametrize("clock", ["amd_log:mono_raw", "kernel_log:printk"])
def test_lines_of_a_log_from_long_before_the_trace_fail_nothing(clock: str) -> None:
    outcome, reason, _ = judge(_run(clock, ts_ns=-600_000_000_000, err_hi_ns=60_000_000), "clock_aligned")
    assert (outcome, reason.partition(";")[0]) == ("PASS", "3 clocks, the widest error is 900 ns")
    assert f"{clock} only to 400.00 ms at times outside of the trace" in reason


@pytest.mark.parametrize("clock", ["amd_log:mono_raw", "kernel_log:printk"])
def test_a_line_of_a_log_that_is_wide_beside_the_trace_fails(clock: str) -> None:
    outcome, reason, _ = judge(_run(clock, ts_ns=5_000, err_hi_ns=60_000_000), "clock_aligned")
    assert outcome == "FAIL" and reason.startswith(f"the error of {clock} (400.00 ms)")


def test_without_a_trace_a_wide_clock_fails() -> None:
    rows = _run(ts_ns=-600_000_000_000, err_hi_ns=60_000_000)
    rows["clock_map"] = [row for row in rows["clock_map"] if not row["source"].startswith("ftrace")]
    rows["events"] = [row for row in rows["events"] if row["source"] == "amd_log"]
    assert judge(rows, "clock_aligned")[0] == "FAIL"
