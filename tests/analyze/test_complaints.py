"""Errors and warnings that the runtime prints, and calls that fail: SYNTHETIC logs, then what a report says of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest
from analyze_tables import Rows, tables_of
from synthetic_run import make_run

from tracecorr.analyze.failures import summarize_complaints
from tracecorr.analyze.report import summarize_capture
from tracecorr.analyze.report.markdown import render_markdown
from tracecorr.pipeline import correlate, import_files
from tracecorr.store import Capture

_LINE = ":{level}:rocdevice.cpp            :1878: {at:010d} us: [pid:7 tid: 0x7f00000000a0] {text}\n"
_SIZE = "Can't allocate memory size - 0x{:08x} bytes!"
_MESSAGES = [
    (3, "hipMalloc ( 0x7ffc28268f00, 4198400 )"),
    (1, _SIZE.format(0x401000)),
    (1, _SIZE.format(0x301000)),
    (2, "no large pages"),
    (3, "hipMalloc: Returned hipErrorOutOfMemory : "),
    (0, "Callback: Queue 0x1000 aborting with error : HSA_STATUS_ERROR_MEMORY_FAULT code: 0x29"),
    (4, "Free hsa memory 0x1401400000"),
    (1, "Unknown Event Type "),
]


def _import(folder: Path, text: str) -> Capture:
    (folder / "amd.log").write_text(text)
    made = import_files(folder / "x.tracecorr", [folder / "amd.log"], [])
    correlate(made.path)
    return Capture.open(made.path)


def _log(first_us: int = 5_000_000_000) -> str:
    lines = enumerate(_MESSAGES)
    return "".join(_LINE.format(level=level, at=first_us + n, text=text) for n, (level, text) in lines)


def test_lines_of_the_levels_0_to_2_keep_their_level_and_whole_message(tmp_path: Path) -> None:
    capture = _import(tmp_path, _log())
    fields = capture.table("args").with_columns(pl.col("key").cast(pl.String)).collect()
    levels = fields.filter(pl.col("key") == "log_level")["u64"].to_list()
    messages = fields.filter(pl.col("key") == "message")["text"].to_list()
    assert sorted(zip(levels, messages, strict=True)) == sorted(
        (level, text.strip()) for level, text in _MESSAGES if level <= 2
    )


def test_a_report_begins_its_answers_with_what_went_wrong(tmp_path: Path) -> None:
    capture = _import(tmp_path, _log())
    report = summarize_capture("x", capture.table, capture.info)
    first = report.answers[0]
    assert first.question == "What went wrong?"
    assert [line.partition(" (first")[0] for line in first.lines] == [
        f"the runtime's log has this error, 2 times in 2 variants with different numbers, the first: {_MESSAGES[1][1]}",
        "then, 3.00 us later: hipMalloc returned hipErrorOutOfMemory once",
        f"then, 4.00 us later: the runtime's log has this fatal error, once: {_MESSAGES[5][1]}",
        f"the runtime's log has this warning, once: {_MESSAGES[3][1]}",
    ]
    assert "(first: event 1, in hipMalloc)" in first.lines[0]
    assert "## Errors and warnings of the runtime\n" in render_markdown(report)
    told = next(section.frame for section in report.sections if section.key == "complaints")
    assert told["variants"].to_list() == [1, 2, 1, 1]


@pytest.mark.parametrize(("streams", "needless"), [((1, 1), True), ((1, 2), False), ((), False)])
def test_a_graph_that_got_no_streams_is_told_and_that_one_on_one_stream_needs_none(
    tmp_path: Path, streams: tuple[int, ...], needless: bool
) -> None:
    """Unless the log does not tell on how many streams the graphs ran (it does from level 4 on)."""
    texts = [
        "UpdateStreams failed for device id:0",
        *(f"GraphExec::Run max_streams: {n}, on device: 0" for n in streams),
    ]
    text = "".join(_LINE.format(level=1, at=5_000_000_000, text=texts[0]))
    text += "".join(_LINE.format(level=4, at=5_000_000_001 + n, text=one) for n, one in enumerate(texts[1:]))
    capture = _import(tmp_path, text)
    answers = summarize_capture("x", capture.table, capture.info).answers
    (line,) = next(answer.lines for answer in answers if answer.question == "What went wrong?")
    assert line.startswith(f"the runtime's log has this error, once: {texts[0]} (first: event 0)")
    assert line.endswith("no others were needed") is needless
    assert summarize_complaints(capture.table)["message"].to_list() == texts[:1]


def _ask(rows: Rows, info: dict[str, Any] | None = None) -> tuple[str, ...]:
    answers = summarize_capture("x", tables_of(rows), info).answers
    return next((answer.lines for answer in answers if answer.question == "What went wrong?"), ())


def test_an_exit_status_that_is_not_0_is_told_behind_its_causes() -> None:
    rows = make_run()
    assert _ask(rows, {"exit_status": 0}) == _ask(rows, {"exit_status": None}) == ()
    assert _ask(rows, {"exit_status": 139}) == (
        "the workload ended with status 139, as after SIGSEGV (Segmentation fault)",
    )
    failed = {"layer": "hip", "name": "hipFree", "result": "hipErrorInvalidValue", "ts_ns": 9_000, "source": "amd_log"}
    rows["events"].append({**failed, "event": 60})
    assert _ask(rows, {"exit_status": 1})[-1] == "the workload ended with status 1"
