"""Which lanes SYNTHETIC rows come to: a lane holds what its label says, nothing is claimed of unknown threads."""

from __future__ import annotations

from typing import Any

import polars as pl

from tracecorr.model import schema
from tracecorr.store.views import Views, build_views


def _views(*events: dict[str, Any]) -> Views:
    tables = {name: table.empty() for name, table in schema.TABLES.items()}
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


def test_a_duration_below_zero_moves_no_event_out_of_the_overview() -> None:
    """No reader gives one any more, tables of an older version may."""
    call = {"layer": "syscall", "name": "ioctl", "thread": 1}
    views = _views({**call, "ts_ns": 1 << 62, "dur_ns": -(1 << 62)}, {**call, "ts_ns": 5, "dur_ns": -4})
    assert views.length_ns == (1 << 62) - 5
    assert sum(views.minimap["all"]) == 2
