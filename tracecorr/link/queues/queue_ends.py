"""When queues end, and creations that give out again a queue which has not ended."""

from __future__ import annotations

import polars as pl

from tracecorr.clock.cooperative import find_shared
from tracecorr.model.kinds import QUEUE_CREATED, QUEUE_DELETED

_RING = ["process", "ring"]


def merge_shared(lines: pl.DataFrame, joins: pl.DataFrame, ends: pl.DataFrame) -> pl.DataFrame:
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
    shared = find_shared(both) & both["own"].is_null()
    both = both.with_columns(shared=shared).filter(pl.col("name") == QUEUE_CREATED)
    both = both.with_columns(life=(~pl.col("shared")).cum_sum().over("process", "address"))
    both = both.with_columns(users=pl.len().over("process", "address", "life"))
    return both.filter(~pl.col("shared")).select(*lines.columns, "users")


def add_ends(queues: pl.DataFrame, ends: pl.DataFrame) -> pl.DataFrame:
    """Return `queues` with `destroyed_ns`: when the last of its users gave it back.

    Args:
        queues: queues with `hwq`, `starts_ns`, `users` (null = one).
        ends: as `merge_shared` takes them.
    """
    given = ends.select(*_RING, "ts_ns").drop_nulls("ring").sort("ts_ns")
    begun = queues.select("queue", "users", "process", ring="hwq", ts_ns="starts_ns").drop_nulls("ring").sort("ts_ns")
    owned = given.with_columns(destroyed_ns="ts_ns").join_asof(
        begun, on="ts_ns", by=_RING, allow_exact_matches=False, check_sortedness=False
    )
    place = pl.int_range(1, pl.len() + 1).over("queue")
    last = owned.drop_nulls("queue").filter(place == pl.col("users").fill_null(1))
    return queues.join(last.select("queue", "destroyed_ns"), on="queue", how="left", maintain_order="left")
