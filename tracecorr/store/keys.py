"""Put the tables of several captures into one numbering: keys and times of the later ones are moved."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import polars as pl

from tracecorr.model import schema

# Key -> the table whose rows have it as their number.
KEYS = {
    "process": "processes", "thread": "threads", "queue": "queues", "kernel": "kernels", "stream": "streams",
    "gpu": "gpus", "file": "files",
}  # fmt: skip
# Further columns that hold such a key, and a number that several rows share.
_NUMBERED_BY = {**KEYS, "creator": "threads", "snapshot": "hqd", "job": "drm_jobs"}
# Table -> the column by which its rows are counted.
_COUNTED = {"events": "event", **{table: key for key, table in KEYS.items()}, "hqd": "snapshot",
            "drm_jobs": "job"}  # fmt: skip
COUNTED_TABLES = tuple(_COUNTED)
_EVENT_KEYS = frozenset({"event", "parent", "chain"})
# Points on the common clock; times on a source's own clock (stamps, pieces of clock maps) and durations stay.
_POINTS = frozenset({
    "ts_ns", "call_ns", "enqueue_ns", "packet_ns", "doorbell_ns", "gpu_start_ns", "gpu_end_ns", "complete_ns",
    "return_ns", "doorbell_lo_ns", "doorbell_hi_ns", "created_ns", "destroyed_ns", "from_ns", "to_ns",
    "read_start_ns", "read_end_ns", "queued_ns", "run_ns", "done_ns",
})  # fmt: skip
_ON_SOURCE_CLOCK = frozenset({"clock_map"})
# From a source's clock to the common one.
_OFFSET = "offset_ns"

# Gives the table of a capture by its name (any of `schema.TABLES`).
Tables = Callable[[str], pl.LazyFrame]


def count_keys(tables: Tables) -> dict[str, int]:
    """Return by table the first key that its rows do not use.

    Args:
        tables: returns a table by its name.
    """
    out = {}
    for table, key in _COUNTED.items():
        last = tables(table).select(pl.col(key).max()).collect().item()
        out[table] = 0 if last is None else int(last) + 1
    return out


def move_table(rows: pl.LazyFrame, table: str, used: Mapping[str, int], shift_ns: int) -> pl.LazyFrame:
    """Return the rows of a table with their keys behind those that are used, and their times moved.

    Args:
        rows: rows of `table`.
        table: one of `schema.TABLES`.
        used: by table the first free key.
        shift_ns: added to points on the common clock.
    """
    columns = rows.collect_schema()
    return rows.select(_move(c, table, used, shift_ns).cast(dtype).alias(c) for c, dtype in columns.items())


def _move(column: str, table: str, used: Mapping[str, int], shift_ns: int) -> pl.Expr:
    if column in _NUMBERED_BY and column in schema.TABLES[table].schema:
        return pl.col(column).cast(pl.Int64) + used[_NUMBERED_BY[column]]
    if column in _EVENT_KEYS or column.endswith("_event"):
        return pl.col(column) + used["events"]
    if column == _OFFSET or (column in _POINTS and table not in _ON_SOURCE_CLOCK):
        return pl.col(column) + shift_ns
    return pl.col(column)
