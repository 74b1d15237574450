"""Do two kernel traces of a capture hold the same records?"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from tracecorr.model import schema
from tracecorr.model.reasons import REPEATED_TRACE

# So many equal records, and one of so many, are no chance: the traces are pieces of one recording.
_SURE_COUNT = _SURE_SHARE = 20
# Texts round to a microsecond.
_STEP_NS = 1000
# The pages of one recording lie in a folder of their own.
_RECORDING = pl.col("path").str.extract(r"^([^/]+/[^/]+/[^/]+)").alias("recording")
_RECORD = ["clock", "tid", "name", "at"]


def find_repeated_traces(traces: Sequence[pl.DataFrame]) -> list[int]:
    """Return the places of the traces of which every record is in another one that is kept: the larger, or the first.

    Args:
        traces: of each its part events: clock, tid, name, stamp_ns.
    """
    counted = [_count_records(trace) for trace in traces]
    kept: list[int] = []
    for place in sorted(range(len(traces)), key=lambda n: -traces[n].height):
        if not any(_holds_all(counted[other], counted[place]) for other in kept):
            kept.append(place)
    return [place for place in range(len(traces)) if place not in kept]


def _count_records(trace: pl.DataFrame) -> pl.DataFrame:
    named = pl.col("clock", "name").cast(pl.String)
    return trace.select(named, "tid", at=round_stamp(pl.col("stamp_ns"))).group_by(_RECORD).len()


def round_stamp(stamp: pl.Expr) -> pl.Expr:
    """Return the microsecond that a text prints of stamps."""
    return (stamp + _STEP_NS // 2) // _STEP_NS


def _holds_all(large: pl.DataFrame, small: pl.DataFrame) -> bool:
    both = small.join(large, on=_RECORD, how="left", nulls_equal=True, suffix="_large")
    return small.height > 0 and bool((both["len"] <= both["len_large"].fill_null(0)).all())


def skip_records(ledger: pl.DataFrame) -> pl.DataFrame:
    """Return the ledger of a trace that is repeated: what was used of it is skipped."""
    used = pl.col("outcome").cast(pl.String) == "used"
    return ledger.with_columns(
        outcome=pl.when(used).then(pl.lit("skipped")).otherwise(pl.col("outcome").cast(pl.String)).cast(schema.CAT),
        reason=pl.when(used).then(pl.lit(REPEATED_TRACE)).otherwise(pl.col("reason").cast(pl.String)).cast(schema.CAT),
    )


def skip_repeated_records(ledger: pl.DataFrame, dropped: pl.DataFrame, doubled: int, *, is_text: bool) -> pl.DataFrame:
    """Return the ledger of a trace of which some records are in another one, too.

    Args:
        ledger: of the part.
        dropped: file, offset, length, end_offset, end_length of their events. An exit in the file of another CPU is
            not told, and stays used.
        doubled: so many records are told as lost by another trace, too.
        is_text: whether line ends belong to the records.
    """
    ends = 1 if is_text else 0
    size = pl.col("length") + ends + (pl.col("end_length") + ends).fill_null(0)
    taken = dropped.group_by("file").agg(
        taken=pl.len() + pl.col("end_offset").count(), size=size.cast(pl.Int64).sum()
    ).cast({"taken": pl.Int64})  # fmt: skip
    joined = ledger.join(taken, on="file", how="left", maintain_order="left")
    counts = {"records": "taken", "bytes": "size"}
    # Of several blocks each has its row.
    sums = joined.group_by("file", "source", "outcome", "reason", maintain_order=True).agg(
        pl.col("records", "bytes").sum(), pl.col("taken", "size").first()
    )
    used = pl.col("outcome").cast(pl.String) == "used"
    moved = {name: pl.min_horizontal(pl.col(count).fill_null(0), name) for name, count in counts.items()}
    rows = sums.filter(used, pl.col("taken").is_not_null()).with_columns(
        outcome=pl.lit("skipped", schema.CAT), reason=pl.lit(REPEATED_TRACE, schema.CAT), **moved
    )
    left = sums.with_columns(
        pl.when(used).then(pl.col(name) - moved[name]).otherwise(name).alias(name) for name in moved
    )
    lost = pl.col("outcome").cast(pl.String) == "lost"
    left = left.with_columns(pl.when(lost).then(pl.col("records") - doubled).otherwise("records").alias("records"))
    left = left.filter(~lost | (pl.col("records") > 0))
    return schema.LEDGER.conform(pl.concat([left, rows]).drop("taken", "size"))


def drop_repeated_losses(
    losses: Sequence[pl.DataFrame], repeated: pl.DataFrame
) -> tuple[list[pl.DataFrame], list[int]]:
    """Return the losses of each trace without those that an earlier one tells, too, and how many records these count.

    Args:
        losses: rows of each part.
        repeated: the records that traces share: where there are none, no loss is the same.
    """
    told = pl.concat([rows.with_row_index("row").with_columns(trace=pl.lit(n)) for n, rows in enumerate(losses)])
    sharing = pl.concat([repeated["trace"], repeated["holder"]]).unique()
    same = told.filter(pl.col("trace").is_in(sharing.implode()))
    # A piece may begin behind a loss. That of a header lies before the first records, wherever those are.
    is_head = pl.all_horizontal(pl.col("cpu", "from_ns").is_null(), pl.col("to_ns", "count").is_not_null())
    ended = pl.when(~is_head).then(round_stamp(pl.col("to_ns")))
    same = same.filter(is_head | pl.col("cpu").is_not_null() & pl.col("to_ns").is_not_null()).with_columns(
        ended=ended, nth=pl.int_range(pl.len()).over("trace", "cpu", ended, "count")
    )
    again = same.filter(~pl.struct("cpu", "ended", "count", "nth").is_first_distinct())
    kept = [
        rows.with_row_index("row").join(again.filter(pl.col("trace") == n), on="row", how="anti").drop("row")
        for n, rows in enumerate(losses)
    ]
    return kept, [int(again.filter(pl.col("trace") == n)["count"].fill_null(1).sum()) for n in range(len(losses))]


def drop_held_losses(
    losses: Sequence[pl.DataFrame],
    ledgers: Sequence[pl.DataFrame],
    events: Sequence[pl.DataFrame],
    repeated: Sequence[int],
) -> list[pl.DataFrame]:
    """Return the losses of each trace without records that counters or headers tell of and another trace holds.

    Traces of which as many records are told, read and lacking ones together, are of one recording. So are those that
    follow on one and hold what it lacks: pieces of a text have no header.

    Args:
        losses, ledgers, events: rows of each part; of events the stamps.
        repeated: so many records of each trace are in another one, too.
    """
    is_lacking = pl.col("from_ns").is_null() & pl.col("to_ns").is_null() & pl.col("count").is_not_null()
    lacking = [int(rows.filter(is_lacking)["count"].sum()) for rows in losses]
    read = [int(rows.filter(pl.col("outcome").cast(pl.String) != "lost")["records"].sum()) for rows in ledgers]
    told = [sum(pair) for pair in zip(lacking, read, strict=True)]
    held = list(losses)
    for number, total in enumerate(told):
        same = [other for other, count in enumerate(told) if count == total]
        if not lacking[number] or (len(same) < 2 and not _is_continued(number, lacking, read, events)):
            continue
        left = 0 if len(same) < 2 else total - sum(read[other] - repeated[other] for other in same)
        # The first of them tells what all lack.
        rest = [{"source": "ftrace", "count": left}] if left > 0 and number == same[0] else []
        held[number] = pl.concat([losses[number].filter(~is_lacking), pl.DataFrame(rest, schema=schema.LOSSES.schema)])
    return held


def _is_continued(number: int, lacking: Sequence[int], read: Sequence[int], events: Sequence[pl.DataFrame]) -> bool:
    """Tell whether the traces that begin where a trace ends hold as many records as it lacks."""
    ends = [(rows["stamp_ns"].min(), rows["stamp_ns"].max()) for rows in events]
    end = ends[number][1]
    after = [n for n, (first, _) in enumerate(ends) if n != number and not lacking[n] and _is_from(first, end)]
    # A line that was cut in two is one more in the second file.
    return bool(after) and 0 <= sum(read[n] for n in after) - lacking[number] <= len(after)


def _is_from(first: object, end: object) -> bool:
    return isinstance(first, int) and isinstance(end, int) and first >= end


def warn_skipped_traces(ledger: pl.DataFrame, files: pl.DataFrame) -> list[str]:
    """Return warnings about traces of which another one holds all records, or some.

    Args:
        ledger, files: the tables.
    """
    outcome, skipped = pl.col("outcome").cast(pl.String), pl.col("reason").cast(pl.String) == REPEATED_TRACE
    told = ledger.join(files.select("file", _RECORDING), on="file").group_by("recording").agg(
        same=pl.col("records").filter(skipped).sum(), is_any=skipped.any(), is_used=(outcome == "used").any(),
    )  # fmt: skip
    return [
        f"{path}: {f'{same:,}' if is_used else 'all'} of its records are {REPEATED_TRACE}: they count once"
        for path, same, is_any, is_used in told.sort("recording").iter_rows()
        if is_any
    ]


def warn_repeated_traces(events: pl.DataFrame, files: pl.DataFrame) -> list[str]:
    """Return warnings about traces that hold the same records, whose events count twice: no clock or thread is known.

    Args:
        events, files: the tables.
    """
    named = files.filter(pl.col("source").cast(pl.String) == "ftrace").select("file", _RECORDING).drop_nulls()
    if named["recording"].n_unique() < 2:
        return []
    rows = events.filter(pl.col("source") == "ftrace").join(named, on="file")
    rows = rows.select("recording", "tid", "name", at=round_stamp(pl.col("stamp_ns"))).unique()
    both = rows.join(rows, on=["tid", "name", "at"]).filter(pl.col("recording") < pl.col("recording_right"))
    pairs = both.group_by("recording", "recording_right").agg(same=pl.len()).sort("recording", "recording_right")
    counts = dict(rows.group_by("recording").len().iter_rows())
    # Single events of two instances may be the same.
    return [
        f"{one} and {other} hold the same records ({same}): they are of one recording, and each of these events counts "
        "twice; name their clock (--ftrace-clock), so that it counts once, or import one of them"
        for one, other, same in pairs.iter_rows()
        if (_SURE_SHARE if same >= _SURE_COUNT else 2) * same >= min(counts[one], counts[other])
    ]
