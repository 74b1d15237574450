"""HAND-MADE counts of hardware queues: each is followed by the line that tells what came of it, or a line lacks."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from index_logs import packet, records

from tracecorr.link.losses.queue_losses import list_crowded, list_unanswered, list_unanswered_calls, list_unshown
from tracecorr.model.kinds import QUEUE_CREATED, QUEUE_SELECTED, QUEUES_COUNTED, Flag
from tracecorr.model.schema import CAT
from tracecorr.read.kfd.ioctls import CREATE_QUEUE


def _count(thread: int | None = 0, **more: Any) -> dict[str, Any]:
    return {"name": QUEUES_COUNTED, "thread": thread, **more}


def _made(thread: int | None = 0, name: str = QUEUE_CREATED) -> dict[str, Any]:
    return {"name": name, "thread": thread}


@pytest.mark.parametrize(
    ("rows", "lacks"),
    [
        pytest.param([_count(), _made(), _count(), _made(name=QUEUE_SELECTED)], False, id="all are answered"),
        pytest.param([_count(), _count(), _made(), _count(), _made()], True, id="one is not"),
        pytest.param([_count(), packet(), _count(), _made(), _count(), _made()], True, id="other lines between"),
        pytest.param([_count(), _count(), _made(), _count()], True, id="the last may still be answered"),
        pytest.param([_count(), _count(), _made()], False, id="of half of them nothing comes: not printed"),
        pytest.param([_count(), _count(1), _made(1), _made(), _count(), _made()], False, id="two threads at once"),
        pytest.param([_count(None), _count(None), _count(), _made(), _count(), _made()], False, id="whose is unknown"),
    ],
)
def test_a_count_that_another_one_follows_lacks_its_answer(rows: list[dict[str, Any]], lacks: bool) -> None:
    frame = records(*rows)
    for given in (frame, frame.reverse()):
        assert list_unanswered(given)["file"].to_list() == [0] * lacks


def test_each_log_tells_of_its_own_lines() -> None:
    whole = [_count(), _made()] * 3
    lossy = [{**row, "file": 1} for row in (_count(), _count(), _made(), _count(), _made())]
    assert list_unanswered(records(*whole, *lossy))["file"].to_list() == [1]
    assert list_unanswered(pl.concat([records(*whole)])).is_empty()


@pytest.mark.parametrize(
    ("second", "lacking"),
    [
        pytest.param([_count(), _made()], [], id="answered"),
        pytest.param([_count()], [1], id="a count alone"),
        pytest.param([_count(), _made(name=QUEUE_SELECTED)], [], id="taken"),
        pytest.param([_made()], [], id="an answer alone"),
        pytest.param([_count(), _made(), _made(name=QUEUE_SELECTED)], [1], id="two answers"),
        pytest.param([_count(), _made(), _count(), _made()], [], id="two counts"),
        pytest.param([], [], id="no count"),
    ],
)
def test_a_call_whose_count_lacks_its_answer_lacks_lines(second: list[dict[str, Any]], lacking: list[int]) -> None:
    """Of three calls the others count the queues and make one."""
    calls = [[_count(), _made()], second, [_count(), _made()]]
    frame = records(*({**row, "parent": call} for call, rows in enumerate(calls) for row in rows))
    for damaged in ([0, 1, 2], [0, 2], []):
        found = list_unanswered_calls(pl.DataFrame({"event": damaged}, schema={"event": pl.Int64}), frame)
        assert found["event"].to_list() == [call for call in lacking if call in damaged]


def test_where_most_counts_lack_an_answer_none_is_printed() -> None:
    frame = records(*({**_count(), "parent": call} for call in range(3)))
    assert list_unanswered_calls(pl.DataFrame({"event": [0, 1, 2]}), frame).is_empty()


def _placed(*rows: tuple[str, int, int], error: int | None = 2) -> pl.DataFrame:
    """Return placed rows: name, time (us), thread."""
    made = [
        {"file": 0, "offset": 10 * n, "thread": thread, "name": name, "ts_ns": 1000 * at, "dur_ns": None,
         "layer": "ioctl" if name == CREATE_QUEUE else "aql", "parent": None}
        for n, (name, at, thread) in enumerate(rows)
    ]  # fmt: skip
    types = {"file": pl.UInt16, "name": CAT, "layer": CAT, "dur_ns": pl.Int64, "parent": pl.Int64}
    errors = (pl.lit(error, pl.UInt32).alias(name) for name in ("err_lo_ns", "err_hi_ns"))
    return pl.DataFrame(made, schema_overrides=types).with_columns(*errors)


_TURNS = [row for n in range(3) for row in ((QUEUES_COUNTED, 100 * n, 1), (QUEUE_SELECTED, 100 * n + 50, 1))]


@pytest.mark.parametrize(
    ("asked", "error", "lacking"),
    [
        pytest.param((CREATE_QUEUE, 120, 1), 2, [1], id="made in it"),
        pytest.param((CREATE_QUEUE, 170, 1), 2, [], id="made outside"),
        pytest.param((CREATE_QUEUE, 120, 2), 2, [], id="by another thread"),
        pytest.param((CREATE_QUEUE, 120, 1), 40_000, [], id="perhaps outside"),
        pytest.param((CREATE_QUEUE, 120, 1), None, [], id="on a clock that is not known"),
    ],
)
def test_a_thread_that_makes_a_queue_takes_no_other_one(
    asked: tuple[str, int, int], error: int | None, lacking: list[int]
) -> None:
    """Its Created line, and the count before the Selected one, were lost."""
    events = _placed(*_TURNS, asked, error=error)
    assert list_unshown(events).to_list() == [0] * len(lacking)
    parents = pl.Series([0, 0, 1, 1, 2, 2, None], dtype=pl.Int64)
    calls = pl.DataFrame({"event": [0, 1, 2]})
    found = list_unanswered_calls(calls, events.with_columns(parent=parents))
    assert found["event"].to_list() == lacking


def test_a_thread_that_makes_a_queue_prints_that() -> None:
    made = [*_TURNS[:3], (QUEUE_CREATED, 150, 1), *_TURNS[4:]]
    assert list_unshown(_placed(*made, (CREATE_QUEUE, 120, 1))).is_empty()
    assert list_unshown(_placed(*made)).is_empty()


def _mixed(*steps: str, thread: int | None = None) -> list[int]:
    """Return the files with too many counts, of one that shows enters and exits of calls, and counts and answers."""
    flags = {"enter": int(Flag.ENTER_ONLY), "exit": int(Flag.EXIT_ONLY)}
    made = [
        {"file": 0, "offset": 10 * n, "end_offset": 10 * n if step == "exit" else None, "thread": thread,
         "name": {"count": QUEUES_COUNTED, "made": QUEUE_CREATED}.get(step, step), "source": "amd_log",
         "layer": "hip" if step in flags else "aql", "flags": flags.get(step)}
        for n, step in enumerate(steps)
    ]  # fmt: skip
    types = {"file": pl.UInt16, "name": CAT, "layer": CAT, "source": CAT, "flags": pl.UInt16, "end_offset": pl.Int64}
    return list_crowded(pl.DataFrame(made, schema_overrides=types))["file"].to_list()


def test_in_a_log_without_threads_each_count_that_waits_is_of_an_open_call() -> None:
    assert _mixed("enter", "count", "enter", "count", "made", "exit", "made", "exit") == []
    # An exit and an enter between the counts were lost.
    assert _mixed("enter", "count", "count", "made", "exit") == [0]
    assert _mixed("enter", "enter", "exit", "count", "count", "made", "exit") == [0]
    assert _mixed("enter", "count", "count", "made", "exit", thread=1) == []
    # It begins within a call, or within the making of a queue.
    assert _mixed("exit", "enter", "count", "made", "exit") == []
    assert _mixed("made", "enter", "count", "count", "made", "exit") == [0]
    assert _mixed("enter", "exit") == []


def test_threads_that_make_no_calls_may_count_the_queues() -> None:
    assert _mixed("count", "made", "enter", "count", "count", "made", "exit") == []
