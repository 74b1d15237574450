"""From the bytes of a rocprof file to rows: kernels and copies on the GPU, HIP and HSA calls, marks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial

import polars as pl

from tracecorr.model import schema
from tracecorr.model.parts import Block
from tracecorr.read.rocprof.records import Record, read_csv_records, read_json_records
from tracecorr.read.rocprof.repeated import RepeatedRecords, mark_repeated
from tracecorr.read.rocprof.sdk_json import ROOT, read_sdk_records

# rocprofiler stamps with CLOCK_BOOTTIME (the system clock of HSA).
CLOCK = "boot"
_HEADERS = (b"Start_Timestamp", b"BeginNs", b"TotalDurationNs", b"Counter_Value")
_ROWS_OF_BLOCK = 200_000


def looks_like_rocprof(head: bytes) -> bool:
    """Tell whether a file begins like a CSV table of rocprof, a JSON trace of rocprof v1 or the JSON of rocprofv3."""
    first = head.lstrip()[:4096]
    if first.startswith(b"{"):
        return b"traceEvents" in first or ROOT.encode() in first
    return any(name in first.split(b"\n", 1)[0] for name in _HEADERS)


def read_rocprof(chunks: Iterable[bytes], file: int, repeated: RepeatedRecords | None = None) -> Iterator[Block]:
    """Yield the rows of a rocprof file.

    Args:
        chunks: its bytes.
        file: key of `files`.
        repeated: what the other files of the capture hold, None where there is no other.

    Yields:
        Blocks; HIP and HSA calls have no thread, so that nothing of the log or the trace is put inside them by time.
    """
    data = b"".join(chunks)
    start = data.lstrip()[:4096]
    if not start.startswith(b"{"):
        read = read_csv_records
    elif b"traceEvents" in start:
        read = read_json_records
    else:
        read = read_sdk_records
    yield from make_blocks(partial(read, data), file, repeated)


def make_blocks(read: Callable[[], Iterable[Record]], file: int, repeated: RepeatedRecords | None) -> Iterator[Block]:
    """Yield blocks of the rows of records, each of which is booked; those that an earlier file holds are skipped.

    Args:
        read: reads the records of one file; called twice where there are other files.
        file: key of `files`.
        repeated: what the other files of the capture hold, None where there is no other.
    """
    known = frozenset() if repeated is None else repeated.find(read())
    batch: list[Record] = []
    for record in read():
        batch.append(mark_repeated(record, known))
        if len(batch) == _ROWS_OF_BLOCK:
            yield _make_block(batch, file)
            batch = []
    if batch:
        yield _make_block(batch, file)


def _make_block(records: list[Record], file: int) -> Block:
    used = [r for r in records if r.layer]
    return Block(events=_events(used, file), args=_args(used, file), ledger=_ledger(records, file))


def _events(records: list[Record], file: int) -> pl.DataFrame:
    rows = {
        "stamp_ns": [r.start_ns for r in records],
        "end_stamp_ns": [r.end_ns for r in records],
        "layer": [r.layer for r in records],
        "name": ["dispatch" if r.is_kernel else r.name for r in records],
        "kernel": [r.name if r.is_kernel else None for r in records],
        "pid": [r.pid for r in records],
        "size_bytes": [r.size_bytes for r in records],
        "offset": [r.offset for r in records],
        "length": [r.length for r in records],
    }
    wanted = {name: schema.PART_EVENTS.schema[name] for name in rows}
    frame = pl.DataFrame(rows, schema=wanted, strict=False)
    return schema.PART_EVENTS.conform(frame.with_columns(file=pl.lit(file, pl.UInt16), clock=pl.lit(CLOCK)))


def _args(records: list[Record], file: int) -> pl.DataFrame:
    told = [(r.offset, key, value) for r in records for key, value in r.args.items() if value is not None]
    rows = [(*row, None) if isinstance(row[2], int) else (*row[:2], None, row[2]) for row in told]
    types = {"offset": pl.Int64, "key": pl.String, "u64": pl.UInt64, "text": pl.String}
    frame = pl.DataFrame(rows, schema=types, orient="row")
    return schema.PART_ARGS.conform(frame.with_columns(file=pl.lit(file, pl.UInt16)))


def _ledger(records: list[Record], file: int) -> pl.DataFrame:
    rows = [("used" if r.layer else "skipped", r.reason, r.length) for r in records]
    frame = pl.DataFrame(rows, schema={"outcome": pl.String, "reason": pl.String, "bytes": pl.Int64}, orient="row")
    sums = frame.group_by("outcome", "reason", maintain_order=True).agg(
        pl.len().cast(pl.Int64).alias("records"), pl.col("bytes").sum()
    )
    return schema.LEDGER.conform(sums.with_columns(file=pl.lit(file, pl.UInt16), source=pl.lit("rocprof")))
