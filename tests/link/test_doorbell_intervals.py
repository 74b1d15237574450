"""The interval in which the log lets a doorbell store lie: shown where no store was seen, demanded of one that was.

HAND-MADE logs and stores. A dispatch line is printed before its store, which precedes the thread's next line; a barrier
line is printed after its store, which follows the thread's line before it.
"""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from tracecorr.link.doorbells import match_stores, share_lone_threads
from tracecorr.model.schema import CAT
from tracecorr.pipeline import correlate, import_files
from tracecorr.store import Capture

_MINE, _OTHER = 0x7F00000000A0, 0x7F00000000B0
_US, _BASE = 1000, 5_000_000_000_000
_HEAD = "SWq=0x22, HWq=0x3c00000, id=1, "
_DISPATCH = _HEAD + "Dispatch Header = 0xb02 (type=2), setup=1, rptr=0, wptr={}"
_BARRIER = _HEAD + "BarrierValue Header = 0x1500 AmdFormat = 0x2 (type=0), signal=0x0, rptr=0, wptr={}"
# Microseconds, thread, message; the lines of the other thread lie nearer, and say nothing.
_LOG = [
    (10, _MINE, "\x1b[32m hipLaunchKernel ( 0x50 ) \x1b[0m"),
    (13, _MINE, "ShaderName : vadd(float*)"),
    (19, _OTHER, "ShaderName : other(float*)"),
    (20, _MINE, _DISPATCH.format(0)),
    (21, _OTHER, "ShaderName : other(float*)"),
    (27, _MINE, "hipLaunchKernel: Returned hipSuccess : : duration: 17 us"),
    (40, _MINE, "\x1b[32m hipEventRecord ( 0x51, 0x66 ) \x1b[0m"),
    (79, _OTHER, "ShaderName : other(float*)"),
    (80, _MINE, _BARRIER.format(1)),
    (81, _OTHER, "ShaderName : other(float*)"),
    (90, _MINE, _DISPATCH.format(2)),
]


def test_an_inferred_doorbell_lies_between_the_lines_around_it(tmp_path: Path) -> None:
    line = ":5:rocvirtual.cpp           :1395: {:010d} us: [pid:7 tid: {:#x}] {}\n"
    text = "".join(line.format(_BASE // _US + at, thread, message) for at, thread, message in _LOG)
    (tmp_path / "amd.log").write_text(text)
    out = tmp_path / "log.tracecorr"
    import_files(out, [tmp_path / "amd.log"], [])
    correlate(out)
    launches = Capture.open(out).table("launches").sort("event").collect()
    found = launches.select(
        pl.col("kind", "doorbell_evidence").cast(pl.String), (pl.col("doorbell_lo_ns", "doorbell_hi_ns") - _BASE) // _US
    )
    # A line's time is cut to its microsecond: it was printed up to one later. Behind the last line nothing bounds.
    assert found.rows() == [
        ("dispatch", "inferred", 20, 28), ("barrier_value", "inferred", 40, 81), ("dispatch", "inferred", 90, None),
    ]  # fmt: skip
    assert launches["doorbell_event"].null_count() == 3


def _match(packet: tuple[int | None, int | None], *stores: dict[str, int | None]) -> list[int]:
    """Return the stores (100, 101, ...) that a dispatch of index 7 with this interval has as its own."""
    rows = [
        {"event": 100 + n, "queue": 0, "thread": 0, "ts_ns": 500, "packet_index": 7, "err_lo_ns": 0, "err_hi_ns": 0,
         "ring_learned": False} | store for n, store in enumerate(stores)
    ]  # fmt: skip
    lines = pl.DataFrame(
        [{"event": 1, "queue": 0, "thread": 0, "chain": 1, "name": "dispatch", "graph": False, "packet_index": 7,
          "doorbell_lo_ns": packet[0], "doorbell_hi_ns": packet[1]}],
        schema_overrides={"queue": pl.UInt32, "thread": pl.UInt32, "name": CAT, "doorbell_lo_ns": pl.Int64,
                          "doorbell_hi_ns": pl.Int64},
    )  # fmt: skip
    seen = pl.DataFrame(rows, schema_overrides={"queue": pl.UInt32, "thread": pl.UInt32, "err_lo_ns": pl.Int64,
                                                "err_hi_ns": pl.Int64})  # fmt: skip
    return match_stores(seen, lines)["doorbell_event"].to_list()


@pytest.mark.parametrize(
    ("store", "own"),
    [
        pytest.param({"ts_ns": 400}, True, id="at the lower end"),
        pytest.param({"ts_ns": 399}, False, id="before it"),
        pytest.param({"ts_ns": 390, "err_hi_ns": 10}, True, id="before it, perhaps later"),
        pytest.param({"ts_ns": 390, "err_lo_ns": 99, "err_hi_ns": 9}, False, id="before it, perhaps earlier"),
        pytest.param({"ts_ns": 600}, True, id="at the upper end"),
        pytest.param({"ts_ns": 601}, False, id="behind it"),
        pytest.param({"ts_ns": 610, "err_lo_ns": 10}, True, id="behind it, perhaps earlier"),
        pytest.param({"ts_ns": 610, "err_lo_ns": 9, "err_hi_ns": 99}, False, id="behind it, perhaps later"),
        pytest.param({"packet_index": 8}, False, id="another index"),
        pytest.param({"thread": 3}, False, id="another thread"),
        pytest.param({"queue": 3}, False, id="another queue"),
        pytest.param({"packet_index": None}, False, id="without a value"),
    ],
)
def test_a_store_outside_its_packets_interval_is_of_another_packet(store: dict[str, int | None], own: bool) -> None:
    assert _match((400, 600), store) == ([100] if own else [])


@pytest.mark.parametrize(("interval", "at"), [((None, 600), 1), ((400, None), 9999), ((None, None), 1)])
def test_an_open_side_bounds_nothing(interval: tuple[int | None, int | None], at: int) -> None:
    assert _match(interval, {"ts_ns": at}) == [100]


def test_of_two_stores_the_interval_names_the_one() -> None:
    assert _match((400, 600), {"ts_ns": 100}, {"ts_ns": 450}) == [101]
    assert _match((400, 600), {"ts_ns": 410}, {"ts_ns": 450}) == []


def test_the_store_of_the_next_graph_launch_is_not_that_of_one_whose_store_was_lost() -> None:
    lines = pl.DataFrame(
        [{"event": n, "queue": 0, "thread": 0, "chain": chain, "name": "dispatch", "graph": True, "packet_index": n,
          "doorbell_lo_ns": 100 * n, "doorbell_hi_ns": 100 * n + 99} for n, chain in enumerate((50, 50, 60, 60))],
        schema_overrides={"queue": pl.UInt32, "thread": pl.UInt32, "name": CAT},
    )  # fmt: skip
    seen = pl.DataFrame(
        [
            {
                "event": 100,
                "queue": 0,
                "thread": 0,
                "ts_ns": 350,
                "packet_index": 3,
                "err_lo_ns": 0,
                "err_hi_ns": 0,
                "ring_learned": False,
            }
        ],
        schema_overrides={"queue": pl.UInt32, "thread": pl.UInt32},
    )
    found = match_stores(seen, lines).select("event", "doorbell_event", "own").sort("event")
    assert found.rows() == [(2, 100, False), (3, 100, True)]


def test_the_earliest_store_of_any_thread_announces_a_packet() -> None:
    """Another thread stored a higher value of the queue before the packet's own thread stored its index."""
    shape = {"queue": pl.UInt32, "thread": pl.UInt32}
    stores = [(100, 0, 1, 9), (101, 0, 0, 7), (102, 1, 0, 99), (103, 0, 1, 6)]
    seen = pl.DataFrame(
        [{"event": e, "queue": q, "thread": t, "ts_ns": 500 + e, "packet_index": v, "err_lo_ns": 0, "err_hi_ns": 0,
          "ring_learned": False}
         for e, q, t, v in stores], schema_overrides=shape,
    )  # fmt: skip
    lines = pl.DataFrame(
        [{"event": n, "queue": 0, "thread": 0, "chain": 1, "name": "dispatch", "graph": False, "packet_index": n,
          "doorbell_lo_ns": 0, "doorbell_hi_ns": 10_000} for n in (7,)],
        schema_overrides={**shape, "name": CAT},
    )  # fmt: skip
    found = match_stores(seen, lines).select("event", "doorbell_event", "announce_event", "own")
    assert found.rows() == [(7, 101, 100, True)]


@pytest.mark.parametrize(("learned", "apart", "own"), [(True, 4, 0), (True, 2, 4), (True, 3, 3), (False, 4, 2)])
def test_a_ring_learned_wrongly_shows_its_indexes_at_other_times(learned: bool, apart: int, own: int) -> None:
    """Of six stores `apart` lie outside of the intervals of their packets; a probe that read the ring is believed."""
    shape = {"queue": pl.UInt32, "thread": pl.UInt32}
    seen = pl.DataFrame(
        [{"event": 100 + n, "queue": 0, "thread": 0, "ts_ns": 100 * n + (5000 if n < apart else 50), "packet_index": n,
          "err_lo_ns": 0, "err_hi_ns": 0, "ring_learned": learned} for n in range(6)], schema_overrides=shape,
    )  # fmt: skip
    lines = pl.DataFrame(
        [{"event": n, "queue": 0, "thread": 0, "chain": n, "name": "dispatch", "graph": False, "packet_index": n,
          "doorbell_lo_ns": 100 * n, "doorbell_hi_ns": 100 * n + 99} for n in range(6)],
        schema_overrides={**shape, "name": CAT},
    )  # fmt: skip
    found = match_stores(seen, lines)
    assert found["doorbell_event"].to_list() == [100 + n for n in range(6 - own, 6)]
    assert found["announce_event"].null_count() == 0


@pytest.mark.parametrize(
    ("of_log", "of_trace", "learned", "own"), [
        (1, 2, False, [101]),
        # A thread that both sides name is another one.
        (0, 2, False, []), (1, 0, False, []), (0, 0, False, [101]),
        # A ring that was learned from what a thread did tells of that thread alone.
        (1, 2, True, []),
    ],
)  # fmt: skip
def test_a_store_of_a_thread_that_the_log_does_not_name_has_its_ring_and_index(
    of_log: int, of_trace: int, learned: bool, own: list[int]
) -> None:
    """Thread 0 is in the log and in the trace, 1 in the log alone, 2 in the trace alone."""
    shape = {"queue": pl.UInt32, "thread": pl.UInt32}
    names = [(0, "amd_log"), (1, "amd_log"), (0, "ftrace"), (2, "ftrace"), (None, "amd_log"), (None, "ftrace")]
    events = pl.DataFrame(names, schema={"thread": pl.UInt32, "source": CAT}, orient="row")
    seen = pl.DataFrame(
        [{"event": 100 + n, "queue": 0, "thread": of_trace, "ts_ns": 500 * n, "packet_index": 6 + n, "err_lo_ns": 0,
          "err_hi_ns": 0, "ring_learned": learned} for n in range(3)], schema_overrides=shape,
    )  # fmt: skip
    lines = pl.DataFrame(
        [{"event": 7, "queue": 0, "thread": of_log, "chain": 1, "name": "dispatch", "graph": False, "packet_index": 7,
          "doorbell_lo_ns": 400, "doorbell_hi_ns": 600}], schema_overrides={**shape, "name": CAT},
    )  # fmt: skip
    assert match_stores(*share_lone_threads(seen, lines, events))["doorbell_event"].to_list() == own
