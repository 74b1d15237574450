"""Scenes whose truth is known, and what is summed up of their scores."""

from __future__ import annotations

from dataclasses import replace

from benchmarks.truth import Score
from simulator import ClockModel, Scene

BASE = Scene(span_s=0.25, threads=2)
LOCAL = ClockModel("local", 25_750_000, 12.0)
CLOCKS = {
    "mono": ClockModel(), "local": LOCAL, "fast": replace(LOCAL, ppm=500.0), "boot": ClockModel("boot", -7 * 10**9),
    "mono_raw": BASE.raw,
    "tai": ClockModel("tai", -17 * 10**17), "x86-tsc": ClockModel("x86-tsc", 10**12, ticks_per_ns=2.4),
    "slew": replace(LOCAL, slew_ppm=200.0, slew_at_ns=10**8),
}  # fmt: skip
STRUCTURES = {
    "eight threads on two queues": {"threads": 8, "queues": 2}, "container": {"container": True, "processes": 2},
    "wrap at 2^32": {"first_index": 2**32 - 60}, "queues made again": {"recreate": True, "threads": 1},
    "pid reused": {"processes": 2, "reuse_pid": True}, "stack reused": {"successive": True},
    "eight processes with equal rings": {"processes": 8, "threads": 1, "span_s": 0.15},
    "calls in calls": {"kinds": (*BASE.kinds, ("nested", 2))}, "copies behind copies": {"staged_copies": True},
    "32 streams on 4 queues": {"streams": 32, "threads": 1, "queue_probe": True},
    "graphs of 200": {"graph_packets": 200, "kinds": (("launch", 4), ("graph", 0.5), ("event", 1)), "span_s": 0.1},
    "pages, copies": {"pages": True, "staged_copies": True, "queue_probe": True},
    "suspended before": {"suspended_ns": 36 * 10**11, "samples_s": 0.1},
}  # fmt: skip
# No address joins a thread of the log with one of the trace.
UNKNOWN_THREADS = {
    "rich doorbell": {"doorbell": "rich", "thread_events": ()}, "plain doorbell": {"thread_events": ()},
    "no doorbell": {"doorbell": "none", "thread_events": ()},
}  # fmt: skip


def totals(score: Score) -> tuple[int, int, int, int]:
    """Return found, right, true, and wrong recorded links of all rules."""
    found, right, true, wrong = (sum(counts[i] for counts in score.links.values()) for i in range(4))
    return found, right, true, wrong
