"""Verdicts on clocks and losses: are the tables complete, on one clock, and in causal order?"""

from __future__ import annotations

import polars as pl

from tracecorr.analyze.clocks import WIDTH_NS
from tracecorr.analyze.evidence import HAS_NO_HEAD, Evidence, summarize_unaccounted
from tracecorr.analyze.values import collect, count_of, render_ns
from tracecorr.analyze.verdicts.model import Finding, always, claim, failed, has_several_clocks, passed, unknown
from tracecorr.clock.fit import Refuted, find_refuted
from tracecorr.store.recording import FAILED, name_state


@claim(
    "nothing_lost",
    "no source lost a record, and every byte of every file is accounted for",
    concerns=always,
)
def _nothing_lost(evidence: Evidence) -> Finding:
    """Add up the losses that the sources report, and the bytes that no reader accounts for."""
    losses = evidence.tables("losses").collect()
    ledger = evidence.tables("ledger")
    unaccounted = summarize_unaccounted(ledger, evidence.tables("files"))
    # Skipped lines are mostly no records: text of the program, blank lines.
    used = ledger.filter(pl.col("outcome").cast(pl.String) == "used")
    read = used.select(pl.col("records").sum()).collect().item() or 0
    counts = {
        "records_read": int(read), "loss_spans": losses.height, "records_lost": int(losses["count"].sum() or 0),
        "unaccounted_files": unaccounted.height,
    }  # fmt: skip
    if losses.height or unaccounted.height:
        return failed(_describe(losses, unaccounted.height), counts | _count_spans(losses))
    if not read:
        return unknown("nothing was read", "record a HIP log or a kernel trace", counts)
    if evidence.info.get("state") == "killed":
        # No source shows what was left in the buffers.
        reason = f"{read} records were read; the capture was killed, and what it had not stored is missing"
        return unknown(reason, "capture again, and let the capture end: Ctrl-C, not kill -9", counts)
    if evidence.info.get("state") == FAILED:
        reason = f"{read} records were read; {name_state(evidence.info)}, and what it had not stored is missing"
        return unknown(reason, "remove the cause, and capture again", counts)
    return passed(f"{read} records were read, no source reports a loss", counts)


def _describe(losses: pl.DataFrame, unaccounted: int) -> str:
    """Return what was lost; the unknown part before a log's first line is a sentence of its own."""
    late = losses.filter(HAS_NO_HEAD).height
    if not late:
        return _describe_spans(losses, unaccounted)
    logs = count_of(late, "HIP logs begin", "HIP log begins")
    head = f"{logs} in the middle of the run: what was printed before the first line is missing"
    losses = losses.filter(~HAS_NO_HEAD)
    if losses.is_empty() and not unaccounted:
        return f"{head}; after that no source reports a loss"
    return f"{head}; {_describe_spans(losses, unaccounted)}"


def _describe_spans(losses: pl.DataFrame, unaccounted: int) -> str:
    files = count_of(unaccounted, "files are", "file is")
    return f"{_describe_records(losses)}, {files} not accounted for"


def _count_spans(losses: pl.DataFrame) -> dict[str, int]:
    """Return how many spans have an unknown number of lost records, and how many logs begin in the middle."""
    counts = {"spans_of_unknown_number": losses["count"].null_count(), "late_logs": losses.filter(HAS_NO_HEAD).height}
    return {name: count for name, count in counts.items() if count}


def _describe_records(losses: pl.DataFrame) -> str:
    untold, total = losses["count"].null_count(), int(losses["count"].sum() or 0)
    if untold and not total:
        spans = count_of(untold, "span") if untold == losses.height else f"{untold} of {losses.height} spans"
        return f"records were lost in {spans}, their number is unknown"
    if losses.height and not total:
        return f"no whole record was lost, but parts of some in {count_of(losses.height, 'span')}"
    more = f" (and those of {count_of(untold, 'span')} of unknown number)" if untold else ""
    # The log does not report losses: they are counted by the gaps that they leave.
    of_log = losses.filter(pl.col("source").cast(pl.String) == "amd_log")["count"].sum()
    lost = count_of(total, "records were", "record was")
    return f"{'at least ' if of_log else ''}{lost} lost{more}"


@claim(
    "clock_aligned",
    "all clocks are mapped within `clock_error_ns` (default 100 us), nothing contradicts it",
    concerns=has_several_clocks,
)
def _clock_aligned(evidence: Evidence) -> Finding:
    """Check the clock maps: their method, their width, and contradictions."""
    limit = evidence.thresholds.clock_error_ns
    maps = evidence.tables("clock_map").with_columns(pl.col(pl.Categorical).cast(pl.String)).collect()
    maps = maps.with_columns(width=WIDTH_NS)
    lost = maps.filter(pl.col("method") == "unaligned")
    trace = maps.filter(~pl.col("source").str.starts_with("amd_log:mono"))
    unproven = trace.filter((pl.col("method") == "same_clock") & (pl.col("pairs") == 0))
    far = _list_far(evidence, maps, limit)
    wide = maps.filter((pl.col("width") > limit) & ~pl.col("source").is_in(far))
    counts = {
        "clocks": maps["source"].n_unique(), "unaligned": lost.height, "unproven": unproven.height,
        "wider_than_limit": wide.height,
        "contradictions": int(maps["violated"].sum() or 0), "pairs": int(maps["pairs"].sum() or 0), "limit_ns": limit,
    }  # fmt: skip
    if far:
        counts["wide_outside_the_trace"] = len(far)
    if lost.height and counts["clocks"] > 1:
        return failed(f"unaligned: {', '.join(lost['source'].unique(maintain_order=True))}", counts)
    refuted = find_refuted(maps)
    if refuted:
        counts[f"beside_{refuted.name.removeprefix('CLOCK_').lower()}_ns"] = refuted.beside_ns
        return failed(_describe_refuted(refuted), counts)
    if counts["contradictions"]:
        return failed(f"{counts['contradictions']} clock samples or pairs contradict the maps", counts)
    if wide.height:
        return failed(_name_wide(maps.filter(~pl.col("source").is_in(far)), limit), counts)
    if counts["clocks"] < 2:
        return unknown("there is only one clock: nothing to align", "record log and kernel trace of one run", counts)
    if unproven.height:
        return unknown(
            f"{', '.join(unproven['source'])} is assumed to be CLOCK_MONOTONIC, but no mark or pair proves it",
            "record clock samples (clock.json) or the doorbell probe", counts,
        )  # fmt: skip
    near = maps.filter(~pl.col("source").is_in(far))
    widest = max(near["width"].fill_null(0).to_list())
    said = f"{counts['clocks']} clocks, the widest error is {render_ns(widest)}"
    return passed(said + _describe_far(maps, far), counts)


def _describe_refuted(refuted: Refuted) -> str:
    way = "-" if refuted.beside_ns < 0 else "+"
    difference = f"{way}{render_ns(abs(refuted.beside_ns))}"
    return (
        f"the kernel trace was said to be on {refuted.name}, but differs from it by {difference}: import it with the "
        "clock that it was recorded with"
    )


def _list_far(evidence: Evidence, maps: pl.DataFrame, limit: int) -> list[str]:
    """Return the clocks of log lines that are wider than the limit only at times before or after the kernel trace.

    A process that is attached to may have logged for hours before the first clock sample, and a kernel log begins at
    the boot. Nothing is linked by those times.
    """
    wide = maps.filter((pl.col("width") > limit) & pl.col("source").is_in(list(_OF_LINES)))
    sources = wide["source"].unique(maintain_order=True).to_list()
    if not sources or not evidence.trace_aligned:
        return []
    events = evidence.tables("events").with_columns(pl.col("source").cast(pl.String))
    low, high = collect(
        events.filter(pl.col("source") == "ftrace").select(low=pl.col("ts_ns").min(), high=pl.col("ts_ns").max())
    ).row(0)
    if low is None:
        return []
    error = pl.col("err_lo_ns").cast(pl.Int64) + pl.col("err_hi_ns").cast(pl.Int64)
    shown = events.filter(pl.col("ts_ns").is_between(low, high) & (error > limit))
    near = collect(shown.select(pl.col("source").unique()))["source"].to_list()
    return [source for source in sources if _OF_LINES[source] not in near]


def _describe_far(maps: pl.DataFrame, far: list[str]) -> str:
    if not far:
        return ""
    widths = maps.filter(pl.col("source").is_in(far)).group_by("source", maintain_order=True).agg(pl.col("width").max())
    told = ", ".join(f"{source} only to {render_ns(width)}" for source, width in widths.iter_rows())
    return f"; {told} at times outside of the trace"


def _name_wide(maps: pl.DataFrame, limit: int) -> str:
    """Return which clocks are wider than the limit, and the width of the others."""
    widths = maps.group_by("source", maintain_order=True).agg(pl.col("width").max())
    wide = widths.filter(pl.col("width") > limit)
    # The others are mapped to the log's clock.
    narrow = widths.filter((pl.col("width") <= limit) & (pl.col("source") != "amd_log:mono"))
    told = ", ".join(
        f"{source} ({_OF_GPU if source == 'amd_log:boot' else ''}{render_ns(width)})"
        for source, width in wide.iter_rows()
    )
    rest = f"; all others are within {render_ns(int(narrow['width'].max()))}" if narrow.height else ""  # type: ignore[arg-type]
    return f"the error of {told} is wider than {render_ns(limit)}{rest}"


# Only `Signal =` lines of the log have times on CLOCK_BOOTTIME: those of the GPU.
_OF_GPU = "the log's GPU times, "
# The clocks of log lines that may stand far outside of the trace, and the source of their events.
_OF_LINES = {"amd_log:mono_raw": "amd_log", "kernel_log:printk": "kernel_log"}


@claim(
    "causality",
    "no effect comes before its cause by more than the error of both times",
    concerns=has_several_clocks,
)
def _causality(evidence: Evidence) -> Finding:
    """Look for links whose gap is negative beyond its error.

    Not judged are lines printed after the effect: a barrier's line follows its store, so that its packet may even be
    complete, and the command of a graph launch follows its packets. Nor are rocprof's GPU times: a running queue may
    take a packet before its line is printed.
    """
    barriers = evidence.packets.filter(pl.col("kind") != "dispatch").select(from_event="event", barrier=pl.lit(True))
    links = evidence.tables("links").select("from_event", "to_event", "rule", "gap_ns", "gap_err_ns")
    tasks = evidence.tables("events").filter(pl.col("name") == "Task")
    tasks = tasks.select(from_event="event", task=pl.lit(True))
    of_barrier = ["doorbell_of_packet", "gpu_time_of_signal", "completion_of_packet"]
    late_lines = pl.col("rule").is_in(of_barrier) & pl.col("barrier").fill_null(False)
    late_lines |= (pl.col("rule") == "packet_of_command") & pl.col("task").fill_null(False)
    late_lines |= pl.col("rule") == "rocprof_of_packet"
    judged = links.join(barriers, on="from_event", how="left").join(tasks, on="from_event", how="left")
    judged = judged.with_columns(late=late_lines)
    bounded = pl.col("gap_err_ns").is_not_null() & ~pl.col("late")
    broken = bounded & (pl.col("gap_ns") + pl.col("gap_err_ns") < 0)
    rows = collect(
        judged.select(
            links=pl.len(), checked=bounded.sum(), not_judged=pl.col("late").sum(), broken=broken.sum(),
            worst_ns=pl.col("gap_ns").filter(broken).min(), events=pl.col("to_event").filter(broken).head(20).implode(),
        )
    ).row(0, named=True)  # fmt: skip
    counts = {name: int(rows[name] or 0) for name in ("links", "checked", "not_judged", "broken")}
    if counts["broken"]:
        said = f"{counts['broken']} of {counts['checked']} effects come before their cause"
        said += f", by up to {-rows['worst_ns']} ns"
        return failed(said, counts, pl.Series(rows["events"], dtype=pl.Int64))
    if not counts["checked"]:
        return unknown("no link has two times of known error", "record log and kernel trace of one run", counts)
    return passed(f"none of {counts['checked']} effects comes before its cause beyond the error", counts)


CLAIMS = (_nothing_lost, _clock_aligned, _causality)
