"""Who schedules the queues: HWS firmware, MES firmware, or the driver itself?"""

from __future__ import annotations

import polars as pl

from tracecorr.analyze.verdicts.evidence import Evidence
from tracecorr.analyze.verdicts.model import Claim, Finding, failed, has_queues, passed, unknown

# Functions that only one way of scheduling calls (amdkfd, kernels 5.10 to 7.2).
_HWS = r"_cpsch|^pm_send_|^map_queues_|^unmap_queues_|^execute_queues_"
_MES = r"_queue_mes$|^mes_v\d+"
_NONE = r"_nocpsch|^allocate_hqd$"


def judge(evidence: Evidence) -> Finding:
    """Gather what functions, HQDs and host facts say; they must agree."""
    seen = _by_functions(evidence) + _by_hiq(evidence) + _by_facts(evidence)
    found = {mode for mode, _, _ in seen}
    counts = {f"{how}_{mode}": events.len() for mode, how, events in seen}
    rows = pl.concat([e for _, _, e in seen]) if seen else None
    wanted = evidence.thresholds.scheduler
    if not found:
        return unknown(
            "nothing recorded tells the scheduler",
            "capture with the KFD function probes (pm_send_runlist, add_queue_mes), or with HQD dumps", counts,
        )  # fmt: skip
    if len(found) > 1:
        return failed(f"the evidence contradicts itself: {', '.join(sorted(found))}", counts, rows)
    mode = found.pop()
    said = f"the scheduler is {mode}" + (f", wanted was {wanted}" if wanted else "")
    good = mode == wanted if wanted else mode in ("HWS", "MES")
    return passed(said, counts, rows) if good else failed(said, counts, rows)


def _by_functions(evidence: Evidence) -> list[tuple[str, str, pl.Series]]:
    functions = evidence.kernel_events.filter(pl.col("layer").is_in(["kfd", "mqd"]))
    patterns = (("none", _NONE), ("HWS", _HWS), ("MES", _MES))
    hits = [(mode, functions.filter(pl.col("name").str.contains(pattern))) for mode, pattern in patterns]
    return [(mode, "functions", rows["event"]) for mode, rows in hits if rows.height]


def _by_hiq(evidence: Evidence) -> list[tuple[str, str, pl.Series]]:
    hiq = evidence.tables("hqd").filter((pl.col("type") == "hiq") & pl.col("active")).select("snapshot").collect()
    return [("HWS", "active_hiq", pl.Series([None] * hiq.height, dtype=pl.Int64))] if hiq.height else []


def _by_facts(evidence: Evidence) -> list[tuple[str, str, pl.Series]]:
    modes = evidence.tables("gpus").select(pl.col("scheduler").cast(pl.String)).collect()["scheduler"].drop_nulls()
    return [(str(mode), "gpus", pl.Series([None], dtype=pl.Int64)) for mode in modes.unique().sort()]


CLAIM = Claim(
    "scheduler_mode", "the queues are scheduled by firmware (HWS or MES), or as `scheduler` says", (), judge, has_queues
)
