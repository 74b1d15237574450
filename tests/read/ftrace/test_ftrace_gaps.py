"""SYNTHETIC traces that tell where they lost records: no call is whole over a place that may hide two halves of it."""

from __future__ import annotations

import polars as pl
import pytest
from ftrace_cases import Whole, read_text, whole

from tracecorr.model.kinds import Flag
from tracecorr.read.ftrace import PageTrace, read_ftrace_pages

ENTER, EXIT = "sys_ioctl(fd: 4, cmd: 0xc0184b0c, arg: 0x10)", "sys_ioctl -> 0x0"
INTO = "kfd_ioctl: (kfd_ioctl+0x4/0x570 [amdgpu]) cmd=0xc0184b0c arg=0x10"
OUT = "kfd_ioctl_ret: (__x64_sys_ioctl+0x94/0xc0 <- kfd_ioctl) ret=0"
FORMATS = {
    f"syscalls/sys_{side}_close": f"name: sys_{side}_close\nID: {number}\nformat:\n"
    "\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n"
    f"\tfield:{field};\toffset:16;\tsize:8;\tsigned:0;\n"
    for side, number, field in (("enter", 7, "unsigned int fd"), ("exit", 8, "long ret"))
}


def record(at: int, text: str, cpu: int = 0, tid: int = 136) -> str:
    return f"  hip-{tid}   [{cpu:03d}] .....    24.{at:06d}: {text}\n"


def lost(count: str = "2 ", cpu: int = 0) -> str:
    return f"CPU:{cpu} [LOST {count}EVENTS]\n"


def shapes_of(result: Whole) -> list[tuple[int, str | None, int]]:
    """Return time (us), result and flags of all rows, in time order."""
    rows = result.events.sort("stamp_ns").select(pl.col("stamp_ns") // 1000 % 1_000_000, pl.col("result"), "flags")
    return rows.cast({"result": pl.String}).rows()


def read(*lines: str, block_bytes: int = 1 << 20) -> Whole:
    return read_text("".join(("# tracer: nop\n", *lines)).encode(), block_bytes=block_bytes)


WHOLE = [(1, "0", 0)]
PARTED = [(1, None, int(Flag.ENTER_ONLY)), (900, "0", int(Flag.EXIT_ONLY))]


@pytest.mark.parametrize(
    ("between", "expected"),
    [
        pytest.param([lost()], PARTED, id="an exit and an enter may lack"),
        pytest.param([lost("")], PARTED, id="nobody knows how many lack"),
        pytest.param([lost("1 ")], WHOLE, id="one record is not two"),
        pytest.param([lost("1 "), record(300, "x: 1", tid=7), lost("1 ")], PARTED, id="two times one"),
        pytest.param(
            [record(100, "x: 1", 1, 7), lost(cpu=1), record(200, "x: 1", 1, 7)], PARTED,
            id="the thread may have been on the other CPU meanwhile",
        ),
        pytest.param([], WHOLE, id="complete"),
    ],
)  # fmt: skip
def test_a_call_over_lost_records_may_be_two(between: list[str], expected: list[tuple[int, str, int]]) -> None:
    found = [row for row in shapes_of(read(record(1, ENTER), *between, record(900, EXIT))) if row[0] in (1, 900)]
    assert found == expected


def test_a_call_on_one_cpu_is_whole_within_what_another_cpu_lost() -> None:
    """To miss records on the other CPU the thread would have had to move there and back within the call."""
    gap = (record(1, "x: 1", 1, 7), lost("9000 ", 1), record(990, "x: 1", 1, 7))
    rows = read(gap[0], record(300, ENTER), *gap[1:2], record(305, EXIT), gap[2])
    assert (300, "0", 0) in shapes_of(rows)


def test_a_call_that_moved_to_the_cpu_that_lost_records_may_be_two() -> None:
    rows = read(record(1, "x: 1", 1, 7), record(300, ENTER), lost("9000 ", 1), record(305, EXIT, 1))
    assert [flags for _, _, flags in shapes_of(rows)] == [0, int(Flag.ENTER_ONLY), int(Flag.EXIT_ONLY)]


def test_functions_over_lost_records_are_parted_and_those_behind_are_in_no_call_before() -> None:
    rows = read(record(1, ENTER), record(2, INTO), lost(), record(800, OUT), record(810, INTO), record(820, OUT),
                record(900, EXIT))  # fmt: skip
    parted = [0, int(Flag.ENTER_ONLY), int(Flag.ENTER_ONLY), int(Flag.EXIT_ONLY), int(Flag.EXIT_ONLY)]
    assert sorted(flags for _, _, flags in shapes_of(rows)) == parted
    inside = rows.events.filter(pl.col("parent_offset").is_not_null())
    assert (inside["stamp_ns"] // 1000 % 1_000_000).to_list() == [2]


@pytest.mark.parametrize("block_bytes", [1 << 20, 400, 300, 200])
def test_blocks_of_any_size_part_the_same_calls(block_bytes: int) -> None:
    lines = [record(1, ENTER), record(5, EXIT), record(100, ENTER), lost(), record(900, EXIT), record(901, ENTER),
             record(905, EXIT)]  # fmt: skip
    flags = [flags for _, _, flags in shapes_of(read(*lines, block_bytes=block_bytes))]
    assert flags == [0, int(Flag.ENTER_ONLY), int(Flag.EXIT_ONLY), 0]


def page(stamp: int, event: int, flags: int = 0, count: int = 0) -> bytes:
    """Return a page with one record of thread 136, which may say that records were lost before it."""
    body = event.to_bytes(8, "little")[:4] + (136).to_bytes(4, "little") + bytes(16)
    head = stamp.to_bytes(8, "little") + (4 + len(body) | flags).to_bytes(8, "little")
    data = (len(body) // 4).to_bytes(4, "little") + body
    return (head + data + count.to_bytes(8, "little")).ljust(4096, b"\0")


@pytest.mark.parametrize(("flags", "count", "calls"), [(0, 0, 1), (3 << 30, 1, 1), (3 << 30, 2, 2), (1 << 31, 0, 2)])
def test_pages_that_tell_a_loss_part_calls_like_text(flags: int, count: int, calls: int) -> None:
    trace = PageTrace(pages={0: page(1000, 7) + page(900_000, 8, flags, count)}, formats=FORMATS)
    rows = whole(read_ftrace_pages(trace, {0: 1}, "mono")).events
    assert rows.height == calls
    assert (rows["flags"] > 0).all() == (calls == 2)


_NO_PID = record(400, ENTER).replace("-136", "-1x6")
_NO_TIME = record(400, ENTER).replace("24.000400", "24.0004x0")
_NO_CPU = record(400, ENTER).replace("[000]", "[0p0]")
_NEXT = " " * 11 + record(500, EXIT)
_GLUED = [record(400, ENTER)[:length] + _NEXT for length in (9, 28, 36, 45)]
_HOLLOW = record(400, ENTER)[:40] + "\0" * 99 + "rest of another line\n"


@pytest.mark.parametrize(
    ("between", "reason", "expected"), [
        ([_NO_PID], "broken_record", WHOLE), ([_NO_PID, _NO_TIME], "broken_record", PARTED),
        # Of a line that names no CPU it is not known how much it was.
        ([_NO_CPU], "broken_record", PARTED), ([_HOLLOW], "nul_bytes", PARTED),
        # The disk was full for a while: how long is not known.
        *(([line], "broken_record", PARTED) for line in _GLUED),
        ([_NO_PID.replace("[000]", "[001]"), record(500, "x: 1", 1, 7)], "broken_record", WHOLE),
    ],
)  # fmt: skip
def test_a_line_that_lost_its_prefix_is_no_text_of_the_record_before_it(
    between: list[str], reason: str, expected: list[tuple[int, str, int]]
) -> None:
    front, end = record(1, ENTER), record(900, EXIT)
    result = read(front, *between, end)
    assert [row for row in shapes_of(result) if row[0] in (1, 900)] == expected
    booked = result.ledger.filter(pl.col("outcome") == "skipped").select("reason", "records", "bytes").rows()
    damaged = [line for line in between if "x: 1" not in line]
    assert booked == [(reason, len(damaged), sum(map(len, damaged)))]
    assert result.ledger["bytes"].sum() == len("# tracer: nop\n" + front + "".join(between) + end)
    assert result.losses.is_empty()


def test_what_a_program_prints_may_look_like_a_record() -> None:
    result = read(record(1, ENTER), record(400, "tracing_mark_write: " + _NEXT), record(900, EXIT))
    assert shapes_of(result)[0] == WHOLE[0]
    assert result.ledger["outcome"].unique().to_list() == ["used"]


def test_further_lines_of_a_text_are_no_damaged_records() -> None:
    text = "tracing_mark_write: first\n a 12.5 [of] them: x\n\n => do_syscall_64+0x1\n"
    result = read(record(1, text), record(900, "x: 1"))
    assert result.ledger["outcome"].unique().to_list() == ["used"]


def _with_broken_end(stamp: int, event: int) -> bytes:
    """Return a page whose second record says that it is longer than the page."""
    data, record = page(stamp, event), 4 + 24
    head = stamp.to_bytes(8, "little") + (record + 8).to_bytes(8, "little")
    return head + data[16 : 16 + record] + (28).to_bytes(4, "little") + data[16 + record + 4 :]


_BAD_HEAD = (2000).to_bytes(8, "little") + (5000).to_bytes(8, "little") + bytes(4080)


@pytest.mark.parametrize("pages_at_a_time", [1, 2, 100])
@pytest.mark.parametrize(
    ("pages", "calls"), [
        ({0: page(1000, 7) + page(900_000, 8)}, 1),
        ({0: page(1000, 7) + _BAD_HEAD + page(900_000, 8)}, 2),
        ({0: page(1000, 7) + _BAD_HEAD * 3 + page(900_000, 8)}, 2),
        ({0: _with_broken_end(1000, 7) + page(900_000, 8)}, 2),
        ({0: page(1000, 7) + _with_broken_end(900_000, 8)}, 1),
        ({0: _BAD_HEAD + page(1000, 7) + page(900_000, 8)}, 1),
        # The thread went to another CPU, and the file of the first one ends inside of a page.
        ({0: page(1000, 7), 1: page(900_000, 8)}, 1),
        ({0: page(1000, 7) + page(2000, 7)[:2000], 1: page(900_000, 8)}, 2),
    ],
)  # fmt: skip
def test_no_call_is_whole_over_a_damaged_page(pages: dict[int, bytes], calls: int, pages_at_a_time: int) -> None:
    trace = PageTrace(pages=pages, formats=FORMATS)
    read = whole(read_ftrace_pages(trace, {0: 1, 1: 2}, "mono", pages_at_a_time=pages_at_a_time))
    assert (read.events.height, read.losses.height) == (calls, 0)
    assert "ring_buffer_overrun" not in read.ledger["reason"].cast(pl.String).to_list()


@pytest.mark.parametrize("block_bytes", [1 << 20, 400, 300, 200])
def test_a_loss_between_two_blocks_lasts_from_record_to_record(block_bytes: int) -> None:
    lines = [record(at, "x: 1") for at in range(1, 8)]
    gaps = read(*lines, lost(), *(record(at, "x: 1") for at in range(900, 905)), block_bytes=block_bytes).losses
    times = gaps.select(pl.col("from_ns", "to_ns") // 1000 % 1_000_000, "count").rows()
    assert times == [(7, 900, 2)]
