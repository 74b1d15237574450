"""Calls of the KFD in words: the fields of its ioctls, and what its mmaps map."""

from __future__ import annotations

import polars as pl

from tracecorr.link.event_args import pivot_args
from tracecorr.model.kinds import DERIVED, INFERRED
from tracecorr.read.kfd.fields import decode_mapping, name_value
from tracecorr.read.kfd.ioctls import CREATE_QUEUE, HANDLER_PREFIX, KFD_PREFIX

# A shorter name of a probe may begin the names of several requests.
_LEAST_NAME = 5
# A file cannot be that long: an offset from here on is one of /dev/kfd, though its open was not seen.
_LEAST_KFD_OFFSET = 1 << 62


def list_ioctl_fields(events: pl.DataFrame, args: pl.DataFrame) -> pl.DataFrame:
    """Return the fields that probes inside the driver read, as rows of args of the ioctl around them.

    A number with a meaning comes with a second row `KEY_name`.

    Args:
        events: placed events with `enclosing_call`.
        args: args by event.
    """
    layer, name = pl.col("layer"), pl.col("name").cast(pl.String)
    operation = name.str.strip_prefix(KFD_PREFIX).str.to_lowercase()
    rows = events.select("event", "enclosing_call", "name", "layer").filter(layer.is_in(["ioctl", "kfd"]))
    ioctls = rows.filter(layer == "ioctl").select(parent="event", operation=operation)
    probes = rows.filter((layer == "kfd") & pl.col("enclosing_call").is_not_null())
    probes = probes.select(parent="enclosing_call", probe="event", function=name).join(ioctls, on="parent")
    # Pages without the definitions of their probes name a function as its probe was called: kfd_create_queue.
    short = pl.col("function").str.strip_prefix("kfd_")
    called = pl.col("operation").str.starts_with(short) & (short.str.len_bytes() >= _LEAST_NAME)
    probes = probes.filter(pl.col("function").str.starts_with(HANDLER_PREFIX) | called)
    probes = probes.with_columns(
        function=pl.when(called).then(HANDLER_PREFIX + pl.col("operation")).otherwise("function")
    )
    asked = args if len(probes) else args.clear()
    fields = asked.select("u64", "text", probe="event", key=pl.col("key").cast(pl.String)).join(probes, on="probe")
    fields = fields.unique(["parent", "key"], keep="first", maintain_order=True)
    distinct = fields.select("function", "key", "u64").drop_nulls().unique()
    meanings = [name_value(*row) for row in distinct.iter_rows()]
    named = fields.join(
        distinct.with_columns(pl.Series("meaning", meanings, dtype=pl.String)), on=["function", "key", "u64"]
    )
    return pl.concat([
        fields.select("key", "u64", "text", event="parent"),
        named.drop_nulls("meaning").select(
            key=pl.col("key") + "_name", u64=pl.lit(None, pl.UInt64), text="meaning", event="parent"
        ),
    ]).select("event", "key", "u64", "text")  # fmt: skip


def list_mappings(events: pl.DataFrame, devices: pl.DataFrame) -> pl.DataFrame:
    """Return what each mmap of the KFD maps.

    Args:
        events: placed events.
        devices: devices behind descriptors (`descriptors.find_devices`).

    Returns: event, process, thread, ts_ns, mapping (`doorbells`, `events_page`, `reserved_memory`, `mmio`), gpu_id.
    """
    failed = pl.col("result").cast(pl.String).str.starts_with("E").fill_null(value=False)
    columns = ("event", "process", "thread", "ts_ns", "arg", "name", "result")
    calls = events.select(columns).filter((pl.col("name") == "mmap") & pl.col("arg").is_not_null()).filter(~failed)
    calls = calls.join(devices.select("event", "device"), on="event", how="left", maintain_order="left")
    far = pl.col("device").is_null() & (pl.col("arg") >= _LEAST_KFD_OFFSET)
    own = calls.filter((pl.col("device") == "kfd").fill_null(value=False) | far)
    mapping, gpu_id = decode_mapping(pl.col("arg"))
    return own.select("event", "process", "thread", "ts_ns", mapping=mapping, gpu_id=gpu_id)


def list_mapping_args(mappings: pl.DataFrame) -> pl.DataFrame:
    """Return rows of args: `kfd_mapping` and `gpu_id` of the mmaps of the KFD."""
    none = {"u64": pl.lit(None, pl.UInt64), "text": pl.lit(None, pl.String)}
    return pl.concat([
        mappings.select("event", key=pl.lit("kfd_mapping"), **{**none, "text": pl.col("mapping")}),
        mappings.drop_nulls("gpu_id").select("event", key=pl.lit("gpu_id"), **{**none, "u64": pl.col("gpu_id")}),
    ])  # fmt: skip


def link_doorbell_mappings(events: pl.DataFrame, args: pl.DataFrame, mappings: pl.DataFrame) -> pl.DataFrame:
    """Return the edges `doorbell_mapping`: from the CREATE_QUEUE that needed the doorbell page to its mmap.

    The page is mapped once per process and GPU, by the thread that made the first queue there, after the ioctl
    returned and in the same HIP call. `derived` where a probe read the GPU of the ioctl; else `inferred` by thread and
    time.

    Args:
        events: linked events with `chain`.
        args: args by event, with `gpu`.
        mappings: as `list_mappings` returns them.
    """
    pages = mappings.filter(pl.col("mapping") == "doorbells").sort("ts_ns")
    pages = pages.unique(["process", "thread", "gpu_id"], keep="first", maintain_order=True)
    made = events.select("event", "thread", "ts_ns", "dur_ns", "layer", "name", "result").filter(
        (pl.col("layer") == "ioctl")
        & (pl.col("name") == CREATE_QUEUE)
        & (pl.col("result") == "0").fill_null(value=True)
    )
    made = made.select("thread", "result", from_event="event", made_ns=pl.col("ts_ns") + pl.col("dur_ns").fill_null(0))
    gpus = pivot_args(args, made["from_event"], ["gpu"]).rename({"event": "from_event"})
    made = made.join(gpus, on="from_event", how="left", maintain_order="left").sort("made_ns")
    joined = pages.join_asof(made, left_on="ts_ns", right_on="made_ns", by="thread", check_sortedness=False).drop_nulls(
        "from_event"
    )
    # What an ioctl whose exit is missing returned is not known: it may be the one.
    joined = joined.drop_nulls("result")
    # Else the queue's own ioctl was lost. Where a log shows no call around them, only the GPU tells.
    call, made_in = (events["chain"].gather(joined[name]) for name in ("event", "from_event"))
    unsure = call.is_null() & (events["layer"] == "hip").any()
    agreed = joined.filter(
        call.eq_missing(made_in) & ((pl.col("gpu") == pl.col("gpu_id")) | (pl.col("gpu").is_null() & ~unsure))
    )
    return agreed.select(
        "from_event", to_event="event", rule=pl.lit("doorbell_mapping"),
        evidence=pl.when(pl.col("gpu").is_not_null()).then(pl.lit(DERIVED)).otherwise(pl.lit(INFERRED)),
    )  # fmt: skip
