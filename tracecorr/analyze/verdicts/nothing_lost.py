"""Did any source lose records?"""

from __future__ import annotations

import polars as pl

from tracecorr.analyze.ledger import summarize_unaccounted
from tracecorr.analyze.losses import LACKS_HEAD
from tracecorr.analyze.values import count_of
from tracecorr.analyze.verdicts.evidence import Evidence
from tracecorr.analyze.verdicts.model import Claim, Finding, always, failed, passed, unknown
from tracecorr.store.recording import FAILED, name_state


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
        return failed(_describe(losses, unaccounted.height), counts | _count_untold(losses) | _count_late(losses))
    if not read:
        return unknown("nothing was read", "record a HIP log or a kernel trace", counts)
    if evidence.info.get("state") == "killed":
        # No source can tell what lay in buffers that nobody read any more.
        reason = f"{read} records were read; the capture was killed, and what it had not stored is missing"
        return unknown(reason, "capture again, and let the capture end: Ctrl-C, not kill -9", counts)
    if evidence.info.get("state") == FAILED:
        reason = f"{read} records were read; {name_state(evidence.info)}, and what it had not stored is missing"
        return unknown(reason, "remove the cause, and capture again", counts)
    return passed(f"{read} records were read, no source reports a loss", counts)


def _describe(losses: pl.DataFrame, unaccounted: int) -> str:
    """Say what was lost, what lacks before a log's first line apart: nobody knows whether that is much."""
    late = _count_late(losses).get("late_logs", 0)
    head = ""
    if late:
        logs = count_of(late, "HIP logs begin", "HIP log begins")
        head = f"{logs} in the middle of the run: what was printed before the first line is not there"
        losses = losses.filter(~LACKS_HEAD)
        if losses.is_empty() and not unaccounted:
            return f"{head}; behind it no source reports a loss"
        head += "; "
    return head + _describe_spans(losses, unaccounted)


def _count_late(losses: pl.DataFrame) -> dict[str, int]:
    """Return how many logs begin in the middle of the run; nothing where none does."""
    late = losses.filter(LACKS_HEAD).height
    return {"late_logs": late} if late else {}


def _describe_spans(losses: pl.DataFrame, unaccounted: int) -> str:
    files = count_of(unaccounted, "files are", "file is")
    return f"{_describe_records(losses)}, {files} not accounted for"


def _describe_records(losses: pl.DataFrame) -> str:
    untold, total = losses["count"].null_count(), int(losses["count"].sum() or 0)
    if untold and not total:
        # Where bytes of no whole record were dropped their number is known: none.
        spans = count_of(untold, "span") if untold == losses.height else f"{untold} of {losses.height} spans"
        return f"records were lost in {spans}, and nobody knows how many"
    if losses.height and not total:
        return f"no whole record was lost, but parts of some in {count_of(losses.height, 'span')}"
    more = f" (and those of {count_of(untold, 'span')} of unknown number)" if untold else ""
    # What lacks of the log is counted by what shows that it lacks.
    of_log = losses.filter(pl.col("source").cast(pl.String) == "amd_log")["count"].sum()
    lost = count_of(total, "records were", "record was")
    return f"{'at least ' if of_log else ''}{lost} lost{more}"


def _count_untold(losses: pl.DataFrame) -> dict[str, int]:
    """Return how many spans tell no number of lost records; nothing where all do."""
    untold = losses["count"].null_count()
    return {"spans_of_unknown_number": untold} if untold else {}


CLAIM = Claim(
    "nothing_lost", "no source lost a record, and every byte of every file is accounted for", (), judge, always
)
