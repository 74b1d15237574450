"""How long does the driver take to make a queue?"""

from __future__ import annotations

import polars as pl

from tracecorr.analyze.clocks import find_step_ns, find_untimed
from tracecorr.analyze.values import count_of, render_ns
from tracecorr.analyze.verdicts.evidence import Evidence
from tracecorr.analyze.verdicts.model import Claim, Finding, failed, has_queues, passed, unknown
from tracecorr.read.kfd.ioctls import CREATE_QUEUE


def judge(evidence: Evidence) -> Finding:
    """Compare the duration of each successful CREATE_QUEUE ioctl with the threshold."""
    limit = evidence.thresholds.kfd_create_ns
    ioctls = evidence.of_layer("ioctl", CREATE_QUEUE)
    made = ioctls.filter(pl.col("result") == "0")
    good = made.drop_nulls("dur_ns")
    unseen = ioctls["result"].null_count() + made.height - good.height
    counts = {"create_queue_ioctls": ioctls.height, "successful": made.height, "limit_ns": limit}
    if good.is_empty():
        return _say_nothing_timed(evidence, ioctls, made, counts)
    step = find_step_ns(evidence.tables("clock_map"))
    slow = good.filter(pl.col("dur_ns") - step > limit)
    longest = int(good["dur_ns"].sort()[-1])
    counts |= {"slower": slow.height, "longest_ns": longest, "without_duration": unseen}
    said = f"the longest of {good.height} took {render_ns(longest)}, the limit is {render_ns(limit)}"
    if slow.height:
        return failed(said, counts, slow["event"])
    if longest + step > limit:
        why = f"durations are known to {render_ns(step)} only, by the clock of the trace"
        return unknown(f"{said}; {why}", "record with trace_clock mono", counts, good["event"])
    if unseen:
        told = f"of {unseen} more the trace does not show how long they took, or that they succeeded"
        return unknown(f"{said}; {told}", "record until the program ends", counts, ioctls["event"])
    return passed(said, counts, good["event"])


def _say_nothing_timed(evidence: Evidence, ioctls: pl.DataFrame, made: pl.DataFrame, counts: dict[str, int]) -> Finding:
    if ioctls.is_empty():
        remedy = "record the ioctl system calls from before the first queue is made"
        return unknown("no CREATE_QUEUE ioctl is recorded", remedy, counts)
    if made.height:
        untimed = ", ".join(find_untimed(evidence.tables("clock_map")))
        why = f": {untimed} counts steps that are no nanoseconds" if untimed else ""
        said = f"the trace does not show how long the {made.height} that succeeded took{why}"
        return unknown(said, "record with trace_clock mono and larger buffers", counts, made["event"])
    refused = ioctls["result"].drop_nulls().unique().sort().to_list()
    if not refused and ioctls["dur_ns"].count():
        what = count_of(ioctls.height, "CREATE_QUEUE ioctls", "CREATE_QUEUE ioctl")
        remedy = "record the ioctl system calls, or probe what kfd_ioctl returns"
        return unknown(f"what the {what} returned is not known", remedy, counts, ioctls["event"])
    why = f"no CREATE_QUEUE is known to have succeeded ({', '.join(refused) or 'none of them is seen to return'})"
    return unknown(why, "run it where the driver makes the queues", counts, ioctls["event"])


CLAIM = Claim(
    "kfd_create_under_1ms",
    "the driver makes a queue within the limit (CREATE_QUEUE ioctl, `kfd_create_ns`, default 1 ms)",
    ("ftrace",),
    judge,
    has_queues,
)
