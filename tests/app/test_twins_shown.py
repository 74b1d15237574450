"""A call that function_graph and a probe recorded is drawn, found and exported once (RECORDED in the VM, 6.12)."""

from __future__ import annotations

import json
from io import BytesIO
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from tracecorr.app import index
from tracecorr.app.detail import step
from tracecorr.app.filters import count_range
from tracecorr.app.find import Finder
from tracecorr.app.index import CaptureIndex
from tracecorr.export.selection import Selection
from tracecorr.export.speedscope import write_speedscope
from tracecorr.export.trace import build_trace
from tracecorr.model.columns import is_counted
from tracecorr.pipeline import correlate, import_files
from tracecorr.store import Capture

NAME, CALLS = "kfd_ioctl", 24  # entries of the driver that the program made


@pytest.fixture(scope="module")
def seen_twice(data_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> CaptureIndex:
    """Return the index of a trace that tells of each call twice."""
    out = tmp_path_factory.mktemp("twins") / "vm.tracecorr"
    import_files(out, [], [data_folder / "vm" / "trixie" / "ftrace" / "function_graph.trace.txt"], clock="mono")
    correlate(out)
    return index.build(Capture.open(out))


def _rows(seen_twice: CaptureIndex) -> pl.DataFrame:
    """Return the rows of kfd_ioctl with `is_twin`."""
    events = seen_twice.capture.table("events").with_columns(is_twin=~is_counted())
    return events.filter(pl.col("name").cast(pl.String) == NAME).sort("event").collect()


def test_a_second_sight_is_drawn_where_the_row_that_counts_is(seen_twice: CaptureIndex) -> None:
    rows, views = _rows(seen_twice), seen_twice.views
    twins = rows.filter("is_twin")
    assert (rows.height, twins.height) == (2 * CALLS, CALLS)
    assert (views.place[twins["event"].to_numpy()] == views.place[twins["parent"].to_numpy()]).all()
    drawn = set(views.pyramid.finest.event.tolist())
    assert not drawn & set(twins["event"]) and drawn >= set(rows.filter(~pl.col("is_twin"))["event"])
    assert sum(lane.count for lane in views.lanes) == len(views.pyramid.finest)


def test_ranges_and_searches_count_each_call_once(seen_twice: CaptureIndex) -> None:
    views, counted = seen_twice.views, _rows(seen_twice).filter(~pl.col("is_twin"))
    lanes = [lane.id for lane in views.lanes if lane.layer == "kfd" and lane.label != "hardware scheduler"]
    told = {r["name"]: r for r in count_range(seen_twice, views.pyramid, 0, views.length_ns, lanes)["names"]}
    assert (told[NAME]["count"], told[NAME]["inside_ns"]) == (CALLS, counted["dur_ns"].sum())
    assert Finder(seen_twice).find(f'"{NAME}"', -1, forward=True)["count"] == CALLS
    first, second = counted["event"][:2]
    assert (
        step(seen_twice, first, "name", back=False) == second and step(seen_twice, second, "name", back=True) == first
    )
    assert step(seen_twice, first, "thread", back=False) != first + 1


def test_traces_for_viewers_hold_each_call_once(seen_twice: CaptureIndex) -> None:
    table = seen_twice.capture.table
    trace = build_trace(table, Selection())
    assert trace.slices.filter(pl.col("name") == NAME).height == CALLS
    assert set(np.concatenate([trace.flows["from_event"], trace.flows["to_event"]])) <= set(trace.slices["event"])
    stream = BytesIO()
    write_speedscope(table, stream, Selection(), "x")
    told = json.loads(stream.getvalue())
    frame = [f["name"] for f in told["shared"]["frames"]].index(NAME)
    assert sum(e["frame"] == frame for p in told["profiles"] for e in p["events"]) == 2 * CALLS
