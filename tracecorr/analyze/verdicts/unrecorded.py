"""Why do packets have no recorded doorbell store? Asked of each packet, from the interval in which its store lies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import polars as pl

from tracecorr.analyze.coverage import because
from tracecorr.analyze.frames import collect
from tracecorr.analyze.values import count_of, render_ns
from tracecorr.analyze.verdicts.evidence import Evidence
from tracecorr.analyze.verdicts.model import EARLIER, RECORD_WHOLE
from tracecorr.store.recording import list_late, measure_lateness, rings_doorbells

_BEFORE, _AFTER, _LATE, _LOST, _OPEN = (
    "before_the_trace", "after_the_trace", "before_the_probe", "in_lost_records", "without_known_cause",
)  # fmt: skip
# How the reason begins for which a recording began late or ended early -> what helps.
_SINCE = {
    "--delay": "capture with a shorter --delay, or none",
    "--start-on-signal": "send SIGUSR1 earlier, or capture without --start-on-signal",
    "the capture was attached": "start the program under tracecorr capture, not --pid",
    "": "start the kernel trace before the program",
}
_UNTIL = {
    "--duration": "capture with a longer --duration, or none",
    "the capture was killed": "capture again, and let the capture end: Ctrl-C, not kill -9",
    "the trace cannot be written": "make room on the disk where the capture lands, and capture again",
    "only": "make room on the disk where the capture lands, and capture again",
    "": "let the kernel trace last as long as the program",
}
ASK_EACH = "the column unlinked_reason of `launches` says why for each; start the probe before the program"
_FIRST, _LAST = -(2**63), 2**63 - 1
_TIMES = ("event", "process", "doorbell_lo_ns", "doorbell_hi_ns")


class Unrecorded(NamedTuple):
    """Hold how many packets have no recorded store for which cause, in words the largest first, and its remedy."""

    counts: dict[str, int]
    reason: str
    remedy: str


def explain_unrecorded(evidence: Evidence, is_bare: pl.Expr) -> Unrecorded | None:
    """Return why packets have no recorded doorbell; None where all have one, or there was no probe for doorbells.

    Args:
        evidence: the tables of a capture.
        is_bare: which rows of `launches` have none.
    """
    if not _was_probed(evidence):
        return None
    causes = collect(_name_causes(evidence, evidence.packets.filter(is_bare).select(_TIMES)))
    counted = causes.group_by("cause").len().sort(["len", "cause"], descending=[True, False])
    counts = {str(cause): int(number) for cause, number in counted.iter_rows()}
    if not counts:
        return None
    told = ", ".join(_describe(evidence, cause, number) for cause, number in counts.items())
    return Unrecorded(counts, told, _find_remedy(evidence, next(iter(counts))))


def _was_probed(evidence: Evidence) -> bool:
    late = (evidence.info.get("plan") or {}).get("late") or []
    return evidence.saw("doorbell", "doorbell") or any(rings_doorbells(entry) for entry in late)


def _name_causes(evidence: Evidence, packets: pl.LazyFrame) -> pl.LazyFrame:
    """Return `packets` with the cause of each: the first of those that its interval leaves no doubt about."""
    low, high = pl.col("doorbell_lo_ns"), pl.col("doorbell_hi_ns")
    span = evidence.coverage
    began, ended = (span.trace_from_ns, span.trace_to_ns) if span else (None, None)
    joined = packets.join(_probe_times(evidence).lazy(), on="process", how="left")
    cause = (
        pl.when(high < pl.lit(began, pl.Int64)).then(pl.lit(_BEFORE))
        .when(low > pl.lit(ended, pl.Int64)).then(pl.lit(_AFTER))
        .when(high < pl.col("probe_ns")).then(pl.lit(_LATE))
        .when(pl.col("event").is_in(_list_in_losses(evidence, packets).implode())).then(pl.lit(_LOST))
        .otherwise(pl.lit(_OPEN))
    )  # fmt: skip
    return joined.select("event", cause=cause)


def _probe_times(evidence: Evidence) -> pl.DataFrame:
    """Return for each process the moment up to which its doorbells were surely not probed: process, probe_ns.

    A library is probed once, when the first process maps it: of another process it is not known which one it uses.
    """
    late = _list_late(evidence)
    own = {int(entry["pid"]): int(entry["doorbells_ns"]) for entry in late if isinstance(entry.get("pid"), int)}
    earliest = min((int(entry["doorbells_ns"]) for entry in late), default=None)
    processes = evidence.tables("processes").select("process", "pid").collect()
    times = [own.get(pid, earliest) for pid in processes["pid"]]
    return processes.select("process", probe_ns=pl.Series(times, dtype=pl.Int64))


def _list_in_losses(evidence: Evidence, packets: pl.LazyFrame) -> pl.Series:
    """Return the packets whose store may lie where the trace lost records; an open side of a span bounds nothing."""
    losses = evidence.tables("losses").filter(pl.col("source").cast(pl.String) == "ftrace")
    spans = losses.select(pl.col("from_ns").fill_null(_FIRST), pl.col("to_ns").fill_null(_LAST))
    if evidence.info.get("state") == "killed":
        # Each CPU had a buffer of its own that nobody read any more.
        stored = evidence.tables("events").filter(pl.col("layer") == "doorbell")
        spans = pl.concat([spans, stored.select(from_ns=pl.col("ts_ns").max(), to_ns=pl.lit(_LAST, pl.Int64))])
    timed = packets.drop_nulls(["doorbell_lo_ns", "doorbell_hi_ns"])
    inside = timed.join_where(
        spans, pl.col("doorbell_lo_ns") <= pl.col("to_ns"), pl.col("doorbell_hi_ns") >= pl.col("from_ns")
    )
    return collect(inside.select("event").unique())["event"]


def _describe(evidence: Evidence, cause: str, number: int) -> str:
    if cause == _BEFORE:
        why = _tell_why(evidence, cause)
        begin = "the kernel trace began" if why else "the first record of the kernel trace"
        return f"{number} rang before {begin}{because(why)}"
    if cause == _AFTER:
        why = _tell_why(evidence, cause)
        end = "the kernel trace ended" if why else "the last record of the kernel trace"
        return f"{number} rang after {end}{because(why)}"
    if cause == _LATE:
        return f"{number} rang before the doorbell probe was set, {_describe_late(evidence)}"
    if cause == _LOST:
        return f"{number} rang where the kernel trace lost records"
    return f"of {count_of(number, 'packet')} no cause is known"


def _describe_late(evidence: Evidence) -> str:
    return f"{render_ns(max(map(measure_lateness, _list_late(evidence))))} after the library was seen to be mapped"


def _list_late(evidence: Evidence) -> list[Mapping[str, Any]]:
    return [entry for entry in list_late(evidence.info.get("plan") or {}) if rings_doorbells(entry)]


def _find_remedy(evidence: Evidence, cause: str) -> str:
    if cause in (_BEFORE, _AFTER):
        why, known = _tell_why(evidence, cause), _SINCE if cause == _BEFORE else _UNTIL
        return next(remedy for begin, remedy in known.items() if why.startswith(begin))
    return {_LATE: EARLIER, _LOST: RECORD_WHOLE, _OPEN: ASK_EACH}[cause]


def _tell_why(evidence: Evidence, cause: str) -> str:
    span = evidence.coverage
    return "" if span is None else span.began if cause == _BEFORE else span.ended
