"""What a capture counted of the kernel's records, and what its files hold (SYNTHETIC numbers)."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from tracecorr.model import schema
from tracecorr.store.recording import complete_losses, count_read, list_recorded_losses

_FULL = {"source": "ftrace", "bytes": 8_192, "reason": "the trace could not be written: no space"}
_CUT = {"source": "amd_log", "bytes": 5, "records": 0, "reason": "the recording had ended"}


def _ledger(*rows: tuple[str, str, str, int]) -> pl.DataFrame:
    frame = pl.DataFrame(rows, schema=["source", "outcome", "reason", "records"], orient="row")
    return schema.LEDGER.conform(frame)


def _losses(*counts: int | None, source: str = "ftrace") -> pl.DataFrame:
    return schema.LOSSES.conform(pl.DataFrame({"source": [source] * len(counts), "count": counts}))


_READ = _ledger(
    ("ftrace", "used", "", 90), ("ftrace", "skipped", "unknown_event_id", 3), ("ftrace", "lost", "x", 7),
    ("ftrace", "skipped", "duplicate_sample", 5), ("ftrace", "skipped", "torn_page", 1), ("amd_log", "used", "", 800),
)  # fmt: skip


def _numbers(info: dict[str, Any], losses: pl.DataFrame | None = None) -> list[tuple[str, int | None]]:
    """Return the beginning of the reason, and the records, of each loss."""
    found = complete_losses(info, _READ, _losses() if losses is None else losses)
    return [(loss["reason"][:9], loss.get("records")) for loss in found]


def test_records_of_the_trace_are_those_that_were_used_or_left_out() -> None:
    assert count_read(_READ) == 93
    assert count_read(_ledger()) == 0


def test_what_could_not_be_written_is_what_was_counted_and_is_not_there() -> None:
    full = {"events": 113, "lost_events": 6, "unwritten_events": 6, "losses": [_CUT, _FULL]}
    assert _numbers(full) == [("the recor", 0), ("the trace", 26)]
    assert full["losses"] == [_CUT, _FULL]  # capture.json itself stays


@pytest.mark.parametrize(
    ("told", "rest"),
    [((), 10), ((4,), 6), ((4, 6), None), ((4, None), None), ((20,), None)],
)  # fmt: skip
def test_what_the_kernel_lost_and_no_file_tells_is_a_loss_of_its_own(told: tuple[int, ...], rest: int | None) -> None:
    """A span of unknown number may hold any of them."""
    found = _numbers({"events": 93, "lost_events": 10}, _losses(*told))
    assert found == ([] if rest is None else [("the kerne", rest)])


def test_losses_of_the_log_are_not_those_of_the_kernel() -> None:
    assert _numbers({"events": 93, "lost_events": 10}, _losses(10, None, source="amd_log")) == [("the kerne", 10)]


def test_records_on_a_full_disk_are_apart_from_those_that_had_no_room_in_the_buffers() -> None:
    info = {"events": 100, "lost_events": 9, "unwritten_events": 5, "losses": [_FULL]}
    assert _numbers(info, _losses(1)) == [("the trace", 12), ("the kerne", 3)]


@pytest.mark.parametrize("info", [{}, {"events": None, "lost_events": None}, {"lost_events": 3}])
def test_an_import_or_a_killed_capture_counted_nothing(info: dict[str, Any]) -> None:
    assert _numbers(info | {"losses": [_FULL]}) == [("the trace", None)]


def test_bytes_without_a_record_that_lacks_stay_without_a_number() -> None:
    assert _numbers({"events": 93, "lost_events": 0, "losses": [_FULL]}) == [("the trace", None)]


def test_each_loss_is_a_row_of_ledger_and_losses() -> None:
    info = {"files": [{"path": "raw/a", "file": 4}], "events": 100, "lost_events": 2}
    told = [{**_FULL, "records": 7}, {**_CUT, "path": "raw/a", "from_ns": 1, "to_ns": 2}]
    ledger, losses = list_recorded_losses(info, iter(told))
    assert ledger.select("file", "records").rows() == [(None, 7), (4, 0)]
    assert losses.select(pl.col("source").cast(pl.String), "from_ns", "to_ns", "count").rows() == [
        ("ftrace", None, None, 7), ("amd_log", 1, 2, 0),
    ]  # fmt: skip
