"""Streams: lives of hipStream_t handles, and the queues that they used."""

from __future__ import annotations

import polars as pl

from tracecorr.link.events import fill_columns, pivot_args
from tracecorr.model import frames
from tracecorr.model.columns import is_failed, makes_stream
from tracecorr.model.frames import gives
from tracecorr.model.kinds import COMMAND_MENTIONS, DERIVED, GRAPH_COMMAND, MARKERS, NOT_ENQUEUES, NULL_STREAM, RECORDED

# Calls that wait, and are given no stream: they work on the null stream, of whichever device (HIP API, hip_memory.cpp).
_ON_NULL_STREAM = (
    r"^hip(Memcpy(HtoD|DtoH|DtoD|HtoA|AtoH|ToArray|FromArray|2D|2DToArray|2DFromArray|Param2D|3D|ToSymbol|FromSymbol)?"
    r"|Memset(D8|D16|D32|2D|3D)?)$"
)

DESTROY = "hipStreamDestroy"
_RESET, _COUNTED_GPUS = "hipDeviceReset", "gpu_agents"
# Calls that may make another device the current one (HIP API).
_CHOOSES_DEVICE = r"^hip(SetDevice|SetValidDevices|Ctx|DevicePrimaryCtx)"


def name_null_stream(events: pl.DataFrame) -> pl.DataFrame:
    """Return `events` with the null stream (`stream`) in the calls that work on it without being given it.

    Up to ROCm 6.4, that is: where the commands that they enqueue name none.
    """
    is_enqueue = (pl.col("layer") == "command") & ~pl.col("name").is_in(NOT_ENQUEUES)
    rows = events.select("event", "parent", "layer", "name", "stream")
    nameless = rows.filter(is_enqueue & pl.col("stream").is_null())["parent"].drop_nulls().unique()
    if nameless.is_empty():
        return events
    calls = rows[nameless].filter((pl.col("layer") == "hip") & pl.col("stream").is_null())
    found = calls.filter(pl.col("name").cast(pl.String).str.contains(_ON_NULL_STREAM))
    return fill_columns(events, found.select("event", stream=pl.lit(NULL_STREAM, pl.UInt64)))


def build_streams(events: pl.DataFrame, args: pl.DataFrame) -> pl.DataFrame:
    """Return the table `streams`: one row per creating call, one per handle that only commands and calls name.

    One more is of commands that name a handle before a call made it, or after one destroyed it: HIP's own streams (of a
    graph's branches) get the same addresses.

    Returns: with them from_ns, from when on the handle is the stream's.
    """
    named = _select_named(events)
    made = named.filter((pl.col("layer") == "hip") & makes_stream(pl.col("name")))
    asked = pivot_args(args, made["event"], ["priority", "flags"])
    created = made.select("event", "process", "stream", created_ns=pl.col("ts_ns") + pl.col("dur_ns").fill_null(0))
    created = created.join(asked, on="event", how="left", maintain_order="left").select(
        "process", handle="stream", priority=pl.col("priority").reinterpret(signed=True).cast(pl.Int32, strict=False),
        flags=pl.col("flags").cast(pl.UInt32, strict=False), created_ns="created_ns", create_event="event",
    )  # fmt: skip
    is_command = pl.col("layer") == "command"
    # Commands that name their streams show the null stream by its own handle.
    enqueues = is_command & ~pl.col("name").is_in(COMMAND_MENTIONS)
    twice = (pl.col("stream") == NULL_STREAM) & enqueues.any().over("process")
    is_other = is_command | ((pl.col("layer") == "hip") & ~twice)
    others = named.select("process", "stream").filter(named.select(is_other).to_series())
    others = others.unique(maintain_order=True).rename({"stream": "handle"})
    for known in (created, _list_null_handles(named)):
        others = others.join(known, on=["process", "handle"], how="anti", nulls_equal=True, maintain_order="left")
    streams = pl.concat([created, others], how="diagonal_relaxed").with_row_index("stream")
    streams = streams.with_columns(from_ns=pl.col("created_ns").fill_null(0))
    return _add_reset(_add_destroyed(_add_nameless(streams, named), named), events, args)


def _select_named(events: pl.DataFrame) -> pl.DataFrame:
    columns = ("event", "process", "stream", "ts_ns", "dur_ns", "layer", "name", "parent", "result")
    return events.select(columns).filter(pl.col("stream").is_not_null())


def _add_nameless(streams: pl.DataFrame, named: pl.DataFrame) -> pl.DataFrame:
    """Return `streams` with those that commands name while their handle names no stream that is known."""
    enqueues = named.filter((pl.col("layer") == "command") & ~pl.col("name").is_in(COMMAND_MENTIONS))
    rows = enqueues.select("process", at="ts_ns", handle="stream").drop_nulls("process").sort("at", maintain_order=True)
    lives = _list_lives(streams, named).with_columns(since="at")
    found = rows.join_asof(lives, on="at", by=["process", "handle"], check_sortedness=False)
    found = found.filter(pl.col("stream_id").is_null()).unique(["process", "handle", "since"], maintain_order=True)
    nameless = found.select("process", "handle", from_ns=pl.col("since").fill_null(0))
    return pl.concat([streams.drop("stream"), nameless], how="diagonal_relaxed").with_row_index("stream")


def _list_lives(streams: pl.DataFrame, named: pl.DataFrame) -> pl.DataFrame:
    """Return what handles name, and from when on: process, handle, at, stream_id; null = destroyed.

    What a thread makes while another one has yet to print the end of hipStreamDestroy may have the same address.
    """
    born = streams.select("process", "handle", at="from_ns", stream_id="stream").sort("at")
    done = (pl.col("layer") == "hip") & (pl.col("name") == DESTROY) & (pl.col("result") == "hipSuccess")
    ends = named.filter(done).select("process", "ts_ns", handle="stream", end=pl.col("ts_ns") + pl.col("dur_ns") + 1)
    next_born = born.select("process", "handle", "at")
    ends = ends.drop_nulls("end").sort("ts_ns").join_asof(
        next_born, left_on="ts_ns", right_on="at", by=["process", "handle"], strategy="forward",
        allow_exact_matches=False, check_sortedness=False,
    )  # fmt: skip
    dead = ends.select("process", "handle", at=pl.min_horizontal("end", "at"), stream_id=pl.lit(None, pl.UInt32))
    return pl.concat([dead, born]).sort("at", maintain_order=True)


def _list_null_handles(named: pl.DataFrame) -> pl.DataFrame:
    """Return process and handle of the null streams that have a row by their own handle, hipStreamLegacy.

    Up to ROCm 6.4 a marker names the stream that it is put into: in a call on the null stream, one that no call made or
    is given. With several such handles one may be of another stream, for which the call waits.

    Args:
        named: rows that name a stream (`stream`).
    """
    mentions = named.filter((pl.col("layer") == "command") & pl.col("name").is_in(COMMAND_MENTIONS))
    if mentions.is_empty():
        return mentions.select("process", handle="stream")
    others = named.join(mentions, on="event", how="anti").select("process", "stream").unique()
    alone = mentions.join(others, on=["process", "stream"], how="anti", nulls_equal=True)
    alone = alone.filter(pl.col("stream").n_unique().over("process") == 1)
    calls = named.filter((pl.col("layer") == "hip") & (pl.col("stream") == NULL_STREAM)).select(parent="event")
    return alone.join(calls, on="parent", how="semi").select("process", handle="stream").unique()


def _add_destroyed(streams: pl.DataFrame, named: pl.DataFrame) -> pl.DataFrame:
    keys = ["process", "handle"]
    ends = named.filter((pl.col("layer") == "hip") & (pl.col("name") == DESTROY))
    ends = ends.filter(~is_failed(pl.col("result").cast(pl.String)))
    ends = ends.select("process", "ts_ns", handle="stream", destroyed_ns="ts_ns").sort("ts_ns")
    lives = streams.select("stream", *keys, "from_ns").sort("from_ns")
    lives = lives.with_columns(next_ns=pl.col("from_ns").shift(-1).over(keys))
    found = lives.join_asof(
        ends, left_on="from_ns", right_on="ts_ns", by=keys, strategy="forward", check_sortedness=False
    )
    own = found.filter((pl.col("destroyed_ns") < pl.col("next_ns")).fill_null(value=True))
    return streams.join(own.select("stream", "destroyed_ns"), on="stream", how="left", maintain_order="left")


def _add_reset(streams: pl.DataFrame, events: pl.DataFrame, args: pl.DataFrame) -> pl.DataFrame:
    """Return `streams` with the end of those that hipDeviceReset destroyed: all that a call made on its device.

    The log names no device of a stream, so it must be the only one: the runtime counts one GPU, or the process never
    chose another one than the first.
    """
    calls, is_call = events.select("process", "ts_ns", "layer", "name", "result"), pl.col("layer") == "hip"
    done = is_call & (pl.col("name") == _RESET) & (pl.col("result") == "hipSuccess")
    resets = calls.filter(done).drop_nulls("process").select("process", reset_ns="ts_ns", at="ts_ns").sort("at")
    if resets.is_empty():
        return streams
    chosen = calls.filter(is_call & pl.col("name").cast(pl.String).str.contains(_CHOOSES_DEVICE)).select("process")
    counted = args.filter((pl.col("key") == _COUNTED_GPUS) & (pl.col("u64") == 1)).select("event")
    single = events.select("event", "process").join(counted, on="event", how="semi").select("process")
    resets = resets.join(chosen.join(single, on="process", how="anti"), on="process", how="anti")
    made = streams.filter(pl.col("create_event").is_not_null()).select("stream", "process", "created_ns")
    found = made.sort("created_ns").join_asof(
        resets, left_on="created_ns", right_on="at", by="process", strategy="forward", check_sortedness=False
    )
    joined = streams.join(found.select("stream", "reset_ns"), on="stream", how="left", maintain_order="left")
    return joined.with_columns(destroyed_ns=pl.min_horizontal("destroyed_ns", "reset_ns")).drop("reset_ns")


@gives(frames.STREAMS_OF_EVENTS)
def assign_streams(events: pl.DataFrame, streams: pl.DataFrame) -> pl.DataFrame:
    """Return `event`, `stream_id` for every row that names a handle: the life that it names at the row's end.

    Args:
        events: rows in the order of time.
        streams: as `build_streams` returns it.
    """
    named = events.select("event", "process", "stream", "ts_ns", "dur_ns").filter(pl.col("stream").is_not_null())
    rows = named.select("event", "process", handle="stream", at=pl.col("ts_ns") + pl.col("dur_ns").fill_null(0))
    lives = _list_lives(streams, _select_named(events.filter(pl.col("name") == DESTROY)))
    rows = rows.sort("at", maintain_order=True)
    found = rows.join_asof(lives, on="at", by=["process", "handle"], check_sortedness=False)
    return found.drop_nulls("stream_id").select("event", "stream_id")


def name_streams(launches: pl.DataFrame, events: pl.DataFrame) -> pl.Series:
    """Return the stream of each packet or copy: that of its command, its own, or that of the call that enqueued it.

    Up to ROCm 6.4 commands do not name their stream, and calls do. Markers may be of another stream, for which the call
    waits first; so may be what a graph launch enqueues.

    Args:
        launches: columns command_stream, stream_id, command_event, kind (of the command), graph.
        events: linked events.
    """
    told = launches.select(pl.coalesce("command_stream", "stream_id")).to_series()
    if not told.null_count():
        return told
    own = pl.col("kind").is_not_null() & ~pl.col("kind").is_in([*MARKERS, GRAPH_COMMAND]) & ~pl.col("graph")
    commands = launches.select(pl.when(own).then("command_event")).to_series()
    called = events["stream_id"].gather(events["parent"].gather(commands))
    return pl.select(pl.coalesce(told, called)).to_series()


def summarize_stream_queues(launches: pl.DataFrame, events: pl.DataFrame) -> pl.DataFrame:
    """Return the table `stream_queues`: the span in which each stream submitted to each queue.

    It is recorded where commands name their stream, else derived from the calls that enqueued them.

    Args:
        launches: the table.
        events: linked events with `stream_id`.
    """
    named = events["stream_id"].gather(launches["command_event"]).is_not_null()
    is_placed = pl.col("stream").is_not_null() & pl.col("queue").is_not_null()
    both = launches.select("stream", "queue", "packet_ns", named=named).filter(is_placed)
    is_recorded = pl.when(pl.col("named").all()).then(pl.lit(RECORDED)).otherwise(pl.lit(DERIVED))
    return both.group_by("stream", "queue", maintain_order=True).agg(
        from_ns=pl.min("packet_ns"), to_ns=pl.max("packet_ns"), evidence=is_recorded
    )


@gives(frames.ASKED_PRIORITIES)
def list_asked_priorities(stream_queues: pl.DataFrame, streams: pl.DataFrame) -> pl.DataFrame:
    """Return queue, priority_hip: what the first stream of each queue asked for whose creation the log shows.

    It is 0 if that stream asked for none. Streams of different priorities share no queue (CLR 4.5 to 7.2), so a
    stream whose creation is not in the log, which may be the null stream or one made earlier, has that of the others.

    Args:
        stream_queues, streams: the tables.
    """
    is_known = pl.col("priority").is_not_null() | pl.col("create_event").is_not_null()
    asked = streams.filter(is_known).select("stream", priority_hip=pl.col("priority").fill_null(0))
    used = stream_queues.join(asked, on="stream").sort("from_ns")
    return used.group_by("queue", maintain_order=True).agg(pl.col("priority_hip").first())
