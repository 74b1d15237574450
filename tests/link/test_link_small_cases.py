"""Small HAND-MADE cases of the links that no recorded run shows: wraps, lost lines, numbers given out again."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

from tracecorr.link.calls import find_parents
from tracecorr.link.doorbells import match_stores
from tracecorr.link.packet_index import complete_indexes
from tracecorr.link.queues import assign_queues, build_queues
from tracecorr.link.rings import RINGS
from tracecorr.link.signals import link_gpu_times, list_uses
from tracecorr.link.streams import list_asked_priorities
from tracecorr.link.threads.lives import find_process_lives, find_thread_lives, number_lives
from tracecorr.model.schema import CAT

RING = 0x3C00000


def frame(rows: list[dict[str, Any]], **types: Any) -> pl.DataFrame:
    return pl.DataFrame(rows, schema_overrides=types)


def packet_lines(indexes: list[int | None], *, created: bool = True, rings: list[int] | None = None) -> pl.DataFrame:
    """Return part events of one process: a Created line and packets, one each microsecond."""
    begun = {"name": "gpu_agents", "layer": "other", "packet_index": None, "ring": None}
    calls = [begun] if created else []
    lines = [{"name": "queue_created", "packet_index": None, "ring": RING}] if created else []
    lines += [
        {"name": "dispatch", "packet_index": index, "ring": ring}
        for index, ring in zip(indexes, rings or [RING] * len(indexes), strict=True)
    ]
    rows = [
        {"layer": "aql", "flags": 0, **line, "source": "amd_log", "clock": "mono", "process": 0, "thread": 0,
         "stamp_ns": n, "end_stamp_ns": None, "end_offset": None, "file": 0, "offset": n, "parent_offset": None,
         "signal": None, "command": None, "stream": None}
        for n, line in enumerate([*calls, *lines])
    ]  # fmt: skip
    return frame(rows, packet_index=pl.Int64, ring=pl.UInt64, layer=CAT, name=CAT, source=CAT, clock=CAT,
                 end_stamp_ns=pl.Int64, end_offset=pl.Int64, parent_offset=pl.Int64, signal=pl.UInt64,
                 stream=pl.UInt64)  # fmt: skip


@pytest.mark.parametrize(
    ("printed", "expected"),
    [
        pytest.param([2**32 - 2, 2**32 - 1, 0, 1], [2**32 - 2, 2**32 - 1, 2**32, 2**32 + 1], id="wrap"),
        pytest.param([2**32 - 1, 0, 2**32 - 2, 1], [2**32 - 1, 2**32, 2**32 - 2, 2**32 + 1], id="out of order at it"),
        pytest.param(
            [2**32 - 1, 0, 3, 2, 4], [2**32 - 1, 2**32, 2**32 + 3, 2**32 + 2, 2**32 + 4], id="a small fall is no wrap"
        ),
        pytest.param([0, None, 2, None, None, 5], [0, 1, 2, 3, 4, 5], id="barriers print none"),
        pytest.param([0, None, 3, None, 5], [0, None, 3, 4, 5], id="a line was lost"),
        pytest.param([None, None, None], [0, 1, 2], id="none printed, creation seen"),
    ],
)
def test_indexes_are_told_beyond_32_bits_and_counted_where_none_is_printed(
    printed: list[int | None], expected: list[int | None]
) -> None:
    lines = complete_indexes(packet_lines(printed)).filter(pl.col("name") == "dispatch")
    assert lines["packet_index"].to_list() == expected
    counted = [now is not None and was is None for was, now in zip(printed, expected, strict=True)]
    assert lines["index_counted"].to_list() == counted


def test_without_the_creation_nothing_is_counted() -> None:
    lines = complete_indexes(packet_lines([None, None], created=False))
    assert lines["packet_index"].to_list() == [None, None]


def hip_events(rows: list[tuple[str, int, int | None, int | None]]) -> pl.DataFrame:
    """Return placed events: name, offset, duration, offset of the enclosing call as the reader saw it."""
    return frame(
        [
            {"event": n, "layer": "hip" if name.startswith("hip") else "aql", "name": name, "file": 0, "offset": offset,
             "end_offset": None, "dur_ns": dur, "parent_offset": parent, "thread": 0, "process": 0, "command": None,
             "stream": None, "source": "amd_log", "flags": 0}
            for n, (name, offset, dur, parent) in enumerate(rows)
        ],
        layer=CAT, name=CAT, source=CAT, flags=pl.UInt16, dur_ns=pl.Int64, parent_offset=pl.Int64,
    )  # fmt: skip


def test_a_call_without_exit_holds_nothing_behind_the_next_call() -> None:
    events = hip_events([
        ("hipMalloc", 0, None, None), ("dispatch", 1, None, 0), ("hipLaunchKernel", 2, 50, 0), ("dispatch", 3, None, 2),
        ("dispatch", 4, None, 0),
    ])  # fmt: skip
    assert find_parents(events)["parent"].to_list() == [None, 0, None, 2, None]


def test_a_thread_that_got_the_address_of_another_one_is_in_no_call_of_that() -> None:
    """The reader knows threads by their addresses; the lines between the two were lost."""
    events = hip_events([("hipMalloc", 0, None, None), ("dispatch", 1, None, 0), ("dispatch", 2, None, 0)])
    events = events.with_columns(thread=pl.Series([0, 0, 1], dtype=events.schema["thread"]))
    assert find_parents(events)["parent"].to_list() == [None, 0, None]


def store_rows(values: list[int]) -> pl.DataFrame:
    rows = [
        {
            "event": 100 + n,
            "queue": 0,
            "thread": 0,
            "ts_ns": 1000 * v + 500,
            "packet_index": v,
            "err_lo_ns": 0,
            "err_hi_ns": 0,
            "ring_learned": False,
        }
        for n, v in enumerate(values)
    ]
    return frame(rows, queue=pl.UInt32, thread=pl.UInt32)


def graph_packets(names: list[str]) -> pl.DataFrame:
    rows = [
        {"event": n, "queue": 0, "thread": 0, "chain": 7, "name": name, "graph": True, "packet_index": n,
         "doorbell_lo_ns": 1000 * n, "doorbell_hi_ns": 1000 * n + 999}
        for n, name in enumerate(names)
    ]  # fmt: skip
    return frame(rows, queue=pl.UInt32, thread=pl.UInt32, name=CAT)


def test_one_store_of_a_graph_launch_announces_its_dispatches() -> None:
    found = match_stores(store_rows([2, 3]), graph_packets(["dispatch", "dispatch", "dispatch", "barrier_value"]))
    assert sorted(found.select("event", "doorbell_event", "own").rows()) == [
        (0, 100, False), (1, 100, False), (2, 100, True), (3, 101, True),
    ]  # fmt: skip


def test_a_store_with_the_index_of_the_first_of_some_dispatches_announces_those_that_were_written_before_it() -> None:
    """HIP 7.1.0 writes packets 0; 1, 2; 3, 4 of a graph launch, and stores 0, 1, 3."""
    lines = graph_packets(["dispatch"] * 5 + ["barrier_value"])
    stores = store_rows([0, 1, 3, 5]).with_columns(ts_ns=pl.Series([500, 2500, 4500, 5500]))
    lines = lines.with_columns(doorbell_hi_ns=5999)
    found = match_stores(stores, lines).sort("event")
    assert found.select("event", "doorbell_event", "announce_event", "own").rows() == [
        (0, 100, 100, True), (1, 101, 101, True), (2, 101, 101, False), (3, 102, 102, True), (4, 102, 102, False),
        (5, 103, 103, True),
    ]  # fmt: skip
    # Of a store that may lie on both sides of a line, and of one that was lost, nothing is said.
    unsure = stores.with_columns(err_hi_ns=pl.Series([0, 0, 900, 0]), err_lo_ns=pl.Series([0, 0, 900, 0]))
    assert 4 not in match_stores(unsure, lines)["event"]
    assert match_stores(stores[[0, 2, 3]], lines).filter(~pl.col("own"))["event"].to_list() == [4]


def test_a_lost_store_of_a_graph_launch_is_not_that_of_its_barrier() -> None:
    found = match_stores(store_rows([3]), graph_packets(["dispatch", "dispatch", "dispatch", "barrier_value"]))
    assert found.select("event", "doorbell_event", "own").rows() == [(3, 100, True)]


def signal_uses(handles: list[int]) -> pl.DataFrame:
    rows = [
        {"event": n, "layer": "aql", "process": 0, "signal": handle * 64, "ts_ns": 100 * n, "queue": 0,
         "packet_index": n, "file": 0, "offset": n, "doorbell_lo_ns": 100 * n - 60}
        for n, handle in enumerate(handles)
    ]  # fmt: skip
    return frame(rows, signal=pl.UInt64, queue=pl.UInt32, process=pl.UInt32, layer=CAT, file=pl.UInt16)


def test_a_gpu_time_out_of_its_queues_order_is_of_another_packet() -> None:
    uses = list_uses(signal_uses([1, 2, 3]))
    times = frame(
        [
            {"event": 50, "file": 0, "process": 0, "signal": 2 * 64, "line_ns": 250, "ts_ns": 210, "end_ns": 220},
            {"event": 51, "file": 0, "process": 0, "signal": 1 * 64, "line_ns": 900, "ts_ns": 800, "end_ns": 810},
        ],
        signal=pl.UInt64, process=pl.UInt32, file=pl.UInt16,
    ).with_columns(err_hi_ns=0)  # fmt: skip
    assert link_gpu_times(times, uses).select("event", "gpu_event").rows() == [(1, 50)]


def test_a_signal_is_its_address_without_the_hints_of_a_handle() -> None:
    """Handles of ROCm 10 may carry hints in bits 0-5, those of signals of 1024 bytes (bit 0 set) in bits 0-9."""
    uses = list_uses(signal_uses([0x7F40, 0x8001, 0x9000]).with_columns(
        signal=pl.Series([0x7F40 | 0x30, 0x8000 | 0x3F1, 0x9000], dtype=pl.UInt64)
    ))  # fmt: skip
    assert uses["signal"].to_list() == [0x7F40, 0x8000, 0x9000]


def late_times(*lines: tuple[int, int]) -> list[tuple[int, int]]:
    """Return packet and line of the GPU times of signal 7 that lines (line_ns, start) tell; packets 2 and 5 use it."""
    times = frame(
        [{"event": 50 + n, "file": 0, "process": 0, "signal": 7 * 64, "line_ns": at, "ts_ns": start,
          "end_ns": start + 1} for n, (at, start) in enumerate(lines)],
        signal=pl.UInt64, process=pl.UInt32, file=pl.UInt16,
    ).with_columns(err_hi_ns=0)  # fmt: skip
    uses = list_uses(signal_uses([1, 2, 7, 3, 4, 7, 5]))
    found = link_gpu_times(times, uses)
    return sorted(found.select("event", "gpu_event").rows())


def test_the_gpu_time_of_a_barrier_that_is_printed_after_it_ended_is_its_own() -> None:
    """Packet 2 is printed at 200, 5 at 500, their threads' lines before at 140 and 440."""
    assert late_times((190, 150)) == [(2, 50)]
    assert late_times((190, 150), (490, 450)) == [(2, 50), (5, 51)]
    assert late_times((190, 150), (520, 450)) == [(2, 50), (5, 51)]
    assert late_times((250, 150), (490, 450), (495, 440)) == [(2, 50)]
    assert late_times((250, 150), (320, 310), (490, 450)) == [(2, 50), (5, 52)]


@pytest.mark.parametrize(
    "lines", [[(190, 130)], [(190, 150), (250, 230)], [(150, 142), (190, 145)]],
    ids=["began before the thread's last line", "the barrier has one", "two of one barrier"],
)  # fmt: skip
def test_a_gpu_time_before_a_barrier_that_cannot_be_its_own_is_of_none(lines: list[tuple[int, int]]) -> None:
    assert (2, 50) not in late_times(*lines)


def assigned(lives: list[tuple[int, str]], rows: list[tuple[int, str]], *, aligned: bool) -> list[tuple[int, int]]:
    """Return event and queue of rows (time, source) of a ring with these lives (begin, sources).

    The first row is known as well as any ioctl that made a queue.
    """
    made = frame(
        [{"queue": n, "process": 0, "hwq": RING, "ring_base": None, "starts_ns": at, "known_from": source,
          "create_ioctl_event": 0} for n, (at, source) in enumerate(lives)],
        hwq=pl.UInt64, ring_base=pl.UInt64,
    )  # fmt: skip
    events = frame(
        [{"event": n, "process": 0, "ring": RING, "ts_ns": at, "err_lo_ns": 500, "err_hi_ns": 500, "source": source}
         for n, (at, source) in enumerate(rows)],
        ring=pl.UInt64, source=CAT,
    )  # fmt: skip
    return sorted(assign_queues(events, made, aligned).drop_nulls().rows())


def test_a_record_that_may_be_of_two_lives_of_its_ring_belongs_to_none() -> None:
    rows = [(4000, "ftrace"), (4800, "ftrace"), (4900, "amd_log"), (5600, "ftrace")]
    assert assigned([(0, "amd_log"), (5000, "amd_log")], rows, aligned=True) == [(0, 0), (2, 0), (3, 1)]


def test_a_line_that_may_come_before_the_ioctl_of_its_rings_next_life_belongs_to_none() -> None:
    rows = [(at, "amd_log") for at in (4400, 4600, 5400, 5600)]
    assert assigned([(0, "amd_log"), (5000, "ftrace")], rows, aligned=True) == [(0, 0), (3, 1)]
    assert assigned([(0, "amd_log"), (5000, "amd_log ftrace")], rows, aligned=True) == [(0, 0), (1, 0), (2, 1), (3, 1)]
    # There was no other one.
    assert assigned([(5000, "ftrace")], rows, aligned=True) == [(n, 0) for n in range(4)]


def test_on_an_unknown_clock_packets_are_of_the_queue_that_the_log_shows_whenever_the_trace_shows_one() -> None:
    lives, rows = [(1000, "amd_log"), (2000, "ftrace")], [(3000, "amd_log"), (9000, "ftrace")]
    assert assigned(lives, rows, aligned=False) == [(0, 0), (1, 1)]
    assert assigned(lives[:1], rows, aligned=False) == [(0, 0), (1, 0)]
    # Which of two is meant only their times tell.
    assert assigned([*lives[:1], (5000, "amd_log")], rows, aligned=False) == [(0, 0)]


@pytest.mark.parametrize(
    "created_at", [
        pytest.param(2, id="the first queue's line was lost: the next one's is not its own"),
        pytest.param(1, id="the next queue's line was lost: another thread printed a packet before the first one's"),
    ],
)  # fmt: skip
def test_packets_of_two_log_ids_are_of_two_queues_though_the_line_of_one_was_lost(created_at: int) -> None:
    fields = {
        "process": 0,
        "ring": RING,
        "layer": "aql",
        "source": "amd_log",
        "file": 0,
        "thread": 1,
        "err_hi_ns": 1000,
        "end_offset": None,
        "clock": "mono",
    }
    lines: list[tuple[str, int | None]] = [("dispatch", 0), ("dispatch", 1), ("dispatch", 0), ("dispatch", 1)]
    lines.insert(created_at, ("queue_created", None))
    events = frame(
        [{"event": n, "offset": 10 * n, "ts_ns": 1000 * n, "name": name, "packet_index": index, "parent": None,
          "dur_ns": None, "err_lo_ns": 0, "priority": None, **fields} for n, (name, index) in enumerate(lines)],
        ring=pl.UInt64, layer=CAT, name=CAT, source=CAT, file=pl.UInt16, packet_index=pl.Int64, parent=pl.Int64,
        process=pl.UInt32, thread=pl.UInt32,
        err_hi_ns=pl.UInt32, err_lo_ns=pl.UInt32, dur_ns=pl.Int64, end_offset=pl.Int64, clock=CAT,
    )  # fmt: skip
    places = [n for n in range(5) if n != created_at]
    ids = [(10 * n, number) for n, number in zip(places, (4, 4, 6, 6), strict=True)]
    packets = frame(
        [{"file": 0, "offset": at, "swq": None, "log_id": number} for at, number in ids],
        file=pl.UInt16, swq=pl.UInt64, log_id=pl.Int64,
    )  # fmt: skip
    args = pl.DataFrame(schema={"event": pl.Int64, "key": pl.String, "u64": pl.UInt64, "text": pl.String})
    rings = pl.DataFrame(schema=RINGS)
    queues = build_queues(events, packets, args, aligned=True, rings=rings)
    found = dict(assign_queues(events, queues, aligned=True).rows())
    assert [queues.filter(pl.col("queue") == found[n])["log_id"].item() for n in places] == [4, 4, 6, 6]


def test_a_log_without_packets_tells_no_gpu_time_of_a_copy() -> None:
    """At level 4: the handle of the copy was since that of a packet, which the log does not show."""
    times = frame(
        [{"event": 50, "file": 0, "process": 0, "signal": 2 * 64, "line_ns": 250, "ts_ns": 210, "end_ns": 220}],
        signal=pl.UInt64, process=pl.UInt32, file=pl.UInt16,
    ).with_columns(err_hi_ns=0)  # fmt: skip
    copies = signal_uses([1, 2, 3]).with_columns(queue=pl.lit(None, pl.UInt32))
    assert link_gpu_times(times, list_uses(copies)).is_empty()


def test_a_pid_names_two_processes_one_after_the_other() -> None:
    claims = frame([
        {"owner": 1, "tgid": 500, "stamp_ns": 10}, {"owner": 1, "tgid": 500, "stamp_ns": 20},
        {"owner": 2, "tgid": 500, "stamp_ns": 90},
    ])  # fmt: skip
    lives = find_process_lives(claims)
    assert lives.rows() == [(500, 90, 1)]
    rows = frame([{"tid": 501, "pid": 500, "stamp_ns": t} for t in (15, 89, 90, 95)], tid=pl.UInt64, pid=pl.UInt32)
    assert number_lives(rows, lives)["tgid_key"].to_list() == [500, 500, 500 + 2**32, 500 + 2**32]


def test_an_address_of_a_torn_line_may_have_any_bits() -> None:
    rows = frame([{"tid": 2**64 - 5, "pid": 7, "stamp_ns": 1}], tid=pl.UInt64, pid=pl.UInt32)
    none = find_process_lives(frame([{"owner": 1, "tgid": 500, "stamp_ns": 10}]))
    assert number_lives(rows, none).select("tid_key", "tgid_key").rows() == [(-5, 7)]


def test_processes_that_claim_a_pid_in_turns_are_no_lives_of_it() -> None:
    claims = frame([{"owner": owner, "tgid": 500, "stamp_ns": t} for t, owner in enumerate((1, 2, 1))])
    assert find_process_lives(claims).is_empty()


def test_an_address_is_that_of_the_thread_that_registered_it_last() -> None:
    claims = frame([
        {"owner": 1, "log_tid": 0x7F00, "tid": 11, "stamp_ns": 100, "how": "set_robust_list"},
        {"owner": 1, "log_tid": 0x7F00, "tid": 12, "stamp_ns": 900, "how": "set_robust_list"},
        {"owner": 1, "log_tid": 0x8F00, "tid": 13, "stamp_ns": 50, "how": "set_robust_list"},
    ])  # fmt: skip
    lives = find_thread_lives(claims, lambda stamps: np.asarray(stamps) + 5)
    assert lives.select("tid", "from_ns").rows() == [(11, 0), (12, 905)]


def test_what_a_stream_asked_for_is_not_known_where_its_creation_is_missing() -> None:
    none, asked, plain = 0, 1, 2
    streams = frame([
        {"stream": none, "priority": None, "create_event": None},
        {"stream": asked, "priority": -1, "create_event": 5},
        {"stream": plain, "priority": None, "create_event": 9},
    ])  # fmt: skip
    used = [(none, 0, 10), (asked, 0, 20), (none, 1, 30), (plain, 2, 40), (none, 2, 50)]
    stream_queues = frame([{"stream": s, "queue": q, "from_ns": t} for s, q, t in used])
    assert sorted(list_asked_priorities(stream_queues, streams).rows()) == [(0, -1), (2, 0)]
