"""Time of launches by stage, with the error of each time; time of the whole run by layer and by iterations of a
sequence of kernels that repeats.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from tracecorr.analyze.calls import list_graph_calls, list_setup_calls, name_kinds
from tracecorr.analyze.values import Tables, add_gaps, as_text, collect, describe_ns, percentile, total
from tracecorr.model.columns import is_counted
from tracecorr.model.kinds import DERIVED, INFERRED, RECORDED

# Column with the event that has the clock, and so the error, of each time of a launch.
_TOLD_BY = {
    "call_ns": "call_event",
    "return_ns": "call_event",
    "packet_ns": "event",
    "complete_ns": "event",  # a line of the log, too
    "doorbell_ns": "doorbell_event",
    "gpu_start_ns": "gpu_event",
    "gpu_end_ns": "gpu_event",
}
LOG_MOMENTS = ("call_ns", "return_ns", "packet_ns", "complete_ns")


def list_tellers(moments: Sequence[str]) -> list[str]:
    """Return the columns of `launches` that name the rows of `events` with the errors of these moments."""
    return sorted({_TOLD_BY[moment] for moment in moments})


def add_errors(launches: pl.DataFrame, events: pl.LazyFrame, moments: Sequence[str]) -> pl.DataFrame:
    """Return `launches` with the errors of moments, for `gap_error` (columns that begin with `error_`).

    Args:
        launches: rows of `launches` with the columns of `list_tellers`.
        events: the table.
        moments: columns of `launches` such as `doorbell_ns`.
    """
    known = collect(events.select("event", "err_lo_ns", "err_hi_ns"))
    dense = known["event"].is_sorted() and (not known.height or known["event"][-1] == known.height - 1)
    for teller in list_tellers(moments):
        places = launches.select(teller)
        found = (
            pl.select(known[c].gather(places[teller], null_on_oob=True).alias(c) for c in ("err_lo_ns", "err_hi_ns"))
            if dense
            else places.join(known, left_on=teller, right_on="event", how="left", maintain_order="left").drop(teller)
        )
        launches = launches.with_columns(
            found["err_lo_ns"].cast(pl.Int64).alias(f"error_lo_{teller}"),
            found["err_hi_ns"].cast(pl.Int64).alias(f"error_hi_{teller}"),
        )
    return launches


def gap_error(start: str, end: str) -> pl.Expr:
    """Return the largest error of the time from `start` to `end`, to either side; null = unknown.

    Both ends of a span of the GPU have one clock, so that its shift cancels. So do lines of the log; what remains is
    the step of their stamps.
    """
    first, last = _TOLD_BY[start], _TOLD_BY[end]
    if first == last == "gpu_event":
        return pl.lit(0, dtype=pl.Int64)
    lower, upper = (
        pl.col(f"error_lo_{last}") + pl.col(f"error_hi_{first}"),
        pl.col(f"error_hi_{last}") + pl.col(f"error_lo_{first}"),
    )
    return pl.when(lower.is_not_null() & upper.is_not_null()).then(pl.max_horizontal(lower, upper))


def widest(error: pl.Expr) -> pl.Expr:
    """Return the aggregate: the largest error of the rows; null if one is unknown."""
    return pl.when(error.is_not_null().all()).then(error.max())


# (stage, from, to, evidence of the join of both ends, whether the evidence of the doorbell limits it)
_STAGES = (
    ("call to packet", "call_ns", "packet_ns", DERIVED, False),
    ("call to doorbell", "call_ns", "doorbell_ns", DERIVED, True),
    ("packet to doorbell", "packet_ns", "doorbell_ns", RECORDED, True),
    ("doorbell to return", "doorbell_ns", "return_ns", DERIVED, True),
    ("packet to return", "packet_ns", "return_ns", DERIVED, False),
    ("call to return", "call_ns", "return_ns", RECORDED, False),
    ("doorbell to GPU start", "doorbell_ns", "gpu_start_ns", DERIVED, True),
    ("GPU start to GPU end", "gpu_start_ns", "gpu_end_ns", RECORDED, False),
    ("packet to observed completion", "packet_ns", "complete_ns", DERIVED, False),
)


def summarize_latency(launches: pl.LazyFrame, events: pl.LazyFrame) -> pl.DataFrame:
    """Return one row per stage, kind of packet and evidence, in the order of the path; graphs are separate kinds.

    Negative times are real: a barrier's doorbell is stored before its log line is written. `evidence` is the weaker of
    join and doorbell; `error_ns` is the largest error of a packet, to either side: null = unknown.

    Args:
        launches, events: the tables.
    """
    moments = sorted({column for _, start, end, _, _ in _STAGES for column in (start, end)})
    doorbell = pl.col("doorbell_evidence").cast(pl.String).fill_null(INFERRED)
    told = name_kinds(launches, events)
    rows = collect(told.select("kind", doorbell.alias("doorbell"), *moments, *list_tellers(moments)))
    rows = add_errors(rows, events, moments)
    stages = [_summarize_stage(rows, order) for order in range(len(_STAGES))]
    return pl.concat(stages).drop("total_ns")


def _summarize_stage(rows: pl.DataFrame, order: int) -> pl.DataFrame:
    stage, start, end, join, of_doorbell = _STAGES[order]
    # A store shared by a graph launch is derived: its value is that of a later packet.
    weaker = pl.lit(of_doorbell) & (pl.col("doorbell") != RECORDED)
    evidence = pl.when(weaker).then("doorbell").otherwise(pl.lit(join))
    times = rows.lazy().select(
        pl.col("kind").cast(pl.String), evidence.alias("evidence"), ns=pl.col(end) - pl.col(start),
        error=gap_error(start, end),
    )  # fmt: skip
    return collect(
        times.drop_nulls("ns")
        .group_by("kind", "evidence")
        .agg(
            pl.len().cast(pl.Int64).alias("packets"),
            pl.col("ns").min().alias("min_ns"),
            *describe_ns("ns"),
            widest(pl.col("error")).alias("error_ns"),
        )
        .select(pl.lit(stage).alias("stage"), "kind", "evidence", pl.exclude("kind", "evidence"))
        .sort("kind", "evidence")
    )


# So few launches have no P99: it would be the slowest one.
_LEAST_FOR_P99 = 100
_BY_KERNEL = (
    ("call to doorbell", "call_ns", "doorbell_ns"), ("call to GPU start", "call_ns", "gpu_start_ns"),
    ("call to completion", "call_ns", "complete_ns"), ("GPU start to GPU end", "gpu_start_ns", "gpu_end_ns"),
)  # fmt: skip


def summarize_kernel_latency(
    launches: pl.LazyFrame, events: pl.LazyFrame, kernels: pl.LazyFrame, setup_calls: pl.DataFrame | None = None
) -> pl.DataFrame:
    """Return one row per kernel, phase and stage: how long its launches took from the call on.

    Args:
        launches, events, kernels: the tables.
        setup_calls: result of `list_setup_calls`; None = computed here.

    Returns: kernel, phase (`first`: the first launch of the kernel in its process, and those whose call created a
        queue, loaded code or allocated memory; `steady`; `graph`), stage, launches, p50_ns, p95_ns, p99_ns (null for
        fewer than 100 launches), max_ns. Launches with an unknown call are left out.
    """
    calls = list_setup_calls(events) if setup_calls is None else setup_calls
    names = kernels.select("kernel", kernel_name=pl.coalesce("display", "name"))
    rows = launches.filter(pl.col("kind").cast(pl.String) == "dispatch", pl.col("call_ns").is_not_null())
    rows = rows.drop_nulls("kernel").sort("event").with_columns(
        is_first=(pl.int_range(pl.len()).over("process", "kernel") == 0)
        | pl.col("call_event").is_in(calls["chain"].implode())
    )  # fmt: skip
    graphs = list_graph_calls(events).select("call_event", is_graph=pl.lit(value=True))
    phase = pl.when("is_graph").then(pl.lit("graph")).when("is_first").then(pl.lit("first")).otherwise(pl.lit("steady"))
    told = rows.join(graphs, on="call_event", how="left").join(names, on="kernel", how="left").with_columns(phase=phase)
    stages = [
        told.select("kernel_name", "phase", stage=pl.lit(stage), order=pl.lit(order), ns=pl.col(end) - pl.col(start))
        for order, (stage, start, end) in enumerate(_BY_KERNEL)
    ]
    ns = pl.col("ns")
    summed = pl.concat(stages).drop_nulls("ns").group_by("kernel_name", "phase", "stage", "order").agg(
        launches=pl.len().cast(pl.Int64), p50_ns=percentile(ns, 50), p95_ns=percentile(ns, 95),
        p99_ns=pl.when(pl.len() >= _LEAST_FOR_P99).then(percentile(ns, 99)), max_ns=ns.max(),
    )  # fmt: skip
    shown = summed.sort("kernel_name", "phase", "order").drop("order").rename({"kernel_name": "kernel"})
    return collect(shown)


# Consecutive stretches from the HIP call to the return; null if one of the times is unknown.
_STRETCHES = (
    ("hip", "call_ns", "enqueue_ns"),
    ("command", "enqueue_ns", "packet_ns"),
    ("doorbell", "packet_ns", "doorbell_ns"),
    ("return", "doorbell_ns", "return_ns"),
    ("wait_for_gpu", "doorbell_ns", "gpu_start_ns"),
    ("gpu", "gpu_start_ns", "gpu_end_ns"),
    ("noticed", "gpu_end_ns", "complete_ns"),
)
# They make up the time from call to return.
_IN_CALL = ("hip", "command", "doorbell", "return")
# Columns that all dispatches of a call share.
_OF_THE_CALL = ("hip_ns", "command_ns", "return_ns", "whole_ns", "kernel_mode_ns")


def _trace_paths(launches: pl.LazyFrame, events: pl.LazyFrame, setup_calls: pl.DataFrame | None = None) -> pl.LazyFrame:
    """Return one row per dispatch, in the order of `event`: the time by layer.

    Args:
        launches, events: the tables.
        setup_calls: result of `list_setup_calls`; None = computed here.

    Returns: event, call_event, kernel, queue, phase (`graph` if the call launched a graph, `setup` if it created a
        queue, loaded code or allocated memory, `unknown` without a known call, else `steady`), hip_ns, command_ns,
        doorbell_ns, return_ns, wait_for_gpu_ns, gpu_ns, noticed_ns, whole_ns (from the call to its return) and
        kernel_mode_ns (system calls inside the HIP call; null without a trace, with a half-seen system call, or with an
        unknown call). For graphs hip_ns, command_ns, return_ns, whole_ns and kernel_mode_ns are null: a graph launch is
        not the time of one dispatch.
    """
    calls = list_setup_calls(events) if setup_calls is None else setup_calls
    graphs = list_graph_calls(events).select("call_event", phase=pl.lit("graph"))
    setup = calls.lazy().select(call_event="chain", phase=pl.lit("setup"))
    setup = pl.concat([graphs, setup]).unique("call_event", keep="first", maintain_order=True)
    inside = (
        events.filter(pl.col("layer").is_in(["syscall", "ioctl"]) & pl.col("chain").is_not_null())
        .group_by(call_event="chain")
        .agg(kernel_mode_ns=pl.col("dur_ns").sum(), half_seen=pl.col("dur_ns").is_null().any())
    )
    stretches = [(pl.col(end) - pl.col(start)).alias(f"{name}_ns") for name, start, end in _STRETCHES]
    return (
        launches.filter(pl.col("kind") == "dispatch")
        .select("event", "call_event", "kernel", "queue", *stretches, whole_ns=pl.col("return_ns") - pl.col("call_ns"))
        .join(setup, on="call_event", how="left")
        .join(inside, on="call_event", how="left")
        .join(inside.select(traced=pl.len() > 0), how="cross")
        .with_columns(
            phase=pl.when(pl.col("call_event").is_null())
            .then(pl.lit("unknown"))
            .otherwise(pl.col("phase").fill_null("steady")),
            kernel_mode_ns=pl.when(
                pl.col("traced") & pl.col("call_event").is_not_null() & ~pl.col("half_seen").fill_null(value=False)
            ).then(pl.col("kernel_mode_ns").fill_null(0)),
        )
        .with_columns(pl.when(pl.col("phase") != "graph").then(column).alias(column) for column in _OF_THE_CALL)
        .drop("traced", "half_seen")
        .sort("event")
    )


def summarize_paths(
    launches: pl.LazyFrame, events: pl.LazyFrame, setup_calls: pl.DataFrame | None = None
) -> pl.DataFrame:
    """Return one row per phase and layer, in the order of the path; arguments as in `_trace_paths`.

    Returns: phase, layer, launches (that have both ends), total_ns, mean_ns, p50_ns, p95_ns, p99_ns, share (of hip,
        command, doorbell and return: of the time from call to return of these launches, percent).
    """
    paths = collect(_trace_paths(launches, events, setup_calls))
    order = [*(name for name, _, _ in _STRETCHES), "kernel_mode"]
    rows = pl.concat([_summarize_layer(paths, name) for name in order])
    places = pl.col("layer").replace_strict({name: i for i, name in enumerate(order)}, return_dtype=pl.Int64)
    return rows.sort("phase", places)


def _summarize_layer(paths: pl.DataFrame, name: str) -> pl.DataFrame:
    ns, whole = pl.col("ns"), pl.col("whole_ns")
    inside = (whole > 0) & (name in _IN_CALL)
    return (
        paths.lazy()
        .select("phase", "whole_ns", ns=pl.col(f"{name}_ns"))
        .drop_nulls("ns")
        .group_by("phase")
        .agg(
            layer=pl.lit(name).first(),
            launches=pl.len().cast(pl.Int64),
            total_ns=total(ns),
            mean_ns=ns.mean().round(0).cast(pl.Int64),
            **{f"p{q}_ns": percentile(ns, q) for q in (50, 95, 99)},
            # If a stretch is unknown, such as a doorbell's, the others are not the whole.
            share=(100 * ns.filter(inside).sum() / whole.filter(inside).sum()).fill_nan(None).round(1),
        )
        .collect()
    )


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
        p99_ns=pl.when(pl.len() >= _LEAST_FOR_P99).then(percentile(ns, 99)), max_ns=ns.max(),
        longest=pl.col("event").get(ns.arg_max()),
    ).with_columns(jitter_ns=pl.col("p99_ns") - pl.col("p50_ns")).collect()  # fmt: skip
