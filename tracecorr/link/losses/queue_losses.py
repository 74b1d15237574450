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
    lines = events.select("file", "offset", "thread", "name", "layer").filter(
        (pl.col("layer") == "aql") & pl.col("name").is_in([QUEUES_COUNTED, *_OUTCOMES]) & pl.col("thread").is_not_null()
    ).sort("file", "offset")  # fmt: skip
    following = pl.col("name").shift(-1).over("file", "thread")
    counts = lines.with_columns(alone=following == QUEUES_COUNTED).filter(pl.col("name") == QUEUES_COUNTED)
    shares = counts.group_by("file").agg(pl.col("alone").fill_null(value=False).mean())
    return shares.filter(pl.col("alone") > 0, pl.col("alone") < _MOST_ALONE).select("file")
