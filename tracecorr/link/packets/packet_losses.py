"""Packet losses: logs that lack lines of packets, where no packet index tells it."""

from __future__ import annotations

import polars as pl

from tracecorr.clock.rows import IS_PACKET
from tracecorr.link.losses.command_ends import CommandLines, list_command_ends
from tracecorr.link.losses.early_returns import drop_early_returns
from tracecorr.link.losses.hip_calls import HipCalls
from tracecorr.link.losses.lossy_files import find_losses, list_half_calls
from tracecorr.link.losses.packet_gaps import list_packet_gaps
from tracecorr.link.packets.packet_order import find_earliest
from tracecorr.model.kinds import BEGINNINGS, COMMAND_MENTIONS, COMPLETE, KERNEL_COMMAND, NOT_ENQUEUES, SUBMITTED

# Lines that name a signal which a packet or copy before them completes.
_AWAITED = ("handler", "gpu_time", "host_wait", "host_active_wait")
_CALLS = ("file", "offset", "end_offset", "process", "thread", "layer", "name", "source", "flags", "command", "stream")


def list_short_files(records: pl.DataFrame) -> pl.Series:
    """Return the files of the log that lack lines of calls (`lossy_files.find_losses`) or packets, or repeat packets.

    Packets lack where a signal is awaited that none completes, or a thread that writes dispatches enqueues its next
    command behind that of a kernel without one. A log without any dispatch lacks those of its kernels. Where threads
    of their own submit commands (Direct Dispatch is off), so does one in which such a thread submits the next command
    behind a kernel without a dispatch, or that shows a kernel's pointer in use again though no line says that the
    kernel was submitted.

    Args:
        records: part events with `source`, `process`, `thread`.
    """
    rows = records.select(*_CALLS, "stamp_ns", "parent_offset", "signal", "ring", "packet_index", "clock")
    rows = rows.filter(
        (pl.col("source") == "amd_log") & pl.col("layer").is_in(["aql", "copy", "signal", "command"])
    ).sort("stamp_ns", "file", "offset")
    # Pieces of one log come in any order, and what a command is enqueued and ended by has to be in that of time.
    others = records.select(_CALLS).filter((pl.col("layer") == "hip") | pl.col("name").is_in(BEGINNINGS))
    calls = HipCalls.of(records)
    halves = drop_early_returns(list_half_calls(records, calls), records, list_packet_gaps(rows))
    events = pl.concat([others, rows.select(_CALLS)])
    lines = CommandLines.of(events)
    lossy = find_losses(events, calls, halves, lines, list_command_ends(events, lines))
    found = (
        lossy["file"], _list_unsignalled(rows, records), _list_undispatched(rows), _list_never_submitted(rows),
        _list_unwritten(rows), _list_repeated(rows),
    )  # fmt: skip
    return pl.concat(found).unique()


def _list_repeated(rows: pl.DataFrame) -> pl.Series:
    """Return the files with a packet's line that is there twice: a thread prints no two of them in a microsecond."""
    packets = rows.filter(IS_PACKET)
    line = ("process", "thread", "ring", "name", "stamp_ns", "signal", "packet_index")
    return packets.filter(pl.struct(line).is_duplicated())["file"].unique()


def _list_unsignalled(rows: pl.DataFrame, records: pl.DataFrame) -> pl.Series:
    """Return the files with lines that wait for a signal that nothing before them completes.

    A barrier's line is printed behind its doorbell store: another thread may tell of its end before.
    """
    named = rows.filter(pl.col("signal").fill_null(0) != 0)
    packets = named.filter(pl.col("layer").is_in(["aql", "copy"]))
    uses = packets.select("process", "signal", "stamp_ns", used="offset")
    asked = named.filter((pl.col("layer") == "signal") & pl.col("name").is_in(_AWAITED))
    found = asked.join_asof(uses, on="stamp_ns", by=["process", "signal"], check_sortedness=False)
    found = found.filter(pl.col("used").is_null()).select("process", "signal", "stamp_ns", asked_in="file")
    if found.is_empty():
        return found["asked_in"]
    late = packets.filter((pl.col("layer") == "aql") & (pl.col("name") != "dispatch"))
    late = late.join(found, on=["process", "signal"], how="semi")
    begun = late.select("process", "signal", "stamp_ns", begun=pl.Series(find_earliest(late, records), dtype=pl.Int64))
    found = found.join_asof(begun, on="stamp_ns", by=["process", "signal"], strategy="forward", check_sortedness=False)
    answered = (pl.col("begun") <= pl.col("stamp_ns")).fill_null(value=False)
    return found.filter(~answered)["asked_in"].unique()


def _list_undispatched(rows: pl.DataFrame) -> pl.Series:
    """Return the files with a kernel's command behind which its thread enqueued another before a dispatch."""
    is_dispatch = (pl.col("layer") == "aql") & (pl.col("name") == "dispatch")
    is_command = (pl.col("layer") == "command") & ~pl.col("name").is_in(NOT_ENQUEUES)
    steps = rows.filter(is_dispatch | is_command).sort("file", "offset")
    # Where Direct Dispatch is off, other threads write the dispatches of kernels, its own one those of some copies.
    writes = is_dispatch.any().over("file", "thread") | ~is_dispatch.any().over("file")
    following = pl.col("layer").shift(-1).over("file", "thread")
    lacks = (pl.col("name") == KERNEL_COMMAND) & (following == "command") & writes
    found = steps.filter(lacks.fill_null(value=False))
    return found.join(_list_served(rows), on=["file", "thread"], how="anti")["file"].unique()


def _list_served(rows: pl.DataFrame) -> pl.DataFrame:
    """Return file, thread of the threads that enqueue kernels which another one submits."""
    key = ["file", "process", "command"]
    kernels = rows.filter(pl.col("name") == KERNEL_COMMAND).select(*key, "thread")
    taken = rows.filter(pl.col("name") == SUBMITTED).select(*key, worker="thread").unique()
    return kernels.join(taken, on=key).filter(pl.col("worker") != pl.col("thread")).select("file", "thread").unique()


def _list_unwritten(rows: pl.DataFrame) -> pl.Series:
    """Return the files with a kernel behind which its submitter takes the next command before it writes a dispatch."""
    is_command, name = pl.col("layer") == "command", pl.col("name")
    enqueued = pl.when(is_command & ~name.is_in(NOT_ENQUEUES)).then(name.cast(pl.String))
    # A pointer is that of the command that was enqueued with it last.
    rows = rows.with_columns(kind=enqueued.forward_fill().over("file", "process", "command"))
    steps = rows.filter((is_command & (name == SUBMITTED)) | ((pl.col("layer") == "aql") & (name == "dispatch")))
    following = name.shift(-1).over("file", "thread")
    lacks = is_command & (pl.col("kind") == KERNEL_COMMAND) & (following == SUBMITTED)
    return steps.filter(lacks.fill_null(value=False))["file"].unique()


def _list_never_submitted(rows: pl.DataFrame) -> pl.Series:
    """Return the files with a kernel's command that nothing submits before its pointer is in use again."""
    name = pl.col("name")
    steps = rows.filter((pl.col("layer") == "command") & pl.col("command").is_not_null())
    steps = steps.filter((name == SUBMITTED).any().over("file")).filter(~name.is_in([*COMMAND_MENTIONS, COMPLETE]))
    following = name.shift(-1).over("file", "process", "command")
    return steps.filter((name == KERNEL_COMMAND) & (following != SUBMITTED))["file"].unique()
