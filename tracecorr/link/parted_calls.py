"""Calls whose enter lies in one piece of a recording, and whose exit in another one."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from tracecorr.model.columns import CAT
from tracecorr.model.kinds import Flag

_THREAD = ["clock", "tid"]
_KEY = [*_THREAD, "is_system", "call"]


def find_parted_calls(
    traces: Sequence[pl.DataFrame], repeated: pl.DataFrame, losses: Sequence[pl.DataFrame]
) -> pl.DataFrame:
    """Return the halves that are surely one call: between them no trace holds anything that ends or begins one.

    Pieces follow each other without a hole where they share records, and every CPU of both has records of the later one
    up to the end of the earlier one. Nothing between the halves may be told as lost.

    Args:
        traces: part events of each (`repeated_records.COLUMNS`).
        repeated: rows that another trace holds (`find_repeated_records`).
        losses: spans that each trace lost, on its own clock.

    Returns: trace, row (of the enter), exit_trace, exit_row, end_stamp_ns, result.
    """
    halves = pl.concat(_list_halves(trace, number, repeated) for number, trace in enumerate(traces))
    pairs = _pair(halves)
    for leave in (_without_holes, _without_others):
        pairs = pairs if pairs.is_empty() else leave(pairs, traces, repeated, losses)
    return pairs.select(
        "trace", "row", exit_trace="trace_exit", exit_row="row_exit", end_stamp_ns="stamp_ns_exit", result="result_exit"
    )


def _is_system() -> pl.Expr:
    return pl.col("layer").is_in(["syscall", "ioctl"])


def _call() -> pl.Expr:
    return pl.when(pl.col("layer") == "ioctl").then(pl.lit("ioctl", CAT)).otherwise(pl.col("name"))


def _list_halves(trace: pl.DataFrame, number: int, repeated: pl.DataFrame) -> pl.DataFrame:
    """Return the halves that only this trace holds."""
    dropped = repeated.filter(pl.col("trace") == number)["row"]
    # A function of which the piece shows no return has no flag.
    may_return = pl.col("depth").is_not_null() | (pl.col("layer") == "hsa") | (pl.col("name") == "roctx_range")
    is_half = pl.col("end_stamp_ns").is_null() & ((pl.col("flags") != 0) | may_return)
    known = pl.col("tid", "stamp_ns").is_not_null()
    halves = trace.with_row_index("row").filter(is_half, pl.col("clock") != "unknown", known)
    return halves.filter(~pl.col("row").is_in(dropped.implode())).select(
        "row", *_THREAD, "layer", "stamp_ns", "result",
        trace=pl.lit(number, pl.UInt32), is_system=_is_system(), call=_call(),
        is_exit=pl.col("flags") & Flag.EXIT_ONLY != 0,
    )  # fmt: skip


def _pair(halves: pl.DataFrame) -> pl.DataFrame:
    """Return enters and exits of different traces that are each other's next: columns of the exit end in `_exit`."""
    ordered = halves.sort("stamp_ns")
    enters, exits = ordered.filter(~pl.col("is_exit")), ordered.filter("is_exit")
    late = exits.rename({name: f"{name}_exit" for name in exits.columns if name not in _KEY})
    sides = {"left_on": "stamp_ns", "right_on": "stamp_ns_exit", "by": _KEY, "check_sortedness": False}
    pairs = enters.join_asof(late, strategy="forward", **sides).drop_nulls("row_exit")  # type: ignore[arg-type]
    pairs = pairs.filter(pl.col("trace") != pl.col("trace_exit"))
    # Of several open ones the innermost ends first.
    return pairs.unique(["trace_exit", "row_exit"], keep="last", maintain_order=True)


def _without_others(
    pairs: pl.DataFrame, traces: Sequence[pl.DataFrame], _repeated: pl.DataFrame, _losses: Sequence[pl.DataFrame]
) -> pl.DataFrame:
    """Return the pairs without those between which another record of a call of their thread lies.

    Within a system call, and so in a function of the kernel, there is no other one.
    """
    threads = pairs.select(_THREAD).unique()
    found = [
        trace.join(threads, on=_THREAD, how="semi").select(*_THREAD, "stamp_ns", "end_stamp_ns", is_system=_is_system(),
                                                           call=_call())
        for trace in traces
    ]  # fmt: skip
    rows = pl.concat(found).unpivot(["stamp_ns", "end_stamp_ns"], index=_KEY, value_name="at").drop_nulls("at")
    rows = rows.rename({"is_system": "other_system", "call": "other_call"}).sort("at")
    of_kernel = ~pl.col("layer").is_in(["hsa", "marker"])
    doubts = pl.col("other_system") & of_kernel | (
        (pl.col("is_system") == pl.col("other_system")) & (pl.col("call") == pl.col("other_call"))
    )
    inside = (pl.col("at") > pl.col("stamp_ns")) & (pl.col("at") < pl.col("stamp_ns_exit"))
    wanted = pairs.select(*_KEY, "trace", "row", "layer", "stamp_ns", "stamp_ns_exit")
    doubted = wanted.lazy().join(rows.lazy(), on=_THREAD).filter(inside & doubts).select("trace", "row").collect()
    return pairs.join(doubted, on=["trace", "row"], how="anti")


def _without_holes(
    pairs: pl.DataFrame, traces: Sequence[pl.DataFrame], repeated: pl.DataFrame, losses: Sequence[pl.DataFrame]
) -> pl.DataFrame:
    """Return the pairs of traces that follow each other without a hole, and between which nothing is told as lost."""
    run = dict(enumerate(_number_runs(traces, repeated)))
    one, other = (pl.col(side).replace_strict(run, return_dtype=pl.Int64) for side in ("trace", "trace_exit"))
    pairs = pairs.filter(one == other)
    lost = pl.concat(losses).select(since="from_ns", until="to_ns")
    begun = pl.col("since").is_null() | (pl.col("since") <= pl.col("stamp_ns_exit"))
    ended = pl.col("until").is_null() | (pl.col("until") >= pl.col("stamp_ns"))
    doubted = pairs.lazy().join(lost.lazy(), how="cross").filter(begun & ended).select("trace", "row").collect()
    return pairs.join(doubted, on=["trace", "row"], how="anti")


def _number_runs(traces: Sequence[pl.DataFrame], repeated: pl.DataFrame) -> list[int]:
    """Return for each trace the number of its run: of pieces that follow each other without a hole."""
    spans = [_span_cpus(trace) for trace in traces]
    run = list(range(len(traces)))
    for pair in repeated.select("trace", "holder").unique().iter_rows():
        earlier, later = sorted(pair, key=lambda number: min(first for first, _ in spans[number].values()))
        both = spans[earlier].keys() & spans[later].keys()
        if all(spans[earlier][cpu][1] >= spans[later][cpu][0] for cpu in both):
            run = [run[earlier] if mark == run[later] else mark for mark in run]
    return run


def _span_cpus(trace: pl.DataFrame) -> dict[int | None, tuple[int, int]]:
    """Return the first and last stamp of each CPU."""
    stamp = pl.col("stamp_ns")
    found = trace.drop_nulls("stamp_ns").group_by("cpu").agg(first=stamp.min(), last=stamp.max())
    return {cpu: (first, last) for cpu, first, last in found.iter_rows()}
