"""The first lines of a report: what is said of a SYNTHETIC summary, number by number."""

from __future__ import annotations

from typing import Any

import pytest

from tracecorr.analyze.report.answers import Report
from tracecorr.analyze.report.markdown import describe_summary, render_markdown

_SUMMARY: dict[str, Any] = {
    "sources": ["amd_log", "ftrace"], "hip_calls": 7, "hip_internal": 0, "ioctls": 3, "drm_jobs": 0, "queues": 2,
    "queues_doubled": 0, "streams": 1, "packets_and_copies": 6, "dispatches": 4, "kernels": 2, "kernels_named": 2,
    "launches_named": 0,
    "packets": 5, "doorbells_recorded": 3, "doorbells_inferred": 2, "doorbell_stores": 3, "rocprof": None,
    "clocks": 2, "unaligned": [], "time_error_ns": 1_000, "time_error_p50_ns": 1_000, "time_error_unknown": 0,
    "widest_clock": "ftrace:local", "losses_untold": 0, "losses_at_least": 0, "records_lost": 0,
    "trace_losses": 0, "trace_covers": [], "killed": False, "profiled": (0, 0),
}  # fmt: skip
_LOG, _TRACE = {"sources": ["amd_log"]}, {"sources": ["ftrace"]}
_NO_PACKET = {"packets": 0, "dispatches": 0, "packets_and_copies": 0}


def _report(changed: dict[str, Any], run: tuple[str, ...] = ()) -> Report:
    return Report("x", _SUMMARY | changed, (), (), (), run)


def test_a_summary_of_both_sources() -> None:
    assert list(describe_summary(_report({}))) == [
        "sources: amd_log, ftrace",
        "7 HIP calls, 3 ioctls, 2 queues, 1 stream",
        "4 dispatches of 2 kernels; 6 packets and copies",
        "doorbells: 3 recorded, 2 inferred",
        "clocks: aligned; the start of every event is known to 1.00 us",
        "records lost: 0",
    ]


@pytest.mark.parametrize(
    ("changed", "line"),
    [
        ({"sources": []}, "sources: none"),
        ({"hip_internal": 2}, "7 HIP calls (and 2 internal functions), 3 ioctls, 2 queues, 1 stream"),
        (_TRACE, "HIP calls not recorded, 3 ioctls, 2 queues, streams not recorded"),
        (_LOG | {"ioctls": 0}, "7 HIP calls, ioctls not recorded, 2 queues, 1 stream"),
        ({"ioctls": 0, "queues": 0}, "7 HIP calls, no ioctl in the trace, no queue known, 1 stream"),
        ({"ioctls": 0, "trace_losses": 1},
         "7 HIP calls, no ioctl in the readable part of the trace, 2 queues, 1 stream"),
        ({"ioctls": 1, "drm_jobs": 5}, "7 HIP calls, 1 ioctl, 5 DRM jobs, 2 queues, 1 stream"),
        ({"queues": 5, "queues_doubled": 2}, "7 HIP calls, 3 ioctls, 3 to 5 queues, 1 stream"),
        ({"kernels": 0}, "4 dispatches of unknown kernels; 6 packets and copies"),
        ({"dispatches": 1, "kernels": 1, "packets_and_copies": 1}, "1 dispatch of 1 kernel; 1 packet or copy"),
        ({"dispatches": 0}, "no dispatch (2 kernels are named); 6 packets and copies"),
        ({"dispatches": 0, "kernels_named": 1}, "no dispatch (1 kernel is named); 6 packets and copies"),
        (_NO_PACKET | {"launches_named": 33},
         "no dispatch (2 kernels are named), but 33 lines of launches: AMD_LOG_LEVEL was too low to print packets; "
         "0 packets and copies"),
        (_NO_PACKET | {"kernels_named": 0},
         "no dispatch: none was submitted, or AMD_LOG_LEVEL was too low to print them; 0 packets and copies"),
        (_NO_PACKET, "doorbells: 3 stores recorded, of unknown packets: no packet is in the log"),
        (_NO_PACKET | {"doorbell_stores": 0}, "doorbells: none known: no packet is in the log"),
        (_TRACE | _NO_PACKET, "doorbells: 3 stores recorded, of unknown packets: there is no HIP log"),
        ({"doorbell_stores": 2}, "doorbells: 3 recorded (by 2 stores), 2 inferred"),
        ({"rocprof": {"OTHER": 2, "KERNEL_DISPATCH": 1, "HIP_API": 3}},
         "rocprof: 1 kernel dispatch, 3 HIP calls, 2 other rows"),
        ({"rocprof": {}}, "rocprof: no row with times (sums are not events); see Used, skipped and lost bytes"),
        ({"clocks": 1}, "clocks: only one, nothing to align; the start of every event is known to 1.00 us"),
        ({"clocks": 1, "unaligned": ["ftrace:uptime"]},
         "clocks: only one, nothing to align; times are those of this clock, not of CLOCK_MONOTONIC"),
        ({"unaligned": ["ftrace:local", "amd_log:raw"]},
         "clocks: UNALIGNED: ftrace:local, amd_log:raw; none of its events is linked by time"),
        ({"time_error_ns": None}, "clocks: no event has a time"),
        ({"time_error_ns": None, "time_error_unknown": 1}, "clocks: the error of 1 event is unknown"),
        ({"time_error_unknown": 9},
         "clocks: aligned; the start of every other event is known to 1.00 us; the error of 9 events is unknown"),
        ({"time_error_ns": 0}, "clocks: aligned; the start of every event is known to the nanosecond"),
        ({"time_error_ns": 90_000_000},
         "clocks: aligned; the start of most events is known to 1.00 us, of the worst to 90.00 ms, by the clock "
         "ftrace:local"),
        ({"time_error_ns": 90_000_000, "widest_clock": None},
         "clocks: aligned; the start of most events is known to 1.00 us, of the worst to 90.00 ms"),
        ({"records_lost": 4, "losses_at_least": 2}, "records lost: at least 4"),
        ({"losses_untold": 1, "losses_at_least": 0}, "records lost: an unknown number, in 1 span"),
        ({"killed": True}, "records lost: an unknown number that the killed capture had not stored"),
        ({"killed": True, "records_lost": 4},
         "records lost: 4, and an unknown number that the killed capture had not stored"),
        ({"trace_covers": ["the kernel trace covers a part"]}, "the kernel trace covers a part"),
        ({"trace_covers": ["the kernel trace covers a part"]},
         "7 HIP calls, 3 ioctls in the time of the kernel trace, 2 queues, 1 stream"),
        ({"records_lost": 4, "losses_untold": 2}, "records lost: 4, and those of 2 spans of unknown number"),
    ],
)  # fmt: skip
def test_what_a_summary_says_of_one_number(changed: dict[str, Any], line: str) -> None:
    assert line in list(describe_summary(_report(changed)))


def test_a_trace_alone_says_nothing_of_packets() -> None:
    told = list(describe_summary(_report(_TRACE | _NO_PACKET | {"doorbell_stores": 0})))
    assert [line.partition(" ")[0] for line in told] == ["sources:", "HIP", "clocks:", "records"]


def test_machine_and_run_stand_below_the_summary_where_they_are_known() -> None:
    assert "## Machine and run\n\n- kernel 6.12\n- gfx942\n" in render_markdown(_report({}, ("kernel 6.12", "gfx942")))
    assert "Machine and run" not in render_markdown(_report({}))
