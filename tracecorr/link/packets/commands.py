"""Commands: which `Command (..) enqueued` line a packet or copy belongs to, and when it completed."""

from __future__ import annotations

import numpy as np
import polars as pl

from tracecorr import native
from tracecorr.clock.joins import join_nearest, select_rows, sort_rows
from tracecorr.clock.rows import Places, number_rows, select_marked
from tracecorr.link.losses.command_ends import DESTROYING, list_command_ends
from tracecorr.link.losses.lossy_files import add_shares
from tracecorr.link.packets.nested_commands import return_to_outer
from tracecorr.link.packets.sure_commands import BY_WORKER, drop_late
from tracecorr.model.kinds import (
    COMMAND_MENTIONS,
    COMPLETE,
    GRAPH_COMMAND,
    KERNEL_COMMAND,
    MARKERS,
    NOT_ENQUEUES,
    PACKET_KINDS,
    SUBMITTED,
)

_BARRIERS = [kind for kind in PACKET_KINDS if kind.startswith("barrier")]
# Of a kind of commands that end in the log, more show it.
_ENDS = 0.05
# Where more calls of a function write packets without a command, it does not show its commands.
_MOST_BARE = 0.5


def match_commands(launches: pl.DataFrame, commands: pl.DataFrame, losses: pl.DataFrame) -> pl.DataFrame:
    """Return the command of each packet or copy: the thread's last one before it in the same call.

    Behind the own packet of a marker it is the command around the marker (`nested_commands`).

    Args:
        launches: columns event, file, offset, thread, parent, outside, name, layer, queue, signal, command_offset
            (the thread's last command line as the reader saw it), graph (whether the call is a graph launch).
        commands: enqueue and submit lines: event, file, offset, process, thread, parent, name, ts_ns, command,
            stream_id.
        losses: files of the log that lost lines (`lossy_files.find_losses`).

    Returns: event, command_event, enqueue_ns, command (pointer), command_stream, kind (of the command).
    """
    lines = _find_enqueues(commands).select(
        "file", "thread", command_offset="offset", command_event="enqueued", enqueue_ns="enqueue_ns", command="command",
        command_stream="stream_id", command_parent="parent", kind="kind", submitted="submitted",
    )  # fmt: skip
    launches = launches.select("event", "file", "offset", "thread", "parent", "outside", "name", "queue", "signal",
                               "command_offset", "graph")  # fmt: skip
    place = Places.of(lines.select("file", offset="command_offset")).find(launches, "command_offset")
    # Few are left out by any of these.
    sides = lines.select(pl.col("command_parent", "thread").gather(place)).rename({"thread": "command_thread"})
    is_same = launches.select("thread", "parent", "outside").with_columns(sides.get_columns()).select(
        (_same_call() & place.is_not_null()).fill_null(value=False)
    ).to_series()  # fmt: skip
    told = select_marked(launches.drop("thread", "outside", "command_offset"), pl.lit(is_same))
    told = told.with_columns(lines.drop("file", "thread", "command_offset")[place.filter(is_same)].get_columns())
    before = select_marked(return_to_outer(told, lines, losses), _fits().fill_null(value=False))
    before = _drop_second_dispatches(before) if lines["submitted"].any() else before
    is_packet = pl.col("name") != "copy"
    rest = launches.filter(pl.col("graph") & is_packet).drop_nulls("parent")
    rest = select_rows(rest, before["event"], chosen=False)
    # What completes a signal before the command of a graph launch is of a marker (all recorded logs of HIP 7.2.4), of
    # which the line may be lost.
    doubtful = pl.col("file").is_in(losses["file"].implode()) & (pl.col("signal").fill_null(0) != 0)
    rest = rest.filter(~doubtful)
    tasks = lines.filter(pl.col("kind") == GRAPH_COMMAND).drop_nulls("command_parent").sort("command_offset")
    after = rest.drop("command_offset").sort("offset").join_asof(
        tasks, left_on="offset", right_on="command_offset", by_left=["file", "parent"],
        by_right=["file", "command_parent"], strategy="forward", check_sortedness=False,
    )  # fmt: skip
    # A command is one stream's: of packets of several rings it is not known which are its own.
    one_ring = pl.col("queue").n_unique().over("command_event") == 1
    columns = ("event", "command_event", "enqueue_ns", "command", "command_stream", "kind")
    return pl.concat([before.select(columns), after.drop_nulls("command_event").filter(one_ring).select(columns)])


def _drop_second_dispatches(found: pl.DataFrame) -> pl.DataFrame:
    """Leave out what a worker thread surely wrote for another command.

    It prints no calls that would end what it does for a command: a second dispatch is that of the next one.
    """
    dispatch = pl.col("name") == "dispatch"
    nth = pl.int_range(pl.len()).over("command_event", dispatch)
    second = pl.col("submitted") & (pl.col("kind") == KERNEL_COMMAND) & dispatch & (nth > 0)
    return found.sort("offset").filter(~second)


def _find_enqueues(commands: pl.DataFrame) -> pl.DataFrame:
    """Return the lines with `enqueued`, `enqueue_ns`, `kind` and `stream_id` of the command that each names."""
    submitted = pl.col("name") == SUBMITTED
    commands = commands.filter(~pl.col("name").is_in(COMMAND_MENTIONS))
    lines = commands.with_columns(submitted=submitted, enqueued="event", enqueue_ns="ts_ns", kind="name")
    if not lines["submitted"].any():
        return lines
    made = lines.filter(~pl.col("submitted")).select(
        "process", "command", "ts_ns", "enqueued", "enqueue_ns", "kind", "stream_id"
    )
    taken = lines.filter("submitted").drop("enqueued", "enqueue_ns", "kind", "stream_id").sort("ts_ns")
    found = taken.join_asof(made.sort("ts_ns"), on="ts_ns", by=["process", "command"], check_sortedness=False)
    # A command is submitted once: a second time it is a later one whose line was lost.
    found = found.unique("enqueued", keep="first", maintain_order=True)
    return pl.concat([lines.filter(~pl.col("submitted")), found.drop_nulls("enqueued").select(lines.columns)])


def _same_call() -> pl.Expr:
    """Tell whether packet and command are in one call, or both outside of all calls as the reader saw them.

    Lines outside of all calls are only known to be of one thread where the log names it, and its address is not that of
    a thread that ended before.
    """
    outside = pl.col("parent").is_null() & pl.col("command_parent").is_null() & pl.col("outside")
    outside &= pl.col("thread") == pl.col("command_thread")
    return (pl.col("parent") == pl.col("command_parent")).fill_null(False) | outside


def _fits() -> pl.Expr:
    name = pl.col("name")
    marked = pl.col("kind").is_in(MARKERS) & name.is_in(["dispatch", "copy"])
    # The kernels of a graph launch, or of a branch of one, come before the command that it enqueues for them.
    later = pl.col("graph") & (pl.col("kind") == GRAPH_COMMAND) & (name == "dispatch")
    # A kernel makes no copy.
    return ~marked & ~later & ~((pl.col("kind") == KERNEL_COMMAND) & (name == "copy"))


def match_completions(
    launches: pl.DataFrame, commands: pl.DataFrame, losses: pl.DataFrame, logs: pl.DataFrame
) -> pl.DataFrame:
    """Return the completion line of each packet's command: the first one after it, before the pointer's next use.

    A barrier's line is printed after its doorbell store, and in between its completion may be: of a log that lacks no
    lines it is the first one after its command.

    Pointers are reused at once. Where the line of the next use was lost, its completion would be found. In a log that
    lost lines it is told by its order, as most ends of one stream's commands are printed in the order in which they
    were enqueued, and it must come sooner than pointers are used again. In a whole log it needs no order: the event
    thread of HIP 5.7 to 7.2 ends a later batch of a stream before an earlier one (recorded captures).

    Args:
        launches: columns event, file, process, name, command, kind, ts_ns, enqueue_ns, command_stream; in the order of
            time.
        commands: all rows of layer `command`: event, file, process, thread, command, ts_ns, name, stream_id; in the
            same.
        losses: files of the log that lost lines (`lossy_files.find_losses`).
        logs: which files are parts of one log (`split_logs.number_logs`).

    Returns: event, complete_event, complete_ns.
    """
    log = pl.col("file").replace(logs["file"], logs["log"]).alias("log")
    lines = commands.select("event", "file", "process", "thread", "command", "ts_ns", "name", "stream_id")
    lines = select_marked(lines, pl.col("command").is_not_null())
    is_end = pl.col("name") == COMPLETE
    ends = lines.filter(is_end).select(
        log, "process", "command", "ts_ns", complete_event="event", complete_ns="ts_ns", printer="thread"
    )
    uses = list_command_uses(lines)
    columns = ("event", "file", "process", "name", "command", "kind", "ts_ns", "enqueue_ns", "command_stream")
    wanted = launches.select(*columns, log)
    keys = ["process", "command"]
    # A log that is put together of pieces is in `losses`, too, with a share of 0: no line is known to lack.
    whole = ~pl.col("file").is_in(losses.filter(pl.col("lost") > 0)["file"].implode())
    # The end of the pointer's use before may have the same stamp as the command.
    early = whole & pl.col("name").is_in(_BARRIERS) & (pl.col("enqueue_ns") < pl.col("ts_ns"))
    since = pl.when(early).then(pl.col("enqueue_ns") + 1).otherwise("ts_ns")
    wanted = sort_rows(wanted.with_columns(since=since), "since")
    ends = join_nearest(ends, uses.with_columns(last_use="ts_ns"), keys, "ts_ns", "ts_ns", exact=False)
    # Each process has a log of its own: another one of its pid may be the next life of the number.
    places = ends.select("log", *keys, "ts_ns", end=pl.int_range(pl.len()))
    found = join_nearest(wanted, places, ["log", *keys], "since", "ts_ns", forward=True)
    found = found.drop("log", "command", "name", "kind", "since").drop_nulls("end")
    found = found.with_columns(ends.drop("log", *keys, "ts_ns")[found["end"]].get_columns())
    # The packets of a graph launch come before their command.
    found = sort_rows(found.with_columns(ts_ns=pl.max_horizontal("ts_ns", "enqueue_ns")), "ts_ns")
    mine = pl.col("last_use").is_null() | (pl.col("last_use") <= pl.col("ts_ns"))
    ended = found.filter(mine).sort("enqueue_ns", descending=True)
    soonest = pl.col("complete_ns").cum_min().over("process", "printer", "command_stream")
    in_order = ended.filter(whole | (pl.col("complete_ns") <= soonest))
    in_time = drop_late(in_order, uses, losses, "complete_ns")
    return _drop_endless(in_time, wanted, losses).select("event", "complete_event", "complete_ns")


def _drop_endless(found: pl.DataFrame, wanted: pl.DataFrame, losses: pl.DataFrame) -> pl.DataFrame:
    """Leave out, in logs that lost lines, ends of commands of a kind that hardly ever shows one.

    They are those of the pointer's next use, whose line was lost.
    """
    is_lossy = pl.col("file").is_in(losses["file"].implode())
    is_asked = wanted.select(is_lossy & pl.all_horizontal(pl.col("command", "kind").is_not_null())).to_series()
    asked = wanted.select("event", "file", "kind").filter(is_asked)
    if asked.is_empty():
        return found
    events = asked["event"].to_numpy()
    ended = np.zeros(events.max() + 1, dtype=np.bool_)
    ended[select_marked(found.select("event", "file"), is_lossy)["event"].to_numpy()] = True
    codes, first = number_rows(asked, ["file", "kind"])
    total, shown = native.count_groups(codes, len(first), ended[events])
    doubtful = asked["event"].filter(pl.Series((shown / total < _ENDS)[codes]))
    return select_rows(found, doubtful, chosen=False)


def add_lost_enqueues(
    losses: pl.DataFrame, commands: pl.DataFrame, events: pl.DataFrame, *, headless: bool
) -> pl.DataFrame:
    """Return `losses` with the files in which commands complete that no line enqueued: those lines were lost.

    So were those of commands that a thread processes (Direct Dispatch is off) and does not submit before the next one.
    No call may be torn by that: all lines of one thread, or of one kind, may be what is missing.

    Args:
        losses: files of the log that lost lines, and the share of them (`lossy_files.find_losses`).
        commands: all rows of layer `command`, in the order of time.
        events: all rows, as for `list_command_ends`, with `stream_id`.
        headless: whether any command ends that no line enqueued, before the log begins or later.
    """
    unsubmitted = _list_unsubmitted(commands)
    if not headless:
        return add_shares(losses, unsubmitted)
    columns = ("file", "offset", "end_offset", "process", "thread", "command", "name", "layer")
    ends = list_command_ends(events.select(*columns, stream="stream_id"))
    alone = pl.col("alone") & ~pl.col("before")
    shares = ends.group_by("file").agg(lost=alone.mean()).filter(pl.col("lost") > 0)
    return add_shares(losses, shares, unsubmitted)


def add_bare_calls(
    losses: pl.DataFrame, launches: pl.DataFrame, commands: pl.DataFrame, events: pl.DataFrame
) -> pl.DataFrame:
    """Return `losses` with the files of calls that write packets and enqueue no command, as others of their name do.

    In recorded logs of HIP 5.7 to 7.2 every call that writes packets enqueues a command, but for the one that deletes
    a queue: it waits for what is left there by a barrier of its own (hipStreamDestroy, 7.2.4). A call that shows no end
    tells nothing: a graph launch enqueues its command last, and the log may end in it.

    Args:
        losses: files of the log that lost lines, and the share of them (`lossy_files.find_losses`).
        launches: packets and copies: file, layer, parent.
        commands: all rows of layer `command`, with `parent`.
        events: all rows, numbered by their places.
    """
    enqueues = commands.filter(~pl.col("name").is_in(NOT_ENQUEUES))
    writers = launches.select(pl.col("parent").filter(pl.col("layer") == "aql")).to_series()
    owns, writes = np.zeros((2, events.height), dtype=np.bool_)
    owns[enqueues["parent"].drop_nulls().to_numpy()] = True
    writes[writers.drop_nulls().to_numpy()] = True
    if not (writes & ~owns).any():
        return losses
    calls = events.select("file", "name", end="end_offset")[np.flatnonzero(writes)]
    calls = calls.with_columns(bare=pl.Series(~owns[writes]) & calls["end"].is_not_null())
    counts = calls.group_by("file", "name").agg(total=pl.len(), bare=pl.col("bare").sum())
    counts = counts.filter(~pl.col("name").is_in(DESTROYING))
    usual = counts.filter(pl.col("bare") < _MOST_BARE * pl.col("total")).group_by("file")
    shares = usual.agg(lost=pl.col("bare").sum() / pl.col("total").sum()).filter(pl.col("lost") > 0)
    return add_shares(losses, shares)


def _list_unsubmitted(commands: pl.DataFrame) -> pl.DataFrame:
    """Return the files that submit commands, but not all that a thread processes: file, lost (the share of them)."""
    lines = commands.select("file", "thread", "offset", "name", "command").filter(pl.col("name").is_in(BY_WORKER))
    lines = lines.filter((pl.col("name") == SUBMITTED).any().over("file")).drop_nulls("thread")
    lines = lines.sort("file", "offset")
    name, command = (pl.col(column).shift(-1).over("file", "thread") for column in ("name", "command"))
    lines = lines.with_columns(lacks=(name != SUBMITTED) | (command != pl.col("command")))
    begun = lines.filter(pl.col("name") != SUBMITTED)
    return begun.group_by("file").agg(lost=pl.col("lacks").mean()).filter(pl.col("lost") > 0)


def list_command_uses(commands: pl.DataFrame) -> pl.DataFrame:
    """Return when each command's pointer came into use: process, command, ts_ns.

    Args:
        commands: rows of layer `command`.
    """
    no_use = pl.col("name").is_in(NOT_ENQUEUES)
    return commands.filter(~no_use).select("process", "command", "ts_ns")
