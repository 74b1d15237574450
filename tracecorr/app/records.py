"""What an event hangs on: its raw record. Numbers of events are those of one reading, a record keeps its place."""

from __future__ import annotations

from typing import Any

import polars as pl

from tracecorr.app.index import CaptureIndex
from tracecorr.store.frames import SUFFIX

_TEXTS = ("layer", "name")


def name_record(index: CaptureIndex, event: int) -> dict[str, Any] | None:
    """Return file, offset, layer and name of an event, by which it is found again; None where it has no record."""
    rows = index.capture.table("events").filter(pl.col("event") == event)
    row = rows.select("file", "offset", *(pl.col(c).cast(pl.String) for c in _TEXTS)).collect().row(0, named=True)
    if row["file"] is None or row["offset"] is None:
        return None
    return row | {"file": _plain(index.capture.file_path(row["file"]))}


def find_record(index: CaptureIndex, file: str, offset: int, layer: str, name: str) -> int | None:
    """Return the event of a record that `name_record` named, maybe of another reading; None where there is none."""
    files = index.capture.table("files").select("file").collect()["file"]
    same = [number for number in files if _plain(index.capture.file_path(number)) == file]
    found = index.capture.table("events").filter(
        pl.col("file").is_in(pl.Series(same, dtype=pl.UInt16).implode()), pl.col("offset") == offset,
        pl.col("layer").cast(pl.String) == layer, pl.col("name").cast(pl.String) == name,
    )  # fmt: skip
    events = found.select("event").head(1).collect()["event"]
    return int(events[0]) if events.len() else None


def _plain(path: str) -> str:
    """Return the path of a file as it was before it was compressed at the end of its recording."""
    return path.removesuffix(SUFFIX)
