"""Where does the time between a HIP call and the GPU go?"""

from __future__ import annotations

import polars as pl

from tracecorr.analyze.frames import collect, describe_ns

# (stage, from, to, the evidence of the row is that of its doorbell)
_STAGES = (
    ("call to packet", "call_ns", "packet_ns", False),
    ("call to doorbell", "call_ns", "doorbell_ns", True),
    ("packet to doorbell", "packet_ns", "doorbell_ns", True),
    ("doorbell to return", "doorbell_ns", "return_ns", True),
    ("packet to return", "packet_ns", "return_ns", False),
    ("call to return", "call_ns", "return_ns", False),
    ("doorbell to GPU start", "doorbell_ns", "gpu_start_ns", True),
    ("GPU start to GPU end", "gpu_start_ns", "gpu_end_ns", False),
    ("packet to observed completion", "packet_ns", "complete_ns", False),
)


def summarize_latency(launches: pl.LazyFrame) -> pl.DataFrame:
    """Return one row per stage, kind of packet and evidence, in the order of the path.

    A negative time is shown as it is: a barrier's doorbell is stored before its log line is
    written. `evidence` is `recorded` where both ends were recorded, else that of the doorbell.
    """
    kind = pl.col("kind").cast(pl.String)
    doorbell = pl.col("doorbell_evidence").cast(pl.String).fill_null("inferred")
    stages = [
        launches.select(
            pl.lit(order, pl.Int64).alias("order"),
            pl.lit(stage).alias("stage"),
            kind,
            (doorbell if of_doorbell else pl.lit("recorded")).alias("evidence"),
            (pl.col(end) - pl.col(start)).alias("ns"),
        ).drop_nulls("ns")
        for order, (stage, start, end, of_doorbell) in enumerate(_STAGES)
    ]
    return collect(
        pl.concat(stages)
        .group_by("order", "stage", "kind", "evidence")
        .agg(pl.len().cast(pl.Int64).alias("packets"), pl.col("ns").min().alias("min_ns"), *describe_ns("ns"))
        .sort("order", "kind", "evidence")
        .drop("order", "total_ns")
    )
