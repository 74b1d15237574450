"""Records that several kernel traces of one clock hold: pieces of one recording, or instances that saw the same hit."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import polars as pl

from tracecorr.link.repeated_traces import find_repeated_traces, round_stamp
from tracecorr.model.columns import CAT
from tracecorr.model.kinds import Flag

# What an enter, or a record that is alone, says itself: each that is the same hit tells the same.
_GIVEN = ["fd", "cmd", "arg", "size_bytes", "ring", "packet_index"]
_ENTER = ["clock", "tid", "cpu", "at", "call", *_GIVEN, "told"]
_EXIT = ["clock", "tid", "at", "call", "result"]
COLUMNS = (
    "clock", "tid", "cpu", "layer", "name", "stamp_ns", "end_stamp_ns", "result", "flags", "depth", "file", "offset",
    "length", "end_offset", "end_length",
    *_GIVEN,
)  # fmt: skip
# Rounding moves a stamp by less.
_SLACK_NS = 1000
_SHAPED = ("name", "layer", "depth", "flags", "length", "end_offset", "end_length")
_FOUND = pl.Schema({"trace": pl.UInt32, "row": pl.UInt32, "holder": pl.UInt32})


def find_repeated_records(
    traces: Sequence[pl.DataFrame], read_args: Callable[[int], pl.DataFrame] | None = None
) -> pl.DataFrame:
    """Return the rows whose records are in another row that is kept, too.

    Of one hit whole spans are kept before halves, and else the row of the first trace. What a thread did in a span
    that a trace holds half is kept of the trace that holds it whole. Without a thread, a time or a named clock no
    record is known to be the same.

    Args:
        traces: part events (`COLUMNS`) of each.
        read_args: returns the args (file, offset, key, u64, text) of a trace; None where the traces have several forms,
            which may name them otherwise.

    Returns: trace, row (their places), holder (the trace of the row that is kept).
    """
    rows = _list_overlapping(traces).with_columns(at=round_stamp(pl.col("stamp_ns")), told=pl.lit(0, pl.UInt64))
    enters = _attach_args(_list_shared(rows.filter(~pl.col("is_exit")), _ENTER), read_args)
    ends = pl.when("is_exit").then("stamp_ns").otherwise("end_stamp_ns")
    exits = rows.with_columns(at=round_stamp(ends)).drop_nulls("at")
    # Where no exit is alone, calls are told by their enters.
    exits = exits if exits["is_exit"].any() else exits.clear()
    doubled = [_list_doubled(enters, _ENTER), _list_doubled(exits, _EXIT).filter("is_exit")]
    lone = pl.concat(doubled).filter("is_half")
    if not lone.is_empty():
        doubled[0] = _list_doubled(_put_back(enters, lone), _ENTER)
    return pl.concat(found.select(_FOUND.names()) for found in doubled)


def find_repeated_unnamed(traces: Sequence[pl.DataFrame], repeated: pl.DataFrame) -> pl.DataFrame:
    """Return the rows of traces without threads or a named clock that are in another such trace, all of them.

    Args:
        traces: part events of each (`COLUMNS`).
        repeated: what `find_repeated_records` found of the others.

    Returns: trace, row, holder (not known).
    """
    unnamed = [trace.with_row_index("row").filter(~_is_known()) for trace in traces]
    counts = dict(repeated.group_by("trace").len().iter_rows())
    found = [
        unnamed[place].select(trace=pl.lit(place, pl.UInt32), row="row", holder=pl.lit(place, pl.UInt32))
        for place in find_repeated_traces(unnamed)
        if unnamed[place].height + counts.get(place, 0) == traces[place].height
    ]
    return pl.concat([_FOUND.to_frame(), *found])


def _is_known() -> pl.Expr:
    known = pl.col("tid").is_not_null() & pl.col("stamp_ns").is_not_null() & (pl.col("clock") != "unknown")
    return known.fill_null(value=False)


def _list_overlapping(traces: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """Return the rows in the time of at least two traces, of known threads and clocks."""
    last = pl.coalesce("end_stamp_ns", "stamp_ns")
    numbered = [trace.with_row_index("row").filter(_is_known()) for trace in traces]
    spans = [trace.select(pl.col("stamp_ns").min(), last=last.max()).row(0) for trace in numbered if len(trace)]
    if len(spans) < 2:
        return _shape(numbered[0].clear(), 0)
    low, high = sorted(span[0] for span in spans)[1], sorted(span[1] for span in spans)[-2]
    inside = (last >= low - _SLACK_NS) & (pl.col("stamp_ns") <= high + _SLACK_NS)
    return pl.concat(_shape(trace.filter(inside), number) for number, trace in enumerate(numbered))


def _shape(trace: pl.DataFrame, number: int) -> pl.DataFrame:
    layer, name, is_exit = pl.col("layer"), pl.col("name"), pl.col("flags") & Flag.EXIT_ONLY != 0
    is_half = pl.col("end_stamp_ns").is_null()
    # What may have an end, in another trace, keeps its args apart from those of its enter in no way.
    spans = (pl.col("flags") != 0) | pl.col("depth").is_not_null() | (layer == "hsa") | (name == "roctx_range")
    return trace.select(
        "row",
        *(column for column in COLUMNS if column not in _SHAPED),
        # The exit of an ioctl does not say what it asked for.
        call=pl.when(layer == "ioctl").then(pl.lit("ioctl", CAT)).otherwise(name),
        trace=pl.lit(number, pl.UInt32),
        is_exit=is_exit,
        is_half=is_half,
        is_alone=is_half & ~spans,
    )


def _list_shared(rows: pl.DataFrame, key: list[str]) -> pl.DataFrame:
    """Return the rows that share their key with others, and its `code`."""
    # Nothing else of the same microsecond gets the same hash.
    coded = rows.with_columns(code=pl.struct(key).hash())
    return coded.filter(pl.col("code").is_duplicated())


def _attach_args(rows: pl.DataFrame, read_args: Callable[[int], pl.DataFrame] | None) -> pl.DataFrame:
    """Return the rows with `told`: a hash of the args of those that are records of their own."""
    alone = rows.filter("is_alone").select("trace", "file", "offset")
    if read_args is None or alone.is_empty():
        return rows
    found = [
        read_args(number).join(own, on=["file", "offset"], how="semi").with_columns(pl.col("key").cast(pl.String))
        for (number,), own in alone.partition_by("trace", as_dict=True).items()
    ]
    args = pl.concat(found).select("file", "offset", told=pl.struct("key", "u64", "text").hash())
    told = args.group_by("file", "offset").agg(pl.col("told").sum())
    joined = rows.drop("told").join(told, on=["file", "offset"], how="left", maintain_order="left")
    return joined.with_columns(pl.when("is_alone").then("told").fill_null(0).alias("told"))


def _list_doubled(rows: pl.DataFrame, key: list[str]) -> pl.DataFrame:
    """Return the rows that others with the same key stand for: the first of a trace for the first of another one."""
    late = [column for column in ("is_late",) if column in rows.columns]
    shared = _list_shared(rows, key).sort("stamp_ns", "offset")
    is_twin = shared.select(pl.struct("code", "trace").is_duplicated()).to_series()
    twins = shared.filter(is_twin).with_columns(nth=pl.int_range(pl.len()).over("code", "trace"))
    placed = pl.concat([shared.filter(~is_twin).with_columns(nth=pl.lit(0, pl.Int64)), twins])
    # Of halves alone none is better; a span that is whole is.
    placed = placed.sort("is_half", *late, "trace", maintain_order=True).with_row_index("place")
    group = ["code", "nth"]
    firsts = placed.group_by(group).agg(
        first=pl.col("place").min(), holder=pl.col("trace").get(0), all_half=pl.col("is_half").get(0)
    )
    found = placed.join(firsts, on=group).filter(pl.col("place") != pl.col("first"))
    columns = ["trace", "row", "holder", "tid", "clock", "stamp_ns", "is_exit"]
    return found.select(*columns, is_half=pl.col("is_half") & ~pl.col("all_half"))


def _put_back(enters: pl.DataFrame, lone: pl.DataFrame) -> pl.DataFrame:
    """Return the rows with `is_late`: those in spans that their trace holds half, and another one whole.

    Args:
        enters: the rows.
        lone: the halves.
    """
    side = ["clock", "tid", "trace"]
    stamp = pl.col("stamp_ns")
    bounds = lone.group_by(side).agg(
        until=stamp.filter(~pl.col("is_exit")).min(), since=stamp.filter(pl.col("is_exit")).max()
    )
    behind = (stamp >= pl.col("until")).fill_null(value=False)
    before = (pl.coalesce("end_stamp_ns", "stamp_ns") <= pl.col("since")).fill_null(value=False)
    joined = enters.join(bounds, on=side, how="left", maintain_order="left")
    return joined.with_columns(is_late=behind | before).drop("until", "since")
