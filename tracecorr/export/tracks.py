"""On which track does each event appear: threads, queues, and what belongs to neither."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from tracecorr.analyze.frames import Tables, collect

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
        pid: process number, for the track of a process or a thread.
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
    thread, or its process where the thread is not known.
    """
    keyed = events.with_columns(place=_place())
    places = collect(keyed.select("place").unique()).sort("place").unnest("place")
    tracks, owners = _owners(tables)
    rows: list[dict[str, object]] = []
    for row in places.iter_rows(named=True):
        track = Track(len(tracks) + 1, owners.get((row["kind"], row["key"]), 0), row["group"])
        tracks.append(track)
        rows.append({**row, "track": track.uuid})
    shape = {"kind": pl.String, "key": pl.UInt32, "group": pl.String, "track": pl.Int64}
    names = pl.DataFrame(rows, schema=shape).select(pl.struct("kind", "key", "group").alias("place"), "track")
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
    return pl.struct(kind=kind, key=key, group=named)


def _owners(tables: Tables) -> tuple[list[Track], dict[tuple[str, int | None], int]]:
    tracks: list[Track] = []
    owners: dict[tuple[str, int | None], int] = {}

    def add(kind: str, key: int, parent: int, name: str, pid: int | None = None, tid: int | None = None) -> None:
        tracks.append(Track(len(tracks) + 1, parent, name, pid, tid))
        owners[kind, key] = len(tracks)

    pids = {}
    for row in tables("processes").collect().iter_rows(named=True):
        pid = row["pid"] if row["pid"] is not None else row["log_pid"]
        pids[row["process"]] = pid
        add("process", row["process"], 0, f"{row['comm'] or row['exe'] or 'process'} {_or_unknown(pid)}", pid)
    for row in tables("threads").collect().iter_rows(named=True):
        name = f"{row['comm'] or 'thread'} {_or_unknown(row['tid'])}"
        if row["log_tid"] is not None:
            name += f" (log {row['log_tid']:#x})"
        add(
            "thread",
            row["thread"],
            owners.get(("process", row["process"]), 0),
            name,
            pids.get(row["process"]),
            row["tid"],
        )
    for row in tables("queues").collect().iter_rows(named=True):
        ring = row["hwq"] if row["hwq"] is not None else row["ring_base"]
        where = f" {ring:#x}" if ring is not None else ""
        add("queue", row["queue"], owners.get(("process", row["process"]), 0), f"queue {row['queue']}{where}")
    return tracks, owners


def _or_unknown(number: int | None) -> str:
    return "?" if number is None else str(number)
