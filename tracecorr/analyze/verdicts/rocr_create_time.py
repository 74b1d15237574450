"""How long does the runtime take to make a queue, the driver's part included?"""

from __future__ import annotations

import polars as pl

from tracecorr.analyze.values import render_ns
from tracecorr.analyze.verdicts.evidence import Evidence
from tracecorr.analyze.verdicts.model import Claim, Finding, failed, passed, unknown


def judge(evidence: Evidence) -> Finding:
    """Compare the time between the two log lines of each creation with the threshold."""
    limit = evidence.thresholds.rocr_create_ns
    made = evidence.queue_creation.drop_nulls("rocr_ns")
    if made.is_empty():
        return unknown(
            "no queue has both its `Number of allocated` and its `Created` line",
            "record the HIP log from the start, with AMD_LOG_LEVEL=3 or more, with 5 where several threads call HIP",
        )
    slow = made.filter(pl.col("rocr_ns") > limit)
    longest, kernel = int(made["rocr_ns"].sort()[-1]), made["ioctl_ns"].drop_nulls()
    counts = {"queues": made.height, "slower": slow.height, "longest_ns": longest, "limit_ns": limit}
    said = f"the longest of {made.height} took {render_ns(longest)}, the limit is {render_ns(limit)}"
    if kernel.len():
        said += f"; the driver's part of them was at most {render_ns(int(kernel.sort()[-1]))}"
    events = slow["created_line_event"]
    return failed(said, counts, events) if slow.height else passed(said, counts, made["created_line_event"])


CLAIM = Claim(
    "rocr_create_time",
    "the runtime makes a queue within the limit (`Number of allocated` to `Created`, `rocr_create_ns`, default 10 ms)",
    ("amd_log",),
    judge,
)
