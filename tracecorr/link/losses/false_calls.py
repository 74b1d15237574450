"""False calls: in a log that lost lines, which calls are not those of one enter and its own exit.

Where a call's exit and a later call's enter were lost, the enter of the one and the exit of the other make a call that
never was. What it encloses is of two calls, or of what happened between them.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from tracecorr.clock.bounds import Ints, Mask
from tracecorr.clock.joins import select_rows
from tracecorr.clock.rows import attach_columns, count_groups, number_rows, select_marked
from tracecorr.link.losses.bursts import has_bursts, list_burst_calls, list_gaps, number_packet_gaps
from tracecorr.link.losses.call_stores import list_misplaced, list_overstored
from tracecorr.link.losses.command_ends import list_headless
from tracecorr.link.losses.doubled_creations import list_doubled
from tracecorr.link.losses.hip_calls import FUNCTION, LEAST_WHOLE, THREAD, HipCalls
from tracecorr.link.losses.lossy_files import LEAST_CALLS, LOST_SHARE, LineLosses, list_differing
from tracecorr.link.losses.open_calls import take_ends
from tracecorr.link.losses.queue_losses import list_unanswered_calls
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
    number_kinds,
)
from tracecorr.model.hip_names import is_internal
from tracecorr.model.kinds import QUEUE_CREATED, Flag

_TOLD = int(Flag.SPAN_TOLD)


def open_false_calls(events: pl.DataFrame, calls: HipCalls, losses: LineLosses) -> pl.DataFrame:
    """Return `events` in which calls that are surely or likely those of two are open: their end is not known.

    So are calls
    - whose exit tells another duration than the one from their enter,
    - that enclose other calls, as few calls of their name do: a function that calls another logged one does so as a
      rule,
    - in a log that lost lines: that hold more of something (commands, packets, doorbell stores) than is usual for their
      name, or are among the longest of their name, as many as may be false, or lack what most of their name hold, or
      lie over a place at which several threads or queues lost lines, or hold rows in another order than others, or two
      requests for one queue, or a count of the queues of which nothing came, or an ioctl of another function; where it
      lost many, all that hold nothing, and all of functions of which few others are left. Calls whose exit tells their
      duration are not,
    - that hold the end of a command whose beginning was lost.

    Args:
        events: rows with `parent`.
        calls: those of `events`.
        losses: where lines lack.
    """
    rows = calls.rows.with_columns(events["dur_ns"].gather(calls.rows["row"]), event=pl.col("row").cast(pl.Int64))
    ended = pl.col("dur_ns").is_not_null()
    if not rows.select(ended.any()).item():
        return events
    doubtful = rows.select("event", "dur_ns", "file", "offset", "name").filter(ended & (rows["flags"] & _TOLD == 0))
    differing = list_differing(rows).select("event")
    del rows  # large
    unlikely = _list_unlikely(events, calls, doubtful, losses)
    found = pl.concat([differing, unlikely]).unique()
    if found.is_empty():
        return events
    joined = attach_columns(events, found.select("event", is_false=pl.lit(value=True)))
    return joined.with_columns(take_ends(pl.col("is_false"))).drop("is_false")


def list_empty_calls(events: pl.DataFrame, calls: HipCalls, losses: LineLosses, asked: Ints) -> Mask:
    """Return which of some rows are open calls that surely enclose nothing.

    Their log lost lines, and the next enter may be one of these.

    Args:
        events: rows with `dur_ns`.
        calls: those of `events`.
        losses: where lines lack.
        asked: the rows; of others nothing is told.
    """
    empty = np.zeros(events.height, dtype=np.bool_)
    if losses.files.is_empty():
        return empty
    # Also an exit that is another call's, or whose enter was lost, shows that the function prints exits.
    names = calls.printed.with_columns(prints=(pl.col("exits") > 0).any().over("file"))
    found = events.select(*THREAD, "name", "offset", "dur_ns", "layer", "source")[asked].with_columns(row=asked)
    is_call = (pl.col("layer") == "hip") & (pl.col("source") == "amd_log")
    found = _select_lossy(found.filter(is_call, pl.col("dur_ns").is_null()), names, losses)
    found = found.join(calls.extents, on=THREAD, nulls_equal=True).join(names, on=FUNCTION, nulls_equal=True)
    goes_on = (pl.col("offset") < pl.col("last")) | (pl.col("lost") >= MANY_LOST) | ~pl.col("prints")
    few = pl.col("exits") / pl.col("total") < LEAST_WHOLE
    never = few & (pl.col("total") >= LEAST_CALLS) & pl.col("prints")
    empty[found.filter(goes_on & ~never)["row"].to_numpy()] = True
    return empty


def _list_unlikely(events: pl.DataFrame, calls: HipCalls, doubtful: pl.DataFrame, losses: LineLosses) -> pl.DataFrame:
    """Return the doubtful calls that are unlike the others of their name."""
    if doubtful.is_empty():
        return doubtful.select("event")
    is_inner = events.select((pl.col("source") == "amd_log") & pl.col("parent").is_not_null()).to_series()
    inner = _drop_error_lines(events.select("parent", "layer", child="name").filter(is_inner), is_inner, calls)
    damaged = _select_lossy(doubtful, calls.printed, losses)
    inside = number_kinds(damaged, inner)
    held = count_held(inside)
    found = pl.concat([
        _enclosing(doubtful, calls, events, inner, losses.files), list_overfull(damaged, held),
        list_overstored(damaged, events), list_misplaced(damaged, calls, events),
        list_longest(_mark_making(damaged, inner), "makes_queue"),
        _unproven(damaged, held), list_underfull(damaged, held), _of_bursts(damaged, calls, events, losses),
        list_disordered(damaged, inside), list_doubled(damaged, events), list_unanswered_calls(damaged, events),
        select_rows(doubtful.select("event"), list_foreign_ends(events["parent"], losses.ends, losses.files)),
    ])  # fmt: skip
    # Where hardly any is left that is like the others, nothing is known of what is usual.
    return pl.concat([found, list_rare(select_rows(damaged, found["event"], chosen=False))])


def _drop_error_lines(inner: pl.DataFrame, is_inner: pl.Series, calls: HipCalls) -> pl.DataFrame:
    """Return the rows in calls but for the exits of functions inside HIP that print none but an error.

    Args:
        inner: rows in calls: layer, child (their name).
        is_inner: which of all rows are rows in calls.
        calls: the HIP calls among all rows.
    """
    is_exit = calls.rows["flags"] & int(Flag.EXIT_ONLY) > 0
    exits = calls.rows.select("row", "name").filter(is_exit)
    names = exits.select("name").filter(is_inner.gather(exits["row"])).unique()
    internal = names.filter(is_internal(pl.col("name").cast(pl.String)))
    if internal.is_empty():
        return inner
    entered = calls.rows.select("name").filter(~is_exit).unique()
    silent = internal.join(entered, on="name", how="anti").select(child="name")
    return inner.join(silent, on="child", how="anti", maintain_order="left") if len(silent) else inner


def _select_lossy(rows: pl.DataFrame, names: pl.DataFrame, losses: LineLosses) -> pl.DataFrame:
    """Return the calls of files that lost lines with `lost`: the share of lines that lack there.

    It is that of their own function where it is higher. Lines of one kind may lack: more halves of its calls are alone
    than of others.

    Args:
        rows: calls: file, name, and others.
        names: how many calls each function has: file, name, total.
        losses: where lines lack.
    """
    lossy = select_marked(rows, pl.col("file").is_in(losses.files["file"].implode()))
    codes, first = number_rows(lossy, FUNCTION)
    own = (
        losses.halves.group_by(FUNCTION).agg(alone=pl.len()).join(names, on=FUNCTION).select(*FUNCTION, own=LOST_SHARE)
    )
    shares = lossy.select(FUNCTION)[first].join(losses.files, on="file", how="left", maintain_order="left")
    shares = shares.join(own, on=FUNCTION, how="left", maintain_order="left")
    # The same for all calls of a function.
    lost = shares.select(pl.max_horizontal("lost", "own").alias("lost")).to_series()
    return lossy.with_columns(lost.gather(pl.Series(codes)))


def _unproven(damaged: pl.DataFrame, held: pl.DataFrame) -> pl.DataFrame:
    """Return the calls of logs that lost very many lines that hold nothing by which they could be told from others."""
    many = damaged.select(pl.col("event").filter(pl.col("lost") >= MANY_LOST))
    return many if many.is_empty() else many.join(held.select("event"), on="event", how="anti")


def _of_bursts(damaged: pl.DataFrame, calls: HipCalls, events: pl.DataFrame, losses: LineLosses) -> pl.DataFrame:
    """Return the calls of logs that lost lines over places at which lines of several threads or queues are missing."""
    if damaged.is_empty():
        return damaged.select("event")
    lossy = pl.col("file").is_in(damaged["file"].unique().implode())
    torn = list_gaps(losses.halves.filter(lossy), calls.threaded).filter(lossy)
    gaps = pl.concat([torn, number_packet_gaps(losses.gaps)])
    if not has_bursts(gaps):
        return damaged.select("event").clear()
    asked = damaged.select("event", "file", low="offset", high=events["end_offset"].gather(damaged["event"]))
    return list_burst_calls(asked, gaps)


def list_foreign_ends(parents: pl.Series, ends: pl.DataFrame, losses: pl.DataFrame) -> pl.Series:
    """Return the calls (event) that hold the end of a command that no line enqueued before, perhaps several times.

    A thread that waits prints ends of commands that calls before, or its own, enqueued: those lines were lost, and with
    them perhaps an exit and an enter.

    Args:
        parents: of each event.
        ends: as `command_ends.list_command_ends` returns them, with `event`.
        losses: files of the log that lost lines.
    """
    return parents.gather(list_headless(ends, losses)["event"]).drop_nulls()


def _enclosing(
    doubtful: pl.DataFrame, calls: HipCalls, events: pl.DataFrame, inner: pl.DataFrame, losses: pl.DataFrame
) -> pl.DataFrame:
    """Return the doubtful calls that enclose calls though few of their name do."""
    enclosing = inner.filter(pl.col("layer") == "hip")["parent"]
    if enclosing.is_empty():
        return doubtful.select("event").clear()
    rows = calls.rows.select("file", "name", event=pl.col("row").cast(pl.Int64))
    ended = rows.filter(events["dur_ns"].gather(calls.rows["row"]).is_not_null())
    outer = select_rows(ended, enclosing)
    if outer.is_empty():
        return outer.select("event")
    name = ["file", "name"]
    counts = _count_enclosing(ended, outer, ["name"]), _count_enclosing(ended, outer, name)
    rare = counts[0].filter(pl.col("enclosing") < USUAL_SHARE * pl.col("total"))
    lossy = counts[1].filter(pl.col("enclosing") < LOSSY_SHARE * pl.col("total")).join(losses, on="file", how="semi")
    found = select_rows(doubtful, outer["event"])
    by_name, by_file = found.join(rare, on="name", how="semi"), found.join(lossy, on=name, how="semi")
    return pl.concat([by_name, by_file]).select("event").unique()


def _count_enclosing(ended: pl.DataFrame, outer: pl.DataFrame, keys: list[str]) -> pl.DataFrame:
    return count_groups(ended, keys).join(count_groups(outer, keys).rename({"total": "enclosing"}), on=keys)


def _mark_making(damaged: pl.DataFrame, inner: pl.DataFrame) -> pl.DataFrame:
    """Return the calls with `makes_queue`: whether they hold the making of a queue, which takes long."""
    makers = inner.select(pl.col("parent").filter(pl.col("child") == QUEUE_CREATED)).to_series()
    return damaged.with_columns(makes_queue=pl.col("event").is_in(makers.implode()))


def list_longest(damaged: pl.DataFrame, *more: str) -> pl.DataFrame:
    """Return the longest calls (event) of each name, as many as may be false: two lost lines make a false call of two.

    Where very many lines were lost, at least one.

    Args:
        damaged: calls of files that lost lines: event, file, name, dur_ns, lost (the share of lines that lack).
        more: further columns; calls that differ there are not compared.
    """
    name = ["file", "name", *more]
    most = damaged["lost"].max()
    # Of no name there are more calls than of all.
    if most is None or (most < MOST_LOST and 2 * most**2 * damaged.height < 1):  # type: ignore[operator]
        return damaged.select("event").clear()
    likely = 2 * pl.col("lost") ** 2 * pl.len().over(name)
    false = pl.when(pl.col("lost") >= MOST_LOST).then(likely.ceil()).otherwise(likely)
    # Only where one is likely are calls ranked: of most logs, none.
    some = damaged.with_columns(false=false).filter(pl.col("false") >= 1)
    rank = pl.col("dur_ns").rank("ordinal", descending=True).over(name)
    return some.filter(rank <= pl.col("false")).select("event")
