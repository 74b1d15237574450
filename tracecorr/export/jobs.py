"""Jobs of the kernel's GPU scheduler as spans on tracks of the rings that ran them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import polars as pl

from tracecorr.analyze.frames import Tables, as_text, collect
from tracecorr.export.nodes import add_node, name_on_node
from tracecorr.export.selection import Selection
from tracecorr.export.tracks import Track
from tracecorr.timeline.drawn import name_job
from tracecorr.timeline.levels import first_fit

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
    jobs = _place(_describe(whole, tables, selection))
    tracks, uuids = _make_tracks(jobs, taken)
    placed = jobs.join(uuids, on=[*_RING, "row"], how="left", nulls_equal=True, maintain_order="left")
    texts = ("layer", "source", "evidence")
    slices = placed.select(
        "event", "track", *texts, "error_ns", "name", ts_ns="run_ns", dur_ns=pl.col("done_ns") - pl.col("run_ns"),
        is_call=pl.lit(value=False),
    )  # fmt: skip
    return Jobs(tracks, slices, _list_arguments(placed), placed.select("run_event", "event"))


def _list_whole(tables: Tables, selection: Selection) -> pl.DataFrame:
    """Return the jobs of which run and end are known, of the selected processes."""
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


def _place(jobs: pl.DataFrame) -> pl.DataFrame:
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
