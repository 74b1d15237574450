"""The time of the whole run: by layer, and by iterations of a sequence of kernels that repeats."""

from __future__ import annotations

import polars as pl

from tracecorr.analyze.frames import Tables, add_gaps, as_text, collect, percentile
from tracecorr.analyze.latency import LEAST_FOR_P99
from tracecorr.model.columns import is_counted

_LAYERS = ("hip", "hsa", "syscall", "ioctl", "kfd", "gpu")
# A sequence is at most so long, must come so often, and so many of all launches must follow it.
_MOST_KERNELS, _LEAST_TIMES, _LEAST_SHARE = 512, 5, 0.9


def summarize_layers(tables: Tables) -> pl.DataFrame:
    """Return one row per layer whose rows have durations: how much of the run it took.

    Returns: layer, rows, total_ns (what ran at once counts twice, so does what lies in each other), busy_ns (at least
        one row of the layer lasted), share (of the time from the first to the last event, percent).
    """
    events = tables("events").filter(is_counted())
    end = pl.col("ts_ns") + pl.col("dur_ns").fill_null(0)
    first, last = collect(events.select(first=pl.col("ts_ns").min(), last=end.max())).row(0)
    timed = events.filter(pl.col("layer").cast(pl.String).is_in(_LAYERS), pl.col("dur_ns").is_not_null())
    spans = collect(timed.select(*as_text("layer"), start_ns="ts_ns", end_ns=end))
    summed = add_gaps(spans, ["layer"]).group_by("layer").agg(
        rows=pl.len().cast(pl.Int64), total_ns=(pl.col("end_ns") - pl.col("start_ns")).sum(),
        busy_ns=pl.col("covered_ns").sum(),
    )  # fmt: skip
    run = (last or 0) - (first or 0)
    share = (100 * pl.col("busy_ns") / run).round(1) if run > 0 else pl.lit(None, pl.Float64)
    place = pl.col("layer").replace_strict({name: i for i, name in enumerate(_LAYERS)}, return_dtype=pl.Int64)
    return summed.with_columns(share=share).sort(place)


def summarize_iterations(tables: Tables) -> pl.DataFrame:
    """Return one row per process whose launches repeat a sequence of kernels.

    The period is the smallest number of launches after which the kernel is the same for nine launches of ten. An
    iteration goes from one launch of the sequence's rarest kernel to the next.

    Returns: process, launches, kernels (launches in an iteration), kernel (that begins it), iterations, mean_ns,
        p50_ns, p99_ns (null for fewer than 100 iterations), jitter_ns (p99 - p50), max_ns, longest (the launch that
        begins the longest one).
    """
    kind = pl.col("kind").cast(pl.String)
    rows = tables("launches").filter(kind == "dispatch").select("event", "process", "kernel", "packet_ns")
    names = collect(tables("kernels").select("kernel", name=pl.coalesce("display", "name")))
    found = collect(rows.drop_nulls(["kernel", "packet_ns"]).sort("packet_ns", "event"))
    parts = [_find_iterations(part) for part in found.partition_by("process", maintain_order=True)]
    told = [part for part in parts if part is not None]
    if not told:
        return _NONE.clone()
    named = pl.concat(told).join(names, on="kernel", how="left", maintain_order="left")
    return named.with_columns(kernel="name").select(_NONE.columns)


_NONE = pl.DataFrame(
    schema={
        "process": pl.UInt32, "launches": pl.Int64, "kernels": pl.Int64, "kernel": pl.String, "iterations": pl.Int64,
        "mean_ns": pl.Int64, "p50_ns": pl.Int64, "p99_ns": pl.Int64, "jitter_ns": pl.Int64, "max_ns": pl.Int64,
        "longest": pl.Int64,
    }
)  # fmt: skip


def _find_period(kernels: pl.Series) -> int | None:
    """Return after how many launches the sequence of kernels repeats; None if it does not.

    >>> _find_period(pl.Series([7, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2]))
    2
    """
    for period in range(1, min(_MOST_KERNELS, kernels.len() // _LEAST_TIMES) + 1):
        same = (kernels == kernels.shift(period)).sum()
        if same >= _LEAST_SHARE * (kernels.len() - period):
            return period
    return None


def _find_iterations(rows: pl.DataFrame) -> pl.DataFrame | None:
    period = _find_period(rows["kernel"])
    if period is None:
        return None
    # What comes once in each iteration begins it; of several the one that comes first.
    counts = rows["kernel"].value_counts().with_columns(far=(pl.col("count") - rows.height / period).abs())
    order = rows.unique("kernel", keep="first", maintain_order=True).with_row_index("place").select("kernel", "place")
    anchor = counts.join(order, on="kernel").sort("far", "place")["kernel"][0]
    starts = rows.filter(pl.col("kernel") == anchor)
    spans = starts.select(event="event", ns=pl.col("packet_ns").shift(-1) - pl.col("packet_ns")).drop_nulls("ns")
    if spans.height < _LEAST_TIMES - 1:
        return None
    ns = pl.col("ns")
    return spans.lazy().select(
        process=pl.lit(rows["process"][0], pl.UInt32), launches=pl.lit(rows.height, pl.Int64),
        kernels=pl.lit(period, pl.Int64), kernel=pl.lit(anchor, pl.UInt32), iterations=pl.len().cast(pl.Int64),
        mean_ns=ns.mean().round(0).cast(pl.Int64), p50_ns=percentile(ns, 50),
        p99_ns=pl.when(pl.len() >= LEAST_FOR_P99).then(percentile(ns, 99)), max_ns=ns.max(),
        longest=pl.col("event").get(ns.arg_max()),
    ).with_columns(jitter_ns=pl.col("p99_ns") - pl.col("p50_ns")).collect()  # fmt: skip
