"""Headers of SYNTHETIC trace texts that count other records than the text holds."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from ftrace_cases import read_text

from tracecorr.pipeline import correlate, import_files


def _head(present: int, written: int, cpus: int = 2) -> str:
    return f"# tracer: nop\n#\n# entries-in-buffer/entries-written: {present}/{written}   #P:{cpus}\n#\n"


def _line(stamp: int, *, cpu: int = 0, text: str = "sys_sync()") -> str:
    return f"              t1-7       (      7) [{cpu:03}] .....    24.{stamp:06}: {text}\n"


def _lines(count: int, *, first: int = 0) -> str:
    return "".join(_line(n, cpu=n % 2) for n in range(first, first + count))


def _losses(text: str, **options: int) -> list[tuple[int | None, ...]]:
    found = read_text(text.encode(), **options)
    used = found.ledger["bytes"].sum()
    assert used == len(text)
    return found.losses.select("cpu", "from_ns", "to_ns", "count").rows()


@pytest.mark.parametrize("block_bytes", [200, 1 << 20])
def test_a_text_that_was_cut_at_a_line_end_lacks_records(block_bytes: int) -> None:
    assert _losses(_head(9, 9) + _lines(9), block_bytes=block_bytes) == []
    assert _losses(_head(9, 9) + _lines(5), block_bytes=block_bytes) == [(None, None, None, 4)]
    # A line of which the end lacks is there.
    assert _losses(_head(9, 9) + _lines(5) + _line(5)[:-3], block_bytes=block_bytes) == [(None, None, None, 3)]


@pytest.mark.parametrize("block_bytes", [200, 1 << 20])
def test_each_header_counts_what_is_behind_it(block_bytes: int) -> None:
    two = _head(9, 9) + _lines(7) + _head(4, 4) + _lines(4, first=20) + _head(3, 3) + _lines(2, first=30)
    assert _losses(two, block_bytes=block_bytes) == [(None, None, None, 2), (None, None, None, 1)]


def test_a_header_of_all_cpus_tells_nothing_of_the_text_of_one() -> None:
    one = "".join(_line(n) for n in range(5))
    assert _losses(_head(9, 9) + one) == []
    assert _losses(_head(9, 9, cpus=1) + one) == [(None, None, None, 4)]


@pytest.mark.parametrize(
    ("more", "lacking"),
    [
        pytest.param("text of a marker\n" * 4, [], id="they may be records without a prefix"),
        pytest.param("CPU:1 [LOST EVENTS]\n", [(1, 24_000_003_000, None, None)], id="overwritten while it was read"),
    ],
)
def test_lines_that_may_be_records_lack_nowhere(more: str, lacking: list[tuple[int | None, ...]]) -> None:
    assert _losses(_head(9, 9) + _lines(5) + more) == lacking


def test_a_header_of_a_converter_counts_nothing() -> None:
    assert _losses(_head(30624, 30624, cpus=4) + _lines(5)) == []
    assert _losses(_head(30624, 30624, cpus=2) + _lines(5)) == [(None, None, None, 30619)]


@pytest.mark.parametrize("block_bytes", [200, 1 << 20])
def test_an_overwritten_trace_begins_at_the_latest_first_record_of_a_cpu(block_bytes: int) -> None:
    late = [_line(n) for n in range(64)] + [_line(70 + n, cpu=1) for n in range(64)]
    assert _losses(_head(128, 500) + "".join(late), block_bytes=block_bytes) == [(None, None, 24_000_070_000, 372)]


@pytest.mark.parametrize(("second", "lacking"), [(4, []), (3, [4])])
def test_a_second_piece_of_a_text_holds_what_the_first_one_lacks(
    second: int, lacking: list[int], tmp_path: Path
) -> None:
    pieces = [_head(9, 9) + _lines(5), _lines(second, first=5)]
    paths = [tmp_path / f"{number}.txt" for number in range(2)]
    for path, text in zip(paths, pieces, strict=True):
        path.write_text(text)
    capture = import_files(tmp_path / "x.tracecorr", [], list(paths), clock="mono")
    correlate(capture.path)
    assert capture.table("losses").select("count").collect()["count"].to_list() == lacking
    ledger = capture.table("ledger").group_by("file").agg(pl.col("records", "bytes").sum()).sort("file").collect()
    assert ledger.rows() == [(0, 5, paths[0].stat().st_size), (1, second, paths[1].stat().st_size)]
