"""What went wrong?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import polars as pl

from tracecorr.analyze.coverage import list_partial
from tracecorr.analyze.frames import Tables, as_text, collect
from tracecorr.analyze.values import count_of
from tracecorr.analyze.verdicts.evidence import Evidence
from tracecorr.analyze.words import Answer
from tracecorr.model.results import is_failed
from tracecorr.store.recording import describe_exit

_MAX_LINES, _MAX_TEXT = 8, 160
# The runtime prints it when a process ends, in most runs, and nothing is wrong (ROCclr's rocdevice.cpp).
_HARMLESS = "unknown_event"
# ROCm 7.2 prints it at the launch of a graph for which it has made no further streams; one that runs on the stream of
# its launch needs none.
_NO_STREAMS = "graph_streams_missing"


def explain_failures(evidence: Evidence) -> Iterator[Answer]:
    """Yield the answer to what went wrong, where something did.

    That is what the capture could not do, the workload's exit status, errors of the runtime, and calls and ioctls that
    failed.
    """
    told = evidence.complaints.filter(pl.col("name") != _HARMLESS)
    failed = summarize_failures(evidence.tables("events"))
    calls, ioctls = (failed.filter(pl.col("layer") == layer) for layer in ("hip", "ioctl"))
    status = describe_exit(evidence.info)
    lines = list(_describe_problems(evidence))
    lines += [f"the workload ended with status {status}"] if status not in ("", "0") else []
    needless = _NO_STREAMS if _run_on_one_stream(evidence.tables) else None
    lines += [_describe_complaint(row, needless) for row in told.head(_MAX_LINES).iter_rows(named=True)]
    if told.height > _MAX_LINES:
        lines.append(f"... and {told.height - _MAX_LINES} more messages: section Errors and warnings of the runtime")
    lines += [
        f"{row['name']} returned {row['result']} {_times(row['times'])} (first: event {row['first_event']})"
        for row in calls.head(_MAX_LINES).iter_rows(named=True)
    ]
    if calls.height > _MAX_LINES:
        lines.append(f"... and {calls.height - _MAX_LINES} more: section HIP calls counts the errors of each")
    if ioctls.height:
        kinds = ioctls.group_by("result").agg(pl.col("times").sum()).sort("times", "result", descending=[True, False])
        results = ", ".join(f"{result} {_times(times)}" for result, times in kinds.iter_rows())
        lines.append(f"{count_of(int(ioctls['times'].sum()), 'ioctl')} failed: {results} (section Ioctls)")
    if lines:
        shown = (part["first_event"].head(_MAX_LINES) for part in (told, calls, ioctls))
        yield Answer("What went wrong?", tuple(lines), tuple(pl.concat(shown).to_list()))


def _describe_problems(evidence: Evidence) -> Iterator[str]:
    """Yield what the recording itself could not do, a capture that was killed first."""
    problems = [str(text) for text in evidence.info.get("problems") or []]
    yield from problems[:_MAX_LINES]
    if len(problems) > _MAX_LINES:
        yield f"... and {len(problems) - _MAX_LINES} more problems of the capture: tracecorr info"
    # Where the trace covers less than the log because of it, what is missing there is no finding.
    if problems:
        yield from list_partial(evidence)


def _run_on_one_stream(tables: Tables) -> bool:
    """Tell whether the log says that no graph ran on more than one stream (from level 4 on)."""
    graphs = tables("args").filter(pl.col("key").cast(pl.String) == "max_streams")
    return bool(collect(graphs.select(pl.col("u64").max()))["u64"].item() == 1)


def _describe_complaint(row: dict[str, Any], needless: str | None) -> str:
    """Return the line of a message; of the one named `needless` with why it tells of nothing wrong."""
    message = row["message"] if len(row["message"]) <= _MAX_TEXT else f"{row['message'][: _MAX_TEXT - 3]}..."
    call = f", in {row['call']}" if row["call"] else ""
    times = f"{row['severity']}, {_times(row['times'])}"
    if row["variants"] > 1:
        times += f" in {row['variants']} variants whose numbers differ, the first"
    why = "; each graph ran on one stream, so no others were needed" if row["name"] == needless else ""
    return f"the runtime's log has this {times}: {message} (first: event {row['first_event']}{call}){why}"


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number} times"


def summarize_failures(events: pl.LazyFrame) -> pl.DataFrame:
    """Return one row per layer, HIP call or ioctl, and result that is a failure, the most frequent first.

    Returns: layer (`hip` or `ioctl`), name, result, times, first_event.
    """
    # What a profiler timed again would count twice.
    logged = pl.col("source").cast(pl.String).ne_missing("rocprof")
    asked = events.filter(pl.col("layer").is_in(["hip", "ioctl"]) & logged)
    asked = asked.select("event", *as_text("layer", "name", "result"))
    failed = asked.filter(is_failed(pl.col("result")))
    counted = failed.group_by("layer", "name", "result").agg(
        times=pl.len().cast(pl.Int64), first_event=pl.col("event").min()
    )
    return collect(counted.sort(["layer", "times", "first_event"], descending=[False, True, False]))
