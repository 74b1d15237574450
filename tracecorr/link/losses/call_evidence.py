"""What is linked by the order of lines, in a log that lost some, is no surer than what shows that none lack there."""

from __future__ import annotations

import polars as pl

from tracecorr import native
from tracecorr.clock.bounds import Mask
from tracecorr.model.kinds import DERIVED, INFERRED, Flag

_BY_CALL = ("call_nesting", "command_in_call", "packet_in_call", "syscall_in_call")
_BY_COMMAND = ("packet_of_command", "copy_of_command")
# The end of a command names its pointer, and the line of the pointer's next use may lack.
_BY_POINTER = "completion_of_packet"


def limit_by_loss(
    links: pl.DataFrame, events: pl.DataFrame, launches: pl.DataFrame, losses: pl.DataFrame
) -> pl.DataFrame:
    """Return the table `links` with `inferred` for `derived` where lines may lack between cause and effect.

    A call may be two: those that are unlike others are open (`false_calls`), the rest are likely whole. An exit that
    tells the duration of its call proves it. A packet may be of a later command: those behind gaps of the packet
    indexes are left out (`sure_commands`), but where a release prints none nothing shows that. What a thread that
    submits commands writes is in the call of its command. An end that is found may be that of the next command.

    Args:
        links: the table.
        events: events with `file`, `flags`, `parent`, numbered by their rows.
        launches: the table.
        losses: files of the log that lost lines (`lossy_files.find_losses`).
    """
    lossy = losses.filter(pl.col("lost") > 0)["file"]
    if lossy.is_empty():
        return links
    is_told = events.select(pl.col("flags").fill_null(0) & int(Flag.SPAN_TOLD) > 0).to_series().to_numpy()
    # What a packet or copy, or what is done in a call that tells its duration, shows of itself.
    is_sure = native.gather_marks(is_told, events["parent"].to_arrow())
    is_sure[launches["event"].filter(launches["packet_index"].is_not_null()).to_numpy()] = True
    is_outside, is_lossy = (
        events.select(mark).to_series().to_numpy()
        for mark in (pl.col("parent").is_null(), pl.col("file").is_in(lossy.implode()))
    )
    rule = links["rule"]
    told, lacks = (_gather(marks, links["from_event"]) for marks in (is_told, is_lossy))
    own, outside = (_gather(marks, links["to_event"]) for marks in (is_sure, is_outside))
    by_worker = (rule == "packet_in_call") & outside
    by_command = rule.is_in(_BY_COMMAND) | by_worker
    sure = (by_command & own) | (rule.is_in(_BY_CALL) & ~by_worker & told)
    asked = (rule.is_in([*_BY_CALL, _BY_POINTER]) | by_command) & lacks
    weaker = asked & ~sure & (links["evidence"] == DERIVED)
    inferred = pl.lit(INFERRED).cast(links.schema["evidence"])
    return links.with_columns(evidence=pl.when(weaker).then(inferred).otherwise("evidence"))


def _gather(marks: Mask, events: pl.Series) -> pl.Series:
    """Return which of some events are marked."""
    return pl.Series(native.gather_marks(marks, events.to_arrow()))
