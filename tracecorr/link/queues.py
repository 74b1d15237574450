"""Queues: instances of (process, ring, n-th creation), their ends, and which rows are theirs."""

from __future__ import annotations

import polars as pl

from tracecorr.link.creations import is_intercepted, join_creations
from tracecorr.link.events import attach_args, find_places, pivot_args
from tracecorr.model import frames
from tracecorr.model.columns import IS_PACKET
from tracecorr.model.frames import gives
from tracecorr.model.kinds import QUEUE_CREATED, QUEUE_DELETED, QUEUES_COUNTED, RECORDED
from tracecorr.read.kfd.ioctls import CREATE_QUEUE, IP_TYPES, QUEUE_TYPES, USERQ, USERQ_CREATE

_OF_LOG = pl.col("source") == "amd_log"
# No process has this key.
_UNNAMED = (1 << 32) - 1
_OF_RING = ("event", "process", "ring", "ts_ns", "err_lo_ns", "err_hi_ns", "source")


def _name_one_process(rows: pl.DataFrame, of_log: pl.Expr, events: pl.DataFrame) -> pl.DataFrame:
    """Return rows with one process for all of a log that names none: its rings differ by address.

    Several such logs are not: the same address may be that of a ring in each.
    """
    if not rows["process"].null_count():
        return rows
    nameless = events.filter(_OF_LOG & pl.col("process").is_null() & pl.col("ring").is_not_null())
    if nameless["file"].n_unique() != 1:
        return rows
    process = pl.when(of_log & pl.col("process").is_null()).then(pl.lit(_UNNAMED, pl.UInt32)).otherwise("process")
    return rows.with_columns(process=process)


@gives(frames.QUEUES_OF_EVENTS)
def assign_queues(events: pl.DataFrame, queues: pl.DataFrame, aligned: bool) -> pl.DataFrame:
    """Return `event`, `queue` for every row that names a ring: the instance that was created last before it.

    What may be of two lives of its ring, because the clock of the trace is not known that well, belongs to none.

    Args:
        events, queues: placed events with `process`, `ring`, numbered by their rows; the table of `build_queues`.
        aligned: whether the clock of the trace is known; else rows are of what their side shows, or a ring's only one.
    """
    starts = _bound_starts(queues, events)
    queues = _name_one_process(queues, pl.col("known_from").str.starts_with("amd_log"), events)
    events = _name_one_process(events, _OF_LOG, events).select(_OF_RING)
    instances = queues.with_columns(ring=pl.coalesce("hwq", "ring_base"), ts_ns="starts_ns", **starts)
    instances = instances.drop_nulls("ring").select("process", "ring", "ts_ns", *starts, "queue", "known_from")
    instances = instances.sort("ts_ns")
    if aligned:
        return _assign(events, instances)
    of_log = pl.col("known_from").str.starts_with("amd_log")
    sides = [(_OF_LOG, of_log), (~_OF_LOG, ~of_log)]
    return pl.concat([_assign(events.filter(rows), _list_side(instances, mine)) for rows, mine in sides])


def _list_side(instances: pl.DataFrame, mine: pl.Expr) -> pl.DataFrame:
    """Return the instances that one side shows, and of rings that it shows no creation of the only one."""
    shown, keys = instances.filter(mine), ["process", "ring"]
    only = instances.join(shown, on=keys, how="anti").filter(pl.len().over(keys) == 1)
    return pl.concat([shown, only]).sort("ts_ns")


def _assign(events: pl.DataFrame, instances: pl.DataFrame) -> pl.DataFrame:
    named = events.select("event", "process", "ring", "ts_ns").drop_nulls("ring")
    lives = instances.select("process", "ring", "ts_ns", "queue")
    keys = ["process", "ring"]
    before = named.sort("ts_ns", maintain_order=True).join_asof(lives, on="ts_ns", by=keys, check_sortedness=False)
    # Rows of the creation itself come before its Created line: they belong to the next instance.
    early = before.filter(pl.col("queue").is_null()).drop("queue")
    after = early.join_asof(lives, on="ts_ns", by=keys, strategy="forward", check_sortedness=False)
    found = pl.concat([before.filter(pl.col("queue").is_not_null()), after]).select("event", "queue")
    unsure = _list_unsure(events, instances)
    return found if unsure.is_empty() else found.join(unsure, on="event", how="anti", maintain_order="left")


def _bound_starts(queues: pl.DataFrame, events: pl.DataFrame) -> dict[str, pl.Expr]:
    """Return between which times (ns) of the log each queue was made: those that the trace alone shows are not sure."""
    of_trace = queues.select(pl.when(pl.col("known_from") == "ftrace").then("create_ioctl_event")).to_series()
    low, high = (events[name].gather(of_trace).cast(pl.Int64).fill_null(0) for name in ("err_lo_ns", "err_hi_ns"))
    return {"early_ns": pl.col("starts_ns") - pl.lit(low), "late_ns": pl.col("starts_ns") + pl.lit(high)}


def _list_unsure(events: pl.DataFrame, instances: pl.DataFrame) -> pl.DataFrame:
    """Return the rows (event) that may lie before or behind the creation of their ring's next life.

    Of a queue that the trace alone shows it is not sure which lines of the log come behind its creation.
    """
    keys = ["process", "ring"]
    again = instances.filter(pl.len().over(keys) > 1)
    if again.is_empty():
        return events.select("event").clear()
    rows = events.filter(pl.col("ring").is_not_null()).join(again.select(keys).unique(), on=keys, how="semi")
    at, is_trace = pl.col("ts_ns"), pl.col("source") == "ftrace"
    low, high = at - pl.col("err_lo_ns").cast(pl.Int64), at + pl.col("err_hi_ns").cast(pl.Int64)
    unsure = again.filter((pl.col("early_ns") < pl.col("late_ns")).any().over(keys))
    return pl.concat([
        _list_between(rows.filter(is_trace), (low, high), again, ("ts_ns", "ts_ns")),
        _list_between(rows.filter(~is_trace), (at, at), unsure, ("late_ns", "early_ns")),
    ])  # fmt: skip


def _list_between(
    rows: pl.DataFrame, span: tuple[pl.Expr, pl.Expr], instances: pl.DataFrame, starts: tuple[str, str]
) -> pl.DataFrame:
    """Return the rows (event) that are of one instance at the earlier end of their span, and of another at its later.

    Args:
        rows: event, process, ring, and the columns of `span`.
        span: between which times a row lies, ns.
        instances: process, ring, queue, and the columns of `starts`.
        starts: which column tells from when on an instance is there, asked at each end of the span.
    """
    keys = ["process", "ring"]
    first, last = (
        rows.select("event", *keys, at=at).drop_nulls("at").sort("at").join_asof(
            instances.select(*keys, "queue", at=start).sort("at"), on="at", by=keys, check_sortedness=False
        ) for at, start in zip(span, starts, strict=True)
    )  # fmt: skip
    both = first.join(last, on="event", suffix="_last")
    return both.filter(pl.col("queue") != pl.col("queue_last")).select("event")


_RING = ["process", "ring"]


def _merge_shared(lines: pl.DataFrame, joins: pl.DataFrame, ends: pl.DataFrame) -> pl.DataFrame:
    """Return the creations without those that gave out a cooperative queue again, with `users`.

    `users` counts the Created lines of a queue: it ends when all of them have given it back.

    Args:
        lines: Created lines as `queue_lives.list_creations` returns them.
        joins: `event` of those that an ioctl made (`creation_joins.join_creations`).
        ends: event, process, ring, swq, ts_ns of the lines that tell the end of a queue.
    """
    made = lines.with_columns(name=pl.lit(QUEUE_CREATED)).join(joins.select("event", own=True), on="event", how="left")
    both = pl.concat([made, ends.with_columns(name=pl.lit(QUEUE_DELETED))], how="diagonal_relaxed").sort(
        "ts_ns", "event"
    )
    both = both.with_columns(address=pl.coalesce("ring", "swq"))
    shared = _find_shared(both) & both["own"].is_null()
    both = both.with_columns(shared=shared).filter(pl.col("name") == QUEUE_CREATED)
    both = both.with_columns(life=(~pl.col("shared")).cum_sum().over("process", "address"))
    both = both.with_columns(users=pl.len().over("process", "address", "life"))
    return both.filter(~pl.col("shared")).select(*lines.columns, "users")


def _add_ends(queues: pl.DataFrame, ends: pl.DataFrame) -> pl.DataFrame:
    """Return `queues` with `destroyed_ns`: when the last of its users gave it back.

    Args:
        queues: queues with `hwq`, `starts_ns`, `users` (null = one).
        ends: as `_merge_shared` takes them.
    """
    given = ends.select(*_RING, "ts_ns").drop_nulls("ring").sort("ts_ns")
    begun = queues.select("queue", "users", "process", ring="hwq", ts_ns="starts_ns").drop_nulls("ring").sort("ts_ns")
    owned = given.with_columns(destroyed_ns="ts_ns").join_asof(
        begun, on="ts_ns", by=_RING, allow_exact_matches=False, check_sortedness=False
    )
    place = pl.int_range(1, pl.len() + 1).over("queue")
    last = owned.drop_nulls("queue").filter(place == pl.col("users").fill_null(1))
    return queues.join(last.select("queue", "destroyed_ns"), on="queue", how="left", maintain_order="left")


# Lines of threads that share a queue change places by less than so many packets.
_OUT_OF_ORDER = 64
# Columns of packets that name their queue.
PACKET_IDS = ("swq", "log_id")


@gives(frames.CREATED_LINES)
def list_creations(events: pl.DataFrame, args: pl.DataFrame) -> pl.DataFrame:
    """Return the log's queue creations: one row per Created line, with the interval of its making.

    `from_ns` is when its call counted the queues; null = that line is missing.

    Args:
        events: placed events with `process`, `thread`, `ring`.
        args: args by event.
    """
    created = events.filter((pl.col("layer") == "aql") & (pl.col("name") == QUEUE_CREATED))
    fields = pivot_args(args, created["event"], ["swq", "size", "priority", "cooperative"])
    counts = events.filter((pl.col("layer") == "aql") & (pl.col("name") == QUEUES_COUNTED))
    # Both lines are printed in one HIP call: the count of another creation says nothing of this one.
    call = pl.col("parent").fill_null(-1).alias("call")
    starts = counts.select("process", "thread", call, "ts_ns", from_ns="ts_ns")
    return (
        created.select("event", "process", "thread", call, "ts_ns", "ring", "err_hi_ns")
        .join(fields, on="event", how="left", maintain_order="left")
        .sort("ts_ns")
        .join_asof(starts.sort("ts_ns"), on="ts_ns", by=["process", "thread", "call"], check_sortedness=False)
        .drop("call")
    )


@gives(frames.CREATE_IOCTLS)
def list_kernel_creations(events: pl.DataFrame, args: pl.DataFrame) -> pl.DataFrame:
    """Return the ioctls that make queues, each with the ring and fields that a probe recorded inside it (in `args`).

    Those of the KFD, and of the DRM's user queues, whose packets are announced by doorbells, too.

    Args:
        events: placed events with `process`, `thread`.
        args: args by event.

    Returns: event, process, thread, ts_ns, end_ns, ioctl_lo, ioctl_hi (errors of the times), ring_base, size_bytes,
        type, priority, gpu_id.
    """
    made = events.filter((pl.col("layer") == "ioctl") & pl.col("name").is_in([CREATE_QUEUE, USERQ]))
    ioctls = made.select(
        "event",
        "name",
        "process",
        "thread",
        "ts_ns",
        end_ns=pl.col("ts_ns") + pl.col("dur_ns").fill_null(0),
        ioctl_lo=pl.col("err_lo_ns").fill_null(0).cast(pl.Int64),
        ioctl_hi=pl.col("err_hi_ns").fill_null(0).cast(pl.Int64),
    )
    fields = pivot_args(args, ioctls["event"], ["ring", "size", "gpu", "type", "qtype", "prio", "op", "ip"])
    joined = ioctls.join(fields, on="event", how="left", maintain_order="left")
    joined = joined.filter((pl.col("name") == CREATE_QUEUE) | (pl.col("op") == USERQ_CREATE))
    kinds = (
        pl.coalesce("type", "qtype")
        .cast(pl.Int64, strict=False)
        .replace_strict(QUEUE_TYPES, default=None, return_dtype=pl.String)
    )
    by_ip = pl.col("ip").cast(pl.Int64, strict=False).replace_strict(IP_TYPES, default=None, return_dtype=pl.String)
    return joined.select(
        "event",
        "process",
        "thread",
        "ts_ns",
        "end_ns",
        "ioctl_lo",
        "ioctl_hi",
        ring_base="ring",
        size_bytes=pl.col("size").cast(pl.Int64, strict=False),
        type=pl.coalesce(kinds, by_ip),
        priority=pl.col("prio").cast(pl.Int32, strict=False),
        gpu_id="gpu",
    )


def build_queues(
    events: pl.DataFrame,
    packets: pl.DataFrame,
    args: pl.DataFrame,
    aligned: bool,
    rings: pl.DataFrame,
) -> pl.DataFrame:
    """Return the table `queues` (without the counts that need packets).

    Rows: one per Created line, one per ring that only packets name, one per life of a ring whose index starts again
    without a Created line, one per CREATE_QUEUE ioctl that no Created line belongs to, one per ring that doorbell
    stores alone show. `starts_ns` tells from when on a ring belongs to a row.

    Args:
        events: placed events with `process`, `thread`, `ring`, `parent`.
        packets: part packets: file, offset, and `PACKET_IDS`.
        args: args by event.
        aligned: whether the clock of the trace is known.
        rings: those of Created lines that name none (`created_rings.find_rings`).
    """
    events = _name_one_process(events, _OF_LOG, events)
    printed = list_log_packets(events)
    lines = _fill_rings(list_creations(events, args), rings)
    ioctls = list_kernel_creations(events, args)
    # On an unknown clock nothing says which of two creations with one address is meant.
    joins = join_creations(lines if aligned else lines.clear(), ioctls)
    ends = list_ends(events, args)
    lines = _merge_shared(lines, joins, ends)
    logged = _logged(lines, joins, ioctls)
    unlined = _rings_without_line(printed, lines)
    foreign = ioctls.join(joins, left_on="event", right_on="ioctl", how="anti").select(
        "process", "ring_base", "gpu_id", "type", create_ioctl_event="event", priority_ioctl="priority",
        created_ns="end_ns",
        size=pl.when(pl.col("type") == "compute_aql").then(pl.col("size_bytes") // 64), known_from=pl.lit("ftrace"),
    )  # fmt: skip
    seen = _list_packet_ids(printed, packets)
    again = _find_restarts(printed, lines, seen)
    rung = _list_rung(events, ioctls)
    queues = pl.concat([logged, unlined, again, foreign, rung], how="diagonal_relaxed").with_row_index("queue")
    queues = queues.with_columns(starts_ns=pl.coalesce("starts_ns", "created_ns").fill_null(0))
    queues = _add_packet_ids(queues, seen)
    named = pl.when(pl.col("process") != _UNNAMED).then("process")
    return _add_ends(queues, ends).drop("users").with_columns(process=named)


@gives(frames.QUEUE_ENDS)
def list_ends(events: pl.DataFrame, args: pl.DataFrame) -> pl.DataFrame:
    """Return event, process, ring, swq, ts_ns of the lines that tell a queue's end, by its ring or its address.

    Args:
        events: placed events with `process`, `ring`.
        args: args by event.
    """
    rows = events.select("event", "process", "ring", "ts_ns", "layer", "name")
    rows = rows.filter((pl.col("layer") == "aql") & (pl.col("name") == QUEUE_DELETED))
    fields = pivot_args(args, rows["event"], ["swq"])
    return rows.join(fields, on="event", how="left").select("event", "process", "ring", "swq", "ts_ns")


def _fill_rings(lines: pl.DataFrame, rings: pl.DataFrame) -> pl.DataFrame:
    named = lines.join(rings.rename({"ring": "found"}), on="event", how="left", maintain_order="left")
    evidence = pl.when(pl.col("ring").is_not_null()).then(pl.lit(RECORDED)).otherwise("ring_evidence")
    return named.with_columns(ring=pl.coalesce("ring", "found"), ring_evidence=evidence).drop("found")


def _logged(lines: pl.DataFrame, joins: pl.DataFrame, ioctls: pl.DataFrame) -> pl.DataFrame:
    kernel_side = ioctls.select("ring_base", "priority", "type", "gpu_id", ioctl="event")
    joined = lines.join(joins, on="event", how="left", maintain_order="left")
    joined = joined.join(kernel_side, on="ioctl", how="left", maintain_order="left")
    both = pl.when(pl.col("ioctl").is_not_null()).then(pl.lit("amd_log ftrace")).otherwise(pl.lit("amd_log"))
    return joined.select(
        "process", "ring_base", "gpu_id", "swq", hwq="ring", size=pl.col("size").cast(pl.Int64, strict=False),
        priority_log=pl.col("priority").cast(pl.Int32, strict=False), priority_ioctl=pl.col("priority_right"),
        created_ns="ts_ns",
        created_line_event="event", create_ioctl_event="ioctl", create_evidence="evidence", users="users",
        ring_evidence=pl.when(pl.col("ring").is_not_null()).then("ring_evidence"), intercepted=is_intercepted(),
        type=pl.coalesce("type", pl.lit("compute_aql")), known_from=both,
    )  # fmt: skip


def _rings_without_line(printed: pl.DataFrame, lines: pl.DataFrame) -> pl.DataFrame:
    """Return rings that packets name but no Created line does (it was lost, or ROCm <= 6.1)."""
    rings = printed.select("process", "ring").unique(maintain_order=True)
    named = lines.select("process", "ring").drop_nulls()
    missing = rings.join(named, on=["process", "ring"], how="anti", nulls_equal=True, maintain_order="left")
    return missing.select("process", hwq="ring", type=pl.lit("compute_aql"), known_from=pl.lit("amd_log"))


def _list_rung(events: pl.DataFrame, ioctls: pl.DataFrame) -> pl.DataFrame:
    """Return the rings that only doorbell stores show, without any log: their queues were made before the trace began.

    A log names the queues of its processes, which may not be known to be those of the trace; a CREATE_QUEUE without
    its ring may be that of any.
    """
    stores = events.select("process", "ring", "layer").filter(pl.col("layer") == "doorbell").drop_nulls()
    if events.select(_OF_LOG.any()).item():
        stores = stores.clear()
    unnamed = ioctls.filter(pl.col("ring_base").is_null()).select("process").unique()
    rung = stores.select("process", ring_base="ring").unique(maintain_order=True)
    rung = rung.join(unnamed, on="process", how="anti", maintain_order="left")
    rung = rung.join(ioctls, on=["process", "ring_base"], how="anti", maintain_order="left")
    return rung.with_columns(type=pl.lit("compute_aql"), known_from=pl.lit("ftrace"))


def _find_restarts(printed: pl.DataFrame, lines: pl.DataFrame, seen: pl.DataFrame) -> pl.DataFrame:
    """Return rings that show a further queue though no Created line tells why: it was lost.

    A log id is that of one queue of a process; the next process with its pid has a log, and ids, of its own. If none
    is printed, or in the next log, the packet index starts again: it occurs once in the life of a queue, but threads
    that share one may print a few packets out of order.
    """
    keys = ["process", "ring"]
    ids = seen.drop_nulls("log_id").unique([*keys, "file", "log_id"], keep="first", maintain_order=True)
    # A queue may have packets before its Created line: those behind that line show that it was this queue's.
    before = pl.col("last_ns", "log_id").shift(1).over(keys).name.suffix("_before")
    other = ids.with_columns(before).filter(pl.col("log_id") != pl.col("log_id_before"))
    other = other.rename({"last_ns_before": "before_ns"})
    packets = printed.drop_nulls("packet_index")
    twice = ids.filter(pl.col("file").n_unique().over(keys) > 1)
    named = packets.join(twice, on=keys, how="semi", maintain_order="left")
    packets = packets.join(ids, on=keys, how="anti", maintain_order="left")
    falls = [_find_falls(packets), _find_falls(named).filter(pl.col("file") != pl.col("file_before"))]
    again = pl.concat(falls)
    starts = pl.concat([part.select(*keys, "before_ns", starts_ns="ts_ns") for part in (other, again)])
    starts = starts.sort("starts_ns", maintain_order=True)
    ended = starts.group_by(keys).agg(pl.col("before_ns").first())
    made = lines.drop_nulls("ring").select(*keys, made_ns="ts_ns").sort("made_ns", maintain_order=True)
    told = starts.join_asof(made, left_on="starts_ns", right_on="made_ns", by=keys, check_sortedness=False)
    lost = told.filter((pl.col("made_ns") < pl.col("before_ns")).fill_null(True))
    # The first line of the ring came after the end of its first queue: that queue has no line.
    first = made.unique(keys, keep="first", maintain_order=True).join(ended, on=keys, maintain_order="left")
    unlined = first.filter(pl.col("made_ns") > pl.col("before_ns")).select(*keys, starts_ns=pl.lit(0, pl.Int64))
    lives = pl.concat([unlined, lost.select(*keys, "starts_ns")])
    return lives.select("process", "starts_ns", hwq="ring", type=pl.lit("compute_aql"), known_from=pl.lit("amd_log"))


def _find_falls(packets: pl.DataFrame) -> pl.DataFrame:
    """Return the packets with which the index of their ring starts again, and `before_ns`, the time of the one before.

    Args:
        packets: process, ring, packet_index, ts_ns, in the order of their times.
    """
    before = {"before": "packet_index", "before_ns": "ts_ns", "file_before": "file"}
    packets = packets.with_columns(
        pl.col(column).shift(1).over("process", "ring").alias(name) for name, column in before.items()
    )
    fell = (pl.col("before") - pl.col("packet_index") >= _OUT_OF_ORDER) | (
        (pl.col("packet_index") == 0) & (pl.col("before") > 0)
    )
    return packets.filter(fell)


def _find_shared(lines: pl.DataFrame) -> pl.Series:
    """Return, for each line, whether it tells of a cooperative queue that was there already.

    ROCr has one queue for cooperative launches per GPU (GpuAgent::QueueCreate, gws_queue_). HIP prints a Created line
    whenever it asks for one; while another user has it, no ioctl is made, and the queue goes on.

    Args:
        lines: creations and deletions of the log, in the order of their times: name, process, address (the ring, or the
            queue where the release prints no ring), cooperative (null of deletions).
    """
    made, keys = pl.col("name") == QUEUE_CREATED, ["process", "address"]
    users = pl.when(made).then(1).otherwise(-1).cum_sum().shift(1).over(keys)
    last = pl.col("cooperative").forward_fill().shift(1).over(keys)
    shared = made & (pl.col("cooperative") == 1) & (last == 1) & (users > 0) & pl.col("address").is_not_null()
    return lines.select(shared.fill_null(value=False)).to_series()


@gives(frames.RECORD_PLACES)
def list_shared(log: pl.DataFrame, args: pl.DataFrame) -> pl.DataFrame:
    """Return file and offset of the Created lines that made no queue.

    Args:
        log: rows of the log, creations and deletions of queues among them.
        args: part args.
    """
    place = ["file", "offset"]
    lives = log.filter(pl.col("name").is_in([QUEUE_CREATED, QUEUE_DELETED])).select(
        *place, "name", "process", "ring", "stamp_ns"
    )
    lives = attach_args(lives, args, ["swq", "cooperative"])
    lives = lives.with_columns(address=pl.coalesce("ring", "swq")).sort("stamp_ns", *place)
    return lives.filter(_find_shared(lives)).select(place)


@gives(frames.LOG_PACKETS)
def list_log_packets(events: pl.DataFrame) -> pl.DataFrame:
    """Return the packets of the log in the order of their times."""
    columns = ("event", "ts_ns", "process", "ring", "packet_index", "file", "offset")
    rows = events.select(*columns, "layer", "name").filter(IS_PACKET & pl.col("ring").is_not_null())
    return rows.select(columns)


def _list_packet_ids(printed: pl.DataFrame, packets: pl.DataFrame) -> pl.DataFrame:
    """Return SWq and log id as packets of each ring print them: process, ring, file, swq, log_id, and when they do so
    first (ts_ns) and last (last_ns)."""
    rows = find_places(packets, printed)
    fields = printed.select("process", "ring", "file", "ts_ns").with_columns(
        packets.select(PACKET_IDS)[rows].get_columns()
    )
    seen = fields.group_by("process", "ring", "file", *PACKET_IDS, maintain_order=True).agg(
        pl.col("ts_ns").first(), last_ns=pl.col("ts_ns").last()
    )
    return seen.filter(pl.col("swq").is_not_null() | pl.col("log_id").is_not_null()).sort("ts_ns")


def _add_packet_ids(queues: pl.DataFrame, seen: pl.DataFrame) -> pl.DataFrame:
    """Add SWq and log id as the packets of the queue print them: those of its ring that come first in its life."""
    asked = queues.drop_nulls("hwq").select("queue", "process", ring="hwq", ts_ns="starts_ns").sort("ts_ns")
    ends = pl.col("ts_ns").shift(-1).over("process", "ring")
    keys = ["process", "ring"]
    ahead = asked.with_columns(ends=ends).join_asof(
        seen.with_columns(seen_ns="ts_ns"), on="ts_ns", by=keys, strategy="forward", check_sortedness=False
    )
    fresh = ahead.filter((pl.col("seen_ns") < pl.col("ends")).fill_null(pl.col("seen_ns").is_not_null()))
    # No new ones: those that its ring printed before.
    rest = asked.join(fresh, on="queue", how="anti").join_asof(seen, on="ts_ns", by=keys, check_sortedness=False)
    named = pl.concat([part.select("queue", "log_id", printed="swq") for part in (fresh, rest)])
    joined = queues.join(named, on="queue", how="left", maintain_order="left")
    return joined.with_columns(swq=pl.coalesce("swq", "printed")).drop("printed")
