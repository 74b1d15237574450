"""Doorbell handles: which queue's doorbell each is, where the probe did not read the ring."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import SequenceMatcher

import numpy as np
import polars as pl

from tracecorr.clock.bounds import Ints
from tracecorr.clock.rows import IS_PACKET, attach_columns, fill_columns

# Stores and packets of a thread that are laid side by side from a new handle on; more of them tell nothing new.
_COMPARED = 1000
# A handle belongs to a ring when this share of its matched stores says so, ...
_SHARE = 0.9
# ... and this share of those among matched ones is matched: in a log that lost lines others find a packet by chance.
_LEAST_MATCHED = 0.5


def fill_store_rings(records: pl.DataFrame) -> pl.DataFrame:
    """Return `records` with `ring` on doorbell stores of known handles, and with the column `ring_learned`.

    A thread prints its packets in the order in which it stores their doorbells, so the values stored and the
    indexes printed are one sequence, apart from what was lost. No clock is needed.

    Args:
        records: part events with `source`, `process` and `thread`.
    """
    columns = ("process", "thread", "arg", "ring", "packet_index", "stamp_ns", "file", "offset", "layer", "name")
    is_nameless = records.select((pl.col("layer") == "doorbell") & pl.col("ring").is_null()).to_series()
    if not is_nameless.any():
        return records.with_columns(ring_learned=pl.lit(False))
    rows = records.select(columns).with_row_index("_row")
    handles = rows.filter(is_nameless)
    stores = handles.drop_nulls(["thread", "arg", "packet_index"]).sort("stamp_ns", maintain_order=True)
    lines = rows.filter(IS_PACKET)
    lines = lines.drop_nulls(["thread", "ring", "packet_index"]).sort("file", "offset")
    learned = handles.drop("ring").join(learn_rings(stores, lines), on=["process", "arg"])
    known = learned.select("_row", "ring", ring_learned=pl.lit(True))
    filled = fill_columns(records, known.select("_row", "ring"), "_row")
    flagged = attach_columns(filled, known.select("_row", "ring_learned"), "_row")
    return flagged.with_columns(pl.col("ring_learned").fill_null(False))


def learn_rings(stores: pl.DataFrame, lines: pl.DataFrame) -> pl.DataFrame:
    """Return process, arg (doorbell signal handle) -> ring.

    Args:
        stores: columns process, thread, arg, packet_index, in the order of the trace.
        lines: columns thread, ring, packet_index, in the order of the log.
    """
    packets = {key[0]: part for key, part in lines.partition_by("thread", as_dict=True, maintain_order=True).items()}
    votes = [
        vote
        for key, part in stores.partition_by("thread", as_dict=True, maintain_order=True).items()
        if key[0] in packets
        for vote in _match_thread(part, packets[key[0]])
    ]
    if not votes:
        return pl.DataFrame(schema={"process": pl.UInt32, "arg": pl.UInt64, "ring": pl.UInt64})
    keys = ["process", "arg"]
    compared, at = pl.concat(votes).with_columns(compared=pl.len().over(keys)), pl.col("at")
    beside = compared.drop_nulls("ring").group_by(*keys, "ring", "compared")
    counted = beside.agg(votes=pl.len(), first=at.min(), last=at.max())
    alike = pl.col("votes") >= _SHARE * pl.col("votes").sum().over(keys)
    chosen = counted.filter(alike & (pl.col("votes") >= _LEAST_MATCHED * pl.col("compared")))
    # A ring has one doorbell at a time: two handles may only follow each other.
    ordered = chosen.sort("first").with_columns(before=pl.col("last").shift(1).over("process", "ring"))
    crossed = (pl.col("first") <= pl.col("before")).fill_null(False).any().over("process", "ring")
    return ordered.filter(~crossed).select("process", "arg", "ring")


def _match_thread(stores: pl.DataFrame, packets: pl.DataFrame) -> Iterator[pl.DataFrame]:
    """Yield votes (process, arg, ring, at): a store and the packet that the sequences of the thread put beside it.

    Of stores between such ones that have no packet the ring is null.

    Only stretches that begin with a handle not seen before are compared; the queues of a program are few. One store
    announces all packets of a graph launch: those whose index is never stored are left out.
    """
    handles, values = stores["arg"].to_numpy(), stores["packet_index"].to_numpy()
    packets = packets.filter(pl.col("packet_index").is_in(stores["packet_index"].unique().implode()))
    rings, indexes = packets["ring"].to_numpy(), packets["packet_index"].to_numpy()
    known: dict[int, int] = {}
    store = packet = 0
    while store < len(values):
        left, right = _match_stretch(values[store : store + _COMPARED], indexes[packet : packet + _COMPARED])
        left, right = left + store, right + packet
        if len(left):
            compared = stores[int(left[0]) : int(left[-1]) + 1].select("process", "arg", at="stamp_ns")
            beside = packets["ring"].clear(len(compared)).scatter(left - left[0], packets["ring"].gather(right))
            yield compared.with_columns(beside)
        known |= dict(zip(handles[left].tolist(), rings[right].tolist(), strict=True))
        tried = np.unique(handles[: store + _COMPARED])
        fresh = np.flatnonzero(~np.isin(handles, tried))
        if not len(fresh):
            return
        store = int(fresh[0])
        packet = _place_before(handles[:store], values[:store], rings, indexes, known, packet)


def _match_stretch(values: Ints, indexes: Ints) -> tuple[Ints, Ints]:
    matcher = SequenceMatcher(None, values.tolist(), indexes.tolist(), autojunk=False)
    blocks = matcher.get_matching_blocks()
    pairs = [(block.a + i, block.b + i) for block in blocks for i in range(block.size)]
    both = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    return both[:, 0], both[:, 1]


def _place_before(handles: Ints, values: Ints, rings: Ints, indexes: Ints, known: dict[int, int], first: int) -> int:
    """Return the place behind the packet of the last store of a known handle, not before place `first`."""
    for store in range(len(handles) - 1, max(len(handles) - _COMPARED, 0) - 1, -1):
        ring = known.get(int(handles[store]))
        if ring is None:
            continue
        found = np.flatnonzero((rings[first:] == ring) & (indexes[first:] == values[store]))
        if len(found):
            return first + int(found[0]) + 1
    return first
