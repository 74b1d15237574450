"""GPUs, and which queue a hardware slot, an MQD or a run list entry belongs to."""

from __future__ import annotations

import polars as pl

from tracecorr.model import frames, schema
from tracecorr.model.frames import gives
from tracecorr.model.kinds import DERIVED, RECORDED


def list_gpus(queues: pl.DataFrame, hqd: pl.DataFrame, known: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the table `gpus`, and `queues` with its key `gpu` in the place of `gpu_id`.

    Args:
        queues: queues with the column `gpu_id`.
        hqd: rows of table `hqd`: they name node and XCCs of each GPU.
        known: rows of `schema.GPUS` from the topology of the machine, their `gpu` is not used.
    """
    banks = hqd.filter(pl.col("kfd_node").is_not_null()).group_by("gpu_id").agg(
        seen_node=pl.col("kfd_node").first(), seen_xccs=pl.col("xcc").drop_nulls().unique().sort()
    )  # fmt: skip
    named = [queues["gpu_id"].cast(pl.UInt32, strict=False), hqd["gpu_id"], known["gpu_id"]]
    ids = pl.concat(named).drop_nulls().unique().sort().alias("gpu_id").to_frame().with_row_index("gpu")
    full = ids.join(known.drop("gpu"), on="gpu_id", how="left", maintain_order="left")
    full = full.join(banks, on="gpu_id", how="left", maintain_order="left")
    text = pl.when(pl.col("seen_xccs").list.len() > 0).then(pl.col("seen_xccs").cast(pl.List(pl.String)).list.join(" "))
    table = full.with_columns(
        kfd_node=pl.coalesce("kfd_node", "seen_node"), xcc_ids=pl.coalesce("xcc_ids", text),
        xcc_count=pl.coalesce("xcc_count", pl.when(text.is_not_null()).then(pl.col("seen_xccs").list.len())),
    ).drop("seen_node", "seen_xccs")  # fmt: skip
    keyed = queues.with_columns(pl.col("gpu_id").cast(pl.UInt32, strict=False))
    keyed = keyed.join(ids, on="gpu_id", how="left", maintain_order="left").drop("gpu_id")
    return schema.GPUS.conform(table), keyed


@gives(frames.GPUS_OF_EVENTS)
def assign_gpus(args: pl.DataFrame, devices: pl.DataFrame, gpus: pl.DataFrame) -> pl.DataFrame:
    """Return event, named_gpu of calls that name their GPU: by gpu_id in a field, or by the render node of the file.

    Args:
        args: args by event; `gpu` of KFD ioctls and `gpu_id` of mmaps hold a gpu_id.
        devices: devices behind descriptors (`descriptors.find_devices`).
        gpus: the table.
    """
    ids = gpus.select("gpu_id", named_gpu="gpu")
    fields = args.filter(pl.col("key").is_in(["gpu", "gpu_id"]) & pl.col("u64").is_not_null())
    by_id = fields.select("event", gpu_id=pl.col("u64").cast(pl.UInt32, strict=False)).join(ids, on="gpu_id")
    minor = pl.col("path").str.extract(r"renderD(\d+)$", 1).cast(pl.Int32)
    nodes = gpus.select("render_minor", named_gpu="gpu").drop_nulls()
    # Partitions of one device share its first render node in old kernels: then the node names none of them.
    nodes = nodes.filter(pl.len().over("render_minor") == 1)
    by_node = devices.select("event", render_minor=minor).drop_nulls().join(nodes, on="render_minor")
    both = pl.concat([by_id.select("event", "named_gpu"), by_node.select("event", "named_gpu")])
    return both.unique("event", keep="first", maintain_order=True)


_PACKET_BYTES = 64
# The doorbells of a process begin with a page of the BAR, and what CREATE_QUEUE returns ends, from gfx9 on, with the
# place behind that (pqm_create_queue, Linux 5.4 to 7.2).
_DOORBELL_PAGE = 0x1000

# What `shows_none_of_log` says, in words.
NONE_OF_LOG = "no queue of the dump is one of this log, as far as rings, GPUs, processes and times tell"


def attach_queues(hqd: pl.DataFrame, queues: pl.DataFrame, processes: pl.DataFrame, gpus: pl.DataFrame) -> pl.DataFrame:
    """Return table `hqd` with `gpu`, and `queue`: the one queue whose ring lies at the slot's PQ_BASE.

    Ring addresses are virtual and reused. A queue is taken only where GPU, process, type, size and doorbell do not
    contradict the slot, where it lived while the dump was read, and where no other queue fits as well. Processes may
    have rings at one address: then a dump of MQDs, which names processes, tells by its doorbells whose slots these are,
    and whose queues a runlist holds. No two rings of one dump are of one queue.

    Args:
        hqd: rows of table `hqd`; times are CLOCK_MONOTONIC.
        queues, processes, gpus: the tables.
    """
    if hqd.is_empty():
        return hqd.drop("queue", "gpu").with_columns(queues["queue"].clear(), gpus["gpu"].clear())
    rows = hqd.drop("queue", "gpu").with_row_index("row")
    owners = processes.select("process", owner_pid="pid")
    ids = gpus.select("gpu", owner_gpu_id="gpu_id")
    rings = (
        queues.select(
            "queue", "process", "gpu", "created_ns", "destroyed_ns", pq_base=pl.coalesce("ring_base", "hwq"), **_own()
        )
        .filter(pl.col("pq_base") != 0)
        .join(owners, on="process", how="left")
        .join(ids, on="gpu", how="left")
    )
    fits = _filter_fitting(rows.drop_nulls("logical").join(rings, on="pq_base"))
    mqds = rows.filter(pl.col("dump") == "mqds").drop_nulls(["gpu_id", "doorbell", "pid"])
    doorbells = _list_doorbells(mqds, fits)
    told = fits.join(doorbells, on=["queue", "gpu_id"], how="left", maintain_order="left")
    told = told.filter(_agree("doorbell", "own_doorbell"))
    foreign = mqds.join(told, on="row", how="anti").select("gpu_id", "doorbell", "pq_base")
    hidden = told.filter(pl.col("dump") == "hqds").join(foreign, on=foreign.columns, how="semi").select("row")
    told = told.join(hidden, on="row", how="anti")
    listed = rows.filter(pl.col("pq_base").is_null()).drop_nulls("logical")
    named = doorbells.join(
        _list_shared(mqds), left_on=["gpu_id", "own_doorbell"], right_on=["gpu_id", "doorbell"], how="anti"
    )
    listed = listed.join(named, left_on=["gpu_id", "doorbell"], right_on=["gpu_id", "own_doorbell"])
    listed = _filter_fitting(listed.join(rings.drop("pq_base"), on="queue"))
    columns = ("row", "snapshot", "dump", "logical", "queue")
    found = pl.concat([told.select(columns), listed.select(columns)]).filter(pl.len().over("row") == 1)
    alone = found.filter(pl.col("logical").n_unique().over("snapshot", "dump", "queue") == 1).select("row", "queue")
    own = gpus.select("gpu_id", "gpu")
    keyed = rows.join(alone, on="row", how="left", maintain_order="left")
    return keyed.join(own, on="gpu_id", how="left", maintain_order="left").drop("row")


def shows_none_of_log(hqd: pl.DataFrame, queues: pl.DataFrame) -> bool:
    """Tell whether dumps show active compute queues and a log names rings, but nothing of the dumps is of one of these.

    Args:
        hqd, queues: the tables, linked.
    """
    logged = queues.drop_nulls("hwq")
    slots = hqd.filter(pl.col("active") & (pl.col("type").cast(pl.String) == "cp"))
    if logged.is_empty() or slots.is_empty():
        return False
    return hqd.drop_nulls("queue").join(logged, on="queue", how="semi").is_empty()


def _own() -> dict[str, pl.Expr]:
    """Return what a dump must show of a queue: own_type, own_bytes, own_place (of its doorbell in its page)."""
    kind = pl.col("type").cast(pl.String)
    own_type = pl.when(kind.str.starts_with("sdma")).then(pl.lit("sdma")).when(kind.is_not_null()).then(pl.lit("cp"))
    in_bytes = pl.when(kind == "compute_aql").then(pl.col("size") * _PACKET_BYTES)
    place = pl.when(pl.col("doorbell_offset") != 0).then(pl.col("doorbell_offset") % _DOORBELL_PAGE)
    return {"own_type": own_type, "own_bytes": in_bytes, "own_place": place}


def _filter_fitting(pairs: pl.DataFrame) -> pl.DataFrame:
    """Return the pairs of a slot and a queue that contradict each other neither in what they are nor in time."""
    made, ended, start, end = (pl.col(f"{name}_ns") for name in ("created", "destroyed", "read_start", "read_end"))
    in_time = (made.is_null() | end.is_null() | (made <= end)) & (ended.is_null() | start.is_null() | (ended >= start))
    told = pairs.with_columns(
        pl.col("type").cast(pl.String), place=pl.col("doorbell").cast(pl.UInt64) * 4 % _DOORBELL_PAGE
    )
    same = [("gpu_id", "owner_gpu_id"), ("pid", "owner_pid"), ("type", "own_type"), ("ring_bytes", "own_bytes"),
            ("place", "own_place")]  # fmt: skip
    return told.filter(*(_agree(*names) for names in same), in_time).drop("place")


def _list_doorbells(mqds: pl.DataFrame, fits: pl.DataFrame) -> pl.DataFrame:
    """Return queue, gpu_id, own_doorbell as the MQDs of known queues tell them."""
    mine = fits.join(mqds.select("row"), on="row", how="semi").filter(pl.len().over("row") == 1)
    told = mine.select("queue", "gpu_id", own_doorbell="doorbell").unique(maintain_order=True)
    return told.filter(pl.len().over("queue", "gpu_id") == 1)


def _list_shared(mqds: pl.DataFrame) -> pl.DataFrame:
    """Return gpu_id and doorbell that several queues had, one after the other."""
    owners = pl.struct("pid", "pq_base").n_unique()
    return mqds.group_by("gpu_id", "doorbell").agg(owners=owners).filter(pl.col("owners") > 1).drop("owners")


@gives(frames.GPUS_OF_EVENTS)
def find_gpus_of_sights(events: pl.DataFrame, hqd: pl.DataFrame) -> pl.DataFrame:
    """Return event, named_gpu of the sights of queues in dumps, of all processes.

    Args:
        events: events; those of layer `hqd` are sights.
        hqd: table `hqd` with `gpu`.
    """
    sights = events.select("file", "offset", "event", "layer").filter(pl.col("layer") == "hqd")
    rows = hqd.drop_nulls(["gpu", "logical"]).unique(["file", "offset"], keep="first", maintain_order=True)
    return sights.join(rows, on=["file", "offset"], maintain_order="left").select("event", named_gpu="gpu")


@gives(frames.EDGES)
def link_hqds(events: pl.DataFrame, hqd: pl.DataFrame, queues: pl.DataFrame) -> pl.DataFrame:
    """Return the edges `hqd_of_queue`: from what made a queue to each sight of it in a dump.

    `recorded` where the dump names the process, or both name the GPU; `derived` where the address alone says it.

    Args:
        events: linked events; those of layer `hqd` are sights.
        hqd: table `hqd` with `queue`.
        queues: the table.
    """
    sights = events.select("file", "offset", "event", "layer").filter(pl.col("layer") == "hqd").drop("layer")
    rows = hqd.drop_nulls(["queue", "logical"]).unique(["file", "offset"], keep="first", maintain_order=True)
    causes = queues.select("queue", queue_gpu="gpu", from_event=pl.coalesce("create_ioctl_event", "created_line_event"))
    joined = sights.join(rows, on=["file", "offset"], maintain_order="left").join(
        causes, on="queue", maintain_order="left"
    )
    sure = pl.col("pid").is_not_null() | pl.col("queue_gpu").is_not_null()
    return joined.drop_nulls("from_event").select(
        "from_event", to_event="event", rule=pl.lit("hqd_of_queue"),
        evidence=pl.when(sure).then(pl.lit(RECORDED)).otherwise(pl.lit(DERIVED)),
    )  # fmt: skip


def _agree(ours: str, theirs: str) -> pl.Expr:
    return pl.col(ours).is_null() | pl.col(theirs).is_null() | (pl.col(ours) == pl.col(theirs))
