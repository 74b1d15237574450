"""HIP and HSA calls: their times and errors, calls with set-up work, waits, graph launches."""

from __future__ import annotations

import polars as pl

from tracecorr.analyze.values import as_text, collect, count_failed, describe_ns
from tracecorr.model.columns import is_internal
from tracecorr.model.kinds import GRAPH_CALL, QUEUE_CREATED
from tracecorr.model.schema import CAT
from tracecorr.read.kfd.ioctls import CREATE_QUEUE, UPDATE_QUEUE


def summarize_hip_calls(events: pl.LazyFrame) -> pl.DataFrame:
    """Return one row per HIP function that a program calls by name, the longest total first.

    Times are those of whole calls: a call inside another one counts in both. Calls whose return
    was not seen are counted in `calls` and `half_seen`, and in no time. `share` is the part of the time of all these
    calls, percent.
    """
    return _summarize(events, internal=False)


def summarize_internal_calls(events: pl.LazyFrame) -> pl.DataFrame:
    """Return one row per function that no program calls by name (`__hipPushCallConfiguration`), as above."""
    return _summarize(events, internal=True)


def is_called(*, internal: bool = False) -> pl.Expr:
    """Tell of events whether they are calls of HIP functions that a program names, or of internal ones."""
    # What a profiler timed again is in the section of rocprof.
    logged = (pl.col("layer").cast(pl.String) == "hip") & pl.col("source").cast(pl.String).ne_missing("rocprof")
    # A call whose name is not known counts as one of the program's.
    inner = is_internal(pl.col("name").cast(pl.String).fill_null("hip"))
    return logged & (inner if internal else ~inner)


def _summarize(events: pl.LazyFrame, *, internal: bool) -> pl.DataFrame:
    return collect(
        events.filter(is_called(internal=internal))
        .with_columns(as_text("name"))
        .group_by("name")
        .agg(
            pl.len().cast(pl.Int64).alias("calls"),
            *count_failed(),
            pl.col("dur_ns").is_null().sum().cast(pl.Int64).alias("half_seen"),
            *describe_ns("dur_ns"),
        )
        .with_columns(share=_share_of_all())
        .sort(["total_ns", "name"], descending=[True, False], nulls_last=True)
    )


def _share_of_all() -> pl.Expr:
    whole = pl.col("total_ns").sum()
    return pl.when(whole > 0).then(100 * pl.col("total_ns") / whole).round(1)


def summarize_hsa_calls(events: pl.LazyFrame) -> pl.DataFrame:
    """Return one row per source and function, the longest total first."""
    return collect(
        events.filter(pl.col("layer") == "hsa")
        .with_columns(as_text("name", "source"))
        .group_by("source", "name")
        .agg(pl.len().cast(pl.Int64).alias("calls"), *count_failed(), *describe_ns("dur_ns"))
        .sort(["total_ns", "name"], descending=[True, False], nulls_last=True)
    )


# What a launch does only the first time, or when it runs out of something.
_REASONS = (
    ("creates a queue", "ioctl", (CREATE_QUEUE, UPDATE_QUEUE)),
    ("creates a queue", "aql", (QUEUE_CREATED,)),
    ("loads code", "syscall", ("openat",)),
    ("loads code", "other", ("code_object_version",)),  # of the log: CLR builds the program of a kernel's first launch
    ("allocates memory", "ioctl", ("AMDKFD_IOC_ALLOC_MEMORY_OF_GPU", "AMDKFD_IOC_MAP_MEMORY_TO_GPU")),
    ("allocates memory", "memory", ("allocate_host", "allocate_device", "lock")),
    ("allocates memory", "syscall", ("mmap",)),
)


def list_setup_calls(events: pl.LazyFrame) -> pl.DataFrame:
    """Return the outermost HIP calls that created a queue, loaded code or allocated memory on the way.

    Returns: chain (the call's event), reasons (text), one row per call.
    """
    layers = sorted({layer for _, layer, _ in _REASONS})
    rows = events.filter(pl.col("layer").is_in(layers) & pl.col("chain").is_not_null())
    layer, name = (pl.col(c).cast(pl.String) for c in ("layer", "name"))
    reason = pl.coalesce(pl.when((layer == of) & name.is_in(names)).then(pl.lit(text)) for text, of, names in _REASONS)
    found = collect(rows.select("chain", reason.alias("reason")).drop_nulls())
    return found.group_by("chain", maintain_order=True).agg(
        pl.col("reason").unique().sort().str.join(", ").alias("reasons")
    )


_SIGNAL_WAITS = ("host_wait", "host_active_wait", "host_blocked_wait")
_WAIT_IOCTLS = ("AMDKFD_IOC_WAIT_EVENTS", "DRM_IOCTL_AMDGPU_WAIT_CS", "DRM_IOCTL_AMDGPU_WAIT_FENCES")


def summarize_waits(events: pl.LazyFrame) -> pl.DataFrame:
    """Return one row per way of waiting, the longest total first.

    HIP calls are those whose name says that they wait (`...Synchronize`), copies that wait for their end (`hipMemcpy`
    and the like without `Async`), and the outermost calls in which another wait lies, as in some of `hipFree`; signal
    waits are lines of the log without a duration.

    Returns: layer, name, waits, total_ns, mean_ns, p50_ns, p95_ns, p99_ns, max_ns.
    """
    name = pl.col("name").cast(pl.String)
    copies = name.str.starts_with("hipMemcpy") & ~name.str.contains("Async")
    named = name.str.contains("Synchronize") | copies
    signals = (pl.col("layer") == "signal") & name.is_in(_SIGNAL_WAITS)
    ioctls = (pl.col("layer") == "ioctl") & name.is_in(_WAIT_IOCTLS)
    rows = events.filter(pl.col("source").ne_missing("rocprof"), pl.col("layer").is_in(["hip", "signal", "ioctl"]))
    around = collect(rows.filter(signals | ioctls).select("chain"))["chain"].drop_nulls().unique()
    calls = (pl.col("layer") == "hip") & (named | pl.col("event").is_in(around.implode()))
    rows = rows.filter(calls | signals | ioctls)
    return collect(
        rows.group_by(pl.col("layer").cast(pl.String), name)
        .agg(pl.len().cast(pl.Int64).alias("waits"), *describe_ns("dur_ns"))
        .sort(["total_ns", "name"], descending=[True, False], nulls_last=True)
    )


# Behind the kind of a packet of a graph launch.
OF_A_GRAPH = " of a graph"


def list_graph_calls(events: pl.LazyFrame) -> pl.LazyFrame:
    """Return the HIP calls that launch a graph: call_event, process, stream, call_dur_ns."""
    is_call = pl.col("layer").cast(pl.String) == "hip"
    is_graph = pl.col("name").cast(pl.String).str.starts_with(GRAPH_CALL)
    return events.filter(is_call & is_graph).select("process", "stream", call_event="event", call_dur_ns="dur_ns")


def name_kinds(launches: pl.LazyFrame, events: pl.LazyFrame) -> pl.LazyFrame:
    """Return `launches` whose `kind` says of the packets of a graph launch that they are so, such as `copy of a graph`.

    Each of them waits in the call for all that are written before it: its times within the call are no cost of its own.
    """
    graphs = list_graph_calls(events).select("call_event", kind_more=pl.lit(OF_A_GRAPH))
    told = launches.join(graphs, on="call_event", how="left", maintain_order="left")
    kind = pl.col("kind").cast(pl.String)
    return told.with_columns(kind=(kind + pl.col("kind_more").fill_null("")).cast(CAT)).drop("kind_more")


def summarize_graphs(launches: pl.LazyFrame, events: pl.LazyFrame) -> pl.DataFrame:
    """Return one row per process and stream of the calls that launch graphs.

    Args:
        launches, events: the tables.

    Returns: process, stream, calls, dispatches, other_packets (barriers and copies), dispatches_p50 (of a call), all
        three null if no packet of these calls is recorded (the level of the log may be too low); total_ns to max_ns
        (of the calls), per_dispatch_ns (total_ns by the dispatches of the calls whose end is known).
    """
    calls = _count_packets(launches, events)
    return collect(calls.group_by("process", "stream").agg(_sum_up()).sort("process", "stream"))


def sum_up_graphs(launches: pl.LazyFrame, events: pl.LazyFrame) -> pl.DataFrame:
    """Return the row of all such calls, as `summarize_graphs` does for one stream; none where there is no call."""
    return collect(_count_packets(launches, events).select(_sum_up()).filter(pl.col("calls") > 0))


def _count_packets(launches: pl.LazyFrame, events: pl.LazyFrame) -> pl.LazyFrame:
    is_dispatch = pl.col("kind").cast(pl.String) == "dispatch"
    packets = launches.group_by("call_event").agg(dispatches=is_dispatch.sum(), others=(~is_dispatch).sum())
    calls = list_graph_calls(events).join(packets, on="call_event", how="left")
    return calls.with_columns(pl.col("dispatches", "others").fill_null(0).cast(pl.Int64))


def _sum_up() -> list[pl.Expr]:
    known = pl.col("dispatches").filter(pl.col("call_dur_ns").is_not_null()).sum()
    share = (pl.col("call_dur_ns").sum() / known).round(0).cast(pl.Int64, strict=False)
    shown = pl.when((pl.col("dispatches") + pl.col("others")).sum() > 0)
    return [
        pl.len().cast(pl.Int64).alias("calls"),
        shown.then(pl.col("dispatches").sum()).alias("dispatches"),
        shown.then(pl.col("others").sum()).alias("other_packets"),
        shown.then(pl.col("dispatches").quantile(0.5, "equiprobable").cast(pl.Int64)).alias("dispatches_p50"),
        *describe_ns("call_dur_ns"),
        pl.when(known > 0).then(share).alias("per_dispatch_ns"),
    ]
