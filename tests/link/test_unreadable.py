"""SYNTHETIC ledgers: which of their reasons are losses, where these lie, and what is said of them."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from tracecorr.link.losses.unreadable import list_damaged, list_unreadable, warn_unreadable
from tracecorr.model import schema
from tracecorr.model.reasons import REASONS, Lost, list_lossy, render_reasons

_EVENTS = pl.DataFrame({"file": [0, 0, 1, 1], "ts_ns": [10, 90, 20, 80]}, schema={"file": pl.UInt16, "ts_ns": pl.Int64})
_FILES = schema.FILES.conform(
    pl.DataFrame({"file": [0, 1, 2], "path": ["raw/amd_log/0-a.log", "raw/ftrace/0/cpu0.bin", "raw/ftrace/0/cpu1.bin"]})
)


def _ledger(*rows: dict[str, Any]) -> pl.DataFrame:
    usual = {"file": 1, "source": "ftrace", "outcome": "skipped", "records": 3, "bytes": 60}
    return schema.LEDGER.conform(pl.DataFrame([usual | row for row in rows]))


@pytest.mark.parametrize(
    ("row", "losses"), [
        ({"reason": "unknown_event_id"}, [("ftrace", 20, 80, 3)]),
        ({"reason": "broken_page_data"}, [("ftrace", 20, 80, None)]),
        ({"reason": "torn_page"}, [("ftrace", 80, None, None)]),
        # No record of the file has a time.
        ({"reason": "unknown_event_id", "file": 2}, [("ftrace", None, None, 3)]),
        ({"reason": "torn_record", "file": 0, "source": "amd_log", "outcome": "lost", "bytes": 0},
         [("amd_log", 90, None, None)]),
        ({"reason": "nul_bytes", "file": 0, "source": "amd_log"}, [("amd_log", 10, 90, None)]),
        ({"reason": "program_output", "file": 0, "source": "amd_log"}, []),
        ({"reason": "range_not_chosen"}, []),
        # The reader tells the span of these.
        ({"reason": "ring_buffer_overrun", "outcome": "lost"}, []),
    ],
)  # fmt: skip
def test_what_could_not_be_read_is_a_loss_of_its_file(row: dict[str, Any], losses: list[tuple[Any, ...]]) -> None:
    found = list_unreadable(_ledger(row, {"outcome": "used", "reason": ""}), _EVENTS)
    assert found.select(pl.col("source").cast(pl.String), "from_ns", "to_ns", "count").rows() == losses
    assert found.schema == schema.LOSSES.empty().schema
    assert bool(warn_unreadable(_ledger(row, {"outcome": "used", "reason": ""}), _FILES)) == bool(losses)


def test_a_file_with_records_that_could_not_be_read_is_damaged_before_its_end() -> None:
    """That the last record is cut tells nothing of those before it."""
    log = {"file": 0, "source": "amd_log"}
    ledger = _ledger({"reason": "nul_bytes", **log}, {"reason": "broken_record", **log}, {"reason": "bad_page_head"})
    assert sorted(list_damaged(ledger).rows()) == [(0, "amd_log"), (1, "ftrace")]
    whole = _ledger({"reason": "torn_record", **log}, {"reason": "program_output", **log}, {"reason": "torn_page"})
    assert list_damaged(whole).is_empty()


def test_a_trace_whose_records_another_one_holds_lost_none() -> None:
    ledger = _ledger({"reason": "torn_line"}, {"reason": "in another trace, too"})
    assert list_unreadable(ledger, _EVENTS).is_empty() and warn_unreadable(ledger, _FILES) == []


def test_one_warning_for_each_folder_says_how_much_could_not_be_read_and_where_to_look() -> None:
    (said,) = warn_unreadable(
        _ledger(
            {"reason": "unknown_event_id"}, {"reason": "broken_page_data", "records": 1, "bytes": 4000},
            {"reason": "short_record", "file": 2}, {"reason": "", "outcome": "used"},
        ), _FILES,
    )  # fmt: skip
    assert said == (
        "raw/ftrace/0/cpu0.bin, raw/ftrace/0/cpu1.bin: records were there and are lost: 6 records and 4,120 bytes "
        "could not be read (broken_page_data, short_record, unknown_event_id); "
        'see "What became of the bytes" in the report'
    )
    (said,) = warn_unreadable(_ledger({"reason": "torn_record", "file": 0, "source": "amd_log", "bytes": 0}), _FILES)
    assert "raw/amd_log/0-a.log: records were there and are lost: the end could not be read (torn_record)" in said


def test_pages_without_formats_are_told_from_pages_with_some_unknown_events() -> None:
    told = warn_unreadable(_ledger({"reason": "unknown_event_id"}, {"reason": "unknown_event_id", "file": 2}), _FILES)
    assert told[0].startswith("raw/ftrace/0: none of its 6 records can be told, because the trace has no formats of")
    used = {"reason": "", "outcome": "used", "file": 2}
    assert "no formats" not in " ".join(warn_unreadable(_ledger({"reason": "unknown_event_id"}, used), _FILES))


def test_each_reason_has_its_line_in_the_reference() -> None:
    assert len(list(render_reasons())) == len(REASONS) + 3
    assert {REASONS[name].lost for name in list_lossy()} == {Lost.COUNTED, Lost.UNTOLD}
