"""Ring owners: which queue each row that names a ring belongs to, of those that had it one after the other."""

from __future__ import annotations

import polars as pl

from tracecorr.clock.joins import join_nearest, sort_rows

OF_LOG = pl.col("source") == "amd_log"
# No process has this key.
UNNAMED = (1 << 32) - 1
_OF_RING = ("event", "process", "ring", "ts_ns", "err_lo_ns", "err_hi_ns", "source")


def name_one_process(rows: pl.DataFrame, of_log: pl.Expr, events: pl.DataFrame) -> pl.DataFrame:
    """Return rows with one process for all of a log that names none: its rings are told apart by address.

    Several such logs are not: the same address may be that of a ring in each.
    """
    if not rows["process"].null_count():
        return rows
    nameless = events.filter(OF_LOG & pl.col("process").is_null() & pl.col("ring").is_not_null())
    if nameless["file"].n_unique() != 1:
        return rows
    process = pl.when(of_log & pl.col("process").is_null()).then(pl.lit(UNNAMED, pl.UInt32)).otherwise("process")
    return rows.with_columns(process=process)


def assign_queues(events: pl.DataFrame, queues: pl.DataFrame, aligned: bool) -> pl.DataFrame:
    """Return `event`, `queue` for every row that names a ring: the instance that was created last before it.

    What may be of two lives of its ring, because the clock of the trace is not known that well, belongs to none.

    Args:
        events, queues: placed events with `process`, `ring`, numbered by their rows; the table of `build_queues`.
        aligned: whether the clock of the trace is known; else rows are of what their side shows, or a ring's only one.
    """
    starts = _bound_starts(queues, events)
    queues = name_one_process(queues, pl.col("known_from").str.starts_with("amd_log"), events)
    events = name_one_process(events, OF_LOG, events).select(_OF_RING)
    instances = queues.with_columns(ring=pl.coalesce("hwq", "ring_base"), ts_ns="starts_ns", **starts)
    instances = instances.drop_nulls("ring").select("process", "ring", "ts_ns", *starts, "queue", "known_from")
    instances = instances.sort("ts_ns")
    if aligned:
        return _assign(events, instances)
    of_log = pl.col("known_from").str.starts_with("amd_log")
    sides = [(OF_LOG, of_log), (~OF_LOG, ~of_log)]
    return pl.concat([_assign(events.filter(rows), _list_side(instances, mine)) for rows, mine in sides])


def _list_side(instances: pl.DataFrame, mine: pl.Expr) -> pl.DataFrame:
    """Return the instances that one side shows, and of rings that it shows no creation of the only one."""
    shown, keys = instances.filter(mine), ["process", "ring"]
    only = instances.join(shown, on=keys, how="anti").filter(pl.len().over(keys) == 1)
    return pl.concat([shown, only]).sort("ts_ns")


def _assign(events: pl.DataFrame, instances: pl.DataFrame) -> pl.DataFrame:
    named = events.select("event", "process", "ring", "ts_ns").drop_nulls("ring")
    lives = instances.select("process", "ring", "ts_ns", "queue")
    before = join_nearest(sort_rows(named, "ts_ns"), lives, ["process", "ring"], "ts_ns", "ts_ns")
    # Rows of the creation itself come before its Created line: they belong to the instance to come.
    early = before.filter(pl.col("queue").is_null()).drop("queue")
    after = join_nearest(early, lives, ["process", "ring"], "ts_ns", "ts_ns", forward=True)
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
