"""HAND-MADE: how far before the read that brought it something may have happened."""

from __future__ import annotations

import polars as pl
import pytest
from placed_rows import complete

from tracecorr.clock.clock_map import ClockMap
from tracecorr.clock.placing import place_records, widen_reads
from tracecorr.model import schema
from tracecorr.model.kinds import Flag


def _place_read(waited_ns: int | None) -> tuple[int, int]:
    """Return err_lo_ns and flags of an SMI event without a time of its own."""
    event = pl.DataFrame({"file": [3], "offset": [0], "stamp_ns": [5_000], "clock": ["mono"], "name": ["VMFAULT"]})
    records = schema.PART_EVENTS.conform(event).with_columns(
        source=pl.lit("kfd_smi", schema.CAT),
        step_lo_ns=pl.lit(0, pl.Int64),
        step_hi_ns=pl.lit(0, pl.Int64),
    )
    told = pl.DataFrame(
        {"file": 3, "offset": 0, "key": "waited_ns", "u64": [waited_ns]}, schema_overrides={"u64": pl.UInt64}
    )
    args = schema.PART_ARGS.conform(told.drop_nulls())
    (row,) = place_records(widen_reads(complete(records), args), {"kfd_smi:mono": ClockMap("same_clock")}).to_dicts()
    return row["err_lo_ns"], row["flags"]


def test_an_event_may_have_happened_since_the_read_before() -> None:
    assert _place_read(300) == (300, 0)


@pytest.mark.parametrize("waited_ns", [None, 1 << 32, (1 << 63) - 1, 1 << 63, (1 << 64) - 1])
def test_where_the_wait_is_not_known_or_absurd_the_event_may_have_happened_at_any_time_before(
    waited_ns: int | None,
) -> None:
    assert _place_read(waited_ns) == ((1 << 32) - 1, Flag.ERROR_CLAMPED)
