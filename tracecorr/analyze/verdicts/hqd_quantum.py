"""Do active compute queues have a time slice (quantum) in their HQD?"""

from __future__ import annotations

import polars as pl

from tracecorr.analyze.verdicts.evidence import Evidence
from tracecorr.analyze.verdicts.model import Claim, Finding, failed, has_queues, passed, unknown
from tracecorr.link.queues.hqds import NONE_OF_LOG, shows_none_of_log

_ENABLED = 1  # bit 0 of CP_HQD_QUANTUM


def judge(evidence: Evidence) -> Finding:
    """Look at CP_HQD_QUANTUM of every active compute slot; only the capture's own queues can fail."""
    told = evidence.tables("hqd").select("snapshot", "dump", "type", "active", "quantum", "queue").collect()
    dumps = told.filter(pl.col("dump") == "hqds")
    user = dumps.filter(pl.col("active") & (pl.col("type").cast(pl.String) == "cp") & pl.col("quantum").is_not_null())
    counts = {"snapshots": dumps["snapshot"].n_unique(), "slots": dumps.height, "active_compute_slots": user.height}
    if user.is_empty():
        why = "no dump shows an active compute queue" if dumps.height else "no HQD dump is in the capture"
        return unknown(why, "take HQD dumps while the program runs (debugfs kfd/hqds)", counts)
    values = user["quantum"].unique().sort()
    off = user.filter((pl.col("quantum") & _ENABLED) == 0)
    said = f"{user.height} active compute slots, quantum {', '.join(f'{v:#x}' for v in values)}"
    if shows_none_of_log(told, evidence.queues):
        remedy = "take HQD dumps while the program of this log runs (debugfs kfd/hqds)"
        return unknown(f"{NONE_OF_LOG}; it shows {said}", remedy, counts)
    ours = _list_own(evidence)
    own = off.join(ours, on="queue", how="semi") if ours.height else off
    counts |= {"without_quantum": own.height, "different_quanta": values.len()}
    if own.height:
        return failed(f"{said}; {own.height} have none enabled", counts)
    if off.height:
        counts |= {"without_quantum_of_unknown_queues": off.height}
        said += f"; of {off.height} it is not enabled, but those are not known to be queues of this program"
        return unknown(said, "trace CREATE_QUEUE with its probe, or take the dumps while nothing else runs", counts)
    return passed(said, counts)


def _list_own(evidence: Evidence) -> pl.DataFrame:
    """Return the queues (one column) of the processes with a log; without a log, of all."""
    queues = evidence.queues.select("queue", "process")
    logged = evidence.log_processes
    return (queues.filter(pl.col("process").is_in(logged)) if logged else queues).select("queue")


CLAIM = Claim(
    "hqd_quantum", "every active compute queue has an enabled quantum in its HQD", ("hqd",), judge, has_queues
)
