"""SYNTHETIC traces that hold the same records: one counts, or it is said that they count twice; one is RECORDED."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from tracecorr.link.repeated_traces import find_repeated_traces, warn_repeated_traces
from tracecorr.model import schema
from tracecorr.pipeline import correlate, import_files


def _tables(paths: list[str], stamps: list[list[int]]) -> tuple[pl.DataFrame, pl.DataFrame]:
    files = [{"file": n, "path": path, "source": "ftrace"} for n, path in enumerate(paths)]
    events = [
        {"file": n, "source": "ftrace", "name": "openat", "tid": 7, "stamp_ns": stamp}
        for n, found in enumerate(stamps)
        for stamp in found
    ]
    return tuple(
        schema.TABLES[name].conform(
            pl.DataFrame(rows, schema={key: schema.TABLES[name].schema[key] for key in rows[0]})
        )
        for name, rows in (("events", events), ("files", files))
    )  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("other", "same"),
    [([1_234, 5_678, 9_101], 3), ([1_499, 5_500, 90_000], 2), ([1_234, 50_000, 90_000], 0)],
)
def test_a_trace_as_text_and_as_pages_is_said_to_count_twice(other: list[int], same: int) -> None:
    """A text rounds to a microsecond."""
    paths = ["raw/ftrace/0-trace.txt", "raw/ftrace/1/cpu0.bin"]
    said = warn_repeated_traces(*_tables(paths, [[1_000, 6_000, 9_000], other]))
    assert [f"hold the same records ({same})" in text for text in said] == ([True] if same else [])
    assert not said or said[0].startswith("raw/ftrace/0-trace.txt and raw/ftrace/1 ")


def test_the_pages_of_one_recording_are_not_compared() -> None:
    paths = ["raw/ftrace/workload/cpu0.bin", "raw/ftrace/workload/cpu1.bin"]
    assert warn_repeated_traces(*_tables(paths, [[1_000], [1_000]])) == []


def _trace(*stamps: int, name: str = "openat", clock: str = "mono") -> pl.DataFrame:
    rows = [(clock, 7, name, stamp) for stamp in stamps]
    types = {"clock": pl.String, "tid": pl.Int64, "name": pl.String, "stamp_ns": pl.Int64}
    return pl.DataFrame(rows, schema=types, orient="row")


@pytest.mark.parametrize(
    ("traces", "repeated"),
    [
        ([_trace(1_000, 6_000), _trace(1_234, 5_678, 9_101)], [0]),
        ([_trace(1_000, 6_000), _trace(1_234, 5_678)], [1]),
        ([_trace(1_000), _trace(2_000), _trace(1_000, 2_000)], [0, 1]),
        ([_trace(1_000, 7_000), _trace(1_234, 5_678, 9_101)], []),
        ([_trace(1_000, 1_000), _trace(1_000, 5_000, 6_000)], []),
        ([_trace(1_000, clock="local"), _trace(1_000)], []),
        ([_trace(1_000, name="close"), _trace(1_000)], []),
        ([_trace(), _trace(1_000)], []),
    ],
)
def test_a_trace_whose_records_are_all_in_another_one_is_repeated(
    traces: list[pl.DataFrame], repeated: list[int]
) -> None:
    assert find_repeated_traces(traces) == repeated


def test_a_recording_in_two_forms_counts_once(data_folder: Path, tmp_path: Path) -> None:
    folder = data_folder / "captures" / "caseA-1stream"
    pages, both = (
        import_files(tmp_path / f"{len(traces)}.tracecorr", [folder / "amd.log"], traces)
        for traces in ([folder / "raw"], [folder / "ftrace.txt", folder / "raw"])
    )
    correlate(pages.path)
    said = correlate(both.path)
    assert "raw/ftrace/0-ftrace.txt: all of its records are in another trace, too: they count once" in said
    for table in ("events", "links", "launches", "losses"):
        assert both.table(table).collect().height == pages.table(table).collect().height
    sizes = both.table("files").select("file", pl.col("size").alias("bytes")).collect()
    counted = both.table("ledger").group_by("file").agg(pl.col("bytes").sum()).collect()
    assert counted.height == 4 and counted.join(sizes, on=["file", "bytes"], how="anti").is_empty()
