"""A link is no surer than the thread or process that both of its sides are said to be of."""

from __future__ import annotations

import polars as pl

from tracecorr.link.threads.thread_map import SAME_PID
from tracecorr.model.kinds import DERIVED, INFERRED, RECORDED


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


def limit_by_pid(links: pl.DataFrame, column: str, processes: pl.DataFrame, threads: pl.DataFrame) -> pl.DataFrame:
    """Return `links` with `derived` for `recorded` in processes of which log and trace show nothing but the same pid.

    Processes of several pid namespaces may have each other's numbers, and rings at equal addresses. Threads that were
    guessed by what they did at the same time say no more.

    Args:
        links: rows with `process` and the evidence by which a key joins the two sources.
        column: the one with this evidence.
        processes, threads: the tables.
    """
    guessed = pl.col("evidence").cast(pl.String) == INFERRED
    joined = threads.drop_nulls("evidence").group_by("process").agg(only_guessed=guessed.all())
    unsure = pl.concat([
        processes.filter(pl.col("how").cast(pl.String) == SAME_PID)["process"],
        joined.filter("only_guessed")["process"],
    ])  # fmt: skip
    weaker = pl.col("process").is_in(unsure.implode()) & (pl.col(column).cast(pl.String) == RECORDED)
    return links.with_columns(pl.when(weaker).then(pl.lit(DERIVED)).otherwise(column).alias(column))
