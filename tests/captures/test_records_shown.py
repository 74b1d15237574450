"""Binary records of recorded traces as text: every one tells the event and the fields that its row has."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracecorr.parse.ftrace.formats import Field, Format
from tracecorr.parse.ftrace.shown import render_record
from tracecorr.pipeline import correlate, import_files
from tracecorr.store import Capture

_WHERE = ("file", "offset", "length", "end_offset", "end_length")


@pytest.fixture(scope="module", params=["captures/caseA-1stream/raw", "vm/trixie/ftrace/tc.dat.gz"])
def trace(request: pytest.FixtureRequest, data_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Capture:
    """Return pages of a recording, and a `trace.dat`, imported."""
    out = tmp_path_factory.mktemp("shown") / "x.tracecorr"
    import_files(out, [], [data_folder / request.param])
    correlate(out)
    return Capture.open(out)


def test_every_record_names_its_event_and_thread(trace: Capture) -> None:
    rows = trace.table("events").filter(pl.col("source") == "ftrace").select("name", "layer", "tid", *_WHERE).collect()
    assert rows.height > 100
    for name, layer, tid, file, offset, length, end_offset, end_length in rows.iter_rows():
        begin = trace.record_text(file, trace.raw(file, offset, length))
        assert begin.endswith(f"(thread {tid})"), (name, begin)
        if layer == "syscall":
            assert begin.startswith((f"sys_enter_{name}: ", f"sys_exit_{name}: ", f"sys_enter_{name} ")), begin
        if end_offset is not None:
            assert trace.record_text(file, trace.raw(file, end_offset, end_length)).split(":")[0] != begin.split(":")[0]


def test_an_ioctl_shows_the_fields_of_its_row(trace: Capture) -> None:
    wanted = (pl.col("layer") == "ioctl") & pl.col("name").cast(pl.String).str.starts_with("AMDKFD_IOC")
    rows = trace.table("events").filter(wanted).select("fd", "cmd", "file", "offset", "length").collect()
    assert rows.height
    for fd, cmd, file, offset, length in rows.iter_rows():
        assert f": fd={fd:#x} cmd={cmd:#x} arg=0x" in trace.record_text(file, trace.raw(file, offset, length))


def test_what_is_cut_or_unknown_is_not_told(trace: Capture) -> None:
    file, offset, length = trace.table("events").select("file", "offset", "length").first().collect().row(0)
    whole = trace.raw(file, offset, length)
    assert trace.record_text(file, whole)
    assert {trace.record_text(file, whole[:size]) for size in range(len(whole))} == {""}
    unknown = whole[:4] + b"\xff\xff" + whole[6:]
    assert trace.record_text(file, unknown) == ""


def test_text_of_every_kind_of_field() -> None:
    fields = (
        Field("count", "int", 8, 4, signed=True), Field("name", "__data_loc char[]", 12, 4, signed=False),
        Field("comm", "char[]", 16, 8, signed=False), Field("mask", "__data_loc unsigned long[]", 24, 4, signed=False),
    )  # fmt: skip
    data = (
        bytes([7, 0, 0, 0, 9, 0, 0, 0]) + (-3).to_bytes(4, "little", signed=True) + (28 | 4 << 16).to_bytes(4, "little")
    )
    data += b"comm\0\0\0\0" + (32 | 4 << 16).to_bytes(4, "little") + b"abc\0" + bytes([1, 2, 3, 4])
    record = (len(data) // 4).to_bytes(4, "little") + data
    text = render_record(record, {7: Format("s", "e", fields)})
    assert text == 'e: count=-3 name="abc" comm="comm" mask=01020304 (thread 9)'


@given(st.binary(max_size=80))
def test_any_bytes_are_text_or_nothing(record: bytes) -> None:
    fields = (Field("name", "__data_loc char[]", 8, 4, signed=False), Field("buf", "char[]", 16, 0, signed=False))
    every = {number: Format("s", "e", fields) for number in range(0, 1 << 16, 257)}
    assert isinstance(render_record(record, every), str)
