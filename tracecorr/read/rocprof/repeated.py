"""Records that several files of rocprof hold: one run in two formats, or a trace beside tables of its own."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

import polars as pl

from tracecorr.read.rocprof.records import Record

# Why records are skipped that an earlier file holds.
REPEATED = "in another file of rocprof, too"

Key = tuple[str, int | None, int | None]
_KEY = {"layer": pl.String, "start_ns": pl.Int64, "end_ns": pl.Int64}
_ROWS_OF_BATCH = 200_000


class RepeatedRecords:
    """Find what earlier files of a capture hold, by layer, start and end in nanoseconds.

    Single times may agree by chance: records of a layer are the same only where half of those of one file are in the
    other.
    """

    def __init__(self) -> None:
        self._files: list[pl.DataFrame] = []

    def find(self, records: Iterable[Record]) -> frozenset[Key]:
        """Return the keys of those of a file's records that an earlier file holds, and remember all of them."""
        rows = _list_keys(records)
        found: set[Key] = set()
        for earlier in self._files:
            counts = [frame.group_by("layer").len() for frame in (rows, earlier)]
            same = rows.join(earlier, on=list(_KEY), how="semi")
            shares = same.group_by("layer").agg(same=pl.len()).join(counts[0], on="layer")
            shares = shares.join(counts[1], on="layer", suffix="_earlier")
            sure = shares.filter(2 * pl.col("same") >= pl.min_horizontal("len", "len_earlier"))
            found.update(same.join(sure, on="layer", how="semi").iter_rows())
        self._files.append(rows)
        return frozenset(found)


def mark_repeated(record: Record, known: frozenset[Key]) -> Record:
    """Return a record as one that is skipped where `known` holds its key."""
    if not record.layer or (record.layer, record.start_ns, record.end_ns) not in known:
        return record
    return Record(record.offset, record.length, record.fields, reason=REPEATED, lane=record.lane)


def _list_keys(records: Iterable[Record]) -> pl.DataFrame:
    """Return layer, start_ns and end_ns of the records that have a layer, each once."""
    keys = ((r.layer, r.start_ns, r.end_ns) for r in records if r.layer)
    frames = [pl.DataFrame(schema=_KEY)]
    while batch := list(islice(keys, _ROWS_OF_BATCH)):
        frames.append(pl.DataFrame(batch, schema=_KEY, orient="row"))
    return pl.concat(frames).unique()
