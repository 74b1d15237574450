"""HAND-MADE stores of handles whose rings the probe did not read: the order of a thread's packets tells the rings."""

from __future__ import annotations

from collections.abc import Iterable

import polars as pl
import pytest

from tracecorr.link.doorbells import fill_store_rings, learn_rings
from tracecorr.model.schema import CAT

RING, OTHER = 0x3C00000, 0x7000000
FIRST, SECOND = 0xA0, 0xB0
Pairs = Iterable[tuple[int, int]]


def learned(stored: Pairs, printed: Pairs) -> list[tuple[int, int]]:
    """Return handle and ring, given the handle and value of each store and the ring and index of each packet."""
    stores = pl.DataFrame(list(stored), schema={"arg": pl.UInt64, "packet_index": pl.Int64}, orient="row")
    packets = pl.DataFrame(list(printed), schema={"ring": pl.UInt64, "packet_index": pl.Int64}, orient="row")
    stores = stores.with_row_index("stamp_ns").with_columns(pl.col("stamp_ns").cast(pl.Int64), thread=0)
    found = learn_rings(stores.with_columns(process=pl.lit(0, pl.UInt32)), packets.with_columns(thread=0))
    return sorted(found.select("arg", "ring").rows())


def row_of(key: int, numbers: Iterable[int]) -> list[tuple[int, int]]:
    return [(key, number) for number in numbers]


def test_two_queues_of_a_thread_are_told_apart_by_their_order() -> None:
    stored = [*row_of(FIRST, range(5)), *row_of(SECOND, range(9)), *row_of(FIRST, range(5, 8))]
    printed = [*row_of(RING, range(5)), *row_of(OTHER, range(9)), *row_of(RING, range(5, 8))]
    assert learned(stored, printed) == [(FIRST, RING), (SECOND, OTHER)]


def test_a_handle_first_seen_late_is_not_that_of_the_ring_that_had_its_indexes_before() -> None:
    """The queue made after 1500 packets begins with the indexes that the first one began with."""
    late = [n for n in range(30) if n != 7]
    stored = [*row_of(FIRST, range(1500)), *row_of(SECOND, late), *row_of(FIRST, range(1500, 1520))]
    printed = [*row_of(RING, range(1500)), *row_of(OTHER, range(30)), *row_of(RING, range(1500, 1520))]
    assert learned(stored, printed) == [(FIRST, RING), (SECOND, OTHER)]


def test_packets_of_graph_launches_that_no_store_names_are_not_laid_beside_stores() -> None:
    """Of a hundred packets one is stored: two thousand of them come before the second queue's."""
    stored = [*row_of(FIRST, range(99, 2000, 100)), *row_of(SECOND, range(5))]
    assert learned(stored, [*row_of(RING, range(2000)), *row_of(OTHER, range(5))]) == [(FIRST, RING), (SECOND, OTHER)]


def test_stores_of_threads_without_packets_tell_nothing() -> None:
    assert learned(row_of(FIRST, range(5)), []) == []


@pytest.mark.parametrize(("strange", "rings"), [(1, [(FIRST, RING)]), (2, [])])
def test_nine_of_ten_stores_of_a_handle_lie_beside_one_ring(strange: int, rings: list[tuple[int, int]]) -> None:
    indexes = range(10)
    printed = [(RING if n < 10 - strange else OTHER, n) for n in indexes]
    assert learned(row_of(FIRST, indexes), printed) == rings


@pytest.mark.parametrize(("found", "rings"), [(5, [(FIRST, RING), (SECOND, OTHER)]), (4, [(FIRST, RING)])])
def test_of_the_stores_to_a_handle_at_least_half_find_a_packet(found: int, rings: list[tuple[int, int]]) -> None:
    """Stores before the first that finds one, and behind the last, may be of packets that the log does not hold."""
    stored = [*row_of(SECOND, range(70, 80)), *row_of(FIRST, range(5)), *row_of(SECOND, range(20, 30)),
              *row_of(FIRST, range(5, 9)), *row_of(SECOND, range(80, 90))]  # fmt: skip
    printed = [*row_of(RING, range(5)), *row_of(OTHER, range(25 - found // 2, 25 - found // 2 + found)),
               *row_of(RING, range(5, 9))]  # fmt: skip
    assert learned(stored, printed) == rings


@pytest.mark.parametrize(
    ("values", "rings"), [
        pytest.param([(FIRST, range(10)), (SECOND, range(10, 20))], [(FIRST, RING), (SECOND, RING)], id="made again"),
        pytest.param([(FIRST, range(5)), (SECOND, range(5, 10)), (FIRST, range(10, 20))], [], id="in turns"),
    ],
)  # fmt: skip
def test_a_ring_has_one_doorbell_at_a_time(values: list[tuple[int, range]], rings: list[tuple[int, int]]) -> None:
    stored = [pair for handle, numbers in values for pair in row_of(handle, numbers)]
    assert learned(stored, row_of(RING, range(20))) == rings
    # What is known of another ring stays.
    more = learned([*stored, *row_of(0xC0, range(50, 60))], [*row_of(RING, range(20)), *row_of(OTHER, range(50, 60))])
    assert more == [*rings, (0xC0, OTHER)]


def test_a_store_takes_the_ring_of_its_handle_in_its_own_process() -> None:
    """The log prints its packets in the order of its lines, whatever order the rows come in."""
    rows = [
        ("doorbell", "doorbell", 0, 0, FIRST, None, 0, 10, 0), ("doorbell", "doorbell", 0, 0, FIRST, None, 1, 20, 0),
        ("doorbell", "doorbell", 1, None, FIRST, None, 0, 30, 0),
        ("doorbell", "doorbell", 0, None, FIRST, None, 7, 5, 0),
        ("doorbell", "doorbell", 0, 0, SECOND, OTHER, 2, 40, 0), ("doorbell", "doorbell", 0, 0, None, None, 3, 50, 0),
        ("aql", "dispatch", 0, 0, None, OTHER, 2, 900, 30),
        ("aql", "dispatch", 0, 0, None, RING, 1, 900, 20), ("aql", "barrier_and", 0, 0, None, RING, 0, 900, 10),
        ("aql", "queue_created", 0, 0, None, OTHER, 1, 900, 15), ("command", "dispatch", 0, 0, None, OTHER, 0, 900, 16),
    ]  # fmt: skip
    shape = {
        "layer": CAT, "name": CAT, "process": pl.UInt32, "thread": pl.UInt32, "arg": pl.UInt64, "ring": pl.UInt64,
        "packet_index": pl.Int64, "stamp_ns": pl.Int64, "offset": pl.Int64,
    }  # fmt: skip
    records = pl.DataFrame(rows, schema=shape, orient="row").with_columns(file=pl.lit(0, pl.UInt16))
    found = fill_store_rings(records).filter(pl.col("layer") == "doorbell")
    assert found.select("ring", "ring_learned").rows() == [
        (RING, True), (RING, True), (None, False), (RING, True), (OTHER, False), (None, False),
    ]  # fmt: skip
