"""SYNTHETIC tables of traces that hold the same records: it is said that they count twice."""

from __future__ import annotations

import polars as pl
import pytest

from tracecorr.link.repeated_traces import warn_repeated_traces
from tracecorr.model import schema


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
