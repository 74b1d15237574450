"""HAND-MADE logs that lack lines of packets: where their indexes tell it, and which calls lie over such places."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hip_logs import correlate_messages

from tracecorr.link.losses.bursts import list_burst_calls, number_packet_gaps
from tracecorr.link.losses.packet_gaps import add_packet_gaps, list_packet_gaps, list_silent_graphs
from tracecorr.model.schema import CAT

_TYPES = {
    "file": pl.UInt16, "process": pl.UInt32, "ring": pl.UInt64, "packet_index": pl.Int64, "layer": CAT, "name": CAT,
    "source": CAT, "clock": CAT,
}  # fmt: skip
A, B = 0x3C00000, 0x7000000
NO_LOSSES = pl.DataFrame(schema={"file": pl.UInt16, "lost": pl.Float64})


def packet(index: int | None, ring: int | None = A, name: str = "dispatch", **more: Any) -> dict[str, Any]:
    return {"packet_index": index, "ring": ring, "name": name, **more}


def gaps_of(*rows: dict[str, Any]) -> pl.DataFrame:
    """Return the gaps of a log with these lines, each of ten bytes."""
    shared = {"file": 0, "process": 0, "layer": "aql", "source": "amd_log", "clock": "mono"}
    made = [{"offset": 10 * n, **shared, **row} for n, row in enumerate(rows)]
    return list_packet_gaps(pl.DataFrame(made, schema_overrides=_TYPES))


def places(gaps: pl.DataFrame) -> list[tuple[int, ...]]:
    return gaps.select("low", "high", "missing").sort("low").rows()


def test_numbers_that_a_ring_leaves_out_are_lines_that_were_lost() -> None:
    rows = [packet(0), packet(7, B), packet(1), packet(4), packet(8, B), packet(5), packet(7)]
    gaps = gaps_of(*rows)
    assert places(gaps) == [(20, 30, 2), (50, 60, 1)]
    # Those of the other queue tell, too, how much of the log lacks.
    assert gaps["printed"].unique().to_list() == [7]
    # 20 of the 60 bytes between the ring's first and last line.
    assert gaps["covered"].unique().to_list() == pytest.approx([1 / 3])
    assert add_packet_gaps(NO_LOSSES, gaps).rows() == [(0, 3 / 10)]
    more = add_packet_gaps(pl.DataFrame({"file": [0, 2], "lost": [0.5, 0.1]}, schema=NO_LOSSES.schema), gaps)
    assert sorted(more.rows()) == [(0, 0.5), (2, 0.1)]


@pytest.mark.parametrize(
    "rows", [
        pytest.param([packet(0), packet(2), packet(1), packet(3)], id="printed in another order"),
        pytest.param([packet(0), packet(None, name="barrier_and"), packet(2)], id="a barrier without its index"),
        pytest.param([packet(0), packet(1), packet(None, name="queue_deleted"),
                      packet(None, name="queue_created"), packet(7), packet(8)], id="another queue"),
        pytest.param([packet(0), packet(5, B), packet(9, None)], id="other rings, and none"),
        pytest.param([packet(0), packet(5, file=1)], id="another log"),
        pytest.param([packet(0), packet(5, process=1), packet(1)], id="an equal ring of another process"),
        pytest.param([packet(0, process=None), packet(1, process=None)], id="no process is named"),
        pytest.param([packet(0), packet(5, clock="mono_raw")], id="a packet of ROCr"),
        pytest.param([packet(0), packet(5, name="doorbell", layer="doorbell", source="ftrace")], id="a store"),
    ],
)  # fmt: skip
def test_other_steps_of_indexes_show_no_loss(rows: list[dict[str, Any]]) -> None:
    gaps = gaps_of(*rows)
    assert gaps.is_empty()
    assert add_packet_gaps(NO_LOSSES, gaps).is_empty()


def test_lines_that_were_printed_in_another_order_are_no_gaps_beside_one() -> None:
    assert places(gaps_of(packet(0), packet(2), packet(1), packet(3), packet(5))) == [(30, 40, 1)]


def test_a_barrier_without_index_counts_where_the_log_has_it() -> None:
    bare = packet(None, name="barrier_and")
    rows = [
        packet(0, offset=0),
        packet(4, offset=30),
        bare | {"offset": 20},
        packet(2, offset=10),
        packet(5, offset=40),
    ]
    # Between 0 and 2 one lacks; that between 2 and 4 is the barrier.
    assert places(gaps_of(*rows)) == [(0, 10, 1)]


def test_the_life_of_one_ring_does_not_end_with_another_queue() -> None:
    made = packet(None, B, name="queue_created")
    assert places(gaps_of(packet(0), made, packet(2))) == [(0, 20, 1)]
    assert places(gaps_of(packet(0), {**made, "ring": A, "process": 1}, packet(2))) == [(0, 20, 1)]


def test_the_packets_of_each_log_are_counted_for_themselves() -> None:
    gaps = gaps_of(packet(0), packet(2), *(packet(n, file=1) for n in (0, 1, 3)))
    assert gaps.sort("file").select("file", "printed").rows() == [(0, 2), (1, 3)]


def test_only_launches_of_graphs_may_be_silent() -> None:
    call = {"file": 0, "layer": "hip", "name": "hipGraphLaunch", "source": "amd_log", "offset": 10, "end_offset": 50,
            "ts_ns": 100, "dur_ns": 40}  # fmt: skip
    others = [{**call, "name": "hipFree"}, {**call, "layer": "roctx"}, {**call, "source": "rocprof"}]
    command = {**call, "file": 1, "layer": "command", "name": "InternalMarker"}
    rows = [call, {**call, "end_offset": None, "dur_ns": None}, *others, {**call, "file": 1}, command]
    types = {"file": pl.UInt16, "layer": CAT, "name": CAT, "source": CAT}
    found = list_silent_graphs(pl.DataFrame(rows, schema_overrides=types))
    assert found.rows() == [(0, 10, 50, 100, 140), (0, 10, 10, 100, 100)]


def burst_calls(gaps: pl.DataFrame) -> list[int]:
    """Return which of two calls lie over a burst: one over bytes 0 to 100, one behind them."""
    calls = pl.DataFrame({"event": [0, 1], "file": [0, 0], "low": [0, 2000], "high": [100, 2100]},
                         schema_overrides={"file": pl.UInt16})  # fmt: skip
    return list_burst_calls(calls, number_packet_gaps(gaps))["event"].to_list()


def test_a_call_over_a_place_at_which_packets_of_two_queues_are_missing_may_be_two() -> None:
    tail = [packet(n, ring) for n in range(10, 60) for ring in (A, B)]
    one = [packet(8), packet(8, B), packet(10), packet(9, B)]
    assert places(gaps_of(*one, *tail[1:])) == [(0, 20, 1)]
    assert burst_calls(gaps_of(*one, *tail[1:])) == []
    both = [packet(8), packet(8, B), packet(10), packet(10, B)]
    assert burst_calls(gaps_of(*both, *tail[2:])) == [0]
    # Two of one queue are a place of several lines, too.
    assert burst_calls(gaps_of(packet(7), packet(8, B), packet(9, B), *tail)) == [0]


def test_gaps_that_take_up_much_of_the_log_meet_by_chance() -> None:
    """Every second packet of both queues is missing: no place is one of a burst."""
    assert burst_calls(gaps_of(*(packet(2 * n, ring) for n in range(200) for ring in (A, B)))) == []


def test_where_most_gaps_of_threads_meet_the_others_are_those_of_pieces_too() -> None:
    """Gaps of threads at byte 10, alone, and at 2000 and 4000, where two meet; the log has 10000 bytes."""
    calls = pl.DataFrame({"event": [0, 1, 2], "file": [0] * 3, "low": [0, 500, 9000], "high": [100, 600, 9999]},
                         schema_overrides={"file": pl.UInt16})  # fmt: skip
    pairs = [(1, 10), (0, 2000), (1, 2005), (0, 4000), (1, 4005)]

    def over(*gaps: tuple[int, int], length: int = 20) -> list[int]:
        made = [{"file": 0, "thread": thread, "low": low, "high": low + length, "weight": 1.0} for thread, low in gaps]
        found = list_burst_calls(calls, pl.DataFrame(made, schema_overrides={"file": pl.UInt16}))
        return sorted(found["event"].to_list())

    assert over(*pairs) == [0]
    assert over(*pairs[:2], *pairs[3:4]) == []
    # A gap in the indexes of a queue is wide: it tells less.
    assert over((-1, 10), *pairs[1:]) == []
    # Gaps that take up much of the log meet by chance.
    assert over(*pairs, length=1600) == []


_CALL = ("\x1b[32m hip{0} ( 0x50, 0x66 ) \x1b[0m", "hip{0}: Returned hipSuccess : : duration: {1} us")
_DISPATCH = "SWq=0x22, HWq=0x3c00000, id=1, Dispatch Header = 0xb02 (type=2), setup=1, rptr=0, wptr={}"


def _call(name: str, *inside: str) -> list[str]:
    return [_CALL[0].format(name), *inside, _CALL[1].format(name, len(inside) + 1)]


@pytest.mark.parametrize(
    ("between", "lost"),
    [
        pytest.param(_call("GraphLaunch"), 0, id="a graph launch"),
        pytest.param([*_call("GraphLaunch"), "Command (Marker) enqueued: 0x55 to queue: 0x66"], 2, id="and a command"),
        pytest.param(_call("StreamQuery"), 2, id="another call"),
    ],
)
def test_a_level_that_shows_no_command_may_show_no_packet_of_a_graph(
    tmp_path: Path, between: list[str], lost: int
) -> None:
    """SYNTHETIC, in the form that HIP 7.1.0 was seen to print at level 4."""
    launches = [_call("ModuleLaunchKernel", _DISPATCH.format(index)) for index in (0, 3)]
    capture = correlate_messages(tmp_path, *launches[0], *between, *launches[1])
    assert capture.table("losses").select("count").collect()["count"].sum() == lost
    told = capture.table("launches").collect()["unlinked_reason"].cast(pl.String).unique().to_list()
    assert told == (
        ["the log lost lines: no command surely has it"] if lost else ["no command line before it in its call"]
    )
