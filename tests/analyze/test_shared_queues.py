"""Which queues are shared: by streams that live at the same time, told of SYNTHETIC tables."""

from __future__ import annotations

from typing import Any

import polars as pl
from analyze_tables import Rows, table, tables_of
from synthetic_run import make_run

from tracecorr.analyze.compare.counts import compare_queues
from tracecorr.analyze.evidence import Evidence
from tracecorr.analyze.queues import count_streams_at_once
from tracecorr.analyze.report.questions import answer_questions
from tracecorr.analyze.verdicts import judge_capture


def _use(*lives: tuple[int | None, int | None], queue: int = 0) -> Rows:
    """Return streams of these times of creation and end, which all submitted to one queue when they were made."""
    streams = [
        {"stream": n, "process": 0, "created_ns": made, "destroyed_ns": gone} for n, (made, gone) in enumerate(lives)
    ]
    spans: list[dict[str, Any]] = [
        {"stream": n, "queue": queue, "from_ns": (made or 0) + 5, "to_ns": (made or 0) + 6}
        for n, (made, _) in enumerate(lives)
    ]
    return {"streams": streams, "stream_queues": spans}


def _count(*lives: tuple[int | None, int | None]) -> list[tuple[int, int]]:
    rows = _use(*lives)
    tables = (table(name, *rows[name]) for name in ("streams", "stream_queues"))
    return count_streams_at_once(*tables).rows()


def test_streams_that_follow_each_other_do_not_share_a_queue() -> None:
    assert _count((10, 20), (20, 30), (31, None)) == [(0, 1)]
    assert _count((10, 40), (20, 30), (31, None)) == [(0, 2)]
    # The log shows neither the creation nor the end of the null stream.
    assert _count((None, None), (20, 30), (40, 50)) == [(0, 2)]
    assert _count() == []


def _ask(rows: Rows) -> tuple[str, ...]:
    evidence = Evidence(tables_of({**make_run(), **rows}))
    return answer_questions(evidence, judge_capture(evidence))[3].lines


def test_the_answer_tells_shared_queues_from_those_that_are_used_again() -> None:
    again = _ask(_use((10, 20), (20, 30), (40, None)))
    assert again[-2] == "no queue was shared by streams"
    assert again[-1] == "used by one stream after another: queue 0 by streams 0, 1, 2"
    assert _ask(_use((10, None), (20, 30), (40, None)))[-1] == "shared: queue 0 by streams 0, 1, 2 (2 at once)"
    assert _ask(_use((10, None)))[-1] == "no queue was shared by streams"


def test_a_comparison_counts_the_queues_that_streams_of_one_time_share() -> None:
    again, shared = (
        tables_of({**make_run(), **_use(*lives)}) for lives in (((10, 20), (20, 30)), ((10, 20), (15, 30)))
    )
    rows = dict(compare_queues(again, shared).select("what", pl.struct("a", "b")).iter_rows())
    assert rows["queues shared by streams"] == {"a": 0, "b": 1}
