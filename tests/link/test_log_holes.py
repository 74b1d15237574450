"""HAND-MADE logs of which pieces did not reach the disk: no call is whole over the NULs in their place."""

from __future__ import annotations

from pathlib import Path
from random import Random

import polars as pl
import pytest

from tracecorr.link.losses.open_calls import open_over_holes
from tracecorr.model.schema import CAT
from tracecorr.pipeline import correlate, import_files
from tracecorr.store import Capture

_HOLE = "\0" * 512 + "\n"
_INTO, _OUT = "\x1b[32m hipEventRecord ( 0x7f5174042fe0 ) \x1b[0m", "hipEventRecord: Returned hipSuccess : "


def _line(us: int, text: str, thread: int = 1) -> str:
    return f":3:hip_event.cpp            :430 : {us:010d} us: [pid:700   tid: 0x7f519000000{thread}] {text}\n"


def _import(folder: Path, *lines: str) -> Capture:
    (folder / "amd.log").write_text("".join(lines))
    out = folder / "case.tracecorr"
    import_files(out, [folder / "amd.log"], [])
    correlate(out)
    return Capture.open(out)


@pytest.mark.parametrize(
    ("out", "expected"), [
        pytest.param(_OUT, [None, None, 5_000], id="of every thread"),
        pytest.param(_OUT + ": duration: 100 us", [100_000, None, 5_000], id="whose exit tells how long it took"),
    ],
)  # fmt: skip
def test_a_call_over_a_hole_may_be_two(tmp_path: Path, out: str, expected: list[int | None]) -> None:
    capture = _import(
        tmp_path, _line(10, _INTO), _line(20, _INTO, 2), _HOLE, _line(110, out), _line(120, _OUT, 2),
        _line(130, _INTO), _line(135, _OUT),
    )  # fmt: skip
    calls = capture.table("events").filter(pl.col("layer").cast(pl.String) == "hip").collect()
    assert calls["dur_ns"].to_list() == expected
    spans = capture.table("losses").select("from_ns", "to_ns").collect().rows()
    assert (20_000, 110_000) in spans


def test_a_hole_between_calls_leaves_them_alone(tmp_path: Path) -> None:
    capture = _import(tmp_path, _line(10, _INTO), _line(15, _OUT), _HOLE, _line(110, _INTO), _line(120, _OUT))
    calls = capture.table("events").filter(pl.col("layer").cast(pl.String) == "hip").collect()
    assert calls["dur_ns"].to_list() == [5_000, 10_000]


@pytest.mark.parametrize("seed", range(20))
def test_of_many_holes_any_that_lies_in_a_call_opens_it(seed: int) -> None:
    random = Random(seed)
    calls = [(random.randint(0, 60), random.randint(0, 30)) for _ in range(20)]
    holes = [(first, first + random.randint(0, 20)) for first in (random.randint(0, 70) for _ in range(5))]
    rows = [(n, at, dur, 0, "hip", "amd_log", 0) for n, (at, dur) in enumerate(calls)]
    types = {"event": pl.Int64, "ts_ns": pl.Int64, "dur_ns": pl.Int64, "flags": pl.UInt16, "layer": CAT, "source": CAT,
             "file": pl.UInt16}  # fmt: skip
    found = open_over_holes(
        pl.DataFrame(rows, schema=types, orient="row"),
        pl.DataFrame(holes, schema=["from_ns", "to_ns"], orient="row"), pl.Series([0], dtype=pl.UInt16),
    )  # fmt: skip
    expected = [any(at <= first and last <= at + dur for first, last in holes) for at, dur in calls]
    assert found["dur_ns"].is_null().to_list() == expected
