"""Verdicts on copies and kernel queues: do copies use SDMA queues of user mode, is no kernel queue used?"""

from __future__ import annotations

import polars as pl

from tracecorr.analyze.evidence import Evidence, Excuse, find_excuse
from tracecorr.analyze.memory import BLIT_KERNELS
from tracecorr.analyze.values import collect, count_of
from tracecorr.analyze.verdicts.model import Finding, claim, failed, passed, unknown
from tracecorr.model.kinds import COPY_REFUSED
from tracecorr.read.kfd.ioctls import CREATE_QUEUE

_SDMA = ("sdma", "sdma_xgmi", "sdma_by_engine")
_REMEDY = "record a kernel trace with the CREATE_QUEUE probe (kfd_ioctl_create_queue, type=+40($arg3):u32)"


@claim(
    "copies_use_user_sdma",
    "copies on a copy engine go through user-mode SDMA queues of their own process, not through drm jobs",
    rests_on=("ftrace",),
)
def _copies_use_user_sdma(evidence: Evidence) -> Finding:
    """Compare the processes with copies on an engine to those that created SDMA queues.

    For a copy without an engine in its line ROCr chooses the path, perhaps a blit kernel.
    """
    submitted = collect(
        evidence.tables("launches").filter(pl.col("kind") == "copy").select("event", "process", "engine")
    )
    copies = submitted.filter(pl.col("engine") > 0)
    asked = _made_queues(evidence).filter(pl.col("type").is_in(_SDMA))
    refused = _refused(evidence, asked)
    sdma = asked.join(refused, on="create_ioctl_event", how="anti")
    counts = _counts(evidence, copies, sdma) | {"copies_of_unnamed_engine": submitted.height - copies.height}
    if copies.is_empty():
        return _say_no_copy(evidence, submitted, counts)
    without = copies.join(sdma, on="process", how="anti")
    if without.is_empty():
        return passed(
            f"all engine copies ({copies.height}) are of processes with own SDMA queues ({sdma.height} in all); "
            f"{counts['drm_jobs']} drm jobs ran, {counts['drm_jobs_of_these_processes']} of them submitted by these",
            counts, sdma["create_ioctl_event"],
        )  # fmt: skip
    return _judge_without(evidence, without, refused, counts)


def _say_no_copy(evidence: Evidence, submitted: pl.DataFrame, counts: dict[str, int]) -> Finding:
    """Return why no copy on an engine is known."""
    if submitted.height:
        return unknown(
            f"the log names no engine for {count_of(submitted.height, 'copies', 'copy')}: ROCr chose the path",
            "record a program that copies between host and GPU with ROCm 5.6 or later, whose log names the engine",
            counts, submitted["event"],
        )  # fmt: skip
    if "amd_log" not in evidence.sources:
        return unknown("there is no HIP log of the copies", "record the HIP log with AMD_LOG_LEVEL=5", counts)
    if "refused_copies" in counts:
        return unknown(
            f"ROCr refused {count_of(counts['refused_copies'], 'copies', 'copy')} that HIP requested, and blit "
            "kernels did them; no other copy was requested",
            "look up the code among the errors of the runtime, and record a program with copies that ROCr accepts",
            counts,
        )
    return unknown(
        "the log shows no copy to a copy engine: the program submitted none, or AMD_LOG_LEVEL was too low to print "
        "them (4 prints them)",
        "record the HIP log with AMD_LOG_LEVEL=5 of a program that copies with hipMemcpy", counts,
    )  # fmt: skip


def _judge_without(evidence: Evidence, without: pl.DataFrame, refused: pl.DataFrame, counts: dict[str, int]) -> Finding:
    """Return the finding if the process of some engine copies has no SDMA queue in the trace.

    Args:
        evidence: the capture.
        without: these copies.
        refused: SDMA queues that the driver refused (`_refused`).
        counts: what was counted so far.
    """
    theirs = refused.join(without, on="process", how="semi")
    if not theirs.is_empty():
        words = ", ".join(theirs["result"].unique().sort())
        told = _count(without.join(theirs, on="process", how="semi"))
        return failed(
            f"{told} of processes without an SDMA queue: the driver refused "
            f"{theirs.height} that they requested ({words})",
            counts | {"refused_sdma_queues": theirs.height},
            theirs["create_ioctl_event"],
        )
    told, queues = _count(without), _made_queues(evidence)
    if "ftrace" not in evidence.sources:
        return unknown(
            f"{told}, but there is no kernel trace of the queue creations", _REMEDY, counts, without["event"]
        )
    if queues.is_empty() or queues["type"].null_count():
        return unknown(
            f"{told}, but the type of the created queues is not recorded",
            _REMEDY, counts, without["event"],
        )  # fmt: skip
    excuse, left = find_excuse(without, _list_excuses(evidence))
    if excuse is not None:
        return unknown(f"{told} of {excuse.reason}", excuse.remedy, counts, without["event"])
    return failed(f"{_count(left)} of processes that created no SDMA queue", counts, left["event"], by_absence=True)


def _made_queues(evidence: Evidence) -> pl.DataFrame:
    return evidence.queues.filter(pl.col("create_ioctl_event").is_not_null())


def _list_excuses(evidence: Evidence) -> tuple[Excuse, ...]:
    """Return why, and for which processes, a trace does not show all queues."""
    early = evidence.early_queues.select("process")
    return (
        Excuse("a process without a name in the log", "record the HIP log with AMD_LOG_LEVEL=5", evidence.nameless),
        Excuse("processes without a kernel trace", "record their kernel trace, too", evidence.only_logged),
        Excuse(
            "processes with queues created before the kernel trace began", "start the trace before the program", early
        ),
    )


def _count(copies: pl.DataFrame) -> str:
    return count_of(copies.height, "engine copies", "engine copy")


def _refused(evidence: Evidence, asked: pl.DataFrame) -> pl.DataFrame:
    """Return create_ioctl_event, process and result of the queues that the driver refused."""
    ioctls = evidence.of_layer("ioctl", CREATE_QUEUE).select(create_ioctl_event="event", result="result")
    return (
        asked.select("create_ioctl_event", "process")
        .join(ioctls, on="create_ioctl_event")
        .filter(pl.col("result").ne("0"))
    )


def _counts(evidence: Evidence, copies: pl.DataFrame, sdma: pl.DataFrame) -> dict[str, int]:
    jobs = evidence.tables("drm_jobs").select("process").collect()
    kernels = evidence.tables("kernels").filter(pl.col("name").str.contains(BLIT_KERNELS)).select("kernel")
    blits = evidence.packets.filter(pl.col("kind") == "dispatch").join(kernels, on="kernel", how="semi")
    host = evidence.tables("events").filter(
        (pl.col("layer") == "copy") & pl.col("name").cast(pl.String).str.contains("memcpy_|^host_memcpy")
    )
    refused = evidence.tables("events").filter((pl.col("layer") == "copy") & (pl.col("name") == COPY_REFUSED))
    rows = {"blit_kernels": blits, "host_memcpy_steps": host, "refused_copies": refused}
    found = {name: int(frame.select(pl.len()).collect().item()) for name, frame in rows.items()}
    if not found["refused_copies"]:
        del found["refused_copies"]
    return {
        "engine_copies": copies.height,
        "sdma_queues": sdma.height,
        "drm_jobs": jobs.height,
        "drm_jobs_of_these_processes": jobs.filter(pl.col("process").is_in(copies["process"].implode())).height,
        **found,
    }


_PROBES = ("drm_sched", "drm_run_job", "gpu_scheduler")


@claim(
    "no_kcq_use",
    "the process submits nothing to kernel compute queues",
    rests_on=("ftrace",),
)
def _no_kcq_use(evidence: Evidence) -> Finding:
    """Look for the submitters of jobs on compute rings; the kworker that runs a job is not its submitter."""
    jobs = evidence.tables("drm_jobs").with_columns(pl.col(pl.Categorical).cast(pl.String)).collect()
    compute = jobs.filter(pl.col("ring_kind") == "kcq")
    ours = compute.filter(pl.col("process").is_in(evidence.log_processes))
    nobody = compute.filter(pl.col("process").is_null())
    counts = {
        "drm_jobs": jobs.height, "kcq_jobs": compute.height, "kcq_jobs_of_these_processes": ours.height,
        "kcq_jobs_of_unknown_submitters": nobody.height,
    }  # fmt: skip
    if ours.height:
        return failed(f"{ours.height} jobs on kernel compute rings were submitted", counts, ours["queue_event"])
    if jobs.is_empty() and not evidence.saw("drm_sched", *_PROBES):
        return unknown("no event of the gpu_scheduler is recorded", "capture with the gpu_scheduler events", counts)
    if not evidence.log_processes:
        return unknown("no process with a HIP log is known", "add the HIP log: it names the processes to judge", counts)
    if nobody.height:
        return unknown(
            f"the submitter of {nobody.height} jobs on compute rings is unknown",
            "record drm_sched_job (drm_sched_job_queue from kernel 6.17 on): the submitter prints it", counts,
            nobody["run_event"],
        )  # fmt: skip
    if compute.height and evidence.only_logged.height:
        told = count_of(compute.height, "job")
        return unknown(
            f"{told} went to compute rings, and not every process of the HIP log is known in the trace",
            "record the HIP log and the trace with tracecorr capture, which knows the processes of both", counts,
            compute["queue_event"],
        )  # fmt: skip
    return passed(
        f"none of {jobs.height} drm jobs was submitted to a compute ring by these processes", counts, by_absence=True
    )


CLAIMS = (_copies_use_user_sdma, _no_kcq_use)
