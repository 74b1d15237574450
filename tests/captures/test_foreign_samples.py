"""REAL traces with the clock samples of another run: these are named, and change no time."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from tracecorr.pipeline import correlate, import_files
from tracecorr.store import Capture

_SAID = "clock.json is of another run: none of the 16 clock marks"


def _import(out: Path, run: Path, samples: Path | None) -> tuple[pl.DataFrame, list[str]]:
    import_files(out, [run / "amd.log"], [run / "raw"], clock_samples=samples)
    warnings = correlate(out)
    return Capture.open(out).table("clock_map").drop("source").collect(), warnings


@pytest.mark.parametrize("own", ["streams-priority", "mt-threads"])
def test_clock_samples_of_another_run_are_named_and_not_used(own: str, data_folder: Path, tmp_path: Path) -> None:
    runs = data_folder / "captures"
    bare, _ = _import(tmp_path / "bare.tracecorr", runs / own, None)
    foreign, warnings = _import(tmp_path / "foreign.tracecorr", runs / own, runs / "t1-local-clock" / "clock.json")
    assert [w for w in warnings if w.startswith(_SAID)]
    assert_frame_equal(foreign, bare)


def test_a_clock_that_they_name_wrongly_is_found_all_the_same(data_folder: Path, tmp_path: Path) -> None:
    runs = data_folder / "captures"
    found, warnings = _import(
        tmp_path / "x.tracecorr", runs / "t1-local-clock", runs / "streams-priority" / "clock.json"
    )
    assert [w for w in warnings if w.startswith(_SAID)]
    assert set(found["method"].cast(pl.String)) == {"same_clock", "causal_pairs"}
