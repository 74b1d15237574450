"""Where an export puts each event: below its queue, its thread, its process, or nobody (SYNTHETIC rows)."""

from __future__ import annotations

import polars as pl

from tracecorr.export.tracks import assign_tracks
from tracecorr.model import schema


def _table(name: str, *rows: dict[str, object]) -> pl.LazyFrame:
    known = schema.TABLES[name].schema
    frame = pl.DataFrame(list(rows), schema={key: known[key] for row in rows for key in row})
    return schema.TABLES[name].conform(frame).lazy()


_TABLES = {
    "processes": _table("processes", {"process": 4, "pid": 100, "comm": "gemm"}),
    "threads": _table("threads", {"thread": 7, "process": 4, "tid": 101, "log_tid": 0x7F00, "comm": "worker"}),
    "queues": _table("queues", {"queue": 2, "process": 4, "hwq": 0x3C00000}),
}
_WORKER, _QUEUE, _GEMM = "worker 101 (log 0x7f00)", "queue 2 0x3c00000", "gemm 100"


def _paths(*events: dict[str, object]) -> list[list[str]]:
    """Return, for each event, the names of its track and of what that stands below."""
    rows = _table("events", *({"event": n, **event} for n, event in enumerate(events)))
    tracks, placed = assign_tracks(_TABLES.__getitem__, rows)
    by_uuid = {track.uuid: track for track in tracks}
    paths = []
    for uuid in placed.sort("event").collect()["track"]:
        path = []
        while uuid:
            path.append(by_uuid[uuid].name)
            uuid = by_uuid[uuid].parent
        paths.append(path[1:])
    return paths


def test_packets_and_doorbells_stand_below_their_queue_all_else_below_its_thread() -> None:
    everywhere = {"queue": 2, "thread": 7, "process": 4}
    below_queue = [{"layer": layer, **everywhere} for layer in ("aql", "doorbell", "gpu")]
    below_thread = [{"layer": layer, **everywhere} for layer in ("hip", "ioctl", "kfd", "mqd")]
    assert _paths(*below_queue) == [[_QUEUE, _GEMM]] * 3
    assert _paths(*below_thread) == [[_WORKER, _GEMM]] * 4


def test_an_event_whose_queue_or_thread_is_unknown_goes_one_step_up() -> None:
    unknown = [
        {"layer": "aql", "queue": None, "thread": 7, "process": 4},
        {"layer": "aql", "queue": None, "thread": None, "process": 4},
        {"layer": "aql", "queue": None, "thread": None, "process": None},
    ]
    assert _paths(*unknown) == [[_WORKER, _GEMM], [_GEMM], []]
