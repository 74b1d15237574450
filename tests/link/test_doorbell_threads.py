"""Threads by doorbells: which thread of the log wrote the packets that a thread of the trace stored (HAND-MADE)."""

from __future__ import annotations

import polars as pl
import pytest

from tracecorr.link.doorbell_threads import match_doorbells

RING = 0x3C00000


@pytest.mark.parametrize(
    ("stored", "printed", "expected"), [
        (range(100), range(100), [7]),
        pytest.param(range(100), range(90, 140), [], id="another life of the process with the same rings"),
        pytest.param(range(40, 60), range(100), [7], id="a trace of a part of the run"),
        pytest.param(range(100), range(40, 60), [7], id="a log of a part of the run"),
        pytest.param(range(0, 100, 2), range(100), [7], id="stores that announce several packets"),
    ],
)  # fmt: skip
def test_threads_that_share_most_of_their_packets_are_one(stored: range, printed: range, expected: list[int]) -> None:
    stores = pl.DataFrame({"packet_index": stored}, schema_overrides={"packet_index": pl.Int64}).with_columns(
        tid_key=pl.lit(7, pl.Int64), ring=pl.lit(RING, pl.UInt64), stamp_ns=pl.col("packet_index")
    )
    lines = pl.DataFrame({"packet_index": printed}, schema_overrides={"packet_index": pl.Int64}).with_columns(
        file=pl.lit(0, pl.UInt16), pid=pl.lit(1), tid=pl.lit(0x7F00, pl.UInt64), ring=pl.lit(RING, pl.UInt64),
        offset=pl.col("packet_index"),
    )  # fmt: skip
    assert match_doorbells(lines, stores)["tid_key"].to_list() == expected
