"""Small inputs from the field, of which the right numbers are known."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from tracecorr.analyze.report import summarize_capture
from tracecorr.pipeline import correlate, import_files
from tracecorr.store import Capture


def _open(data_folder: Path, tmp_path: Path, name: str) -> Capture:
    path = data_folder / "cases" / "field" / name
    logs, profiles = ([], [path]) if path.suffix == ".csv" else ([path], [])
    made = import_files(tmp_path / "x.tracecorr", logs, [], rocprof=profiles)
    correlate(made.path)
    return made


def _section(capture: Capture, key: str) -> pl.DataFrame:
    report = summarize_capture(capture.name, capture.table, capture.info)
    return next(section.frame for section in report.sections if section.key == key)


def test_a_failed_allocation_holds_no_bytes(data_folder: Path, tmp_path: Path) -> None:
    (row,) = _section(_open(data_folder, tmp_path, "failalloc.txt"), "memory").to_dicts()
    counts = ("allocations", "bytes", "peak_bytes", "failed", "failed_bytes")
    assert [row[name] for name in counts] == [1, 4096, 4096, 1, 153_344]


@pytest.mark.parametrize("name", ["triton.txt", "omp.csv"])
def test_kernel_names_that_differ_at_the_end_stay_two(data_folder: Path, tmp_path: Path, name: str) -> None:
    kernels = _open(data_folder, tmp_path, name).table("kernels").collect()
    assert kernels["display"].n_unique() == kernels["name"].n_unique() == 2
    assert kernels["display"].str.len_chars().max() == 64
