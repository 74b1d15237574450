"""Marks and notes of a capture (`views/notes.json`): each hangs on a raw record, so it survives a rebuild."""

from __future__ import annotations

import json
from typing import Any

import polars as pl

from tracecorr.app.index import CaptureIndex
from tracecorr.app.live import LIVE
from tracecorr.store.raw import write_atomically

_MAX_NOTES, _MAX_TEXT = 500, 2000
_FILE = "views/notes.json"
_FAR = 1 << 62
_NUMBERS = ("offset", "delta_ns", "dur_ns")


def read_notes(index: CaptureIndex) -> list[dict[str, Any]]:
    """Return the notes: `text`, `dur`, and `start` in ns since the capture start, null when its record is gone."""
    notes = _load(index)
    times = _times_of(index, {n["offset"] for n in notes})
    out = []
    for note in notes:
        at = times.get((note["file"], note["offset"]))
        start = None if at is None else at + note["delta_ns"] - index.t0_ns
        out.append({"text": note["text"], "dur": note["dur_ns"], "start": start})
    return out


def save_notes(index: CaptureIndex, notes: object) -> None:
    """Replace the notes of a capture.

    Args:
        notes: list of `text`, `start` (ns since the capture start) and `dur` (ns).

    Raises:
        ValueError: these are no notes.
        OSError: the capture cannot be written.
    """
    if not isinstance(notes, list) or len(notes) > _MAX_NOTES:
        raise ValueError(f"notes must be a list of at most {_MAX_NOTES}")
    if index.capture.info.get("state") == LIVE:
        raise OSError("it is still being recorded")
    rows = [_anchored(index, note) for note in notes]
    path = index.capture.path / _FILE
    if not index.capture.path.is_dir():
        raise OSError("there is no folder to keep notes in")
    if not path.parent.resolve().is_relative_to(index.capture.path.resolve()):
        raise OSError("the folder views of this capture lies outside of it")
    write_atomically(path, json.dumps(rows, indent=1).encode())


def _load(index: CaptureIndex) -> list[dict[str, Any]]:
    try:
        rows = json.loads((index.capture.path / _FILE).read_text())
        return [row for row in rows if isinstance(row, dict) and _is_whole(row)]
    except (OSError, ValueError, TypeError):
        return []


def _is_whole(row: dict[str, Any]) -> bool:
    texts, numbers = [row.get(key) for key in ("file", "text")], [row.get(key) for key in _NUMBERS]
    # A column of whole numbers has 64 bits.
    fits = (isinstance(number, int) and abs(number) < 1 << 63 for number in numbers)
    return all(isinstance(text, str) for text in texts) and all(fits)


def _anchored(index: CaptureIndex, note: object) -> dict[str, Any]:
    if not isinstance(note, dict):
        raise ValueError("a note has text, start and dur")
    text, start, dur = note.get("text"), note.get("start"), note.get("dur")
    if not isinstance(text, str) or len(text) > _MAX_TEXT:
        raise ValueError(f"the text of a note has at most {_MAX_TEXT} characters")
    if not isinstance(start, int) or not isinstance(dur, int) or abs(start) > _FAR or not 0 <= dur <= _FAR:
        raise ValueError("start and dur of a note are whole ns")
    at = index.t0_ns + start
    events = index.capture.table("events").filter(pl.col("file").is_not_null(), pl.col("offset").is_not_null())
    columns = ("file", "offset", "ts_ns")
    near = events.filter(pl.col("ts_ns") >= at).select(columns).head(1).collect()
    if near.is_empty():
        near = events.select(columns).last().collect()
    if near.is_empty():
        raise ValueError("this capture has no record that a note could be attached to")
    file, offset, ts = near.row(0)
    path = index.capture.file_path(file)
    return {"file": path, "offset": offset, "delta_ns": at - ts, "dur_ns": dur, "text": text}


def _times_of(index: CaptureIndex, offsets: set[int]) -> dict[tuple[str, int], int]:
    """Return the times of the events at some offsets, by path and offset of their records."""
    if not offsets:
        return {}
    files = dict(index.capture.table("files").select("file", "path").collect().iter_rows())
    wanted = pl.Series(sorted(offsets), dtype=pl.Int64).implode()
    found = index.capture.table("events").filter(pl.col("offset").is_in(wanted)).select("file", "offset", "ts_ns")
    return {(files.get(file, ""), offset): ts for file, offset, ts in found.collect().iter_rows()}
