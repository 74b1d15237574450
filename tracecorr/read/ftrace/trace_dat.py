"""Read a `trace.dat` of trace-cmd: the rows of its ring buffers, one after the other."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import polars as pl

from tracecorr.model import schema
from tracecorr.model.errors import InputError
from tracecorr.model.parts import Block
from tracecorr.read.ftrace.dat_format import Buffer, ReadAt, TraceDat
from tracecorr.read.ftrace.dat_read import plain_pages, read_description
from tracecorr.read.ftrace.formats import PageTrace
from tracecorr.read.ftrace.pages import PAGES_AT_A_TIME, read_ftrace_pages
from tracecorr.read.ftrace.text import read_ftrace_text

_TEXT_BYTES = 1 << 20


def read_trace_dat(
    read_at: ReadAt, size: int, file: int, clock: str = "unknown", *, pages_at_a_time: int = PAGES_AT_A_TIME
) -> Iterator[Block]:
    """Yield the blocks of an uncompressed `trace.dat`; records are at their byte of the file.

    Args:
        read_at: returns bytes of the file at an offset.
        size: bytes of the file.
        file: key of the file.
        clock: name of the trace clock, where the file does not say.
        pages_at_a_time: pages decoded at a time; bounds the memory.

    Raises:
        InputError: the file is no `trace.dat`, or compressed (importing it unpacks it).
    """
    dat = read_description(read_at, size)
    if dat.compression != "none":
        raise InputError("this trace.dat is compressed", "import it: the capture folder holds it unpacked")
    _drop_overlaps(dat)
    yield Block(ledger=_description_ledger(dat, size, file))
    for buffer in dat.buffers:
        trace = page_trace(dat, buffer, {data.cpu: plain_pages(read_at, data) for data in buffer.cpus})
        files = {data.cpu: file for data in buffer.cpus}
        yield from read_ftrace_pages(trace, files, buffer.clock or clock, pages_at_a_time=pages_at_a_time)
        yield Block(losses=_cut_off(buffer))
    if dat.text:
        start, length = dat.text
        chunks = (
            read_at(at, min(_TEXT_BYTES, start + length - at)) for at in range(start, start + length, _TEXT_BYTES)
        )
        yield from read_ftrace_text(chunks, file, dat.clock() or clock, first_byte=start)


def page_trace(dat: TraceDat, buffer: Buffer, pages: dict[int, Iterator[bytes]]) -> PageTrace:
    """Return one ring buffer as a recording of pages."""
    return PageTrace(
        pages=pages,
        formats=dat.events,
        header_page=dat.header_page,
        cmdlines=dat.cmdlines,
        stats=dat.stats(buffer.name),
        kallsyms=dat.kallsyms,
        printk=dat.printk,
        page_size=buffer.page_size,
        starts={data.cpu: data.offset for data in buffer.cpus},
        # A file that was cut names the pages that it lacks.
        is_told=False,
    )


def _drop_overlaps(dat: TraceDat) -> None:
    """Leave out the pages of a CPU that lie in those of another: no byte is read twice."""
    end = 0
    for data in sorted((data for buffer in dat.buffers for data in buffer.cpus), key=lambda d: d.offset):
        if data.present and data.offset < end:
            dat.problems.append(("overlapping_page_data", 0))
            for buffer in dat.buffers:
                buffer.cpus = [replace(d, present=0) if d is data else d for d in buffer.cpus]
        else:
            end = max(end, data.offset + data.present)


def _description_ledger(dat: TraceDat, size: int, file: int) -> pl.DataFrame:
    """Account for all bytes that are neither pages nor text."""
    pages = sum(data.present for buffer in dat.buffers for data in buffer.cpus)
    text = max(min(dat.text[1], size - dat.text[0]), 0) if dat.text else 0
    wasted = sum(count for _, count in dat.problems)
    rows = [("used", "", 0, size - pages - text - wasted)]
    rows += [("skipped", reason, 1, count) for reason, count in dat.problems]
    rows += [("lost", "file_cut_off", 1, 0) for buffer in dat.buffers for d in buffer.cpus if d.present < d.size]
    frame = pl.DataFrame(rows, schema=["outcome", "reason", "records", "bytes"], orient="row")
    return schema.LEDGER.conform(frame.with_columns(pl.lit(file).alias("file"), pl.lit("ftrace").alias("source")))


def _cut_off(buffer: Buffer) -> pl.DataFrame:
    """Return one open loss for each CPU whose pages the file announces but does not hold."""
    cpus = [data.cpu for data in buffer.cpus if data.present < data.size]
    return schema.LOSSES.conform(pl.DataFrame({"source": ["ftrace"] * len(cpus), "cpu": cpus}))
