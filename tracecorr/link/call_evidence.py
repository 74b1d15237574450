"""What lies in a call of a log that lost lines is no surer than the call's end."""

from __future__ import annotations

import polars as pl

from tracecorr.model.kinds import DERIVED, INFERRED, Flag

_IN_CALLS = ("call_nesting", "command_in_call", "packet_in_call", "syscall_in_call")


def limit_by_loss(links: pl.DataFrame, events: pl.DataFrame, losses: pl.DataFrame) -> pl.DataFrame:
    """Return the table `links` with `inferred` for `derived` where a call may be two, between which lines were lost.

    Those that are unlike others are open (`false_calls`), the rest are likely whole. An exit that tells the duration of
    its call proves it.

    Args:
        links: the table.
        events: events with `file`, `flags`, numbered by their rows.
        losses: files of the log that lost lines (`false_calls.find_losses`).
    """
    lossy = losses.filter(pl.col("lost") > 0)["file"]
    if lossy.is_empty():
        return links
    call = events.select("file", "flags")[links["from_event"]]
    proven = call["flags"].fill_null(0) & int(Flag.SPAN_TOLD) > 0
    unsure = call["file"].is_in(lossy.implode()) & ~proven
    weaker = pl.col("rule").cast(pl.String).is_in(_IN_CALLS) & (pl.col("evidence").cast(pl.String) == DERIVED) & unsure
    inferred = pl.lit(INFERRED).cast(links.schema["evidence"])
    return links.with_columns(evidence=pl.when(weaker).then(inferred).otherwise("evidence"))
