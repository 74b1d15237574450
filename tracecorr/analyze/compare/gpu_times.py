"""How long did each kernel run on the GPU on either side, wherever its times are from?"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl

from tracecorr.analyze.compare.latency import MIN_VALUES, tell_bounds
from tracecorr.analyze.compare.quantiles import Ints
from tracecorr.analyze.compare.sides import MAX_KERNELS, MEDIANS, compare_medians, join_sides
from tracecorr.analyze.frames import Tables, collect, percentile, total
from tracecorr.analyze.gpu_work import KERNELS, list_work
from tracecorr.analyze.kernels import UNKNOWN_KERNEL
from tracecorr.analyze.values import render_ns

# How many of the differences are told.
_MAX_TOLD = 3


def compare_gpu_times(first: Tables, second: Tables, confidence: float, rounds: int) -> pl.DataFrame:
    """Return one row per kernel of which a GPU time is known on either side, the longest total first.

    Args:
        first, second: give a table of A and of B by its name; kernels of one name have one (`sides.name_kernels`).
        confidence: chance that all intervals of the table together hold their true difference.
        rounds: bootstrap rounds.

    Returns: name, only, a_timed, b_timed (kernels whose times are known), a_total_ns, b_total_ns, a_p50_ns, b_p50_ns,
        difference_ns (of the medians, B - A), low_ns, high_ns (its interval), percent, significant (null with too few
        kernels, and of those beyond the `MAX_KERNELS` that took longest).
    """
    sides = [_list_times(tables) for tables in (first, second)]
    summed = [side.group_by("name").agg(timed=pl.len().cast(pl.Int64), total_ns=total(pl.col("ns")),
                                        p50_ns=percentile(pl.col("ns"), 50)) for side in sides]  # fmt: skip
    took = pl.sum_horizontal(pl.col("a_total_ns", "b_total_ns").fill_null(0))
    joined = join_sides(summed[0], summed[1], "name", ["timed", "total_ns", "p50_ns"])
    joined = joined.sort(took, "name", descending=[True, False])
    shared = joined.filter(pl.col("only") == "both")["name"].head(MAX_KERNELS)
    wide = 1 - (1 - confidence) / max(1, shared.len())
    a, b = (_by_name(side) for side in sides)
    none = np.empty(0, dtype=np.int64)
    rows = [compare_medians(name, a.get(name, none), b.get(name, none), wide, rounds) for name in shared]
    found = pl.DataFrame(rows, schema=MEDIANS).drop("a_p50_ns", "b_p50_ns")
    percent = pl.when(pl.col("a_p50_ns") > 0).then(100 * pl.col("difference_ns") / pl.col("a_p50_ns")).round(1)
    both = joined.join(found, on="name", how="left", maintain_order="left").with_columns(percent=percent)
    return both.select(pl.exclude("significant"), "significant")


def _list_times(tables: Tables) -> pl.DataFrame:
    """Return name and ns of each kernel with GPU times, in the order of their starts."""
    timed = list_work(tables).timed.filter(pl.col("work") == KERNELS).sort("start_ns", maintain_order=True)
    names = collect(tables("kernels").select("kernel", name=pl.coalesce("display", "name")))
    named = timed.join(names, on="kernel", how="left", maintain_order="left")
    return named.select(pl.col("name").fill_null(UNKNOWN_KERNEL), ns=pl.col("end_ns") - pl.col("start_ns"))


def _by_name(times: pl.DataFrame) -> dict[str, Ints]:
    return {str(key[0]): part["ns"].to_numpy() for key, part in times.partition_by("name", as_dict=True).items()}


def tell_gpu_times(found: pl.DataFrame) -> Iterator[str]:
    """Yield in words which kernels differ in their GPU times; nothing where none is known on either side.

    Args:
        found: what `compare_gpu_times` gave.
    """
    if found.is_empty():
        return
    sums = found.select(pl.col("a_timed", "b_timed", "a_total_ns", "b_total_ns").sum()).row(0, named=True)
    told = (
        f"{sums[f'{side}_timed']:,} in {side.upper()} ({render_ns(sums[f'{side}_total_ns'])})"
        if sums[f"{side}_timed"]
        else f"none in {side.upper()}"
        for side in ("a", "b")
    )
    yield f"kernels with GPU times, and their sum: {', '.join(told)}"
    differ = found.filter("significant")
    for row in differ.head(_MAX_TOLD).iter_rows(named=True):
        percent = f", {row['percent']:+.1f} %" if row["percent"] is not None else ""
        yield (
            f"SIGNIFICANT GPU time of {row['name']}, p50: {render_ns(row['a_p50_ns'])} in A, "
            f"{render_ns(row['b_p50_ns'])} in B{percent} ({tell_bounds(row['low_ns'], row['high_ns'])})"
        )
    if differ.height > _MAX_TOLD:
        yield f"... and {differ.height - _MAX_TOLD} more kernels whose GPU times differ: section GPU times of kernels"
    compared = found["significant"].count()
    if not compared:
        yield f"no GPU times are compared: no kernel has {MIN_VALUES} on both sides"
        return
    yield f"GPU times of {compared - differ.height} of {compared} kernels that are compared do not differ significantly"
