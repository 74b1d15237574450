"""Sure commands: in a log that lost lines, which packets and copies surely belong to the command line before them.

Between a command's line and a packet's line those of the command's own packet and of the packet's own command may be
lost. Then the packet would be given to a command that is not its own.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from tracecorr.clock.joins import select_rows, sort_rows
from tracecorr.clock.rows import (
    count_groups,
    list_groups,
    number_groups,
    number_rows,
    order_by_group,
    select_marked,
)
from tracecorr.link.losses.usual_calls import MANY_LOST, MOST_LOST
from tracecorr.link.packets.store_losses import drop_rung
from tracecorr.model.kinds import COMPLETE, KERNEL_COMMAND, SUBMITTED, Flag
from tracecorr.native import find_breaks, search_near

# Few uses of a command's pointer follow each other sooner than this share of them; lost lines make it half as sure.
_SOONEST, _SURE_SHARE = 0.05, 0.5
# What the thread that submits commands prints of each (Direct Dispatch is off), and the command of one dispatch.
BY_WORKER = ("processing", SUBMITTED)
# A stream uses the queues of at least this share of its packets.
_SHARE = 0.05


def keep_sure_commands(
    found: pl.DataFrame, launches: pl.DataFrame, events: pl.DataFrame, losses: pl.DataFrame, rung: pl.DataFrame
) -> pl.DataFrame:
    """Return the rows of `found` that are sure: all of a log that is whole, else those of which one of these is true.

    - The call's exit tells its duration, and calls of its function enqueue one command.
    - It lies in a call, or its thread makes none, and all queues that its command may use show the packets that were
      written between the two lines, and no store tells of one that lacks (`store_losses`).

    A command's packets are on one queue (all whole recorded logs): those on another one than its first packet are of a
    command whose line was lost.

    Where few lines were lost a queue that prints no indexes is taken for whole.

    Args:
        found: event (packet or copy), command_event, command_stream, and others.
        launches: event, file, offset, process, thread, parent, queue, packet_index, name; in the order of their events.
        events: linked events.
        losses: files of the log that lost lines (`lossy_files.find_losses`).
        rung: dispatches before which packets of their thread lack (`store_losses.list_rung_before`).
    """
    columns = ("event", "file", "offset", "process", "thread", "parent", "queue", "name")
    is_lossy = pl.col("file").is_in(losses["file"].implode())
    damaged = select_marked(launches.select(*columns[:2], "offset", "queue", "packet_index"), is_lossy)
    if damaged.is_empty():
        return found
    own = launches.select(columns)[search_near(launches["event"].to_numpy(), found["event"].to_numpy())]
    pairs = select_marked(own.with_columns(found["command_event", "command_stream"].get_columns()), is_lossy)
    pairs = pairs.with_columns(command_offset=events["offset"].gather(pairs["command_event"]))
    alike = _drop_of_other_queues(pairs)
    told = select_rows(alike.select("event", "parent"), _told_calls(events)["parent"], "parent")
    called = select_marked(alike, pl.col("parent").is_not_null())
    called = select_rows(called, told["event"], chosen=False)
    worked = _select_worked(alike.filter(pl.col("parent").is_null()), events, losses)
    unrung = drop_rung(pl.concat([called, worked.select(called.columns)]), rung)
    proven = _drop_behind_gaps(unrung, damaged, _list_damaged(losses))
    sure = pl.concat([told.select("event"), proven.select("event")])
    doubtful = select_rows(pairs.select("event"), sure["event"], chosen=False)
    return select_rows(found, doubtful["event"], chosen=False)


def _drop_of_other_queues(pairs: pl.DataFrame) -> pl.DataFrame:
    """Leave out packets on other queues than the first packet of their command.

    Args:
        pairs: packets and copies (null = no queue) with file, offset, queue, command_event.
    """
    # Most commands have packets on one queue, and then none is another one, whichever is the first.
    if _list_of_other_queues(pairs).is_empty():
        return pairs
    return select_rows(pairs, _list_of_other_queues(sort_rows(pairs, "file", "offset")), chosen=False)


def _list_of_other_queues(pairs: pl.DataFrame) -> pl.Series:
    """Return the packets (event) on other queues than the first row of their command that names one."""
    known = select_marked(pairs.select("event", "queue", "command_event"), pl.col("queue").is_not_null())
    if known.is_empty():
        return known["event"]
    command, queue = known["command_event"].to_numpy(), known["queue"].to_numpy()
    # Of several values for one place the last one stays: here that of the first packet.
    first = np.empty(command.max() + 1, dtype=queue.dtype)
    first[command[::-1]] = queue[::-1]
    return known["event"].filter(pl.Series(queue != first[command]))


def list_unsure_kernels(
    launches: pl.DataFrame, events: pl.DataFrame, losses: pl.DataFrame, disordered: pl.Series
) -> pl.Series:
    """Return the dispatches (event) that may have the kernel of another one: its own line, and its name's, were lost.

    Sure is that of a dispatch whose queue shows the packet before it, if its command is sure or the exit of its call
    tells its duration: then nothing between the name and the dispatch is of another call.

    Args:
        launches: event, file, offset, name, layer, parent, graph, queue, packet_index, command_event.
        events: linked events.
        losses: files of the log that lost lines.
        disordered: files with lines out of order; the names of a graph's kernels may be among them.
    """
    columns = ("event", "file", "offset", "name", "parent", "graph", "queue", "packet_index", "command_event")
    is_asked = pl.col("file").is_in(losses["file"].implode()) & (pl.col("layer") == "aql")
    packets = launches.select(pl.col(columns).filter(is_asked))
    if packets.is_empty():
        return packets["event"]
    # Another file is another process, or what came before and lost lines, too.
    behind = _list_steps(packets).filter(pl.col("step") > 1)["event"]
    packets = packets.with_columns(is_behind=pl.col("event").is_in(behind.implode()))
    flags = events["flags"].fill_null(0).gather(packets["parent"])
    told = (flags & int(Flag.SPAN_TOLD) > 0).fill_null(False)
    alone = told & (~packets["graph"] | packets["packet_index"].is_not_null())
    sure = ~pl.col("is_behind") & (alone | pl.col("command_event").is_not_null())
    mixed = pl.col("graph") & pl.col("file").is_in(disordered.implode())
    return packets.filter((pl.col("name") == "dispatch") & (mixed | ~sure))["event"]


def _select_worked(pairs: pl.DataFrame, events: pl.DataFrame, losses: pl.DataFrame) -> pl.DataFrame:
    """Return what threads that make no HIP calls wrote for the command that they submitted last."""
    if pairs.is_empty():
        return pairs
    mine = (pl.col("layer") == "hip") & pl.col("file").is_in(losses["file"].implode())
    callers = list_groups(events.select(pl.col("file", "thread").filter(mine)), ["file", "thread"])
    return _drop_of_next(pairs.join(callers, on=["file", "thread"], how="anti", maintain_order="left"), events)


def _told_calls(events: pl.DataFrame) -> pl.DataFrame:
    """Return the calls (parent) whose exit tells their duration, of functions that enqueue one command a call."""
    hip = (pl.col("layer") == "hip") & (pl.col("flags").fill_null(0) & int(Flag.SPAN_TOLD) > 0)
    told = events.select("name", parent="event").filter(events.select(hip).to_series())
    enqueued = (pl.col("layer") == "command") & (pl.col("name") != COMPLETE)
    inside = np.sort(events.select(pl.col("parent").filter(enqueued).drop_nulls()).to_series().to_numpy())
    twice = pl.Series(inside[1:][inside[1:] == inside[:-1]])
    several = select_rows(told, twice, "parent")["name"].unique()
    return told.filter(~pl.col("name").is_in(several.implode())).select("parent")


def drop_late(found: pl.DataFrame, uses: pl.DataFrame, losses: pl.DataFrame, end: str) -> pl.DataFrame:
    """Leave out rows of files that lost many lines that come when the command's pointer may be in use again.

    How soon it may be is counted in commands that the process enqueues between two uses of one pointer. Where very many
    lines were lost and no pointer is seen twice, it may be at any time.

    Args:
        found: columns event, file, process, enqueue_ns and `end`, the time of what belongs to the command.
        uses: when pointers came into use: process, command, ts_ns.
        losses: files of the log that lost lines.
        end: a column of `found`.
    """
    damaged = found.filter(pl.col("file").is_in(_list_damaged(losses).implode()))
    if damaged.is_empty():
        return found
    numbered = uses.sort("ts_ns").with_columns(nth=pl.int_range(pl.len()).over("process"))
    apart = (pl.col("nth") - pl.col("nth").shift(1)).over("process", "command")
    soon = numbered.with_columns(apart=apart).group_by("process").agg(soon=pl.col("apart").quantile(_SOONEST))
    clock = numbered.select("process", "ts_ns", "nth")
    begun = damaged.select("event", "file", "process", then=end, ts_ns="enqueue_ns").sort("ts_ns")
    begun = begun.join_asof(clock, on="ts_ns", by="process", check_sortedness=False).drop("ts_ns").sort("then")
    ended = begun.join_asof(
        clock.rename({"nth": "last"}), left_on="then", right_on="ts_ns", by="process", check_sortedness=False
    )
    most = losses.filter(pl.col("lost") >= MOST_LOST)["file"]
    unknown = pl.col("soon").is_null() & pl.col("file").is_in(most.implode())
    late = ended.join(soon, on="process", how="left").filter(
        unknown | (pl.col("last") - pl.col("nth") > _SURE_SHARE * pl.col("soon"))
    )
    return select_rows(found, late["event"], chosen=False)


def _drop_of_next(pairs: pl.DataFrame, events: pl.DataFrame) -> pl.DataFrame:
    """Leave out what the thread that submits commands wrote for a later command, whose `submitted` line was lost.

    Its line before tells which command it began; and behind a kernel's dispatch comes the next command.
    """
    rows = events.select("file", "offset", "thread", "layer", "name", "command")
    named = rows.filter((pl.col("layer") == "command") & pl.col("name").is_in(BY_WORKER)).sort("offset")
    named = named.select("file", "thread", "offset", begun="command")
    found = pairs.sort("offset").join_asof(named, on="offset", by=["file", "thread"], check_sortedness=False)
    commands = events.select("command", kind="name")[found["command_event"]]
    found = found.with_columns(commands.get_columns())
    dispatch = pl.col("name") == "dispatch"
    dispatched = dispatch.cum_sum().over("command_event") - dispatch.cast(pl.Int64)
    another = pl.col("begun").is_not_null() & (pl.col("begun") != pl.col("command"))
    behind = (pl.col("kind") == KERNEL_COMMAND) & (dispatched > 0)
    return found.filter(~another & ~behind)


def _list_damaged(losses: pl.DataFrame) -> pl.Series:
    """Return the files that lost so many lines that several that belong together may be lost."""
    return losses.filter(pl.col("lost") >= MANY_LOST)["file"]


def _drop_behind_gaps(pairs: pl.DataFrame, packets: pl.DataFrame, damaged: pl.Series) -> pl.DataFrame:
    """Return the pairs between whose lines no queue that the command may use lost a packet.

    Args:
        pairs: packets and their commands.
        packets: all packets of these files.
        damaged: files in which a queue without indexes is not taken for whole.
    """
    gaps, uncounted = _list_gaps(packets, damaged)
    used = _candidate_queues(pairs)
    if gaps.is_empty() and uncounted.is_empty():
        return _select_used(pairs, used)
    asked = pairs.join(used, on=["process", "thread", "command_stream"], nulls_equal=True)
    own = pl.col("queue").is_null() | (pl.col("queue") == pl.col("candidate"))
    asked = select_rows(asked, asked.filter(own)["event"])
    low, high = pl.min_horizontal("offset", "command_offset"), pl.max_horizontal("offset", "command_offset") - 1
    asked = asked.with_columns(low=low, high=high).sort("high")
    hit = asked.join_asof(
        gaps, left_on="high", right_on="from_offset", by_left=["file", "candidate"], by_right=["file", "queue"],
        check_sortedness=False,
    )  # fmt: skip
    bad = hit.filter((pl.col("to_offset") > pl.col("low")) | pl.col("candidate").is_in(uncounted.implode()))
    return select_rows(select_rows(pairs, asked["event"]), bad["event"], chosen=False)


def _select_used(pairs: pl.DataFrame, used: pl.DataFrame) -> pl.DataFrame:
    """Return the pairs on a queue that their command may use, or on none where it may use any.

    Args:
        pairs: packets and their commands.
        used: as `_candidate_queues` returns them.
    """
    key = ["process", "thread", "command_stream"]
    codes, groups = number_groups(pairs, [*key, "queue"])
    own = pl.col("queue").is_null() | (pl.col("queue") == pl.col("candidate"))
    asked = groups.with_row_index("group").join(used, on=key, nulls_equal=True).filter(own)
    is_asked = np.zeros(groups.height, dtype=np.bool_)
    is_asked[asked["group"].to_numpy()] = True
    return pairs.filter(pl.Series(is_asked[codes]))


def _list_gaps(packets: pl.DataFrame, damaged: pl.Series) -> tuple[pl.DataFrame, pl.Series]:
    """Return where each queue lacks packets (file, queue, from_offset, to_offset), and the queues that cannot tell.

    `to_offset` is the furthest end of the gaps up to that one.
    """
    known = packets.drop_nulls("queue")
    uncounted = known.filter(pl.col("packet_index").is_null() & pl.col("file").is_in(damaged.implode()))[
        "queue"
    ].unique()
    key = ["file", "queue"]
    gaps = _list_steps(known).filter(pl.col("step") > 1)
    gaps = gaps.select(
        *key, from_offset=pl.min_horizontal("place", "offset"), to_offset=pl.max_horizontal("place", "offset")
    )
    return gaps.sort("from_offset").with_columns(pl.col("to_offset").cum_max().over(key)), uncounted


def _list_steps(packets: pl.DataFrame) -> pl.DataFrame:
    """Return the packets of queues whose indexes do not just follow one another, in the order of their indexes.

    With `step`, by how much each is above the one before (from -1 on), and `place`, the offset of that one (-1).

    Args:
        packets: event, file, queue, packet_index, offset; in the order of time.
    """
    key = ["file", "queue"]
    # Most queues show all their packets in order.
    codes, first = number_rows(packets, key)
    is_broken = find_breaks(codes, len(first), packets["packet_index"].to_arrow())
    rows = packets.select("event", *key, "packet_index", "offset").filter(pl.Series(is_broken[codes]))
    rows = rows.drop_nulls("packet_index")
    order, _, _ = order_by_group(rows, key)
    rows = rows[order].sort(*key, "packet_index")
    step = pl.col("packet_index") - pl.col("packet_index").shift(1, fill_value=-1).over(key)
    return rows.with_columns(step=step, place=pl.col("offset").shift(1, fill_value=-1).over(key))


def _candidate_queues(pairs: pl.DataFrame) -> pl.DataFrame:
    """Return process, thread, command_stream, candidate: the queues that a command may write to.

    Of a command that names its stream these are the stream's; else all that its thread writes to.
    """
    key = ["process", "thread", "command_stream"]
    counted = count_groups(pairs.drop_nulls("queue"), ["process", "command_stream", "queue"])
    share = pl.col("total") / pl.col("total").sum().over("process", "command_stream")
    used = counted.filter((share >= _SHARE) & pl.col("command_stream").is_not_null())
    used = used.select("process", "command_stream", candidate="queue")
    asked = list_groups(pairs, key)
    named = asked.join(used, on=["process", "command_stream"])
    mine = list_groups(pairs.drop_nulls("queue"), ["process", "thread", "queue"]).rename({"queue": "candidate"})
    unnamed = asked.filter(pl.col("command_stream").is_null())
    return pl.concat([named, unnamed.join(mine, on=["process", "thread"])])
