"""Commands that are enqueued inside of another one, and packets that no command writes (SYNTHETIC logs as HIP 7.2.4).

The order of the lines is that of hipLaunchHostFunc and hipStreamDestroy of HIP 7.2.4 on a null GPU.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hip_logs import correlate_messages

_OUTER, _INNER, _NEXT = 0x51, 0x52, 0x53
_LOST = "hipFree: Returned hipSuccess : "


def _enqueue(command: int, kind: str = "InternalMarker", stream: int = 0x66) -> str:
    return f"Command ({kind}) enqueued: {command:#x} to queue: {stream:#x}"


def _barrier(index: int, signal: int) -> str:
    return (
        f"SWq=0x22, HWq=0x3c00000, id=6, BarrierAND Header = 0x1503 (type=3, barrier=1, acquire=2, release=2), "
        f"dep_signal=[0x0, 0x0, 0x0, 0x0, 0x0], completion_signal={signal:#x}, rptr=0, wptr={index}"
    )


def _dispatch(index: int) -> str:
    return f"SWq=0x22, HWq=0x3c00000, id=6, Dispatch Header = 0xb02 (type=2), setup=1, rptr=0, wptr={index}"


def _call(name: str, *messages: str) -> list[str]:
    return [f"\x1b[32m {name} ( 0x66 ) \x1b[0m", *messages, f"{name}: Returned hipSuccess : "]


def _launches(folder: Path, messages: list[str]) -> pl.DataFrame:
    """Return command (pointer), kind, complete_us and unlinked_reason of the packets of one thread's lines."""
    capture = correlate_messages(folder, *messages)
    lines = capture.table("events").select(command_event="event", pointer="command")
    launches = capture.table("launches").join(lines, on="command_event", how="left").sort("event")
    done = (pl.col("complete_ns") - pl.col("complete_ns").min()) // 1000
    return launches.select("pointer", pl.col("kind").cast(pl.String), done=done, why="unlinked_reason").collect()


def _host_function(*behind: str) -> list[str]:
    """Return the lines of a callback: a marker, and in it one for what is in the stream before it."""
    inside = [_enqueue(_OUTER), _enqueue(_INNER), _barrier(0, 0xA0), _barrier(1, 0xA1), _enqueue(_NEXT)]
    return _call("hipLaunchHostFunc", *inside, _barrier(2, 0xA2), *behind)


def test_a_packet_behind_that_of_an_inner_marker_is_of_the_command_around_it(tmp_path: Path) -> None:
    ends = [f"Command {command:#x} complete (Wall: 1, CPU: 0, GPU: 0 us)" for command in (_INNER, _OUTER, _NEXT)]
    found = _launches(tmp_path, [*_host_function(), *ends])
    assert found["pointer"].to_list() == [_INNER, _OUTER, _NEXT]
    assert found["done"].to_list() == [0, 1, 2]


@pytest.mark.parametrize(
    ("inside", "expected"),
    [
        # A marker that waits for more signals than one packet holds writes more of them, of which the last completes.
        ([_enqueue(_OUTER), _enqueue(_INNER), _barrier(0, 0), _barrier(1, 0xA1)], [_INNER, _INNER]),
        ([_enqueue(_OUTER, "KernelExecution"), _enqueue(_INNER), _barrier(0, 0xA0), _dispatch(1)], [_INNER, _OUTER]),
        ([_enqueue(_OUTER), _barrier(0, 0xA0), _enqueue(_INNER), _barrier(1, 0xA1), _barrier(2, 0xA2)],
         [_OUTER, _INNER, None]),
        ([_enqueue(_OUTER, stream=0x77), _enqueue(_INNER), _barrier(0, 0xA0), _barrier(1, 0xA1)], [_INNER, None]),
        ([_enqueue(_OUTER), _enqueue(_INNER), *(_barrier(n, 0xA0 + n) for n in range(3))], [_INNER, _OUTER, None]),
    ],
    ids=["two packets of one marker", "a kernel around it", "one that has its packet", "another stream", "too many"],
)  # fmt: skip
def test_what_a_command_around_a_marker_may_write(tmp_path: Path, inside: list[str], expected: list[Any]) -> None:
    assert _launches(tmp_path, _call("hipEventRecord", *inside))["pointer"].to_list() == expected


def test_a_kernel_behind_the_barrier_that_frees_memory_for_arguments_has_its_command(tmp_path: Path) -> None:
    """As HIP 6.4.3 prints them; in a log that lost lines the barrier may be that of a marker."""
    flush = ["Issue barrier to flush chunk 0", _barrier(0, 0xA0)]
    lines = _call("hipLaunchKernel", _enqueue(_OUTER, "KernelExecution"), *flush, _dispatch(1))
    assert _launches(tmp_path, lines)["pointer"].to_list() == [_OUTER, _OUTER]
    shutil.rmtree(tmp_path / "log.tracecorr")
    lost = [*_call("hipFree") * 400, *lines, _LOST, _LOST, *_call("hipFree")]
    assert _launches(tmp_path, lost)["pointer"].to_list() == [_OUTER, None]


def test_the_command_of_another_call_is_not_around_a_marker(tmp_path: Path) -> None:
    lines = [*_call("hipEventRecord", _enqueue(_OUTER)), *_call("hipEventRecord", _enqueue(_INNER), _barrier(0, 0xA0),
                                                                _barrier(1, 0xA1))]  # fmt: skip
    assert _launches(tmp_path, lines)["pointer"].to_list() == [_INNER, None]


_END = f"Command {_INNER:#x} complete (Wall: 1, CPU: 0, GPU: 0 us)"
_TASK = _enqueue(_OUTER, "Task")


@pytest.mark.parametrize(
    ("lines", "whole", "lossy"),
    [
        (_host_function(), [_INNER, _OUTER, _NEXT], [_INNER, None, _NEXT]),
        (_call("hipEventRecord", _enqueue(_INNER), _END, _barrier(0, 0xA0)), [_INNER], [None]),
        (_call("hipGraphLaunch", _barrier(0, 0xA0), _dispatch(1), _TASK), [_OUTER, _OUTER], [None, _OUTER]),
    ],
    ids=["behind the packet of a marker", "behind the printed end", "before the command of a graph launch"],
)
def test_where_lines_were_lost_a_packet_that_may_be_of_a_lost_command_has_none(
    tmp_path: Path, lines: list[str], whole: list[Any], lossy: list[Any]
) -> None:
    assert _launches(tmp_path, lines)["pointer"].to_list() == whole
    lost = [*_call("hipFree") * 400, *lines, _LOST, _LOST, *_call("hipFree")]
    shutil.rmtree(tmp_path / "log.tracecorr")
    assert _launches(tmp_path, lost)["pointer"].to_list() == lossy


def test_a_stream_that_is_destroyed_waits_by_a_barrier_without_a_command(tmp_path: Path) -> None:
    """That is no sign of lost lines: the commands of other calls keep their ends."""
    calls = [_call("hipStreamDestroy", _enqueue(0x90 + n), _barrier(n, 0xA0 + n)) for n in range(3)]
    flushed = _call("hipStreamDestroy", _barrier(3, 0xA3), "Host wait on completion_signal=0xa3")
    ends = [f"Command {0x90 + n:#x} complete (Wall: 1, CPU: 0, GPU: 0 us)" for n in range(3)]
    found = _launches(tmp_path, [line for call in (*calls, flushed) for line in call] + ends)
    assert found["done"].to_list() == [0, 1, 2, None]
    assert found["why"].to_list()[3] == "no command line before it in its call"
