"""Creations of cooperative queues that make none: ROCr gives out the one that it has."""

from __future__ import annotations

import polars as pl

from tracecorr.clock.rows import attach_args
from tracecorr.model.kinds import QUEUE_CREATED, QUEUE_DELETED


def find_shared(lines: pl.DataFrame) -> pl.Series:
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
    return lives.filter(find_shared(lives)).select(place)
