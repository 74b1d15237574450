"""Which queues existed, where are they known from, and what went through them?"""

from __future__ import annotations

from collections.abc import Callable

import polars as pl

from tracecorr.analyze.frames import as_text, collect

_SHOWN = (
    "queue", "process", "gpu", "hwq", "ring_base", "kfd_queue_id", "type", "size", "priority_hip", "priority_log",
    "priority_ioctl", "intercepted", "created_ns", "destroyed_ns", "create_evidence", "ring_evidence", "mqd_events",
    "dispatches", "barriers",
)  # fmt: skip
_RINGLESS = (
    "the line of a creation names no ring (up to ROCm 6.1), and nothing surely tells it: a queue that only it shows "
    "and one that only packets show may be the same"
)
_APART = (
    "nothing surely joins all queues of the log to the CREATE_QUEUE ioctls of the trace: one that only the log shows "
    "and one that only the trace shows may be the same"
)


def _is_logged() -> pl.Expr:
    """Tell of queues whether the log may show what went through them."""
    traced = pl.col("known_from").str.contains("ftrace").fill_null(value=False)
    return ~traced | pl.col("known_from").str.contains("amd_log") | pl.col("hwq").is_not_null()


def _is_ringless() -> pl.Expr:
    """Tell of queues whether only a line of the log shows them that names no ring (up to ROCm 6.1)."""
    named = pl.col("known_from").str.contains("amd_log").fill_null(value=False)
    return pl.col("hwq").is_null() & pl.col("ring_base").is_null() & named


def _is_unmade() -> pl.Expr:
    """Tell of queues whether they are known by packets, but not by their creation."""
    return pl.col("hwq").is_not_null() & pl.col("created_ns").is_null()


def count_doubled(queues: pl.DataFrame) -> int:
    """Return how many queues may be counted twice: in the log by creation and packets, or by the log and the trace.

    Args:
        queues: as `summarize_queues` returns them; of a dataset with `node`.
    """
    return _count_by_node(_count_ringless, queues) + _count_by_node(_count_apart, queues)


def explain_doubled(queues: pl.DataFrame) -> list[str]:
    """Return, in words, why queues may be counted twice; nothing where none is.

    Args:
        queues: as `summarize_queues` returns them; of a dataset with `node`.
    """
    causes = ((_count_ringless, _RINGLESS), (_count_apart, _APART))
    return [reason for count, reason in causes if _count_by_node(count, queues)]


def _count_by_node(count: Callable[[pl.DataFrame], int], queues: pl.DataFrame) -> int:
    """Return the sum over the nodes of a dataset: a queue of one is none of another's."""
    return sum(map(count, queues.partition_by("node"))) if "node" in queues.columns else count(queues)


def _count_ringless(queues: pl.DataFrame) -> int:
    both = queues.group_by("process").agg(pl.min_horizontal(_is_ringless().sum(), _is_unmade().sum()).alias("n"))
    return int(both["n"].sum())


def _count_apart(queues: pl.DataFrame) -> int:
    """Return how many queues of the log without an ioctl may be such of the trace without a line.

    A process that only one side shows may be any that only the other one shows.
    """
    logged, traced = (pl.col("known_from").str.contains(s).fill_null(value=False) for s in ("amd_log", "ftrace"))
    # The ring that a probe read would have joined it, and HIP makes no queue of SDMA.
    sdma = pl.col("type").cast(pl.String).str.starts_with("sdma").fill_null(value=False)
    nameless = traced & ~logged & pl.col("ring_base").is_null() & ~sdma
    sides = queues.group_by("process").agg(
        log=(logged & ~traced).sum(), trace=nameless.sum(), has_log=logged.any(), has_trace=traced.any()
    )
    shared = sides.filter(pl.col("has_log") & pl.col("has_trace")).select(pl.min_horizontal("log", "trace").sum())
    log = sides.filter(~pl.col("has_trace"))["log"].sum()
    trace = sides.filter(~pl.col("has_log"))["trace"].sum()
    return int(shared.item() + min(log, trace))


def summarize_queues(queues: pl.LazyFrame, stream_queues: pl.LazyFrame) -> pl.DataFrame:
    """Return one row per queue, with the number of streams that submitted to it.

    `dispatches`, `barriers` and `streams` are null of a queue that the log does not know. `streams` is so, too, where
    the log shows packets of a queue and names the stream of none. Up to ROCm 6.1 the line of a
    creation names no ring: where it cannot be inferred, its packets are in rows of their own, and unknown in that of
    the line.
    Where no queue has a packet or a stream nothing printed them: what the queues held is unknown.
    """
    streams = stream_queues.group_by("queue").agg(pl.col("stream").n_unique().cast(pl.Int64).alias("streams"))
    used = (pl.col("dispatches") + pl.col("barriers")).fill_null(0) > 0
    silent = ~(used.any() | pl.col("streams").is_not_null().any())
    return collect(
        queues.select(*_SHOWN, "known_from")
        .with_columns(as_text("type", "create_evidence", "ring_evidence"))
        .join(streams, on="queue", how="left")
        .with_columns(elsewhere=(_is_ringless() & _is_unmade().any().over("process")) | silent | ~_is_logged())
        .with_columns(
            # It is rare: a column that says `no` of every queue would only be in the way.
            pl.when("intercepted").then("intercepted").alias("intercepted"),
            pl.when(~pl.col("elsewhere")).then("dispatches").alias("dispatches"),
            pl.when(~pl.col("elsewhere")).then("barriers").alias("barriers"),
            streams=pl.when(pl.col("elsewhere") | used).then("streams").otherwise(pl.col("streams").fill_null(0)),
        )
        .select(*_SHOWN, "streams", "known_from")
        .sort("queue")
    )
