"""HAND-MADE logs whose packets were counted, and what doorbell stores tell of the rest, or disprove."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from index_logs import RING, counted, line, made, packet, records, store

from tracecorr.link.doorbells import list_contradicted
from tracecorr.link.packet_index import check_indexes, complete_indexes
from tracecorr.model.schema import CAT


def _shared(*stores: dict[str, Any]) -> pl.DataFrame:
    """Return a log in which the second packets of two threads may have any order, and stores of the trace."""
    log = [made(), line(0), line(1), packet(0), line(0), line(1), packet(1), line(1), line(0), packet(0), packet(1),
           line(1), line(0), packet(0)]  # fmt: skip
    rows = complete_indexes(records(*log, *stores))
    assert counted(rows) == [0, 1, None, None, 4]
    return check_indexes(rows)


def test_stores_tell_the_order_of_threads() -> None:
    rows = _shared(store(0, 0), store(1, 1), store(1, 2), store(0, 3), store(0, 4))
    assert counted(rows) == [0, 1, 3, 2, 4]
    assert rows.filter(pl.col("name") == "dispatch")["index_counted"].to_list() == [True] * 5


def test_a_store_that_was_lost_tells_no_order() -> None:
    assert counted(_shared(store(0, 0), store(1, 1), store(0, 3), store(0, 4))) == [0, 1, 3, None, 4]


def told(printed: list[int | None], stored: list[int], *more: dict[str, Any]) -> list[int | None]:
    """Return the indexes of packets of one thread after its stores were compared; the latest store comes first."""
    lines = [packet(0, index, index_counted=False) for index in printed]
    stores = [{**store(0, value), "stamp_ns": 10 * value, "index_counted": False} for value in reversed(stored)]
    found = check_indexes(records(*lines, *stores, *({**row, "index_counted": False} for row in more)))
    return counted(found.filter(pl.col("ring") == RING, pl.col("source") == "amd_log"))


@pytest.mark.parametrize(
    ("printed", "stored", "expected"), [
        ([None, 1, None], [0, 1, 2], [0, 1, 2]),
        pytest.param([None, 1, None], [1, 2], [None, 1, 2], id="the trace begins late"),
        pytest.param([None, 1, None], [0, 1], [0, 1, None], id="the trace ends early"),
        pytest.param([None, None], [3, 4], [3, 4], id="no packet prints its index"),
        pytest.param([0, None, 4, None, 9, None, 20, None, 22], [0, 2, 5, 7, 9, 20, 21, 22],
                     [0, None, 4, None, 9, None, 20, 21, 22], id="beside a known packet stands another store"),
    ],
)  # fmt: skip
def test_each_store_is_that_of_one_packet_if_none_is_missing(
    printed: list[int | None], stored: list[int], expected: list[int | None]
) -> None:
    assert told(printed, stored) == expected
    # What another queue or process lacks says nothing.
    other = {"ring": RING + 1}
    bare = [{**packet(0, None), **other}, {**store(0, 1), **other}, {**store(0, 2), **other}]
    assert told(printed, stored, *bare) == expected
    again = [{**packet(5, 7), "process": 1, "file": 1}, {**store(5, 8), "process": 1}]
    assert told(printed, stored, *again) == [*expected, 7]
    # They may have the same indexes.
    same = [{**packet(0, None), **other}, {**store(0, stored[0]), **other}]
    assert told(printed, stored, *same) == expected
    same = [{**packet(5, None), "process": 1, "file": 1}, {**store(5, stored[0]), "process": 1}]
    assert told(printed, stored, *same) == [*expected, stored[0]]


def test_stores_that_fall_or_come_twice_tell_no_index() -> None:
    assert counted(_shared(store(0, 0), store(1, 2), store(1, 1), store(0, 3), store(0, 4))) == [0, 1, 3, None, 4]
    assert counted(_shared(store(0, 0), store(1, 1), store(1, 2), store(0, 2), store(0, 4))) == [0, 1, None, None, 4]
    falling = records(packet(), packet(), store(0, 4), store(0, 3)).with_columns(index_counted=pl.lit(value=False))
    assert counted(check_indexes(falling)) == [None, None]


def test_an_index_that_is_stored_without_a_packet_disproves_the_counts() -> None:
    """Thread 1 stored once more than it printed: a line of it was lost, and all packets behind it are further on."""
    assert counted(_shared(store(0, 0), store(1, 1), store(1, 2), store(0, 3), store(1, 4), store(0, 5))) == [None] * 5


def test_an_index_that_is_stored_without_a_packet_disproves_the_counts_of_rings_without_stores() -> None:
    """Ring 1 lacks a packet, so its log lost lines: of ring 2 only what lies before a printed index is sure."""
    other, third = {"ring": RING + 1}, {"ring": RING + 2}
    log = [packet(0, 0, index_counted=True), {**packet(0, 0, index_counted=True), **other},
           {**packet(0, 1, index_counted=False), **other}, {**packet(0, 2, index_counted=True), **other},
           {**packet(0, 0, index_counted=True), **third}, {**store(0, 0), **third},
           {**packet(0, 0, index_counted=True), "file": 1, "process": 1}]  # fmt: skip
    few = [{**row, "index_counted": row.get("index_counted")} for row in (*log, store(0, 0))]
    assert counted(check_indexes(records(*few))) == [0, 0, 1, 2, 0, 0]
    more = {**store(0, 1), "index_counted": None}
    assert counted(check_indexes(records(*few, more))) == [None, 0, 1, None, 0, 0]


@pytest.mark.parametrize(
    ("stored", "expected"), [
        pytest.param(3, [0, 1, 2, None], id="as many as packets"),
        pytest.param(4, [0, 1, 2, None], id="one may be that of the packet without an index"),
        pytest.param(5, [0, 1, None, None], id="more than packets"),
    ],
)  # fmt: skip
def test_stores_of_unknown_rings_disprove_counts_where_a_thread_has_more_of_them_than_packets(
    stored: int, expected: list[int | None]
) -> None:
    """Packet 1 prints its index: what was counted before it holds in any case."""
    lines = [packet(0, 0, index_counted=True), packet(0, 1, index_counted=False), packet(0, 2, index_counted=True),
             packet(0, None, index_counted=False)]  # fmt: skip
    stores = [{**store(0, n), "ring": None, "index_counted": None} for n in range(stored)]
    assert counted(check_indexes(records(*lines, *stores))) == expected


def test_stores_at_other_times_disprove_the_counts_of_their_queue() -> None:
    shape = {"queue": pl.UInt32, "thread": pl.UInt32}
    packets = pl.DataFrame(
        [{"event": n, "queue": n // 3, "thread": 0, "chain": n, "name": "dispatch", "graph": False,
          "packet_index": n % 3, "doorbell_lo_ns": 100 * n, "doorbell_hi_ns": 100 * n + 99, "index_counted": n != 1}
         for n in range(6)],
        schema_overrides={**shape, "name": CAT},
    )  # fmt: skip
    stores = pl.DataFrame(
        [{"event": 100 + n, "queue": n // 3, "thread": 0, "ts_ns": 100 * n + (150 if n == 2 else 50),
          "packet_index": n % 3, "err_lo_ns": 0, "err_hi_ns": 0, "ring_learned": False} for n in (0, 2, 3)],
        schema_overrides=shape,
    )  # fmt: skip
    # Packet 0 has its store, packet 1 prints its index; queue 1 lacks stores, which disproves nothing.
    assert list_contradicted(stores, packets).to_list() == [2]
