"""Records of perf come back from the pages as they went in: payload, time, and what was lost."""

from __future__ import annotations

import io
import struct
from itertools import accumulate
from pathlib import Path

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from tracecorr.capture.perf_pages import HEADER_PAGE, PAGE_BYTES, PagePacker, ProbePages
from tracecorr.parse.ftrace import PageTrace, read_ftrace_pages
from tracecorr.parse.ftrace.formats import page_layout

FORMAT = """name: doorbell
ID: 77
format:
\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;
\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;
\tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;
\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;

\tfield:u64 val;\toffset:8;\tsize:8;\tsigned:0;
"""


def sample(time_ns: int, value: int, more: int = 0) -> bytes:
    """Return a perf sample whose trace record holds `value`, with `more` bytes behind it."""
    raw = struct.pack("<HBBiQ", 77, 0, 0, 4000, value) + bytes(more)
    raw += bytes(-(len(raw) + 4) % 8)
    body = struct.pack("<IIQIII", 4000, 4000, time_ns, 0, 0, len(raw)) + raw
    return struct.pack("<IHH", 9, 0, 8 + len(body)) + body


class Kept(io.BytesIO):
    """A file whose bytes outlive its close."""

    def close(self) -> None:
        self.kept = self.getvalue()


def pack(*records: bytes) -> tuple[bytes, PagePacker]:
    out = Kept()
    packer = PagePacker(out, {})
    for record in records:
        packer.write(record)
    packer.close()
    return out.kept, packer


def pack_known(*records: bytes) -> bytes:
    out = Kept()
    pages = ProbePages(lambda _: out)
    pages.learn("tracecorr_1/doorbell", FORMAT)
    with pages.open_new("perf-cpu3.bin") as file:
        file.write(b"".join(records))
    assert pages.stats()["cpu3"]["read events"] == str(len(records))
    return out.kept


def read(pages: bytes) -> tuple[list[tuple[int, int]], list[int | None]]:
    """Return (time, value) of the records, and the numbers of lost ones."""
    trace = PageTrace(pages={0: pages}, formats={"tracecorr_1/doorbell": FORMAT}, header_page=HEADER_PAGE)
    found, lost = [], []
    for block in read_ftrace_pages(trace, {0: 0}, "mono"):
        values = block.args.filter(block.args["key"].cast(pl.String) == "val").select("offset", "u64")
        found += (
            block.events.join(values, on="offset", how="left", maintain_order="left").select("stamp_ns", "u64").rows()
        )
        lost += block.losses["count"].to_list()
    return found, lost


def test_the_layout_is_that_of_the_kernel(data_folder: Path) -> None:
    kernels = (data_folder / "captures/caseA-1stream/raw/header_page").read_text()
    assert page_layout(HEADER_PAGE) == page_layout(kernels) == (16, PAGE_BYTES)


@given(st.lists(st.integers(0, 1 << 40), min_size=1, max_size=300))
def test_times_and_values_survive(steps: list[int]) -> None:
    times = list(accumulate(steps))
    pages = pack_known(*(sample(time, number) for number, time in enumerate(times)))
    assert len(pages) % PAGE_BYTES == 0
    assert read(pages) == ([(time, number) for number, time in enumerate(times)], [])


@given(st.lists(st.integers(0, 4000), min_size=1, max_size=30))
def test_records_of_any_length_are_packed(sizes: list[int]) -> None:
    pages, packer = pack(*(sample(1000 + n, n, size) for n, size in enumerate(sizes)))
    assert packer.samples == len(sizes)
    lengths = [int.from_bytes(pages[at + 8 : at + 12], "little") for at in range(0, len(pages), PAGE_BYTES)]
    assert all(0 < length <= PAGE_BYTES - 16 for length in lengths)


def test_an_earlier_time_is_kept() -> None:
    pages = pack_known(sample(1000, 1), sample(900, 2), sample(2000, 3))
    assert sorted(read(pages)[0]) == [(900, 2), (1000, 1), (2000, 3)]


def test_lost_records_are_counted_where_they_are_missing() -> None:
    lost = struct.pack("<IHHQQ", 2, 0, 24, 5, 12)
    pages, packer = pack(sample(1000, 1), lost, sample(5000, 2))
    assert packer.lost == 12
    assert len(pages) == 2 * PAGE_BYTES
    assert read(pages)[1] == [12]
