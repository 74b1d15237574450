"""Captured calls: while a stream is captured into a graph, most functions print no exit line. No line of theirs lacks.

Whether one does depends on the function and its release: those that return from the capture at once print none (of
HIP 7.2.4 hipModuleLaunchKernel, hipMemcpyHtoDAsync and hipMallocAsync, but not hipMemcpyAsync).
"""

from __future__ import annotations

import polars as pl

from tracecorr.model.kinds import Flag

_NODE = "graph_capture_node"
BEGIN, END = "hipStreamBeginCapture", "hipStreamEndCapture"
_THREAD = ["file", "thread"]


def drop_captured(alone: pl.DataFrame, events: pl.DataFrame, calls: pl.DataFrame) -> pl.DataFrame:
    """Return the calls of `alone` whose other line is not one that a captured call leaves out.

    A captured call tells its node in the line behind its enter. Where a log tells the nodes of no such call, as HIP
    7.2.4 does below level 5, enters between the two calls that begin and end a thread's capture are captured calls.

    Args:
        alone: calls that lack a line: row, file, offset, thread, is_exit.
        events: rows with file, offset, thread, name.
        calls: HIP calls: file, offset, thread, name, flags.
    """
    if alone.is_empty() or not calls.select((pl.col("name") == BEGIN).any()).item():
        return alone
    enters = alone.filter(~pl.col("is_exit"))
    nodes = events.filter((pl.col("name") == _NODE) & pl.col("thread").is_not_null()).select(*_THREAD, "offset")
    told = _find_before(nodes, calls, ["offset"]).select("file", offset="offset_right")
    told = enters.join(told, on=["file", "offset"], how="semi")
    bounds = calls.filter(pl.col("name").is_in([BEGIN, END]))
    silent = enters.join(told, on="file", how="anti")
    inside = _find_before(silent, bounds, ["name"]).filter(pl.col("name_right") == BEGIN)
    return alone.join(pl.concat([told.select("row"), inside.select("row")]), on="row", how="anti")


def list_captured_names(calls: pl.DataFrame) -> pl.DataFrame:
    """Return file, name of the functions whose enters a log without threads shows while any stream is captured.

    Args:
        calls: HIP calls of such logs: file, offset, name, flags.
    """
    if not calls.select((pl.col("name") == BEGIN).any()).item():
        return calls.select("file", "name").clear()
    enters = calls.filter(pl.col("flags") & int(Flag.EXIT_ONLY) == 0).sort("file", "offset")
    name = pl.col("name")
    step = pl.when(name == BEGIN).then(1).when(name == END).then(-1).otherwise(0)
    captured = enters.with_columns(open=step.cum_sum().over("file")).filter((pl.col("open") > 0) & (name != BEGIN))
    return captured.select("file", "name").unique()


def _find_before(rows: pl.DataFrame, calls: pl.DataFrame, names: list[str]) -> pl.DataFrame:
    """Return `rows` with columns of the last enter before each, of its thread, as `NAME_right`."""
    enters = calls.filter(pl.col("flags") & int(Flag.EXIT_ONLY) == 0)
    enters = enters.select(*_THREAD, "offset", *(pl.col(name).alias(f"{name}_right") for name in names))
    return rows.sort("offset").join_asof(
        enters.sort("offset"), on="offset", by=_THREAD, check_sortedness=False, allow_exact_matches=False
    )
