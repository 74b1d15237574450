"""Nested commands: what follows the packet that completes a command is of the command around it, or of a lost one.

A command that waits for another one prints that it is enqueued before it sees to that: a marker for the end of the
other is then enqueued, and written, inside of it (`Command::enqueue` of CLR; seen in hipLaunchHostFunc of HIP 7.2.4).
"""

from __future__ import annotations

import numpy as np
import polars as pl

from tracecorr.clock.joins import select_rows, sort_rows
from tracecorr.model.kinds import GRAPH_COMMAND, KERNEL_COMMAND, MARKERS

# Commands that write one packet which completes a signal, their last one: those before it only wait. Copies write
# several (all recorded logs of HIP 5.7.1, 6.4.3 and 7.2.4).
_COMPLETED_ONCE = (*MARKERS, GRAPH_COMMAND, KERNEL_COMMAND)
_OF_COMMAND = ("command_event", "enqueue_ns", "command", "command_stream", "command_parent", "kind")


def return_to_outer(found: pl.DataFrame, lines: pl.DataFrame, losses: pl.DataFrame) -> pl.DataFrame:
    """Return `found` in which what follows the packet that completes a command belongs to the command around it.

    That is the one whose line stands before it in the same call, if it has written nothing before. Where lines were
    lost it may be any command: none is given.

    Args:
        found: packets and copies with the thread's last command in their call: event, file, offset, parent, name,
            signal, command_event, enqueue_ns, command (pointer), command_stream, command_parent, kind (of the command).
        lines: enqueue lines: file, thread, command_offset and what `found` has of a command.
        losses: files of the log that lost lines.
    """
    # Most are the only packets of their commands, and these columns are few of many.
    once = found.select("event", "file", "offset", "name", "signal", "command_event", "kind").filter(
        pl.col("kind").is_in(_COMPLETED_ONCE)
    )
    uses = np.sort(once["command_event"].to_numpy(), kind="stable")
    several = select_rows(once, pl.Series(uses[1:][uses[1:] == uses[:-1]]), "command_event")
    late = sort_rows(several, "file", "offset").filter(_is_behind(losses))
    if late.is_empty():
        return found
    behind = found.join(late, on="event", how="semi")
    own = found.join(behind, on="event", how="anti", maintain_order="left")
    outer = _list_outer(lines, own).join(losses, on="file", how="anti").drop("file")
    parent, stream = pl.col("parent"), pl.col("command_stream")
    same = pl.col("outer_parent").eq_missing(parent) & pl.col("outer_stream").eq_missing(stream)
    moved = behind.join(outer, on="command_event").filter(same)
    moved = moved.with_columns(pl.col(f"outer_{name.removeprefix('command_')}").alias(name) for name in _OF_COMMAND)
    own_again = moved.sort("file", "offset").filter(~_is_behind(losses))
    return pl.concat([own, own_again.select(found.columns)])


def _list_outer(lines: pl.DataFrame, own: pl.DataFrame) -> pl.DataFrame:
    """Return the command line before each one of its thread (`outer_`), of those that have written nothing."""
    ordered = lines.filter(~pl.col("submitted")).sort("file", "thread", "command_offset")
    names = {name: f"outer_{name.removeprefix('command_')}" for name in _OF_COMMAND}
    before = ordered.select("file", pl.col("command_event").alias("inner"), *(
        pl.col(name).shift(1).over("file", "thread").alias(new) for name, new in names.items()
    ))  # fmt: skip
    idle = before.filter(~pl.col("outer_event").is_in(own["command_event"].unique().implode()))
    return idle.drop_nulls("outer_event").rename({"inner": "command_event"})


def _is_behind(losses: pl.DataFrame) -> pl.Expr:
    """Tell which packets, in the order of their lines, follow the one that completes their command.

    A barrier completes no kernel's command: the one before its dispatch tells when a part of the memory for arguments
    may be used again (`Issue barrier to flush chunk`, HIP 6.4.3). Where lines were lost it may be that of a marker.
    """
    flushes = (pl.col("kind") == KERNEL_COMMAND) & (pl.col("name") != "dispatch")
    flushes &= ~pl.col("file").is_in(losses["file"].implode())
    completes = ((pl.col("signal").fill_null(0) != 0) & ~flushes).cast(pl.Int64)
    before = completes.cum_sum().over("command_event") - completes
    return pl.col("kind").is_in(_COMPLETED_ONCE) & (before > 0)
