"""False calls: in a log that lost lines, which calls are not those of one enter and its own exit.

Where a call's exit and a later call's enter were lost, the enter of the one and the exit of the other make a call that
never was. What it encloses is of two calls, or of what happened between them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from tracecorr.align.bounds import Mask
from tracecorr.align.rows import attach_columns
from tracecorr.link.losses.bursts import list_burst_calls, list_gaps, number_packet_gaps
from tracecorr.link.losses.captured_calls import drop_captured, list_captured_names
from tracecorr.link.losses.command_ends import list_headless, list_unended
from tracecorr.link.losses.queue_losses import list_unanswered
from tracecorr.link.losses.usual_calls import (
    LOSSY_SHARE,
    MANY_LOST,
    MOST_LOST,
    USUAL_SHARE,
    count_held,
    list_disordered,
    list_overfull,
    list_rare,
    list_underfull,
)
from tracecorr.model.hip_names import is_internal
from tracecorr.model.kinds import HALF_SEEN, Flag

# A function that shows both lines of fewer of its calls, in so many calls, prints one line only.
_LEAST_WHOLE, _LEAST_CALLS = 0.1, 5
# A log without threads may end in calls: those among so many last ones.
_LAST_CALLS = 50
# Where more of a log's calls that tell a duration tell another one, its release measures it otherwise.
_MOST_FALSE = 0.5
# Of the calls of which any line is left, 2q / (1 + q) show one line where a share q of the lines is lost.
_LOST_SHARE = pl.col("alone") / (2 * pl.col("total") - pl.col("alone"))
# Lines lack, and nothing tells how many: no share that matters, but not 0, as where none is known to lack.
_FEW = 1e-9
_TOLD, _DIFFERS = int(Flag.SPAN_TOLD), int(Flag.SPAN_DIFFERS)
_COLUMNS = ("file", "offset", "thread", "name", "layer", "source", "flags")


def find_losses(events: pl.DataFrame, halves: pl.DataFrame) -> pl.DataFrame:
    """Return the files of the log that lack lines: file, lost (the share of lines that lack, 0 to 1).

    What tells it is an exit without its enter, an enter without its exit, an exit that tells another duration, the end
    of a command that no line enqueued, a command without its end, of those that show it as a rule, or a count of the
    queues of which nothing came (`queue_losses`). An enter that a thread's last call has alone tells nothing: the
    log ends in it; nor does an exit that comes first: the
    log begins in it, or its release prints no enter of a thread's first call (before 5.7). Neither does a function that
    hardly ever shows both lines, nor a call that is captured into a graph (`captured_calls`); but where no function
    shows the ends of its calls, all these lines are missing. Of a log that names no thread the enters and exits of each
    function are counted.

    Args:
        events: rows with file, offset, process, thread, name, layer, source, flags, command.
        halves: as `list_half_calls` returns them.
    """
    calls = _hip_calls(events.select(_COLUMNS))
    torn = halves.group_by("file").agg(alone=pl.len())
    torn_files = calls.filter(pl.col("file").is_in(torn["file"].implode()))
    counted = torn.join(_count_paired(torn_files).group_by("file").agg(pl.col("total").sum()), on="file")
    shares = pl.concat([counted, _count_unmatched(calls)]).select("file", lost=_LOST_SHARE)
    # So far no other line is known to be missing.
    unseen = (_differing(calls), _list_endless(calls), list_unended(events), list_unanswered(events))
    others = [found.select("file", lost=pl.lit(_FEW)) for found in unseen]
    headless = list_headless(events).group_by("file").agg(lost=pl.col("share").first())
    return pl.concat([shares, headless, *others]).group_by("file", maintain_order=True).agg(pl.col("lost").max())


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
    found = counted.filter(pl.col("open") <= (1 - _LEAST_WHOLE) * pl.col("total"))
    alone = (pl.col("open") + pl.col("alone")).sum().cast(pl.UInt32)
    return found.group_by("file").agg(alone=alone, total=pl.col("total").sum()).filter(pl.col("alone") > 0)


def add_unproven(losses: pl.DataFrame, unproven: Sequence[int]) -> pl.DataFrame:
    """Return `losses` with the files that are put together of pieces, between which lines may lack.

    Args:
        losses: as `find_losses` returns them.
        unproven: the files.
    """
    files = pl.DataFrame({"file": unproven, "lost": 0.0}, schema=losses.schema)
    return pl.concat([losses, files]).group_by("file", maintain_order=True).agg(pl.col("lost").max())


def _list_endless(calls: pl.DataFrame) -> pl.DataFrame:
    """Return the files of some calls without any exit."""
    ended = (pl.col("flags") & int(Flag.ENTER_ONLY) == 0).sum()
    return (
        calls.group_by("file").agg(ended=ended, total=pl.len()).filter(ended=0).filter(pl.col("total") >= _LEAST_CALLS)
    )


def list_half_calls(events: pl.DataFrame) -> pl.DataFrame:
    """Return the calls that lack one of their lines because it was lost: row (of `events`), file, offset, thread, name.

    What tells of a loss stands at `find_losses`. With them `is_exit`: whether the exit is what is there.

    Args:
        events: rows as the reader gave them: file, offset, thread, name, layer, source, flags.
    """
    calls = _hip_calls(events.select(_COLUMNS).with_row_index("row")).drop_nulls("thread")
    offset, is_exit = pl.col("offset"), pl.col("flags") & int(Flag.EXIT_ONLY) > 0
    alone = calls.filter(pl.col("flags") & HALF_SEEN > 0).with_columns(is_exit=is_exit)
    if not alone.is_empty():
        named = calls.filter(pl.col("name").is_in(alone["name"].unique().implode()))
        ends = calls.group_by("file", "thread").agg(first=offset.min(), last=offset.max())
        alone = alone.join(_count_paired(named), on=["file", "name"], how="semi").join(ends, on=["file", "thread"])
        at_end = pl.when("is_exit").then(offset == pl.col("first")).otherwise(offset == pl.col("last"))
        alone = drop_captured(alone.filter(~at_end), events, calls)
    return alone.select("row", "file", "offset", "thread", "name", "is_exit").sort("row")


def _count_paired(calls: pl.DataFrame) -> pl.DataFrame:
    """Return file, name, total (calls) of the functions that show both lines of their calls, as a rule."""
    halves = (pl.col("flags") & HALF_SEEN > 0).sum()
    names = calls.group_by("file", "name").agg(total=pl.len(), halves=halves)
    return names.filter(pl.col("total") - pl.col("halves") >= _LEAST_WHOLE * pl.col("total"))


def open_false_calls(
    events: pl.DataFrame, losses: pl.DataFrame, halves: pl.DataFrame, gaps: pl.DataFrame
) -> pl.DataFrame:
    """Return `events` in which calls that are surely or likely those of two are open: their end is not known.

    So are calls
    - whose exit tells another duration than the one from their enter,
    - that enclose other calls, as few calls of their name do: a function that calls another logged one does so as a
      rule,
    - in a log that lost lines: that hold more of something (commands, packets) than is usual for their name, or are
      among the longest of their name, as many as may be false, or lack what most of their name hold, or lie over a
      place at which several threads or queues lost lines, or hold rows in another order than others; where it lost
      many, all that hold nothing, and all of functions of which few others are left. Calls whose exit tells their
      duration are not,
    - that hold the end of a command whose beginning was lost.

    Args:
        events: rows with `parent`.
        losses: as `find_losses` returns them.
        halves: as `list_half_calls` returns them.
        gaps: as `packet_gaps.list_packet_gaps` returns them.
    """
    calls = _hip_calls(events.select("event", "dur_ns", *_COLUMNS))
    ended = pl.col("dur_ns").is_not_null()
    if not calls.select(ended.any()).item():
        return events
    doubtful = calls.filter(ended & (pl.col("flags") & _TOLD == 0))
    unlikely = _list_unlikely(events, calls, doubtful, losses, halves, gaps)
    found = pl.concat([_differing(calls).select("event"), unlikely]).unique()
    if found.is_empty():
        return events
    joined = attach_columns(events, found.select("event", is_false=pl.lit(value=True)))
    kept = pl.col("is_false").is_null()
    return joined.with_columns(
        pl.when(kept).then("dur_ns").alias("dur_ns"),
        flags=pl.when(kept).then("flags").otherwise(pl.col("flags") | int(Flag.ENTER_ONLY)),
    ).drop("is_false")


def list_empty_calls(events: pl.DataFrame, losses: pl.DataFrame, halves: pl.DataFrame) -> Mask:
    """Return which rows are open calls that surely enclose nothing: their log lost lines, and the next enter may too.

    Args:
        events: rows with `dur_ns`.
        losses: as `find_losses` returns them.
        halves: as `list_half_calls` returns them.
    """
    if losses.is_empty():
        return np.zeros(events.height, dtype=np.bool_)
    rows = events.select("dur_ns", "end_offset", *_COLUMNS).with_row_index("row")
    calls = _hip_calls(rows).join(losses, on="file").with_columns(
        prints=pl.col("end_offset").is_not_null().any().over("file")
    )  # fmt: skip
    thread, name, is_open = ["file", "thread"], ["file", "name"], pl.col("dur_ns").is_null()
    ends = calls.group_by(thread).agg(last=pl.col("offset").max())
    # Also an exit that is another call's, or whose enter was lost, shows that the function prints exits.
    names = calls.group_by(name).agg(shown=pl.col("end_offset").is_not_null().mean(), total=pl.len())
    found = _raise_losses(calls.filter(is_open), calls, halves)
    found = found.join(ends, on=thread, nulls_equal=True).join(names, on=name, nulls_equal=True)
    goes_on = (pl.col("offset") < pl.col("last")) | (pl.col("lost") >= MANY_LOST) | ~pl.col("prints")
    never = (pl.col("shown") < _LEAST_WHOLE) & (pl.col("total") >= _LEAST_CALLS) & pl.col("prints")
    empty = np.zeros(events.height, dtype=np.bool_)
    empty[found.filter(goes_on & ~never)["row"].to_numpy()] = True
    return empty


def _hip_calls(events: pl.DataFrame) -> pl.DataFrame:
    calls = events.filter((pl.col("layer") == "hip") & (pl.col("source") == "amd_log"))
    return calls.with_columns(pl.col("flags").fill_null(0))


def _differing(calls: pl.DataFrame) -> pl.DataFrame:
    """Return the calls whose exit tells another duration, in logs in which few do."""
    told = calls.filter(pl.col("flags") & (_TOLD | _DIFFERS) > 0)
    differs = pl.col("flags") & _DIFFERS > 0
    if not told.select(differs.any()).item():
        return calls.clear()
    share = told.group_by("file").agg(false=differs.mean()).filter(pl.col("false") < _MOST_FALSE)
    return told.filter(differs).join(share, on="file", how="semi")


def _list_unlikely(
    events: pl.DataFrame,
    calls: pl.DataFrame,
    doubtful: pl.DataFrame,
    losses: pl.DataFrame,
    halves: pl.DataFrame,
    gaps: pl.DataFrame,
) -> pl.DataFrame:
    """Return the doubtful calls that are unlike the others of their name."""
    if doubtful.is_empty():
        return doubtful.select("event")
    inner = events.select("parent", "layer", "source", "flags", child="name").filter(
        (pl.col("source") == "amd_log") & pl.col("parent").is_not_null()
    )  # fmt: skip
    inner = _drop_error_lines(inner, calls).select("parent", "layer", "child")
    ended, damaged = calls.filter(pl.col("dur_ns").is_not_null()), _add_losses(doubtful, calls, losses, halves)
    held = count_held(damaged, inner)
    found = pl.concat([
        _enclosing(doubtful, ended, inner, losses), list_overfull(damaged, held), list_longest(damaged),
        _unproven(damaged, held), list_underfull(damaged, held), _of_bursts(damaged, calls, events, halves, gaps),
        list_disordered(damaged, inner),
        doubtful.select("event").join(list_foreign_ends(events), on="event", how="semi"),
    ])  # fmt: skip
    # Where hardly any is left that is like the others, nothing is known of what is usual.
    return pl.concat([found, list_rare(damaged.join(found, on="event", how="anti"))])


def _drop_error_lines(inner: pl.DataFrame, calls: pl.DataFrame) -> pl.DataFrame:
    """Return the rows in calls but for the exits of functions inside HIP that print none but an error.

    Args:
        inner: rows in calls: layer, child (their name), flags.
        calls: all HIP calls: name, flags.
    """
    exit_only = pl.col("flags").fill_null(0) & int(Flag.EXIT_ONLY) > 0
    exits = inner.filter((pl.col("layer") == "hip") & exit_only).select(name="child").unique()
    internal = exits.filter(is_internal(pl.col("name").cast(pl.String)))
    entered = calls.filter(~exit_only).select("name").unique()
    silent = internal.join(entered, on="name", how="anti").select(child="name")
    return inner.join(silent, on="child", how="anti", maintain_order="left") if len(silent) else inner


def _add_losses(
    doubtful: pl.DataFrame, calls: pl.DataFrame, losses: pl.DataFrame, halves: pl.DataFrame
) -> pl.DataFrame:
    """Return the doubtful calls of files that lost lines with `lost`: the share of lines that lack there."""
    damaged = doubtful.filter(pl.col("file").is_in(losses["file"].implode()))
    return _raise_losses(damaged.join(losses, on="file", maintain_order="left"), calls, halves)


def _raise_losses(damaged: pl.DataFrame, calls: pl.DataFrame, halves: pl.DataFrame) -> pl.DataFrame:
    """Return calls of files that lost lines with the share of their own function in `lost`, where it is higher.

    Lines of one kind may lack: more halves of its calls are alone than of others.
    """
    if damaged.is_empty():
        return damaged
    name = ["file", "name"]
    alone = halves.group_by(name).agg(alone=pl.len())
    named = calls.filter(pl.col("name").is_in(alone["name"].unique().implode()))
    own = alone.join(named.group_by(name).agg(total=pl.len()), on=name).select(*name, own=_LOST_SHARE)
    joined = damaged.join(own, on=name, how="left", maintain_order="left")
    return joined.with_columns(lost=pl.max_horizontal("lost", "own")).drop("own")


def _unproven(damaged: pl.DataFrame, held: pl.DataFrame) -> pl.DataFrame:
    """Return the calls of logs that lost very many lines that hold nothing by which they could be told from others."""
    many = damaged.filter(pl.col("lost") >= MANY_LOST)
    return many.select("event").join(held.select("event"), on="event", how="anti")


def _of_bursts(
    damaged: pl.DataFrame, calls: pl.DataFrame, events: pl.DataFrame, halves: pl.DataFrame, gaps: pl.DataFrame
) -> pl.DataFrame:
    """Return the calls of logs that lost lines over places at which lines of several threads or queues are missing."""
    if damaged.is_empty():
        return damaged.select("event")
    lossy = pl.col("file").is_in(damaged["file"].unique().implode())
    lines = calls.filter(lossy & pl.col("thread").is_not_null())
    lines = lines.with_columns(events["end_offset"].gather(lines["event"]))
    asked = damaged.select("event", "file", low="offset", high=events["end_offset"].gather(damaged["event"]))
    return list_burst_calls(asked, pl.concat([list_gaps(halves.filter(lossy), lines), number_packet_gaps(gaps)]))


def list_foreign_ends(events: pl.DataFrame) -> pl.DataFrame:
    """Return the calls (event) that hold the end of a command that no line enqueued before.

    A thread that waits prints ends of commands that calls before, or its own, enqueued: those lines were lost, and with
    them perhaps an exit and an enter.

    Args:
        events: rows with `parent`.
    """
    return list_headless(events).drop_nulls("parent").select(event="parent").unique()


def _enclosing(doubtful: pl.DataFrame, ended: pl.DataFrame, inner: pl.DataFrame, losses: pl.DataFrame) -> pl.DataFrame:
    """Return the doubtful calls that enclose calls though few of their name do."""
    outer = inner.filter(pl.col("layer") == "hip").select(event="parent").unique()
    outer = ended.join(outer, on="event", how="semi")
    name = ["file", "name"]
    counts = _count_enclosing(ended, outer, ["name"]), _count_enclosing(ended, outer, name)
    rare = counts[0].filter(pl.col("enclosing") < USUAL_SHARE * pl.col("total"))
    lossy = counts[1].filter(pl.col("enclosing") < LOSSY_SHARE * pl.col("total")).join(losses, on="file", how="semi")
    found = doubtful.join(outer, on="event", how="semi")
    by_name, by_file = found.join(rare, on="name", how="semi"), found.join(lossy, on=name, how="semi")
    return pl.concat([by_name, by_file]).select("event").unique()


def _count_enclosing(ended: pl.DataFrame, outer: pl.DataFrame, keys: list[str]) -> pl.DataFrame:
    total, enclosing = ended.group_by(keys).agg(total=pl.len()), outer.group_by(keys).agg(enclosing=pl.len())
    return total.join(enclosing, on=keys)


def list_longest(damaged: pl.DataFrame) -> pl.DataFrame:
    """Return the longest calls (event) of each name, as many as may be false: two lost lines make a false call of two.

    Where very many lines were lost, at least one.

    Args:
        damaged: calls of files that lost lines: event, file, name, dur_ns, lost (the share of lines that lack).
    """
    name = ["file", "name"]
    likely = 2 * pl.col("lost") ** 2 * pl.len().over(name)
    false = pl.when(pl.col("lost") >= MOST_LOST).then(likely.ceil()).otherwise(likely)
    # Only where one is likely are calls ranked: of most logs, none.
    some = damaged.with_columns(false=false).filter(pl.col("false") >= 1)
    rank = pl.col("dur_ns").rank("ordinal", descending=True).over(name)
    return some.filter(rank <= pl.col("false")).select("event")
