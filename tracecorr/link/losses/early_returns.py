"""Early returns: calls on a stream whose capture broke print no exit line, those of some functions. No line lacks.

Of HIP 6.4.3 and 7.2.4: hipModuleLaunchKernel, hipMallocAsync, hipMemcpy2DAsync, copies and fills of the driver's
interface (hipMemcpyHtoDAsync, hipMemsetD8Async), and a hipDeviceSynchronize that breaks a capture. Others, and refused
arguments with hardly an exception, are told by an exit. The stream stays broken behind its hipStreamEndCapture.
"""

from __future__ import annotations

import polars as pl

from tracecorr.clock.intervals import pair_spans
from tracecorr.link.losses.captured_calls import BEGIN, END
from tracecorr.model.kinds import KERNEL_COMMAND, Flag

_THREAD = ["file", "thread"]
_LOG = ["file", "process"]
# Results of a call that breaks a capture, or comes behind one that did (HIP API, hip_runtime_api.h).
_BREAKS = "hipErrorStreamCapture"


def drop_early_returns(halves: pl.DataFrame, events: pl.DataFrame, gaps: pl.DataFrame) -> pl.DataFrame:
    """Return `halves` but for the calls that do not lack their exit because they returned early, and did nothing.

    Such a call is an enter that nothing follows before the next call of its thread,
    - in a capture of which a call tells that it broke, or
    - behind one, where the log tells of no lost line otherwise: its function submits packets as a rule, or enqueues
      kernels whose packets other threads write, and the indexes of the queues leave none out.

    Args:
        halves: as `lossy_files.list_half_calls` returns them.
        events: rows as the reader gave them: file, offset, end_offset, process, thread, layer, name, source, flags,
            result, ring, packet_index.
        gaps: as `packet_gaps.list_packet_gaps` returns them.
    """
    enters = halves.filter(~pl.col("is_exit"))
    if enters.is_empty() or not events["result"].drop_nulls().unique().cat.starts_with(_BREAKS).any():
        return halves
    calls = _list_calls(events, enters)
    broken = _list_broken(calls)
    if broken.is_empty():
        return halves
    empty = _list_empty(enters, events)
    left = halves.join(_list_inside(empty, broken), on="row", how="anti", maintain_order="left")
    behind = empty.join(left, on="row", how="semi").join(broken.group_by(_LOG).agg(pl.col("high").min()), on=_LOG)
    idle = _list_without_packet(behind.filter(pl.col("offset") > pl.col("high")), events, calls)
    others = left.join(idle, on="row", how="anti", maintain_order="left")
    lossy = pl.concat([others.select("file"), gaps.select("file")]).unique()
    return pl.concat([others, left.join(idle, on="row", how="semi").join(lossy, on="file", how="semi")]).sort("row")


def _list_calls(events: pl.DataFrame, enters: pl.DataFrame) -> pl.DataFrame:
    """Return the HIP calls of the logs of some enters."""
    mine = (pl.col("layer") == "hip") & (pl.col("source") == "amd_log")
    begun = pl.col("flags").fill_null(0) & int(Flag.EXIT_ONLY) == 0
    columns = (*_THREAD, "process", "offset", "end_offset", "name", "result")
    rows = events.select(*columns, "layer", "source", "flags")
    return rows.filter(mine & begun & pl.col("file").is_in(enters["file"].unique().implode())).select(columns)


def _list_broken(calls: pl.DataFrame) -> pl.DataFrame:
    """Return file, process, low, high (bytes) of the captures that broke; the last may go on to the end of its log.

    Any thread may break the capture of another one.
    """
    bounds = calls.filter(pl.col("name").is_in([BEGIN, END])).sort(*_THREAD, "offset")
    ends = calls.group_by("file").agg(last=pl.col("offset").max())
    captures = (
        bounds.with_columns(pl.col("offset").shift(-1).over(_THREAD).alias("next"))
        .filter((pl.col("name") == BEGIN) & (pl.col("result") == "hipSuccess"))
        .join(ends, on="file")
        .select(*_LOG, low="offset", high=pl.coalesce("next", "last"))
    )
    breaks = calls.filter(pl.col("result").cat.starts_with(_BREAKS))
    return captures[sorted({*pair_spans(captures, _as_spans(breaks), _LOG)[0].tolist()})]


def _list_empty(enters: pl.DataFrame, events: pl.DataFrame) -> pl.DataFrame:
    """Return the enters behind which the next row of their thread is a HIP call, with their process."""
    lines = events.select(*_THREAD, "offset", "process", "layer").with_row_index("row")
    lines = lines.join(enters.select(_THREAD).unique(), on=_THREAD, how="semi").sort(*_THREAD, "offset")
    followed = pl.col("layer").shift(-1).over(_THREAD) == "hip"
    return enters.join(lines.filter(followed).select("row", "process"), on="row")


def _list_inside(enters: pl.DataFrame, captures: pl.DataFrame) -> pl.DataFrame:
    """Return the row of the enters that lie in one of the captures of their process."""
    return enters[pair_spans(_as_spans(enters), captures, _LOG)[0]].select("row").unique()


def _list_without_packet(enters: pl.DataFrame, events: pl.DataFrame, calls: pl.DataFrame) -> pl.DataFrame:
    """Return the row of the enters whose function submits packets, where a queue shows packets before and behind."""
    rows = events.select("file", "process", "thread", "ring", "packet_index", "layer", "name", place="offset")
    packets = rows.filter((pl.col("layer") == "aql") & pl.col("packet_index").is_not_null())
    queues = packets.drop_nulls("ring").group_by(*_LOG, "ring").agg(
        # The packet of index 0 has none before it that could lack.
        low=pl.when(pl.col("packet_index").min() > 0).then(pl.col("place").min()).otherwise(0),
        high=pl.col("place").max(),
    )  # fmt: skip
    # Where Direct Dispatch is off, other threads write the packets of the kernels that a call enqueues.
    kernels = rows.filter((pl.col("layer") == "command") & (pl.col("name") == KERNEL_COMMAND))
    functions = pl.concat([_list_submitting(calls, packets), _list_submitting(calls, kernels)])
    return _list_inside(enters.join(functions, on=["file", "name"], how="semi"), queues)


def _list_submitting(calls: pl.DataFrame, packets: pl.DataFrame) -> pl.DataFrame:
    """Return file, name of the functions all of whose calls that show both lines and succeeded hold one of `packets`.

    Args:
        calls: as `_list_calls` returns them.
        packets: rows of packets, or of commands: file, thread, place (bytes).
    """
    done = calls.filter((pl.col("result") == "hipSuccess") & pl.col("end_offset").is_not_null())
    held = done.sort("offset").join_asof(
        packets.drop_nulls("thread").sort("place"), left_on="offset", right_on="place", by=_THREAD,
        strategy="forward", check_sortedness=False,
    )  # fmt: skip
    holds = (pl.col("place") < pl.col("end_offset")).fill_null(value=False)
    return held.group_by("file", "name").agg(holds=holds.all()).filter("holds").select("file", "name")


def _as_spans(rows: pl.DataFrame) -> pl.DataFrame:
    return rows.with_columns(low="offset", high="offset")
