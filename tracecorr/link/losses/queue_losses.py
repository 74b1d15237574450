"""Queue losses: logs that lack the line that follows a count of the hardware queues."""

from __future__ import annotations

import polars as pl

from tracecorr.model.kinds import QUEUE_CREATED, QUEUE_SELECTED, QUEUES_COUNTED

_OUTCOMES = (QUEUE_CREATED, QUEUE_SELECTED)
# Where more counts are followed by another one, a release or a level does not print what came of them.
_MOST_ALONE = 0.5


def list_unanswered(events: pl.DataFrame) -> pl.DataFrame:
    """Return the files (file) in which a thread counts the queues twice, and makes or takes none in between.

    Recorded logs of HIP 5.7 to 7.2 print a Created or Selected line behind each count.

    Args:
        events: rows with file, offset, thread, name, layer.
    """
    following = pl.col("name").shift(-1).over("file", "thread")
    return _select_alone(_list_lines(events), following == QUEUES_COUNTED).select("file").unique()


def list_unanswered_calls(damaged: pl.DataFrame, events: pl.DataFrame) -> pl.DataFrame:
    """Return the calls (event) that count the queues, and show nothing of what came of it: lines lack in them.

    Args:
        damaged: calls of files that lost lines: event.
        events: rows as for `list_unanswered`, with `parent`.
    """
    if damaged.is_empty():
        return damaged.select("event")
    following, outer = (pl.col(name).shift(-1).over("file", "thread") for name in ("name", "parent"))
    answered = following.is_in(_OUTCOMES) & (outer == pl.col("parent"))
    alone = _select_alone(_list_lines(events, "parent"), ~answered.fill_null(value=False))
    return damaged.select("event").join(alone.select(event="parent"), on="event", how="semi")


def _list_lines(events: pl.DataFrame, *more: str) -> pl.DataFrame:
    """Return the lines of the log that count the queues, and those that tell what came of it."""
    lines = events.select("file", "offset", "thread", "name", "layer", *more)
    is_asked = (pl.col("layer") == "aql") & pl.col("name").is_in([QUEUES_COUNTED, *_OUTCOMES])
    return lines.filter(is_asked & pl.col("thread").is_not_null()).sort("file", "offset")


def _select_alone(lines: pl.DataFrame, alone: pl.Expr) -> pl.DataFrame:
    """Return the counts of which nothing came, in files in which something comes of most."""
    counts = lines.with_columns(alone=alone.fill_null(value=False)).filter(pl.col("name") == QUEUES_COUNTED)
    return counts.filter(pl.col("alone"), pl.col("alone").mean().over("file") < _MOST_ALONE)
