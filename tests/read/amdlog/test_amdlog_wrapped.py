"""Pasted logs whose lines a terminal or a mail has wrapped: what surely belongs together is one record (synthetic)."""

from __future__ import annotations

import pytest
from amdlog_cases import DISPATCH, line, log, read
from hypothesis import given, settings
from hypothesis import strategies as st

from tracecorr.model.kinds import Flag

KERNEL = "gemm16(float const*, float const*, float*, int, int, int, int, int, int, float const*, float const*, int*)"
MESSAGES = (
    DISPATCH,
    " hipMalloc ( 0x7f, 2097152 ) ",
    "Allocate hsa device memory 0x14dc00200000, size 0x200000",
    "Created SWq=0x14dd04c94000 to map on HWq=0x14dbfb600000 with size 16384 with priority 1, cooperative: 0",
    "hipMalloc: Returned hipSuccess : 0x14dc00200000: duration: 326 us",
    " hipStreamCreateWithPriority ( 0x7ffc7339bf50, 1, -1 ) ",
    "hipStreamCreateWithPriority: Returned hipSuccess : stream:0x1952020",
    "Command (KernelExecution) enqueued: 0x55c431af0470 to queue: 0x55c431a2a210",
    "ShaderName : " + KERNEL,
    DISPATCH.replace("wptr=6", "wptr=7"),
    "NullStream 0x7fd080, wait 0",
)
_PLACES = ("offset", "length", "end_offset", "end_length", "parent_offset", "flags")


def _wrap(text: str, width: int, *, padded: bool = False) -> str:
    """Return lines as a terminal of that many columns shows them."""
    rows = [line[at : at + width] for line in text.splitlines() for at in range(0, len(line), width)]
    return "".join((row.ljust(width) if padded else row) + "\n" for row in rows)


def _wrap_at_blanks(text: str, width: int) -> str:
    rows = []
    for row in text.splitlines():
        while len(row) > width:
            place = row.rindex(" ", 0, width + 1)
            rows.append(row[:place])
            row = row[place + 1 :]
        rows.append(row)
    return "".join(row + "\n" for row in rows)


# Where the first record does not end at the width by chance, it shows the width.
@pytest.mark.parametrize("width", [66, 70, 80, 100, 119, 132, 160, 237])
@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("block_bytes", [200, 4 << 20])
def test_a_terminal_of_any_width_changes_no_field(width: int, padded: bool, block_bytes: int) -> None:
    text = log(*MESSAGES)
    whole, pasted = read(text), read(_wrap(text, width, padded=padded), block_bytes)
    assert pasted.events.drop(_PLACES).equals(whole.events.drop(_PLACES))
    assert pasted.packets.drop("offset", "command_offset").equals(whole.packets.drop("offset", "command_offset"))
    assert pasted.args.drop("offset").equals(whole.args.drop("offset"))
    counts = pasted.counts()
    # A last blank may have a line of its own.
    assert set(counts) <= {"used", "blank_line"}
    assert counts["used"][0] == len(MESSAGES)
    wide = [len(line(message)) - 1 > width for message in MESSAGES]
    dispatches = pasted.events.filter(name="dispatch")["flags"].to_list()
    assert dispatches == [Flag.TORN, Flag.TORN]
    assert pasted.one(name="NullStream #, wait #")["flags"] == (Flag.TORN if wide[-1] else 0)


# Each of them may end at any byte; only the packet behind them shows the width.
BEFORE = (
    " hipFree ( 0x14dc00200000 ) ",
    "Free hsa memory 0x14dc00200000",
    "Device=0x194e3f0, freeMem_ = 0x2ffeffd000",
    "HIP Library Path: /opt/rocm-7.0.2/lib/libamdhip64.so.7",
    "hipFree: Returned hipSuccess : ",
    " hipLaunchKernel ( 0x1, {1,1,1}, {1,1,1}, 0x2, 0, 0x3 ) ",
    "ShaderName : Cijk_Ailk_Bljk_SB_" + "MT64x64x32_" * 60,
)


@pytest.mark.parametrize("start", range(66, 130, 8))
def test_lines_before_the_one_that_shows_the_width_are_wrapped_too(start: int) -> None:
    text = log(*BEFORE, DISPATCH, "hipLaunchKernel: Returned hipSuccess : ")
    whole = read(text)
    for width in range(start, start + 8):
        pasted = read(_wrap(text, width), 300)
        assert pasted.events.drop(_PLACES).equals(whole.events.drop(_PLACES)), width
        assert pasted.args.drop("offset").equals(whole.args.drop("offset")), width
        assert set(pasted.counts()) <= {"used", "blank_line"}, width


def test_the_parts_of_a_record_are_its_bytes() -> None:
    text = _wrap(line(DISPATCH) + line("init"), 100)
    row = read(text).one(name="dispatch")
    assert text[: row["offset"] + row["length"]].replace("\n", "") == line(DISPATCH).strip()


def test_a_mail_breaks_at_blanks() -> None:
    text = line(DISPATCH) + line(" hipMemcpy ( 0x7f5174018ee0, 0x7f5174018ef0, 262144, hipMemcpyHostToDevice ) ")
    found = read(_wrap_at_blanks(text, 130))
    assert found.events.drop(_PLACES).equals(read(text).events.drop(_PLACES))
    assert found.packets.drop("offset").equals(read(text).packets.drop("offset"))
    assert found.events["flags"].to_list() == [Flag.TORN, Flag.TORN | Flag.ENTER_ONLY]
    assert list(found.counts()) == ["used"]


def test_a_kernel_on_two_lines_is_not_named() -> None:
    # The end of the line may be text of the program, and a mail leaves out a blank.
    text = _wrap(line("ShaderName : gemm16(float const*, int)"), 100) + line(DISPATCH)
    found = read(text)
    assert found.one(name="shader_name")["flags"] == Flag.TORN
    assert found.events["kernel"].to_list() == [None, None]
    assert found.counts() == {"used": (2, len(text))}


def test_lines_of_the_program_are_not_taken_for_wrapped_ones() -> None:
    # They are as long as the record before them, and the width is known.
    texts = [line(m) for m in (DISPATCH, "hipFree: Returned hipSuccess : ", " hipFree ( 0x1400 ) ")]
    for text in texts:
        output = "x" * (len(text) - 1) + "\n"
        found = read(_wrap(line(DISPATCH), 100) + text + output)
        if "Returned" not in text:
            assert found.counts()["program_output"] == (1, len(output)), text


def test_other_widths_are_not_believed() -> None:
    text = _wrap(line(DISPATCH), 100) + line("Free hsa memory 0x14") + "00\n"
    found = read(text)
    assert (found.one(name="free")["arg"], found.one(name="free")["flags"]) == (0x14, 0)
    assert found.counts()["program_output"] == (1, 3)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.sampled_from(MESSAGES), min_size=1, max_size=12), st.integers(60, 260), st.integers(40, 900))
def test_wrapped_logs_do_not_depend_on_blocks(messages: list[str], width: int, block_bytes: int) -> None:
    data = _wrap(log(*messages), width).encode()
    whole, parts = read(data), read(data, block_bytes)
    for name in ("events", "packets", "args", "ledger"):
        assert getattr(parts, name).equals(getattr(whole, name)), name
    assert whole.ledger["bytes"].sum() == len(data)


@settings(max_examples=30, deadline=None)
# Of a kernel's name the bracket must be seen: what is cut before it looks whole.
@given(st.lists(st.sampled_from(MESSAGES), min_size=1, max_size=12), st.integers(100, 260))
def test_a_wrapped_log_tells_nothing_that_the_log_does_not(messages: list[str], width: int) -> None:
    text = log(*messages)
    whole, pasted = read(text), read(_wrap(text, width))
    for column in ("kernel", "ring", "packet_index", "signal", "command", "result"):
        assert set(pasted.events[column].drop_nulls()) <= set(whole.events[column].drop_nulls()), column
