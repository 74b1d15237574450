"""Threads by doorbells: a store that the trace shows and the packet line of the log name one thread each."""

from __future__ import annotations

from difflib import SequenceMatcher

import polars as pl

from tracecorr.clock.rows import IS_PACKET
from tracecorr.link.threads.doorbell_times import bracket_lines, find_slack, list_untimely
from tracecorr.link.threads.lives import LOG_THREAD, SAME_THREAD
from tracecorr.model.kinds import DERIVED, INFERRED

# So many packets must agree on a thread, and so large a share of them.
_LEAST, _SHARE = 3, 0.9
# So large a share of the packets of one of them must be the other one's, too.
_COMMON = 0.5
# Of what was compared in order, a second thread must not fit half as well.
_COMPARED, _SECOND = 600, 0.5
_KEYS = ["ring", "packet_index"]
# An index that more stores or lines of a ring have names none of them.
_MOST_ALIKE = 64
_SHAPE = {**SAME_THREAD, "evidence": pl.String}


def select_stores(trace: pl.DataFrame) -> pl.DataFrame:
    """Return the doorbell stores of part events of a trace with `tid_key`.

    Returns: tid_key, ring, packet_index (the lower 32 bits, which the log prints), stamp_ns, slack_ns (how far its time
    may lie from the stamp).
    """
    wanted = (pl.col("layer") == "doorbell") & pl.col("packet_index").is_not_null()
    stores = trace.select("tid_key", "ring", "packet_index", "stamp_ns", "layer", "clock").filter(wanted)
    return stores.select(
        "tid_key", "ring", pl.col("packet_index") % 2**32, "stamp_ns", slack_ns=find_slack(pl.col("clock"))
    )


def select_lines(log: pl.DataFrame, unknown: pl.DataFrame) -> pl.DataFrame:
    """Return the packets in part events of a log: file, log_pid, log_tid, ring, packet_index, offset, and brackets.

    Args:
        log: part events.
        unknown: the threads that are asked about: file, log_pid, log_tid.
    """
    columns = ("file", "ring", "packet_index", "offset", "layer", "name", "stamp_ns", "clock")
    # Most often nothing is left to be asked.
    log = log.clear() if unknown.is_empty() else log
    mine = log.select(*columns, log_pid="pid", log_tid="tid").filter(pl.col("clock") != "mono_raw")
    mine = mine.join(unknown, on=LOG_THREAD, how="semi", maintain_order="left")
    lines = mine.filter(IS_PACKET).drop("layer", "clock")
    return bracket_lines(lines.drop_nulls("packet_index"), mine)


def match_doorbells(lines: pl.DataFrame, stores: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return file, log_pid, log_tid -> tid_key, how, evidence, and the pairs of threads that are two.

    By ring and index where the probe reads the ring (derived); else by the order of the values that each thread stores,
    where one thread of the trace fits one of the log alone (inferred: that they are alike proves nothing). Threads of
    other processes, and of other runs, store the same, but at other times.

    Args:
        lines: packets of the log (`select_lines`).
        stores: doorbell stores of the trace (`select_stores`).
    """
    rung, printed = stores.drop_nulls("ring"), lines.drop_nulls("ring")
    pairs = _pair_by_ring(rung, printed)
    once = pl.len().over(*LOG_THREAD, "tid_key", *_KEYS) == 1
    untimely = list_untimely(pairs.filter(once))
    found = _by_ring(pairs.join(untimely, on=[*LOG_THREAD, "tid_key"], how="anti"), rung, printed)
    rest = stores.filter(pl.col("ring").is_null())
    return (found if len(found) or rest.is_empty() else _by_order(rest, lines)), untimely


def no_matches() -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return what `match_doorbells` does where there is no store."""
    return pl.DataFrame(schema=_SHAPE), pl.DataFrame(schema={name: _SHAPE[name] for name in (*LOG_THREAD, "tid_key")})


def _pair_by_ring(stores: pl.DataFrame, lines: pl.DataFrame) -> pl.DataFrame:
    """Return each store beside each line of its ring and index, with their numbers `store` and `line`."""
    sides = (
        side.with_row_index(name).filter(pl.len().over(_KEYS) <= _MOST_ALIKE)
        for side, name in ((stores, "store"), (lines, "line"))
    )
    left, right = sides
    return left.join(right, on=_KEYS)


def _by_ring(pairs: pl.DataFrame, stores: pl.DataFrame, lines: pl.DataFrame) -> pl.DataFrame:
    alone = (pl.len().over("store") == 1) & (pl.len().over("line") == 1)
    shared = pairs.filter(~alone)
    votes = pairs.filter(alone).group_by(*LOG_THREAD, "tid_key").agg(n=pl.len())
    sure = (pl.col("n") >= _SHARE * pl.col("n").sum().over(LOG_THREAD)) & (
        pl.col("n") >= _SHARE * pl.col("n").sum().over("tid_key")
    )
    left, right = (
        side.with_row_index(name).join(shared, on=name, how="anti")
        for side, name in ((stores, "store"), (lines, "line"))
    )
    asked = votes.join(left.group_by("tid_key").agg(stores=pl.len()), on="tid_key").join(
        right.group_by(LOG_THREAD).agg(lines=pl.len()), on=LOG_THREAD
    )
    # Threads of two lives of a process share rings and some indexes, not those of most of their packets.
    sure &= pl.col("n") >= _COMMON * pl.min_horizontal("stores", "lines")
    found = asked.filter(sure & (pl.col("n") >= _LEAST)).with_columns(how=pl.lit("doorbell"), evidence=pl.lit(DERIVED))
    return found.select(*_SHAPE).cast(_SHAPE)  # type: ignore[arg-type]


def _by_order(stores: pl.DataFrame, lines: pl.DataFrame) -> pl.DataFrame:
    sides = [
        {key: part.head(_COMPARED) for key, part in parts.items()}
        for parts in (
            stores.sort("stamp_ns", maintain_order=True).partition_by("tid_key", as_dict=True, maintain_order=True),
            lines.sort("file", "offset").partition_by(LOG_THREAD, as_dict=True, maintain_order=True),
        )
    ]
    rows = [
        (*printed, stored[0], 2 * _count_alike(values, indexes) / (len(values) + len(indexes)))
        for stored, values in sides[0].items()
        for printed, indexes in sides[1].items()
        if min(len(values), len(indexes)) >= 3 * _LEAST
    ]
    scores = pl.DataFrame(rows, schema=[*LOG_THREAD, "tid_key", "score"], orient="row")
    if scores.is_empty():
        return pl.DataFrame(schema=_SHAPE)
    good = pl.col("score") >= _SECOND
    alone = (good.sum().over("tid_key") == 1) & (good.sum().over(LOG_THREAD) == 1)
    found = scores.filter(alone & (pl.col("score") >= _SHARE))
    told = found.with_columns(how=pl.lit("order of doorbells"), evidence=pl.lit(INFERRED))
    return told.select(*_SHAPE).cast(_SHAPE)  # type: ignore[arg-type]


def _count_alike(stores: pl.DataFrame, lines: pl.DataFrame) -> int:
    """Return how many stores and lines of two threads are alike in their order; none where their times are not."""
    matcher = SequenceMatcher(None, stores["packet_index"].to_list(), lines["packet_index"].to_list(), autojunk=False)
    blocks = matcher.get_matching_blocks()
    store = [block.a + i for block in blocks for i in range(block.size)]
    line = [block.b + i for block in blocks for i in range(block.size)]
    pairs = pl.concat([stores[store].drop("ring", "packet_index"), lines[line]], how="horizontal")
    return len(pairs) if list_untimely(pairs).is_empty() else 0
