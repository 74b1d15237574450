"""On which track each event appears: threads, queues, rings of the GPU scheduler, nodes of a dataset."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from tracecorr.analyze.values import Tables, as_text, collect
from tracecorr.export.selection import Selection
from tracecorr.timeline.drawn import name_job
from tracecorr.timeline.levels import first_fit

# PID_MAX_LIMIT of Linux: no process or thread has this number, or a larger one.
_FREE_PIDS = 1 << 22


def add_node(rows: pl.LazyFrame) -> pl.LazyFrame:
    """Return rows with the column `node`, which is null if they are of no dataset."""
    return rows if "node" in rows.collect_schema() else rows.with_columns(node=pl.lit(None, pl.String))


def name_on_node(name: str, node: str | None) -> str:
    """Return a name with its node behind it.

    >>> name_on_node("gemm 100", "node3"), name_on_node("gemm 100", None)
    ('gemm 100 (node3)', 'gemm 100')
    """
    return name if node is None else f"{name} ({node})"


def _separate_pids(processes: pl.DataFrame) -> dict[int, int | None]:
    """Return the number that stands for each process where all nodes share one space of pids.

    It is the pid, but where an earlier node has a process with this pid, too: then it is a number that no process has.

    Args:
        processes: rows of `processes` with `node`.
    """
    pids = processes.select("process", "node", pid=pl.coalesce("pid", "log_pid"))
    owner: dict[int, str | None] = {}
    given: dict[tuple[int, str | None], int] = {}
    numbers: dict[int, int | None] = {}
    for process, node, pid in pids.iter_rows():
        if pid is None or owner.setdefault(pid, node) == node:
            numbers[process] = pid
        else:
            numbers[process] = given.setdefault((pid, node), _FREE_PIDS + len(given))
    return numbers


_QUEUE_LAYERS = ("aql", "doorbell", "gpu")
_GROUPS = {
    "hip": "HIP calls", "hsa": "HSA calls", "gpu": "GPU", "doorbell": "doorbells", "aql": "log", "command": "log",
    "copy": "log", "signal": "log", "memory": "log", "hqd": "HQD", "marker": "marks", "other": "other",
    "smi": "evictions, faults",
    "kernel": "kernel log",
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
    pids = _separate_pids(processes)
    owners = _Owners()
    owners.add_processes(processes, pids)
    owners.add_threads(threads, processes, pids)
    owners.add_queues(queues)
    return owners


def _or_unknown(number: int | None) -> str:
    return "?" if number is None else str(number)


_RING = ("node", "dev", "ring")
_MOST_ROWS = 255  # as many as `first_fit` numbers
_NUMBERS = (
    "job", "id", "client_id", "queued_ns", "waited_ns", "submitter_pid", "submitter_tid", "queue_event", "run_event",
    "done_event",
)  # fmt: skip
_TEXTS = ("dev", "ring", "fence")
_ARGUMENTS = {"event": pl.Int64, "key": pl.String, "number": pl.Int64, "text": pl.String}


@dataclass(frozen=True)
class Jobs:
    """Hold the spans of jobs.

    Args:
        tracks: those of the rings, parents first.
        slices: one row per job, as `trace.Trace` has them, without its columns that no job has; `event` is below 0:
            the job's events are slices of their own.
        arguments: event (of a slice), key, number, text.
        runs: run_event, event (of the slice).
    """

    tracks: list[Track]
    slices: pl.DataFrame
    arguments: pl.DataFrame
    runs: pl.DataFrame


def draw_jobs(tables: Tables, selection: Selection, taken: int) -> Jobs:
    """Return the jobs of a selection whose run and end are known, as the page shows them; of others nothing is drawn.

    A job begins with its run: it belongs to a selection of times and layers as that event does, and to the process
    that submitted it.

    Args:
        tables: gives a table by its name.
        selection: what is exported.
        taken: number of tracks that there are.
    """
    whole = _list_whole(tables, selection)
    if whole.is_empty():
        return Jobs([], pl.DataFrame(), pl.DataFrame(schema=_ARGUMENTS), pl.DataFrame())
    jobs = _place_jobs(_describe(whole, tables, selection))
    tracks, uuids = _make_tracks(jobs, taken)
    placed = jobs.join(uuids, on=[*_RING, "row"], how="left", nulls_equal=True, maintain_order="left")
    texts = ("layer", "source", "evidence")
    slices = placed.select(
        "event", "track", *texts, "error_ns", "name", ts_ns="run_ns", dur_ns=pl.col("done_ns") - pl.col("run_ns"),
        is_call=pl.lit(value=False),
    )  # fmt: skip
    return Jobs(tracks, slices, _list_arguments(placed), placed.select("run_event", "event"))


def _list_whole(tables: Tables, selection: Selection) -> pl.DataFrame:
    """Return the jobs of the selected processes whose run and end are known."""
    jobs = add_node(tables("drm_jobs")).filter(pl.col("done_ns") >= pl.col("run_ns"))
    if selection.processes:
        jobs = jobs.filter(pl.col("process").is_in(list(selection.processes)))
    return collect(jobs.with_columns(as_text("dev", "ring")))


def _describe(jobs: pl.DataFrame, tables: Tables, selection: Selection) -> pl.DataFrame:
    """Return the selected jobs with name and `event`, their submitter, and what the event of their run tells."""
    error = pl.col("err_lo_ns").cast(pl.Int64) + pl.col("err_hi_ns").cast(pl.Int64)
    # The event of the run is of the kernel's thread, whoever submitted the job.
    runs = replace(selection, processes=()).filter_events(tables).select(
        *as_text("layer", "source", "evidence"), run_event="event", error_ns=error
    )  # fmt: skip
    processes = tables("processes").select("process", submitter_pid=pl.coalesce("pid", "log_pid"))
    threads = tables("threads").select("thread", submitter_tid="tid")
    told = jobs.lazy().join(runs, on="run_event")
    told = told.join(processes, on="process", how="left").join(threads, on="thread", how="left")
    name = pl.concat_str("ring", name_job(), separator=" ", ignore_nulls=True)
    waited = pl.col("run_ns") - pl.col("queued_ns")
    rows = collect(told.with_columns(name=name, waited_ns=waited)).sort(*_RING, "run_ns", "run_event")
    return rows.with_columns(event=-1 - pl.int_range(pl.len()))


def _place_jobs(jobs: pl.DataFrame) -> pl.DataFrame:
    """Return jobs, sorted by ring and run, with `row`: several run at once, and none is a part of another."""
    rings = jobs.partition_by(_RING, maintain_order=True)
    rows = [first_fit(ring["run_ns"].to_numpy(), ring["done_ns"].to_numpy(), _MOST_ROWS) for ring in rings]
    numbers = [int(row) for ring in rows for row in ring]
    return jobs.with_columns(row=pl.Series(numbers, dtype=pl.Int64))


def _make_tracks(jobs: pl.DataFrame, taken: int) -> tuple[list[Track], pl.DataFrame]:
    """Return a track for each device, below it one for each row of its rings, and their numbers by `_RING` and row."""
    tracks: list[Track] = []
    devices: dict[tuple[str | None, str | None], int] = {}
    places = jobs.select(*_RING, "row").unique().sort(*_RING, "row")
    uuids = []
    for node, device, ring, row in places.iter_rows():
        if (node, device) not in devices:
            name = "GPU scheduler" if device is None else f"GPU scheduler {device}"
            tracks.append(Track(taken + len(tracks) + 1, 0, name_on_node(name, node)))
            devices[node, device] = tracks[-1].uuid
        name = ring or "ring not named"
        above = devices[node, device]
        tracks.append(Track(taken + len(tracks) + 1, above, f"{name} ({row + 1})" if row else name))
        uuids.append(tracks[-1].uuid)
    return tracks, places.with_columns(track=pl.Series(uuids, dtype=pl.Int64))


def _list_arguments(jobs: pl.DataFrame) -> pl.DataFrame:
    parts = [pl.DataFrame(schema=_ARGUMENTS)]
    for columns, kind in ((_NUMBERS, "number"), (_TEXTS, "text")):
        values = jobs.select("event", pl.col(columns).cast(_ARGUMENTS[kind]))
        parts.append(values.unpivot(index="event", variable_name="key", value_name=kind).drop_nulls())
    return pl.concat(parts, how="diagonal")
