"""What is linked by the order of lines, in a log that lost some, is no surer than what shows that none lack there."""

from __future__ import annotations

import numpy as np
import polars as pl

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
    flags = events["flags"].fill_null(0)
    is_told = (flags & int(Flag.SPAN_TOLD) > 0).rename("told")
    told, parent = is_told.gather(links["from_event"]), events["parent"].gather(links["to_event"])
    in_told = is_told.gather(parent).fill_null(False)
    counted = _mark(launches.select(pl.col("event").filter(pl.col("packet_index").is_not_null())), events.height)
    counted = counted.gather(links["to_event"])
    rule = links["rule"]
    by_worker = (rule == "packet_in_call") & parent.is_null()
    by_command = rule.is_in(_BY_COMMAND) | by_worker
    sure = (by_command & (in_told | counted)) | (rule.is_in(_BY_CALL) & ~by_worker & told)
    asked = (rule.is_in([*_BY_CALL, _BY_POINTER]) | by_command) & events["file"].gather(links["from_event"]).is_in(
        lossy.implode()
    )
    weaker = asked & ~sure & (links["evidence"] == DERIVED)
    inferred = pl.lit(INFERRED).cast(links.schema["evidence"])
    return links.with_columns(evidence=pl.when(weaker).then(inferred).otherwise("evidence"))


def _mark(chosen: pl.DataFrame, count: int) -> pl.Series:
    """Return which of so many events are among the chosen ones."""
    marks = np.zeros(count, dtype=np.bool_)
    marks[chosen["event"].to_numpy()] = True
    return pl.Series(marks)
