"""What is drawn of SYNTHETIC packets: the depth of a ring claims no more than the log tells."""

from __future__ import annotations

from typing import Any

import polars as pl

from tracecorr.model import schema
from tracecorr.store.views.drawn import queue_depth


def _drawn(*packets: dict[str, Any]) -> list[tuple[int, int, float]]:
    known = schema.TABLES["launches"]
    rows = [{"queue": 0, "rptr": 0, **packet} for packet in packets]
    frame = known.conform(pl.DataFrame(rows, schema={name: known.schema[name] for name in rows[0]}))
    return queue_depth(lambda _: frame.lazy()).select("start", "end", "value").rows()


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
