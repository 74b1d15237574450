"""Ring buffer pages tell the same as the text of the same recording."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
from ftrace_cases import CAPTURES, DATA, Whole, need_data, page_folder, read_text, whole
from hypothesis import given
from hypothesis import strategies as st

from tracecorr.read.ftrace.formats import PageTrace
from tracecorr.read.ftrace.pages import read_ftrace_pages

_RAW = [f for f in CAPTURES if (f / "raw").is_dir()]
_VM = [p.parent for p in sorted(DATA.glob("vm/*/ftrace/events.raw"))]
_SAME = [
    "layer",
    "name",
    "tid",
    "pid",
    "comm",
    "result",
    "arg",
    "fd",
    "cmd",
    "size_bytes",
    "packet_index",
    "ring",
    "depth",
    "flags",
]


def _vm_trace(folder: Path) -> PageTrace:
    raw = folder / "events.raw"
    names = list(raw.glob("*.format"))
    return PageTrace(
        pages={int(p.stem[3:]): p.read_bytes() for p in raw.glob("cpu*.bin")},
        formats={p.name.removesuffix(".format").replace(".", "/", 1): p.read_text() for p in names},
        header_page=(raw / "header_page").read_text(),
        cmdlines=(folder / "events.cmdlines").read_text(),
        tgids=(folder / "events.tgids").read_text(),
        probes=(folder / "kprobe_events").read_text(),
    )


def _read(trace: PageTrace, **options: int) -> Whole:
    return whole(read_ftrace_pages(trace, {cpu: cpu + 1 for cpu in trace.pages}, "mono", **options))


def _compare(text: Whole, pages: Whole, columns: list[str]) -> None:
    # The text is in time order; of two threads within one microsecond only the pages know the order.
    one = text.events.sort("tid", "offset")
    two = pages.events.sort("tid", "stamp_ns", maintain_order=True)
    assert one.height == two.height
    for column in columns:
        assert one[column].cast(pl.String).equals(two[column].cast(pl.String), null_equal=True), column
    for stamp in ("stamp_ns", "end_stamp_ns"):
        assert one[stamp].is_null().equals(two[stamp].is_null())
        assert (one[stamp] - two[stamp]).abs().max() <= 1000


@pytest.mark.parametrize("folder", need_data(_VM))
def test_probes_without_definitions_are_of_the_driver_that_names_their_group(folder: Path) -> None:
    pages = _read(replace(_vm_trace(folder), probes=""))
    layers = pages.events.filter(pl.col("layer").is_in(["kfd", "other"])).group_by("layer").len()
    text = read_text((folder / "events.trace.txt").read_bytes()).events
    assert dict(layers.rows()) == dict(
        text.filter(pl.col("layer").is_in(["kfd", "other"])).group_by("layer").len().rows()
    )


@pytest.mark.parametrize("folder", need_data(_RAW))
def test_capture_pages_like_text(folder: Path) -> None:
    trace = page_folder(folder / "raw")
    text, pages = read_text((folder / "ftrace.txt").read_bytes()), _read(trace)
    no_definitions = bool(text.names("kfd"))
    _compare(text, pages, [c for c in _SAME if c != "name"] if no_definitions else _SAME)
    assert sorted(text.args["key"].cast(pl.String)) == sorted(pages.args["key"].cast(pl.String))
    _closed(trace, pages)


@pytest.mark.parametrize("folder", need_data(_VM))
def test_vm_pages_like_text(folder: Path) -> None:
    trace = _vm_trace(folder)
    text, pages = read_text((folder / "events.trace.txt").read_bytes()), _read(trace)
    _compare(text, pages, [c for c in _SAME if c not in ("comm", "pid")])
    _closed(trace, pages)


def _closed(trace: PageTrace, pages: Whole) -> None:
    sizes = {cpu + 1: len(data) for cpu, data in trace.pages.items() if isinstance(data, bytes)}
    found = dict(pages.ledger.group_by("file").agg(pl.col("bytes").sum()).iter_rows())
    assert found == sizes


@given(
    data=st.binary(max_size=200), commit=st.integers(0, 1 << 33), repeat=st.integers(1, 45), cut=st.integers(0, 5000)
)
def test_any_page_is_read_and_accounted_for(data: bytes, commit: int, repeat: int, cut: int) -> None:
    page = (bytes(8) + commit.to_bytes(8, "little") + data * repeat)[:4096].ljust(4096, b"\x05")
    whole_file = (page * 2)[: 2 * 4096 - cut]
    formats = {
        "syscalls/sys_exit_ioctl": "name: x\nID: 5\nformat:\n\tfield:long ret;\toffset:16;\tsize:8;\tsigned:1;\n"
    }
    trace = PageTrace(pages={0: [whole_file[:100], whole_file[100:]]}, formats=formats)
    assert _read(trace).ledger["bytes"].sum() == len(whole_file)


_SMALL = page_folder(Path(__file__).parent / "forms" / "raw_syscalls" / "raw")


def _table(trace: PageTrace, **options: int) -> tuple[pl.DataFrame, pl.DataFrame]:
    read = _read(trace, **options)
    categories = [pl.col(c).cast(pl.String) for c, t in read.events.schema.items() if t == pl.Categorical]
    args = read.args.with_columns(pl.col("key").cast(pl.String)).sort("file", "offset", "key")
    return read.events.with_columns(categories).sort("file", "offset"), args


@pytest.mark.parametrize(("length", "at_a_time"), [(100, 1), (4097, 2), (9000, 12)])
def test_any_cut_gives_the_same_table(length: int, at_a_time: int) -> None:
    pages = {}
    for cpu, data in _SMALL.pages.items():
        assert isinstance(data, bytes)
        pages[cpu] = [data[at : at + length] for at in range(0, len(data), length)]
    (one, args), (two, more) = _table(_SMALL), _table(replace(_SMALL, pages=pages), pages_at_a_time=at_a_time)
    assert one.equals(two) and args.equals(more)


@given(
    changes=st.lists(st.tuples(st.integers(0, 1), st.integers(0, 9000), st.binary(min_size=1, max_size=9)), max_size=9),
    cut=st.integers(0, 5000),
    at_a_time=st.integers(1, 4),
)
def test_damaged_pages_are_accounted_for(changes: list[tuple[int, int, bytes]], cut: int, at_a_time: int) -> None:
    pages = {cpu: bytearray(data) for cpu, data in _SMALL.pages.items() if isinstance(data, bytes)}
    for cpu, at, replaced in changes:
        pages[cpu][at : at + len(replaced)] = replaced
    damaged = {cpu: bytes(data[: len(data) - cut * cpu]) for cpu, data in pages.items()}
    result = _read(replace(_SMALL, pages=damaged), pages_at_a_time=at_a_time)
    found = dict(result.ledger.group_by("file").agg(pl.col("bytes").sum()).iter_rows())
    assert all(found.get(cpu + 1, 0) == len(data) for cpu, data in damaged.items())


_CALLS = page_folder(Path(__file__).parent / "forms" / "syscalls" / "raw")
_FIELD = re.compile(r"field:[^;]*?(\w+)(?:\[\w*\])?;\toffset:(\d+);\tsize:\d+;")
_DAMAGED = (
    "", "field:int x;\toffset:{at};\tsize:8;", "field:char {name}[9];\toffset:{at};\tsize:9;",
    "field:__data_loc char[] {name};\toffset:{at};\tsize:4;", "field:long {name};\toffset:{at};\tsize:3;",
    "field:long {name}[];\toffset:4000;\tsize:8;",
)  # fmt: skip


@given(
    changes=st.lists(
        st.tuples(st.sampled_from(sorted(_CALLS.formats)), st.integers(0, 20), st.sampled_from(_DAMAGED)), min_size=1
    ),
)
def test_damaged_formats_lose_no_byte(changes: list[tuple[str, int, str]]) -> None:
    formats = dict(_CALLS.formats)
    for path, number, damaged in changes:
        fields = list(_FIELD.finditer(formats[path]))
        if not fields:
            continue
        found = fields[number % len(fields)]
        text = damaged.format(name=found[1], at=found[2])
        formats[path] = formats[path][: found.start()] + text + formats[path][found.end() :]
    trace = replace(_CALLS, formats=formats)
    _closed(trace, _read(trace))


def _lossy_page(stamp: int, flags: int = 0, lost: int = 0) -> bytes:
    record = (2 | 10 << 5).to_bytes(4, "little") + bytes(8)
    commit = (len(record) | flags).to_bytes(8, "little")
    return (stamp.to_bytes(8, "little") + commit + record + lost.to_bytes(8, "little")).ljust(4096, b"\0")


_PLAIN = {"a/b": "name: b\nID: 0\nformat:\n\tfield:int x;\toffset:4;\tsize:4;\tsigned:1;\n"}


def test_losses_of_pages_and_counters() -> None:
    lost = _lossy_page(900, 3 << 30, 77)
    stats = {"cpu1": {"overrun": "5", "dropped events": "2"}}
    trace = PageTrace(pages={0: _lossy_page(100) + lost, 1: _lossy_page(50)}, formats=_PLAIN, stats=stats)
    result = _read(trace)
    rows = [tuple(r) for r in result.losses.select("cpu", "from_ns", "to_ns", "count").sort("cpu", "count").rows()]
    assert rows == [(0, 110, 900, 77), (1, 60, None, 2), (1, None, 60, 5)]
    assert result.events["stamp_ns"].to_list() == [60, 110, 910]
    _closed(trace, result)
