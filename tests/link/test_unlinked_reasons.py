"""SYNTHETIC logs and traces: what a launch says of the first link on its path that is missing."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from tracecorr.pipeline import correlate, import_files
from tracecorr.store import Capture

_NAMED, _NAMELESS = "[pid:9 tid: 0x7f00]", ""
_ENTER = "\x1b[32m hipLaunchKernel ( 0x55f9, {1,1,1}, {64,1,1}, 0x7f51, 0, stream:0x70 ) \x1b[0m"
_LEAVE = "hipLaunchKernel: Returned hipSuccess : : duration: 9 us"
_COMMAND = "Command (KernelExecution) enqueued: 0x16 to queue: 0x70"
_DISPATCH = "SWq=0x22, HWq=0x3c00000, id=1, Dispatch Header = 0xb02 (type=2), setup=1"
_INDEX = ", rptr=0, wptr=7"
_COPY = "HSA Async Copy on copy_engine=0x1, dst=0x10, src=0x20, size=64, forceSDMA=0, wait_event=0x0, "
_COPY += "completion_signal=0x7f3b00"
_INVALID = "Invalid signal timing: start=9, end=7, signal=0x7f3b00"
_STORE = "doorbell: (0x7f91946c11c0) sig=0x50 val={} swq=0x22 ring=0x3c00000 id=1"


def reasons(
    folder: Path,
    messages: list[str],
    trace: list[str] | None = None,
    *,
    owner: str = _NAMED,
    clock: str | None = None,
    begin: int = 0,
) -> list[str | None]:
    """Return the reasons of the launches of a log with these messages and of a trace with these records.

    The trace begins `begin` microseconds after the log.
    """
    lines = [
        f":3:hip_module.cpp           :825 : {100000000 + 10 * n} us: {owner} {message}\n"
        for n, message in enumerate(messages)
    ]
    (folder / "amd.log").write_text("".join(lines))
    records = [f"  app-9 (      9) [000] ..... 100.{n:06d}: {body}\n" for n, body in enumerate(trace or [], begin)]
    (folder / "trace.txt").write_text("# tracer: nop\n#\n" + "".join(records))
    out = folder / "x.tracecorr"
    import_files(out, [folder / "amd.log"], [folder / "trace.txt"] if trace else [], clock=clock)
    correlate(out)
    found = Capture.open(out).table("launches").sort("event").collect()
    return found["unlinked_reason"].cast(pl.String).to_list()


_LAUNCH = [_ENTER, _COMMAND, _DISPATCH + _INDEX, _LEAVE]


@pytest.mark.parametrize(
    ("trace", "clock", "reason"), [
        (None, None, "no kernel trace"),
        (["sys_getpid()"], "mono", "no doorbell probe in the trace"),
        ([_STORE.format(8), *["sys_getpid()"] * 20], "mono", "no doorbell store with this index at its time"),
        ([_STORE.format(7)] * 2, "counter", "the clock of the trace is not known"),
    ],
)  # fmt: skip
def test_why_a_packet_has_no_doorbell(trace: list[str] | None, clock: str | None, reason: str, tmp_path: Path) -> None:
    assert reasons(tmp_path, _LAUNCH, trace, clock=clock) == [reason]


@pytest.mark.parametrize(
    ("begin", "reason"),
    [
        (10, "the kernel trace ended before it"), (15, "no doorbell store with this index at its time"),
        (60, "the kernel trace began after it"),
    ],
)  # fmt: skip
def test_a_packet_beside_the_trace_says_so(begin: int, reason: str, tmp_path: Path) -> None:
    """The packet is printed 20 us after the log began; the trace lasts 6 us."""
    trace = ["sys_getpid()", _STORE.format(8), *["sys_getpid()"] * 5]
    assert reasons(tmp_path, _LAUNCH, trace, clock="mono", begin=begin) == [reason]


@pytest.mark.parametrize(
    ("messages", "owner", "reason"), [
        pytest.param([_ENTER, _COMMAND.replace("KernelExecution", "CopyHostToDevice"), _COPY, _LEAVE], _NAMED, None,
                     id="a copy rings no doorbell"),
        ([_ENTER, _COMMAND.replace("KernelExecution", "CopyHostToDevice"), _COPY, _LEAVE, _INVALID], _NAMED,
         "the runtime calls the GPU time of its signal invalid"),
        ([_ENTER, _COMMAND, _DISPATCH, _LEAVE], _NAMED, "the log prints no packet index and it cannot be counted"),
        ([_ENTER, _DISPATCH + _INDEX, _LEAVE], _NAMED, "no command line before it in its call"),
        ([_ENTER, _COMMAND, _LEAVE, _DISPATCH + _INDEX], _NAMED, "no enclosing HIP call in the log"),
        ([_ENTER, _COMMAND, _LEAVE, _DISPATCH + _INDEX], _NAMELESS,
         "the log names no thread: its HIP call is not certain"),
    ],
)  # fmt: skip
def test_the_first_missing_link_is_named(messages: list[str], owner: str, reason: str | None, tmp_path: Path) -> None:
    assert reasons(tmp_path, messages, owner=owner) == [reason]
