"""The Python API: its examples run on the bundled sample, its errors say what to do."""

from __future__ import annotations

import doctest
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import tracecorr
from tracecorr import api
from tracecorr.model import schema
from tracecorr.pipeline import make_dataset
from tracecorr.store import Capture


def test_the_examples_of_the_docstrings(sample: Path) -> None:
    known = {"sample": sample, "pl": pl, "open_capture": tracecorr.open_capture}
    done = doctest.testmod(api, extraglobs=known)
    assert done.failed == 0
    assert done.attempted > 10


def test_the_module_lists_what_it_imports_when_it_is_used() -> None:
    assert set(tracecorr.__all__) <= set(dir(tracecorr))


def test_every_table_is_a_property(sample: Path) -> None:
    cap = tracecorr.open_capture(sample)
    for name in schema.TABLES:
        assert getattr(cap, name).collect_schema().names() == list(schema.TABLES[name].schema), name


def test_a_capture_shows_what_it_holds_and_answers_about_a_hang(recorded: Callable[..., Capture]) -> None:
    cap = tracecorr.open_capture(recorded("captures/hang-deadlock").path)
    shown, page = repr(cap), cap._repr_html_()
    for fact in (
        "duration: 4.39 s",
        "dispatches: 2, of 4 packets",
        "queues: 2",
        "2 FAIL (queue_creation_complete, no_dead",
    ):
        assert fact in shown and fact in page
    assert "a deadlock; only a write of the host" in cap.hangs()[6]
    failed = cap.failures()
    assert failed["result"].unique().to_list() == ["ENOTTY"] and failed["times"].sum() == 87
    slowest = cap.breakdown()["call_event"][0]
    part = cap.events.filter(chain=slowest, layer="ioctl").first().collect()["event"].item()
    assert cap.breakdown(part)["summary"].item().startswith("hipStreamCreate 33.93 ms: 3.12 ms making the queue")
    with pytest.raises(tracecorr.InputError, match="belongs to no HIP call"):
        cap.breakdown(0)
    assert cap.tables.row(0) == ("events", cap.events.collect().height, "everything that happened, in time order")


def test_figures_have_data(sample: Path) -> None:
    figure = tracecorr.open_capture(sample).figure
    for draw in (figure.latency, figure.rate, figure.queue_depth, figure.hip_calls, figure.paths, figure.clocks):
        assert len(draw().data) > 0, draw.__name__


def test_a_timeline_takes_layers_in_any_form(sample: Path) -> None:
    figure = tracecorr.open_capture(sample).figure
    every = {bar.name for bar in figure.timeline(0, 10**6).data}
    assert every == {bar.name for bar in figure.timeline(0, 10**6, None).data}
    assert {bar.name for bar in figure.timeline(0, 10**6, ["ioctl"]).data} == {"ioctl"} & every


def test_a_timeline_of_too_much_is_refused(sample: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tracecorr.analyze.figures._MAX_SPANS", 10)
    with pytest.raises(tracecorr.InputError, match="a figure holds 10"):
        tracecorr.open_capture(sample).figure.timeline()


def test_chain_and_raw_of_every_kind_of_event(sample: Path) -> None:
    cap = tracecorr.open_capture(sample)
    for event in cap.events.group_by("layer").agg(pl.col("event").first()).collect()["event"]:
        assert event in cap.chain(event)["event"]
        assert cap.raw(event)
    launch = cap.launches.filter(pl.col("kind") == "dispatch").collect().row(5, named=True)
    chain = cap.chain(launch["event"])
    assert {launch["event"], launch["call_event"], launch["doorbell_event"]} <= set(chain["event"])
    assert chain.filter(pl.col("event") == launch["call_event"])["since_root_ns"].item() == 0


def test_an_export_that_fails_leaves_the_file_that_was_there(
    sample: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cap, target = tracecorr.open_capture(sample), tmp_path / "x.pftrace"
    cap.export_perfetto(target)
    whole = target.read_bytes()
    # As where its package is damaged: it fails when the file is open already.
    monkeypatch.setitem(sys.modules, "perfetto.trace_builder.proto_builder", None)
    with pytest.raises(ModuleNotFoundError):
        cap.export_perfetto(target)
    for place in (tmp_path / "no", target):
        with pytest.raises(tracecorr.InputError, match="cannot write"):
            cap.export_perfetto(place / "x.pftrace")
    assert (whole != b"", list(tmp_path.iterdir()), target.read_bytes()) == (True, [target], whole)


def test_a_capture_is_found_without_its_suffix(sample: Path) -> None:
    """As the command line does: `tracecorr report gemm`."""
    assert tracecorr.open_capture(sample.with_name("t1-streams")).path == sample


def test_a_query_of_a_dataset_knows_its_nodes(sample: Path, tmp_path: Path) -> None:
    """As the command line does: `tracecorr query fleet "SELECT node, ..."`."""
    fleet = tracecorr.open_capture(make_dataset([sample], tmp_path / "fleet.tracecorr").path)
    rows = fleet.query("SELECT node, COUNT(*) AS n FROM queues WHERE dispatches > 0 GROUP BY node")
    assert rows.rows() == [("t1-streams", 3)]


def test_tables_of_a_dataset_know_their_nodes(sample: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.tracecorr"
    shutil.copytree(sample, other)
    fleet = tracecorr.open_capture(make_dataset([sample, other], tmp_path / "fleet.tracecorr").path)
    alone = tracecorr.open_capture(sample)
    for name in schema.TABLES:
        assert fleet.table(name).collect_schema().names() == [*alone.table(name).collect_schema().names(), "node"]
    nodes = fleet.queues_report().group_by("node", maintain_order=True).agg(pl.len(), pl.col("queue").min())
    count = alone.queues.collect().height
    assert nodes.rows() == [("t1-streams", count, 0), ("other", count, count)]
    assert "node" not in alone.queues_report().columns
    assert fleet.report() and fleet.verdicts() and fleet.compare(alone)
    call = fleet.events.filter(pl.col("layer") == "hip").last().collect()["event"].item()
    assert fleet.chain(call).height and fleet.raw(call)


def test_raw_bytes_that_are_gone(sample: Path, tmp_path: Path) -> None:
    """A dataset leaves them where its captures are; the tables say the rest all the same."""
    copy = tmp_path / "x.tracecorr"
    shutil.copytree(sample, copy)
    cap = tracecorr.open_capture(copy)
    shutil.rmtree(copy / "raw")
    with pytest.raises(tracecorr.CaptureError, match="is missing") as error:
        cap.raw(0)
    assert error.value.next_step
    assert cap.chain(0).height


def test_wrong_names_and_numbers_are_refused(sample: Path, tmp_path: Path) -> None:
    cap = tracecorr.open_capture(sample)
    for wrong in (
        lambda: cap.chain(10**9), lambda: cap.raw(-1), lambda: cap.columns("x"), lambda: cap.table("x"),
        lambda: cap.query("SELECT nothing FROM queues"), lambda: tracecorr.open_capture(tmp_path),
    ):  # fmt: skip
        with pytest.raises(tracecorr.InputError) as error:
            wrong()
        assert error.value.next_step
    wrong_types: list[Any] = ["5", 1.5, None, -1, 10**30]
    for event in wrong_types:
        for read in (cap.chain, cap.raw):
            with pytest.raises(tracecorr.InputError, match="event"):
                read(event)
    calls: list[tuple[Any, tuple[Any, ...]]] = [
        (tracecorr.open_capture, (3,)), (cap.query, (3,)), (cap.verdicts, ("x",)), (cap.report, ({},)),
        (cap.figure.timeline, (None, None, "hip")), (cap.figure.timeline, (None, None, ("hipp",))),
        (cap.figure.timeline, (5, 1)), (cap.figure.timeline, ("1ms",)), (cap.figure.timeline, (0, 1.5)),
        (cap.figure.timeline, (None, None, 3)), (cap.compare, ("b.tracecorr",)), (cap.compare, (cap, 95)),
        (cap.compare, (cap, "0.9")), (cap.compare(cap).frame, ("x",)),
    ]  # fmt: skip
    for call, given in calls:
        with pytest.raises(tracecorr.InputError) as error:
            call(*given)
        assert error.value.next_step
    with pytest.raises(AttributeError):
        tracecorr.nothing  # noqa: B018
