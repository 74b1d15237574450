"""Doorbell handles: which queue's doorbell each is, where the probe did not read the ring."""

from __future__ import annotations

from difflib import SequenceMatcher

import polars as pl

from tracecorr.model import schema
from tracecorr.model.kinds import PACKET_KINDS

# Stores and packets of a thread that are laid side by side; more of them tell nothing new.
_COMPARED = 2000
# A handle belongs to a ring when this share of its matched stores says so.
_SHARE = 0.9


def fill_store_rings(records: pl.DataFrame) -> pl.DataFrame:
    """Return `records` with `ring` on doorbell stores of known handles, and with the column `ring_learned`.

    A thread prints its packets in the order in which it stores their doorbells, so the values stored and the
    indexes printed are one sequence, apart from what was lost. No clock is needed.

    Args:
        records: part events with `source`, `process` and `thread`.
    """
    needed = (pl.col("layer") == "doorbell") & pl.col("ring").is_null()
    stores = records.filter(needed).drop_nulls(["thread", "arg", "packet_index"]).sort("stamp_ns", maintain_order=True)
    lines = records.filter((pl.col("layer") == "aql") & pl.col("name").cast(pl.String).is_in(PACKET_KINDS))
    lines = lines.drop_nulls(["thread", "ring", "packet_index"]).sort("file", "offset")
    learned = learn_rings(stores, lines)
    keyed = learned.select("process", "arg", learned="ring", layer=pl.lit("doorbell").cast(schema.CAT))
    joined = records.join(keyed, on=["process", "arg", "layer"], how="left", maintain_order="left")
    return joined.with_columns(
        ring=pl.coalesce("ring", "learned"), ring_learned=pl.col("ring").is_null() & pl.col("learned").is_not_null()
    ).drop("learned")


def learn_rings(stores: pl.DataFrame, lines: pl.DataFrame) -> pl.DataFrame:
    """Return process, arg (doorbell signal handle) -> ring.

    Args:
        stores: columns process, thread, arg, packet_index, in the order of the trace.
        lines: columns thread, ring, packet_index, in the order of the log.
    """
    packets = {key[0]: part for key, part in lines.partition_by("thread", as_dict=True, maintain_order=True).items()}
    votes = [
        _match_thread(part.head(_COMPARED), packets[key[0]].head(_COMPARED))
        for key, part in stores.partition_by("thread", as_dict=True, maintain_order=True).items()
        if key[0] in packets
    ]
    if not votes:
        return pl.DataFrame(schema={"process": pl.UInt32, "arg": pl.UInt64, "ring": pl.UInt64})
    keys = ["process", "arg"]
    counted = (
        pl.concat(votes).group_by(*keys, "ring").agg(votes=pl.len(), first=pl.col("at").min(), last=pl.col("at").max())
    )
    chosen = counted.filter(pl.col("votes") >= _SHARE * pl.col("votes").sum().over(keys))
    # A ring has one doorbell at a time: two handles may only follow each other.
    ordered = chosen.sort("first").with_columns(before=pl.col("last").shift(1).over("process", "ring"))
    crossed = (pl.col("first") <= pl.col("before")).fill_null(False).any().over("process", "ring")
    return ordered.filter(~crossed).select("process", "arg", "ring")


def _match_thread(stores: pl.DataFrame, packets: pl.DataFrame) -> pl.DataFrame:
    """Return one vote (process, arg, ring, at) for each store that the sequences put beside a packet."""
    matcher = SequenceMatcher(None, stores["packet_index"].to_list(), packets["packet_index"].to_list(), autojunk=False)
    blocks = matcher.get_matching_blocks()
    left = [block.a + i for block in blocks for i in range(block.size)]
    right = [block.b + i for block in blocks for i in range(block.size)]
    return stores[left].select("process", "arg", at="stamp_ns").with_columns(packets[right].select("ring").to_series())
