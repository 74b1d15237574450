"""How busy the GPUs were, where they were idle, and what the host did there."""

from __future__ import annotations

from typing import Any, NamedTuple

import polars as pl

from tracecorr.analyze.latency import add_errors, gap_error, list_tellers
from tracecorr.analyze.values import Tables, add_gaps, as_text, collect, percentile, sum_overlaps
from tracecorr.link.events import attach_fields
from tracecorr.model.columns import is_counted
from tracecorr.model.kinds import CORRELATION_RULE

KERNELS, _COPIES = "kernels", "copies"
_MOMENTS = ("packet_ns", "gpu_start_ns")
_OWNER = {"work": pl.String, "of_profile": pl.Boolean, "gpu": pl.UInt16, "agent": pl.String, "queue": pl.Int64}
_COUNTED = {**_OWNER, "packets": pl.Int64}
# Columns of timed work of all sources; null if the source does not have it.
_TIMED = {
    **_OWNER, "event": pl.Int64, "kernel": pl.UInt32, "thread": pl.Int64, "call_event": pl.Int64, "asked_ns": pl.Int64,
    "rung_ns": pl.Int64, "start_ns": pl.Int64, "end_ns": pl.Int64, "error_ns": pl.Int64, "wait_error_ns": pl.Int64,
}  # fmt: skip


class _GpuWork(NamedTuple):
    """Hold what ran on the GPUs, without barriers, whose time is that of other packets.

    Args:
        packets: counts: work (`kernels`, `copies`), of_profile (from a profile, not a log), gpu, agent (the GPU as a
            profile names it), queue (of a profile the id that it prints), packets.
        timed: work with a known start and end: the columns above, event (the packet or copy; of a profile its row),
            kernel, thread (of the call; of a profile its tid), call_event, asked_ns (the packet's line; of a profile
            the begin of its call), rung_ns (the latest time of its doorbell), start_ns, end_ns, error_ns (error of
            both), wait_error_ns (further error of asked_ns and rung_ns relative to start_ns; null = unknown).
    """

    packets: pl.DataFrame
    timed: pl.DataFrame


def list_work(tables: Tables) -> _GpuWork:
    """Return the kernels and copies of the log; if none of its kernels is timed, those of a profile.

    Such a profile may be of another run, or on an unknown clock.

    Args:
        tables: gives the table of a capture by its name.
    """
    logged = _list_logged(tables)
    if (logged.timed["work"] == KERNELS).any():
        return logged
    profiled = _list_profiled(tables)
    has_kernels = (profiled.packets["work"] == KERNELS).any()
    return profiled if has_kernels or logged.packets.is_empty() else logged


def _list_logged(tables: Tables) -> _GpuWork:
    kind = pl.col("kind").cast(pl.String)
    work = pl.when(kind == "copy").then(pl.lit(_COPIES)).otherwise(pl.lit(KERNELS))
    owner = {"work": work, "of_profile": pl.lit(value=False), "agent": pl.lit(None)}
    launches = tables("launches").filter(kind.is_in(["dispatch", "copy"])).with_columns(**owner)
    packets = collect(launches.group_by(list(_OWNER)).agg(packets=pl.len()))
    rows = collect(
        launches.filter(pl.col("gpu_start_ns") <= pl.col("gpu_end_ns")).select(
            *_OWNER, *list_tellers(_MOMENTS), "kernel", "thread", "call_event", "packet_ns",
            rung_ns=pl.coalesce("doorbell_ns", "doorbell_hi_ns"), start_ns="gpu_start_ns", end_ns="gpu_end_ns",
        )
    )  # fmt: skip
    errors = [pl.col(f"error_{end}_gpu_event") for end in ("lo", "hi")]
    told = pl.when(errors[0].is_not_null() & errors[1].is_not_null())
    timed = add_errors(rows, tables("events"), _MOMENTS).with_columns(
        asked_ns="packet_ns", error_ns=told.then(pl.max_horizontal(errors)), wait_error_ns=gap_error(*_MOMENTS)
    )
    return _GpuWork(_shape(packets, _COUNTED), _shape(timed, _TIMED))


def _list_profiled(tables: Tables) -> _GpuWork:
    """Return the work of a profile; its times are on one clock, which may be unaligned."""
    ours = tables("events").filter(pl.col("source").cast(pl.String) == "rocprof")
    layer, end = pl.col("layer").cast(pl.String), pl.col("ts_ns") + pl.col("dur_ns")
    spans = collect(
        ours.filter((layer == "gpu") & end.is_not_null()).select(
            "event", "gpu", "kernel", start_ns="ts_ns", end_ns=end,
            error_ns=pl.max_horizontal("err_lo_ns", "err_hi_ns"),
        )
    )  # fmt: skip
    calls = collect(ours.filter(layer == "hip").select(call_event="event", asked_ns="ts_ns"))
    is_call = pl.col("rule").cast(pl.String) == CORRELATION_RULE
    links = collect(tables("links").filter(is_call).select(call_event="from_event", event="to_event"))
    spans = spans.join(links.unique("event", keep="first"), on="event", how="left", maintain_order="left")
    spans = spans.join(calls, on="call_event", how="left", maintain_order="left")
    args = collect(tables("args").filter(pl.col("key").cast(pl.String).is_in(["queue_id", "agent", "tid"])))
    args = args.with_columns(pl.col("key").cast(pl.String), u64=pl.col("u64").cast(pl.Int64, strict=False))
    spans = attach_fields(spans, args, ("queue_id",), pl.col("u64"))
    spans = attach_fields(spans, args, ("agent",), pl.col("text"))
    tids = args.filter(pl.col("key") == "tid").select(call_event="event", thread="u64").unique("call_event")
    spans = spans.join(tids, on="call_event", how="left", maintain_order="left")
    work = pl.when(pl.col("kernel").is_null()).then(pl.lit(_COPIES)).otherwise(pl.lit(KERNELS))
    timed = spans.with_columns(
        of_profile=pl.lit(value=True),
        work=work,
        queue="queue_id",
        rung_ns=pl.lit(None),
        wait_error_ns=pl.when(pl.col("asked_ns").is_not_null()).then(0),
    )
    packets = timed.group_by(list(_OWNER)).agg(packets=pl.len())
    return _GpuWork(_shape(packets, _COUNTED), _shape(timed, _TIMED))


def _shape(rows: pl.DataFrame, columns: dict[str, type[pl.DataType]]) -> pl.DataFrame:
    return rows.select(pl.col(name).cast(kind) for name, kind in columns.items())


_OF_ONE = ["gpu", "agent"]
_MAX_GAPS = 10
_HOST = {"call": pl.String, "host_call": pl.String, "in_it_ns": pl.Int64, "outside_ns": pl.Int64}


def _add_waits(spans: pl.DataFrame) -> pl.DataFrame:
    """Return rows of `add_gaps` of `_GpuWork.timed` with the two parts of the gap in front of each.

    Returns: `spans` with unsubmitted_ns (time before the packet's line was printed; of a profile before its call),
        in_ring_ns (time after the latest time of its doorbell); null without a gap, or if that time is unknown.
    """
    began, gap = pl.col("start_ns") - pl.col("gap_ns"), pl.col("gap_ns")
    asked, rung = pl.col("asked_ns") - began, pl.col("start_ns") - pl.col("rung_ns")
    return spans.with_columns(
        unsubmitted_ns=pl.when(asked.is_not_null()).then(pl.min_horizontal(asked.clip(lower_bound=0), gap)),
        in_ring_ns=pl.when(rung.is_not_null() & gap.is_not_null()).then(
            pl.min_horizontal(rung.clip(lower_bound=0), gap)
        ),
    )


def _list_gaps(spans: pl.DataFrame, tables: Tables) -> pl.DataFrame:
    """Return the ten longest times without a kernel on each GPU.

    Args:
        spans: rows of `spans.add_gaps`, of kernels.
        tables: gives the table of a capture by its name.

    Returns: gpu, agent, from_ns, idle_ns, event (the packet that ended it), kernel, queue, call (that submitted it),
        unsubmitted_ns, in_ring_ns (`add_waits`), host_call (where the thread of the call was longest in
        unsubmitted_ns), in_it_ns, outside_ns (the time of it outside of HIP calls; null = not known), error_ns (how
        far unsubmitted_ns and in_ring_ns may lie from the truth; null = unknown).
    """
    least = pl.col("gap_ns").top_k(_MAX_GAPS).min().over(_OF_ONE)
    gaps = _add_waits(spans.filter(pl.col("gap_ns") >= least)).sort("gap_ns", "start_ns", descending=[True, False])
    gaps = gaps.filter(pl.int_range(pl.len()).over(_OF_ONE) < _MAX_GAPS)
    gaps = gaps.sort(_OF_ONE, nulls_last=True, maintain_order=True)
    names = collect(tables("kernels").select("kernel", name=pl.coalesce("display", "name")))
    gaps = gaps.join(names, on="kernel", how="left", maintain_order="left")
    calls = _list_calls(gaps, tables)
    host = [_find_host(gap, calls) for gap in gaps.iter_rows(named=True)]
    return gaps.hstack(pl.DataFrame(host, schema=_HOST, orient="row")).select(
        *_OF_ONE, from_ns=pl.col("start_ns") - pl.col("gap_ns"), idle_ns="gap_ns", event="event", kernel="name",
        queue="queue", call="call", unsubmitted_ns="unsubmitted_ns", in_ring_ns="in_ring_ns", host_call="host_call",
        in_it_ns="in_it_ns", outside_ns="outside_ns", error_ns="wait_error_ns",
    )  # fmt: skip


def _list_calls(gaps: pl.DataFrame, tables: Tables) -> pl.DataFrame:
    """Return the outermost HIP calls of the threads that ended a gap: event, name, thread, start_ns, end_ns."""
    of_profile = bool(gaps["of_profile"].any())
    is_ours = (pl.col("source").cast(pl.String) == "rocprof") == of_profile
    outer = (pl.col("chain") == pl.col("event")) | pl.lit(of_profile)
    calls = tables("events").filter(pl.col("layer").cast(pl.String) == "hip", is_ours, is_counted(), outer)
    thread = pl.col("thread").cast(pl.Int64)
    if of_profile:
        tids = tables("args").filter(pl.col("key").cast(pl.String) == "tid").select("event", called_by="u64")
        calls = calls.join(tids.unique("event"), on="event", how="left")
        thread = pl.col("called_by").cast(pl.Int64, strict=False)
    asked = thread.is_in(gaps["thread"].drop_nulls().unique().implode())
    named = pl.col("event").is_in(gaps["call_event"].drop_nulls().unique().implode())
    end = pl.col("ts_ns") + pl.col("dur_ns")
    return collect(
        calls.filter(asked | named).select("event", *as_text("name"), thread=thread, start_ns="ts_ns", end_ns=end)
    )


def _find_host(gap: dict[str, Any], calls: pl.DataFrame) -> tuple[str | None, str | None, int | None, int | None]:
    """Return the name of the call that ended a gap, and where its thread was in the gap until it submitted."""
    named = calls.filter(pl.col("event") == (-1 if gap["call_event"] is None else gap["call_event"]))["name"]
    call = named[0] if len(named) else None
    if gap["thread"] is None or not gap["unsubmitted_ns"]:
        return call, None, None, None
    began = gap["start_ns"] - gap["gap_ns"]
    until = began + gap["unsubmitted_ns"]
    inside = pl.min_horizontal("end_ns", pl.lit(until)) - pl.max_horizontal("start_ns", pl.lit(began))
    own = calls.filter(pl.col("thread") == gap["thread"])
    rows = own.drop_nulls("end_ns").select("name", ns=inside).filter(pl.col("ns") > 0)
    longest = rows.sort("ns", descending=True).head(1)
    name, ns = longest.row(0) if longest.height else (None, None)
    # A call with one line only may have lasted through it.
    is_sure = own.filter(pl.col("end_ns").is_null() & (pl.col("start_ns") < until)).is_empty()
    return call, name, ns, until - began - int(rows["ns"].sum()) if is_sure else None


# What figures are of: all packets that the log shows, some of them, those that a profiler recorded.
_EXACT, AT_LEAST, OF_PROFILE = "exact", "at least", "of the profile"
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
    # Missing at the head of a log, too, are packets that may have run beside those that it shows.
    lost = tables("losses").filter(pl.col("source").cast(pl.String) == "amd_log").head(1)
    is_lossy = not collect(lost).is_empty()
    gpus = _summarize_gpu_busy(work, is_lossy=is_lossy)
    known = gpus.filter((pl.col("work") == KERNELS) & pl.col("idle_ns").is_not_null()).select(_GPU)
    spans = work.timed.join(known, on=_GPU, how="semi", nulls_equal=True)
    return GpuTimes(gpus, _summarize_queue_busy(work, is_lossy=is_lossy), _list_gaps(add_gaps(spans, _GPU), tables))


def _summarize_gpu_busy(work: _GpuWork, *, is_lossy: bool) -> pl.DataFrame:
    """Return one row per kind of work and GPU; of packets whose GPU is not known one together.

    If not every packet is timed, or the log lost lines, times are lower bounds, and nothing is known of what was
    idle: packets that are not known may have run there.

    Args:
        work: what ran.
        is_lossy: whether lines of the log are lost, so that there may be packets that it does not show.

    Returns: work, gpu, agent, packets (null of a profile: how many there were is not known), timed, figures (`exact`,
        `at least`, `of the profile`; null if none is timed), queues (of those timed), from_ns, to_ns (first start,
        last end), span_ns, busy_ns (at least one ran), share (of the span), overlap_ns (packets of two queues and more
        ran at once), gaps (with nothing between), idle_ns (all of them), idle_p50_ns, idle_max_ns, unsubmitted_ns and
        in_ring_ns (of them, see `gpu_gaps.add_waits`; null if one is not known), error_ns (how far a clock may move
        all of these times together; null = unknown).
    """
    told = work.packets.group_by("work").agg(pl.col("gpu").is_null().any() & pl.col("gpu").is_not_null().any())
    mixed = pl.col("work").is_in(told.filter("gpu")["work"].implode())
    rows = _add(_count(work, _GPU, mixed | is_lossy), _sum_up(_add_waits(add_gaps(work.timed, _GPU))), _GPU)
    rows = _add(rows, _overlaps(work.timed), _GPU)
    is_known = pl.col("figures").is_in([_EXACT, OF_PROFILE])
    return rows.select(
        *_GPU, "packets", "timed", "figures", "queues", "from_ns", "to_ns", "span_ns", "busy_ns", "share", "overlap_ns",
        *(pl.when(is_known).then(column).alias(column) for column in _IDLE), "error_ns",
    ).sort(pl.col("work") != KERNELS, "gpu", "agent", nulls_last=True)  # fmt: skip


def _summarize_queue_busy(work: _GpuWork, *, is_lossy: bool) -> pl.DataFrame:
    """Return one row per queue with kernels.

    Args:
        work, is_lossy: as `summarize_gpu_busy` takes them.

    Returns: queue, gpu, agent, packets, timed, figures, from_ns, to_ns, busy_ns, share.
    """
    of_queue = (pl.col("work") == KERNELS) & pl.col("queue").is_not_null()
    kernels = _GpuWork(*(part.filter(of_queue) for part in work))
    spans = add_gaps(kernels.timed, _QUEUE).group_by(_QUEUE).agg(_cover())
    rows = _add(_count(kernels, _QUEUE, pl.lit(is_lossy)), spans, _QUEUE)
    told = ("packets", "timed", "figures", "from_ns", "to_ns", "busy_ns", "share")
    return rows.select(*_QUEUE, *told).sort("gpu", "agent", "queue", nulls_last=True)


def _add(rows: pl.DataFrame, more: pl.DataFrame, by: list[str]) -> pl.DataFrame:
    return rows.join(more, on=by, how="left", nulls_equal=True, maintain_order="left")


def _count(work: _GpuWork, by: list[str], is_partial: pl.Expr) -> pl.DataFrame:
    """Return `by`, packets, timed and figures; `is_partial` tells which rows are of some packets in any case."""
    counted = work.packets.group_by(by).agg(n=pl.col("packets").sum(), of_profile=pl.col("of_profile").all())
    rows = _add(counted, work.timed.group_by(by).agg(timed=pl.len().cast(pl.Int64)), by)
    rows = rows.with_columns(pl.col("timed").fill_null(0))
    whole = (pl.col("timed") == pl.col("n")) & ~is_partial
    figures = (
        pl.when("of_profile").then(pl.lit(OF_PROFILE)).when(whole).then(pl.lit(_EXACT)).otherwise(pl.lit(AT_LEAST))
    )
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
