"""What ran on the GPUs: kernels and copies, each from when to when where a source timed it."""

from __future__ import annotations

from typing import NamedTuple

import polars as pl

from tracecorr.analyze.frames import Tables, collect
from tracecorr.analyze.moment_errors import add_errors, gap_error, list_tellers
from tracecorr.link.event_args import attach_fields
from tracecorr.link.rocprof import CORRELATION_RULE

KERNELS, COPIES = "kernels", "copies"
_MOMENTS = ("packet_ns", "gpu_start_ns")
_OWNER = {"work": pl.String, "of_profile": pl.Boolean, "gpu": pl.UInt16, "agent": pl.String, "queue": pl.Int64}
_COUNTED = {**_OWNER, "packets": pl.Int64}
# Columns of what is timed, wherever it comes from; what its source does not tell is null.
_TIMED = {
    **_OWNER, "event": pl.Int64, "kernel": pl.UInt32, "thread": pl.Int64, "call_event": pl.Int64, "asked_ns": pl.Int64,
    "rung_ns": pl.Int64, "start_ns": pl.Int64, "end_ns": pl.Int64, "error_ns": pl.Int64, "wait_error_ns": pl.Int64,
}  # fmt: skip


class GpuWork(NamedTuple):
    """Hold what ran on the GPUs. Barriers are left out: one waits, and what it waits for is another packet's time.

    Args:
        packets: how many there are: work (`kernels`, `copies`), of_profile (a profile tells them, no log), gpu, agent
            (the GPU as a profile names it), queue (of a profile the id that it prints), packets.
        timed: those of which start and end are known: the columns above, event (the packet or copy; of a profile its
            own row), kernel, thread (of the call; of a profile its tid), call_event, asked_ns (the packet's line; of a
            profile the begin of its call), rung_ns (the doorbell was not rung later), start_ns, end_ns, error_ns (how
            far both may lie from the truth), wait_error_ns (how far asked_ns and rung_ns may lie from start_ns
            besides; null = unknown).
    """

    packets: pl.DataFrame
    timed: pl.DataFrame


def list_work(tables: Tables) -> GpuWork:
    """Return the kernels and copies that the log shows; where no kernel of it is timed, those of a profile.

    Such a profile may be of another run, or its clock not be known: its times are its own.

    Args:
        tables: gives the table of a capture by its name.
    """
    logged = _list_logged(tables)
    if (logged.timed["work"] == KERNELS).any():
        return logged
    profiled = _list_profiled(tables)
    has_kernels = (profiled.packets["work"] == KERNELS).any()
    return profiled if has_kernels or logged.packets.is_empty() else logged


def _list_logged(tables: Tables) -> GpuWork:
    kind = pl.col("kind").cast(pl.String)
    work = pl.when(kind == "copy").then(pl.lit(COPIES)).otherwise(pl.lit(KERNELS))
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
    return GpuWork(_shape(packets, _COUNTED), _shape(timed, _TIMED))


def _list_profiled(tables: Tables) -> GpuWork:
    """Return what a profile holds: all its moments are of one clock, whose offset from others may be unknown."""
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
    work = pl.when(pl.col("kernel").is_null()).then(pl.lit(COPIES)).otherwise(pl.lit(KERNELS))
    timed = spans.with_columns(
        of_profile=pl.lit(value=True),
        work=work,
        queue="queue_id",
        rung_ns=pl.lit(None),
        wait_error_ns=pl.when(pl.col("asked_ns").is_not_null()).then(0),
    )
    packets = timed.group_by(list(_OWNER)).agg(packets=pl.len())
    return GpuWork(_shape(packets, _COUNTED), _shape(timed, _TIMED))


def _shape(rows: pl.DataFrame, columns: dict[str, type[pl.DataType]]) -> pl.DataFrame:
    return rows.select(pl.col(name).cast(kind) for name, kind in columns.items())
