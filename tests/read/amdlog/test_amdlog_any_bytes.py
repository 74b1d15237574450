"""The reader on any bytes: cuts do not matter, nothing crashes, no byte is lost."""

from __future__ import annotations

from amdlog_cases import DISPATCH, enter, leave, line, read
from hypothesis import given
from hypothesis import strategies as st

_OTHER = "[pid:7 tid: 0x7f00000000b0] "
_MESSAGES = [
    enter("hipA"), leave("hipA"), enter("hipB"), leave("hipB"), enter("hipGetLastError"), DISPATCH,
    "ShaderName : k(int)", "KernargSegmentByteSize = 8 K", "Arg0: = 1",
    "Command (KernelExecution) enqueued: 0x5 to queue: 0x6",
    "Created SWq=0x1 to map on HWq=0x2 with size 4 with priority 1, cooperative: 0", "acquireQueue refCount: 0x2 (1)",
]  # fmt: skip
_LINES = st.one_of(
    st.builds(line, st.sampled_from(_MESSAGES), st.integers(0, 10**12), st.sampled_from(["", _OTHER])).map(str.encode),
    st.builds(line, st.sampled_from(_MESSAGES)).map(str.encode),
    st.builds(lambda m, n: line(m).encode()[:n], st.sampled_from(_MESSAGES), st.integers(0, 300)),
    st.builds(lambda m, n: line(m).encode()[n:], st.sampled_from(_MESSAGES), st.integers(0, 300)),
    st.binary(max_size=30),
    st.sampled_from([b"\n", b"\r\n", b" us: ", b"d us:", b":3:", b"[***rocr***] ", b"\x1b[32m", b": error\n"]),
    st.just(line("amd_comgr_do_action:").replace("rocvirtual.cpp", "devprogram.cpp").encode()),
)
_LOGS = st.lists(_LINES, max_size=40).map(b"".join)


@given(_LOGS, st.lists(st.integers(1, 200), min_size=1, max_size=20), st.sampled_from([64, 500, 4 << 20]))
def test_cuts_do_not_matter(data: bytes, sizes: list[int], block_bytes: int) -> None:
    whole = read(data, block_bytes)
    chunks, at, i = [], 0, 0
    while at < len(data):
        chunks.append(data[at : at + sizes[i % len(sizes)]])
        at, i = at + sizes[i % len(sizes)], i + 1
    parts = read(chunks, block_bytes)
    for name in ("events", "packets", "args", "ledger"):
        assert getattr(parts, name).equals(getattr(whole, name)), name


@given(_LOGS)
def test_every_byte_is_accounted_for(data: bytes) -> None:
    found = read(data, 300)
    assert found.ledger["bytes"].sum() == len(data)
    assert found.events["offset"].is_unique().all()
    assert set(found.events["parent_offset"].drop_nulls()) <= set(found.events["offset"])


@given(st.binary(max_size=2000))
def test_any_bytes_are_read(data: bytes) -> None:
    assert read(data).ledger["bytes"].sum() == len(data)


def _torn(message: str, place: int, output: str) -> bytes:
    record = line(message)
    place += record.index(message)
    return (record[:place] + output + record[place:]).encode()


# Each form whose meaning rests on lines before or behind it; the lines between make it reach over several blocks.
_CONTEXTS = (
    line(enter("hipA")), line("Command (KernelExecution) enqueued: 0x5 to queue: 0x6"), line("No HW event"),
    line("ShaderName : k(int)"), line("KernargSegmentByteSize = 8 K"), line("No HW event"), line(DISPATCH),
    line(DISPATCH.replace("wptr=6", "wptr=7")), line(enter("hipB", "0x7f, 64")), line("No HW event"),
    line(leave("hipB")),
    line("No HW event"), line(leave("hipA")), line("No HW event"),
    line("amd_comgr_do_action:").replace("rocvirtual.cpp", "devprogram.cpp"), "error: one\n", ": error: two\n",
    "error: three\n", line("No HW event"),
)  # fmt: skip
_TORN = (
    _torn(DISPATCH, 60, "step 7\n"), _torn("Command (Marker) enqueued: 0x5 to queue: 0x6", 12, "step 8\n"),
    _torn(enter("hipC", "0x7f"), 16, "a\nb\n"), _torn("ShaderName : k(float, int)", 16, "step 9\n"),
    _torn(leave("hipC"), 4, line("No HW event", thread=_OTHER)), _torn(DISPATCH, 200, "\n"),
)  # fmt: skip


def test_blocks_of_every_size_give_the_same_rows() -> None:
    data = "".join(_CONTEXTS).encode() + b"".join(_TORN) + line("No HW event").encode()
    whole = read(data)
    assert whole.counts().keys() == {"used", "program_output", "continuation"}
    assert whole.counts()["continuation"][0] == 3
    assert [row["command"] for row in whole.rows(name="dispatch")] == [5, 5, None, None]
    for block_bytes in (20, 97, 150, 210, 333, 500, 777, 1000, 1500, 2500):
        parts = read(data, block_bytes)
        for name in ("events", "packets", "args", "ledger"):
            assert getattr(parts, name).equals(getattr(whole, name)), (block_bytes, name)


@given(_LOGS)
def test_events_do_not_depend_on_the_block_size(data: bytes) -> None:
    whole, parts = read(data), read(data, 400)
    for name in ("events", "packets", "args", "ledger"):
        assert getattr(parts, name).equals(getattr(whole, name)), name
