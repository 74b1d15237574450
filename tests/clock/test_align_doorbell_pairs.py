"""SYNTHETIC stores and packets: which of them are surely the same doorbell."""

from __future__ import annotations

import polars as pl

from tracecorr.clock.causal_pairs import pair_doorbells


def rows(indexes: list[int], **columns: list[int]) -> pl.DataFrame:
    return pl.DataFrame({"thread": 1, "ring": 7, "packet_index": indexes, **columns})


def test_indexes_up_to_one_that_came_again_pair_nothing() -> None:
    """Of the ring's two lives the store of 5 is of the first, the line of the second; the others of 5 were lost."""
    stores = rows([3, 5, 6, 3, 8], stamp_ns=[30, 50, 60, 130, 180])
    packets = rows([6, 3, 5, 6, 8], doorbell_lo_ns=[55, 125, 145, 155, 175], doorbell_hi_ns=[65, 135, 155, 165, 185])
    assert pair_doorbells(stores, packets)["stamp_ns"].to_list() == [180]
    assert pair_doorbells(stores[:3], packets[2:])["stamp_ns"].to_list() == [50, 60]


def test_an_index_above_those_that_came_again_is_no_pair_where_its_other_halves_were_lost() -> None:
    """The lines show two lives of the ring, 0 to 3 and 0 to 6, of which the stores, up to 4, show one."""
    packets = rows([0, 3, 0, 4, 6], doorbell_lo_ns=[5, 35, 905, 945, 965], doorbell_hi_ns=[15, 45, 915, 955, 975])
    assert pair_doorbells(rows([0, 2, 4], stamp_ns=[10, 30, 50]), packets).is_empty()


def test_in_a_ring_of_two_lives_a_store_is_that_of_a_line_in_the_same_one() -> None:
    """Of 4 the line of the first life and the store of the second were lost; of 6 there is all of the second."""
    stores = rows([0, 4, 0, 3, 6], stamp_ns=[10, 50, 910, 940, 970])
    packets = rows([0, 3, 0, 4, 6], doorbell_lo_ns=[5, 35, 905, 945, 965], doorbell_hi_ns=[15, 45, 915, 955, 975])
    assert pair_doorbells(stores, packets).rows() == [(970, 970, 965, 975)]


def test_rings_that_were_not_made_again_are_paired_beside_one_that_was() -> None:
    stores, packets = rows([0, 0], stamp_ns=[10, 910]), rows([0], doorbell_lo_ns=[5], doorbell_hi_ns=[15])
    other = {"ring": pl.lit(8, pl.Int32), "packet_index": pl.lit(2, pl.Int64)}
    found = pair_doorbells(
        pl.concat([stores, stores[:1].with_columns(**other)]), pl.concat([packets, packets.with_columns(**other)])
    )
    assert found.rows() == [(10, 10, 5, 15)]
