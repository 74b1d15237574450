"""SYNTHETIC rows of logs that lost lines: when lines are missing, and how many at least."""

from __future__ import annotations

import polars as pl
import pytest

from tracecorr.link.losses.hip_calls import HipCalls
from tracecorr.link.losses.log_losses import list_log_losses, list_torn_calls, list_untold_losses
from tracecorr.model.schema import CAT

Span = tuple[int | None, int | None, int]
_SPANS = {"from_ns": pl.Int64, "to_ns": pl.Int64, "count": pl.Int64}


def lost(packets: list[tuple[int | None, int | None, int]], torn: list[Span]) -> list[Span]:
    """Return the spans that `losses` tells; packets are (queue, index, time)."""
    launches = pl.DataFrame(packets, schema=["queue", "packet_index", "packet_ns"], orient="row")
    found = list_log_losses(
        pl.DataFrame(torn, schema=_SPANS, orient="row"), launches.cast({"queue": pl.UInt32, "packet_index": pl.Int64})
    )
    assert set(found["source"].cast(pl.String)) <= {"amd_log"}
    return found.select("from_ns", "to_ns", "count").rows()


@pytest.mark.parametrize(
    ("packets", "torn", "expected"), [
        ([(0, 5, 10), (0, 6, 20), (1, 0, 30)], [], []),
        ([(0, 0, 10), (1, 7, 20), (0, 3, 40), (1, 8, 90)], [], [(10, 40, 2)]),
        pytest.param([(0, 2, 10), (0, 0, 40), (0, 3, 50)], [], [(10, 40, 1)], id="printed the other way round"),
        pytest.param([(0, 0, 10), (None, 1, 15), (0, None, 20), (0, 4, 30)], [], [(10, 30, 2)], id="no index"),
        pytest.param([(0, 0, 10), (0, None, 20), (0, 2, 30), (0, None, 35), (0, 6, 40)], [], [(30, 40, 2)],
                     id="barriers without index"),
        pytest.param([(0, 0, 10), (0, 2, 20), (0, None, 25), (0, 3, 30)], [], [], id="a barrier printed late"),
        pytest.param([(0, 0, 10), (0, 2, 40)], [(40, 60, 1), (61, 70, 1)], [(10, 60, 2), (61, 70, 1)], id="two spans"),
        pytest.param([], [(20, 30, 1), (10, 100, 1), (50, 60, 1), (200, 210, 1)], [(10, 100, 3), (200, 210, 1)],
                     id="spans in a span"),
        pytest.param([(0, 0, 10), (0, 2, 20), (0, 9, 90)], [], [(10, 90, 7)], id="side by side"),
        pytest.param([(0, 0, 10), (1, 7, 110), (0, 2, 40), (1, 9, 140)], [], [(10, 40, 1), (110, 140, 1)],
                     id="two queues"),
        pytest.param([], [(200, 210, 1), (20, 30, 1), (None, None, 1)], [(20, 30, 1), (200, 210, 1)],
                     id="of two threads, and without a time"),
    ],
)  # fmt: skip
def test_spans_without_lines_are_told_with_what_lacks_at_least(
    packets: list[tuple[int | None, int | None, int]], torn: list[Span], expected: list[Span]
) -> None:
    assert lost(packets, torn) == expected


def torn(events: pl.DataFrame, halves: pl.DataFrame) -> list[Span]:
    found: list[Span] = list_torn_calls(events, HipCalls.of(events), halves).rows()
    return found


@pytest.mark.parametrize(
    ("half", "is_exit", "expected"), [
        (4, True, (100, 400, 1)), (4, False, (400, 700, 1)),
        # Nothing stands on that side of it.
        (1, True, (100, 100, 1)), (6, False, (700, 700, 1)), (5, True, (500, 500, 1)), (2, False, (200, 200, 1)),
        # What stands before and behind it in the file counts.
        (5, False, (200, 500, 1)), (2, True, (200, 500, 1)),
    ],
)  # fmt: skip
def test_the_other_line_of_half_a_call_lacks_between_it_and_the_next_call_of_its_thread(
    half: int, is_exit: bool, expected: Span
) -> None:
    """Calls of thread 0 at 100, 400 and 700, of thread 1 at 500 and behind it at 200; other rows stand between them."""
    events = pl.DataFrame(
        {"event": range(8), "offset": [0, 10, 50, 30, 40, 20, 70, 60], "ts_ns": [0, 100, 200, 300, 400, 500, 700, 600],
         "layer": ["hip", "hip", "hip", "command", "hip", "hip", "hip", "command"],
         "thread": [None, 0, 1, 0, 0, 1, 0, 0], "file": [0] * 8, "end_offset": None, "flags": 0, "name": "hipFree",
         "source": "amd_log"},
        schema_overrides={"layer": CAT, "file": pl.UInt16, "thread": pl.UInt32, "end_offset": pl.Int64},
    )  # fmt: skip
    halves = events[[half]].select("file", "offset", "thread", row="event", name=pl.lit("hipFree"), is_exit=is_exit)
    assert torn(events, halves) == [expected]
    # Another log's calls are not beside it, wherever they stand in their file.
    other = events.with_columns(file=pl.lit(1, pl.UInt16), event=pl.col("event") + 8, offset=pl.col("offset") + 5)
    both = pl.concat([halves, halves.with_columns(file=pl.lit(1, pl.UInt16), row=pl.col("row") + 8)])
    assert torn(pl.concat([events, other]), both) == [expected, expected]


@pytest.mark.parametrize(
    ("spans", "lacking", "untold"), [
        ([], {0: 1e-9}, [(10, 40)]),
        ([], {0: 0.3, 1: 1e-9}, [(10, 40), (100, 200)]),
        pytest.param([], {0: 0.0}, [], id="lines may lack"),
        pytest.param([(20, 20, 1)], {0: 0.3, 1: 0.3}, [(100, 200)], id="a span tells when"),
        pytest.param([(50, 60, 1)], {0: 0.3}, [(10, 40)], id="a span of another log"),
        pytest.param([(50, 60, 1)], {}, [], id="no file lacks lines"),
    ],
)  # fmt: skip
def test_a_file_that_lacks_lines_nobody_knows_when_has_a_span_over_all_of_it(
    spans: list[Span], lacking: dict[int, float], untold: list[tuple[int, int]]
) -> None:
    rows = [(0, 10), (0, 40), (1, 100), (1, 200), (1, None), (2, 5)]
    printed = [(*row, "hip") for row in rows]
    kinds = {"file": pl.UInt16, "ts_ns": pl.Int64, "layer": pl.Categorical()}
    events = pl.DataFrame([(0, 3, "gpu"), *printed], schema=kinds, orient="row")
    losses = pl.DataFrame(list(lacking.items()), schema={"file": pl.UInt16, "lost": pl.Float64}, orient="row")
    found = list_untold_losses(pl.DataFrame(spans, schema=_SPANS, orient="row"), losses, events)
    assert found.select("from_ns", "to_ns").rows() == untold
    assert found["count"].null_count() == found.height
