"""Lines out of order: where a log's lines are not in the order in which their thread printed them.

A thread prints its lines one after the other, so their times never fall. Where they do, lines were moved or written
twice: what encloses what, and what belongs to the line before it, is not to be read from the order there.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl

from tracecorr import native
from tracecorr.clock.bounds import Ints, Mask
from tracecorr.clock.rows import Codes, attach_columns, number_rows, select_marked, split_groups
from tracecorr.link.losses.lossy_files import add_shares
from tracecorr.link.losses.open_calls import take_ends

# So many lines of its thread around a fall of the times may be displaced; further away they are in order again.
_REACH = 1000
_THREAD = ["file", "thread"]
# ROCr's own lines show another clock.
_MINE = (pl.col("source") == "amd_log") & (pl.col("clock") == "mono") & pl.col("thread").is_not_null()


def find_displaced(events: pl.DataFrame) -> pl.DataFrame:
    """Return the lines whose place in the log may not be their own: file, thread, offset, sorted by offset.

    Args:
        events: rows of all sources in the order of their times: file, thread, offset, end_offset, ts_ns, dur_ns,
            source, clock.
    """
    columns = (*_THREAD, "offset", "end_offset", "ts_ns", "dur_ns", "source", "clock")
    threads = _list_disordered(events.select(columns))
    if threads.is_empty():
        return events.select(*_THREAD, "offset").clear()
    likely = pl.col("file").is_in(threads["file"].implode()) & pl.col("thread").is_in(threads["thread"].implode())
    rows = events.select(columns).filter(_MINE & likely).join(threads, on=_THREAD, how="semi")
    ends = rows.filter(pl.col("dur_ns").is_not_null() & pl.col("end_offset").is_not_null())
    lines = pl.concat([
        rows.select(*_THREAD, "offset", at="ts_ns"),
        ends.select(*_THREAD, pl.col("end_offset").alias("offset"), at=pl.col("ts_ns") + pl.col("dur_ns")),
    ]).sort(*_THREAD, "offset")  # fmt: skip
    parts = lines.partition_by(_THREAD, maintain_order=True)
    found = [part.filter(mark_displaced(part["at"].to_numpy())) for part in parts]
    return pl.concat(found).select(*_THREAD, "offset").sort("offset")


def add_displaced(losses: pl.DataFrame, displaced: pl.DataFrame, events: pl.DataFrame) -> pl.DataFrame:
    """Return `losses` with the files that have displaced lines: these are missing where they belong.

    Args:
        losses: files of the log that lost lines, and the share of them (`lossy_files.find_losses`).
        displaced: as `find_displaced` returns them.
        events: rows with `file`.
    """
    if displaced.is_empty():
        return losses
    rows = events.group_by("file").agg(rows=pl.len())
    moved = displaced.group_by("file").agg(moved=pl.len()).join(rows, on="file")
    shares = moved.select("file", lost=(pl.col("moved") / (2 * pl.col("rows"))).clip(upper_bound=0.5))
    return add_shares(losses, shares)


def _list_disordered(rows: pl.DataFrame) -> pl.DataFrame:
    """Return file and thread whose rows, in the order of their times, go back, or a call's end of which does."""
    rows = select_marked(rows, _MINE)
    backward = rows.filter(pl.col("dur_ns") < 0).select(_THREAD)
    code, first = number_rows(rows, _THREAD)
    found = np.array([n for n, own in _list_unsure(rows, code, len(first)) if _is_disordered(own)], dtype=np.int64)
    return pl.concat([rows.select(_THREAD)[first[found]], backward]).unique()


def _list_unsure(rows: pl.DataFrame, code: Codes, threads: int) -> Iterator[tuple[int, pl.DataFrame]]:
    """Yield the threads whose order one look at each row does not prove, and their lines.

    Args:
        rows: lines in the order of their times.
        code: the thread of each, below `threads`.
    """
    offset, at = (rows[name].fill_null(-1).to_numpy() for name in ("offset", "ts_ns"))
    unsure = native.find_unsure(
        code, threads, offset, at, *(rows[name].to_arrow() for name in ("end_offset", "dur_ns"))
    )
    for number, own in split_groups(code, unsure > 0):
        yield number, rows[own]


def _is_disordered(lines: pl.DataFrame) -> bool:
    """Tell whether lines of a thread, in the order of their times, go back, or the end of a call does.

    That is, by the times, before a line in front of it, or after one behind it.

    Args:
        lines: where each begins and ends (offset, end_offset), when it begins (ts_ns), and how long it takes (dur_ns);
            where either end of a line is null only where and when it begins is known.
    """
    offset, end_offset, at, lasted = (
        lines[name].fill_null(-1).to_numpy() for name in ("offset", "end_offset", "ts_ns", "dur_ns")
    )
    is_whole = lines.select(pl.all_horizontal(pl.col("end_offset", "dur_ns").is_not_null())).to_series().to_numpy()
    if (offset[1:] < offset[:-1]).any():
        return True
    ends = at + lasted
    calls = np.flatnonzero(is_whole[:-1] & ((end_offset[:-1] > offset[1:]) | (ends[:-1] > at[1:])))
    in_front = np.searchsorted(offset, end_offset[calls]) - 1
    before = np.maximum(np.searchsorted(at, ends[calls]) - 1, calls)
    return bool(((at[in_front] > ends[calls]) | (offset[before] > end_offset[calls])).any())


def mark_displaced(at: Ints) -> Mask:
    """Return which lines may be displaced, given their times in the order of the file."""
    count, places = len(at), np.arange(len(at))
    highest = np.maximum.accumulate(at)
    fell = np.append(False, at[1:] < at[:-1])
    last_fall = np.maximum.accumulate(np.where(fell, places, -_REACH))
    behind = np.flatnonzero((at < highest) & (places - last_fall < _REACH))
    # From the line in front of which it belongs up to it.
    first = np.maximum(np.searchsorted(highest, at[behind], side="right"), behind - _REACH)
    steps = np.bincount(first, minlength=count + 1) - np.bincount(behind + 1, minlength=count + 1)
    displaced: Mask = np.cumsum(steps)[:count] > 0
    return displaced


def part_displaced(events: pl.DataFrame, displaced: pl.DataFrame) -> pl.DataFrame:
    """Return `events` in which displaced lines have no parent, and calls around such lines no end and no children.

    Args:
        events: rows with `parent`; row i is event i.
        displaced: as `find_displaced` returns them.
    """
    if displaced.is_empty():
        return events
    calls = events.filter((pl.col("layer") == "hip") & (pl.col("source") == "amd_log")).select(
        "event", *_THREAD, "offset", to=pl.max_horizontal("offset", "end_offset")
    )
    torn = select_holding(calls, displaced, "offset", "to")
    moved = events.select("event", *_THREAD, "offset", "source").filter(pl.col("source") == "amd_log")
    moved = moved.join(displaced, on=[*_THREAD, "offset"], how="semi")
    marks = pl.concat([torn.select("event", torn=pl.lit(True)), moved.select("event", torn=pl.lit(False))])
    marks = marks.group_by("event").agg(pl.col("torn").any())
    joined = attach_columns(events, marks)
    inside = pl.col("torn").is_not_null() | joined["torn"].gather(joined["parent"]).fill_null(False)
    return joined.with_columns(*take_ends(pl.col("torn")), parent=pl.when(~inside).then("parent")).drop("torn")


def select_holding(rows: pl.DataFrame, displaced: pl.DataFrame, low: str, high: str) -> pl.DataFrame:
    """Return the rows between whose two places lies a displaced line of their thread.

    Args:
        rows: file, thread, and others.
        displaced: as `find_displaced` returns them.
        low, high: columns of `rows` with the places (byte offsets), both included.
    """
    lines = displaced.with_columns(last=pl.col("offset")).rename({"offset": "_at"})
    found = rows.sort(high).join_asof(lines, left_on=high, right_on="_at", by=_THREAD, check_sortedness=False)
    return found.filter(pl.col("last") >= pl.col(low)).select(rows.columns)


def drop_displaced(found: pl.DataFrame, launches: pl.DataFrame, displaced: pl.DataFrame) -> pl.DataFrame:
    """Return the rows of `found` without packets and copies that have a displaced line between them and their command.

    Args:
        found: event, command_event, and others.
        launches: event, file, thread, offset, command_offset (the thread's last command line).
        displaced: as `find_displaced` returns them.
    """
    if displaced.is_empty():
        return found
    rows = launches.select("event", *_THREAD, "offset", low=pl.min_horizontal("offset", "command_offset"))
    return found.join(select_holding(rows, displaced, "low", "offset"), on="event", how="anti", maintain_order="left")
