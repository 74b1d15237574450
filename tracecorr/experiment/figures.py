"""What the captured rounds say of preemption and load; a figure that nothing recorded is UNKNOWN, not zero."""

from __future__ import annotations

import polars as pl

from tracecorr.analyze.backlog import summarize_backlog
from tracecorr.analyze.frames import collect
from tracecorr.analyze.run_facts import list_armed
from tracecorr.model.sights import is_counted
from tracecorr.store import Capture

# What moves a queue off the GPU and back: names of driver functions and of SMI events.
_MOVES = {"evictions": r"(?i)evict", "suspends": r"(?i)suspend", "resumes and restores": r"(?i)resume|restore"}
_LAYERS = ("kfd", "mqd", "smi")
_POLLED = {
    "GPU busy": ("gpu_busy_percent", "%"),
    "memory busy": ("mem_busy_percent", "%"),
    "memory used": ("mem_info_vram_used", "bytes"),
}
_RECORDED = "recorded"
_NOT_ARMED = "UNKNOWN: no function of the driver and no SMI event of it was armed"


def count_moves(capture: Capture) -> pl.DataFrame:
    """Return one row per kind of move.

    Returns: what, n (null = UNKNOWN), first_ns, known (`recorded`, or why it is UNKNOWN).
    """
    events = capture.table("events").filter(pl.col("layer").cast(pl.String).is_in(_LAYERS) & is_counted())
    names = collect(events.select("ts_ns", "dur_ns", name=pl.col("name").cast(pl.String)))
    # An SMI row of an eviction lasts until the restore.
    ends = names.filter(pl.col("name").eq("QUEUE_EVICTION") & pl.col("dur_ns").is_not_null())
    ends = ends.with_columns(ts_ns=pl.col("ts_ns") + pl.col("dur_ns"), name=pl.lit("QUEUE_RESTORE"))
    names = pl.concat([names, ends])
    armed = list_armed(capture.info)
    smi = any(entry.get("form") == "smi" for entry in capture.info.get("files") or [])
    rows = []
    for what, pattern in _MOVES.items():
        found = names.filter(pl.col("name").str.contains(pattern))
        seen = smi or any(pl.Series([name]).str.contains(pattern).item() for name in armed)
        known = _RECORDED if seen or len(found) else _NOT_ARMED
        rows.append((what, len(found) if known == _RECORDED else None, found["ts_ns"].min(), known))
    return pl.DataFrame(
        rows, schema={"what": pl.String, "n": pl.Int64, "first_ns": pl.Int64, "known": pl.String}, orient="row"
    )


def summarize_load(capture: Capture) -> pl.DataFrame:
    """Return one row per figure of load and GPU or queue.

    Returns: figure, of (GPU or queue, null = UNKNOWN), unit, values (how many were recorded), mean, max, known.
    """
    parts = [_polled(capture, *told) for told in ((f, *names) for f, names in _POLLED.items())]
    return pl.concat([*parts, _ring_fill(capture)])


def _polled(capture: Capture, figure: str, name: str, unit: str) -> pl.DataFrame:
    samples = capture.table("samples").with_columns(pl.col("name").cast(pl.String))
    values = collect(
        samples.filter(pl.col("name").str.starts_with(name))
        .group_by(of=pl.coalesce(pl.format("GPU {}", "gpu"), "name"))
        .agg(values=pl.len().cast(pl.Int64), mean=pl.col("value").mean(), max=pl.col("value").max())
        .sort("of")
    )
    return _told(figure, unit, values, f"UNKNOWN: no card in sysfs shows {name}")


def _ring_fill(capture: Capture) -> pl.DataFrame:
    filled = summarize_backlog(capture.table("launches"), capture.table("queues")).drop_nulls("mean")
    share = 100 / pl.col("size")
    values = filled.filter(pl.col("size") > 0).select(
        of=pl.format("queue {}", "queue"), values="measured", mean=(pl.col("mean") * share).round(3),
        max=(pl.col("peak") * share).round(3),
    )  # fmt: skip
    return _told("ring filled", "%", values, "UNKNOWN: no packet of the log prints both indexes, or no ring its size")


def _told(figure: str, unit: str, values: pl.DataFrame, otherwise: str) -> pl.DataFrame:
    nothing = {"of": None, "values": 0, "mean": None, "max": None}
    shown = values if len(values) else pl.DataFrame([nothing])
    return shown.select(
        figure=pl.lit(figure), of=pl.col("of").cast(pl.String), unit=pl.lit(unit),
        values=pl.col("values").cast(pl.Int64), mean=pl.col("mean").cast(pl.Float64),
        max=pl.col("max").cast(pl.Float64),
        known=pl.lit(_RECORDED if len(values) else otherwise),
    )  # fmt: skip
