"""HAND-MADE counts of hardware queues: each is followed by the line that tells what came of it, or a line lacks."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from index_logs import packet, records

from tracecorr.link.losses.queue_losses import list_unanswered, list_unanswered_calls
from tracecorr.model.kinds import QUEUE_CREATED, QUEUE_SELECTED, QUEUES_COUNTED


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
        pytest.param([_count(), _count(file=1), _made(), _count(), _made()], False, id="of two logs"),
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
