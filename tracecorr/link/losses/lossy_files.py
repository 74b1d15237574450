"""Lossy files: which files of the log lack lines, which calls show that, and how large a share of the lines lacks.

The frame that all of link/ calls `losses` holds them: file, lost (the share of lines that lack, 0 to 1; 0 where
some only may). The table `losses` tells when lines lack (`log_losses`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from tracecorr.clock.rows import count_groups
from tracecorr.link.losses.beginnings import is_late, list_begun
from tracecorr.link.losses.captured_calls import drop_captured, list_captured_names
from tracecorr.link.losses.command_ends import CommandLines, list_headless, list_unended
from tracecorr.link.losses.hip_calls import LEAST_WHOLE, THREAD, HipCalls
from tracecorr.link.losses.queue_losses import list_crowded, list_unanswered
from tracecorr.model.kinds import HALF_SEEN, Flag

# A function that shows both lines of few of its calls (`LEAST_WHOLE`), in so many calls, prints one line only.
LEAST_CALLS = 5
# A log without threads may end in calls: those among so many last ones.
_LAST_CALLS = 50
# Where more of a log's calls that tell a duration tell another one, its release measures it otherwise.
_MOST_FALSE = 0.5
# Of the calls of which any line is left, 2q / (1 + q) show one line where a share q of the lines is lost.
LOST_SHARE = pl.col("alone") / (2 * pl.col("total") - pl.col("alone"))
# Lines lack, and nothing tells how many: no share that matters, but not 0, as where none is known to lack.
_FEW = 1e-9
_TOLD, _DIFFERS = int(Flag.SPAN_TOLD), int(Flag.SPAN_DIFFERS)


@dataclass(frozen=True)
class LineLosses:
    """Hold what tells where lines of the logs lack.

    Args:
        files: those that lost lines (`find_losses`).
        halves: calls that lack one of their lines (`list_half_calls`).
        gaps: where packets are missing (`packet_gaps.list_packet_gaps`).
        ends: ends of commands (`command_ends.list_command_ends`), with `event`.
    """

    files: pl.DataFrame
    halves: pl.DataFrame
    gaps: pl.DataFrame
    ends: pl.DataFrame


def find_losses(
    events: pl.DataFrame, calls: HipCalls, halves: pl.DataFrame, lines: CommandLines, ends: pl.DataFrame
) -> pl.DataFrame:
    """Return the files of the log that lack lines: file, lost (the share of lines that lack, 0 to 1).

    What tells it is
    - an exit without its enter, or an enter without its exit (`list_half_calls`); of a log that names no thread the
      enters and exits of each function are counted,
    - an exit that tells another duration,
    - the end of a command that no line enqueued, or a command without its end, of those that show it as a rule,
    - a count of the queues of which nothing came (`queue_losses`).

    Where no function shows the ends of its calls, all these lines are missing.

    Args:
        events: rows with file, offset, process, thread, name, layer, source, flags, command.
        calls: those of `events`.
        halves: as `list_half_calls` returns them.
        lines: the lines of commands among `events`.
        ends: as `command_ends.list_command_ends` returns them.
    """
    torn = halves.group_by("file").agg(alone=pl.len())
    counted = torn.join(calls.paired.group_by("file").agg(pl.col("total").sum()), on="file")
    shares = pl.concat([counted, _count_unmatched(calls.rows)]).select("file", lost=LOST_SHARE)
    # So far no other line is known to be missing.
    answers = list_unanswered(events), list_crowded(events)
    unseen = (list_differing(calls.rows), _list_endless(calls.rows), list_unended(lines), *answers)
    others = [found.select("file", lost=pl.lit(_FEW)) for found in unseen]
    headless = list_headless(ends).group_by("file").agg(lost=pl.col("share").first())
    return add_shares(shares, headless, *others)


def _count_unmatched(calls: pl.DataFrame) -> pl.DataFrame:
    """Return the files in which threadless calls lack an enter or an exit: file, alone (so many lines), total (calls).

    Enters and exits are counted by name. Enters that are left open near the end of a file tell nothing.

    Args:
        calls: rows of HIP calls as the reader gave them: file, offset, thread, name, flags (not null).
    """
    mine = calls.filter(pl.col("thread").is_null()).sort("file", "offset")
    mine = mine.join(list_captured_names(mine), on=["file", "name"], how="anti", maintain_order="left")
    name, flags = ["file", "name"], pl.col("flags")
    step = pl.when(flags & int(Flag.ENTER_ONLY) > 0).then(1).when(flags & int(Flag.EXIT_ONLY) > 0).then(-1).otherwise(0)
    left = pl.len().over("file") - pl.int_range(pl.len()).over("file")
    rows = mine.select(*name, step=step.cast(pl.Int64), left=left)
    rows = rows.with_columns(open=pl.col("step").cum_sum().over(name))
    # An exit that is one too many leaves the count below zero from then on.
    rows = rows.with_columns(low=pl.col("open").cum_min().clip(upper_bound=0).over(name))
    rows = rows.with_columns(open=pl.col("open") - pl.col("low"))
    # What is open at the end was entered behind the last moment at which less was.
    last, low = pl.col("open").last(), pl.col("low").last()
    early = (pl.col("open").reverse().cum_min().reverse() > 0) & (pl.col("left") > _LAST_CALLS)
    counted = rows.group_by(name).agg(total=pl.len(), open=pl.when(early.any()).then(last).otherwise(0), alone=-low)
    found = counted.filter(pl.col("open") <= (1 - LEAST_WHOLE) * pl.col("total"))
    alone = (pl.col("open") + pl.col("alone")).sum().cast(pl.UInt32)
    return found.group_by("file").agg(alone=alone, total=pl.col("total").sum()).filter(pl.col("alone") > 0)


def add_shares(losses: pl.DataFrame, *found: pl.DataFrame) -> pl.DataFrame:
    """Return `losses` with files that lack lines by other signs; of what several signs tell, the highest share.

    Args:
        losses, found: file, lost (the share of lines that lack, 0 to 1).
    """
    return pl.concat([losses, *found]).group_by("file", maintain_order=True).agg(pl.col("lost").max())


def add_unproven(losses: pl.DataFrame, unproven: Sequence[int]) -> pl.DataFrame:
    """Return `losses` with the files that are put together of pieces, between which lines may lack.

    Args:
        losses: as `find_losses` returns them.
        unproven: the files.
    """
    files = pl.DataFrame({"file": unproven, "lost": 0.0}, schema=losses.schema)
    return add_shares(losses, files)


def add_few(losses: pl.DataFrame, files: pl.Series) -> pl.DataFrame:
    """Return `losses` with files in which lines lack, and nothing tells how many.

    Args:
        losses: as `find_losses` returns them.
        files: the files, perhaps several times.
    """
    return add_shares(losses, pl.DataFrame({"file": files.unique()}).with_columns(lost=pl.lit(_FEW)))


def _list_endless(calls: pl.DataFrame) -> pl.DataFrame:
    """Return the files of some calls without any exit."""
    ended = pl.col("flags") & int(Flag.ENTER_ONLY) == 0
    counted = count_groups(calls, ["file"], ended)
    return counted.filter(pl.col("marked") == 0, pl.col("total") >= LEAST_CALLS)


def list_half_calls(events: pl.DataFrame, calls: HipCalls) -> pl.DataFrame:
    """Return the calls that lack one of their lines because it was lost: row (of `events`), file, offset, thread, name.

    With them `is_exit`: whether the exit is what is there. No line was lost where
    - the log ends in a thread's last call, of which the enter alone is there,
    - the log begins in its first call, of which the exit alone is there; before 5.7 releases print no enter of it,
    - the log begins in the middle of a run, in calls of which the exits alone are there, before any enter,
    - the function hardly ever shows both lines,
    - the call is captured into a graph (`captured_calls`).

    Args:
        events: rows as the reader gave them: process, name, and others.
        calls: those of `events`.
    """
    mine = calls.threaded
    offset, is_exit = pl.col("offset"), pl.col("flags") & int(Flag.EXIT_ONLY) > 0
    alone = mine.rows.filter(pl.col("flags") & HALF_SEEN > 0).with_columns(is_exit=is_exit)
    if not alone.is_empty():
        alone = alone.join(mine.paired, on=["file", "name"], how="semi").join(mine.extents, on=THREAD)
        alone = alone.join(mine.first_enters, on=THREAD, how="left", maintain_order="left")
        is_early = (offset < pl.col("entered")).fill_null(value=True) & is_late(list_begun(events))
        at_start = (offset == pl.col("first")) | is_early
        at_end = pl.when("is_exit").then(at_start).otherwise(offset == pl.col("last"))
        alone = alone.with_columns(events["process"].gather(alone["row"])).filter(~at_end)
        alone = drop_captured(alone, events, mine.rows)
    return alone.select("row", "file", "offset", "thread", "name", "is_exit").sort("row")


def list_differing(calls: pl.DataFrame) -> pl.DataFrame:
    """Return the calls whose exit tells another duration, in logs in which few do."""
    if not (calls["flags"] & _DIFFERS > 0).any():
        return calls.clear()
    told = calls.filter(pl.col("flags") & (_TOLD | _DIFFERS) > 0)
    differs = pl.col("flags") & _DIFFERS > 0
    share = told.group_by("file").agg(false=differs.mean()).filter(pl.col("false") < _MOST_FALSE)
    return told.filter(differs).join(share, on="file", how="semi")
