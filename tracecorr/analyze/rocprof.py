"""What does rocprof's own output say, in the form in which rocprof sums it up?"""

from __future__ import annotations

import polars as pl

from tracecorr.analyze.frames import collect, total

_DOMAINS = {"gpu": "KERNEL_DISPATCH", "hip": "HIP_API", "hsa": "HSA_API", "marker": "MARKER_API", "memory": "MEMORY"}


def summarize_rocprof(events: pl.LazyFrame, kernels: pl.LazyFrame) -> pl.DataFrame:
    """Return one row per domain and name, as rocprof's statistics: the longest total of a domain first.

    Returns: domain, name, calls, total_ns, mean_ns, percent (of its domain), min_ns, max_ns, std_ns (of a sample).
    """
    names = kernels.select("kernel", kernel_name="name")
    layer = pl.col("layer").cast(pl.String)
    copy = (pl.col("layer") == "gpu") & pl.col("kernel").is_null()
    rows = events.filter(pl.col("source") == "rocprof").join(names, on="kernel", how="left")
    domain = pl.when(copy).then(pl.lit("MEMORY_COPY")).otherwise(layer.replace_strict(_DOMAINS, default="OTHER"))
    ns = pl.col("dur_ns")
    summed = rows.group_by(domain=domain, name=pl.coalesce("kernel_name", pl.col("name").cast(pl.String))).agg(
        calls=pl.len().cast(pl.Int64), total_ns=total(ns), mean_ns=ns.mean().round(0).cast(pl.Int64), min_ns=ns.min(),
        max_ns=ns.max(), std_ns=ns.std().fill_null(0).round(0).cast(pl.Int64),
    )  # fmt: skip
    whole = pl.col("total_ns").sum().over("domain")
    percent = pl.when(whole > 0).then(100 * pl.col("total_ns") / whole).round(2)
    shaped = summed.with_columns(percent=percent).sort(["domain", "total_ns", "name"], descending=[False, True, False])
    return collect(
        shaped.select("domain", "name", "calls", "total_ns", "mean_ns", "percent", "min_ns", "max_ns", "std_ns")
    )
