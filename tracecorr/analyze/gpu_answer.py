"""The answer in words to how busy the GPUs were, and who was waiting."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import polars as pl

from tracecorr.analyze.gpu_busy import AT_LEAST, OF_PROFILE
from tracecorr.analyze.gpu_work import KERNELS
from tracecorr.analyze.hqd import gpu_id_text
from tracecorr.analyze.values import count_of, render_ns
from tracecorr.analyze.verdicts.evidence import Evidence

QUESTION = "How busy was the GPU, where was it idle, and who was waiting?"
_MAX_LINES = 12


def describe_busy(evidence: Evidence) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """Return the answer, one fact a line, and the packets that ended the longest gaps.

    Args:
        evidence: the tables of a capture.
    """
    nodes = evidence.parts if len(evidence.parts) > 1 else [("", evidence)]
    lines = [f"{f'node {node}, ' if node else ''}{line}" for node, part in nodes for line in _describe_gpus(part)]
    shown = lines[:_MAX_LINES]
    if len(lines) > len(shown):
        shown.append(f"... and {count_of(len(lines) - len(shown), 'more line')}: section How busy the GPUs were")
    events = [event for _, part in nodes for event in _longest(part.gpu_times.gaps)["event"]]
    return tuple(shown) or ("no kernel is recorded",), tuple(events)


def _describe_gpus(evidence: Evidence) -> Iterator[str]:
    gpus = evidence.tables("gpus").select("gpu", "gpu_id").collect().with_columns(gpu_id_text())
    busy = evidence.gpu_times.gpus.filter(pl.col("work") == KERNELS)
    gaps = _longest(evidence.gpu_times.gaps)
    for row in busy.join(gpus, on="gpu", how="left", maintain_order="left").iter_rows(named=True):
        whose = f"GPU {row['gpu_id']}" if row["gpu_id"] else row["agent"] or "GPU not known"
        yield f"{whose}: {_describe_time(row)}"
        if row["gaps"]:
            yield f"{whose}: {_describe_idle(row)}"
        same = (pl.col(key).eq_missing(pl.lit(row[key], gaps.schema[key])) for key in ("gpu", "agent"))
        yield from (f"{whose}: {_describe_gap(gap)}" for gap in gaps.filter(*same).iter_rows(named=True))


def _longest(gaps: pl.DataFrame) -> pl.DataFrame:
    return gaps.unique(["gpu", "agent"], keep="first", maintain_order=True)


def _describe_time(row: dict[str, Any]) -> str:
    """Return of how many kernels times are known, and how long any of them ran."""
    if not row["timed"]:
        return f"none of {count_of(row['packets'], 'kernels', 'kernel')} has GPU times: how busy it was is not known"
    of_profile, least = row["figures"] == OF_PROFILE, "at least " if row["figures"] == AT_LEAST else ""
    told = f"{row['timed']} of the profile" if of_profile else f"{row['timed']} of {row['packets']}"
    share = f" ({least}{row['share']} %)" if row["share"] is not None else ""
    busy = f"busy {least}{render_ns(row['busy_ns'])} of {render_ns(row['span_ns'])}{share}"
    idle = "; when it was idle is not known, others may have run" if least else ""
    return f"kernels with GPU times: {told}, from {row['from_ns'] / 1e9:.6f} s on; {busy}{idle}"


def _describe_idle(row: dict[str, Any]) -> str:
    told = (
        f"idle {count_of(row['gaps'], 'times', 'time')} between kernels, {render_ns(row['idle_ns'])} in total (median "
        f"{render_ns(row['idle_p50_ns'])}, longest {render_ns(row['idle_max_ns'])})"
    )
    asked = "kernel was asked for" if row["figures"] == OF_PROFILE else "packet was written"
    waits = ((row["unsubmitted_ns"], f"before the next {asked}"),
             (row["in_ring_ns"], "after the doorbell of the next packet had been rung"))  # fmt: skip
    parts = [f"{render_ns(ns)} {when}" for ns, when in waits if ns is not None]
    return f"{told}; {' and '.join(parts) or 'who waited is not known'}"


def _describe_gap(gap: dict[str, Any]) -> str:
    """Return where the longest gap was, and what its end waited for."""
    told = f"longest gap: {render_ns(gap['idle_ns'])} from {gap['from_ns'] / 1e9:.6f} s on, until "
    told += f"{gap['kernel'] or 'a kernel'} (event {gap['event']})" + (f" of {gap['call']}" if gap["call"] else "")
    if gap["unsubmitted_ns"] is None:
        return told
    if not gap["unsubmitted_ns"]:
        return f"{told}, which had been submitted before"
    inside = f"longest in {gap['host_call']} ({render_ns(gap['in_it_ns'])})" if gap["host_call"] else ""
    outside = f"{render_ns(gap['outside_ns'])} outside of HIP calls" if gap["outside_ns"] is not None else ""
    spent = " and ".join(filter(None, (inside, outside)))
    where = f"; until then its thread was {spent}" if spent else ""
    return f"{told}, which was submitted {render_ns(gap['unsubmitted_ns'])} after the gap began{where}"
