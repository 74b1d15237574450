"""Verdicts on how queues were created."""

from __future__ import annotations

import polars as pl

from tracecorr.analyze.clocks import find_step_ns, find_untimed
from tracecorr.analyze.evidence import Evidence, Excuse, find_excuse
from tracecorr.analyze.queue_creation import summarize_mqd_operations
from tracecorr.analyze.values import count_of, render_ns
from tracecorr.analyze.verdicts.model import Finding, claim, failed, has_queues, passed, unknown
from tracecorr.read.kfd.ioctls import CREATE_QUEUE

# (step, its column in the queue creation summary, layer, words in a probe that would record it)
_STEPS = (
    ("ioctl", "create_ioctl_event", "ioctl", ("sys_enter_ioctl",)),
    ("driver function", "kfd_event", "kfd", ("kfd_ioctl_create_queue", "create_queue")),
    ("MQD", "init_mqd_event", "mqd", ("init_mqd",)),
    ("doorbell mapping", "doorbell_map_event", "syscall", ("sys_enter_mmap",)),
)

_GPU = "capture with a probe on kfd_ioctl_create_queue that reads the GPU (gpu=+36($arg3):x32)"


@claim(
    "queue_creation_complete",
    "each queue of the log is seen from its HIP call through ioctl, driver function and MQD to its doorbell mapping",
    rests_on=("ftrace", "amd_log"),
)
def _queue_creation_complete(evidence: Evidence) -> Finding:
    """Follow each Created line down to the doorbell mapping; a shared queue was created once, by its first stream."""
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
        missing = made.filter(pl.col(column).is_null())
        if missing.is_empty():
            continue
        if not evidence.saw(layer, *words_of_probe):
            return unknown(f"no {step} of a queue creation is recorded", f"capture with {words_of_probe[0]}", counts)
        return _missing(evidence, made, missing, step, counts)
    return passed(
        f"all {made.height} queues are recorded from the call to the MQD and the doorbell mapping", counts,
        made["create_ioctl_event"],
    )  # fmt: skip


def _missing(
    evidence: Evidence, made: pl.DataFrame, missing: pl.DataFrame, step: str, counts: dict[str, int]
) -> Finding:
    if step == "ioctl" and not evidence.trace_aligned:
        return unknown(
            "the trace is unaligned: no ioctl can be joined to its queue", "record with trace_clock mono", counts
        )
    excuses = _list_excuses(evidence)
    if step == "doorbell mapping":
        unknown_gpu = missing.filter(pl.col("gpu_unknown").fill_null(value=False)).select("queue")
        excuses += (Excuse("the GPU of the other queues is not recorded", _GPU, unknown_gpu),)
    excuse, left = find_excuse(missing, excuses)
    if excuse is not None:
        return unknown(excuse.reason, excuse.remedy, counts, missing["created_line_event"])
    reason = f"{left.height} of {made.height} queues have no {step} in the trace"
    return failed(reason, counts, left["created_line_event"], by_absence=True)


def _list_excuses(evidence: Evidence) -> tuple[Excuse, ...]:
    """Return why, and for which processes or queues, a trace cannot show the creation."""
    nameless = "the log names no process: its queues cannot be joined to the trace"
    early = evidence.early_queues.select("queue")
    return (
        Excuse(nameless, "record the HIP log with AMD_LOG_LEVEL=5", evidence.nameless),
        Excuse("no kernel trace shows the other processes", "record their kernel trace, too", evidence.only_logged),
        Excuse(
            "the other queues were created before the kernel trace began", "start the trace before the program", early
        ),
    )


@claim(
    "kfd_create_under_1ms",
    "the driver makes a queue within the limit (CREATE_QUEUE ioctl, `kfd_create_ns`, default 1 ms)",
    rests_on=("ftrace",),
    concerns=has_queues,
)
def _kfd_create_under_1ms(evidence: Evidence) -> Finding:
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
        told = f"for {unseen} more the trace does not show the duration, or the success"
        return unknown(f"{said}; {told}", "record until the program ends", counts, ioctls["event"])
    return passed(said, counts, good["event"])


def _say_nothing_timed(evidence: Evidence, ioctls: pl.DataFrame, made: pl.DataFrame, counts: dict[str, int]) -> Finding:
    if ioctls.is_empty():
        remedy = "record the ioctl system calls from before the first queue is made"
        return unknown("no CREATE_QUEUE ioctl is recorded", remedy, counts)
    if made.height:
        untimed = ", ".join(find_untimed(evidence.tables("clock_map")))
        why = f": {untimed} does not count nanoseconds" if untimed else ""
        said = f"the trace does not show the duration of the {made.height} successful ones{why}"
        return unknown(said, "record with trace_clock mono and larger buffers", counts, made["event"])
    refused = ioctls["result"].drop_nulls().unique().sort().to_list()
    if not refused and ioctls["dur_ns"].count():
        what = count_of(ioctls.height, "CREATE_QUEUE ioctls", "CREATE_QUEUE ioctl")
        remedy = "record the ioctl system calls, or probe what kfd_ioctl returns"
        return unknown(f"the result of the {what} is unknown", remedy, counts, ioctls["event"])
    why = f"no CREATE_QUEUE is known to have succeeded ({', '.join(refused) or 'no return is recorded'})"
    return unknown(why, "run it on a machine whose driver creates the queues", counts, ioctls["event"])


@claim(
    "rocr_create_time",
    "the runtime makes a queue within the limit (`Number of allocated` to `Created`, `rocr_create_ns`, default 10 ms)",
    rests_on=("amd_log",),
)
def _rocr_create_time(evidence: Evidence) -> Finding:
    """Compare the time between the two log lines of each creation with the threshold."""
    limit = evidence.thresholds.rocr_create_ns
    made = evidence.queue_creation.drop_nulls("rocr_ns")
    if made.is_empty():
        return unknown(
            "no queue has both its `Number of allocated` and its `Created` line",
            "record the HIP log from the start, with AMD_LOG_LEVEL=3 or more, with 5 if several threads call HIP",
        )
    slow = made.filter(pl.col("rocr_ns") > limit)
    longest = int(made["rocr_ns"].sort()[-1])
    counts = {"queues": made.height, "slower": slow.height, "longest_ns": longest, "limit_ns": limit}
    said = f"the longest of {made.height} took {render_ns(longest)}, the limit is {render_ns(limit)}"
    said += _describe_driver(made)
    events = slow["created_line_event"]
    return failed(said, counts, events) if slow.height else passed(said, counts, made["created_line_event"])


def _describe_driver(made: pl.DataFrame) -> str:
    """Return the driver's part of the longest creation: all its ioctls, else the longest CREATE_QUEUE."""
    longest = made.sort("rocr_ns").row(-1, named=True)
    if longest["rocr_in_ioctls_ns"]:
        ioctls = count_of(longest["rocr_ioctls"], "ioctls", "ioctl")
        return f"; in it at least {ioctls} of its thread took {render_ns(longest['rocr_in_ioctls_ns'])} in total"
    kernel = made["ioctl_ns"].drop_nulls().sort()
    return f"; the longest CREATE_QUEUE ioctl took {render_ns(int(kernel[-1]))}" if kernel.len() else ""


_PROBES = "capture with probes on the MQD functions (init_mqd*, update_mqd*)"
_ONE_TRACE = "record the MQD functions and the ioctls of their threads in one trace"


@claim(
    "mqd_ops_per_queue",
    "each created queue has exactly one MQD initialisation; updates and restores have their own causes",
    rests_on=("ftrace",),
    concerns=has_queues,
)
def _mqd_ops_per_queue(evidence: Evidence) -> Finding:
    """Expect one initialisation for each successful CREATE_QUEUE; other operations are counted by cause."""
    if not evidence.layers.get("mqd"):
        if evidence.saw("mqd", "init_mqd"):
            return unknown("the MQD probes were armed, but no MQD operation was recorded", "use a machine with a GPU")
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
        return unknown("other MQD operations are recorded, but no initialisation", _PROBES, counts)
    if initialised.is_empty() and not operations["ioctl"].drop_nulls().len():
        return unknown("no record shows the ioctls of the MQD operations", _ONE_TRACE, counts)
    if wrong.height:
        return failed(
            f"{wrong.height} of {created.height} created queues do not have exactly one MQD initialisation", counts,
            wrong["event"], by_absence=True,
        )  # fmt: skip
    return passed(f"each of {created.height} created queues has one MQD initialisation", counts, initialised["event"])


CLAIMS = (_queue_creation_complete, _kfd_create_under_1ms, _rocr_create_time, _mqd_ops_per_queue)
