"""Threads by doorbells: a store that the trace shows and the packet line of the log name one thread each."""

from __future__ import annotations

from difflib import SequenceMatcher

import polars as pl

from tracecorr.model.kinds import DERIVED, INFERRED, PACKET_KINDS

# So many packets must agree on a thread, and so large a share of them.
_LEAST, _SHARE = 3, 0.9
# So large a share of the packets of one of them must be the other one's, too.
_COMMON = 0.5
# Of what was compared in order, a second thread must not fit half as well.
_COMPARED, _SECOND = 600, 0.5
_SHAPE = {
    "file": pl.UInt16, "log_pid": pl.UInt32, "log_tid": pl.UInt64, "tid_key": pl.Int64, "how": pl.String,
    "evidence": pl.String,
}  # fmt: skip


def select_stores(trace: pl.DataFrame) -> pl.DataFrame:
    """Return the doorbell stores of part events of a trace with `tid_key`: tid_key, ring, packet_index, stamp_ns.

    Of the index the lower 32 bits are left, which the log prints.
    """
    wanted = (pl.col("layer") == "doorbell") & pl.col("packet_index").is_not_null()
    stores = trace.select("tid_key", "ring", "packet_index", "stamp_ns", "layer").filter(wanted).drop("layer")
    return stores.with_columns(pl.col("packet_index") % 2**32)


def select_lines(log: pl.DataFrame) -> pl.DataFrame:
    """Return the packets in part events of a log: file, pid, tid, ring, packet_index, offset."""
    wanted = (pl.col("layer") == "aql") & pl.col("name").is_in(PACKET_KINDS)
    lines = log.select("file", "pid", "tid", "ring", "packet_index", "offset", "layer", "name").filter(wanted)
    return lines.drop("layer", "name").drop_nulls(["pid", "tid", "packet_index"])


def match_doorbells(lines: pl.DataFrame, stores: pl.DataFrame) -> pl.DataFrame:
    """Return file, log_pid, log_tid -> tid_key, how, evidence.

    By ring and index where the probe reads the ring (derived); else by the order of the values that each thread stores,
    where one thread of the trace fits one of the log alone (inferred: that they are alike proves nothing).

    Args:
        lines: packets of the log (`select_lines`).
        stores: doorbell stores of the trace (`select_stores`).
    """
    if stores.is_empty() or lines.is_empty():
        return pl.DataFrame(schema=_SHAPE)
    by_ring = _by_ring(stores, lines)
    rest = stores.filter(pl.col("ring").is_null())
    return by_ring if len(by_ring) or rest.is_empty() else _by_order(rest, lines)


def _by_ring(stores: pl.DataFrame, lines: pl.DataFrame) -> pl.DataFrame:
    keys = ["ring", "packet_index"]
    alone = pl.len().over(keys) == 1
    left = stores.drop_nulls(keys).filter(alone).select(*keys, "tid_key")
    right = lines.drop_nulls(keys).filter(alone).select(*keys, "file", log_pid="pid", log_tid="tid")
    line = ["file", "log_pid", "log_tid"]
    votes = left.join(right, on=keys).group_by(*line, "tid_key").agg(n=pl.len())
    sure = (pl.col("n") >= _SHARE * pl.col("n").sum().over(line)) & (
        pl.col("n") >= _SHARE * pl.col("n").sum().over("tid_key")
    )
    asked = votes.join(left.group_by("tid_key").agg(stores=pl.len()), on="tid_key").join(
        right.group_by(line).agg(lines=pl.len()), on=line
    )
    # Threads of two lives of a process share rings and some indexes, not those of most of their packets.
    sure &= pl.col("n") >= _COMMON * pl.min_horizontal("stores", "lines")
    found = asked.filter(sure & (pl.col("n") >= _LEAST)).with_columns(how=pl.lit("doorbell"), evidence=pl.lit(DERIVED))
    return found.select(*_SHAPE).cast(_SHAPE)  # type: ignore[arg-type]


def _by_order(stores: pl.DataFrame, lines: pl.DataFrame) -> pl.DataFrame:
    line = ["file", "pid", "tid"]
    sides = [
        {key: part["packet_index"].head(_COMPARED).to_list() for key, part in parts.items()}
        for parts in (
            stores.sort("stamp_ns", maintain_order=True).partition_by("tid_key", as_dict=True, maintain_order=True),
            lines.sort("file", "offset").partition_by(line, as_dict=True, maintain_order=True),
        )
    ]
    rows = [
        (*printed, stored[0], 2 * _matched(values, indexes) / (len(values) + len(indexes)))
        for stored, values in sides[0].items()
        for printed, indexes in sides[1].items()
        if min(len(values), len(indexes)) >= 3 * _LEAST
    ]
    scores = pl.DataFrame(rows, schema=[*line, "tid_key", "score"], orient="row")
    if scores.is_empty():
        return pl.DataFrame(schema=_SHAPE)
    good = pl.col("score") >= _SECOND
    alone = (good.sum().over("tid_key") == 1) & (good.sum().over(line) == 1)
    found = scores.filter(alone & (pl.col("score") >= _SHARE)).rename({"pid": "log_pid", "tid": "log_tid"})
    told = found.with_columns(how=pl.lit("order of doorbells"), evidence=pl.lit(INFERRED))
    return told.select(*_SHAPE).cast(_SHAPE)  # type: ignore[arg-type]


def _matched(values: list[int], indexes: list[int]) -> int:
    matcher = SequenceMatcher(None, values, indexes, autojunk=False)
    return sum(block.size for block in matcher.get_matching_blocks())
