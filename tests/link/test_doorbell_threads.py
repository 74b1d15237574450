"""Threads by doorbells: which thread of the log wrote the packets that a thread of the trace stored (HAND-MADE)."""

from __future__ import annotations

from collections.abc import Iterable

import polars as pl
import pytest

from tracecorr.link.threads.doorbell_threads import match_doorbells, select_lines, select_stores
from tracecorr.model.schema import CAT

RING = 0x3C00000
Packets = dict[int, Iterable[int]]
_UNTIMED = {name: pl.lit(None, pl.Int64) for name in ("doorbell_lo_ns", "doorbell_hi_ns")}


def matched(stored: Packets, printed: Packets, *, rings: dict[int, int | None]) -> list[tuple[int, int, str]]:
    """Return log_tid, tid_key, evidence, given what each thread stores and prints, and the ring of each thread."""
    stores = [(tid, rings.get(tid), index, 10 * n) for tid, part in stored.items() for n, index in enumerate(part)]
    lines = [(tid, rings.get(tid, RING), index, 10 * n + tid) for tid, part in printed.items()
             for n, index in enumerate(part)]  # fmt: skip
    found, _ = match_doorbells(
        pl.DataFrame(
            lines, orient="row",
            schema={"log_tid": pl.UInt64, "ring": pl.UInt64, "packet_index": pl.Int64, "offset": pl.Int64},
        ).with_columns(file=pl.lit(0, pl.UInt16), log_pid=pl.lit(1), **_UNTIMED).reverse(),
        pl.DataFrame(
            stores, schema={"tid_key": pl.Int64, "ring": pl.UInt64, "packet_index": pl.Int64, "stamp_ns": pl.Int64},
            orient="row",
        ).with_columns(slack_ns=pl.lit(None, pl.Int64)).reverse(),
    )  # fmt: skip
    return sorted(found.select("log_tid", "tid_key", "evidence").rows())


_FIRST, _SECOND = (1, 7, "derived"), (2, 8, "derived")


@pytest.mark.parametrize(
    ("stored", "printed", "found"), [
        ({7: range(50), 8: range(50, 100)}, {1: range(50), 2: range(50, 100)}, [_FIRST, _SECOND]),
        pytest.param({7: range(60), 8: range(60, 100)}, {1: range(100)}, [], id="two stored what one printed"),
        pytest.param({7: range(100)}, {1: range(60), 2: range(60, 100)}, [], id="one stored what two printed"),
        pytest.param({7: range(95), 8: range(95, 100)}, {1: range(100)}, [_FIRST], id="few of another one"),
        pytest.param({7: range(95)}, {1: range(90), 2: range(90, 100)}, [_FIRST], id="few by another one"),
        pytest.param({7: range(9), 8: range(9)}, {1: range(9)}, [], id="two stored the same"),
        pytest.param({7: range(10), 8: range(4)}, {1: range(10)}, [_FIRST], id="what two stored names none"),
        pytest.param({7: range(10)}, {1: range(10), 2: range(4)}, [_FIRST], id="what two printed names none"),
        pytest.param({7: range(9)}, {1: range(9), 2: range(9)}, [], id="two printed the same"),
    ],
)  # fmt: skip
def test_threads_that_write_to_one_ring_are_told_apart_by_their_indexes(
    stored: Packets, printed: Packets, found: list[tuple[int, int, str]]
) -> None:
    assert matched(stored, printed, rings={7: RING, 8: RING}) == found


def test_equal_indexes_of_two_rings_are_of_two_threads() -> None:
    same: Packets = {7: range(20), 8: range(20)}
    rings = {7: RING, 1: RING, 8: RING + 1, 2: RING + 1}
    assert matched(same, {1: range(20), 2: range(20)}, rings=rings) == [_FIRST, _SECOND]
    # Where the probe reads some rings, no order is compared.
    assert matched(same, {1: range(20), 2: range(20)}, rings={**rings, 8: None}) == [_FIRST]
    assert matched({7: range(20)}, {1: range(20)}, rings={7: RING + 1}) == []


_BY_ORDER = [(1, 7, "inferred"), (2, 8, "inferred")]


@pytest.mark.parametrize(
    ("stored", "printed", "found"), [
        ({7: range(20), 8: range(100, 120)}, {1: range(20), 2: range(100, 120)}, _BY_ORDER),
        pytest.param({7: range(20)}, {1: range(20), 2: range(20)}, [], id="two print the same"),
        pytest.param({7: range(20), 8: range(20)}, {1: range(20)}, [], id="two store the same"),
        pytest.param({7: range(20)}, {1: range(20), 2: [*range(12), *range(50, 58)]}, [], id="another one fits half"),
        pytest.param({7: range(20)}, {1: range(20), 2: [*range(8), *range(50, 62)]}, _BY_ORDER[:1],
                     id="another one fits less"),
        pytest.param({7: range(20), 8: [*range(12), *range(50, 58)]}, {1: range(20)}, [], id="another one stores half"),
        pytest.param({7: range(20)}, {1: range(4, 24)}, [], id="four fifths are not the same"),
        pytest.param({7: range(20)}, {1: range(1, 21)}, _BY_ORDER[:1], id="nearly all are the same"),
        pytest.param({7: range(20)}, {1: range(40)}, [], id="a half of what was printed"),
        pytest.param({7: range(9)}, {1: range(9)}, _BY_ORDER[:1], id="nine packets"),
        pytest.param({7: range(8)}, {1: range(9)}, [], id="eight are few"),
        pytest.param({7: range(20)}, {1: range(19, -1, -1)}, [], id="in another order"),
    ],
)  # fmt: skip
def test_where_no_ring_is_known_threads_are_alike_in_the_order_of_their_indexes(
    stored: Packets, printed: Packets, found: list[tuple[int, int, str]]
) -> None:
    assert matched(stored, printed, rings={}) == found


def test_what_is_compared_are_stores_with_an_index_and_packets_with_one() -> None:
    """Of an index the log prints the lower 32 bits."""
    shared = {"tid_key": [7] * 4, "ring": [RING] * 4, "stamp_ns": range(4), "clock": ["local"] * 4}
    layers = ["doorbell", "doorbell", "signal", "doorbell"]
    trace = pl.DataFrame(
        {**shared, "layer": layers, "packet_index": [2**32 + 2**31, None, 6, 7]},
        schema_overrides={"layer": CAT, "packet_index": pl.Int64, "clock": CAT},
    )
    assert select_stores(trace)["packet_index"].to_list() == [2**31, 7]
    rows = [
        ("aql", "dispatch", 1, 1, 5), ("aql", "barrier_and", 1, 1, 6), ("aql", "queue_created", 1, 1, 7),
        ("command", "dispatch", 1, 1, 8), ("aql", "dispatch", None, 1, 9), ("aql", "dispatch", 1, None, 9),
        ("aql", "dispatch", 1, 1, None),
    ]  # fmt: skip
    log = pl.DataFrame(rows, schema={"layer": CAT, "name": CAT, "pid": pl.UInt32, "tid": pl.UInt64,
                                     "packet_index": pl.Int64}, orient="row")  # fmt: skip
    log = log.with_columns(file=pl.lit(0, pl.UInt16), ring=pl.lit(RING, pl.UInt64), offset=pl.lit(0),
                           stamp_ns=pl.lit(0), clock=pl.lit("mono").cast(CAT))  # fmt: skip
    unknown = log.select("file", log_pid="pid", log_tid="tid").unique()
    assert select_lines(log, unknown)["packet_index"].to_list() == [5, 6]
    assert select_lines(log, unknown.clear()).is_empty()


@pytest.mark.parametrize(
    ("stored", "printed", "expected"), [
        (range(100), range(100), [7]),
        pytest.param(range(100), range(90, 140), [], id="another life of the process with the same rings"),
        pytest.param(range(40, 60), range(100), [7], id="a trace of a part of the run"),
        pytest.param(range(100), range(40, 60), [7], id="a log of a part of the run"),
        pytest.param(range(0, 100, 2), range(100), [7], id="stores that announce several packets"),
        pytest.param(range(100), range(60, 140), [7], id="half of the packets"),
        pytest.param(range(100), range(70, 140), [], id="less than half of them"),
        pytest.param(range(3), range(3), [7], id="three packets"),
        pytest.param(range(2), range(2), [], id="two are few"),
    ],
)  # fmt: skip
def test_threads_that_share_most_of_their_packets_are_one(stored: range, printed: range, expected: list[int]) -> None:
    stores = pl.DataFrame({"packet_index": stored}, schema_overrides={"packet_index": pl.Int64}).with_columns(
        tid_key=pl.lit(7, pl.Int64), ring=pl.lit(RING, pl.UInt64), stamp_ns=pl.col("packet_index"),
        slack_ns=pl.lit(None, pl.Int64),
    )  # fmt: skip
    lines = pl.DataFrame({"packet_index": printed}, schema_overrides={"packet_index": pl.Int64}).with_columns(
        file=pl.lit(0, pl.UInt16), log_pid=pl.lit(1), log_tid=pl.lit(0x7F00, pl.UInt64),
        ring=pl.lit(RING, pl.UInt64), offset=pl.col("packet_index"), **_UNTIMED,
    )  # fmt: skip
    assert match_doorbells(lines, stores)[0]["tid_key"].to_list() == expected
