"""A link that a thread joins is no surer than the thread itself."""

from __future__ import annotations

import polars as pl

from tracecorr.model.kinds import DERIVED, INFERRED


def limit_by_thread(
    links: pl.DataFrame, key: str, column: str, events: pl.DataFrame, threads: pl.DataFrame
) -> pl.DataFrame:
    """Return `links` with `inferred` for `derived` where the thread that joins both sides is only inferred.

    What a key joins (`recorded`) does not rest on the thread.

    Args:
        links: rows that name an event of the thread, and their evidence.
        key, column: their columns with this event and with the evidence.
        events: events with `thread`, numbered by their rows.
        threads: the table `threads`.
    """
    guessed = threads.filter(pl.col("evidence").cast(pl.String) == INFERRED)["thread"]
    if guessed.is_empty():
        return links
    unsure = events["thread"].gather(links[key]).is_in(guessed.implode())
    weaker = pl.when(unsure & (pl.col(column).cast(pl.String) == DERIVED)).then(pl.lit(INFERRED)).otherwise(column)
    return links.with_columns(weaker.alias(column))
