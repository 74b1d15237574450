"""How busy were the GPUs, where were they idle, and who was waiting?"""

from __future__ import annotations

from typing import NamedTuple

import polars as pl

from tracecorr.analyze.frames import Tables, collect, percentile
from tracecorr.analyze.gpu_gaps import add_waits, list_gaps
from tracecorr.analyze.gpu_work import KERNELS, GpuWork, list_work
from tracecorr.analyze.spans import add_gaps, sum_overlaps

# What figures are of: all packets that the log shows, some of them, those that a profiler recorded.
EXACT, AT_LEAST, OF_PROFILE = "exact", "at least", "of the profile"
_GPU = ["work", "gpu", "agent"]
_QUEUE = ["queue", "gpu", "agent"]
_IDLE = ("gaps", "idle_ns", "idle_p50_ns", "idle_max_ns", "unsubmitted_ns", "in_ring_ns")


class GpuTimes(NamedTuple):
    """Hold how busy the GPUs (`summarize_gpu_busy`) and queues were, and the longest gaps (`gpu_gaps.list_gaps`)."""

    gpus: pl.DataFrame
    queues: pl.DataFrame
    gaps: pl.DataFrame


def measure_gpu_times(tables: Tables) -> GpuTimes:
    """Return how busy the GPUs and queues were, and where they were idle.

    Args:
        tables: gives the table of a capture by its name.
    """
    work = list_work(tables)
    # What lacks at the head of a log, too, are packets that may have run beside those that it shows.
    lost = tables("losses").filter(pl.col("source").cast(pl.String) == "amd_log").head(1)
    is_lossy = not collect(lost).is_empty()
    gpus = summarize_gpu_busy(work, is_lossy=is_lossy)
    known = gpus.filter((pl.col("work") == KERNELS) & pl.col("idle_ns").is_not_null()).select(_GPU)
    spans = work.timed.join(known, on=_GPU, how="semi", nulls_equal=True)
    return GpuTimes(gpus, summarize_queue_busy(work, is_lossy=is_lossy), list_gaps(add_gaps(spans, _GPU), tables))


def summarize_gpu_busy(work: GpuWork, *, is_lossy: bool) -> pl.DataFrame:
    """Return one row per kind of work and GPU; of packets whose GPU is not known one together.

    Where not every packet is timed, or the log lost lines, times are lower bounds, and nothing is told of what was
    idle: packets that are not known may have run there.

    Args:
        work: what ran.
        is_lossy: whether lines of the log are lost, so that there may be packets that it does not show.

    Returns: work, gpu, agent, packets (null of a profile: how many there were is not known), timed, figures (`exact`,
        `at least`, `of the profile`; null where none is timed), queues (of those timed), from_ns, to_ns (first start,
        last end), span_ns, busy_ns (at least one ran), share (of the span), overlap_ns (packets of two queues and more
        ran at once), gaps (with nothing between), idle_ns (all of them), idle_p50_ns, idle_max_ns, unsubmitted_ns and
        in_ring_ns (of them, see `gpu_gaps.add_waits`; null where one is not known), error_ns (how far a clock may move
        all of these times together; null = unknown).
    """
    told = work.packets.group_by("work").agg(pl.col("gpu").is_null().any() & pl.col("gpu").is_not_null().any())
    mixed = pl.col("work").is_in(told.filter("gpu")["work"].implode())
    rows = _add(_count(work, _GPU, mixed | is_lossy), _sum_up(add_waits(add_gaps(work.timed, _GPU))), _GPU)
    rows = _add(rows, _overlaps(work.timed), _GPU)
    is_known = pl.col("figures").is_in([EXACT, OF_PROFILE])
    return rows.select(
        *_GPU, "packets", "timed", "figures", "queues", "from_ns", "to_ns", "span_ns", "busy_ns", "share", "overlap_ns",
        *(pl.when(is_known).then(column).alias(column) for column in _IDLE), "error_ns",
    ).sort(pl.col("work") != KERNELS, "gpu", "agent", nulls_last=True)  # fmt: skip


def summarize_queue_busy(work: GpuWork, *, is_lossy: bool) -> pl.DataFrame:
    """Return one row per queue with kernels.

    Args:
        work, is_lossy: as `summarize_gpu_busy` takes them.

    Returns: queue, gpu, agent, packets, timed, figures, from_ns, to_ns, busy_ns, share.
    """
    of_queue = (pl.col("work") == KERNELS) & pl.col("queue").is_not_null()
    kernels = GpuWork(*(part.filter(of_queue) for part in work))
    spans = add_gaps(kernels.timed, _QUEUE).group_by(_QUEUE).agg(_cover())
    rows = _add(_count(kernels, _QUEUE, pl.lit(is_lossy)), spans, _QUEUE)
    told = ("packets", "timed", "figures", "from_ns", "to_ns", "busy_ns", "share")
    return rows.select(*_QUEUE, *told).sort("gpu", "agent", "queue", nulls_last=True)


def _add(rows: pl.DataFrame, more: pl.DataFrame, by: list[str]) -> pl.DataFrame:
    return rows.join(more, on=by, how="left", nulls_equal=True, maintain_order="left")


def _count(work: GpuWork, by: list[str], is_partial: pl.Expr) -> pl.DataFrame:
    """Return `by`, packets, timed and figures; `is_partial` tells which rows are of some packets in any case."""
    counted = work.packets.group_by(by).agg(n=pl.col("packets").sum(), of_profile=pl.col("of_profile").all())
    rows = _add(counted, work.timed.group_by(by).agg(timed=pl.len().cast(pl.Int64)), by)
    rows = rows.with_columns(pl.col("timed").fill_null(0))
    whole = (pl.col("timed") == pl.col("n")) & ~is_partial
    figures = pl.when("of_profile").then(pl.lit(OF_PROFILE)).when(whole).then(pl.lit(EXACT)).otherwise(pl.lit(AT_LEAST))
    return rows.with_columns(
        packets=pl.when(~pl.col("of_profile")).then("n"), figures=pl.when(pl.col("timed") > 0).then(figures)
    )


def _cover() -> list[pl.Expr]:
    """Return the aggregates from_ns, to_ns, span_ns, busy_ns and share of rows of `spans.add_gaps`."""
    first, last, busy = pl.col("start_ns").min(), pl.col("end_ns").max(), pl.col("covered_ns").sum()
    share = pl.when(last > first).then(100 * busy / (last - first)).round(1)
    moments = [first.alias("from_ns"), last.alias("to_ns"), (last - first).alias("span_ns")]
    return [*moments, busy.alias("busy_ns"), share.alias("share")]


def _sum_up(spans: pl.DataFrame) -> pl.DataFrame:
    gap, error = pl.col("gap_ns"), pl.col("error_ns")
    waits = {
        name: pl.when(pl.col(name).count() == gap.count()).then(pl.col(name).sum())
        for name in ("unsubmitted_ns", "in_ring_ns")
    }
    return spans.group_by(_GPU).agg(
        *_cover(), queues=pl.when(pl.col("queue").count() > 0).then(pl.col("queue").n_unique().cast(pl.Int64)),
        gaps=gap.count().cast(pl.Int64), idle_ns=gap.sum(), idle_p50_ns=percentile(gap, 50), idle_max_ns=gap.max(),
        **waits, error_ns=pl.when(error.is_not_null().all()).then(error.max()),
    )  # fmt: skip


def _overlaps(spans: pl.DataFrame) -> pl.DataFrame:
    """Return the overlaps of the GPUs of all of whose work the queue is known."""
    unknown = spans.filter(pl.col("queue").is_null()).select(_GPU).unique()
    return sum_overlaps(spans.join(unknown, on=_GPU, how="anti", nulls_equal=True), _GPU, "queue")
