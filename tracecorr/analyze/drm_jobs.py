"""Which jobs did the kernel's GPU scheduler run, on which rings, and how long did they wait and run?"""

from __future__ import annotations

import polars as pl

from tracecorr.analyze.frames import as_text, collect, spread_ns


def summarize_drm_jobs(jobs: pl.LazyFrame, *, timed: bool = True) -> pl.DataFrame:
    """Return one row per ring, the one with the most jobs first.

    Args:
        jobs: the table `drm_jobs`.
        timed: whether the clock of the trace shows times; where it does not, no duration is known.

    Returns: dev, ring, ring_kind, jobs, queued, run, done (how many of them were seen at each stage), processes (that
        submitted; null where none of them is known), waited_p50_ns, waited_p95_ns, waited_max_ns (queued to run),
        ran_p50_ns, ran_p95_ns, ran_max_ns (run to done).
    """
    times = {"waited": pl.col("run_ns") - pl.col("queued_ns"), "ran": pl.col("done_ns") - pl.col("run_ns")}
    times = {name: pl.when(timed).then(took) for name, took in times.items()}
    return collect(
        jobs.with_columns(as_text("dev", "ring", "ring_kind"))
        .group_by("dev", "ring", "ring_kind")
        .agg(
            pl.len().cast(pl.Int64).alias("jobs"),
            *(pl.col(f"{stage}_ns").count().cast(pl.Int64).alias(stage) for stage in ("queued", "run", "done")),
            pl.when(pl.col("process").count() > 0)
            .then(pl.col("process").drop_nulls().n_unique().cast(pl.Int64))
            .alias("processes"),
            *(told for name, took in times.items() for told in spread_ns(took, name)),
        )
        .sort(["jobs", "dev", "ring"], descending=[True, False, False])
    )
