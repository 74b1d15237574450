"""Recorded captures of which a file was damaged: records that could not be read are losses, and that is said."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from tracecorr.analyze.report import summarize_capture
from tracecorr.analyze.report.markdown import describe_summary
from tracecorr.analyze.verdicts import judge_capture
from tracecorr.model.reasons import REASONS
from tracecorr.pipeline import correlate, import_files
from tracecorr.store import Capture

Damage = Callable[[Path], None]

_OF_PAGES = {"broken_page_data", "record_unlike_its_format", "unknown_event_id"}


def _change_bytes(name: str) -> Damage:
    def change(folder: Path) -> None:
        rng, data = random.Random(5), bytearray((folder / name).read_bytes())
        for _ in range(60):
            data[rng.randrange(len(data))] = rng.randrange(256)
        (folder / name).write_bytes(data)

    return change


def _cut(name: str, size: int) -> Damage:
    return lambda folder: (folder / name).write_bytes((folder / name).read_bytes()[:size]) and None


def _remove_formats(folder: Path) -> None:
    shutil.rmtree(folder / "raw" / "events")


def _make_hole(name: str, at: int) -> Damage:
    def make(folder: Path) -> None:
        data = (folder / name).read_bytes()
        (folder / name).write_bytes(data[:at] + bytes(4096) + data[at + 4096 :])

    return make


def _import(recorded: Path, folder: Path, damage: Damage, trace: str) -> tuple[Capture, list[str]]:
    shutil.copytree(recorded, folder)
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o755)
    damage(folder)
    import_files(folder / "x.tracecorr", [folder / "amd.log"], [folder / trace], clock_samples=folder / "clock.json")
    warnings = correlate(folder / "x.tracecorr")
    return Capture.open(folder / "x.tracecorr"), warnings


@pytest.mark.parametrize(
    ("damage", "trace", "file", "reasons", "lost"), [
        pytest.param(_change_bytes("raw/cpu1.bin"), "raw", "cpu1.bin", _OF_PAGES,
                     "\\d+, and those of 1 span of unknown number", id="bytes of pages"),
        # Of the 3185 records of the CPU, as its counters say; the span is that of the page which is cut.
        pytest.param(_cut("raw/cpu1.bin", 50_000), "raw", "cpu1.bin", {"torn_page"},
                     "1832, and those of 1 span of unknown number", id="pages cut"),
        # Of the 4652 records that the header tells.
        pytest.param(_cut("ftrace.txt", 300_000), "ftrace.txt", "0-ftrace.txt", {"torn_line"},
                     "1894, and those of 1 span of unknown number", id="text cut"),
        pytest.param(_cut("amd.log", 1_234_567), "raw", "0-amd.log", {"torn_record"}, "an unknown number, in 1 span",
                     id="log cut"),
        pytest.param(_remove_formats, "raw", "cpu0.bin", {"unknown_event_id"}, "4652", id="no formats"),
        pytest.param(_make_hole("amd.log", 1_000_000), "raw", "0-amd.log", {"nul_bytes"},
                     "at least 3, and those of 2 spans of unknown number", id="hole in a log"),
        # 37 of the 4652 records lie in the hole, whole or in part.
        pytest.param(_make_hole("ftrace.txt", 200_000), "ftrace.txt", "0-ftrace.txt", {"broken_record"}, "37",
                     id="hole in a text"),
        pytest.param(_change_bytes("ftrace.txt"), "ftrace.txt", "0-ftrace.txt", {"broken_record"}, "\\d+",
                     id="bytes of a text"),
    ],
)  # fmt: skip
def test_what_could_not_be_read_is_lost(
    data_folder: Path, tmp_path: Path, damage: Damage, trace: str, file: str, reasons: set[str], lost: str
) -> None:
    recorded = data_folder / "captures" / "caseA-1stream"
    capture, warnings = _import(recorded, tmp_path / "damaged", damage, trace)
    ledger = capture.table("ledger").with_columns(pl.col("outcome", "reason").cast(pl.String)).collect()
    told = set(ledger.filter(pl.col("outcome") != "used")["reason"])
    assert reasons <= told <= REASONS.keys()
    sizes = ledger.group_by("file").agg(pl.col("bytes").sum()).join(capture.table("files").collect(), on="file")
    assert sizes["bytes"].to_list() == sizes["size"].to_list()
    (verdict,) = judge_capture(capture.table, info=capture.info, names=["nothing_lost"])
    assert str(verdict.outcome) == "FAIL" and "lost" in verdict.finding.reason
    summary = describe_summary(summarize_capture("x", capture.table, capture.info))
    (line,) = [line for line in summary if line.startswith("records lost")]
    assert pl.Series([line]).str.contains(f"^records lost: {lost}$").item(), line
    (said,) = [text for text in warnings if '"Used, skipped and lost bytes" in the report' in text]
    assert file in said and all(reason in said for reason in reasons)
    assert any("copy events/ of the same tracefs" in text for text in warnings) == (reasons == {"unknown_event_id"})


def test_what_a_file_lost_in_its_middle_and_at_its_end_puts_other_claims_in_doubt(
    data_folder: Path, tmp_path: Path
) -> None:
    recorded = data_folder / "captures" / "caseA-1stream"
    capture, _ = _import(recorded, tmp_path / "damaged", _cut("raw/cpu1.bin", 50_000), "raw")
    outcomes = {v.name: str(v.outcome) for v in judge_capture(capture.table, info=capture.info)}
    assert outcomes["no_kcq_use"] == "UNKNOWN"
