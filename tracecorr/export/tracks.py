"""On which track does each event appear: threads, queues, and what belongs to neither."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

from tracecorr.analyze.frames import Tables, collect
from tracecorr.export.nodes import add_node, name_on_node, separate_pids

_QUEUE_LAYERS = ("aql", "doorbell", "gpu")
_GROUPS = {
    "hip": "HIP calls", "hsa": "HSA calls", "gpu": "GPU", "doorbell": "doorbells", "aql": "log", "command": "log",
    "copy": "log", "signal": "log", "memory": "log", "hqd": "HQD", "marker": "marks", "other": "other",
    "smi": "evictions, faults",
}  # fmt: skip
_QUEUE_GROUPS = {"aql": "packets", "doorbell": "doorbells", "gpu": "GPU"}
_KERNEL = "kernel"


@dataclass(frozen=True)
class Track:
    """Hold one track.

    Args:
        uuid: its number, above 0.
        parent: uuid of the track above, 0 for none.
        name: what is written on it.
        pid: process number, for the track of a process or a thread; of a dataset one that no other node has.
        tid: thread number, for the track of a thread.
    """

    uuid: int
    parent: int
    name: str
    pid: int | None = None
    tid: int | None = None


def assign_tracks(tables: Tables, events: pl.LazyFrame) -> tuple[list[Track], pl.LazyFrame]:
    """Return the tracks, parents first, and `events` with the column `track` (uuid).

    Packets, doorbells and GPU times of a queue stand below the queue, in its process; all else below its
    thread, or its process where the thread is not known. In a dataset the nodes have tracks of their own.
    """
    keyed = add_node(events).with_columns(place=_place())
    places = collect(keyed.select("place").unique()).sort("place").unnest("place")
    owners = _owners(tables)
    tracks = list(owners.tracks)
    rows: list[dict[str, object]] = []
    for row in places.iter_rows(named=True):
        name = name_on_node(row["group"], row["node"])
        track = Track(len(tracks) + 1, owners.by_key.get((row["kind"], row["key"]), 0), name)
        tracks.append(track)
        rows.append({**row, "track": track.uuid})
    shape = {"kind": pl.String, "key": pl.UInt32, "group": pl.String, "node": pl.String}
    names = pl.DataFrame(rows, schema={**shape, "track": pl.Int64}).select(pl.struct(*shape).alias("place"), "track")
    joined = keyed.join(names.lazy(), on="place", how="left", nulls_equal=True, maintain_order="left")
    return tracks, joined.drop("place")


def _place() -> pl.Expr:
    layer = pl.col("layer").cast(pl.String)
    on_queue = pl.col("queue").is_not_null() & layer.is_in(_QUEUE_LAYERS)
    group = layer.replace_strict(_GROUPS, default=_KERNEL)
    kind = (
        pl.when(on_queue).then(pl.lit("queue"))
        .when(pl.col("thread").is_not_null()).then(pl.lit("thread"))
        .when(pl.col("process").is_not_null()).then(pl.lit("process"))
        .otherwise(pl.lit("nobody"))
    )  # fmt: skip
    key = pl.when(on_queue).then("queue").when(pl.col("thread").is_not_null()).then("thread").otherwise("process")
    named = pl.when(on_queue).then(layer.replace_strict(_QUEUE_GROUPS, default="packets")).otherwise(group)
    # Of all others their owner tells the node.
    node = pl.when(kind == "nobody").then("node")
    return pl.struct(kind=kind, key=key, group=named, node=node)


class _Owners:
    """Collect the tracks of processes, threads and queues, and which track each of them has."""

    def __init__(self) -> None:
        self.tracks: list[Track] = []
        self.by_key: dict[tuple[str, int | None], int] = {}

    def add_processes(self, processes: pl.DataFrame, pids: Mapping[int, int | None]) -> None:
        for row in processes.iter_rows(named=True):
            pid = row["pid"] if row["pid"] is not None else row["log_pid"]
            name = f"{row['comm'] or row['exe'] or 'process'} {_or_unknown(pid)}"
            self._add("process", row["process"], 0, name_on_node(name, row["node"]), pids[row["process"]])

    def add_threads(self, threads: pl.DataFrame, processes: pl.DataFrame, pids: Mapping[int, int | None]) -> None:
        own_pids = dict(processes.select("process", pl.coalesce("pid", "log_pid")).iter_rows())
        for row in threads.iter_rows(named=True):
            name = f"{row['comm'] or 'thread'} {_or_unknown(row['tid'])}"
            if row["log_tid"] is not None:
                name += f" (log {row['log_tid']:#x})"
            pid, tid = pids.get(row["process"]), row["tid"]
            # Viewers know a main thread by the number of its process.
            if tid is not None and tid == own_pids.get(row["process"]):
                tid = pid
            self._add_below("thread", row, name, pid, tid)

    def add_queues(self, queues: pl.DataFrame) -> None:
        for row in queues.iter_rows(named=True):
            ring = row["hwq"] if row["hwq"] is not None else row["ring_base"]
            where = f" {ring:#x}" if ring is not None else ""
            self._add_below("queue", row, f"queue {row['queue']}{where}")

    def _add_below(
        self, kind: str, row: Mapping[str, Any], name: str, pid: int | None = None, tid: int | None = None
    ) -> None:
        """Add a track below that of its process; without one, which would tell the node, it tells it itself."""
        above = self.by_key.get(("process", row["process"]), 0)
        self._add(kind, row[kind], above, name if above else name_on_node(name, row["node"]), pid, tid)

    def _add(self, kind: str, key: int, parent: int, name: str, pid: int | None = None, tid: int | None = None) -> None:
        self.tracks.append(Track(len(self.tracks) + 1, parent, name, pid, tid))
        self.by_key[kind, key] = len(self.tracks)


def _owners(tables: Tables) -> _Owners:
    processes, threads, queues = (add_node(tables(t)).collect() for t in ("processes", "threads", "queues"))
    pids = separate_pids(processes)
    owners = _Owners()
    owners.add_processes(processes, pids)
    owners.add_threads(threads, processes, pids)
    owners.add_queues(queues)
    return owners


def _or_unknown(number: int | None) -> str:
    return "?" if number is None else str(number)
