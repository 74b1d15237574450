"""SYNTHETIC lines between records: what the kernel lost, lines of several, lines that are no records."""

from __future__ import annotations

import polars as pl
import pytest
from ftrace_cases import Whole, read_text

BODY = "amdgpu_cs_ioctl: sched_job={}, timeline=gfx_0.0.0, context=249, seqno=91446, ring_name=gfx_0.0.0, num_ibs=3"
PTES = "amdgpu_vm_update_ptes: pid:7 vm_ctx:0x7 start:0x0000000001 end:0x0000000002, flags:0x71, incr:4096, dst:"
FOREIGN = "[12345.678901] amdgpu 0000:c5:00.0: amdgpu: MES failed to respond to msg=REMOVE_QUEUE"


def record(at: int, text: str, cpu: int = 0, tid: int = 136) -> str:
    return f"  hip-{tid}   [{cpu:03d}] .....    24.{at:06d}: {text}\n"


def read(*lines: str, block_bytes: int = 1 << 20) -> Whole:
    return read_text("".join(("# tracer: nop\n", *lines)).encode(), block_bytes=block_bytes)


def skipped(trace: Whole) -> list[tuple[str, int, int]]:
    rows = trace.ledger.filter(pl.col("outcome") == "skipped").select("reason", "records", "bytes")
    return sorted(rows.group_by("reason").agg(pl.all().sum()).cast({"reason": pl.String}).rows())


RECORDS = [record(n, text) for n, text in enumerate((
    BODY.format(1), "sys_ioctl(fd: 4, cmd: 0xc0184b0c, arg: 0x10)", "kfd_ioctl <-__x64_sys_ioctl",
    "launch: (0x7f7bd24c11c0) func=0x5", "sys_ioctl -> 0x0", PTES + "\n0x1000 0x2000", "unknown: 1", "x",
))]  # fmt: skip


@pytest.mark.parametrize("place", range(1, len(RECORDS) + 1))
def test_a_foreign_line_behind_any_record_is_none_of_it(place: int) -> None:
    trace, other = read(*RECORDS), read(*RECORDS[:place], FOREIGN + "\n", *RECORDS[place:])
    assert skipped(other) == [("no_record_prefix", 1, len(FOREIGN) + 1)]
    assert other.events.select("name", "length").equals(trace.events.select("name", "length"))


@pytest.mark.parametrize("damaged", ["-136", "[000]", "24.000400"])
def test_a_record_without_a_whole_prefix_is_broken(damaged: str) -> None:
    """A line with a task and a time was a record: it is lost, and none of the record before it."""
    line = record(400, BODY.format(2)).replace(damaged, damaged[:-3] + " " * 3 if damaged == "[000]" else damaged)
    if damaged != "[000]":
        line = line.replace("[000] ", "")
    trace = read(record(1, BODY.format(1)), line, record(900, BODY.format(3)))
    assert skipped(trace) == [("broken_record", 1, len(line))] and trace.events.height == 2


def test_lines_of_one_record() -> None:
    """Texts of programs go on in any line, the driver's event in one, a stack in lines of functions."""
    text = "tracing_mark_write: first\n a 12.5 [of] them: x\n\n second\n"
    stack = "<stack trace>\n => kfd_ioctl\n => do_syscall_64\n"
    trace = read(record(1, text), record(2, PTES), "0x1000 0x2000\n", record(3, stack), record(4, "x: 1"))
    assert skipped(trace) == [] and trace.events.height == 4
    assert trace.arg("text") == ["first\n a 12.5 [of] them: x\n\n second"] and trace.arg("dst") == ["0x1000 0x2000"]
    assert skipped(read(record(2, PTES), "0x1000\n", FOREIGN + "\n"))[0][:2] == ("no_record_prefix", 1)


@pytest.mark.parametrize("block_bytes", [1 << 20, 400, 300, 200])
def test_a_loss_between_two_blocks_lasts_from_record_to_record(block_bytes: int) -> None:
    lines = [record(at, "x: 1") for at in range(1, 8)]
    gaps = read(*lines, "CPU:0 [LOST 2 EVENTS]\n", *(record(at, "x: 1") for at in range(900, 905)),
                block_bytes=block_bytes).losses  # fmt: skip
    times = gaps.select(pl.col("from_ns", "to_ns") // 1000 % 1_000_000, "count").rows()
    assert times == [(7, 900, 2)]
