"""Read a binary recording: pages of every CPU, merged by time, then paired like text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import numpy as np
import polars as pl

from tracecorr.model import schema
from tracecorr.model.parts import Block
from tracecorr.parse.ftrace import halves as hv
from tracecorr.parse.ftrace.formats import PageTrace, page_layout, parse_formats, probed_functions, saved_names
from tracecorr.parse.ftrace.pairing import Pairer
from tracecorr.parse.ftrace.payloads import Payloads
from tracecorr.parse.ftrace.ring import Records, decode_pages

PAGES_AT_A_TIME = 512


def read_ftrace_pages(
    trace: PageTrace, files: Mapping[int, int], clock: str = "unknown", *, pages_at_a_time: int = PAGES_AT_A_TIME
) -> Iterator[Block]:
    """Yield the blocks of a binary recording: the rows of the text reader with exact nanoseconds.

    A call that entered on one CPU and left on another has its `end_stamp_ns` but no `end_offset`:
    the exit record lies in another file.

    Args:
        trace: pages, formats and names.
        files: key of the file of each CPU in `trace.pages`.
        clock: name of the trace clock, for the column `clock`.
        pages_at_a_time: pages decoded at a time and per CPU; bounds the memory.
    """
    reader = _PageReader(trace, clock)
    cpus = [_Cpu(cpu, files[cpu], pages, trace, pages_at_a_time) for cpu, pages in sorted(trace.pages.items())]
    while behind := [c for c in cpus if not c.done]:
        # Only what is not later than the slowest CPU can be in its final order.
        slowest = min(behind, key=lambda c: c.last_stamp if c.last_stamp is not None else -(1 << 62))
        batch, ledger, losses = reader.read(slowest)
        marks = [c.last_stamp for c in cpus if not c.done]
        until = None if not marks else min((m for m in marks if m is not None), default=-1)
        until = -1 if None in marks else until
        events, args = reader.release(batch, until)
        yield Block(events=events, args=args, ledger=ledger, losses=losses)
    yield Block(events=reader.pairer.finish(), losses=_stats_losses(trace, cpus))


class _Cpu:
    """Hand out whole pages of one CPU from chunks cut anywhere."""

    def __init__(self, cpu: int, file: int, pages: bytes | Iterable[bytes], trace: PageTrace, at_a_time: int) -> None:
        self.cpu, self.file = cpu, file
        self.header, self.page_size = page_layout(trace.header_page)
        self._chunks = iter([pages] if isinstance(pages, bytes | bytearray | memoryview) else pages)
        self._buffer = bytearray()
        self._want = at_a_time * self.page_size
        self.offset = 0
        self.last_stamp: int | None = None
        self.first_stamp: int | None = None
        self.gaps = 0
        self.done = False

    def take(self) -> bytes:
        """Return the next bytes: whole pages, except that the end may be a torn one."""
        while len(self._buffer) < self._want:
            chunk = next(self._chunks, None)
            if chunk is None:
                self.done = True
                break
            self._buffer += chunk
        block = bytes(self._buffer[: self._want])
        del self._buffer[: len(block)]
        if self._buffer:
            self.done = False
        return block


class _PageReader:
    def __init__(self, trace: PageTrace, clock: str) -> None:
        functions = probed_functions(trace.probes)
        self._payloads = Payloads(parse_formats(trace.formats), functions, trace.symbols)
        self._comms = {0: "<idle>", **saved_names(trace.cmdlines)}
        self._tgids = {tid: int(tgid) for tid, tgid in saved_names(trace.tgids).items() if tgid.strip().isdigit()}
        self.pairer = Pairer(clock)
        self._held = hv.HALF.to_frame()
        self._held_args: list[pl.DataFrame] = []
        self._seq = 0

    def read(self, cpu: _Cpu) -> tuple[hv.Batch, pl.DataFrame, pl.DataFrame]:
        """Decode the next pages of `cpu`; return (halves, ledger, losses)."""
        block = cpu.take()
        torn = len(block) % cpu.page_size
        records = decode_pages(block[: len(block) - torn], cpu.header, cpu.page_size, cpu.last_stamp)
        batch = hv.Batch()
        unknown = self._payloads.add(batch, records, self._base(records, cpu))
        cpu.offset += len(block)
        if len(records.stamp):
            cpu.last_stamp = int(records.stamp.max())
            cpu.first_stamp = int(records.stamp.min()) if cpu.first_stamp is None else cpu.first_stamp
        cpu.gaps += len(records.missed)
        ledger = _ledger(cpu.file, len(block), torn, records, unknown)
        return batch, ledger, _gap_losses(cpu.cpu, records)

    def _base(self, records: Records, cpu: _Cpu) -> pl.DataFrame:
        tid = records.ints(np.arange(len(records.data)), 4, 4, signed=True)
        frame = pl.DataFrame(
            {
                "offset": records.offset + cpu.offset,
                "length": records.size,
                "stamp_ns": records.stamp,
                "tid": tid,
            }
        )
        tids = frame["tid"].unique().to_list()
        names = pl.DataFrame(
            {
                "tid": tids,
                "comm": [self._comms.get(t, "<...>") for t in tids],
                "pid": [self._tgids.get(t) for t in tids],
            },
            schema={"tid": pl.UInt64, "comm": pl.String, "pid": pl.UInt32},
        )
        frame = frame.join(names, on="tid", how="left", maintain_order="left")
        return frame.with_columns(
            pl.lit(0).alias("seq"), pl.lit(cpu.file).alias("file"), pl.lit(cpu.cpu, pl.UInt16).alias("cpu")
        )

    def release(self, batch: hv.Batch, until: int | None) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Pair everything up to the stamp `until` (None: everything) in time order; hold the rest back."""
        halves = pl.concat([self._held, *batch.halves]).sort("stamp_ns", "cpu", "offset")
        late = pl.col("stamp_ns") > until if until is not None else pl.lit(value=False)
        self._held, ready = halves.filter(late), halves.filter(~late)
        ready = ready.with_columns(pl.int_range(pl.len(), dtype=pl.Int64).alias("seq") + self._seq)
        self._seq += ready.height
        exits = [a.with_columns(pl.col("file").cast(pl.UInt16)) for a in (*self._held_args, *batch.exit_args)]
        now = [a.join(ready, on=["file", "offset"], how="semi") for a in exits]
        self._held_args = [a.join(self._held, on=["file", "offset"], how="semi") for a in exits if self._held.height]
        return self.pairer.feed(hv.Batch([ready], batch.args, [a for a in now if a.height]))


def _ledger(file: int, size: int, torn: int, records: Records, unknown: tuple[int, int]) -> pl.DataFrame:
    skipped = [
        ("torn_page", 1 if torn else 0, torn),
        ("unknown_event_id", *unknown),
        ("broken_page_data", 1 if records.broken else 0, records.broken),
    ]
    used = size - sum(s[2] for s in skipped)
    rows = [("used", "", len(records.data) - unknown[0], used), *(("skipped", *s) for s in skipped if s[1])]
    lost = sum(max(count, 1) for count, _, _ in records.missed)
    if lost:
        rows.append(("lost", "ring_buffer_overrun", lost, 0))
    frame = pl.DataFrame(rows, schema=["outcome", "reason", "records", "bytes"], orient="row")
    return schema.LEDGER.conform(frame.with_columns(pl.lit(file).alias("file"), pl.lit("ftrace").alias("source")))


def _losses(rows: list[tuple[int, int | None, int | None, int | None]]) -> pl.DataFrame:
    columns = {"cpu": pl.UInt16, "from_ns": pl.Int64, "to_ns": pl.Int64, "count": pl.Int64}
    frame = pl.DataFrame(rows, schema=columns, orient="row")
    return schema.LOSSES.conform(frame.with_columns(pl.lit("ftrace").alias("source")))


def _gap_losses(cpu: int, records: Records) -> pl.DataFrame:
    return _losses([(cpu, before, after, count if count >= 0 else None) for count, before, after in records.missed])


def _stats_losses(trace: PageTrace, cpus: list[_Cpu]) -> pl.DataFrame:
    """Return what the counters tell and no page did: overwritten ones came first, dropped ones last."""
    rows: list[tuple[int, int | None, int | None, int | None]] = []
    for cpu in cpus:
        stats = trace.stats.get(f"cpu{cpu.cpu}", {})
        overrun, dropped = (int(stats.get(k, "0")) for k in ("overrun", "dropped events"))
        if overrun and not cpu.gaps:
            rows.append((cpu.cpu, None, cpu.first_stamp, overrun))
        if dropped and not cpu.gaps:
            rows.append((cpu.cpu, cpu.last_stamp, None, dropped))
    return _losses(rows)
