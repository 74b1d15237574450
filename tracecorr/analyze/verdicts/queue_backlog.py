"""Did a ring fill up, so that the host had to wait for the GPU?"""

from __future__ import annotations

import polars as pl

from tracecorr.analyze.verdicts.evidence import Evidence
from tracecorr.analyze.verdicts.model import Claim, Finding, failed, passed, unknown


def judge(evidence: Evidence) -> Finding:
    """Compare the peak of wptr - rptr with the ring size; it is an upper bound of what waits."""
    share = evidence.thresholds.backlog_share
    peaks = evidence.backlog.drop_nulls(["peak", "size"])
    if peaks.is_empty():
        return unknown("the log prints no rptr and wptr, or no ring size", "ROCm 6.2 and later print them at level 5")
    full = peaks.filter(pl.col("peak") >= share * pl.col("size"))
    top = peaks.sort(pl.col("peak") / pl.col("size"), descending=True).row(0, named=True)
    counts = {
        "queues": peaks.height,
        "full_queues": full.height,
        "peak_packets": top["peak"],
        "ring_packets": top["size"],
    }
    said = f"the fullest queue held at most {top['peak']} of {top['size']} packets"
    return failed(said, counts, full["peak_event"]) if full.height else passed(said, counts, peaks["peak_event"])


CLAIM = Claim(
    "queue_backlog", "no ring fills beyond `backlog_share` of its size (default 0.9; wptr - rptr of the log)",
    ("amd_log",), judge,
)  # fmt: skip
