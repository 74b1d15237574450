"""What do two captures have in common, and what has only one of them?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl

from tracecorr.analyze.compare.latency import MIN_VALUES, bound_difference, is_significant
from tracecorr.analyze.compare.quantiles import Ints, Sample
from tracecorr.analyze.frames import Tables, collect
from tracecorr.analyze.hip_calls import summarize_hip_calls
from tracecorr.analyze.ioctls import summarize_ioctls
from tracecorr.analyze.kernels import summarize_kernels
from tracecorr.analyze.launches import count_packets
from tracecorr.analyze.queues import count_doubled
from tracecorr.analyze.streams import count_streams_at_once, names_streams
from tracecorr.model.kernel_names import label_kernels

# Kernels whose times are compared, the most dispatched, or those that took longest, first.
MAX_KERNELS = 50


def join_sides(first: pl.DataFrame, second: pl.DataFrame, key: str, columns: list[str]) -> pl.DataFrame:
    """Return one row per value of `key` in either frame, with `a_` and `b_` columns and `only` (A, B or both)."""
    sides = [
        frame.select(key, *columns).rename({c: f"{side}_{c}" for c in columns})
        for side, frame in (("a", first), ("b", second))
    ]
    both = sides[0].join(sides[1], on=key, how="full", coalesce=True, nulls_equal=True)
    a, b = pl.col(f"a_{columns[0]}"), pl.col(f"b_{columns[0]}")
    only = pl.when(b.is_null()).then(pl.lit("A")).when(a.is_null()).then(pl.lit("B")).otherwise(pl.lit("both"))
    paired = [f"{side}_{c}" for c in columns for side in ("a", "b")]
    total = a.fill_null(0) + b.fill_null(0)
    return both.select(key, only.alias("only"), *paired).sort([total, key], descending=[True, False])


def tell_recorded(joined: pl.DataFrame, sources: Sequence[bool]) -> list[bool]:
    """Return whether A and B recorded what rows of `join_sides` tell: by its source, or by one of the rows.

    Args:
        joined: rows of `join_sides`.
        sources: whether A and B have the source that tells of them.
    """
    rows = [joined.filter(pl.col("only").str.contains(f"^(?:{side}|both)")).height for side in ("A", "B")]
    return [source or rows[side] > 0 for side, source in enumerate(sources)]


def name_unrecorded(joined: pl.DataFrame, sources: Sequence[bool]) -> pl.DataFrame:
    """Return rows of `join_sides` whose `only` names the side that did not record such things: it may have had them.

    Args:
        joined: rows of `join_sides`.
        sources: as `tell_recorded` takes them.
    """
    first, second = tell_recorded(joined, sources)
    only = pl.col("only")
    for side, other, known in (("A", "B", second), ("B", "A", first)):
        if not known:
            only = pl.when(pl.col("only") == side).then(pl.lit(f"{side} ({other}: not recorded)")).otherwise(only)
    return joined.with_columns(only=only)


def name_kernels(first: Tables, second: Tables) -> tuple[Tables, Tables]:
    """Return both sides with short names by which the kernels of both are told apart, and those of one name are one."""
    both = pl.concat([tables("kernels").select("name") for tables in (first, second)])
    names = collect(both.drop_nulls().unique(maintain_order=True))["name"]
    labels = pl.LazyFrame({"name": names, "label": pl.Series(label_kernels(names.to_list()), dtype=pl.String)})

    def rename(tables: Tables) -> Tables:
        kernels = tables("kernels").join(labels, on="name", how="left", maintain_order="left")
        kernels = kernels.with_columns(display=pl.coalesce("label", "display")).drop("label")
        return lambda table: kernels if table == "kernels" else tables(table)

    return rename(first), rename(second)


def compare_kernels(first: Tables, second: Tables, steady: tuple[pl.DataFrame, pl.DataFrame], confidence: float,
                    rounds: int) -> pl.DataFrame:  # fmt: skip
    """Return one row per kernel name of either side: dispatches, and the median time from call to packet.

    Returns: name, only, a_dispatches, b_dispatches, a_queues, b_queues, a_streams, b_streams, a_p50_ns, b_p50_ns,
        difference_ns, low_ns, high_ns (interval of the difference), significant (null with too few launches).
    """
    found = [
        summarize_kernels(tables("launches"), tables("kernels"))
        .group_by("name", maintain_order=True)
        .agg(pl.col("dispatches").sum(), pl.col("queues").max(), pl.col("streams").max())
        for tables in (first, second)
    ]
    joined = join_sides(found[0], found[1], "name", ["dispatches", "queues", "streams"])
    shared = joined.filter(pl.col("only") == "both")["name"].head(MAX_KERNELS)
    wide = 1 - (1 - confidence) / max(1, shared.len())
    times = [_times_by_kernel(side, shared) for side in steady]
    none = np.empty(0, dtype=np.int64)
    rows = [compare_medians(name, times[0].get(name, none), times[1].get(name, none), wide, rounds) for name in shared]
    return joined.join(pl.DataFrame(rows, schema=MEDIANS), on="name", how="left", maintain_order="left")


# What `compare_medians` tells of a kernel.
MEDIANS = {
    "name": pl.String, "a_p50_ns": pl.Int64, "b_p50_ns": pl.Int64, "difference_ns": pl.Int64, "low_ns": pl.Int64,
    "high_ns": pl.Int64, "significant": pl.Boolean,
}  # fmt: skip


def _times_by_kernel(steady: pl.DataFrame, names: pl.Series) -> dict[str, Ints]:
    """Return the times from call to packet of the dispatches of each kernel, in their order."""
    wanted = (pl.col("kind") == "dispatch") & pl.col("kernel_name").is_in(names.implode())
    rows = steady.filter(wanted).select("kernel_name", ns=pl.col("packet_ns") - pl.col("call_ns")).drop_nulls("ns")
    return {str(key[0]): part["ns"].to_numpy() for key, part in rows.partition_by("kernel_name", as_dict=True).items()}


def compare_medians(name: str, a_ns: Ints, b_ns: Ints, confidence: float, rounds: int) -> dict[str, Any]:
    """Return a row of `MEDIANS`: both medians, their difference B - A, its interval; null with too few values.

    Args:
        name: the kernel.
        a_ns, b_ns: its times on both sides, in the order in which they occurred.
        confidence: chance that the interval holds the true difference.
        rounds: bootstrap rounds.
    """
    row: dict[str, Any] = dict.fromkeys(MEDIANS)
    row["name"] = name
    if min(len(a_ns), len(b_ns)) < MIN_VALUES:
        return row
    a, b = Sample.of(a_ns), Sample.of(b_ns)
    low, high = bound_difference(a, b, confidence, rounds)[0]
    first, second = a.quantile(0.5), b.quantile(0.5)
    row |= {"a_p50_ns": first, "b_p50_ns": second, "difference_ns": second - first}
    return row | {"low_ns": low, "high_ns": high, "significant": is_significant(second - first, low, high)}


def compare_calls(first: Tables, second: Tables) -> pl.DataFrame:
    """Return one row per HIP function of either side: calls, total and median time."""
    sides = [summarize_hip_calls(tables("events")) for tables in (first, second)]
    return join_sides(sides[0], sides[1], "name", ["calls", "total_ns", "p50_ns", "p99_ns"])


def compare_ioctls(first: Tables, second: Tables) -> pl.DataFrame:
    """Return one row per ioctl of either side: calls, errors, total time."""
    sides = [summarize_ioctls(tables("events")) for tables in (first, second)]
    return join_sides(sides[0], sides[1], "name", ["calls", "errors", "total_ns"])


def compare_queues(first: Tables, second: Tables) -> pl.DataFrame:
    """Return one row per number that describes the queues of a side, with `a`, `b` and their difference."""
    sides = [_describe_queues(tables) for tables in (first, second)]
    names = list(dict.fromkeys([*sides[0], *sides[1]]))
    # An unknown number is null: so are all types of a side whose queues are not known.
    rows = [(name, *(side.get(name, None if side["queues"] is None else 0) for side in sides)) for name in names]
    frame = pl.DataFrame(rows, schema={"what": pl.String, "a": pl.Int64, "b": pl.Int64}, orient="row")
    return frame.with_columns(difference=pl.col("b") - pl.col("a"))


def _describe_queues(tables: Tables) -> dict[str, int | None]:
    queues = tables("queues").with_columns(pl.col("type").cast(pl.String)).collect()
    edges = tables("stream_queues").select("stream", "queue").unique().collect()
    per_queue = edges.group_by("queue").len()["len"]
    at_once = count_streams_at_once(tables("streams"), tables("stream_queues"))["at_once"]
    per_stream = edges.group_by("stream").len()["len"]
    files = tables("files").select(pl.col("source").cast(pl.String)).collect()["source"]
    logged, made = "amd_log" in files, queues["create_ioctl_event"].count()
    shown = count_packets(tables("launches"))
    named = shown and names_streams(tables("launches"))
    recorded = logged or queues.height > 0
    sure = recorded and not count_doubled(queues)
    numbers: dict[str, int | None] = {
        "queues": queues.height if sure else None,
        "queues made by HIP (Created lines)": queues["created_line_event"].count() if logged else None,
        "queues with dispatches": queues.filter(pl.col("dispatches") > 0).height
        if shown or (logged and queues.is_empty())
        else None,
        "CREATE_QUEUE ioctls": made if made or _shows_ioctls(tables) else None,
        "processes with queues": queues["process"].drop_nulls().n_unique() if recorded else None,
        "known GPUs with queues": queues["gpu"].drop_nulls().n_unique() if recorded else None,
        "streams": int(tables("streams").select(pl.len()).collect().item()) if logged else None,
        "streams that submitted": per_stream.len() if named else None,
        "queues shared by streams": int((at_once > 1).sum()) if named else None,
        "most streams on one queue": _largest(per_queue) if named else None,
        "most queues of one stream": _largest(per_stream) if named else None,
    }
    kinds = queues.group_by(pl.col("type").fill_null("type not known")).len().sort("type")
    return numbers | {f"queues: {kind}": int(count) if sure else None for kind, count in kinds.iter_rows()}


def _shows_ioctls(tables: Tables) -> bool:
    return not tables("events").filter(pl.col("layer") == "ioctl").select("event").head(1).collect().is_empty()


def _largest(counts: pl.Series) -> int:
    return max(counts.to_list(), default=0)


def list_topology(tables: Tables) -> pl.DataFrame:
    """Return one row per stream and queue that it submitted to: priority, spans, in the order of first use."""
    streams = tables("streams").select("stream", "priority")
    queues = tables("queues").select("queue", "hwq", "priority_log")
    edges = tables("stream_queues").select("stream", "queue", "from_ns")
    joined = edges.join(streams, on="stream", how="left").join(queues, on="queue", how="left")
    return collect(joined.sort("from_ns", "stream").select("stream", "priority", "queue", "hwq", "priority_log"))
