"""Is every queue that HIP made seen on its whole way: call, ioctl, driver function, MQD, doorbell mapping?"""

from __future__ import annotations

import polars as pl

from tracecorr.analyze.verdicts.evidence import Evidence, Excuse, find_excuse
from tracecorr.analyze.verdicts.model import Claim, Finding, failed, passed, unknown

# (step, its column in the queue creation summary, layer, words in a probe that would record it)
_STEPS = (
    ("ioctl", "create_ioctl_event", "ioctl", ("sys_enter_ioctl",)),
    ("driver function", "kfd_event", "kfd", ("kfd_ioctl_create_queue", "create_queue")),
    ("MQD", "init_mqd_event", "mqd", ("init_mqd",)),
    ("doorbell mapping", "doorbell_map_event", "syscall", ("sys_enter_mmap",)),
)

_GPU = "capture with a probe on kfd_ioctl_create_queue that reads the GPU (gpu=+36($arg3):x32)"


def judge(evidence: Evidence) -> Finding:
    """Follow each Created line of the log down; a queue that is shared was created once, by its first stream."""
    made = evidence.queue_creation.filter(pl.col("created_line_event").is_not_null())
    counts = {"queues": made.height} | {
        f"with_{step.replace(' ', '_')}": made[column].drop_nulls().len() for step, column, _, _ in _STEPS
    }
    refused = made.filter(pl.col("ioctl_result").is_not_null() & (pl.col("ioctl_result") != "0"))
    counts["refused"] = refused.height
    if made.is_empty():
        return unknown("the log has no Created line", "record the HIP log from the start with AMD_LOG_LEVEL=5", counts)
    if refused.height:
        words = ", ".join(refused["ioctl_result"].unique().sort())
        return failed(
            f"{refused.height} of {counts['with_ioctl']} CREATE_QUEUE ioctls were refused ({words})", counts,
            refused["create_ioctl_event"],
        )  # fmt: skip
    for step, column, layer, words_of_probe in _STEPS:
        lacking = made.filter(pl.col(column).is_null())
        if lacking.is_empty():
            continue
        if not evidence.saw(layer, *words_of_probe):
            return unknown(f"no {step} of a queue creation is recorded", f"capture with {words_of_probe[0]}", counts)
        return _lacking(evidence, made, lacking, step, counts)
    return passed(
        f"all {made.height} queues are known from the call to the MQD and the doorbell mapping", counts,
        made["create_ioctl_event"],
    )  # fmt: skip


def _lacking(
    evidence: Evidence, made: pl.DataFrame, lacking: pl.DataFrame, step: str, counts: dict[str, int]
) -> Finding:
    if step == "ioctl" and not evidence.trace_aligned:
        return unknown(
            "the trace is unaligned: no ioctl can be joined to its queue", "record with trace_clock mono", counts
        )
    excuses = _list_excuses(evidence)
    if step == "doorbell mapping":
        unknown_gpu = lacking.filter(pl.col("gpu_unknown").fill_null(value=False)).select("queue")
        excuses += (Excuse("which GPU the other queues are on is not recorded", _GPU, unknown_gpu),)
    excuse, left = find_excuse(lacking, excuses)
    if excuse is not None:
        return unknown(excuse.reason, excuse.remedy, counts, lacking["created_line_event"])
    reason = f"{left.height} of {made.height} queues have no {step} in the trace"
    return failed(reason, counts, left["created_line_event"], by_absence=True)


def _list_excuses(evidence: Evidence) -> tuple[Excuse, ...]:
    """Return of which processes or queues a trace cannot show how a queue was made."""
    nameless = "the log names no process: its queues cannot be joined to the trace"
    early = evidence.early_queues.select("queue")
    return (
        Excuse(nameless, "record the HIP log with AMD_LOG_LEVEL=5", evidence.nameless),
        Excuse("no kernel trace shows the other processes", "record their kernel trace, too", evidence.only_logged),
        Excuse("the other queues were made before the kernel trace began", "start the trace before the program", early),
    )


CLAIM = Claim(
    "queue_creation_complete",
    "each queue of the log is seen from its HIP call through ioctl, driver function and MQD to its doorbell mapping",
    ("ftrace", "amd_log"),
    judge,
)
