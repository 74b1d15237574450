"""Binary records of recorded traces as text: every one tells the event and the fields that its row has."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tracecorr
from tracecorr.pipeline import correlate, import_files
from tracecorr.read.ftrace.formats import Field, Format, render_record
from tracecorr.read.ftrace.perf_records import render_sample
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


@pytest.fixture(scope="module")
def probed(copy_sample: Callable[[str], Path]) -> Path:
    """Return a copy of the bundled sample whose probes were recorded through perf."""
    return copy_sample("streams-graph")


def test_a_store_that_perf_recorded_shows_the_fields_of_its_row(probed: Path) -> None:
    cap = tracecorr.open_capture(probed)
    stores = cap.events.filter(pl.col("layer") == "doorbell").select("event", "tid").collect()
    assert stores.height > 50
    values = dict(cap.launches.drop_nulls("doorbell_event").select("doorbell_event", "packet_index").collect().rows())
    for event, tid in stores.rows():
        text, _ = cap.raw_text(event).split("\n")
        assert text.startswith("doorbell: ") and text.endswith(f"(thread {tid})")
        assert event not in values or f" val={values[event]} " in text


def test_samples_that_are_cut_or_unknown_are_not_told(probed: Path) -> None:
    capture = Capture.open(probed)
    stores = capture.table("events").filter(pl.col("layer") == "doorbell").select("file", "offset", "length")
    file, offset, length = stores.first().collect().row(0)
    whole = capture.raw(file, offset, length)
    assert capture.record_text(file, whole)
    assert {capture.record_text(file, whole[:size]) for size in range(len(whole))} == {""}
    assert capture.record_text(file, b"\x02" + whole[1:]) == ""  # PERF_RECORD_LOST
    event = 44  # behind the header, the fields of a sample with an id, and the size of the record
    assert capture.record_text(file, whole[:event] + b"\xff\xff" + whole[event + 2 :]) == ""


def test_text_of_a_log_has_no_colours(probed: Path) -> None:
    cap = tracecorr.open_capture(probed)
    call = cap.events.filter(pl.col("layer") == "hip").first().collect()["event"].item()
    assert b"\x1b[" in cap.raw(call) and "\x1b" not in cap.raw_text(call)
    assert [line.split()[0] for line in cap.raw_text(call).splitlines()] == [":3:hip_stream.cpp"] * 2


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
    sample = (9).to_bytes(4, "little") + bytes(2) + (8 + len(record)).to_bytes(2, "little") + record
    assert isinstance(render_sample(sample, every), str)
