"""Are all sources on one clock, and is that proven?"""

from __future__ import annotations

import polars as pl

from tracecorr.analyze.values import render_ns
from tracecorr.analyze.verdicts.evidence import Evidence
from tracecorr.analyze.verdicts.model import Claim, Finding, failed, passed, unknown


def judge(evidence: Evidence) -> Finding:
    """Look at the clock maps: their method, their width, what contradicts them."""
    limit = evidence.thresholds.clock_error_ns
    maps = evidence.tables("clock_map").with_columns(pl.col(pl.Categorical).cast(pl.String)).collect()
    maps = maps.with_columns(width=pl.col("lo_ns") + pl.col("hi_ns"))
    lost = maps.filter(pl.col("method") == "unaligned")
    trace = maps.filter(~pl.col("source").str.starts_with("amd_log:mono"))
    unproven = trace.filter((pl.col("method") == "same_clock") & (pl.col("pairs") == 0))
    wide = maps.filter(pl.col("width") > limit)
    counts = {
        "clocks": maps["source"].n_unique(), "unaligned": lost.height, "unproven": unproven.height,
        "wider_than_limit": wide.height,
        "contradictions": int(maps["violated"].sum() or 0), "pairs": int(maps["pairs"].sum() or 0), "limit_ns": limit,
    }  # fmt: skip
    if lost.height and counts["clocks"] > 1:
        return failed(f"unaligned: {', '.join(lost['source'].unique(maintain_order=True))}", counts)
    if counts["contradictions"]:
        return failed(f"{counts['contradictions']} clock samples or pairs contradict the maps", counts)
    if wide.height:
        return failed(_name_wide(maps, limit), counts)
    if counts["clocks"] < 2:
        return unknown("there is only one clock: nothing to align", "record log and kernel trace of one run", counts)
    if unproven.height:
        return unknown(
            f"{', '.join(unproven['source'])} is taken as CLOCK_MONOTONIC, but no mark or pair proves it",
            "record clock samples (clock.json) or the doorbell probe", counts,
        )  # fmt: skip
    widest = max(maps["width"].fill_null(0).to_list())
    return passed(f"{counts['clocks']} clocks, the widest error is {render_ns(widest)}", counts)


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

CLAIM = Claim(
    "clock_aligned", "all clocks are mapped within `clock_error_ns` (default 100 us), nothing contradicts it", (), judge
)
