"""Commands: which `Command (..) enqueued` line a packet or copy belongs to, and when it completed."""

from __future__ import annotations

import polars as pl

from tracecorr.link.events import find_places
from tracecorr.model import frames
from tracecorr.model.frames import gives
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

# Commands that write one packet which completes a signal, their last one: those before it only wait. Copies write
# several (all recorded logs of HIP 5.7.1, 6.4.3 and 7.2.4).
_COMPLETED_ONCE = (*MARKERS, GRAPH_COMMAND, KERNEL_COMMAND)
_OF_COMMAND = ("command_event", "enqueue_ns", "command", "command_stream", "command_parent", "kind")
_BARRIERS = [kind for kind in PACKET_KINDS if kind.startswith("barrier")]


@gives(frames.COMMANDS_OF_PACKETS)
def match_commands(launches: pl.DataFrame, commands: pl.DataFrame) -> pl.DataFrame:
    """Return the command of each packet or copy: the thread's last one before it in the same call.

    Args:
        launches: columns event, file, offset, thread, parent, outside, name, layer, queue, signal, command_offset
            (the thread's last command line as the reader saw it), graph (whether the call is a graph launch).
        commands: enqueue and submit lines: event, file, offset, process, thread, parent, name, ts_ns, command,
            stream_id.

    Returns: event, command_event, enqueue_ns, command (pointer), command_stream, kind (of the command).
    """
    lines = _find_enqueues(commands).select(
        "file", "thread", command_offset="offset", command_event="enqueued", enqueue_ns="enqueue_ns", command="command",
        command_stream="stream_id", command_parent="parent", kind="kind", submitted="submitted",
    )  # fmt: skip
    launches = launches.select("event", "file", "offset", "thread", "parent", "outside", "name", "queue", "signal",
                               "command_offset", "graph")  # fmt: skip
    place = find_places(lines, launches, "command_offset", "command_offset")
    # Few are left out by any of these.
    sides = lines.select(pl.col("command_parent", "thread").gather(place)).rename({"thread": "command_thread"})
    is_same = launches.select("thread", "parent", "outside").with_columns(sides.get_columns()).select(
        (_same_call() & place.is_not_null()).fill_null(value=False)
    ).to_series()  # fmt: skip
    told = launches.drop("thread", "outside", "command_offset").filter(is_same)
    told = told.with_columns(lines.drop("file", "thread", "command_offset")[place.filter(is_same)].get_columns())
    before = _return_to_outer(told, lines).filter(_fits())
    before = _drop_second_dispatches(before) if lines["submitted"].any() else before
    is_packet = pl.col("name") != "copy"
    rest = launches.filter(pl.col("graph") & is_packet).drop_nulls("parent")
    rest = rest.join(before, on="event", how="anti", maintain_order="left")
    tasks = lines.filter(pl.col("kind") == GRAPH_COMMAND).drop_nulls("command_parent").sort("command_offset")
    after = rest.drop("command_offset").sort("offset").join_asof(
        tasks, left_on="offset", right_on="command_offset", by_left=["file", "parent"],
        by_right=["file", "command_parent"], strategy="forward", check_sortedness=False,
    )  # fmt: skip
    # A command is one stream's: of packets of several rings it is not known which are its own.
    one_ring = pl.col("queue").n_unique().over("command_event") == 1
    columns = ("event", "command_event", "enqueue_ns", "command", "command_stream", "kind")
    return pl.concat([before.select(columns), after.drop_nulls("command_event").filter(one_ring).select(columns)])


def _return_to_outer(found: pl.DataFrame, lines: pl.DataFrame) -> pl.DataFrame:
    """Return `found` in which what follows the packet that completes a command belongs to the command around it.

    A command that waits for another one prints that it is enqueued before it sees to that: a marker for the end of the
    other is then enqueued, and written, inside of it (`Command::enqueue` of CLR; seen in hipLaunchHostFunc of HIP
    7.2.4). The outer one is that whose line stands before it in the same call, if it has written nothing before.

    Args:
        found: packets and copies with the thread's last command in their call: event, file, offset, parent, name,
            signal, command_event, enqueue_ns, command (pointer), command_stream, command_parent, kind (of the command).
        lines: enqueue lines: file, thread, command_offset and what `found` has of a command.
    """
    # Most are the only packets of their commands.
    once = found.filter(pl.col("kind").is_in(_COMPLETED_ONCE))
    late = once.filter(pl.len().over("command_event") > 1).sort("file", "offset").filter(_is_behind())
    if late.is_empty():
        return found
    behind = found.join(late.select("event"), on="event", how="semi")
    own = found.join(behind, on="event", how="anti", maintain_order="left")
    parent, stream = pl.col("parent"), pl.col("command_stream")
    same = pl.col("outer_parent").eq_missing(parent) & pl.col("outer_stream").eq_missing(stream)
    moved = behind.join(_list_outer(lines, own), on="command_event").filter(same)
    moved = moved.with_columns(pl.col(f"outer_{name.removeprefix('command_')}").alias(name) for name in _OF_COMMAND)
    own_again = moved.sort("file", "offset").filter(~_is_behind())
    return pl.concat([own, own_again.select(found.columns)])


def _list_outer(lines: pl.DataFrame, own: pl.DataFrame) -> pl.DataFrame:
    """Return the command line before each one of its thread (`outer_`), of those that have written nothing."""
    ordered = lines.filter(~pl.col("submitted")).sort("file", "thread", "command_offset")
    names = {name: f"outer_{name.removeprefix('command_')}" for name in _OF_COMMAND}
    before = ordered.select(
        pl.col("command_event").alias("inner"),
        *(pl.col(name).shift(1).over("file", "thread").alias(new) for name, new in names.items()),
    )
    idle = before.filter(~pl.col("outer_event").is_in(own["command_event"].unique().implode()))
    return idle.drop_nulls("outer_event").rename({"inner": "command_event"})


def _is_behind() -> pl.Expr:
    """Tell which packets, in the order of their lines, follow the one that completes their command.

    A barrier completes no kernel's command: the one before its dispatch tells when a part of the memory for arguments
    may be used again (`Issue barrier to flush chunk`, HIP 6.4.3).
    """
    flushes = (pl.col("kind") == KERNEL_COMMAND) & (pl.col("name") != "dispatch")
    completes = ((pl.col("signal").fill_null(0) != 0) & ~flushes).cast(pl.Int64)
    before = completes.cum_sum().over("command_event") - completes
    return pl.col("kind").is_in(_COMPLETED_ONCE) & (before > 0)


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


@gives(frames.COMPLETIONS)
def match_completions(launches: pl.DataFrame, commands: pl.DataFrame) -> pl.DataFrame:
    """Return the completion line of each packet's command: the first one after it, before the pointer's next use.

    A barrier's line is printed after its doorbell store, and in between its completion may be: it is the first one
    after its command. Pointers are reused at once.

    Args:
        launches: columns event, process, name, command, ts_ns, enqueue_ns; in the order of time.
        commands: all rows of layer `command`: event, process, command, ts_ns, name; in the same.

    Returns: event, complete_event, complete_ns.
    """
    lines = commands.select("event", "process", "command", "ts_ns", "name").drop_nulls("command")
    is_end, keys = pl.col("name") == COMPLETE, ["process", "command"]
    ends = lines.filter(is_end).select(*keys, "ts_ns", complete_event="event", complete_ns="ts_ns")
    uses = _list_command_uses(lines).with_columns(last_use="ts_ns")
    ends = ends.join_asof(uses, on="ts_ns", by=keys, allow_exact_matches=False, check_sortedness=False)
    wanted = launches.select("event", *keys, "name", "ts_ns", "enqueue_ns").drop_nulls("command")
    # The end of the pointer's use before may have the same stamp as the command.
    early = pl.col("name").is_in(_BARRIERS) & (pl.col("enqueue_ns") < pl.col("ts_ns"))
    wanted = wanted.with_columns(since=pl.when(early).then(pl.col("enqueue_ns") + 1).otherwise("ts_ns")).sort("since")
    found = wanted.rename({"ts_ns": "packet_ns"}).join_asof(
        ends, left_on="since", right_on="ts_ns", by=keys, strategy="forward", check_sortedness=False
    )
    # The packets of a graph launch come before their command.
    latest = pl.max_horizontal("packet_ns", "enqueue_ns")
    mine = pl.col("last_use").is_null() | (pl.col("last_use") <= latest)
    return found.drop_nulls("complete_event").filter(mine).select("event", "complete_event", "complete_ns")


def _list_command_uses(commands: pl.DataFrame) -> pl.DataFrame:
    """Return when each command's pointer came into use: process, command, ts_ns.

    Args:
        commands: rows of layer `command`.
    """
    no_use = pl.col("name").is_in(NOT_ENQUEUES)
    return commands.filter(~no_use).select("process", "command", "ts_ns")
