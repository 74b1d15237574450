"""Spans of doorbell stores are those that the clock's pairs find between the moments of a thread's lines."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from tracecorr.clock.causal_pairs import LOG_STEP_NS, bracket_doorbells, list_moments, span_batches
from tracecorr.link.doorbells import span_stores
from tracecorr.model.schema import CAT

_ROW = st.fixed_dictionaries({
    "thread": st.none() | st.integers(0, 1),
    "step": st.sampled_from([0, 0, 1, LOG_STEP_NS]),
    "dur_ns": st.none() | st.integers(0, 3),
    "clock": st.sampled_from(["mono", "mono", "mono", "mono_raw"]),
    "source": st.sampled_from(["amd_log", "amd_log", "ftrace"]),
    "name": st.sampled_from(["dispatch", "dispatch", "barrier_value", "hipFree"]),
})  # fmt: skip
_TYPES = {"thread": pl.UInt32, "dur_ns": pl.Int64, "step": pl.Int64, "clock": CAT, "source": CAT, "name": CAT}


@pytest.mark.xfail(strict=False, reason="open: doorbell spans of link and clock differ in rare made-up orders")
@given(st.lists(_ROW, max_size=30))
def test_stores_lie_between_the_moments_around_their_packets(rows: list[dict[str, object]]) -> None:
    events = pl.DataFrame(rows, schema=_TYPES).with_columns(
        event=pl.int_range(pl.len()), ts_ns=pl.col("step").cum_sum()
    )
    packets = events.filter(pl.col("name") != "hipFree")
    lines = events.filter((pl.col("source") == "amd_log") & (pl.col("clock") == "mono"))
    stamps = lines.select("thread", stamp_ns="ts_ns", end_stamp_ns=pl.col("ts_ns") + pl.col("dur_ns"))
    known = span_batches(bracket_doorbells(packets.with_columns(at="ts_ns"), list_moments(stamps)))
    assert_frame_equal(span_stores(packets, events), known.drop("at"))
