"""Statistics of a profile are those that rocprof printed itself (REAL output of rocprof v1)."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from tracecorr.analyze.kernels import summarize_rocprof
from tracecorr.pipeline import correlate, import_files

_TABLES = {"HIP_API": "hip_stats", "HSA_API": "hsa_stats", "MEMORY_COPY": "copy_stats", "KERNEL_DISPATCH": "stats"}


@pytest.mark.parametrize(
    ("trace", "stem", "domains"),
    [
        ("rocprofv1-mi308x-vectoradd-trace.json", "rocprofv1-mi308x-vectoradd-", set(_TABLES)),
        (
            "rocprofv1-rocmblogs-HIP_trace-results.json",
            "rocprofv1-rocmblogs-HIP_trace-results.",
            set(_TABLES) - {"HSA_API"},
        ),
    ],
)
def test_statistics_as_rocprof_prints_them(
    trace: str, stem: str, domains: set[str], data_folder: Path, tmp_path: Path
) -> None:
    real = data_folder / "real"
    capture = import_files(tmp_path / "x.tracecorr", [], [], rocprof=[real / trace])
    correlate(capture.path)
    ours = summarize_rocprof(capture.table("events"), capture.table("kernels"))
    assert set(ours["domain"]) == domains
    for domain in domains:
        theirs = pl.read_csv(real / f"{stem}{_TABLES[domain]}.csv")
        part = ours.filter(pl.col("domain") == domain)
        name = pl.col("Name").str.strip_suffix(" [clone .kd]").alias("name")
        both = part.join(theirs.with_columns(name), on="name")
        assert both.height == part.height == theirs.height, domain
        assert (both["calls"] == both["Calls"]).all()
        assert (both["total_ns"] == both["TotalDurationNs"]).all()
        assert (both["mean_ns"] - both["AverageNs"]).abs().max() <= 1  # type: ignore[operator]
        assert (both["percent"] - both["Percentage"]).abs().max() < 0.006  # type: ignore[operator]
