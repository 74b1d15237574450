"""Part events of HAND-MADE logs of one ring, a row a microsecond: what packet indexes are asked of."""

from __future__ import annotations

from typing import Any

import polars as pl

from tracecorr.model.kinds import BEGINNINGS
from tracecorr.model.schema import CAT

RING = 0x3C00000
_LINE: dict[str, Any] = {
    "layer": "aql", "flags": 0, "source": "amd_log", "clock": "mono", "process": 0, "thread": 0, "ring": None,
    "packet_index": None, "signal": None, "command": None, "end_stamp_ns": None, "end_offset": None,
    "parent_offset": None, "file": 0, "result": None, "ring_learned": False,
    "stream": None,
}  # fmt: skip
_TYPES = {
    "layer": CAT, "name": CAT, "source": CAT, "clock": CAT, "packet_index": pl.Int64, "ring": pl.UInt64,
    "signal": pl.UInt64, "end_stamp_ns": pl.Int64, "end_offset": pl.Int64, "parent_offset": pl.Int64,
    "flags": pl.UInt16, "stream": pl.UInt64,
}  # fmt: skip


def records(*rows: dict[str, Any]) -> pl.DataFrame:
    """Return part events, of which each is one microsecond behind the one before."""
    made = [{**_LINE, "stamp_ns": 1000 * n, "offset": 10 * n, **row} for n, row in enumerate(rows)]
    names = {str(row["name"]) for row in made}
    # A log that shows a queue being made shows the beginning of its process.
    if "queue_created" in names and not names & set(BEGINNINGS):
        made.append({**_LINE, "stamp_ns": 0, "offset": -1, "layer": "other", "name": BEGINNINGS[0]})
    return pl.DataFrame(made, schema_overrides=_TYPES)


def made() -> dict[str, Any]:
    """Return the Created line of the ring."""
    return {"name": "queue_created", "ring": RING}


def packet(thread: int = 0, index: int | None = None, name: str = "dispatch", **more: Any) -> dict[str, Any]:
    return {"name": name, "ring": RING, "thread": thread, "packet_index": index, **more}


def line(thread: int = 0, **more: Any) -> dict[str, Any]:
    """Return a line of a thread that is no packet."""
    return {"name": "InternalMarker", "layer": "command", "thread": thread, **more}


def store(thread: int, value: int) -> dict[str, Any]:
    return {"name": "doorbell", "layer": "doorbell", "source": "ftrace", "clock": "mono", "ring": RING,
            "packet_index": value, "thread": thread}  # fmt: skip


def counted(rows: pl.DataFrame) -> list[int | None]:
    """Return the indexes of the packets."""
    return rows.filter(pl.col("layer") == "aql", pl.col("name") != "queue_created")["packet_index"].to_list()
