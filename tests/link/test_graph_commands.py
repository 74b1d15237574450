"""Packets of a graph launch and the one command that is enqueued behind them (synthetic logs)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hip_logs import correlate_messages

_ENTER = "\x1b[32m hipGraphLaunch ( 0x50, 0x66 ) \x1b[0m"
_LEAVE = "hipGraphLaunch: Returned hipSuccess : : duration: 9 us"
_TASK = "Command (Task) enqueued: 0x55 to queue: 0x66"
_BRANCH = "Command (Task) enqueued: 0x56 to queue: 0x88"
_MARKER = "Command (Marker) enqueued: 0x77 to queue: 0x66"


def _dispatch(index: int, ring: int = 0x3C00000) -> str:
    return f"SWq=0x22, HWq={ring:#x}, id=1, Dispatch Header = 0xb02 (type=2), setup=1, rptr=0, wptr={index}"


def _commands(folder: Path, *messages: str) -> list[Any]:
    """Return of each dispatch its command and the name of the line that names it."""
    capture = correlate_messages(folder, *messages)
    events = capture.table("events")
    lines = events.select(command_event="event", by=pl.col("name").cast(pl.String))
    launches = capture.table("launches").filter(pl.col("kind").cast(pl.String) == "dispatch")
    found = launches.join(events.select("event", "command"), on="event").join(lines, on="command_event", how="left")
    return found.sort("event").select("command", "by").collect().rows()


@pytest.mark.parametrize(
    ("messages", "known"),
    [
        ((_ENTER, _dispatch(0), _dispatch(1), _TASK, _LEAVE), [(0x55, "Task")] * 2),
        # A marker makes no dispatch: what is written behind it is the task's.
        ((_ENTER, _MARKER, _dispatch(0), _TASK, _LEAVE), [(0x55, "Task")]),
        # The task of the next launch is not that of this one.
        ((_ENTER, _dispatch(0), _LEAVE, _ENTER, _TASK, _LEAVE), [(None, None)]),
        # Two rings, one command: it is not known which packets are its own.
        ((_ENTER, _dispatch(0), _dispatch(0, 0x5000000), _TASK, _LEAVE), [(None, None)] * 2),
        # Two branches, each with its command behind it; where Direct Dispatch is off nothing stands in between.
        ((_ENTER, _dispatch(0), _TASK, _dispatch(0, 0x5000000), _BRANCH, _LEAVE), [(0x55, "Task"), (0x56, "Task")]),
        ((_ENTER.replace("Graph", "Other"), _dispatch(0), _TASK, _LEAVE.replace("Graph", "Other")), [(None, None)]),
    ],
)
def test_packets_of_a_graph_launch(tmp_path: Path, messages: tuple[str, ...], known: list[Any]) -> None:
    assert _commands(tmp_path, *messages) == known


def test_a_graph_launch_in_which_the_log_ends_is_no_sign_of_lost_lines(tmp_path: Path) -> None:
    """It enqueues its command last: a program that was killed in it prints none."""
    whole = [message for n in range(3) for message in (_ENTER, _dispatch(n), _TASK, _LEAVE)]
    capture = correlate_messages(tmp_path, *whole, _ENTER, _dispatch(3))
    launches = capture.table("launches").select("command_event", "unlinked_reason", "packet_index").collect()
    assert launches["command_event"].is_null().to_list() == [False, False, False, True]
    assert launches["unlinked_reason"][3] == "the log ends in its call"
