"""SYNTHETIC runs of which a part of the log is missing: a thread, a kind of line, the end; and what it tells then."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
from benchmarks.truth import Score, compare
from simulator import Scene, Simulation, run, simulate
from simulator.machine import START_NS
from simulator.record import Line, Recorder

from tracecorr.analyze.verdicts import Outcome, judge_capture
from tracecorr.pipeline import correlate, import_files
from tracecorr.store import Capture

BASE = Scene(span_s=0.15, threads=2)


def correlated(made: Simulation, folder: Path) -> Capture:
    out = folder / "run.tracecorr"
    import_files(out, made.logs, [made.trace], clock=made.scene.clock.name)
    correlate(out)
    return Capture.open(out)


def lose(monkeypatch: pytest.MonkeyPatch, is_lost: Callable[[Recorder, Line], bool]) -> None:
    """Let the simulator lose the lines of the log that a predicate names by their text."""

    order = run._order

    def keep(record: Recorder, source: str) -> list[Line]:
        return [line for line in order(record, source) if source == "trace" or not is_lost(record, line)]

    monkeypatch.setattr(run, "_order", keep)


def assert_nothing_wrong(score: Score) -> None:
    for rule, (found, right, _, _) in score.links.items():
        assert found == right, rule


@pytest.mark.parametrize("share", [0.31, 0.53, 0.84])
def test_a_log_that_ends_early_claims_no_later_system_call(share: float, tmp_path: Path) -> None:
    """The call that was open when it ended may have returned at any time after its last line."""
    made = simulate(replace(BASE, threads=4), tmp_path)
    (log,) = made.logs
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join(lines[: int(share * len(lines))]))
    score = compare("cut", made, correlated(made, tmp_path))
    assert score.links["syscall_in_call"][0] > 0
    assert_nothing_wrong(score)


def test_without_stores_the_intervals_hold_the_true_ones(tmp_path: Path) -> None:
    """A graph launch stores once, behind the lines of all its packets."""
    made = simulate(replace(BASE, kinds=(("launch", 3), ("graph", 1), ("event", 1), ("copy", 1))), tmp_path)
    trues = made.truth["doorbells"].join(
        made.moments, left_on=["to_file", "to_offset"], right_on=["file", "offset"]
    ).select("true_ns", file="from_file", offset="from_offset")  # fmt: skip
    trace = made.trace.read_text().splitlines(keepends=True)
    made.trace.write_text("".join(line for line in trace if "doorbell:" not in line))
    capture = correlated(made, tmp_path)
    places = capture.table("events").select("event", "file", "offset")
    launches = capture.table("launches").join(places, on="event").collect().join(trues, on=["file", "offset"])
    assert launches.height > 100
    for side in ("doorbell_lo_ns", "doorbell_hi_ns"):
        assert launches[side].null_count() == 0
    outside = launches.filter(
        (pl.col("true_ns") < pl.col("doorbell_lo_ns")) | (pl.col("true_ns") > pl.col("doorbell_hi_ns"))
    )
    assert outside.is_empty(), outside.select("kind", "true_ns", "doorbell_lo_ns", "doorbell_hi_ns")


@pytest.mark.parametrize("told", [True, False])
def test_queues_made_again_are_told_apart_by_their_log_ids(
    told: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their rings are the same; where the Created lines are lost, the ids that packets print still tell."""
    if not told:
        lose(monkeypatch, lambda _, line: "Created SWq" in line.text)
    made = simulate(replace(BASE, recreate=True, span_s=0.06), tmp_path)
    capture = correlated(made, tmp_path)
    queues = capture.table("queues").collect().filter(pl.col("dispatches") + pl.col("barriers") > 0)
    packets = capture.table("launches").filter(pl.col("kind").cast(pl.String) != "copy").collect()
    assert queues["hwq"].n_unique() < queues.height
    assert queues["log_id"].n_unique() == queues.height
    assert packets.select("queue", "packet_index").is_duplicated().sum() == 0


def test_a_log_tells_when_lines_of_it_are_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A span of 20 ms was lost; nothing is lost elsewhere, and nothing in the whole log."""
    for name, gap in (("whole", (0.0, 0.0)), ("lost", (60e6, 80e6))):
        folder = tmp_path / name
        folder.mkdir()
        low, high = (START_NS + at for at in gap)

        lose(monkeypatch, lambda _, line, low=low, high=high: low <= line.at_ns < high)  # type: ignore[misc]
        capture = correlated(simulate(replace(BASE, seed=3), folder), folder)
        losses = capture.table("losses").with_columns(pl.col("source").cast(pl.String)).collect()
        (verdict,) = judge_capture(capture.table, names={"nothing_lost"})
        if name == "whole":
            assert losses.is_empty()
            assert verdict.outcome == Outcome.PASS
            continue
        assert losses["source"].unique().to_list() == ["amd_log"]
        assert low - 5e6 < losses["from_ns"].min() <= low  # type: ignore[operator]
        assert high - 1e3 <= losses["to_ns"].max() < high + 5e6  # type: ignore[operator]
        assert losses["count"].sum() > 20
        assert verdict.outcome == Outcome.FAIL
