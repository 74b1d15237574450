"""Did compute work reach the GPU by doorbells alone, without a command submission through the kernel?"""

from __future__ import annotations

import polars as pl

from tracecorr.analyze.frames import collect
from tracecorr.analyze.verdicts.evidence import Evidence
from tracecorr.analyze.verdicts.model import Claim, Finding, failed, passed, unknown
from tracecorr.analyze.verdicts.unrecorded import explain_unrecorded
from tracecorr.model.kinds import DERIVED, RECORDED

_SUBMIT = ("DRM_IOCTL_AMDGPU_CS", "DRM_IOCTL_AMDGPU_USERQ_SIGNAL")
_IS_RECORDED = pl.col("doorbell_evidence").is_in([RECORDED, DERIVED]).fill_null(value=False)
_TRACE = "record a kernel trace with the ioctl system calls and the doorbell probe (uprobe on hsa_signal_store)"


def judge(evidence: Evidence) -> Finding:
    """Look for a recorded store to a hardware doorbell for each packet, and for command submissions."""
    counts, missing = _count_packets(evidence)
    submissions = _submissions(evidence)
    counts |= {"drm_command_submissions": submissions.len()} | _count_syscalls(evidence)
    packets = counts["packets"]
    if not packets:
        return unknown("no packet is recorded", "record the HIP log with AMD_LOG_LEVEL=5", counts)
    if submissions.len():
        return failed(f"the process submitted {submissions.len()} command buffers through the DRM", counts, submissions)
    if not evidence.saw("ioctl", "sys_enter_ioctl"):
        return unknown("no ioctl is recorded: a command submission would not have been seen", _TRACE, counts)
    intercepted = counts["intercepted_packets"]
    if intercepted:
        return unknown(
            f"{intercepted} packets went to queues that a profiler intercepts: their doorbells are no hardware's",
            "run without a profiler", counts,
        )  # fmt: skip
    if counts["recorded"] < packets:
        why = f"{packets - counts['recorded']} of {packets} doorbells were not recorded"
        causes = explain_unrecorded(evidence, ~_IS_RECORDED)
        if causes is None:
            return unknown(why, _TRACE, counts, missing)
        return unknown(f"{why}: {causes.reason}", causes.remedy, counts | causes.counts, missing)
    return passed(
        f"all {packets} packets have a recorded doorbell store and no command submission was made",
        counts,
        by_absence=True,
    )


def _count_packets(evidence: Evidence) -> tuple[dict[str, int], pl.Series]:
    rows = collect(
        evidence.packets.select(
            packets=pl.len(), recorded=_IS_RECORDED.sum(), inferred=(pl.col("doorbell_evidence") == "inferred").sum(),
            missing=pl.col("event").filter(~_IS_RECORDED).head(20).implode(),
        )
    )  # fmt: skip
    queues = evidence.queues.filter(pl.col("intercepted").fill_null(False))
    hidden = collect(evidence.packets.filter(pl.col("queue").is_in(queues["queue"].implode())).select(pl.len())).item()
    counts = {name: int(rows[name].item()) for name in ("packets", "recorded", "inferred")}
    return counts | {"intercepted_packets": int(hidden)}, rows["missing"].explode()


def _submissions(evidence: Evidence) -> pl.Series:
    rows = evidence.of_layer("ioctl", *_SUBMIT)
    return rows.filter(pl.col("process").is_in(evidence.log_processes))["event"]


def _count_syscalls(evidence: Evidence) -> dict[str, int]:
    """Count the system calls inside launching calls: with set-up work (queue, code, memory) apart from steady ones."""
    inside = collect(
        evidence.tables("events")
        .filter(pl.col("layer").is_in(["syscall", "ioctl"]) & pl.col("chain").is_not_null())
        .select("event", "chain", pl.col("name").cast(pl.String))
    )
    dispatches = evidence.packets.filter(pl.col("kind") == "dispatch").select(chain="call_event")
    launching = collect(dispatches.join(inside.lazy().select("chain").unique(), on="chain", how="semi")).unique()
    inside = inside.join(launching, on="chain", how="semi")
    steady = inside.join(evidence.setup_calls, on="chain", how="anti")
    names = steady.group_by("name").len().sort(["len", "name"], descending=[True, False])
    return {
        "syscalls_in_setup_launches": inside.height - steady.height,
        "syscalls_in_steady_launches": steady.height,
    } | {f"steady_{name}": int(count) for name, count in names.iter_rows()}


CLAIM = Claim(
    "compute_uses_doorbell",
    "every packet was announced by a store to a hardware doorbell, and the process submitted nothing through the DRM",
    ("ftrace",),
    judge,
)
