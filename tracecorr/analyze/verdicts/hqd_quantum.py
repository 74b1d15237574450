"""Do active compute queues have a time slice (quantum) in their HQD?"""

from __future__ import annotations

import polars as pl

from tracecorr.analyze.verdicts.evidence import Evidence
from tracecorr.analyze.verdicts.model import Claim, Finding, failed, passed, unknown

_ENABLED = 1  # bit 0 of CP_HQD_QUANTUM


def judge(evidence: Evidence) -> Finding:
    """Look at CP_HQD_QUANTUM of every active compute slot."""
    dumps = (
        evidence.tables("hqd")
        .filter(pl.col("dump") == "hqds")
        .select("snapshot", "type", "active", "quantum")
        .collect()
    )
    user = dumps.filter(pl.col("active") & (pl.col("type").cast(pl.String) == "cp") & pl.col("quantum").is_not_null())
    counts = {"snapshots": dumps["snapshot"].n_unique(), "slots": dumps.height, "active_compute_slots": user.height}
    if user.is_empty():
        why = "no dump shows an active compute queue" if dumps.height else "no HQD dump is in the capture"
        return unknown(why, "take HQD dumps while the program runs (debugfs kfd/hqds)", counts)
    values = user["quantum"].unique().sort()
    off = user.filter((pl.col("quantum") & _ENABLED) == 0)
    counts |= {"without_quantum": off.height, "different_quanta": values.len()}
    said = f"{user.height} active compute slots, quantum {', '.join(f'{v:#x}' for v in values)}"
    return failed(f"{said}; {off.height} have none enabled", counts) if off.height else passed(said, counts)


CLAIM = Claim("hqd_quantum", "every active compute queue has an enabled quantum in its HQD", ("hqd",), judge)
