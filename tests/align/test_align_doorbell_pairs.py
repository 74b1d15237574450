"""SYNTHETIC stores and packets: which of them are surely the same doorbell."""

from __future__ import annotations

import polars as pl

from tracecorr.align.causal_pairs import pair_doorbells


def test_indexes_up_to_one_that_came_again_pair_nothing() -> None:
    """Of the ring's two lives the store of 5 is of the first, the line of the second; the others of 5 were lost."""

    def rows(indexes: list[int], **columns: list[int]) -> pl.DataFrame:
        return pl.DataFrame({"thread": 1, "ring": 7, "packet_index": indexes, **columns})

    stores = rows([3, 5, 6, 3, 8], stamp_ns=[30, 50, 60, 130, 180])
    packets = rows([6, 3, 5, 6, 8], doorbell_lo_ns=[55, 125, 145, 155, 175], doorbell_hi_ns=[65, 135, 155, 165, 185])
    assert pair_doorbells(stores, packets)["stamp_ns"].to_list() == [180]
    assert pair_doorbells(stores[:3], packets[2:])["stamp_ns"].to_list() == [50, 60]
