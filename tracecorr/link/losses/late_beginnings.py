"""Late beginnings: logs that begin in the middle of a run, because their head was cut off. What lacks lies before them.

Lines that lack elsewhere make calls and links unsure (`lossy_files`); those of a head do not: only what began before
the first line is not known.
"""

from __future__ import annotations

import polars as pl

from tracecorr.clock.rows import list_groups, select_marked, span_groups
from tracecorr.link.losses.beginnings import LOG_OF_PROCESS, is_late, list_begun
from tracecorr.link.losses.command_ends import list_command_ends
from tracecorr.link.losses.hip_calls import THREAD, HipCalls
from tracecorr.model import schema
from tracecorr.model.kinds import PACKET_KINDS, QUEUE_CREATED, QUEUE_DELETED, Flag

_RING = ["file", "process", "ring"]
_OF_LOG = pl.col("source") == "amd_log"
_COLUMNS = (
    "file", "offset", "end_offset", "process", "thread", "layer", "name", "source", "flags", "command", "stream",
    "ring", "packet_index", "clock",
)  # fmt: skip


def list_late_logs(events: pl.DataFrame, ends: pl.DataFrame | None = None, calls: HipCalls | None = None) -> pl.Series:
    """Return the processes (numbered by `LOG_OF_PROCESS`) of which the log begins in the middle of the run.

    That is so where it lacks the lines that the runtime prints first, and shows the end of what began before: the end
    of a command, the exit of a call, the deletion of a queue, or the packets of a ring behind its first one.

    Args:
        events: rows in the order of time: file, offset, end_offset, process, thread, layer, name, source, flags,
            command, stream (handle), ring, packet_index, clock.
        ends: as `command_ends.list_command_ends` returns them, where they are known.
        calls: those of `events`, where they are known.
    """
    rows = events.select(_COLUMNS)
    late = is_late(list_begun(events))
    # Most logs have the beginnings of all their processes; of one alone all rows may lack it.
    every = list_groups(rows, ["file", "process"]).select(late).to_series().all()
    asked = select_marked(rows, _OF_LOG if every else _OF_LOG & late)
    ends = list_command_ends(asked) if ends is None or asked.height < rows.height else ends
    early = ends.filter("early").select("file", "process")
    found = early, _list_late_exits(asked, events, calls), _list_late_packets(asked), _list_late_deletions(asked)
    return pl.concat(found).select(LOG_OF_PROCESS).to_series().unique()


def list_late_files(events: pl.DataFrame, calls: HipCalls, ends: pl.DataFrame) -> pl.DataFrame:
    """Return file, to_ns of the logs that begin in the middle of a run: when their first line was printed.

    Args:
        events: placed events, as for `list_late_logs`, with `ts_ns`.
        calls: those of `events`.
        ends: as `command_ends.list_command_ends` returns them.
    """
    late = list_late_logs(events, ends, calls)
    columns = ("file", "process", "ts_ns", "layer", "source")
    if late.is_empty():
        return pl.DataFrame(schema={"file": events.schema["file"], "to_ns": pl.Int64})
    # A line tells when the GPU worked before it.
    mine = _OF_LOG & (pl.col("layer") != "gpu") & LOG_OF_PROCESS.is_in(late.implode())
    rows = events.select(columns).filter(mine).drop_nulls("ts_ns").sort("ts_ns", maintain_order=True)
    # Pieces of one log come one after the other.
    first = rows.select("file", LOG_OF_PROCESS, "ts_ns").unique("log", keep="first", maintain_order=True)
    return first.group_by("file", maintain_order=True).agg(to_ns=pl.col("ts_ns").min())


def list_head_losses(late: pl.DataFrame) -> pl.DataFrame:
    """Return rows of `losses` for what lacks before logs that begin late: no start, no count.

    Args:
        late: as `list_late_files` returns them.
    """
    return schema.LOSSES.conform(late.select("to_ns", source=pl.lit("amd_log")))


def _list_late_exits(rows: pl.DataFrame, events: pl.DataFrame, calls: HipCalls | None) -> pl.DataFrame:
    """Return file, process of the exits of calls that their thread entered before the log begins.

    Up to ROCm 5.6 no line enters the first call of a process: an exit that is the first line of all tells nothing.

    Args:
        rows: those of logs that lack the beginning of their process.
        events: all rows.
        calls: those of all rows, where they are known; a thread is of one process.
    """
    flags = pl.col("flags").fill_null(0)
    is_call = (pl.col("layer") == "hip") & _OF_LOG & pl.col("thread").is_not_null()
    is_exit = is_call & (flags & int(Flag.EXIT_ONLY) > 0)
    exits = rows.select("file", "process", "thread", "offset").filter(rows.select(is_exit).to_series())
    if exits.is_empty():
        return exits.select("file", "process")
    calls = calls or HipCalls.of(rows)
    entered = exits.join(calls.first_enters, on=THREAD, how="left")
    early = (pl.col("offset") < pl.col("entered")).fill_null(value=True)
    lines = events.select("file", "offset", "source").filter(_OF_LOG & pl.col("file").is_in(exits["file"].implode()))
    begins = lines.group_by("file").agg(begins=pl.col("offset").min())
    found = entered.filter(early).join(begins, on="file").filter(pl.col("offset") > pl.col("begins"))
    return found.select("file", "process")


def _list_late_packets(rows: pl.DataFrame) -> pl.DataFrame:
    """Return file, process of packets of rings whose first packets, and whose Created lines, are not in the log."""
    is_asked = (pl.col("layer") == "aql") & pl.col("ring").is_not_null() & (pl.col("clock") != "mono_raw")
    is_packet, made = pl.col("name").is_in(PACKET_KINDS), pl.col("name") == QUEUE_CREATED
    lines = rows.select(*_RING, "packet_index", "name").filter(rows.select(is_asked & (is_packet | made)).to_series())
    packets = select_marked(lines, is_packet & pl.col("packet_index").is_not_null())
    rings = span_groups(packets, _RING, "packet_index", "packet_index").filter(pl.col("first") > 0)
    return rings.join(lines.filter(made), on=_RING, how="anti", nulls_equal=True).select("file", "process")


def _list_late_deletions(rows: pl.DataFrame) -> pl.DataFrame:
    """Return file, process of deleted queues where more are deleted than made so far.

    Up to ROCm 6.1 the lines name no ring.

    Args:
        rows: in the order of time.
    """
    lives = rows.filter((pl.col("layer") == "aql") & pl.col("name").is_in([QUEUE_CREATED, QUEUE_DELETED]))
    step = pl.when(pl.col("name") == QUEUE_CREATED).then(1).otherwise(-1).cast(pl.Int64)
    return lives.filter(step.cum_sum().over(LOG_OF_PROCESS) < 0).select("file", "process")
