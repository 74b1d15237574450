"""The checklist of a first look at the path ROCr -> KFD -> GPU, ticked from the evidence of one capture."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from tracecorr.analyze.evidence import Evidence
from tracecorr.analyze.run_facts import describe_model
from tracecorr.analyze.values import collect
from tracecorr.analyze.verdicts import judge_capture
from tracecorr.analyze.verdicts.model import Finding, Outcome, failed, passed, unknown

# What is ticked -> the verdicts that it needs.
_BY_VERDICTS = (
    ("creation of each queue is complete on both sides", ("queue_creation_complete",)),
    ("latency of the creation in the driver and in ROCr", ("kfd_create_under_1ms", "rocr_create_time")),
    ("MQD operations of each queue", ("mqd_ops_per_queue",)),
    ("kernel queues are unused", ("no_kcq_use",)),
    ("doorbells are seen, one for each packet", ("compute_uses_doorbell", "doorbell_per_packet")),
)
_TICKS = {Outcome.PASS: "[x]", Outcome.FAIL: "[!]", Outcome.UNKNOWN: "[ ]"}


def list_steps(evidence: Evidence) -> pl.DataFrame:
    """Return one row per step of the checklist.

    Args:
        evidence: of the capture.

    Returns: tick (`[x]` shown, `[!]` shown to be otherwise, `[ ]` open), step, evidence (what shows it), to_close (what
        would close an open one).
    """
    rows = [(_TICKS[f.outcome], step, f.reason, f.remedy or None) for step, f in _judge_steps(evidence)]
    schema = {"tick": pl.String, "step": pl.String, "evidence": pl.String, "to_close": pl.String}
    return pl.DataFrame(rows, schema=schema, orient="row")


def _judge_steps(evidence: Evidence) -> Iterator[tuple[str, Finding]]:
    yield "log and trace are recorded", _judge_sources(evidence)
    for step, names in _BY_VERDICTS:
        yield step, _join([verdict.finding for verdict in judge_capture(evidence, names=names)])
    yield "HQD state is seen", _judge_hqds(evidence)
    yield "the path ROCr -> KFD -> GPU is complete", _judge_path(evidence)
    if model := describe_model(evidence.info):
        yield "it is a GPU", failed(model, {})


def _join(findings: list[Finding]) -> Finding:
    """Return the worst outcome of some findings, with the reasons and remedies of all."""
    order = (Outcome.FAIL, Outcome.UNKNOWN, Outcome.PASS)
    worst = min((f.outcome for f in findings), key=order.index)
    remedies = [f.remedy for f in findings if f.remedy]
    return Finding(worst, "; ".join(f.reason for f in findings), remedy="; ".join(remedies))


def _judge_sources(evidence: Evidence) -> Finding:
    missing = [name for name in ("amd_log", "ftrace") if name not in evidence.sources]
    if missing:
        return unknown(
            f"there is no {' and no '.join(missing)}", "capture a HIP program with tracecorr capture as root"
        )
    return passed("HIP log and kernel trace are there", {})


def _judge_hqds(evidence: Evidence) -> Finding:
    found = collect(evidence.tables("hqd").select(n=pl.len(), active=pl.col("active").sum())).row(0)
    if not found[0]:
        return unknown("no HQD was read", "capture with --hqd-interval; debugfs must have kfd/hqds (tracecorr doctor)")
    return passed(f"{found[0]} HQDs were read, {found[1]} of them active", {"hqds": found[0]})


def _judge_path(evidence: Evidence) -> Finding:
    """Return whether one launch at least is seen at each place of its way, by the links of its row."""
    launches = evidence.tables("launches").filter(pl.col("kind").cast(pl.String) == "dispatch")
    seen = launches.select(
        n=pl.len(), rocr=pl.col("packet_ns").is_not_null().sum(), driver=pl.col("queue").is_not_null().sum(),
        doorbell=(pl.col("doorbell_evidence").cast(pl.String) == "recorded").sum(),
        gpu=pl.col("gpu_start_ns").is_not_null().sum(),
    )  # fmt: skip
    counts = collect(seen).to_dicts()[0]
    made = collect(evidence.tables("queues").select(pl.col("create_ioctl_event").is_not_null().sum())).item()
    said = (
        f"of {counts['n']} dispatches {counts['rocr']} have a packet, {counts['doorbell']} a recorded doorbell, "
        f"{counts['gpu']} GPU times; {made} queues have their CREATE_QUEUE"
    )
    if not counts["n"]:
        return unknown("no dispatch was seen", "run a program that launches kernels, with AMD_LOG_LEVEL 4 or 5")
    if all(counts[name] for name in ("rocr", "doorbell", "gpu")) and made:
        return passed(said, counts)
    if evidence.sources and not counts["rocr"]:
        return failed(said, counts)
    return unknown(said, "what is 0 above is not recorded: tracecorr doctor says why")
