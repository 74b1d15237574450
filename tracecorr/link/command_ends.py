"""Ends of commands: which commands of the log lack their end, and which ends their command."""

from __future__ import annotations

import polars as pl

from tracecorr.model.kinds import COMMAND_MENTIONS, SUBMITTED

# Where more ends lack their command, the log begins in the middle of a run, or lacks all lines that enqueue.
_MOST_HEADLESS = 0.5
# Of a kind of commands that show their ends as a rule fewer lack it: one of more than 20.
_MOST_ENDLESS = 0.05
_END = "complete"
_COLUMNS = ("process", "command", "layer", "name", "file")


def list_command_ends(events: pl.DataFrame) -> pl.DataFrame:
    """Return the lines that end a command with `alone`: whether no line enqueued it since its pointer's last end.

    Args:
        events: process, command, layer, name, and others; in the order of time.
    """
    lines = _list_lines(events)
    is_end = pl.col("name") == _END
    alone = is_end.shift(1).over("process", "command").fill_null(value=True)
    return lines.with_columns(alone=alone).filter(is_end)


def list_headless(events: pl.DataFrame) -> pl.DataFrame:
    """Return the ends of commands that no line enqueued, with the `share` of them in their file.

    Where most are so the log begins in the middle of a run, or lacks all lines that enqueue.
    """
    columns = (*_COLUMNS, *(["parent"] if "parent" in events.columns else []))
    ends = list_command_ends(events.select(columns)).with_columns(share=pl.col("alone").mean().over("file"))
    return ends.filter("alone", pl.col("share") < _MOST_HEADLESS)


def list_unended(events: pl.DataFrame) -> pl.DataFrame:
    """Return the files (file) that lack ends of commands.

    Their pointer comes into use again, and other commands of their kind end before that. A level or a release may show
    no ends, or not those of some kinds.

    Args:
        events: rows in the order of time, as for `list_command_ends`.
    """
    lines = _list_lines(events.select(_COLUMNS))
    following = pl.col("name").shift(-1).over("process", "command")
    begun = lines.with_columns(lacks=following != _END).filter(pl.col("name") != _END).drop_nulls("lacks")
    kinds = begun.group_by("file", "name").agg(total=pl.len(), lacking=pl.col("lacks").sum())
    few = pl.col("lacking") < _MOST_ENDLESS * pl.col("total")
    return kinds.filter(few, pl.col("lacking") > 0).select("file").unique()


def _list_lines(events: pl.DataFrame) -> pl.DataFrame:
    """Return the lines that bring a command into use, or end it."""
    is_command = (pl.col("layer") == "command") & ~pl.col("name").is_in([*COMMAND_MENTIONS, SUBMITTED])
    return events.filter(is_command & pl.col("command").is_not_null())
