"""Ends of commands: which commands of the log lack their end, and which ends their command."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from tracecorr import native
from tracecorr.clock.bounds import Ints, Mask
from tracecorr.clock.joins import join_nearest, select_rows, sort_rows
from tracecorr.clock.rows import count_groups, number_rows
from tracecorr.link.losses.beginnings import is_late, list_begun
from tracecorr.model.hip_names import makes_stream
from tracecorr.model.kinds import COMMAND_MENTIONS, COMPLETE, SUBMITTED

# Where more ends lack their command, the log begins in the middle of a run, or lacks all lines that enqueue.
_MOST_HEADLESS = 0.5
# Of a kind of commands that show their ends as a rule fewer lack it: one of more than 20.
_MOST_ENDLESS = 0.05
# Calls that destroy streams; each waits for what is left on their queues (HIP 7.2.4).
DESTROY = "hipStreamDestroy"
DESTROYING = (DESTROY, "hipDeviceReset")
_COLUMNS = ("process", "command", "layer", "name", "file")
# What `list_command_ends` asks of events.
COLUMNS = (*_COLUMNS, "offset", "end_offset", "thread", "stream")


@dataclass(frozen=True)
class CommandLines:
    """Hold the lines that bring a command into use, or end it (`is_end`), in the order of time.

    Args:
        rows: columns of the events that they were chosen among.
        is_end: which of them end one.
        before: the line of its pointer before each one, -1 = none.
    """

    rows: pl.DataFrame
    is_end: Mask
    before: Ints

    @classmethod
    def of(cls, events: pl.DataFrame) -> CommandLines:
        """Return those among rows that are in the order of time, as for `list_command_ends`."""
        is_command = (pl.col("layer") == "command") & ~pl.col("name").is_in([*COMMAND_MENTIONS, SUBMITTED])
        rows = events.filter(is_command & pl.col("command").is_not_null())
        codes, first = number_rows(rows, ["process", "command"])
        is_end = rows.select(pl.col("name") == COMPLETE).to_series().to_numpy()
        return cls(rows, is_end, native.find_previous(codes, len(first)))


def list_command_ends(events: pl.DataFrame, lines: CommandLines | None = None) -> pl.DataFrame:
    """Return the lines that end a command with `alone`: whether the line that enqueued it was lost.

    None did so since its pointer's last end. The last marker of a stream that is destroyed (`DESTROYING`) has no such
    line where Direct Dispatch is off (HIP 7.2.4). Of those that are alone, `early` tells which may be ends of commands
    that were enqueued before the log begins, `before` which surely are: no other line lacks.

    Args:
        events: file, offset, end_offset, process, thread, layer, name, command, stream (handle), and others; in the
            order of time.
        lines: those of `events`, where they are known.
    """
    lines = lines or CommandLines.of(events)
    begun = lines.before[lines.is_end]
    first = begun < 0
    alone = first | lines.is_end[begun]
    ends = lines.rows.filter(pl.Series(lines.is_end))
    ends = ends.with_columns(alone=alone, first=first, begun=np.maximum(begun, 0))
    last = _list_last_markers(ends.filter("alone"), events)
    if len(last):
        ends = ends.join(last.with_columns(is_last=True), on=["file", "offset"], how="left", maintain_order="left")
        ends = ends.with_columns(alone=pl.col("alone") & pl.col("is_last").is_null()).drop("is_last")
    return _mark_before(ends, lines.rows, events).drop("first", "begun")


def _mark_before(ends: pl.DataFrame, lines: pl.DataFrame, events: pl.DataFrame) -> pl.DataFrame:
    """Return `ends` with `early`: whether their command may have been enqueued before the log begins, and `before`.

    That is so in a log that lacks the beginning of its process where no line names the pointer before. The commands of
    a stream end in the order in which they were enqueued: one between two others of its stream, or of an unknown one,
    is that of a command whose line was lost. Surely `before` it is while a stream from before may still hold it. Where
    the log lost any such line, no end is sure.

    Args:
        ends: lines of ends with `alone`, `first` (no line names the pointer before) and `begun` (else the one that
            does, by its row in `lines`).
        lines: lines that bring commands into use or end them, in the order of time.
        events: as for `list_command_ends`.
    """
    asked = ends.with_columns(early=pl.col("alone") & pl.col("first"))
    asked = asked.with_columns(early=pl.col("early") & is_late(list_begun(events)))
    if not asked["early"].any():
        return asked.with_columns(before="early")
    known = pl.when(~pl.col("alone")).then("begun")
    order = asked.select("file", "thread", "offset", known=known).with_row_index("row").sort("file", "thread", "offset")
    sides = order.with_columns(
        low=pl.col("known").forward_fill().over("file", "thread"),
        high=pl.col("known").backward_fill().over("file", "thread"),
    ).sort("row")
    stream = (lines["stream"].gather(sides[side]) for side in ("low", "high"))
    inside = (sides["high"] > sides["low"]).fill_null(value=False) & ~_differ(*stream)
    asked = asked.with_columns(early=pl.col("early") & ~inside)
    asked = asked.with_columns(early=pl.col("early") & ~(pl.col("alone") & ~pl.col("early")).any().over("file"))
    asked = asked.with_columns(held=_may_be_held(asked, lines, events))
    return asked.with_columns(before=pl.col("early") & ~(pl.col("early") & ~pl.col("held")).any().over("file"))


def _may_be_held(ends: pl.DataFrame, lines: pl.DataFrame, events: pl.DataFrame) -> pl.Series:
    """Tell of ends whether a stream from before the log begins has ended no command of the log up to them.

    Of streams that the log shows being made no command is from before it. Some releases name no stream of a command:
    there it is so only where no command of the log has ended at all.

    Args:
        ends, lines, events: as for `_mark_before`.
    """
    log, stream = ["file", "process"], ["file", "process", "stream"]
    made = events.filter((pl.col("layer") == "hip") & makes_stream(pl.col("name")))
    known = ends.filter(~pl.col("alone"))
    known = known.with_columns(stream=lines["stream"].gather(known["begun"]))
    old = known.join(made.select(stream).drop_nulls("stream"), on=stream, how="anti").drop_nulls("stream")
    last = old.group_by(stream).agg(first=pl.col("offset").min()).group_by(log).agg(last=pl.col("first").max())
    spans = known.group_by(log).agg(first=pl.col("offset").min()).join(last, on=log, how="left", nulls_equal=True)
    both = ends.select(*log, "offset").join(spans, on=log, how="left", nulls_equal=True, maintain_order="left")
    held = pl.col("first").is_null() | (pl.col("offset") < pl.col("last")).fill_null(value=False)
    return both.select(held=held).to_series()


def _differ(one: pl.Series, other: pl.Series) -> pl.Series:
    """Tell which values of two columns are known and differ."""
    return (one != other).fill_null(value=False)


def list_headless(ends: pl.DataFrame, losses: pl.DataFrame | None = None) -> pl.DataFrame:
    """Return the ends of commands that no line enqueued, with the `share` of them in their file.

    Where most are so the log begins in the middle of a run, or lacks all lines that enqueue. Ends of commands from
    before the log begins are left out, but for those of files that lost lines (`losses`): there none is sure.

    Args:
        ends: as `list_command_ends` returns them.
        losses: files of the log that lost lines.
    """
    lossy = losses["file"] if losses is not None else ends["file"].clear()
    alone = pl.col("alone") & (~pl.col("before") | pl.col("file").is_in(lossy.implode()))
    ends = ends.with_columns(alone=alone).with_columns(share=pl.col("alone").mean().over("file"))
    return ends.filter("alone", pl.col("share") < _MOST_HEADLESS)


def _list_last_markers(ends: pl.DataFrame, events: pl.DataFrame) -> pl.DataFrame:
    """Return which of some ends (file, offset) are of commands that a thread took up while a stream was destroyed."""
    if ends.is_empty():
        return ends.select("file", "offset")
    taken = events.select(*_COLUMNS, "offset").filter((pl.col("layer") == "command") & (pl.col("name") == SUBMITTED))
    if taken.is_empty():
        return ends.select("file", "offset").clear()
    command = ["file", "process", "command"]
    taken = taken.select(*command, "offset", taken="offset").sort("offset")
    found = ends.select(*command, "offset", end="offset").sort("offset").join_asof(
        taken, on="offset", by=command, check_sortedness=False
    ).drop_nulls("taken")  # fmt: skip
    calls = events.select("file", "offset", "end_offset", "layer", "name")
    destroyed = calls.filter((pl.col("layer") == "hip") & pl.col("name").is_in(DESTROYING)).sort("offset")
    # Threads may destroy streams at once: one that began earlier may last longer.
    destroyed = destroyed.select("file", "offset", until=pl.col("end_offset").cum_max().over("file"))
    inside = found.drop("offset").sort("taken").join_asof(
        destroyed, left_on="taken", right_on="offset", by="file", check_sortedness=False
    )  # fmt: skip
    return inside.filter(pl.col("until") > pl.col("taken")).select("file", offset="end")


def drop_behind_ends(
    found: pl.DataFrame, launches: pl.DataFrame, commands: pl.DataFrame, losses: pl.DataFrame
) -> pl.DataFrame:
    """Leave out packets whose thread printed the end of their command before them.

    In logs that lost lines they are of a later command, whose line was lost. Where Direct Dispatch is off they are of
    none: a worker flushes its queue by a barrier before it waits for another one, or ends.

    Args:
        found: event (packet or copy), command_event, command (pointer), and others.
        launches: event, file, thread, offset.
        commands: all rows of layer `command`: event, file, thread, offset, name, command.
        losses: files of the log that lost lines.
    """
    worked = commands.filter(pl.col("name") == SUBMITTED)["file"].unique()
    lossy = pl.col("file").is_in(pl.concat([losses["file"], worked]).implode())
    place = ("file", "thread", "offset")
    ends = commands.select(*place, "command", "name").filter(lossy & (pl.col("name") == COMPLETE)).drop("name")
    ends = ends.with_columns(end="offset")
    # Most ends are printed by threads that write no packets.
    prints = pl.col("thread").is_in(ends["thread"].unique().implode())
    written = launches.select("event", *place).filter(lossy & prints)
    if written.is_empty():
        return found
    written = found.select("event", "command_event", "command").join(written, on="event")
    enqueued = commands.select(command_event="event", enqueued="offset")
    behind = sort_rows(written.join(enqueued, on="command_event"), "offset")
    behind = join_nearest(behind, sort_rows(ends, "offset"), ["file", "thread", "command"], "offset", "offset")
    return select_rows(found, behind.filter(pl.col("end") > pl.col("enqueued"))["event"], chosen=False)


def list_unended(lines: CommandLines) -> pl.DataFrame:
    """Return the files (file) that lack ends of commands.

    Their pointer comes into use again, and other commands of their kind end before that. A level or a release may show
    no ends, or not those of some kinds.
    """
    # Lines whose pointer another one brought into use before them.
    behind = np.flatnonzero((lines.before >= 0) & ~lines.is_end[lines.before])
    begun = lines.rows.select("file", "name")[lines.before[behind]]
    kinds = count_groups(begun.with_columns(lacks=pl.Series(~lines.is_end[behind])), ["file", "name"], pl.col("lacks"))
    few = pl.col("marked") < _MOST_ENDLESS * pl.col("total")
    return kinds.filter(few, pl.col("marked") > 0).select("file").unique()
