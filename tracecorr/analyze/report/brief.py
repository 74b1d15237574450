"""The report of one screen: what was open, what failed, what does not hold, then queues, latencies and losses."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import polars as pl

from tracecorr.analyze.evidence import Evidence, summarize_losses
from tracecorr.analyze.report.answers import WENT_WRONG, Report
from tracecorr.analyze.report.markdown import describe_summary, render_section, render_table
from tracecorr.analyze.report.sections import GLOSSARY
from tracecorr.analyze.values import collect, count_of, render_ns
from tracecorr.analyze.verdicts import CLAIMS, Verdict, judge_capture
from tracecorr.model.errors import InputError

# Rows of a table and lines of an answer, so that all fits on one screen.
ROWS, _LINES = 8, 5
# What the run hung in is shown in full.
_FIRST_LINES = 12
_TEXT = 160
_QUEUES = ("queue", "process", "type", "priority_hip", "dispatches", "barriers", "stream_ids", "hwq")
_LATENCY = ("stage", "packets", "p50_ns", "p95_ns", "max_ns", "error_ns")
_KERNELS, _MOST_KERNELS = ("name", "dispatches", "named", "gpu_mean_ns"), 4
_COUNTERS = ("kernel", "counter", "dispatches", "total")
# What a source tells where no HIP log does: its section, and the columns of it.
_WITHOUT_LOG = {
    "rocprof": (("rocprof", ("domain", "name", "calls", "total_ns", "mean_ns")), ("counters", _COUNTERS)),
    "ftrace": (
        ("ioctls", ("name", "calls", "errors", "total_ns", "max_ns")),
        ("driver_events", ("layer", "name", "rows", "total_ns", "max_ns")),
    ),
}
# The way of a dispatch, in the order of its stages.
_STAGES = (
    "call to packet", "packet to doorbell", "call to doorbell", "doorbell to GPU start", "GPU start to GPU end",
    "doorbell to return", "packet to observed completion",
)  # fmt: skip
_NEEDED = {
    "amd_log": "No AMD log: HIP calls and packets are unknown; import it with --amd-log.",
    "ftrace": "No ftrace: ioctls and driver functions are unknown; import it with --ftrace.",
}
# Processes that are named.
_NAMED = 4
_OUTCOMES = ("FAIL", "UNKNOWN", "PASS")


def render_brief(report: Report, rows: int = ROWS) -> str:
    """Return the report of one screen (Markdown).

    Args:
        report: all of it.
        rows: of each table at most; further ones are counted.
    """
    return "\n".join((*_head(report), *_failed(report), *_tables(report, rows), *_end(report))) + "\n"


def render_sections(report: Report, keys: list[str], rows: int | None = None) -> str:
    """Return some sections whole (Markdown).

    Args:
        report: all of it.
        keys: names of the sections, as the JSON report has them.
        rows: of each table at most; all if None.

    Raises:
        InputError: there is no such section.
    """
    known = {section.key: section for section in report.sections}
    for key in keys:
        if key not in known:
            raise InputError(f"a report has no section {key!r}", f"its sections are: {', '.join(known)}")
    return "\n".join(line for key in keys for line in render_section(known[key], rows))


def describe_contents(evidence: Evidence) -> Iterator[str]:
    """Yield what a capture holds, one fact a line: duration, processes, dispatches, queues, verdicts, losses."""
    tables = evidence.tables
    span = collect(tables("events").select(pl.col("ts_ns").max() - pl.col("ts_ns").min())).item()
    if span is not None:
        yield f"duration: {render_ns(span)}, from the first event to the last"
    processes = collect(tables("processes").select("pid", pl.col("comm").cast(pl.String)).unique(maintain_order=True))
    names = [f"{comm or 'unnamed'} {pid or ''}".strip() for pid, comm in processes.sort("pid").iter_rows()]
    more = f", and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    yield f"processes: {len(names)}" + (f" ({', '.join(names[:_NAMED])}{more})" if names else "")
    kinds = collect(tables("launches").select((pl.col("kind").cast(pl.String) == "dispatch").sum(), packets=pl.len()))
    yield f"dispatches: {kinds.item(0, 0)}, of {count_of(kinds.item(0, 1), 'packets and copies', 'packet or copy')}"
    yield f"queues: {collect(tables('queues').select(pl.len())).item()}"
    yield f"verdicts: {_count_outcomes(judge_capture(evidence))}"
    lost = summarize_losses(tables("losses"))
    untold = int(lost["untold"].sum())
    some = f", and those of {count_of(untold, 'span')} of unknown number" if untold else ""
    yield f"records lost: {int(lost['lost'].sum() or 0)}{some}"


def _count_outcomes(verdicts: Iterable[Verdict]) -> str:
    """Return how many verdicts have which outcome, with the names of those that fail."""
    found = list(verdicts)
    counts = {outcome: sum(v.outcome == outcome for v in found) for outcome in _OUTCOMES}
    told = [f"{count} {outcome}" for outcome, count in counts.items() if count]
    failed = [verdict.name for verdict in found if verdict.outcome == "FAIL"]
    told[:1] = [f"{told[0]} ({', '.join(failed)})"] if failed else told[:1]
    return ", ".join(told) or "none"


def explain_word(word: str) -> str:
    """Return what a word of reports means, or what a verdict claims.

    Raises:
        InputError: reports explain no such word.
    """
    words = {term.strip(): meaning for terms, meaning in GLOSSARY.items() for term in terms.split(",")}
    words |= {claim.name: claim.text for claim in CLAIMS}
    if word not in words:
        raise InputError(f"reports do not explain {word!r}", f"they explain: {', '.join(words)}")
    return f"{word}: {words[word]}"


def _head(report: Report) -> Iterator[str]:
    yield f"# {report.name}\n"
    yield from (f"{line}\n" for line in report.run if line.startswith("about: "))
    facts = list(describe_summary(report))
    told = [facts[1], *(facts[2:3] if "amd_log" in report.summary["sources"] else ())]
    yield "; ".join([*told, *(fact for fact in facts if fact.startswith("rocprof:"))]) + "\n"
    for source, needed in _NEEDED.items():
        if source not in report.summary["sources"]:
            yield f"{needed}\n"


def _failed(report: Report) -> Iterator[str]:
    """Yield what was open, what went wrong, and what was found: failed verdicts, shared queues, the slowest call."""
    for answer in report.answers:
        if answer.is_first or answer.question == WENT_WRONG:
            yield f"**{answer.question}**\n"
            most = _FIRST_LINES if answer.is_first else _LINES
            yield from (f"- {line if answer.is_first else _cut(line)}" for line in answer.lines[:most])
            if len(answer.lines) > most:
                yield f"- ... and {len(answer.lines) - most} more"
            yield ""
    found = [f"FAIL `{v.name}`: {_cut(v.finding.reason)}" for v in report.verdicts if v.outcome == "FAIL"]
    found += [answer.finding for answer in report.answers if answer.finding]
    slow = next(section.frame for section in report.sections if section.key == "slow_calls")
    found += [
        f"slowest call: event {call}, {text}" for call, text in slow.select("call_event", "summary").head(1).iter_rows()
    ]
    if found:
        yield "**Findings**\n"
        yield from (f"- {line}" for line in found)
        yield ""


def _tables(report: Report, rows: int) -> Iterator[str]:
    sections, sources = {section.key: section for section in report.sections}, report.summary["sources"]
    has_log = "amd_log" in sources
    for source, told in _WITHOUT_LOG.items():
        for key, columns in told if source in sources and not has_log else ():
            yield from _table(sections[key].title, sections[key].frame, columns, rows)
    # Of other queues only the ioctl that made them is known.
    known = pl.col("type").is_not_null() | (pl.col("dispatches") > 0)
    queues = sections["queues"].frame.filter(known | (known.any().not_() & has_log))
    queues = queues.sort("dispatches", descending=True, nulls_last=True, maintain_order=True)
    yield from _table("Queues", queues, _QUEUES, rows)
    if has_log:
        yield from _table("Kernels", sections["kernels"].frame, _KERNELS, min(rows, _MOST_KERNELS))
        yield from _table(sections["counters"].title, sections["counters"].frame, _COUNTERS, rows)
    latency = sections["latency"]
    if not latency.frame.is_empty():
        order = {stage: rank for rank, stage in enumerate(_STAGES)}
        way = latency.frame.filter((pl.col("kind") == "dispatch") & pl.col("stage").is_in(_STAGES))
        ranked = way.sort(pl.col("stage").replace_strict(order, default=None), maintain_order=True)
        yield from _table("Dispatches, stage by stage", ranked, _LATENCY, rows)


def _table(title: str, frame: pl.DataFrame, columns: tuple[str, ...], rows: int) -> Iterator[str]:
    if frame.is_empty():
        return
    yield f"**{title}**\n"
    told = frame.select(c for c in columns if c in frame.columns)
    # A column of zeros says nothing.
    idle = [c for c in ("named", "errors") if c in told.columns and not told[c].sum()]
    yield render_table(told.drop(idle), rows)
    yield ""


def _end(report: Report) -> Iterator[str]:
    counts = {outcome: sum(v.outcome == outcome for v in report.verdicts) for outcome in _OUTCOMES}
    told = ", ".join(f"{count} {outcome}" for outcome, count in counts.items() if count)
    yield f"Verdicts: {told or 'none'}. " + ". ".join(_cut(line) for line in _last_facts(report)) + "."
    yield f"\nAll {count_of(len(report.sections), 'section')}: --full, one: --section NAME. Words: --explain WORD."


def _last_facts(report: Report) -> list[str]:
    """Return the lines on clocks and losses."""
    told = [line for line in describe_summary(report) if line.startswith(("clocks:", "records lost:"))]
    return [line[0].upper() + line[1:] for line in told]


def _cut(text: str) -> str:
    return text if len(text) <= _TEXT else f"{text[: _TEXT - 3]}..."
