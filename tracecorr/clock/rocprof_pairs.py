"""What a log says of the clock of a profile of the same run: calls lie in calls, kernels behind their packets."""

from __future__ import annotations

import polars as pl

from tracecorr.clock.causal_pairs import LOG_STEP_NS, bound_spans
from tracecorr.clock.hull import Bounds, join_bounds
from tracecorr.model.kernel_names import demangle_name, shorten_name

_EXACT = (0, 0)


def bound_profile(records: pl.DataFrame, args: pl.DataFrame) -> tuple[Bounds, str]:
    """Return what log and profile together say of rocprof's clock, and in words what was compared.

    rocprofv3 wraps each HIP function: the lines of a call lie between the times that it took. A kernel starts after
    the thread's line before that of its packet, which is printed when the packet is in the ring already. Calls and
    kernels are paired by their order, where both sides tell the same.

    Args:
        records: part events with `source`; stamps of the log on CLOCK_MONOTONIC.
        args: part args: `tid`, `queue_id`, `dispatch_id`, `correlation_id` of rocprof's rows.
    """
    profile = records.filter(pl.col("source") == "rocprof")
    place, number = ["file", "offset"], pl.col("u64").cast(pl.Int64, strict=False)
    for key in ("tid", "queue_id", "dispatch_id", "correlation_id"):
        column = args.filter(pl.col("key") == key).select(*place, number.alias(f"{key}_arg"))
        profile = profile.join(column, on=place, how="left", maintain_order="left")
    log = records.filter(
        (pl.col("source") == "amd_log") & (pl.col("clock") == "mono") & pl.col("stamp_ns").is_not_null()
    )
    profile = _name_process(profile, log)
    calls = _pair_calls(profile, log)
    kernels = _pair_packets(profile, log)
    told = f"{calls.height} HIP calls and {kernels.height} kernels of the log are also in the profile"
    if log.is_empty():
        told = "there is no log to compare it with"
    return join_bounds(bound_spans(calls, _EXACT), bound_spans(kernels, _EXACT)), told


def pair_lanes(ours: pl.DataFrame, theirs: pl.DataFrame) -> pl.DataFrame:
    """Return the rows of two accounts of one run that are the same thing, by their order.

    A lane (a thread, a queue) is paired when the other account has one with the same names in the same order: the one
    with the same number, else the only one of its process.

    Args:
        ours, theirs: columns row, process, lane (null = not told), name, place (order within the lane).

    Returns: row, row_other.
    """
    left, right = _gather(ours), _gather(theirs)
    numbered = left.join(right, on=["process", "lane", "names"], suffix="_other")
    done = pl.col("lane_key").is_in(numbered["lane_key"].implode())
    rest = left.filter(~done), right.filter(~pl.col("lane_key").is_in(numbered["lane_key_other"].implode()))
    alone = pl.len().over("process", "names") == 1
    unique = rest[0].filter(alone).join(rest[1].filter(alone), on=["process", "names"], suffix="_other")
    both = pl.concat([part.select("rows", "rows_other") for part in (numbered, unique)])
    return both.explode("rows", "rows_other").rename({"rows": "row", "rows_other": "row_other"}).drop_nulls()


def _gather(rows: pl.DataFrame) -> pl.DataFrame:
    """Return one row per lane: process, lane, all its names in their order, its rows."""
    named = rows.with_columns(
        pl.col("lane").cast(pl.Int64), pl.col("row").cast(pl.Int64), pl.col("name").cast(pl.String)
    )
    lanes = (
        named.sort("place", "row")
        .group_by("process", "lane", maintain_order=True)
        .agg(names=pl.col("name").str.join("\n"), rows=pl.col("row"))
    )
    return lanes.with_row_index("lane_key")


def compare_names(name: pl.Series, short: bool) -> pl.Series:
    """Return kernel names as both accounts print them: demangled, and short where one of them truncates.

    Args:
        name: as printed.
        short: whether the profile holds truncated names.
    """
    unique = [str(n) for n in name.drop_nulls().unique()]
    told = {n: shorten_name(demangle_name(n)) if short else demangle_name(n) for n in unique}
    return name.cast(pl.String).replace_strict(told, default=None, return_dtype=pl.String)


def are_truncated(names: pl.Series) -> bool:
    """Tell whether rocprofv3 was asked to truncate kernel names: none of them has arguments."""
    return not names.cast(pl.String).str.contains("(", literal=True).any()


def _name_process(profile: pl.DataFrame, log: pl.DataFrame) -> pl.DataFrame:
    """Give rows without a process that of the log, where it is the only one."""
    pids = log["pid"].drop_nulls().unique()
    return profile.with_columns(pl.col("pid").fill_null(pids.item())) if pids.len() == 1 else profile


def _pair_calls(profile: pl.DataFrame, log: pl.DataFrame) -> pl.DataFrame:
    """Return the calls that both tell, as spans for `bound_spans`; only rocprofv3 (correlation ids) wraps them."""
    hip = pl.col("layer").cast(pl.String) == "hip"
    ours = profile.filter(hip & pl.col("correlation_id_arg").is_not_null()).with_row_index("row")
    theirs = log.filter(hip & pl.col("end_stamp_ns").is_not_null()).with_row_index("row")
    both = set(ours["name"].cast(pl.String)) & set(theirs["name"].cast(pl.String))
    shared = pl.col("name").cast(pl.String).is_in(list(both))
    # The tid of a log is an address: no number of a lane fits, only its calls.
    pairs = pair_lanes(
        ours.filter(shared).select("row", "name", process="pid", lane="tid_arg", place="correlation_id_arg"),
        theirs.filter(shared).select(
            "row", "name", process="pid", lane=-pl.col("tid").rank("dense").cast(pl.Int64), place="offset"
        ),
    )
    inner = ours.select("row", outer_from="stamp_ns", outer_to="end_stamp_ns").join(pairs, on="row")
    spans = inner.join(theirs.select(row_other="row", line_ns="stamp_ns", end_ns="end_stamp_ns"), on="row_other")
    # The log's call lies in rocprof's: rocprof's end is not before the line of the exit, its start not after the enter.
    return pl.concat([
        spans.select(stamp_ns="outer_to", end_stamp_ns="outer_to", from_ns="end_ns", to_ns=pl.lit(None, pl.Int64)),
        spans.select(stamp_ns="outer_from", end_stamp_ns="outer_from", from_ns=pl.lit(None, pl.Int64),
                     to_ns=pl.col("line_ns") + LOG_STEP_NS),
    ])  # fmt: skip


def _pair_packets(profile: pl.DataFrame, log: pl.DataFrame) -> pl.DataFrame:
    """Return the kernels whose packet line is known, as spans for `bound_spans`: they start after it."""
    timed = profile.filter((pl.col("layer").cast(pl.String) == "gpu") & pl.col("kernel").is_not_null())
    before = pl.col("stamp_ns").shift(1).over("file", "tid").alias("before_ns")
    lines = log.sort("file", "offset").with_columns(before)
    lines = lines.filter(pl.col("kernel").is_not_null() & (pl.col("name").cast(pl.String) == "dispatch"))
    timed, lines = timed.with_row_index("row"), lines.with_row_index("row")
    short = are_truncated(timed["kernel"])
    pairs = pair_lanes(
        timed.select("row", name=compare_names(timed["kernel"], short), process="pid", lane="queue_id_arg",
                     place=pl.coalesce("dispatch_id_arg", "stamp_ns")),
        lines.select("row", name=compare_names(lines["kernel"], short), process="pid",
                     lane=-pl.col("ring").rank("dense").cast(pl.Int64), place="offset"),
    )  # fmt: skip
    both = timed.select("row", "stamp_ns").join(pairs, on="row")
    both = both.join(lines.select(row_other="row", from_ns="before_ns"), on="row_other")
    return both.select("stamp_ns", "from_ns", end_stamp_ns="stamp_ns", to_ns=pl.lit(None, pl.Int64))
