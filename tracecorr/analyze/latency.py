"""Where does the time between a HIP call and the GPU go?"""

from __future__ import annotations

import polars as pl

from tracecorr.analyze.frames import collect, describe_ns
from tracecorr.analyze.graphs import name_kinds
from tracecorr.analyze.moment_errors import add_errors, gap_error, list_tellers, widest
from tracecorr.model.kinds import DERIVED, INFERRED, RECORDED

# (stage, from, to, how its two ends were joined, whether the doorbell's own evidence limits it)
_STAGES = (
    ("call to packet", "call_ns", "packet_ns", DERIVED, False),
    ("call to doorbell", "call_ns", "doorbell_ns", DERIVED, True),
    ("packet to doorbell", "packet_ns", "doorbell_ns", RECORDED, True),
    ("doorbell to return", "doorbell_ns", "return_ns", DERIVED, True),
    ("packet to return", "packet_ns", "return_ns", DERIVED, False),
    ("call to return", "call_ns", "return_ns", RECORDED, False),
    ("doorbell to GPU start", "doorbell_ns", "gpu_start_ns", DERIVED, True),
    ("GPU start to GPU end", "gpu_start_ns", "gpu_end_ns", RECORDED, False),
    ("packet to observed completion", "packet_ns", "complete_ns", DERIVED, False),
)


def summarize_latency(launches: pl.LazyFrame, events: pl.LazyFrame) -> pl.DataFrame:
    """Return one row per stage, kind of packet and evidence, in the order of the path; those of graphs apart.

    A negative time is shown as it is: a barrier's doorbell is stored before its log line is
    written. `evidence` is that of the weaker of the join and the doorbell; `error_ns` is how far the time of the
    packet that is known worst may lie from the truth, to either side: null = unknown.

    Args:
        launches, events: the tables.
    """
    moments = sorted({column for _, start, end, _, _ in _STAGES for column in (start, end)})
    doorbell = pl.col("doorbell_evidence").cast(pl.String).fill_null(INFERRED)
    told = name_kinds(launches, events)
    rows = collect(told.select("kind", doorbell.alias("doorbell"), *moments, *list_tellers(moments)))
    rows = add_errors(rows, events, moments)
    stages = [_summarize_stage(rows, order) for order in range(len(_STAGES))]
    return pl.concat(stages).drop("total_ns")


def _summarize_stage(rows: pl.DataFrame, order: int) -> pl.DataFrame:
    stage, start, end, join, of_doorbell = _STAGES[order]
    # A store that a graph launch shares is derived: it was seen, but its value is that of a later packet.
    weaker = pl.lit(of_doorbell) & (pl.col("doorbell") != RECORDED)
    evidence = pl.when(weaker).then("doorbell").otherwise(pl.lit(join))
    times = rows.lazy().select(
        pl.col("kind").cast(pl.String), evidence.alias("evidence"), ns=pl.col(end) - pl.col(start),
        error=gap_error(start, end),
    )  # fmt: skip
    return collect(
        times.drop_nulls("ns")
        .group_by("kind", "evidence")
        .agg(
            pl.len().cast(pl.Int64).alias("packets"),
            pl.col("ns").min().alias("min_ns"),
            *describe_ns("ns"),
            widest(pl.col("error")).alias("error_ns"),
        )
        .select(pl.lit(stage).alias("stage"), "kind", "evidence", pl.exclude("kind", "evidence"))
        .sort("kind", "evidence")
    )
