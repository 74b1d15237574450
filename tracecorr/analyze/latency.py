"""Where does the time between a HIP call and the GPU go?"""

from __future__ import annotations

import polars as pl

from tracecorr.analyze.frames import collect, describe_ns
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


def summarize_latency(launches: pl.LazyFrame) -> pl.DataFrame:
    """Return one row per stage, kind of packet and evidence, in the order of the path.

    A negative time is shown as it is: a barrier's doorbell is stored before its log line is
    written. `evidence` is that of the weaker of the join and the doorbell.
    """
    kind = pl.col("kind").cast(pl.String)
    inferred = pl.col("doorbell_evidence").cast(pl.String).ne_missing(RECORDED)
    stages = [
        launches.select(
            pl.lit(order, pl.Int64).alias("order"),
            pl.lit(stage).alias("stage"),
            kind,
            pl.when(inferred & of_doorbell).then(pl.lit(INFERRED)).otherwise(pl.lit(join)).alias("evidence"),
            (pl.col(end) - pl.col(start)).alias("ns"),
        ).drop_nulls("ns")
        for order, (stage, start, end, join, of_doorbell) in enumerate(_STAGES)
    ]
    return collect(
        pl.concat(stages)
        .group_by("order", "stage", "kind", "evidence")
        .agg(pl.len().cast(pl.Int64).alias("packets"), pl.col("ns").min().alias("min_ns"), *describe_ns("ns"))
        .sort("order", "kind", "evidence")
        .drop("order", "total_ns")
    )
