"""HAND-MADE queue creations: where a thread made more queues than its lines tell, lines of a lossy log are missing."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from tracecorr.link.bursts import list_burst_calls, number_packet_gaps
from tracecorr.link.creation_gaps import add_creation_gaps
from tracecorr.link.packet_gaps import list_packet_gaps
from tracecorr.model.schema import CAT

_TYPES = {
    "file": pl.UInt16, "thread": pl.UInt32, "offset": pl.Int64, "end_offset": pl.Int64, "ts_ns": pl.Int64,
    "dur_ns": pl.Int64, "err_lo_ns": pl.UInt32, "layer": CAT, "name": CAT, "source": CAT, "clock": CAT,
    "ring": pl.UInt64, "packet_index": pl.Int64,
}  # fmt: skip
LOSSY = pl.DataFrame({"file": [0], "lost": [0.01]}, schema={"file": pl.UInt16, "lost": pl.Float64})


def line(at: int, name: str, **more: Any) -> dict[str, Any]:
    """Return a line whose place in the log is its time."""
    shared = {"file": 0, "thread": 1, "layer": "aql", "source": "amd_log", "clock": "mono", "err_lo_ns": 0}
    return {"ts_ns": at, "offset": at, "name": name, **shared, **more}


def ioctl(at: int, **more: Any) -> dict[str, Any]:
    shared = {"file": 1, "thread": 1, "layer": "ioctl", "source": "ftrace", "clock": "mono", "err_lo_ns": 0}
    return {"ts_ns": at, "offset": at, "name": "AMDKFD_IOC_CREATE_QUEUE", **shared, **more}


def gaps_of(*rows: dict[str, Any], losses: pl.DataFrame = LOSSY) -> pl.DataFrame:
    events = pl.DataFrame(list(rows), schema=_TYPES)
    return add_creation_gaps(list_packet_gaps(events), events, losses)


CALL = line(0, "hipStreamCreate", layer="hip", dur_ns=95, end_offset=95)
COUNT, CREATED = line(5, "queue_allocated_count"), line(90, "queue_created")
TWO = [CALL, COUNT, ioctl(20), ioctl(60), CREATED]


def test_two_queues_that_were_made_for_one_created_line_are_a_place_of_lost_lines() -> None:
    gaps = gaps_of(*TWO)
    assert gaps.select("file", "low", "high", "missing").rows() == [(0, 5, 90, 2)]
    calls = pl.DataFrame(
        {"event": [0, 1], "file": [0, 0], "low": [0, 96], "high": [95, 200]}, schema_overrides={"file": pl.UInt16}
    )
    assert list_burst_calls(calls, number_packet_gaps(gaps))["event"].to_list() == [0]


@pytest.mark.parametrize(
    "rows", [
        pytest.param([CALL, COUNT, ioctl(20), CREATED], id="one queue"),
        pytest.param([*TWO, line(40, "queue_created")], id="a Created line for each"),
        pytest.param([CALL, COUNT, ioctl(20), ioctl(60), line(90, "other")], id="no Created line"),
        pytest.param([CALL, COUNT, ioctl(20), ioctl(60, thread=2), CREATED], id="another thread"),
        pytest.param([CALL, COUNT, ioctl(20), ioctl(60, err_lo_ns=None), CREATED], id="an unaligned trace"),
        pytest.param([CALL, COUNT, ioctl(20), ioctl(20, file=2), CREATED], id="two copies of a trace"),
        pytest.param([CALL, COUNT, ioctl(20), ioctl(60, name="AMDKFD_IOC_UPDATE_QUEUE"), CREATED], id="an update"),
    ],
)  # fmt: skip
def test_other_creations_are_no_place_of_lost_lines(rows: list[dict[str, Any]]) -> None:
    assert gaps_of(*rows).is_empty()


def test_in_a_log_of_which_nothing_shows_a_loss_the_first_queue_is_one_of_rocr() -> None:
    assert gaps_of(*TWO, losses=LOSSY.clear()).is_empty()
    assert gaps_of(*TWO, losses=LOSSY.with_columns(file=pl.lit(3, pl.UInt16))).is_empty()
