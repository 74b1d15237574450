"""How long does the runtime take to make a queue, the ioctls on the way included?"""

from __future__ import annotations

import polars as pl

from tracecorr.analyze.values import count_of, render_ns
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
    longest = int(made["rocr_ns"].sort()[-1])
    counts = {"queues": made.height, "slower": slow.height, "longest_ns": longest, "limit_ns": limit}
    said = f"the longest of {made.height} took {render_ns(longest)}, the limit is {render_ns(limit)}"
    said += _describe_driver(made)
    events = slow["created_line_event"]
    return failed(said, counts, events) if slow.height else passed(said, counts, made["created_line_event"])


def _describe_driver(made: pl.DataFrame) -> str:
    """Return what is surely known of the driver's part: of the longest one all ioctls, else the one that makes it."""
    longest = made.sort("rocr_ns").row(-1, named=True)
    if longest["rocr_in_ioctls_ns"]:
        ioctls = count_of(longest["rocr_ioctls"], "ioctls", "ioctl")
        return f"; {ioctls} of its thread that surely lie in it took {render_ns(longest['rocr_in_ioctls_ns'])} in total"
    kernel = made["ioctl_ns"].drop_nulls().sort()
    return f"; the longest CREATE_QUEUE ioctl took {render_ns(int(kernel[-1]))}" if kernel.len() else ""


CLAIM = Claim(
    "rocr_create_time",
    "the runtime makes a queue within the limit (`Number of allocated` to `Created`, `rocr_create_ns`, default 10 ms)",
    ("amd_log",),
    judge,
)
