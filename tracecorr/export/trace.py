"""What a trace viewer is given, in one form for all: slices and instants on tracks, arrows between them, counters."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from tracecorr.analyze.values import Tables, collect
from tracecorr.export.selection import Selection
from tracecorr.export.tracks import Jobs, Track, add_node, assign_tracks, draw_jobs
from tracecorr.link.packet_index import measure_depth
from tracecorr.model.columns import is_counted
from tracecorr.model.kinds import HALF_SEEN, Flag


@dataclass(frozen=True)
class Trace:
    """Hold what is to be written.

    Args:
        tracks: tracks of slices, parents first.
        slices: one row per exported event, in the order in which they are written: event, track, ts_ns, dur_ns (0 for
            an instant), is_open (began, and nothing shows that it ended), name, layer, queue, gpu, and columns for the
            arguments.
            Among them are the jobs of the kernel's GPU scheduler (see `jobs.Jobs`), whose `event` is below 0.
        flows: one row per exported link: flow, from_event, to_event (the earlier one first), rule.
        arguments: those of slices that are no events: event, key, number, text.
        counters: tracks of counters.
        counts: one row per value: track, ts_ns, value.
        later_ns: what was added to every time, so that none lies before 0: viewers drop such events.
    """

    tracks: list[Track]
    slices: pl.DataFrame
    flows: pl.DataFrame
    arguments: pl.DataFrame
    counters: list[Track]
    counts: pl.DataFrame
    later_ns: int = 0


def build_trace(tables: Tables, selection: Selection) -> Trace:
    """Return the slices, flows and counters of a selection; second sights of a call are left out."""
    tracks, events = assign_tracks(tables, selection.filter_events(tables).filter(is_counted()))
    kernels = tables("kernels").select("kernel", kernel_name="name", short=pl.coalesce("display", "name"))
    named = events.join(kernels, on="kernel", how="left", maintain_order="left")
    texts = [pl.col(c).cast(pl.String) for c in ("layer", "source", "evidence", "result")]
    error = pl.col("err_lo_ns").cast(pl.Int64) + pl.col("err_hi_ns").cast(pl.Int64)
    flags = pl.col("flags").fill_null(0)
    begun, half = flags & int(Flag.ENTER_ONLY) > 0, flags & HALF_SEEN > 0
    slices = collect(
        named.select(
            "event", "track", "ts_ns", pl.col("dur_ns").fill_null(0), *texts, "packet_index", "size_bytes", "signal",
            "stream", "queue", "gpu", "kernel_name", error.alias("error_ns"), "depth",
            is_call=pl.col("dur_ns").is_not_null() | half,
            seen=pl.when(begun).then(pl.lit("begin only")).when(half).then(pl.lit("end only")),
            name=pl.coalesce(pl.when(pl.col("name") == "dispatch").then("short"), pl.col("name").cast(pl.String)),
        )
    )  # fmt: skip
    jobs = draw_jobs(tables, selection, len(tracks))
    tracks, slices = _spread([*tracks, *jobs.tracks], pl.concat([slices, jobs.slices], how="diagonal"))
    slices = slices.sort(["ts_ns", "dur_ns", "event"], descending=[False, True, False])
    slices = slices.with_columns(is_open=_tell_open(slices) if selection.everything else pl.lit(value=False))
    slices = slices.drop("depth", "is_call")
    counters, counts = _counters(tables, slices, len(tracks), selection)
    later = max(0, -min(_first_ns(slices), _first_ns(counts)))
    slices, counts = (part.with_columns(pl.col("ts_ns") + later) for part in (slices, counts))
    flows = _flows(tables, slices, jobs)
    return Trace(tracks, slices, flows, _move_times(jobs.arguments, later), counters, counts, later)


def _move_times(arguments: pl.DataFrame, later_ns: int) -> pl.DataFrame:
    is_time = pl.col("key") == "queued_ns"
    return arguments.with_columns(number=pl.col("number") + pl.when(is_time).then(later_ns).otherwise(0))


def _first_ns(rows: pl.DataFrame) -> int:
    return int(rows.select(pl.col("ts_ns").min().fill_null(0)).item())


def _spread(tracks: list[Track], slices: pl.DataFrame) -> tuple[list[Track], pl.DataFrame]:
    """Move spans that overlap others of their track without nesting to extra tracks beside it."""
    spans = slices.filter(pl.col("dur_ns") > 0).select("event", "track", "ts_ns", "dur_ns")
    moved = split_overlaps(spans).filter(pl.col("row") > 0).join(spans.select("event", "track"), on="event")
    extra = moved.select("track", "row").unique().sort("track", "row")
    more = list(tracks)
    uuids = []
    for track, row in extra.iter_rows():
        base = tracks[track - 1]
        more.append(Track(len(more) + 1, base.parent, f"{base.name} ({row + 1})"))
        uuids.append(len(more))
    named = extra.with_columns(extra_track=pl.Series(uuids, dtype=pl.Int64))
    place = moved.join(named, on=["track", "row"]).select("event", "extra_track")
    joined = slices.join(place, on="event", how="left", maintain_order="left")
    return more, joined.with_columns(track=pl.coalesce("extra_track", "track")).drop("extra_track")


def _tell_open(slices: pl.DataFrame) -> pl.Series:
    """Return which half-seen calls may go on to the end of the trace: nothing on their track shows that they ended.

    A later call that is not nested in it does, and so does the end of a call around it: then its end is lost.
    """
    ordered = slices.with_row_index("order").with_columns(
        before=(pl.col("ts_ns") + pl.col("dur_ns")).cum_max().shift(1).over("track")
    )
    begun = ordered.filter(pl.col("seen") == "begin only", pl.col("before").fill_null(0) <= pl.col("ts_ns"))
    last = ordered.filter("is_call").group_by("track", pl.col("depth").alias("other")).agg(pl.col("order").max())
    not_nested = (pl.col("other") > pl.col("depth")).fill_null(value=False).not_()
    ended = begun.select("track", "event", "depth", own="order").join(last, on="track")
    ended = ended.filter(not_nested, pl.col("order") > pl.col("own"))
    return slices["event"].is_in(begun.join(ended, on="event", how="anti")["event"].implode())


def _flows(tables: Tables, slices: pl.DataFrame, jobs: Jobs) -> pl.DataFrame:
    """Return the links whose two ends are exported; viewers draw an arrow from the earlier to the later one.

    Those of a job that is drawn go by its span instead of by the event of its run.
    """
    order = slices.select("event").with_row_index("order").lazy()
    links = tables("links").select("from_event", "to_event", pl.col("rule").cast(pl.String)).with_row_index("flow", 1)
    for end in ("from_event", "to_event") if jobs.runs.height else ():
        spans = jobs.runs.lazy().select(pl.col("run_event").alias(end), span="event")
        span = pl.when(pl.col("rule") == "drm_job").then("span")
        links = links.join(spans, on=end, how="left").with_columns(pl.coalesce(span, end).alias(end)).drop("span")
    both = links.join(order, left_on="from_event", right_on="event").join(
        order, left_on="to_event", right_on="event", suffix="_to"
    )
    back = pl.col("order") > pl.col("order_to")
    return collect(
        both.filter(pl.col("order") != pl.col("order_to")).select(
            pl.col("flow").cast(pl.UInt64), "rule",
            from_event=pl.when(back).then("to_event").otherwise("from_event"),
            to_event=pl.when(back).then("from_event").otherwise("to_event"),
        ).sort("flow")
    )  # fmt: skip


def _counters(
    tables: Tables, slices: pl.DataFrame, taken: int, selection: Selection
) -> tuple[list[Track], pl.DataFrame]:
    """Return the depth of each queue at its packets, and the polled samples."""
    packets = add_node(tables("launches")).filter((pl.col("kind") != "copy") & pl.col("queue").is_not_null())
    queue, node = pl.format("packets in queue {}", "queue"), pl.format("({})", "node")
    depth = packets.select(
        "event",
        name=pl.concat_str(queue, node, separator=" ", ignore_nulls=True),
        ts_ns="packet_ns",
        value=measure_depth().cast(pl.Float64),
    )
    depths = collect(depth.drop_nulls()).join(slices.select("event"), on="event", how="semi").drop("event")
    parts = [depths]
    if selection.everything:
        of = (pl.format(f"{key} {{}}", key) for key in ("gpu", "process"))
        whose = pl.concat_str(*of, "node", separator=", ", ignore_nulls=True)
        name = pl.col("name").cast(pl.String)
        label = pl.when(whose == "").then(name).otherwise(pl.format("{} ({})", name, whose))
        samples = add_node(tables("samples")).select(name=label, ts_ns="ts_ns", value="value")
        parts.append(collect(samples.drop_nulls()))
    counts = pl.concat(parts)
    names = counts["name"].unique().sort()
    tracks = [Track(taken + 1 + i, 0, name) for i, name in enumerate(names)]
    uuids = pl.DataFrame(
        {"name": names, "track": [t.uuid for t in tracks]}, schema={"name": pl.String, "track": pl.Int64}
    )
    placed = counts.join(uuids, on="name").select("track", "ts_ns", "value").sort("ts_ns", "track", maintain_order=True)
    return tracks, placed


def split_overlaps(spans: pl.DataFrame) -> pl.DataFrame:
    """Return event and `row`: 0 if a span stays on its track, else the number of an extra track.

    Args:
        spans: event, track, ts_ns, dur_ns (above 0).

    Returns: only spans of tracks on which spans overlap; all others stay where they are.
    """
    bad = _tracks_with_overlaps(spans)
    rows: list[tuple[int, int]] = []
    for track in bad:
        ordered = spans.filter(pl.col("track") == track).sort(
            ["ts_ns", "dur_ns", "event"], descending=[False, True, False]
        )
        rows += _place(ordered)
    return pl.DataFrame(rows, schema={"event": pl.Int64, "row": pl.Int64}, orient="row")


def _tracks_with_overlaps(spans: pl.DataFrame) -> list[int]:
    """Return the tracks on which closing the span that was opened last does not close the right one."""
    if spans.is_empty():
        return []
    begins = spans.select(
        "track", "event", at="ts_ns", end=pl.col("ts_ns") + pl.col("dur_ns"), kind=pl.lit(1), step=pl.lit(1)
    )
    ends = begins.with_columns(at=pl.col("end"), kind=pl.lit(0), step=pl.lit(-1))
    # At one moment ends come first, and the longer span opens first.
    marks = pl.concat([begins, ends]).sort(
        ["track", "at", "kind", "end", "event"], descending=[False, False, False, True, False]
    )
    depth = marks["step"].cum_sum().to_numpy()
    opened = marks["kind"].to_numpy() == 1
    level = np.where(opened, depth - 1, depth)
    placed = marks.with_columns(level=pl.Series(level), order=pl.int_range(pl.len())).sort("track", "level", "order")
    first = placed.filter(pl.col("kind") == 1).select("track", "end")
    second = placed.filter(pl.col("kind") == 0).select("at")
    wrong = first.with_columns(closed=second["at"]).filter(pl.col("end") != pl.col("closed"))
    return wrong["track"].unique().sort().to_list()


def _place(ordered: pl.DataFrame) -> list[tuple[int, int]]:
    """Return (event, row): the first row on which the span lies inside or beside all others."""
    rows: list[list[int]] = []
    placed = []
    for event, start, length in ordered.select("event", "ts_ns", "dur_ns").iter_rows():
        end = start + length
        for number, stack in enumerate(rows):
            while stack and stack[-1] <= start:
                stack.pop()
            if not stack or stack[-1] >= end:
                stack.append(end)
                placed.append((event, number))
                break
        else:
            placed.append((event, len(rows)))
            rows.append([end])
    return placed
