"""Did any source lose records?"""

from __future__ import annotations

import polars as pl

from tracecorr.analyze.ledger import summarize_unaccounted
from tracecorr.analyze.verdicts.evidence import Evidence
from tracecorr.analyze.verdicts.model import Claim, Finding, failed, passed, unknown


def judge(evidence: Evidence) -> Finding:
    """Add up what the sources say was lost; where a reader books it in the ledger, too, it is the same."""
    losses = evidence.tables("losses").collect()
    ledger = evidence.tables("ledger")
    unaccounted = summarize_unaccounted(ledger, evidence.tables("files"))
    # What is skipped is mostly no record: text of the program, blank lines.
    used = ledger.filter(pl.col("outcome").cast(pl.String) == "used")
    read = used.select(pl.col("records").sum()).collect().item() or 0
    counts = {
        "records_read": int(read), "loss_spans": losses.height, "records_lost": int(losses["count"].sum() or 0),
        "unaccounted_files": unaccounted.height,
    }  # fmt: skip
    if losses.height or unaccounted.height:
        untold = losses["count"].null_count()
        more = f" (and {untold} spans of unknown number)" if untold else ""
        return failed(
            f"{counts['records_lost']} records were lost{more}, {unaccounted.height} files are not accounted for",
            counts,
        )
    if not read:
        return unknown("nothing was read", "record a HIP log or a kernel trace", counts)
    if evidence.info.get("state") == "killed":
        # No source can tell what lay in buffers that nobody read any more.
        reason = f"{read} records were read; the capture was killed, and what it had not stored is missing"
        return unknown(reason, "capture again, and let the capture end: Ctrl-C, not kill -9", counts)
    return passed(f"{read} records were read, no source reports a loss", counts)


CLAIM = Claim("nothing_lost", "no source lost a record, and every byte of every file is accounted for", (), judge)
