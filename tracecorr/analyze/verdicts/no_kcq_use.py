"""Did the process submit work to a kernel compute queue (KCQ)?"""

from __future__ import annotations

import polars as pl

from tracecorr.analyze.values import count_of
from tracecorr.analyze.verdicts.evidence import Evidence
from tracecorr.analyze.verdicts.model import Claim, Finding, failed, passed, unknown

_PROBES = ("drm_sched", "drm_run_job", "gpu_scheduler")


def judge(evidence: Evidence) -> Finding:
    """Look who queued the jobs on compute rings; a kworker that runs them says nothing about the submitter."""
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
        return unknown(
            "no process with a HIP log is known", "add the HIP log, so that it is known whose jobs count", counts
        )
    if nobody.height:
        return unknown(
            f"the submitter of {nobody.height} jobs on compute rings is not known",
            "record drm_sched_job (drm_sched_job_queue from kernel 6.17 on): it is printed by the submitter", counts,
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


CLAIM = Claim("no_kcq_use", "the process submits nothing to kernel compute queues", ("ftrace",), judge)
