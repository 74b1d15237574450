"""How many MQD operations does a queue cost, and what caused each of them?"""

from __future__ import annotations

import polars as pl

from tracecorr.analyze.mqd import summarize_mqd_operations
from tracecorr.analyze.verdicts.evidence import Evidence
from tracecorr.analyze.verdicts.model import Claim, Finding, failed, has_queues, passed, unknown
from tracecorr.read.kfd.ioctls import CREATE_QUEUE

_PROBES = "capture with probes on the MQD functions (init_mqd*, update_mqd*)"
_ONE_TRACE = "record the MQD functions and the ioctls of their threads in one trace"


def judge(evidence: Evidence) -> Finding:
    """Expect one initialisation for each CREATE_QUEUE that succeeded; updates and restores are counted by cause."""
    if not evidence.layers.get("mqd"):
        if evidence.saw("mqd", "init_mqd"):
            return unknown("the MQD probes were armed, but no MQD operation was seen", "use a machine with a GPU")
        return unknown("no MQD operation is recorded", _PROBES)
    operations = summarize_mqd_operations(evidence.kernel_events)
    created = evidence.of_layer("ioctl", CREATE_QUEUE).filter(pl.col("result") == "0")
    initialised = operations.filter((pl.col("operation") == "init") & (pl.col("cause") == "create"))
    per_queue = created.select("event").join(
        initialised.group_by("ioctl").len(), left_on="event", right_on="ioctl", how="left"
    ).with_columns(pl.col("len").fill_null(0))  # fmt: skip
    wrong = per_queue.filter(pl.col("len") != 1)
    counts = {"queues_created": created.height, "mqd_operations": operations.height} | {
        f"{operation}_by_{cause}": int(n)
        for operation, cause, n in operations.group_by("operation", "cause")
        .len()
        .sort("operation", "cause")
        .iter_rows()
    }
    if created.is_empty():
        return unknown("no CREATE_QUEUE succeeded in the trace", "start the capture before the program", counts)
    if not (operations["operation"] == "init").any() and not any("init_mqd" in name for name in evidence.armed):
        return unknown("no initialisation of an MQD is recorded, other operations are", _PROBES, counts)
    if initialised.is_empty() and not operations["ioctl"].drop_nulls().len():
        return unknown("nothing tells which ioctls the MQD operations were done in", _ONE_TRACE, counts)
    if wrong.height:
        return failed(
            f"{wrong.height} of {created.height} created queues have not exactly one MQD initialisation", counts,
            wrong["event"], by_absence=True,
        )  # fmt: skip
    return passed(f"each of {created.height} created queues has one MQD initialisation", counts, initialised["event"])


CLAIM = Claim(
    "mqd_ops_per_queue",
    "each created queue has exactly one MQD initialisation; updates and restores have their own causes",
    ("ftrace",),
    judge,
    has_queues,
)
