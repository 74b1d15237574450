"""Signals: which packet or copy completes which signal, what waits for it, and its GPU time."""

from __future__ import annotations

import polars as pl

from tracecorr.clock.causal_pairs import LOG_STEP_NS
from tracecorr.link.events import attach_args
from tracecorr.model import frames, schema
from tracecorr.model.frames import gives
from tracecorr.model.kinds import INVALID_GPU_TIME, MIGRATIONS

_WORD = (1 << 64) - 1


def _address(handle: str) -> pl.Expr:
    """Return the address of a signal, without the hints that a handle may carry.

    Signals lie at multiples of 64 bytes. Those of the second version (bit 0 set) lie at multiples of 1024, and their
    handles hold hints in the bits below (amd_hsa_signal.h of ROCm 10).
    """
    bits = pl.when(pl.col(handle) & 1 == 1).then(pl.lit(~0x3FF & _WORD, pl.UInt64))
    return pl.col(handle) & bits.otherwise(pl.lit(~0x3F & _WORD, pl.UInt64))


def add_gpu_times(records: pl.DataFrame, args: pl.DataFrame) -> pl.DataFrame:
    """Return `records` with a row of layer `gpu` for each `Signal =` line: the span that it tells.

    The rows carry the clock `boot` and the time of their line as `line_stamp_ns`; a span that no clock can have shown
    is left out.

    Args:
        records: part events with `source`, `process`, `thread`.
        args: part args.
    """
    lines = records.filter((pl.col("layer") == "signal") & (pl.col("name") == "gpu_time"))
    if lines.is_empty():
        return records.with_columns(line_stamp_ns=pl.lit(None, pl.Int64))
    lines = attach_args(lines, args, ["start_ns", "end_ns"])
    likely = (pl.col("start_ns") > 0) & (pl.col("end_ns") < 2**62) & (pl.col("start_ns") <= pl.col("end_ns"))
    rows = lines.filter(likely & pl.col("stamp_ns").is_not_null()).with_columns(
        layer=pl.lit("gpu").cast(schema.CAT), clock=pl.lit("boot").cast(schema.CAT),
        line_stamp_ns="stamp_ns", stamp_ns=pl.col("start_ns").cast(pl.Int64),
        end_stamp_ns=pl.col("end_ns").cast(pl.Int64),
        thread=pl.lit(None, pl.UInt32), tid=pl.lit(None, pl.UInt64), parent_offset=pl.lit(None, pl.Int64),
        step_lo_ns=pl.lit(0, pl.Int64), step_hi_ns=pl.lit(0, pl.Int64),
    )  # fmt: skip
    return pl.concat([records, rows.drop("start_ns", "end_ns")], how="diagonal")


def add_migrations(launches: pl.DataFrame, events: pl.DataFrame) -> pl.DataFrame:
    """Return `launches`, as `list_uses` takes them, with the rows of `MIGRATIONS`: they complete signals, too.

    Without them what waits for such a signal would find what completed it before.

    Args:
        launches: columns as `list_uses` takes them.
        events: linked events.
    """
    found = events.filter((pl.col("layer") == "copy") & pl.col("name").is_in(MIGRATIONS))
    columns = ("event", "process", "signal", "ts_ns", "queue", "packet_index", "file", "offset")
    if found.is_empty():
        return launches
    return pl.concat([launches.select(*columns, "doorbell_lo_ns"), found.select(columns)], how="diagonal")


@gives(frames.SIGNAL_USES)
def list_uses(launches: pl.DataFrame) -> pl.DataFrame:
    """Return the packets and copies that complete a signal: event, process, signal, ts_ns, queue, packet_index.

    Args:
        launches: columns event, process, signal, ts_ns, queue, packet_index, file, offset, doorbell_lo_ns (as
            `bracket_doorbells` gives it).

    Returns: with them file, and
        nth: numbers the uses of a process in the order of their times.
        from_ns: not earlier than this was it submitted: barriers are printed after they were.
    """
    columns = ("event", "process", "signal", "ts_ns", "queue", "packet_index", "file")
    lowest = pl.min_horizontal("doorbell_lo_ns", "ts_ns")
    uses = launches.select(*columns, "offset", from_ns=lowest).filter(pl.col("signal").fill_null(0) != 0)
    uses = uses.with_columns(signal=_address("signal"))
    uses = uses.sort("ts_ns", "file", "offset")
    return uses.select(*columns, "from_ns", nth=pl.int_range(pl.len()).over("process"))


def _latest_use(rows: pl.DataFrame, uses: pl.DataFrame) -> pl.DataFrame:
    """Return `rows` with `use` and `nth`: the latest packet or copy before them that completes their signal.

    Args:
        rows: columns process, signal, ts_ns, and others.
        uses: as `list_uses` returns them.
    """
    lines = uses.select("process", "signal", "ts_ns", "nth", use="event").sort("ts_ns", "use")
    found = rows.sort("ts_ns").join_asof(lines, on="ts_ns", by=["process", "signal"], check_sortedness=False)
    return found.filter(pl.col("use").is_not_null())


def _add_printed_late(found: pl.DataFrame, rows: pl.DataFrame, uses: pl.DataFrame) -> pl.DataFrame:
    """Return `found` in which rows to which no use before them is left have the next one, of a barrier printed late.

    A barrier is printed after it was submitted; meanwhile another thread may print that it ended. The thread's line
    before the barrier's bounds when it was submitted.

    Args:
        found: as `_latest_use` returns them.
        rows: with gpu_event, gpu_start_ns.
        uses: as `list_uses` returns them.
    """
    first = found.sort("ts_ns", "gpu_event").unique("use", keep="first", maintain_order=True)
    left = rows.join(first, on="gpu_event", how="anti").select("gpu_event")
    if left.is_empty():
        return found
    lines = uses.select("process", "signal", "ts_ns", "nth", "from_ns", use="event")
    following = rows.sort("ts_ns").join_asof(
        lines, on="ts_ns", by=["process", "signal"], strategy="forward", check_sortedness=False
    )  # fmt: skip
    following = following.filter(pl.col("from_ns") <= pl.col("gpu_start_ns"))
    # What has a use that is theirs may be of one printed late itself.
    moved = left.clear()
    while left.height > moved.height:
        moved = left
        taken = first.join(following.join(moved, on="gpu_event", how="semi"), on="use", how="semi")
        taken = taken.join(following, on="gpu_event", how="semi").select("gpu_event")
        left = pl.concat([moved, taken]).unique(maintain_order=True)
    kept = first.join(moved, on="gpu_event", how="anti")
    late = following.join(moved, on="gpu_event", how="semi").join(kept, on="use", how="anti")
    late = late.unique("use", keep="none", maintain_order=True).select(found.columns)
    others = found.join(late, on="gpu_event", how="anti").join(late, on="use", how="anti")
    return pl.concat([others, late])


def list_doubted(events: pl.DataFrame, uses: pl.DataFrame) -> pl.Series:
    """Return the packets and copies whose GPU time the runtime calls invalid (`Invalid signal timing`).

    Args:
        events: placed rows with event, ts_ns, layer, name, process, signal.
        uses: as `list_uses` returns them.
    """
    columns = events.select("layer", "name", "process", "signal", "ts_ns")
    lines = columns.filter((pl.col("layer") == "signal") & (pl.col("name") == INVALID_GPU_TIME)).drop_nulls("signal")
    return _latest_use(lines.with_columns(signal=_address("signal")), uses)["use"].unique()


@gives(frames.WAITS)
def link_dependencies(launches: pl.DataFrame, packets: pl.DataFrame, uses: pl.DataFrame) -> pl.DataFrame:
    """Return which packet or copy each barrier or copy waits for: from_event (completes), to_event (waits).

    Args:
        launches: columns event, layer, process, ts_ns, file, offset.
        packets: part packets with `dep_signals`.
        uses: as `list_uses` returns them.
    """
    waiting = packets.select("file", "offset", signal="dep_signals").filter(pl.col("signal").list.len() > 0)
    waits = waiting.explode("signal").filter(pl.col("signal") != 0).with_columns(signal=_address("signal"))
    if waits.is_empty():
        return pl.DataFrame(schema={"from_event": pl.Int64, "to_event": pl.Int64})
    # If a level prints copies but no packets, what a copy waits for is not in the log.
    shown = launches.select(pl.col("process").filter(pl.col("layer") == "aql")).unique()
    rows = launches.select("event", "process", "ts_ns", "file", "offset").join(waits, on=["file", "offset"])
    rows = rows.join(shown, on="process", how="semi", nulls_equal=True)
    found = _latest_use(rows, uses)
    # A line that completes the signal that it waits for finds itself.
    launched = pl.col("use").is_in(launches["event"].implode())
    return found.filter((pl.col("use") != pl.col("event")) & launched).select(from_event="use", to_event="event")


@gives(frames.GPU_TIMES)
def drop_ended(found: pl.DataFrame, launches: pl.DataFrame, times: pl.DataFrame) -> pl.DataFrame:
    """Leave out GPU times that begin when their packet's command is known to be complete: they are of a later use.

    Args:
        found: as `link_gpu_times` returns them.
        launches: columns event, complete_ns.
        times: rows of GPU times: event, err_lo_ns.
    """
    ends = found.select("event", "gpu_event", "gpu_start_ns").join(
        launches.select("event", "complete_ns").drop_nulls(), on="event"
    )
    ends = ends.join(times.select("err_lo_ns", gpu_event="event"), on="gpu_event")
    late = ends.filter(
        pl.col("gpu_start_ns") - pl.col("err_lo_ns").fill_null(0).cast(pl.Int64) > pl.col("complete_ns") + LOG_STEP_NS
    )
    return found.join(late, on="gpu_event", how="anti", maintain_order="left")


@gives(frames.GPU_TIMES)
def link_gpu_times(times: pl.DataFrame, uses: pl.DataFrame) -> pl.DataFrame:
    """Return whose GPU time each `Signal =` line tells: event (packet or copy), gpu_event, gpu_start_ns, gpu_end_ns.

    If a level prints copies but no packets (4), most of these lines are of packets that the log does not show, whose
    handles were those of copies before: none is linked.

    Args:
        times: rows of layer `gpu` made of such lines: event, process, signal, line_ns (time of the line), ts_ns,
            end_ns, err_hi_ns.
        uses: as `list_uses` returns them.
    """
    rows = times.select(
        "process",
        signal=_address("signal"),
        gpu_event="event",
        ts_ns="line_ns",
        gpu_start_ns="ts_ns",
        gpu_end_ns="end_ns",
    )
    shown = uses.drop_nulls("queue").select("process").unique()
    rows = rows.drop_nulls(["process", "signal"]).join(shown, on="process", how="semi")
    found = _add_printed_late(_latest_use(rows, uses), rows, uses)
    # A second line of one use is that of a use whose packet was lost.
    first = found.sort("ts_ns", "gpu_event").unique("use", keep="first", maintain_order=True)
    places = uses.select(use="event", queue="queue", packet_index="packet_index")
    ordered = first.join(places, on="use").sort("packet_index", descending=True, nulls_last=True)
    # A queue starts its packets in order: a later packet that started earlier shows that this time is another's.
    later = pl.col("gpu_start_ns").cum_min().over("queue")
    in_order = (pl.col("gpu_start_ns") <= later) | pl.col("queue").is_null() | pl.col("packet_index").is_null()
    first = ordered.filter(in_order)
    return first.select("gpu_event", "gpu_start_ns", "gpu_end_ns", event="use")
