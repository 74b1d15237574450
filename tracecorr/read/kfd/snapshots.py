"""Dumps as snapshots of a capture: their rows, and one event per queue when the time of the read is known."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import polars as pl

from tracecorr.model import schema
from tracecorr.model.parts import Block
from tracecorr.read.kfd.dumps import read_dumps

_NAMES = {"hqds": "hqd_active", "mqds": "mqd_described", "rls": "runlist_entry"}


def read_snapshots(
    chunks: Iterable[bytes],
    file: int,
    numbers: Iterator[int],
    read_start_ns: int | None = None,
    read_end_ns: int | None = None,
) -> Iterator[Block]:
    """Yield a block for each dump of a file.

    Args:
        chunks: its decompressed bytes.
        file: key of the file.
        numbers: numbers of the dumps in the capture; as many are taken as the file holds.
        read_start_ns, read_end_ns: CLOCK_MONOTONIC before and after it was read; None = not recorded: then its dumps
            have rows, but no events.
    """
    for dump in read_dumps(b"".join(chunks), file):
        rows = dump.rows.with_columns(
            pl.lit(next(numbers), pl.UInt32).alias("snapshot"),
            pl.lit(read_start_ns, pl.Int64).alias("read_start_ns"),
            pl.lit(read_end_ns, pl.Int64).alias("read_end_ns"),
        )
        yield Block(events=_events(rows), hqd=rows, ledger=dump.ledger)


def _events(rows: pl.DataFrame) -> pl.DataFrame:
    """Return one event per logical queue; the registers were read somewhere in its span."""
    queues = rows.drop_nulls(["logical", "read_start_ns"]).unique("logical", keep="first", maintain_order=True)
    # Runlist entries of one node share their heading: one event cannot have the bytes of another.
    queues = queues.unique("offset", keep="first", maintain_order=True)
    return schema.PART_EVENTS.conform(
        queues.select(
            "file", "offset", stamp_ns="read_start_ns", end_stamp_ns="read_end_ns", clock=pl.lit("mono"),
            layer=pl.lit("hqd"), name=pl.col("dump").cast(pl.String).replace_strict(_NAMES, return_dtype=pl.String),
            pid="pid", ring="pq_base", flags=pl.lit(0),
        )
    )  # fmt: skip
