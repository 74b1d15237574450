"""One recording in every form that the kernel prints tells the same as its pages.

`forms/` was recorded on Linux 6.18 (x86-64): the options of one buffer changed between readings of
`trace`, then its pages were read. The program called itself `a-b c(d) [1] x`.
"""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from ftrace_cases import Whole, page_folder, read_text, whole

from tracecorr.read.ftrace.lines import looks_like_ftrace_text
from tracecorr.read.ftrace.pages import read_ftrace_pages

FORMS = Path(__file__).parent / "forms"
# What a form leaves out: the process.
_MISSING = {"no_tgid": {"pid"}}
_COLUMNS = ["layer", "name", "tid", "pid", "comm", "cpu", "result", "arg", "fd", "cmd", "size_bytes", "depth", "flags"]


def _pages(folder: Path) -> Whole:
    return whole(read_ftrace_pages(page_folder(folder / "raw"), {0: 1, 1: 2}, "mono"))


def _ordered(trace: Whole, *order: str) -> pl.DataFrame:
    return trace.events.sort(*order, maintain_order=True).with_columns(
        pl.col(c).cast(pl.String) for c, t in trace.events.schema.items() if t == pl.Categorical
    )


def _args(trace: Whole, events: pl.DataFrame) -> list[tuple[object, ...]]:
    rows = events.select("file", "offset").with_row_index("row").join(trace.args, on=["file", "offset"])
    return sorted(rows.select("row", pl.col("key").cast(pl.String), "u64", "text").rows(), key=repr)


@pytest.mark.parametrize("path", sorted(FORMS.glob("*/*.txt")), ids=lambda p: f"{p.parent.name}-{p.stem}")
def test_every_form_tells_what_the_pages_tell(path: Path) -> None:
    data = path.read_bytes()
    assert looks_like_ftrace_text(data[:4096])
    text, pages = read_text(data), _pages(path.parent)
    assert text.ledger["outcome"].unique().to_list() == ["used"] and text.ledger["bytes"].sum() == len(data)
    assert pages.ledger["outcome"].unique().to_list() == ["used"]
    one, two = _ordered(text, "tid", "offset"), _ordered(pages, "tid", "stamp_ns")
    missing = _MISSING.get(path.stem, set())
    for column in _COLUMNS:
        if column not in missing:
            assert one[column].equals(two[column], null_equal=True), column
    for column in ("stamp_ns", "end_stamp_ns"):
        assert (one[column] - two[column]).abs().max() <= 500
    assert _args(text, one) == _args(pages, two)


def test_table_of_a_recording() -> None:
    expected = pl.read_csv(FORMS / "syscalls" / "expected.csv", infer_schema=False).fill_null("")
    rows = _ordered(_pages(FORMS / "syscalls"), "stamp_ns").select(
        "stamp_ns", "end_stamp_ns", "layer", "name", "tid", "cpu", "result", "arg", "fd", "cmd", "size_bytes"
    )
    found = rows.select(pl.all().cast(pl.String).fill_null(""))
    assert found.rows() == expected.rows()


def test_a_counting_clock_is_no_time() -> None:
    """What the caller takes for the clock is wrong where stamps have no dot."""
    trace = read_text((FORMS / "counter" / "standard.txt").read_bytes())
    assert trace.events["clock"].unique().to_list() == ["ticks"]
    assert trace.events["stamp_ns"].min() == 2 and trace.events["end_stamp_ns"].max() == 38
