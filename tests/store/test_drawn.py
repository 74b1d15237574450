"""What is drawn of SYNTHETIC packets claims no more than the log tells: the depth of a ring, when a kernel ran."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from tracecorr.model import schema
from tracecorr.timeline.drawn import gpu_bounds, queue_depth


def _table(name: str, *rows: dict[str, Any]) -> pl.LazyFrame:
    known = schema.TABLES[name]
    schemas = {column: known.schema[column] for column in rows[0]} if rows else known.schema
    return known.conform(pl.DataFrame(rows, schema=schemas)).lazy()


def _drawn(*packets: dict[str, Any]) -> list[tuple[int, int, float]]:
    launches = _table("launches", *({"queue": 0, "rptr": 0, **packet} for packet in packets))
    return queue_depth(lambda _: launches).select("start", "end", "value").rows()


def test_a_depth_holds_until_the_next_packet() -> None:
    rows = _drawn(
        {"event": 1, "packet_ns": 10, "complete_ns": None, "wptr": 0},
        {"event": 2, "packet_ns": 50, "complete_ns": 70, "wptr": 1},
    )
    assert rows == [(10, 50, 1.0), (50, 70, 2.0)]


def test_a_ring_whose_packets_are_complete_is_not_drawn_as_full() -> None:
    """A queue that is used once a second is not full for a second."""
    rows = _drawn(
        {"event": 1, "packet_ns": 10, "complete_ns": 60, "wptr": 0},
        {"event": 2, "packet_ns": 1_000, "complete_ns": None, "wptr": 1},
    )
    assert rows == [(10, 60, 1.0), (1_000, 1_000, 2.0)]


@pytest.mark.parametrize(
    ("enqueue_ns", "call_ns", "begin"),
    [(30, 20, 30), (None, 20, 20), (None, None, None)],
    ids=["command", "call", "neither"],
)
def test_a_kernel_may_run_before_its_line_and_its_doorbell(
    enqueue_ns: int | None, call_ns: int | None, begin: int | None
) -> None:
    """A queue that runs takes a packet as soon as it is in the ring, which is before both."""
    packet = {
        "event": 1, "kind": "dispatch", "enqueue_ns": enqueue_ns, "call_ns": call_ns, "packet_ns": 50,
        "doorbell_ns": 60, "complete_ns": 90,
    }  # fmt: skip
    tables = {"launches": _table("launches", packet), "kernels": _table("kernels")}
    rows = gpu_bounds(tables.__getitem__).select("start", "end").rows()
    assert rows == ([] if begin is None else [(begin, 90)])
