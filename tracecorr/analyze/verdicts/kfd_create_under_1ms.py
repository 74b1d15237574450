"""How long does the driver take to make a queue?"""

from __future__ import annotations

import polars as pl

from tracecorr.analyze.values import render_ns
from tracecorr.analyze.verdicts.evidence import Evidence
from tracecorr.analyze.verdicts.model import Claim, Finding, failed, passed, unknown


def judge(evidence: Evidence) -> Finding:
    """Compare the duration of each successful CREATE_QUEUE ioctl with the threshold."""
    limit = evidence.thresholds.kfd_create_ns
    ioctls = evidence.of_layer("ioctl", "AMDKFD_IOC_CREATE_QUEUE")
    good = ioctls.filter((pl.col("result") == "0") & pl.col("dur_ns").is_not_null())
    counts = {"create_queue_ioctls": ioctls.height, "successful": good.height, "limit_ns": limit}
    if good.is_empty():
        if ioctls.is_empty():
            remedy = "record the ioctl system calls from before the first queue is made"
            return unknown("no CREATE_QUEUE ioctl is recorded", remedy, counts)
        refused = ioctls["result"].drop_nulls().unique().sort().to_list()
        why = f"no CREATE_QUEUE succeeded ({', '.join(refused) or 'none of them is seen to return'})"
        return unknown(why, "run it where the driver makes the queues", counts, ioctls["event"])
    slow = good.filter(pl.col("dur_ns") > limit)
    longest = int(good["dur_ns"].sort()[-1])
    counts |= {"slower": slow.height, "longest_ns": longest}
    said = f"the longest of {good.height} took {render_ns(longest)}, the limit is {render_ns(limit)}"
    return failed(said, counts, slow["event"]) if slow.height else passed(said, counts, good["event"])


CLAIM = Claim(
    "kfd_create_under_1ms",
    "the driver makes a queue within the limit (CREATE_QUEUE ioctl, `kfd_create_ns`, default 1 ms)",
    ("ftrace",),
    judge,
)
