"""Which lanes SYNTHETIC rows come to: a lane holds what its label says, nothing is claimed of unknown threads."""

from __future__ import annotations

from typing import Any

import polars as pl

from tracecorr.model import schema
from tracecorr.timeline.build import Views, build_views


def _views(*events: dict[str, Any], **given: list[dict[str, Any]]) -> Views:
    tables = {name: table.empty() for name, table in schema.TABLES.items()}
    tables |= {
        name: schema.TABLES[name].conform(pl.DataFrame(rows, infer_schema_length=None)) for name, rows in given.items()
    }
    rows = [{"event": n, "ts_ns": n * 100, "evidence": "recorded", "process": 0, **e} for n, e in enumerate(events)]
    tables["events"] = schema.EVENTS.conform(pl.DataFrame(rows, infer_schema_length=None))
    return build_views(lambda name: tables[name].lazy())


def test_a_lane_of_packets_counts_packets_only() -> None:
    """Lines on a queue's life stand in a lane of their own, and are no packets in the overview either."""
    of_queue = {"layer": "aql", "queue": 3, "thread": 1}
    views = _views(
        {**of_queue, "name": "queue_created"},
        {**of_queue, "name": "dispatch"},
        {**of_queue, "name": "barrier_and"},
        {**of_queue, "name": "queue_deleted"},
        {"layer": "aql", "name": "queue_allocated_count", "thread": 1},
        {"layer": "hip", "name": "hipInit", "thread": 1},
    )
    counts = {(lane.label, lane.queue): lane.count for lane in views.lanes}
    assert counts == {("HIP calls", None): 1, ("queue lines", None): 1, ("packets", 3): 2, ("queue lines", 3): 2}
    assert (sum(views.minimap["packets"]), sum(views.minimap["all"])) == (2, 6)


def test_without_hip_calls_no_thread_is_called_one_of_the_runtime() -> None:
    launch, bell = {"layer": "hsa", "name": "launch"}, {"layer": "ioctl", "name": "AMDKFD_IOC_SET_EVENT"}
    alone = _views({**launch, "thread": 1}, {**bell, "thread": 1}, {**bell, "thread": 2})
    assert not any("background" in group.label for group in alone.groups)
    told = _views({"layer": "hip", "name": "hipInit", "thread": 1}, {**launch, "thread": 2})
    assert [group.label for group in told.groups if group.parent == "p0"] == ["thread 1", "ROCr background work"]


def test_a_queue_stands_under_the_first_thread_that_uses_it_and_names_its_streams() -> None:
    packet, call = {"layer": "aql", "name": "dispatch"}, {"layer": "hip", "name": "hipInit"}
    views = _views(
        {**call, "thread": 1}, {**call, "thread": 2}, {**call, "thread": 3}, {**packet, "thread": 2, "queue": 7},
        {**packet, "thread": 3, "queue": 7}, {**packet, "thread": 1, "queue": 8}, {**packet, "queue": 9},
        queues=[{"queue": queue, "process": 0} for queue in (7, 8, 9)],
        streams=[{"stream": stream, "process": 0} for stream in (0, 4)],
        stream_queues=[{"stream": stream, "queue": 7, "from_ns": 0, "to_ns": 1} for stream in (4, 0)],
    )  # fmt: skip
    assert [group.label for group in views.groups if group.parent == "p0"] == [
        "thread 1", "queue 8", "thread 2", "queue 7 · streams 0, 4", "thread 3", "queue 9",
    ]  # fmt: skip


def test_a_duration_below_zero_moves_no_event_out_of_the_overview() -> None:
    """No reader gives one any more, tables of an older version may."""
    call = {"layer": "syscall", "name": "ioctl", "thread": 1}
    views = _views({**call, "ts_ns": 1 << 62, "dur_ns": -(1 << 62)}, {**call, "ts_ns": 5, "dur_ns": -4})
    assert views.length_ns == (1 << 62) - 5
    assert sum(views.minimap["all"]) == 2


_SECOND = 1_000_000_000
_FILES = [
    {"file": n, "path": f"raw/{source}", "source": source, "size": 1} for n, source in enumerate(("amd_log", "ftrace"))
]


def _sides(log: tuple[int, int], trace: tuple[int, int]) -> list[dict[str, Any]]:
    """Return the first and the last row of a log and of a trace, s."""
    sides = ((0, "amd_log", "hip", log), (1, "ftrace", "ioctl", trace))
    return [
        {"file": file, "source": source, "layer": layer, "name": "x", "thread": 1, "ts_ns": at * _SECOND}
        for file, source, layer, span in sides
        for at in span
    ]


def test_times_of_the_log_without_a_kernel_trace_are_ranges() -> None:
    def spans(log: tuple[int, int], trace: tuple[int, int]) -> list[tuple[str, int, int]]:
        ranges = _views(*_sides(log, trace), files=_FILES).ranges
        return [(r["text"], r["from"] // _SECOND, r["to"] // _SECOND) for r in ranges if r["kind"] == "untraced"]

    begun, ended = "before the first record of the kernel trace", "after the last record of the kernel trace"
    assert spans((1, 9), (3, 6)) == [(begun, 0, 2), (ended, 5, 8)]
    assert spans((1, 9), (0, 10)) == []
    assert spans((5, 9), (0, 2)) == [(ended, 5, 9)]  # none of the log, and nothing of what was before it
    assert spans((0, 2), (5, 9)) == [(begun, 0, 2)]


def test_a_loss_of_parts_of_records_is_not_one_of_at_least_zero() -> None:
    losses = [
        {"source": source, "from_ns": 1, "to_ns": 2, "count": n}
        for source, n in (("amd_log", 0), ("amd_log", 3), ("ftrace", None), ("ftrace", 3))
    ]
    ranges = _views({"layer": "hip", "name": "x", "thread": 1}, losses=losses).ranges
    assert sorted(r["text"] for r in ranges) == [
        "3 records lost", "at least 3 records lost", "parts of records lost", "records lost"
    ]  # fmt: skip
