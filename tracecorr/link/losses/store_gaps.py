"""Store gaps: places of a trace at which doorbell stores are missing, as the indexes that were stored tell."""

from __future__ import annotations

import numpy as np
import polars as pl

from tracecorr.clock.bounds import Mask
from tracecorr.clock.intervals import pair_spans
from tracecorr.clock.rows import order_by_group, span_groups
from tracecorr.model.kinds import GRAPH_CALL, PACKET_KINDS
from tracecorr.read.kfd.ioctls import CREATE_QUEUE

# A process shows its stores where there are so many for each packet of the log; of so many packets one would be seen,
# beside those that are.
_LEAST_STORED, _LEAST_PACKETS = 0.5, 5
# Calls that write a packet, and store to its doorbell, unless a graph is captured.
_LAUNCHES = (
    "hipLaunchKernel", "hipExtLaunchKernel", "hipLaunchCooperativeKernel", "hipModuleLaunchKernel",
    "hipExtModuleLaunchKernel", "hipHccModuleLaunchKernel",
)  # fmt: skip
# Of so many indexes at one place each may be that of a single record; a piece of a trace holds more.
_MOST_SINGLE = 2
_DOORBELL = ["process", "arg"]
_SIDE = ["process", "thread", "ts_ns"]
_GAP = {"file": pl.UInt16, "thread": pl.Int64, "low": pl.Int64, "high": pl.Int64, "weight": pl.Float64}
_GAPS = {**_GAP, "missing": pl.Int64, "told": pl.Boolean}


def list_store_gaps(events: pl.DataFrame) -> pl.DataFrame:
    """Return where the indexes stored to a doorbell leave numbers out; where no log tells the calls, only at one place.

    HIP stores once for each packet, but for those of a graph: what a graph launch may have written is no gap. Pages of
    several CPUs are several files: in which one a store lacks is told where those on both sides of it are in one.

    Args:
        events: rows with file, process, arg (the doorbell), packet_index, ts_ns, dur_ns, err_lo_ns, layer, name,
            source.

    Returns: file, thread (a number below 0 for each doorbell), low, high (ns), weight (1), as `bursts` takes them, and
        missing (so many indexes), told (whether the log tells the calls of the process).
    """
    stores = events.select("file", *_DOORBELL, "ts_ns", "packet_index", "err_lo_ns", "layer", "source").filter(
        (pl.col("layer") == "doorbell") & (pl.col("source") == "ftrace")
    )
    stores = stores.drop("layer", "source").drop_nulls([*_DOORBELL, "ts_ns", "packet_index"])
    order, codes, _ = order_by_group(stores, _DOORBELL)
    stores = stores[pl.Series(order.astype(np.uint32))]
    same = codes[1:] == codes[:-1]
    steps = np.diff(stores["packet_index"].to_numpy())
    if not (same & (steps > 1)).any():
        # In most traces none is missing.
        return pl.DataFrame(schema=_GAPS)
    # A doorbell is given out again: then its indexes begin anew, behind the making of a queue.
    begins = np.append(True, ~same | ((steps < 0) & _is_made_between(stores, events)))
    stores = stores.with_columns(life=pl.Series(np.cumsum(begins)), thread=-1 - pl.Series(codes.astype(np.int64)))
    at, index = pl.col("ts_ns"), pl.col("packet_index")
    pairs = stores.sort("life", "packet_index", maintain_order=True).with_columns(
        low=pl.min_horizontal(at, at.shift(1)), high=pl.max_horizontal(at, at.shift(1)),
        missing=index - index.shift(1) - 1, is_gap=(index - index.shift(1) > 1)
        & pl.all_horizontal(pl.col(name) == pl.col(name).shift(1) for name in ("life", "file")),
    )  # fmt: skip
    gaps = _drop_graphs(pairs.filter("is_gap"), events)
    return gaps.with_columns(weight=pl.lit(1.0)).select(list(_GAPS)).cast(_GAPS)  # type: ignore[arg-type]


def _is_made_between(stores: pl.DataFrame, events: pl.DataFrame) -> Mask:
    """Tell for each store but the first whether its process may have made a queue between it and the one before."""
    made = events.filter((pl.col("layer") == "ioctl") & (pl.col("name") == CREATE_QUEUE))["ts_ns"].drop_nulls()
    before = np.searchsorted(np.sort(made.to_numpy()), stores["ts_ns"].to_numpy())
    return before[1:] != before[:-1]  # type: ignore[no-any-return]


def _drop_graphs(gaps: pl.DataFrame, events: pl.DataFrame) -> pl.DataFrame:
    """Return the gaps that no launch of a graph explains, with `told`: whether a log tells the calls of the process.

    A log that names no process may be that of any. On an unknown clock each launch may be meant.
    """
    calls = _list_calls(events)
    named = calls["process"].unique()
    told = pl.lit(value=True) if named.null_count() else pl.col("process").is_in(named.implode())
    gaps = gaps.with_columns(told=told & pl.lit(not calls.is_empty()))
    untold, gaps = _list_at_one_place(gaps.filter(~pl.col("told"))), gaps.filter("told")
    spans = _list_graphs(calls)
    if len(spans) and gaps["err_lo_ns"].null_count():
        return untold
    explained, _ = pair_spans(gaps.select(pl.lit(0, pl.UInt16).alias("file"), "low", "high"), spans, ["file"])
    kept = np.ones(gaps.height, dtype=np.bool_)
    kept[explained] = False
    return pl.concat([gaps.filter(pl.Series(kept)), untold])


def _list_at_one_place(gaps: pl.DataFrame) -> pl.DataFrame:
    """Return the gaps of processes all of whose gaps meet, those of two doorbells at least.

    A program that launches graphs does so again and again: each launch leaves out indexes of one doorbell.
    """
    meet = pl.col("low").max() < pl.col("high").min()
    return gaps.filter((meet & (pl.col("thread").n_unique() > 1)).over("process"))


def _list_calls(events: pl.DataFrame) -> pl.DataFrame:
    return events.select("process", "ts_ns", "dur_ns", "layer", "name", "source").filter(
        (pl.col("layer") == "hip") & (pl.col("source") == "amd_log")
    )


def _list_graphs(calls: pl.DataFrame) -> pl.DataFrame:
    """Return file (0), low, high (ns) of the launches of graphs.

    Where one ends may not be known: its store comes before the next one of its ring in any case.
    """
    graphs, low = calls.filter(pl.col("name").cat.starts_with(GRAPH_CALL)), pl.col("ts_ns")
    return graphs.select(file=pl.lit(0, pl.UInt16), low=low, high=low + pl.col("dur_ns").fill_null(0))


def measure_losses(gaps: pl.DataFrame, events: pl.DataFrame) -> pl.DataFrame:
    """Return the files of traces that lack single stores here and there: file, lost (the share that lacks).

    Of a piece many stores lack at one place. Where lines of a graph launch lack it leaves indexes out as well, and so
    does a thread that is not traced: so at least as large a share of the packets that traced threads print must have
    no store.

    Args:
        gaps: as `list_store_gaps` returns them.
        events: as for `list_unstored`.
    """
    single = gaps.filter("told", pl.col("missing") <= _MOST_SINGLE)
    if single.is_empty():
        return pl.DataFrame(schema={"file": pl.UInt16, "lost": pl.Float64})
    is_store = (pl.col("layer") == "doorbell") & (pl.col("source") == "ftrace")
    stored = events.select("file", "layer", "source").filter(is_store).group_by("file").agg(stored=pl.len())
    lacks = single.group_by("file").agg(lacks=pl.col("missing").sum()).join(stored, on="file")
    share = pl.col("lacks") / (pl.col("lacks") + pl.col("stored"))
    return lacks.select("file", lost=pl.min_horizontal(share, pl.lit(_share_unstored(events))))


def _share_unstored(events: pl.DataFrame) -> float:
    """Return the share of the packets without a store, of threads that both sides show, while both do."""
    stores, packets = (side(events).drop_nulls() for side in (_list_placed_stores, _list_single_packets))
    at = pl.lit(0, pl.UInt16).alias("file"), pl.col("ts_ns").alias("low"), pl.col("ts_ns").alias("high")
    of_graphs, _ = pair_spans(stores.select(at), _list_graphs(_list_calls(events)), ["file"])
    single = np.ones(stores.height, dtype=np.bool_)
    single[of_graphs] = False
    shown = [span_groups(side, ["thread"], "ts_ns", "ts_ns") for side in (stores, packets)]
    shared = (
        shown[0]
        .join(shown[1], on="thread", suffix="_other")
        .select("thread", begin=pl.max_horizontal("first", "first_other"), end=pl.min_horizontal("last", "last_other"))
    )
    stored, printed = (
        side.join(shared, on="thread").filter(pl.col("ts_ns").is_between("begin", "end")).height
        for side in (stores.filter(pl.Series(single)), packets)
    )
    return max(0, printed - stored) / max(1, printed)


def list_unstored(spans: pl.DataFrame, events: pl.DataFrame, *, lacks: bool) -> pl.DataFrame:
    """Return the spans (event) in which the log prints packets of their process, and the trace shows hardly a store.

    So it is where the trace lacks the stores of several packets; of a process whose stores it does not show this tells
    nothing, nor do the packets of a graph, which one store announces. Where the level of a log prints no packets, and
    the trace lacks records, calls that launch kernels tell the same.

    Args:
        spans: rows of a trace: event, low, high (ns).
        events: rows with file, process, ts_ns, dur_ns, err_lo_ns, layer, name, source, clock, parent, numbered by
            `event`.
        lacks: whether the trace surely lacks records.
    """
    found = [spans.select("event").clear()]
    if spans.is_empty():
        return found[0]
    stores, packets = _list_placed_stores(events), _list_single_packets(events)
    if lacks:
        packets = pl.concat([packets, _list_launch_calls(events, stores["process"].unique())])
    asked = spans.with_columns(events["process"].gather(spans["event"])).drop_nulls("process")
    for (process,), part in asked.partition_by("process", as_dict=True).items():
        stored, printed = (side.filter(pl.col("process") == process)["ts_ns"] for side in (stores, packets))
        if len(stored) >= _LEAST_STORED * len(printed):
            held = [part.select(_count_in(side.sort())).to_series() for side in (stored, printed)]
            found.append(part.filter(held[1] >= _LEAST_PACKETS * (held[0] + 1)).select("event"))
    return pl.concat(found)


def _count_in(times: pl.Series) -> pl.Expr:
    """Tell how many of some sorted times lie between `low` and `high`."""
    places = (pl.lit(times).search_sorted(pl.col(side)).cast(pl.Int64) for side in ("high", "low"))
    return next(places) - next(places)


def _list_placed_stores(events: pl.DataFrame) -> pl.DataFrame:
    """Return process, thread, ts_ns of the doorbell stores whose time is known."""
    is_store = (pl.col("layer") == "doorbell") & (pl.col("source") == "ftrace")
    rows = events.select(*_SIDE, "err_lo_ns", "layer", "source").filter(is_store)
    return rows.drop_nulls(["process", "ts_ns", "err_lo_ns"]).select(_SIDE)


def _list_single_packets(events: pl.DataFrame) -> pl.DataFrame:
    """Return process, thread, ts_ns of the packets of the log that no graph launch wrote."""
    is_packet = (pl.col("layer") == "aql") & pl.col("name").is_in(PACKET_KINDS) & (pl.col("clock") == "mono")
    rows = events.select(*_SIDE, "layer", "name", "clock", "parent").filter(is_packet)
    caller = events["name"].gather(rows["parent"])
    return rows.filter(~caller.cat.starts_with(GRAPH_CALL).fill_null(value=False)).select(_SIDE)


def _list_launch_calls(events: pl.DataFrame, processes: pl.Series) -> pl.DataFrame:
    """Return process, thread, ts_ns of the calls that launch kernels, of logs that show no packet.

    A log that names no process is that of the only one whose stores the trace shows.

    Args:
        events: as for `list_unstored`.
        processes: those with stores.
    """
    rows = events.select("file", *_SIDE, "dur_ns", "layer", "name", "source").filter(pl.col("source") == "amd_log")
    shown = rows.filter((pl.col("layer") == "aql") & pl.col("name").is_in(PACKET_KINDS))["file"].unique()
    is_launch = (pl.col("layer") == "hip") & pl.col("name").is_in(_LAUNCHES) & pl.col("dur_ns").is_not_null()
    calls = rows.filter(is_launch & ~pl.col("file").is_in(shown.implode()))
    only = processes[0] if len(processes) == 1 else None
    named = calls.with_columns(pl.col("process").fill_null(pl.lit(only, pl.UInt32)))
    return named.select(_SIDE).drop_nulls(["process", "ts_ns"])
