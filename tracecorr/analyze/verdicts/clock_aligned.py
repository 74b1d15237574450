"""Are all sources on one clock, and is that proven?"""

from __future__ import annotations

import polars as pl

from tracecorr.analyze.clocks import WIDTH_NS
from tracecorr.analyze.frames import collect
from tracecorr.analyze.values import render_ns
from tracecorr.analyze.verdicts.evidence import Evidence
from tracecorr.analyze.verdicts.model import Claim, Finding, failed, has_several_clocks, passed, unknown
from tracecorr.clock.refuted import Refuted, find_refuted


def judge(evidence: Evidence) -> Finding:
    """Look at the clock maps: their method, their width, what contradicts them."""
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
            f"{', '.join(unproven['source'])} is taken as CLOCK_MONOTONIC, but no mark or pair proves it",
            "record clock samples (clock.json) or the doorbell probe", counts,
        )  # fmt: skip
    near = maps.filter(~pl.col("source").is_in(far))
    widest = max(near["width"].fill_null(0).to_list())
    said = f"{counts['clocks']} clocks, the widest error is {render_ns(widest)}"
    return passed(said + _describe_far(maps, far), counts)


def _describe_refuted(refuted: Refuted) -> str:
    way = "-" if refuted.beside_ns < 0 else "+"
    return (
        f"the kernel trace was said to be on {refuted.name}, but runs {way}{render_ns(abs(refuted.beside_ns))} beside "
        "it: import it with the clock that it was recorded with"
    )


def _list_far(evidence: Evidence, maps: pl.DataFrame, limit: int) -> list[str]:
    """Return the clock of ROCr's lines where it is wider than the limit only at times that no kernel trace shows.

    A process that is attached to may have logged for hours before the first clock sample. Nothing is linked by those
    times: what they would be linked to is not recorded.
    """
    wide = maps.filter((pl.col("width") > limit) & (pl.col("source") == _OF_ROCR))
    sources = wide["source"].unique().to_list()
    if not sources or not evidence.trace_aligned:
        return []
    events = evidence.tables("events").with_columns(pl.col("source").cast(pl.String))
    low, high = collect(
        events.filter(pl.col("source") == "ftrace").select(low=pl.col("ts_ns").min(), high=pl.col("ts_ns").max())
    ).row(0)
    if low is None:
        return []
    error = pl.col("err_lo_ns").cast(pl.Int64) + pl.col("err_hi_ns").cast(pl.Int64)
    shown = events.filter((pl.col("source") == "amd_log") & pl.col("ts_ns").is_between(low, high))
    is_near = bool(collect(shown.select((error > limit).any())).item())
    return [] if is_near else sources


def _describe_far(maps: pl.DataFrame, far: list[str]) -> str:
    if not far:
        return ""
    widths = maps.filter(pl.col("source").is_in(far)).group_by("source", maintain_order=True).agg(pl.col("width").max())
    told = ", ".join(f"{source} only to {render_ns(width)}" for source, width in widths.iter_rows())
    return f"; {told} where none of its lines is of the time of the trace"


def _name_wide(maps: pl.DataFrame, limit: int) -> str:
    """Return which clocks are wider than the limit, and by how well the others are known."""
    widths = maps.group_by("source", maintain_order=True).agg(pl.col("width").max())
    wide = widths.filter(pl.col("width") > limit)
    # The log is what the others are mapped to.
    narrow = widths.filter((pl.col("width") <= limit) & (pl.col("source") != "amd_log:mono"))
    told = ", ".join(
        f"{source} ({_OF_GPU if source == 'amd_log:boot' else ''}{render_ns(width)})"
        for source, width in wide.iter_rows()
    )
    rest = f"; all others are known to {render_ns(int(narrow['width'].max()))}" if narrow.height else ""  # type: ignore[arg-type]
    return f"the error of {told} is wider than {render_ns(limit)}{rest}"


# `Signal =` lines of the log tell GPU times on CLOCK_BOOTTIME, nothing else does.
_OF_GPU = "the log's GPU times, "
_OF_ROCR = "amd_log:mono_raw"

CLAIM = Claim(
    "clock_aligned", "all clocks are mapped within `clock_error_ns` (default 100 us), nothing contradicts it",
    (), judge, has_several_clocks,
)  # fmt: skip
