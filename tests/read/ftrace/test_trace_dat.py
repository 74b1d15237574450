"""`trace.dat` in both versions, plain and compressed, whole and damaged."""

from __future__ import annotations

import gzip
import io
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from dat_cases import PACK, description, packed, plain, unpacked, version6
from ftrace_cases import DATA, Whole, need_data, page_folder, read_text, whole
from hypothesis import given
from hypothesis import strategies as st

from tracecorr.model.errors import InputError
from tracecorr.pipeline import correlate, import_files
from tracecorr.read.ftrace.formats import PageTrace
from tracecorr.read.ftrace.pages import read_ftrace_pages
from tracecorr.read.ftrace.trace_dat import Buffer, Option, looks_like_trace_dat, read_description, read_trace_dat
from tracecorr.store import Capture
from tracecorr.store.trace_dat import BufferPages, write_trace_dat

TRACE = page_folder(Path(__file__).parent / "forms" / "syscalls" / "raw")
_COLUMNS = ["layer", "name", "tid", "comm", "cpu", "stamp_ns", "end_stamp_ns", "result", "arg", "fd", "cmd", "depth"]


def _read(data: bytes, **options: Any) -> Whole:
    return whole(read_trace_dat(lambda at, size: data[at : at + size], len(data), 3, **options))


def _rows(trace: Whole) -> list[tuple[Any, ...]]:
    return sorted(trace.events.select(pl.col(c).cast(pl.String) for c in _COLUMNS).rows(), key=repr)


@pytest.fixture(scope="module")
def rows() -> list[tuple[Any, ...]]:
    assert all(isinstance(pages, bytes) for pages in TRACE.pages.values())
    return _rows(whole(read_ftrace_pages(TRACE, {0: 1, 1: 2}, "mono")))


def test_a_file_tells_what_its_pages_tell(rows: list[tuple[Any, ...]]) -> None:
    for data in (plain(TRACE), version6(TRACE)):
        trace = _read(data)
        assert looks_like_trace_dat(data[:64]) and _rows(trace) == rows
        assert trace.ledger["outcome"].unique().to_list() == ["used"] and trace.ledger["bytes"].sum() == len(data)
        assert trace.events["clock"].unique().to_list() == ["mono"]
        _offsets_are_those_of_the_file(trace, data)


def _offsets_are_those_of_the_file(trace: Whole, data: bytes) -> None:
    """The thread of every record stands 8 bytes behind the start of its header."""
    for offset, tid in trace.events.select("offset", "tid").iter_rows():
        assert int.from_bytes(data[offset + 8 : offset + 12], "little") == tid


@pytest.mark.parametrize("how", PACK)
def test_compressed_files_are_unpacked(tmp_path: Path, how: str, rows: list[tuple[Any, ...]]) -> None:
    data = packed(TRACE, how)
    with pytest.raises(InputError, match="compressed"):
        _read(data)
    assert _rows(_read(unpacked(tmp_path, data))) == rows
    assert [path.name for path in tmp_path.iterdir()] == ["trace.dat"]


@pytest.mark.parametrize("how", PACK)
def test_damage_in_a_packed_description_is_a_problem_of_the_file(how: str) -> None:
    data, problems = packed(TRACE, how), set()
    for at in range(0, len(data), 16):
        changed = data[:at] + bytes(8) + data[at + 8 :]
        with suppress(InputError):
            problems |= set(read_description(lambda at, count, of=changed: of[at : at + count], len(data)).problems)
    assert ("damaged_section", 0) in problems


def test_a_file_with_two_buffers_gives_the_rows_of_both(rows: list[tuple[Any, ...]]) -> None:
    for data in (plain(TRACE, "second"), version6(TRACE, "second")):
        trace = _read(data)
        assert _rows(trace) == sorted(rows * 2, key=repr)
        assert trace.ledger["bytes"].sum() == len(data)
        assert trace.events["offset"].n_unique() == trace.events.height


def test_what_an_instance_lost_is_not_lost_by_the_top_buffer() -> None:
    """The counters of an instance stand behind its name; they are no losses of the buffer before it."""
    dat = description(TRACE)
    told = [b"CPU: 0\noverrun: 0\n\0", b"\nBuffer: one\n\n\0", b"CPU: 0\noverrun: 7\n\0", b"CPU: 1\noverrun: 0\n\0"]
    dat.options += [(int(Option.CPUSTAT), counters) for counters in told]
    pages = {cpu: [data] for cpu, data in TRACE.pages.items() if isinstance(data, bytes)}
    out = io.BytesIO()
    write_trace_dat(out, dat, [BufferPages(Buffer(name, "mono", 4096), pages) for name in ("", "one")])
    lost = list(read_trace_dat(lambda at, size: out.getvalue()[at : at + size], len(out.getvalue()), 3))
    losses = [block.losses.select("cpu", "from_ns", "count").rows() for block in lost if block.losses.height]
    assert losses == [[(0, None, 7)]]
    top = next(i for i, block in enumerate(lost) if block.events.height)
    assert not any(block.losses.height for block in lost[: top + 2])


def _clocks(data: bytes) -> list[tuple[str, str]]:
    return [(b.name, b.clock) for b in read_description(lambda at, size: data[at : at + size], len(data)).buffers]


@pytest.mark.parametrize(
    ("names", "clocks"),
    [
        (["one"], [("one", "mono")]),
        (["one", "two"], [("one", "mono"), ("two", "")]),
        (["", "one"], [("", "mono"), ("one", "local")]),
    ],
)
def test_the_clock_beside_an_instance_is_that_of_the_top_buffer(
    names: list[str], clocks: list[tuple[str, str]]
) -> None:
    """trace-cmd notes `local` beside instances while the option names the clock of the first one that it recorded."""
    out = io.BytesIO()
    pages = {cpu: [data] for cpu, data in TRACE.pages.items() if isinstance(data, bytes)}
    top = [BufferPages(Buffer("", "local", 4096), {})] if "" not in names else []
    write_trace_dat(out, description(TRACE), [*top, *(BufferPages(Buffer(n, "local", 4096), pages) for n in names)])
    assert [clock for clock in _clocks(out.getvalue()) if clock != ("", "local")] == clocks
    found = _read(out.getvalue(), clock="unknown").events["clock"].cast(pl.String).unique(maintain_order=True)
    assert found.to_list() == [clock or "unknown" for _, clock in clocks]


@pytest.mark.parametrize("kernel", need_data(sorted(DATA.glob("vm/*/ftrace/tc.dat.gz"))))
def test_recorded_files_agree_with_the_report_of_trace_cmd(tmp_path: Path, kernel: Path) -> None:
    data = unpacked(tmp_path, gzip.decompress(kernel.read_bytes()))
    trace, report = _read(data), read_text((kernel.parent / "tc.report.txt").read_bytes())
    assert trace.ledger["outcome"].unique().to_list() == report.ledger["outcome"].unique().to_list() == ["used"]
    assert trace.ledger["bytes"].sum() == len(data)
    assert trace.ledger["records"].sum() == report.ledger["records"].sum()
    one, two = trace.events.sort("tid", "stamp_ns", maintain_order=True), report.events.sort("tid", "offset")
    for column in ("layer", "name", "tid", "comm", "cpu", "result", "arg", "fd", "cmd", "depth", "flags"):
        assert one[column].cast(pl.String).equals(two[column].cast(pl.String), null_equal=True), column
    assert (one["stamp_ns"] - two["stamp_ns"]).abs().max() <= 500
    names = trace.names("kfd")
    assert (names["kfd_ioctl"], names["kfd_ioctl_create_queue"], names["kfd_open"]) == (24, 3, 1)
    assert trace.names("amdgpu")["amdgpu_pasid_allocated"] == 1


def test_wrong_mark_of_the_byte_order(rows: list[tuple[Any, ...]]) -> None:
    data = bytearray(plain(TRACE))
    data[12] = 1
    trace = _read(bytes(data))
    assert _rows(trace) == rows
    assert trace.ledger.filter(pl.col("outcome") == "skipped")["reason"].to_list() == ["wrong_endianness_mark"]
    assert trace.ledger["bytes"].sum() == len(data)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({0: b"\x18"}, "no trace.dat"), ({10: b"5"}, "version '5'"), ({14: b"\0\0\x10\0"}, "big-endian"),
        ({14: b"\3\0\0\0"}, "a page has 3 bytes"), ({18: b"lzma\0"}, "'lzma'"),
    ],
)  # fmt: skip
def test_files_that_cannot_be_read(change: dict[int, bytes], says: str) -> None:
    data = bytearray(plain(TRACE))
    for at, replaced in change.items():
        data[at : at + len(replaced)] = replaced
    with pytest.raises(InputError, match=says) as error:
        _read(bytes(data))
    assert error.value.next_step


def test_a_file_that_was_cut_keeps_what_is_there(rows: list[tuple[Any, ...]]) -> None:
    data = version6(TRACE)
    trace = _read(data[:-2000])
    assert set(_rows(trace)) < set(rows) and trace.events.height > 3
    assert trace.ledger["bytes"].sum() == len(data) - 2000
    assert {"file_cut_off", "torn_page"} < set(trace.ledger["reason"]) and trace.losses["cpu"].to_list() == [1]


def test_pages_that_two_cpus_claim_are_read_once() -> None:
    data = bytearray(version6(TRACE))
    table = data.index(b"flyrecord\0") + 10
    data[table + 16 : table + 32] = data[table : table + 16]
    trace = _read(bytes(data))
    assert trace.events.height > 3 and trace.events["cpu"].unique().to_list() == [0]
    assert trace.events.select("offset").is_unique().all()
    assert "overlapping_page_data" in trace.ledger["reason"].to_list()
    assert trace.ledger["bytes"].sum() == len(data)


_FILES = [plain(TRACE), version6(TRACE, "second"), plain(TRACE, "second")]


@given(
    number=st.integers(0, len(_FILES) - 1),
    cut=st.floats(0, 1),
    changes=st.lists(st.tuples(st.floats(0, 1), st.binary(min_size=1, max_size=8)), max_size=6),
    early=st.booleans(),
)
def test_damaged_files_are_accounted_for(
    number: int, cut: float, changes: list[tuple[float, bytes]], early: bool
) -> None:
    data = bytearray(_FILES[number])
    for place, replaced in changes:
        at = int(place * (4096 if early else len(data)))
        data[at : at + len(replaced)] = replaced
    data = data[: int(len(data) * cut)] if cut < 0.9 else data
    try:
        trace = _read(bytes(data), pages_at_a_time=4)
    except InputError:
        return
    assert trace.ledger["bytes"].sum() == len(data)


def test_pages_of_another_kernel_are_named() -> None:
    """Event numbers differ between kernels: records then are unlike the formats that carry their number."""
    formats = {name: text.replace("ID: 776", "ID: 19999").replace("ID: 898", "ID: 776") for name, text in
               TRACE.formats.items()}  # fmt: skip
    mixed = PageTrace(TRACE.pages, formats, TRACE.header_page)
    ledger = whole(read_ftrace_pages(mixed, {0: 1, 1: 2})).ledger.filter(pl.col("outcome") == "skipped")
    assert set(ledger["reason"]) == {"record_unlike_its_format", "unknown_event_id"}
    # Four entries into close and two into ioctl.
    assert ledger["records"].sum() == 6


def _import_told(folder: Path, clock: str, *files: tuple[str, bytes]) -> tuple[set[str], list[str]]:
    """Return the clocks of the events, and the warnings, of an import that is told a clock."""
    for name, data in files:
        (folder / name).write_bytes(data)
    out = folder / "x.tracecorr"
    import_files(out, [], [folder / name for name, _ in files], clock=clock)
    warnings = [text for text in correlate(out) if "--ftrace-clock" in text]
    maps = Capture.open(out).table("clock_map").collect()["source"].cast(pl.String)
    return {name.removeprefix("ftrace:") for name in maps}, warnings


@pytest.mark.parametrize("clock", ["auto", "mono"])
def test_the_clock_that_a_file_names_may_be_told_too(clock: str, tmp_path: Path) -> None:
    assert _import_told(tmp_path, clock, ("a.dat", plain(TRACE))) == ({"mono"}, [])


@pytest.mark.parametrize("make", [plain, version6, lambda trace: packed(trace, "zstd")])
def test_another_clock_than_the_file_names_is_refused(make: Callable[[PageTrace], bytes], tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"a\.dat was recorded with the trace_clock mono, .* not with boot") as raised:
        _import_told(tmp_path, "boot", ("a.dat", make(TRACE)))
    assert "leave out --ftrace-clock" in str(raised.value.next_step)
    assert [path.name for path in tmp_path.iterdir()] == ["a.dat"]


def test_a_clock_that_is_told_is_that_of_the_other_traces(tmp_path: Path) -> None:
    text = Path(__file__).parent / "forms" / "syscalls" / "standard.txt"
    clocks, (warning,) = _import_told(tmp_path, "boot", ("a.dat", plain(TRACE)), ("b.txt", text.read_bytes()))
    assert clocks == {"mono", "boot"}
    assert "a.dat was recorded with the trace_clock mono" in warning


@pytest.mark.parametrize(("clock", "told"), [("boot", ["clock.json"]), ("local", []), ("auto", [])])
def test_another_clock_than_the_samples_name_is_taken_and_said(clock: str, told: list[str], tmp_path: Path) -> None:
    samples, out = tmp_path / "clock.json", tmp_path / "x.tracecorr"
    samples.write_text('{"trace_clock": "local", "samples": []}')
    text = Path(__file__).parent / "forms" / "syscalls" / "standard.txt"
    import_files(out, [], [text], clock=clock, clock_samples=samples)
    assert [Path(warning.split()[0]).name for warning in correlate(out) if "--ftrace-clock" in warning] == told
    names = Capture.open(out).table("clock_map").collect()["source"].cast(pl.String)
    assert list(names) == [f"ftrace:{'local' if clock == 'auto' else clock}"]


def test_a_file_that_names_no_clock_has_the_one_that_is_told(tmp_path: Path) -> None:
    out = io.BytesIO()
    pages = {cpu: [data] for cpu, data in TRACE.pages.items() if isinstance(data, bytes)}
    write_trace_dat(out, replace(description(TRACE), options=[]), [BufferPages(Buffer("", "", 4096), pages)])
    assert _import_told(tmp_path, "boot", ("a.dat", out.getvalue())) == ({"boot"}, [])
