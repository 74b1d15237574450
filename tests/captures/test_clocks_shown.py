"""REAL captures: `clock_map` tells the times that were made of the stamps, and a trace's false name is told."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from tracecorr.analyze.clocks import describe_fitted_rate
from tracecorr.analyze.verdicts import Outcome, judge_capture
from tracecorr.clock.fit import find_refuted
from tracecorr.store import Capture

Recorded = Callable[..., Capture]
_SAID = "ftrace:mono: the trace was said to be on CLOCK_MONOTONIC"


def _clocks(capture: Capture) -> pl.DataFrame:
    return capture.table("clock_map").with_columns(pl.col(pl.Categorical).cast(pl.String)).collect()


def _trace_rows(capture: Capture) -> pl.DataFrame:
    return capture.table("events").filter(pl.col("source").cast(pl.String) == "ftrace").collect()


@pytest.mark.parametrize(
    ("name", "samples", "log"),
    [
        ("captures/kfd-6.12-t1", False, True), ("captures/caseA-1stream", False, True),
        ("vm/combo-trixie", False, True),
        ("captures/t1-local-clock", True, True), ("captures/t1-local-clock", True, False),
    ],
)  # fmt: skip
def test_the_clock_map_tells_how_stamps_became_times(name: str, samples: bool, log: bool, recorded: Recorded) -> None:
    capture = recorded(name, samples=samples, log=log)
    clocks = _clocks(capture).filter(pl.col("source").str.starts_with("ftrace")).sort("from_ns")
    events = _trace_rows(capture).drop_nulls("stamp_ns")
    stamps, shifts = events["stamp_ns"].to_numpy(), (events["ts_ns"] - events["stamp_ns"]).to_numpy()
    begins = clocks["from_ns"].to_numpy()
    at = np.searchsorted(begins, stamps, side="right") - 1
    assert (stamps <= clocks["to_ns"].to_numpy()[at]).all()
    offset, rate = (clocks[column].to_numpy()[at] for column in ("offset_ns", "rate_ppb"))
    assert np.abs(offset + rate * 1e-9 * (stamps - begins[at]) - shifts).max() <= 1


@pytest.mark.parametrize("name", ["captures/kfd-6.12-t1", "captures/caseA-1stream", "vm/combo-trixie"])
def test_durations_are_scaled_by_no_more_than_is_told(name: str, data_folder: Path, recorded: Recorded) -> None:
    """The clock is CLOCK_MONOTONIC, and pairs show no other rate: durations are those of the stamps."""
    capture = recorded(name, samples=False)
    events = _trace_rows(capture).drop_nulls("dur_ns")
    text = (data_folder / name / "ftrace.txt").read_bytes()
    rows = events.filter((pl.col("dur_ns") > 100_000) & (pl.col("end_offset") > pl.col("offset")))
    raw = np.array([_stamp(text, end) for end in rows["end_offset"]]) - rows["stamp_ns"].to_numpy()
    assert len(raw) > 5
    assert (raw == rows["dur_ns"].to_numpy()).all()
    assert describe_fitted_rate(capture.table("clock_map")) == ""


def _stamp(text: bytes, offset: int) -> int:
    """Return the time of the line that is at an offset, ns."""
    line = text[offset : text.index(b"\n", offset)]
    stamp = next(word for word in line.split() if word.endswith(b":") and word[:-1].replace(b".", b"").isdigit())
    seconds, _, fraction = stamp[:-1].partition(b".")
    return int(seconds) * 10**9 + int(fraction.ljust(9, b"0"))


def test_a_trace_that_is_not_mono_is_said_to_be_none(recorded: Recorded) -> None:
    wrong, right = (recorded("captures/t1-local-clock", samples=False, clock=clock) for clock in ("mono", "local"))
    (told,) = [text for text in wrong.info["warnings"] if text.startswith(_SAID)]
    assert "it runs -24.450 ms beside it" in told and "--ftrace-clock local" in told
    assert not [text for text in right.info["warnings"] if text.startswith(_SAID)]
    # The wrong name costs nothing: the times, and what is linked by them, are those of the right one.
    assert _trace_rows(wrong).equals(_trace_rows(right))
    assert wrong.table("links").collect().equals(right.table("links").collect())
    verdicts = {v.name: v.finding for v in judge_capture(wrong.table)}
    assert verdicts["clock_aligned"].outcome is Outcome.FAIL
    assert verdicts["clock_aligned"].reason.startswith(
        "the kernel trace was said to be on CLOCK_MONOTONIC, but differs from it by -24"
    )


@pytest.mark.parametrize("name", ["captures/streams-priority", "captures/mt-threads", "captures/caseA-1stream"])
def test_a_trace_that_is_mono_is_believed(name: str, recorded: Recorded) -> None:
    capture = recorded(name, samples=False, clock="mono")
    assert find_refuted(_clocks(capture)) is None
    assert not [text for text in capture.info["warnings"] if text.startswith(_SAID)]


@pytest.mark.parametrize(
    ("changed", "beside_ns"),
    [
        ({}, -500), ({"lo_ns": 500, "hi_ns": 500}, None),
        ({"method": "same_clock"}, None), ({"method": "unaligned"}, None),
        ({"source": "ftrace:local"}, None), ({"offset_ns": 0}, None), ({"offset_ns": 0, "rate_ppb": 300}, 3_000),
        ({"lo_ns": 500, "hi_ns": 499}, -500), ({"offset_ns": 500, "lo_ns": 499}, 500),
    ],
)  # fmt: skip
def test_zero_outside_of_the_bounds_refutes_it(changed: dict[str, Any], beside_ns: int | None) -> None:
    """SYNTHETIC pieces of 10 s."""
    row = {
        "source": "ftrace:mono", "method": "causal_pairs", "from_ns": 0, "to_ns": 10**10, "offset_ns": -500,
        "rate_ppb": 0, "lo_ns": 100, "hi_ns": 100, **changed,
    }  # fmt: skip
    assert find_refuted(pl.DataFrame([row])) == (None if beside_ns is None else ("mono", beside_ns))


@pytest.mark.parametrize(
    ("clock", "changed", "other", "beside_ns"),
    [
        ("boot", {}, {}, -4_500), ("boot", {}, {"lo_ns": 4_400}, None), ("boot", {"hi_ns": 4_500}, {}, None),
        ("boot", {}, {"offset_ns": -5_050}, None), ("boot", {}, {"source": "rocprof:boot"}, -4_500),
        # The host may have slept in between.
        ("boot", {}, {"from_ns": 2 * 10**10, "to_ns": 3 * 10**10}, None),
        ("boot", {}, {"method": "unaligned"}, None), ("boot", {}, {"source": "ftrace:boot"}, None),
        ("boot", {"offset_ns": 5_000}, {"offset_ns": 5_000}, 5_000), ("boot", {}, {"rate_ppb": 500}, -9_500),
        ("mono_raw", {}, {"source": "amd_log:mono_raw"}, -4_500), ("mono_raw", {"offset_ns": 5_000}, {}, None),
        ("tai", {}, {"source": "amd_log:tai"}, None),
    ],
)  # fmt: skip
def test_one_clock_is_at_one_time_wherever_it_is_shown(
    clock: str, changed: dict[str, Any], other: dict[str, Any], beside_ns: int | None
) -> None:
    """SYNTHETIC pieces of 10 s."""
    row = {
        "source": f"ftrace:{clock}", "method": "causal_pairs", "from_ns": 0, "to_ns": 10**10, "offset_ns": -5_000,
        "rate_ppb": 0, "lo_ns": 100, "hi_ns": 100,
    }  # fmt: skip
    of_log = {**row, "source": "amd_log:boot", "offset_ns": -500, **other}
    found = find_refuted(pl.DataFrame([{**row, **changed}, of_log]))
    assert found == (None if beside_ns is None else (clock, beside_ns))


@pytest.mark.parametrize("clock", ["boot", "mono_raw"])
def test_a_trace_that_is_not_on_the_clock_of_the_gpu_times_is_told(clock: str, recorded: Recorded) -> None:
    """Of CLOCK_MONOTONIC_RAW the log of this program has no line: nothing contradicts that."""
    wrong, right = (recorded("captures/t1-local-clock", samples=False, clock=c) for c in (clock, "local"))
    said = f"ftrace:{clock}: the trace was said to be on CLOCK_BOOTTIME, but the evidence shows that it runs -24.450 ms"
    assert any(text.startswith(said) for text in wrong.info["warnings"]) == (clock == "boot")
    assert _trace_rows(wrong).equals(_trace_rows(right)), "nor are its bounds those of a clock of one rate"
