"""Two captures are compared by the GPU times of their kernels, also where a profile is all that they have."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tracecorr.analyze.compare import Comparison, Side, compare_captures
from tracecorr.analyze.report.markdown import render_comparison
from tracecorr.pipeline import correlate, import_files
from tracecorr.store import Capture

_HEAD = '"Kind","Queue_Id","Dispatch_Id","Kernel_Name","Start_Timestamp","End_Timestamp"\n'


def _profile(folder: Path, name: str, times: dict[str, list[int]]) -> Capture:
    """Import a SYNTHETIC kernel table of rocprof: kernels one after the other, with these times."""
    rows, at = [], 1_000_000
    for kernel, all_ns in times.items():
        for ns in all_ns:
            rows.append(f'"KERNEL_DISPATCH",1,{len(rows)},"{kernel}",{at},{at + ns}\n')
            at += ns + 1_000
    table = folder / f"{name}.csv"
    table.write_text(_HEAD + "".join(rows))
    capture = import_files(folder / f"{name}.tracecorr", [], [], rocprof=[table])
    correlate(capture.path)
    return capture


def _compare(first: Capture, second: Capture) -> Comparison:
    sides = (Side(c.name, c.table, c.info) for c in (first, second))
    return compare_captures(*sides, rounds=2000)


def _draw(seed: int, count: int, least_ns: int) -> list[int]:
    return [int(ns) for ns in least_ns + np.random.default_rng(seed).gamma(4, 500, count)]


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, list[int]], dict[str, list[int]], Comparison]:
    """Return the times of both sides, and their comparison."""
    first = {"gemm(float*)": _draw(1, 300, 50_000), "same(int)": _draw(2, 300, 9_000), "rare(int)": [5_000, 6_000]}
    second = {"gemm(float*)": _draw(3, 400, 70_000), "same(int)": _draw(4, 200, 9_000), "rare(int)": [9_000],
              "new(int)": [7_000] * 30}  # fmt: skip
    folder = tmp_path_factory.mktemp("profiles")
    return first, second, _compare(_profile(folder, "a", first), _profile(folder, "b", second))


def test_kernels_of_two_profiles_are_compared(
    sides: tuple[dict[str, list[int]], dict[str, list[int]], Comparison],
) -> None:
    first, second, found = sides
    rows = {row["name"]: row for row in found.frame("gpu_times").to_dicts()}
    assert list(rows) == ["gemm", "same", "new", "rare"]
    for name, row in rows.items():
        for side, times in (("a", first), ("b", second)):
            all_ns = times.get(f"{name}(float*)", times.get(f"{name}(int)"))
            middle = sorted(all_ns)[(len(all_ns) - 1) // 2] if all_ns else None
            told = (len(all_ns), sum(all_ns), middle) if all_ns else (None, None, None)
            assert tuple(row[f"{side}_{what}"] for what in ("timed", "total_ns", "p50_ns")) == told
    gemm = rows["gemm"]
    assert gemm["significant"] and gemm["low_ns"] < 20_000 < gemm["high_ns"]
    assert gemm["difference_ns"] == gemm["b_p50_ns"] - gemm["a_p50_ns"]
    assert gemm["percent"] == pytest.approx(100 * gemm["difference_ns"] / gemm["a_p50_ns"], abs=0.05)
    assert not rows["same"]["significant"] and rows["same"]["significant"] is not None
    assert (rows["rare"]["only"], rows["rare"]["significant"], rows["new"]["only"]) == ("both", None, "B")


def test_the_difference_is_said_in_words(
    sides: tuple[dict[str, list[int]], dict[str, list[int]], Comparison],
) -> None:
    told = [line for line in sides[2].findings if "GPU time" in line]
    assert told[0].startswith("kernels with GPU times, and their sum: 602 in A (")
    assert told[1].startswith("SIGNIFICANT GPU time of gemm, p50: 5") and "+3" in told[1]
    assert told[2:] == ["GPU times of 1 of 2 kernels that are compared do not differ significantly"]
    assert "## GPU times of kernels" in render_comparison(sides[2])
