"""Queues under a profiler: it gives HIP a queue of its own, whose ring the hardware never sees, and keeps the real one.

Then the ring of the log (HWq) is that of the profiler's buffer (ROCr's InterceptQueue), its doorbell is a user signal,
and packets may be added or changed on the way: index and doorbell of the hardware are unknown.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from tracecorr.model import frames
from tracecorr.model.frames import gives
from tracecorr.model.kinds import DERIVED, INFERRED, RECORDED
from tracecorr.native import Ints

# An AQL packet (HSA Runtime Programmer's Reference Manual).
_PACKET_BYTES = 64
_NO_STORE = "no doorbell"  # so begin the reasons of `launches.unlinked_reason` that a probe of stores would remove
_INTERCEPTED = "a profiler intercepts the queue: the store went to a signal of its own"


def _list_intercepting(lines: pl.DataFrame, ioctls: pl.DataFrame) -> pl.DataFrame:
    """Return the ioctls, with their rings, of processes whose queues a profiler may intercept.

    It intercepts all that are made while it is loaded: where one line of a process has the ring of an ioctl, it does
    not.

    Args:
        lines: Created lines: process, ring, ring_evidence.
        ioctls: CREATE_QUEUE ioctls: process, ring_base, type, and others.
    """
    named = lines.filter(pl.col("ring_evidence") == RECORDED).select("process", ring_base="ring").drop_nulls()
    shown = ioctls.drop_nulls(["process", "ring_base"])
    plain = shown.join(named, on=["process", "ring_base"], how="semi").select("process")
    hidden = shown.join(plain, on="process", how="anti").join(named, on="process", how="semi")
    return hidden.filter((pl.col("type") == "compute_aql").fill_null(value=True))


def _may_intercept() -> pl.Expr:
    """Tell of lines beside ioctls whether the ioctl may be the line's: its ring is unknown, or has the line's size."""
    size = pl.col("size").cast(pl.Int64, strict=False) * _PACKET_BYTES
    recorded = (pl.col("ring_evidence") == RECORDED).fill_null(value=False)
    return pl.col("ring_base").is_null() | (recorded & (pl.col("size_bytes") == size).fill_null(value=True))


def is_intercepted() -> pl.Expr:
    """Tell of queues whether a profiler intercepts them; null if the source that would tell is missing."""
    recorded = (pl.col("ring_evidence") == RECORDED).fill_null(value=False)
    return pl.when(recorded).then(pl.col("ring_base") != pl.col("ring"))


def explain_stores(launches: pl.DataFrame, queues: pl.DataFrame) -> pl.DataFrame:
    """Return `launches` with the reason why packets of intercepted queues have no doorbell store."""
    hidden = queues.filter("intercepted")["queue"]
    if hidden.is_empty():
        return launches
    said = pl.col("unlinked_reason").cast(pl.String)
    mine = pl.col("queue").is_in(hidden.implode()) & said.str.starts_with(_NO_STORE)
    reason = pl.when(mine).then(pl.lit(_INTERCEPTED)).otherwise(said)
    return launches.with_columns(reason.cast(launches.schema["unlinked_reason"]).alias("unlinked_reason"))


# Of the ioctls of threads that only the trace names at least this share must fit a Created line of their ring.
_LEAST_FITTING = 0.5


@gives(frames.CREATIONS)
def join_creations(lines: pl.DataFrame, ioctls: pl.DataFrame) -> pl.DataFrame:
    """Return line event, ioctl event and evidence: by ring address (as sure as that), else by thread and time.

    The ioctl must lie between the two lines of the creation. Of several with the ring's address, and of
    several on the thread, the last one is taken, because ROCr makes its own queue first. If the errors
    of the times leave a choice, nothing is joined; where they leave one candidate, it is `inferred`.
    A time whose error is larger than the creation shows nothing: a ring is used again.
    If most ioctls of threads that the log does not name fit no line of their ring, they are of another process.
    If a profiler intercepts the queues of a process (`intercepted_queues`), their ioctls have other rings.
    """
    if ioctls.is_empty():
        return lines.clear().select("event", ioctls["event"].alias("ioctl"), evidence=pl.lit(None, pl.String))
    kernel_side = ioctls.select(
        "process", "thread", "ring_base", "end_ns", "ioctl_lo", "ioctl_hi", "type", "size_bytes",
        start_ns="ts_ns", ioctl="event",
    )  # fmt: skip
    until = pl.col("ts_ns") + pl.col("err_hi_ns").fill_null(0)
    inside = (pl.col("start_ns") + pl.col("ioctl_hi") >= pl.col("from_ns")) & (
        pl.col("end_ns") - pl.col("ioctl_lo") <= until
    )
    surely = (pl.col("start_ns") - pl.col("ioctl_lo") >= pl.col("from_ns")) & (
        pl.col("end_ns") + pl.col("ioctl_hi") <= until
    )
    addressed = _join_near(lines, kernel_side.rename({"ring_base": "ring"}), ["process", "ring"])
    told = surely | (pl.col("ioctl_lo") + pl.col("ioctl_hi") <= until - pl.col("from_ns"))
    addressed = addressed.filter(inside & told)
    by_ring = _drop_strangers(_pick(addressed.with_columns(evidence="ring_evidence")), lines, kernel_side)
    rest = lines.join(by_ring, on="event", how="anti", maintain_order="left").drop_nulls("thread")
    free = kernel_side.filter(pl.col("ring_base").is_null())
    free = pl.concat([free, _list_intercepting(lines, kernel_side)])
    near = _join_near(rest, free.drop("process"), ["thread"]).filter(inside & told & _may_intercept())
    sure = pl.col("sure").all().over("event")
    near = near.with_columns(sure=surely).filter(sure | (pl.len().over("event") == 1))
    by_time = _pick(near.with_columns(evidence=pl.when("sure").then(pl.lit(DERIVED)).otherwise(pl.lit(INFERRED))))
    return pl.concat([by_ring, by_time])


def _join_near(lines: pl.DataFrame, ioctls: pl.DataFrame, keys: list[str]) -> pl.DataFrame:
    """Return the lines beside the ioctls of their key that may lie between `from_ns` and the line."""
    until = pl.col("ts_ns") + pl.col("err_hi_ns").fill_null(0)
    start, end = pl.col("start_ns") + pl.col("ioctl_hi"), pl.col("end_ns") - pl.col("ioctl_lo")
    line, ioctl = pair_spans(
        lines.select(*keys, low="from_ns", high=until), ioctls.select(*keys, low=end, high=start), keys
    )
    beside = ioctls.drop(keys)[ioctl]
    both = beside.rename({name: f"{name}_right" for name in beside.columns if name in lines.columns})
    return lines[line].hstack(both)


def pair_spans(one: pl.DataFrame, other: pl.DataFrame, keys: list[str]) -> tuple[Ints, Ints]:
    """Return which spans of one key meet, as pairs (row of `one`, row of `other`) in the order of the rows.

    The rows of one key are not crossed: queues are made on one ring again and again, and each by one thread.

    Args:
        one, other: columns `keys`, numbers of one type, and low, high; rows in which one of them is null meet none.
        keys: what must be equal.
    """
    sides = [frame.select(*keys, "low", "high") for frame in (one, other)]
    rows = [side.select(pl.all_horizontal(pl.all().is_not_null())).to_series().arg_true().to_numpy() for side in sides]
    sides = [side[kept] for side, kept in zip(sides, rows, strict=True)]
    both = pl.concat(sides)
    groups = both.select(keys).unique().with_row_index("group")
    key = both.join(groups, on=keys, how="left", maintain_order="left")["group"].to_numpy().astype(np.int64)
    times, ranks = np.unique(both.select("low", "high").to_numpy(), return_inverse=True)
    low, high = (ranks.reshape(-1, 2) + (key * max(len(times), 1))[:, None]).T
    count = len(sides[0])
    order = np.argsort(low[count:], kind="stable")
    # Of the spans in order of their starts, those up to the last that begins soon enough, from the first one on which
    # reaches far enough itself or is behind one that does.
    reach = np.maximum.accumulate(high[count:][order])
    first = np.searchsorted(reach, low[:count], side="left")
    near = np.maximum(np.searchsorted(low[count:][order], high[:count], side="right") - first, 0)
    left = np.repeat(np.arange(count), near)
    place = np.arange(len(left)) - np.repeat(np.cumsum(near) - near, near) + first[left]
    right = order[place]
    meets = high[count:][right] >= low[left]
    left, right = rows[0][left[meets]], rows[1][right[meets]]
    sorted_pairs = np.lexsort((right, left))
    return left[sorted_pairs], right[sorted_pairs]


def _pick(candidates: pl.DataFrame) -> pl.DataFrame:
    """Return the last candidate of each line; an ioctl that two lines claim belongs to neither."""
    last = candidates.sort("end_ns").unique("event", keep="last", maintain_order=True)
    return last.filter(pl.len().over("ioctl") == 1).select("event", "ioctl", "evidence")


def _drop_strangers(joins: pl.DataFrame, lines: pl.DataFrame, ioctls: pl.DataFrame) -> pl.DataFrame:
    """Leave out what rings join in processes that only have a pid in common: a pid of a namespace.

    Rings of several processes are at equal addresses. Those of another one were made at other times as a rule, and
    between two lines of this one by chance alone.
    """
    strange = ~pl.col("thread").is_in(lines["thread"].drop_nulls().unique().implode())
    rings = lines.select("process", ring_base="ring").drop_nulls()
    asked = ioctls.filter(strange).join(rings, on=["process", "ring_base"], how="semi")
    since = pl.coalesce("from_ns", "ts_ns").min()
    spans = lines.group_by("process").agg(first=since, last=pl.col("ts_ns").max())
    during = asked.join(spans, on="process").filter(pl.col("end_ns").is_between("first", "last"))
    fits = pl.col("ioctl").is_in(joins["ioctl"].implode()).mean()
    wrong = during.group_by("process").agg(fits=fits).filter(pl.col("fits") < _LEAST_FITTING)
    return joins.join(asked.join(wrong, on="process", how="semi"), on="ioctl", how="anti", maintain_order="left")
