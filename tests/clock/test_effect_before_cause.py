"""HAND-MADE: a queue is acquired 0.38 s before the kernel creates it, because the trace ran on another clock.

So it was published of a real run: acquireQueue at 177770.497126 in the HIP log, create_queue at 177770.879589 in the
trace, which had been taken with the default clock `local`. The times here are made up around these two.
"""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from tracecorr.pipeline import correlate, import_files
from tracecorr.store import Capture

PID, TID, ADDRESS = 3934101, 3934101, 0x7F519107F6C0
# CLOCK_MONOTONIC minus the trace's clock: what tracecorr has to find.
OFFSET_NS = -382_950_000
# Of each queue: the first line of its creation, the length of its ioctl, and its Created line, us.
CREATIONS = [
    (177770_488_100, 310, 177770_497_105),
    (177770_502_000, 290, 177770_506_470),
    (177770_511_930, 305, 177770_516_400),
]


def hip_line(us: int, file: str, number: int, text: str) -> str:
    return f":3:{file:<25}:{number:<4}: {us:010d} us: [pid:157868 tid: {ADDRESS:#x}] {text}\n"


def write_log(path: Path) -> None:
    lines = []
    for n, (start, _, made) in enumerate(CREATIONS):
        ring, swq = 0x3C00000 + n * 0x3400000, 0x220000 + n * 0x9000
        counts = f"low priority: 0, with normal priority: {n}, with high priority: 0, maximum per priority is: 4"
        lines += [
            hip_line(start - 6, "hip_stream.cpp", 298, "\x1b[32m hipStreamCreate ( 0x7f519107ec68 ) \x1b[0m"),
            hip_line(start, "rocdevice.cpp", 2871, f"Number of allocated hardware queues with {counts}"),
            hip_line(made, "rocdevice.cpp", 2952, f"Created SWq={swq:#x} to map on HWq={ring:#x} with size 16384 "
                     "with priority 1, cooperative: 0"),
            hip_line(made + 21, "rocdevice.cpp", 3046, f"acquireQueue refCount: {ring:#x} (1)"),
            hip_line(made + 60, "hip_stream.cpp", 313, f"hipStreamCreate: Returned hipSuccess : {ring + 0x1300:#x}"),
        ]  # fmt: skip
    path.write_text("".join(lines))


def trace_line(mono_us: int, text: str) -> str:
    us = mono_us - OFFSET_NS // 1000
    return f"         python3-{TID:<7} ({PID:>7}) [004] ..... {us // 10**6:>6}.{us % 10**6:06d}: {text}\n"


def write_trace(path: Path) -> None:
    first = CREATIONS[0][0]
    lines = ["# tracer: nop\n"]
    lines.append(trace_line(first - 90_000, f"sys_set_robust_list(head: {ADDRESS + 0x2E0:#x}, len: 0x18)"))
    lines.append(trace_line(first - 89_999, "sys_set_robust_list -> 0x0"))
    # ROCr makes a queue of its own inside of the first creation.
    ioctls = [(first + 900, 250)] + [(made - 40 - length, length) for _, length, made in CREATIONS]
    for start, length in ioctls:
        lines.append(trace_line(start, "sys_ioctl(fd: 4, cmd: 0xc0604b02, arg: 0x7ffd061c4300)"))
        lines.append(trace_line(start + length, "sys_ioctl -> 0x0"))
    path.write_text("".join(lines))


def test_the_offset_is_found_from_the_creations_alone(tmp_path: Path) -> None:
    write_log(tmp_path / "amd.log")
    write_trace(tmp_path / "ftrace.txt")
    out = tmp_path / "case.tracecorr"
    import_files(out, [tmp_path / "amd.log"], [tmp_path / "ftrace.txt"], clock="local")
    correlate(out)
    capture = Capture.open(out)
    (row,) = capture.table("clock_map").filter(pl.col("source").cast(pl.String) == "ftrace:local").collect().to_dicts()
    assert (row["method"], row["violated"]) == ("causal_pairs", 0)
    assert row["offset_ns"] - row["lo_ns"] <= OFFSET_NS <= row["offset_ns"] + row["hi_ns"]
    # The bounds are narrower than the shortest creation.
    assert row["lo_ns"] + row["hi_ns"] < 4_470_000
    queues = capture.table("queues").drop_nulls("created_line_event").collect()
    # In the first creation lies the ioctl of ROCr's own queue, too: with such bounds either can be meant.
    assert queues.sort("created_ns")["create_ioctl_event"].is_null().to_list() == [True, False, False]
    links = capture.table("links").filter(pl.col("rule").cast(pl.String) == "ioctl_creates_queue").collect()
    assert len(links) == 2
    assert (links["gap_ns"] + links["gap_err_ns"] >= 0).all()


@pytest.mark.parametrize("claimed", ["mono"])
def test_a_wrong_claim_is_not_believed(claimed: str, tmp_path: Path) -> None:
    write_log(tmp_path / "amd.log")
    write_trace(tmp_path / "ftrace.txt")
    out = tmp_path / "case.tracecorr"
    import_files(out, [tmp_path / "amd.log"], [tmp_path / "ftrace.txt"], clock=claimed)
    correlate(out)
    (row,) = Capture.open(out).table("clock_map").filter(
        pl.col("source").cast(pl.String) == "ftrace:mono"
    ).collect().to_dicts()  # fmt: skip
    assert row["method"] != "same_clock"
