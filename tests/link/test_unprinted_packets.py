"""SYNTHETIC rows: a thread that stored to more doorbells than its packets explain shows that a packet's line lacks."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from tracecorr.link.losses.packet_gaps import list_silent_graphs
from tracecorr.link.losses.unprinted_packets import list_unprinted
from tracecorr.model.schema import CAT

_TYPES: dict[str, Any] = {
    "file": pl.UInt16, "thread": pl.UInt32, "offset": pl.Int64, "end_offset": pl.Int64, "ts_ns": pl.Int64,
    "dur_ns": pl.Int64, "err_lo_ns": pl.UInt32, "err_hi_ns": pl.UInt32, "layer": CAT, "name": CAT, "source": CAT,
    "clock": CAT, "ring": pl.UInt64,
}  # fmt: skip
_RING = 0x3C00000
_LAYERS = {"dispatch": "aql", "barrier_and": "aql", "hipGraphLaunch": "hip"}
# Twenty launches, each with a barrier behind it, of 100 us each.
_ROUNDS = 20
_LINES = [line for n in range(_ROUNDS) for line in (("dispatch", 100 * n + 20), ("barrier_and", 100 * n + 60))]
_STORES = [store for n in range(_ROUNDS) for store in (100 * n + 25, 100 * n + 50)]


def _files(
    lines: list[tuple[str, int]],
    stores: list[int],
    error: int | None = 0,
    thread: int = 0,
    rings: dict[int, int] | None = None,
) -> list[int]:
    """Return the files that lack packets, of a log (0) of thread 0 and its stores (us), which a trace (1) holds.

    Stores are to a ring that is not known, but for those of `rings` (by us).
    """
    log = [
        (0, 0, 10 * n, None, 1000 * at, None, 0, 0, _LAYERS.get(name, "command"), name, "amd_log", "mono", _RING)
        for n, (name, at) in enumerate(lines)
    ]
    trace = [
        (1, thread, 10 * n, None, 1000 * at, None, error, error, "doorbell", "doorbell", "ftrace", "mono",
         (rings or {}).get(at))
        for n, at in enumerate(stores)
    ]  # fmt: skip
    events = pl.DataFrame([*log, *trace], schema=_TYPES, orient="row")
    return list_unprinted(events, list_silent_graphs(events)).to_list()


def test_a_dispatch_is_printed_before_its_store_and_a_barrier_behind_it() -> None:
    assert _files(_LINES, _STORES) == []
    assert _files(_LINES, []) == []


@pytest.mark.parametrize(
    ("lost", "expected"), [
        pytest.param(20, [0], id="a dispatch between barriers"),
        pytest.param(21, [0], id="a barrier between dispatches"),
        pytest.param(0, [], id="the first packet: the log may begin behind it"),
        pytest.param(len(_LINES) - 1, [0], id="the last packet, of a thread that prints more"),
    ],
)  # fmt: skip
def test_a_store_without_the_line_of_its_packet_shows_that_it_lacks(lost: int, expected: list[int]) -> None:
    kept = [*_LINES[:lost], *_LINES[lost + 1 :], ("complete", 100 * _ROUNDS)]
    assert _files(kept, _STORES) == expected


@pytest.mark.parametrize(
    ("error", "thread", "expected"), [
        (0, 0, [0]), (0, 1, []), pytest.param(30_000, 0, [], id="perhaps elsewhere"),
        pytest.param(None, 0, [], id="on a clock that is not known"),
    ],
)  # fmt: skip
def test_only_what_the_thread_surely_stored_there_counts(error: int | None, thread: int, expected: list[int]) -> None:
    assert _files(_LINES, sorted([*_STORES, 1030]), error, thread) == expected


@pytest.mark.parametrize(("ring", "expected"), [(_RING, [0]), (0x7F0000, [])])
def test_a_store_to_a_ring_without_packets_in_the_log_is_of_another_user(ring: int, expected: list[int]) -> None:
    assert _files(_LINES, sorted([*_STORES, 1030]), rings={1030: ring}) == expected


def test_a_record_that_a_trace_holds_twice_is_one_store() -> None:
    assert _files(_LINES, sorted([*_STORES, 1025])) == []


def test_stores_behind_a_threads_last_line_tell_nothing() -> None:
    assert _files(_LINES, [*_STORES, 100 * _ROUNDS, 100 * _ROUNDS + 50]) == []


def test_a_log_whose_level_may_leave_packets_out_tells_nothing() -> None:
    """It prints no barrier, or lacks packets everywhere, or launches graphs and shows no commands."""
    assert _files([line for line in _LINES if line[0] == "dispatch"], _STORES) == []
    assert _files(_LINES, sorted([*_STORES, *(100 * n + 30 for n in range(_ROUNDS))])) == []
    assert _files([*_LINES, ("hipGraphLaunch", 100 * _ROUNDS)], sorted([*_STORES, 1030])) == []
