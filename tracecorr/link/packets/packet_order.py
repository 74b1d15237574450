"""The order in which packets took their indexes: threads that share a ring may print in another one."""

from __future__ import annotations

import numpy as np
import polars as pl

from tracecorr.clock.bounds import NO_HIGH, NO_LOW, Ints
from tracecorr.clock.intervals import list_moments
from tracecorr.model.kinds import GRAPH_CALL


def add_turns(packets: pl.DataFrame, records: pl.DataFrame, ring: tuple[str, ...]) -> pl.DataFrame:
    """Return `packets` with `turn` and `mixed`: groups of a ring that follow each other, and whether order is unknown.

    A thread takes a packet's index between its previous line and the packet's own. Packets whose intervals overlap are
    of one turn; where several threads wrote them, they may have taken their indexes in another order than they printed.

    Args:
        packets: columns thread, stamp_ns, file, parent_offset and `ring`, in the order of their times.
        records: part events with `thread`.
        ring: columns that name one life of a ring.
    """
    packets = packets.with_columns(_earliest=pl.Series(find_earliest(packets, records)))
    # The earliest of all that come later: where it lies behind a packet's line, a turn ends.
    later = pl.col("_earliest").shift(-1).cum_min(reverse=True).over(ring)
    packets = packets.with_columns(_ends=later > pl.col("stamp_ns")).with_columns(
        turn=pl.col("_ends").shift(1, fill_value=False).cum_sum().over(ring)
    )
    # Packets of which the log names no thread may be of several.
    mixed = ((pl.col("thread").n_unique() > 1) | pl.col("thread").is_null().any()).over(*ring, "turn")
    return packets.with_columns(mixed=mixed).drop("_earliest", "_ends")


def find_earliest(packets: pl.DataFrame, records: pl.DataFrame) -> Ints:
    """Return when each packet's thread can have taken its index: at its previous line, `NO_LOW` without one.

    A graph launch takes the indexes of several packets before it prints the first of them, in its call. A queue is made
    between two lines of its thread as well.
    """
    log = records.select("thread", "stamp_ns", "end_stamp_ns", "source", "clock").filter(
        (pl.col("source") == "amd_log") & (pl.col("clock") == "mono")
    )
    moments = list_moments(log, "stamp_ns", pl.col("end_stamp_ns"))
    at, thread = packets["stamp_ns"].fill_null(NO_LOW).to_numpy(), packets["thread"].fill_null(-1).to_numpy()
    earliest = np.full(len(at), NO_LOW)
    for number, lines in moments.items():
        own = np.flatnonzero(thread == number)
        earliest[own] = np.concatenate([[NO_LOW], lines])[np.searchsorted(lines, at[own], side="left")]
    graphs = records.filter((pl.col("layer") == "hip") & pl.col("name").cat.starts_with(GRAPH_CALL))
    calls = graphs.select("file", parent_offset="offset", begun="stamp_ns").unique(["file", "parent_offset"])
    begun = packets.select("file", "parent_offset").join(
        calls, on=["file", "parent_offset"], how="left", maintain_order="left"
    )
    latest: Ints = np.minimum(earliest, begun["begun"].fill_null(NO_HIGH).to_numpy())
    return latest
