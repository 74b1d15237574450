"""What is drawn: rows of the tables as spans and values with the key of their lane (polars, no effects).

Every function here returns frames of `_SHAPE`: a *piece* of the picture.
"""

from __future__ import annotations

import polars as pl

from tracecorr.link.calls import list_open_calls
from tracecorr.link.packet_index import measure_depth
from tracecorr.model.columns import is_counted
from tracecorr.model.kinds import INFERRED
from tracecorr.model.schema import CAT
from tracecorr.store.fleet import Tables
from tracecorr.timeline import lanes, levels

INFERRED_DOORBELL = "doorbell (inferred)"
_STILL_OPEN = " (still open)"  # after the name of a call
_GPU_BOUNDS = " (bounds)"  # after the name of the kernel

# One drawn thing; `label` is its name, `value` that of a counter: all rows of a piece have one, or none has.
_SHAPE: dict[str, pl.DataType] = {
    "event": pl.Int64(), "start": pl.Int64(), "end": pl.Int64(), "layer": CAT, "process": pl.UInt32(),
    "thread": pl.UInt32(), "queue": pl.UInt32(), "gpu": pl.UInt16(), "sub": CAT, "depth": pl.UInt16(),
    "style": pl.UInt8(), "label": CAT, "value": pl.Float64(),
}  # fmt: skip

# Functions of the driver that tell the hardware scheduler what to run, and wait for it.
_SCHEDULING = (
    r"runlist|map_queues|execute_queues|preempt|(?:evict|restore)_|_queue_mes$|fence_wait|quantum|reset_queues"
)


def _shape(frame: pl.LazyFrame, **columns: pl.Expr | str) -> pl.DataFrame:
    """Return the columns of `_SHAPE`: those named, those of the frame, and nulls for the rest."""
    known = frame.collect_schema()
    defaults = {"style": pl.lit(0)}
    out = []
    for name, dtype in _SHAPE.items():
        given = columns.get(name, name if name in known else defaults.get(name, pl.lit(None)))
        expression = pl.col(given) if isinstance(given, str) else given
        out.append(expression.cast(dtype).alias(name))
    return frame.select(out).collect(engine="in-memory")


def open_calls(tables: Tables) -> pl.DataFrame:
    """Return one span per call that was open at the end, up to the last record of its process."""
    calls = list_open_calls(tables("events")).lazy()
    depths = tables("events").select("event", "depth")
    return _shape(
        calls.join(depths, on="event", how="left"), start="ts_ns", end=pl.col("ts_ns") + pl.col("open_ns"),
        layer=pl.lit("hip"), style=pl.lit(levels.HALF_SEEN), label=pl.col("name") + _STILL_OPEN,
    )  # fmt: skip


def _inferred_doorbells(tables: Tables) -> pl.DataFrame:
    """Return one hollow span per doorbell that is known only by an interval; it has the event of its packet."""
    known = pl.col("doorbell_lo_ns").is_not_null() & pl.col("doorbell_hi_ns").is_not_null()
    unseen = (pl.col("doorbell_evidence").cast(pl.String) == INFERRED) & pl.col("doorbell_event").is_null()
    return _shape(
        tables("launches").filter(unseen & known),
        start="doorbell_lo_ns", end="doorbell_hi_ns", layer=pl.lit("doorbell"), style=pl.lit(levels.INFERRED),
        label=pl.lit(INFERRED_DOORBELL),
    )  # fmt: skip


def gpu_bounds(tables: Tables) -> pl.DataFrame:
    """Return one hollow span per dispatch without GPU times: it ran between its command's line and its observed end.

    Neither its line nor its doorbell is a bound: both come after the packet is in the ring, from where a queue that
    runs may take it at once. If no line before it is known, nothing is drawn.
    """
    unknown = pl.col("gpu_start_ns").is_null() & pl.col("gpu_event").is_null()
    dispatches = tables("launches").filter(unknown & (pl.col("kind").cast(pl.String) == "dispatch"))
    # Texts are put together once for each kernel.
    label = pl.concat_str(pl.coalesce("display", "name"), pl.lit(_GPU_BOUNDS)).cast(CAT)
    names = tables("kernels").select("kernel", label=label)
    begun = dispatches.with_columns(begin=pl.coalesce("enqueue_ns", "call_ns"))
    joined = begun.filter(pl.col("complete_ns") >= pl.col("begin")).join(
        names, on="kernel", how="left", maintain_order="left"
    )
    return _shape(
        joined, start="begin", end="complete_ns", layer=pl.lit("gpu"), sub=pl.lit("bounds"),
        style=pl.lit(levels.INFERRED), label=pl.coalesce("label", pl.lit(f"dispatch{_GPU_BOUNDS}").cast(CAT)),
    )  # fmt: skip


def queue_depth(tables: Tables) -> pl.DataFrame:
    """Return how many packets lay in the ring of each queue at each of its packets, that one included.

    Each value holds until the next packet of the queue, and no longer than until this one was seen to be complete: a
    ring is consumed in order, so nothing up to it is left in there.
    """
    known = pl.col("wptr").is_not_null() & pl.col("rptr").is_not_null() & pl.col("queue").is_not_null()
    # All columns would be sorted, not only those that are drawn.
    columns = ("event", "packet_ns", "complete_ns", "queue", "process", "wptr", "rptr")
    packets = tables("launches").filter(known).select(columns).sort("packet_ns", "event")
    until = pl.col("packet_ns").shift(-1).over("queue")
    gone = pl.when(pl.col("complete_ns").is_not_null()).then(pl.max_horizontal("complete_ns", "packet_ns"))
    return _shape(
        packets.with_columns(end=pl.coalesce(pl.min_horizontal(until, gone), "packet_ns")),
        start="packet_ns", layer=pl.lit(lanes.DEPTH), value=measure_depth(), thread=pl.lit(None), gpu=pl.lit(None),
        label=pl.lit("depth"),
    )  # fmt: skip


def _polled_samples(tables: Tables) -> pl.DataFrame:
    """Return each polled value until the next one of the same name, GPU and process; those of other programs are not
    drawn, but in the sums of their GPU."""
    samples = tables("samples").with_columns(pl.col("name").cast(pl.String)).sort("ts_ns")
    samples = samples.filter(~pl.col("name").str.contains(" pid ", literal=True))
    until = pl.col("ts_ns").shift(-1).over("name", "gpu", "process")
    return _shape(
        samples.filter(pl.col("value").is_not_null()).with_columns(end=until.fill_null(pl.col("ts_ns"))),
        start="ts_ns", layer=pl.lit(lanes.SAMPLE), sub="name", label="name",
    )  # fmt: skip


def drm_jobs(tables: Tables) -> pl.DataFrame:
    """Return each job of the kernel's GPU scheduler twice: waiting for its ring, and running on it."""
    jobs = tables("drm_jobs")
    ring = pl.concat_str(pl.col("dev", "ring").cast(pl.String), separator=" ", ignore_nulls=True)
    waits = jobs.filter(pl.col("queued_ns").is_not_null() & pl.col("run_ns").is_not_null())
    runs = jobs.filter(pl.col("run_ns").is_not_null())
    nobody = {"process": pl.lit(None), "thread": pl.lit(None), "sub": ring, "label": name_job()}
    half = pl.when(pl.col("done_ns").is_null()).then(levels.HALF_SEEN).otherwise(0)
    return pl.concat(
        [
            _shape(waits, event="queue_event", start="queued_ns", end="run_ns", layer=pl.lit(lanes.DRM_WAIT), **nobody),
            _shape(
                runs, event="run_event", start="run_ns", end=pl.coalesce("done_ns", "run_ns"), style=half,
                layer=pl.lit(lanes.DRM_RUN), **nobody,
            ),
        ]
    )  # fmt: skip


def name_job() -> pl.Expr:
    """Return what a job of the GPU scheduler is called: by its number, or by its fence on kernels that number none."""
    return pl.concat_str(pl.lit("job "), pl.coalesce(pl.col("id").cast(pl.String), "fence"), ignore_nulls=True)


def hardware_queues(tables: Tables) -> pl.DataFrame:
    """Return each occupied HQD slot at each dump (recorded), and hollow between two dumps that agree.

    Its event is its queue in that dump; a slot without a queue has none.
    """
    dumps = tables("hqd")
    slot = pl.format("{} xcc {} pipe {} slot {}", *_texts("type", "xcc", "pipe", "slot"))
    state, priority = pl.col("state").cast(pl.String), pl.col("pipe_priority").cast(pl.String).fill_null("?")
    label = pl.format("{}, pipe priority {}, quantum {}", state, priority, *_texts("quantum"))
    at = (
        dumps.filter((pl.col("dump").cast(pl.String) == "hqds") & state.is_in(["active", "stale"]))
        .filter(pl.col("read_start_ns").is_not_null())
        .with_columns(sub=slot, label=label, end=pl.coalesce("read_end_ns", "read_start_ns"))
        .join(_sights(tables, dumps), on=["file", "logical"], how="left", maintain_order="left")
        .sort("snapshot", maintain_order=True)
    )
    same = [pl.col(c).eq_missing(pl.col(c).shift(-1)).over("gpu", "sub") for c in ("label", "pq_base")]
    follows = (pl.col("snapshot") + 1 == pl.col("snapshot").shift(-1)).over("gpu", "sub")
    until = pl.col("read_start_ns").shift(-1).over("gpu", "sub")
    between = at.with_columns(start="end", end=until).filter(follows, *same)
    return pl.concat(
        [
            _shape(at, start="read_start_ns", layer=pl.lit("hqd"), queue=pl.lit(None)),
            _shape(between, layer=pl.lit("hqd"), queue=pl.lit(None), style=pl.lit(levels.INFERRED)),
        ]
    )


def _sights(tables: Tables, dumps: pl.LazyFrame) -> pl.LazyFrame:
    """Return file, logical and event: a queue has banks on several XCCs, and the bytes of one are its event's."""
    seen = tables("events").filter(pl.col("layer") == "hqd").select("file", "offset", "event")
    found = dumps.join(seen, on=["file", "offset"]).drop_nulls("logical")
    return found.group_by("file", "logical").agg(pl.col("event").min())


def _texts(*columns: str) -> list[pl.Expr]:
    return [pl.col(c).cast(pl.String).fill_null("-") for c in columns]


def _scheduler_work(tables: Tables) -> pl.DataFrame:
    """Return the driver's work for the hardware scheduler once more, for a lane by GPU.

    Whoever caused it: a runlist update for another process preempts the queues of this one.
    """
    function = pl.col("layer").is_in(["kfd", "amdgpu", "mqd"]) & is_counted()
    events = tables("events").filter(function).with_columns(pl.col("name").cast(pl.String))
    return _shape(
        events.filter(pl.col("name").str.contains(_SCHEDULING)),
        start="ts_ns", end=pl.col("ts_ns") + pl.col("dur_ns").fill_null(0), layer=pl.lit(lanes.SCHEDULER),
        process=pl.lit(None), thread=pl.lit(None), queue=pl.lit(None), depth=pl.lit(None), label="name",
    )  # fmt: skip


def extra_pieces(tables: Tables) -> list[pl.DataFrame]:
    """Return everything that is drawn besides the events themselves, in pieces."""
    makers = (
        open_calls, _inferred_doorbells, gpu_bounds, queue_depth, _polled_samples, drm_jobs, hardware_queues,
        _scheduler_work,
    )  # fmt: skip
    return [make(tables).drop_nulls(["start", "end"]) for make in makers]
