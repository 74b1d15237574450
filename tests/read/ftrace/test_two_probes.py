"""Two probes of one kernel function tell of the same calls (SYNTHETIC lines)."""

from __future__ import annotations

import polars as pl
import pytest
from ftrace_cases import Whole, read_text

_LINE = "              t1-7       (      7) [000] .....    24.{:06}: {}\n"
_A = "a: (kfd_ioctl+0x4/0x570 [amdgpu]) cmd=0xc0604b02 arg=0x7ffe"
_B = "b: (kfd_ioctl+0x9/0x570 [amdgpu]) cmd=0xc0604b02 arg=0x7ffe y=1"
_C = "c: (kfd_ioctl+0x4/0x570 [amdgpu])"
_A_RET = "a_ret: (__x64_sys_ioctl+0x8d/0xd0 <- kfd_ioctl) ret=-22"
_B_RET = "b_ret: (__x64_sys_ioctl+0x8d/0xd0 <- kfd_ioctl) z=3"


def _read(records: list[str], block_bytes: int = 1 << 20) -> Whole:
    text = "".join(_LINE.format(10 * n, record) for n, record in enumerate(records))
    trace = read_text(text.encode(), block_bytes=block_bytes)
    assert trace.ledger["bytes"].sum() == len(text) and trace.ledger["records"].sum() == len(records)
    return trace


def _calls(trace: Whole) -> list[tuple[object, ...]]:
    rows = trace.events.filter(pl.col("name") == "kfd_ioctl").sort("stamp_ns")
    start = pl.col("stamp_ns") - 24_000_000_000
    return rows.select(start, pl.col("end_stamp_ns") - pl.col("stamp_ns"), "depth", "result", "cmd").rows()


@pytest.mark.parametrize("block_bytes", [1 << 20, 400, 150])
@pytest.mark.parametrize(
    ("records", "start", "span"),
    [
        ([_A, _B, _A_RET], 10_000, 20_000), ([_C, _B, _A_RET], 10_000, 20_000),
        ([_A, _B, _A_RET, _B_RET], 10_000, 20_000), ([_B, _A, _B_RET, _A_RET], 10_000, 20_000),
        ([_C, _A, _B, _A_RET, _B_RET], 10_000, 30_000),
    ],
)  # fmt: skip
def test_a_call_that_two_probes_tell_is_one(records: list[str], start: int, span: int, block_bytes: int) -> None:
    call = ["sys_ioctl(fd: 0x3, cmd: 0xc0604b02, arg: 0x7ffe)", *records, "sys_ioctl -> 0xffffffffffffffea"]
    trace = _read(call * 3, block_bytes)
    apart = 10_000 * len(call)
    assert _calls(trace) == [(start + n * apart, span, 1, "EINVAL", 0xC0604B02) for n in range(3)]
    offsets = trace.events.filter(pl.col("name") == "kfd_ioctl")["offset"]
    args = trace.args.filter(pl.col("offset").is_in(offsets.implode()))
    assert args.select("offset", "key").is_unique().all()
    assert args.filter(pl.col("key") == "y")["u64"].to_list() == [1] * 3


def test_a_function_that_calls_itself_is_two_calls() -> None:
    records = [_A, _B, _A, _B, _A_RET, _B_RET, _A_RET, _B_RET]
    spans = [row[:3] for row in _calls(_read(records))]
    assert spans == [(0, 60_000, 0), (20_000, 20_000, 1)]


def test_a_probe_that_fires_later_tells_another_call() -> None:
    late = [_A, *["sched_waking: comm=x pid=1 prio=120 target_cpu=0"] * 200, _B]
    assert len(_calls(_read(late))) == 2
