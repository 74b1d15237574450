"""Damage: where records of a HIP log or a kernel trace are missing, and what that makes of calls, indexes and links.

Damage has a place. A hole is a span of a log in which lines of some threads are missing: packet indexes that no line
shows are a hole of the threads that use the ring, a call of which one line is there is a hole of its thread, bytes that
were dropped are a hole of all threads. Holes of one process that meet are one hole, at the place that they share. A
log is damaged throughout if nothing tells where its records are missing: some could not be read, its writers cut each
other's lines, or no line ends a call. What happened before the first line of a log is no hole.

A call over a hole loses its end. A link that rests on the order of lines, or on a handle that is used again, is
`inferred` if a hole may lie between its two lines. Nothing else knows of damage; `link.tables` applies it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from tracecorr.model import schema
from tracecorr.model.columns import CAT, IS_PACKET
from tracecorr.model.frames import HOLES, gives
from tracecorr.model.kinds import (
    BEGINNINGS,
    COMMAND_MENTIONS,
    COMPLETE,
    DERIVED,
    HALF_SEEN,
    INFERRED,
    NOT_ENQUEUES,
    PACKET_KINDS,
    QUEUE_CREATED,
    QUEUE_DELETED,
    RECORDED,
    SUBMITTED,
    Flag,
)
from tracecorr.model.reasons import NUL_BYTES, REASONS, Lost, list_lossy

# Links that rest on the order of the lines of one thread, and those that rest on a handle which is used again.
_BY_ORDER = (
    "call_nesting", "command_in_call", "packet_in_call", "syscall_in_call", "packet_of_command", "copy_of_command",
)  # fmt: skip
_BY_HANDLE = ("completion_of_packet", "signal_dependency", "gpu_time_of_signal")
# Links of the kernel's side that rest on a fence's address, or on what comes next in time.
_BY_TRACE = ("drm_job", "ioctl_creates_queue", "doorbell_mapping")
_TOLD = int(Flag.SPAN_TOLD)
_ENTER, _EXIT = int(Flag.ENTER_ONLY), int(Flag.EXIT_ONLY)
# A function that shows both lines of fewer of its calls prints one line only.
_LEAST_WHOLE = 0.1
# A log with so many calls and no end of a call leaves out the lines that end calls.
_LEAST_CALLS = 5
# Behind one of these lines a ring is that of another queue.
_LIVES = (QUEUE_CREATED, QUEUE_DELETED)
_RING = ["file", "process", "ring", "life"]
_ASKED = (
    "file", "process", "thread", "offset", "ts_ns", "layer", "name", "flags", "clock", "ring", "packet_index",
    "command",
)  # fmt: skip
_BEFORE_ALL, _AFTER_ALL = -(1 << 62), 1 << 62
# Reasons of the ledger with which what is behind the last record is lost.
_AT_END = [name for name, reason in REASONS.items() if reason.at_end]


@dataclass(frozen=True)
class Damage:
    """Hold where records are missing.

    Args:
        throughout: the logs (file) that miss records at unknown places.
        holes: rows of `frames.HOLES`.
        missing: what the holes were found by, as `holes`, and lines that other writers cut.
        heads: logs that begin in the middle of a run: file, to_ns (their first line).
        traces: spans in which records of kernel traces are missing: cpu (null = any), from_ns, to_ns.
    """

    throughout: pl.Series
    holes: pl.DataFrame
    missing: pl.DataFrame
    heads: pl.DataFrame
    traces: pl.DataFrame


def find_damage(events: pl.DataFrame, ledger: pl.DataFrame, losses: pl.DataFrame, missing: pl.DataFrame) -> Damage:
    """Return where records of the sources are missing.

    Args:
        events: placed rows of all sources as the readers gave them, in the order of time.
        ledger: rows of the parts.
        losses: rows of `losses` on the common clock that the readers and the recorder told of.
        missing: bytes that were written and are not in their log (`part_tables.MISSING`).
    """
    log = _select_log(events)
    unread = _list_unread(ledger)
    unread_logs = unread.filter(pl.col("source") == "amd_log")
    shared = _list_cut_by_others(log, events)
    gaps, halves = _find_packet_gaps(log), _find_half_calls(log)
    dropped = _find_dropped(log, losses.filter(pl.col("source").cast(pl.String) == "amd_log"), unread_logs["file"])
    # If writers cut each other's lines, a missing index is that of a line which was cut.
    whole = ~pl.col("file").is_in(shared.implode())
    holes = pl.concat([_join_holes(pl.concat([gaps, halves]).filter(whole)), dropped, _place_missing(missing)])
    # Of bytes that were never stored the place is known.
    placed = (pl.col("reason") == NUL_BYTES) & pl.col("file").is_in(dropped["file"].implode())
    throughout = pl.concat([unread_logs.filter(~placed)["file"], shared, _list_endless(log)]).unique()
    return Damage(throughout, holes, pl.concat([gaps, halves]), _find_heads(log), _list_trace_holes(losses, unread))


def _select_log(events: pl.DataFrame) -> pl.DataFrame:
    """Return the rows of logs; where there is nothing else they are not copied."""
    is_log = events["source"] == "amd_log"
    return events.select(_ASKED) if is_log.all() else events.select(_ASKED).filter(is_log)


def open_calls(events: pl.DataFrame, damage: Damage) -> pl.DataFrame:
    """Return `events` in which calls over holes, and calls that end before they begin, have no end.

    A row behind a hole is in no call that began before it. A HIP call that tells its own duration keeps its end and
    what it encloses.

    Args:
        events: placed rows with `event` and `parent_offset`, in the order of time.
        damage: as `find_damage` returns it.
    """
    flags, is_log = pl.col("flags").fill_null(0), pl.col("source") == "amd_log"
    columns = ("event", "file", "thread", "offset", "end_offset", "ts_ns", "dur_ns", "cpu", "layer", "source")
    calls = events.select(*columns, told=flags & _TOLD > 0).filter(pl.col("dur_ns").is_not_null())
    backward = calls.filter(is_log & (pl.col("dur_ns") < 0))
    hip = calls.filter(is_log & (pl.col("layer") == "hip") & ~pl.col("told")).drop_nulls("end_offset")
    over = _select_over(hip.rename({"offset": "first", "end_offset": "last"}), damage.holes, by_thread=True)
    kernel = calls.filter(pl.col("layer").is_in(["syscall", "ioctl"]) & (pl.col("source") == "ftrace"))
    opened = pl.concat([part["event"] for part in (backward, over, _select_over_lost(kernel, damage.traces))])
    freed = _list_behind_holes(events, damage.holes)
    if opened.is_empty() and freed.is_empty():
        return events
    is_open, is_free = (pl.col("event").is_in(found.implode()) for found in (opened, freed))
    return events.with_columns(
        dur_ns=pl.when(~is_open).then("dur_ns"),
        flags=pl.when(is_open).then(flags | _ENTER).otherwise("flags").cast(events.schema["flags"]),
        parent_offset=pl.when(~is_free).then("parent_offset"),
    )


def _list_behind_holes(events: pl.DataFrame, holes: pl.DataFrame) -> pl.Series:
    """Return the rows (event) of the log that a hole parts from the enter of the call around them."""
    if holes.is_empty():
        return events["event"].clear()
    rows = events.select("event", "file", "thread", "source", first="parent_offset", last="offset")
    rows = rows.filter(pl.col("source") == "amd_log").drop_nulls("first")
    behind = _select_over(rows, holes, by_thread=True)
    told = events.select("file", "source", "flags", first="offset").filter(
        (pl.col("source") == "amd_log") & (pl.col("flags").fill_null(0) & _TOLD > 0)
    )
    return behind.join(told, on=["file", "first"], how="anti")["event"]


def open_commands(
    launches: pl.DataFrame, edges: pl.DataFrame, events: pl.DataFrame, damage: Damage
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return `launches` and `edges` without the ends of commands that lie behind a hole: pointers are used again.

    Args:
        launches: the table.
        edges: links that it does not show: from_event, to_event, rule, and others.
        events: linked events, numbered by their rows.
        damage: as `find_damage` returns it.
    """
    if damage.holes.is_empty():
        return launches, edges
    ends = edges.with_row_index("row").filter(pl.col("rule") == "completion_of_packet")
    places = {side: events.select("file", "offset")[ends[f"{side}_event"]] for side in ("from", "to")}
    spans = ends.select(
        "row", "from_event", file=places["from"]["file"], first=places["from"]["offset"], last=places["to"]["offset"]
    )
    behind = _select_over(spans, damage.holes, by_thread=False)
    is_open = pl.col("event").is_in(behind["from_event"].implode())
    kept = ~pl.int_range(pl.len()).is_in(behind["row"].implode())
    return launches.with_columns(complete_ns=pl.when(~is_open).then("complete_ns")), edges.filter(kept)


def drop_counts(events: pl.DataFrame, damage: Damage) -> pl.DataFrame:
    """Return `events` without packet indexes that were counted in damaged logs: a missing line shifts the count.

    Args:
        events: placed rows with `index_counted`.
        damage: as `find_damage` returns it.
    """
    holes = damage.holes.group_by("file").agg(pl.col("low").min())
    throughout = pl.DataFrame({"file": damage.throughout}).with_columns(low=pl.lit(-1, pl.Int64))
    places = pl.concat([holes, throughout]).group_by("file").agg(pl.col("low").min())
    if places.is_empty() or not events["index_counted"].any():
        return events
    counted = events.filter("index_counted").select("event", "file", "offset").join(places, on="file")
    wrong = pl.col("event").is_in(counted.filter(pl.col("offset") > pl.col("low"))["event"].implode())
    return events.with_columns(
        packet_index=pl.when(~wrong).then("packet_index"), index_counted=pl.col("index_counted") & ~wrong
    )


def limit_evidence(links: pl.DataFrame, events: pl.DataFrame, damage: Damage) -> pl.DataFrame:
    """Return the table `links` with `inferred` for links between whose ends records may be missing.

    What a call encloses that tells its own duration is sure, unless other writers may have cut its lines.

    Args:
        links: the table.
        events: linked events, numbered by their rows.
        damage: as `find_damage` returns it.
    """
    if damage.throughout.is_empty() and damage.holes.is_empty() and damage.traces.is_empty():
        return links
    rule = pl.col("rule").cast(pl.String)
    rows = links.lazy().with_row_index("row").filter(rule.is_in([*_BY_ORDER, *_BY_HANDLE, *_BY_TRACE]))
    asked = rows.select("row", "from_event", "to_event", rule).collect()
    unsure = pl.concat(
        [_list_unsure(asked, events, damage), _list_unsure_in_trace(asked, events["ts_ns"], damage.traces)]
    ).unique()
    weaker = pl.int_range(pl.len()).is_in(unsure.implode()) & pl.col("evidence").cast(pl.String).is_in(
        [DERIVED, RECORDED]
    )
    return links.with_columns(evidence=pl.when(weaker).then(pl.lit(INFERRED, CAT)).otherwise("evidence"))


def _list_unsure(asked: pl.DataFrame, events: pl.DataFrame, damage: Damage) -> pl.Series:
    """Return the links (row) of the log's side that rest on lines between which others may be missing."""
    by_order = pl.col("rule").is_in(_BY_ORDER)
    in_log = asked.filter(by_order | pl.col("rule").is_in(_BY_HANDLE)).with_columns(by_order=by_order)

    def take(side: str, name: str) -> pl.Series:
        return events[name].gather(in_log[f"{side}_event"])

    told = pl.col("by_order") & (pl.lit(take("from", "flags")).fill_null(0) & _TOLD > 0)
    # A system call is placed by time, somewhere between the two lines of its call.
    in_call = pl.col("rule") == "syscall_in_call"
    first = pl.lit(take("from", "offset"))
    last = pl.when(in_call).then(pl.lit(take("from", "end_offset"))).otherwise(pl.lit(take("to", "offset")))
    spans = in_log.select(
        "row", "by_order", file=take("from", "file"), thread=take("from", "thread"),
        first=pl.min_horizontal(first, last), last=pl.max_horizontal(first, last), told=told,
    )  # fmt: skip
    ordered, named = spans.filter(pl.col("by_order") & ~pl.col("told")), spans.filter(~pl.col("by_order"))
    everywhere = spans.filter(pl.col("file").is_in(damage.throughout.implode()))
    found = (
        everywhere, _select_over(ordered, damage.holes, by_thread=True),
        _select_over(named, damage.holes, by_thread=False),
    )  # fmt: skip
    return pl.concat([part["row"] for part in found])


def _list_unsure_in_trace(asked: pl.DataFrame, ts_ns: pl.Series, traces: pl.DataFrame) -> pl.Series:
    """Return the links (row) of the kernel's side between whose times records of a trace may be missing."""
    in_trace = asked.filter(pl.col("rule").is_in(_BY_TRACE))
    start, end = (pl.lit(ts_ns.gather(in_trace[f"{side}_event"])) for side in ("from", "to"))
    spans = in_trace.select(
        "row", ts_ns=pl.min_horizontal(start, end), dur_ns=(end - start).abs(), cpu=pl.lit(None, traces.schema["cpu"])
    )
    return _select_over_lost(spans, traces)["row"]


def explain_launches(launches: pl.DataFrame, events: pl.DataFrame, damage: Damage) -> pl.DataFrame:
    """Return `launches` with the reason why packets of damaged logs have no call or no command.

    Args:
        launches: the table.
        events: linked events, numbered by their rows.
        damage: as `find_damage` returns it.
    """
    damaged = pl.concat([damage.throughout, damage.holes["file"]]).unique()
    if damaged.is_empty():
        return launches
    is_lossy = events["file"].gather(launches["event"]).is_in(damaged.implode())
    no_call, no_command = (pl.lit(is_lossy) & pl.col(name).is_null() for name in ("call_event", "command_event"))
    reason = pl.col("unlinked_reason")
    return launches.with_columns(
        unlinked_reason=pl.when(no_call).then(pl.lit("the log lost lines: its HIP call is not certain", CAT))
        .when(no_command).then(pl.lit("the log lost lines: its command is not certain", CAT)).otherwise(reason)
    )  # fmt: skip


def list_losses(events: pl.DataFrame, damage: Damage) -> pl.DataFrame:
    """Return rows of `losses`: heads that are missing, spans in which lines are missing, and logs damaged throughout.

    `count` is what is missing at least: one line per packet or call. Spans that overlap are one.

    Args:
        events: file, ts_ns, layer.
        damage: as `find_damage` returns it.
    """
    spans = damage.missing.sort("from_ns")
    begins = pl.col("from_ns") > pl.col("to_ns").cum_max().shift(1)
    merged = spans.group_by(begins.fill_null(value=True).cum_sum().alias("span"), maintain_order=True).agg(
        pl.col("from_ns").min(), pl.col("to_ns").max(), pl.col("count").sum()
    )
    untold = damage.throughout.filter(~damage.throughout.is_in(damage.missing["file"].implode()))
    # A line tells when the GPU worked before it.
    printed = events.select("file", "ts_ns", "layer").filter(
        pl.col("file").is_in(untold.implode()) & (pl.col("layer") != "gpu")
    )
    whole = printed.group_by("file").agg(from_ns=pl.col("ts_ns").min(), to_ns=pl.col("ts_ns").max()).sort("from_ns")
    parts = (damage.heads.select("to_ns"), merged.select("from_ns", "to_ns", "count"), whole.select("from_ns", "to_ns"))
    return pl.concat([schema.LOSSES.conform(part.with_columns(source=pl.lit("amd_log"))) for part in parts])


def _select_over(spans: pl.DataFrame, holes: pl.DataFrame, *, by_thread: bool) -> pl.DataFrame:
    """Return the spans that a hole touches.

    Args:
        spans: file, thread, first, last (bytes), and others.
        holes: of `Damage`.
        by_thread: whether only holes of the span's own thread, or of any, count.
    """
    everyone = holes.filter(pl.col("thread").is_null()) if by_thread else holes
    found = [_meet(spans, everyone, ["file"])]
    if by_thread:
        found.append(_meet(spans, holes.filter(pl.col("thread").is_not_null()), ["file", "thread"]))
    return pl.concat(found)


def _meet(spans: pl.DataFrame, holes: pl.DataFrame, keys: list[str]) -> pl.DataFrame:
    if holes.is_empty() or spans.is_empty():
        return spans.clear()
    # Of the holes that begin before the end of a span the one that reaches furthest tells whether any meets it.
    ordered = holes.sort("low")
    before = np.searchsorted(ordered["low"].to_numpy(), spans["last"].fill_null(_BEFORE_ALL).to_numpy())
    # Hardly any span meets a hole of any key: only those that do are sorted.
    furthest = np.concatenate([[_BEFORE_ALL], ordered["high"].cum_max().to_numpy()])
    near = spans.filter(pl.lit(pl.Series(furthest[before])) > pl.col("first"))
    reach = ordered.with_columns(reach=pl.col("high").cum_max().over(keys)).select(*keys, "low", "reach")
    found = near.sort("last").join_asof(
        reach, left_on="last", right_on="low", by=keys, allow_exact_matches=False, check_sortedness=False
    )
    return found.filter(pl.col("reach") > pl.col("first")).select(spans.columns)


def _select_over_lost(spans: pl.DataFrame, traces: pl.DataFrame) -> pl.DataFrame:
    """Return the spans (cpu, ts_ns, dur_ns) that a hole of their CPU, or of any, touches."""
    if traces.is_empty() or spans.is_empty():
        return spans.clear()
    numbered = spans.with_columns(end=pl.col("ts_ns") + pl.col("dur_ns"))
    here = pl.col("cpu_hole").is_null() | pl.col("cpu").is_null() | (pl.col("cpu") == pl.col("cpu_hole"))
    met = numbered.join_where(
        traces.select("from_ns", "to_ns", cpu_hole="cpu"),
        pl.col("ts_ns") < pl.col("to_ns"), pl.col("end") > pl.col("from_ns"),
    )  # fmt: skip
    return met.filter(here).select(spans.columns)


def _list_unread(ledger: pl.DataFrame) -> pl.DataFrame:
    """Return the files with records that could not be read, other than the last one: file, source, reason."""
    told = ledger.with_columns(pl.col("source", "reason").cast(pl.String))
    lossy = pl.col("reason").is_in(list_lossy()) & ~pl.col("reason").is_in(_AT_END)
    return told.filter(lossy).select("file", "source", "reason").unique()


def _list_trace_holes(losses: pl.DataFrame, unread: pl.DataFrame) -> pl.DataFrame:
    """Return cpu, from_ns, to_ns of what is missing in traces; where records could not be read, it may be at any time.

    Args:
        losses: rows of `losses` on the common clock; a side that is null is open.
        unread: as `_list_unread` returns them.
    """
    traced = pl.col("source").cast(pl.String) == "ftrace"
    spans = losses.filter(traced).select("cpu", "from_ns", "to_ns")
    anywhere = pl.DataFrame({name: [None] * unread.filter(traced).height for name in spans.columns}, spans.schema)
    return pl.concat([spans, anywhere]).with_columns(
        pl.col("from_ns").fill_null(_BEFORE_ALL), pl.col("to_ns").fill_null(_AFTER_ALL)
    )


def _list_cut_by_others(log: pl.DataFrame, events: pl.DataFrame) -> pl.Series:
    """Return the logs (file) of several processes in which a line was cut, unless a trace recorded their writes.

    Args:
        log: rows of the log.
        events: rows of all sources.
    """
    writes = events.filter((pl.col("layer") == "syscall") & (pl.col("name") == "write"))["process"].unique()
    files = log.group_by("file").agg(
        writers=pl.col("process").n_unique(),
        torn=(pl.col("flags").fill_null(0) & int(Flag.TORN) > 0).any(),
        recorded=pl.col("process").is_in(writes.drop_nulls().implode()).all(),
    )
    return files.filter("torn", ~pl.col("recorded"), pl.col("writers") > 1)["file"]


def _list_endless(log: pl.DataFrame) -> pl.Series:
    """Return the logs (file) in which no HIP call ends."""
    calls = log.filter(pl.col("layer") == "hip")
    ended = pl.col("flags").fill_null(0) & _ENTER == 0
    files = calls.group_by("file").agg(calls=pl.len(), ended=ended.sum())
    return files.filter(pl.col("ended") == 0, pl.col("calls") >= _LEAST_CALLS)["file"]


@gives(HOLES)
def _find_packet_gaps(log: pl.DataFrame) -> pl.DataFrame:
    """Return holes where the packet indexes of a ring leave numbers out, for each thread that uses the ring.

    Packets that show no index, as barriers before ROCm 7.0 do, have some of those.
    """
    rows = log.filter(
        (pl.col("layer") == "aql") & pl.col("ring").is_not_null() & (pl.col("clock") != "mono_raw")
    ).sort("file", "offset")  # fmt: skip
    is_life = pl.col("name").is_in(_LIVES)
    rows = rows.with_columns(life=is_life.cum_sum().over("file", "process", "ring"))
    packets = rows.filter(pl.col("name").is_in(PACKET_KINDS))
    index = pl.col("packet_index")
    missing = index.max() - index.min() + 1 - pl.len()
    gappy = packets.group_by(_RING).agg(missing=missing).filter(pl.col("missing") > 0)
    packets = packets.join(gappy, on=_RING, how="semi", nulls_equal=True, maintain_order="left")
    bare = packets.with_columns(bare=index.is_null().cum_sum().over(_RING).cast(pl.Int64)).drop_nulls("packet_index")
    ordered = bare.sort(*_RING, "packet_index")
    before = {name: pl.col(name).shift(1).over(_RING) for name in ("packet_index", "bare", "offset", "ts_ns")}
    gaps = ordered.with_columns(
        low=pl.min_horizontal("offset", before["offset"]), high=pl.max_horizontal("offset", before["offset"]),
        from_ns=pl.min_horizontal("ts_ns", before["ts_ns"]), to_ns=pl.max_horizontal("ts_ns", before["ts_ns"]),
        count=index - before["packet_index"] - 1 - (pl.col("bare") - before["bare"]).abs(),
    ).filter(pl.col("count") > 0).drop("thread")  # fmt: skip
    users = packets.select(*_RING, "thread").unique()
    return gaps.join(users, on=_RING, nulls_equal=True)


@gives(HOLES)
def _find_half_calls(log: pl.DataFrame) -> pl.DataFrame:
    """Return holes beside HIP calls with one line only: up to the previous or the next call of the thread.

    Nothing is missing if the log begins or ends in the call, or if the function hardly ever prints both lines. A call
    without a return shows a hole only if packets or commands follow it: HIP 7.2 prints no return for a launch into a
    graph that is being captured, and such a launch enqueues nothing.
    """
    name, thread = ["file", "name"], ["file", "thread"]
    is_call, is_half = pl.col("layer") == "hip", pl.col("flags").fill_null(0) & HALF_SEEN > 0
    shares = log.lazy().filter(is_call).group_by(name).agg(share=is_half.mean()).collect()
    prints_both = pl.col("share") <= 1 - _LEAST_WHOLE
    halves = log.lazy().filter(is_call & is_half).select("file", "name", "thread").unique().collect()
    halves = halves.join(shares.filter(prints_both), on=name, how="semi")
    if halves.is_empty():
        return HOLES.empty()
    is_work = IS_PACKET | ((pl.col("layer") == "command") & ~pl.col("name").is_in(NOT_ENQUEUES))
    columns = ("file", "process", "thread", "offset", "ts_ns", "layer", "name", "flags")
    rows = log.filter(is_call | (is_work & pl.col("thread").is_not_null())).select(columns)
    rows = rows.join(halves, on=thread, how="semi", nulls_equal=True).sort("file", "offset")
    calls = rows.with_columns(holds=(~is_call).shift(-1, fill_value=False).over(thread)).filter(is_call)
    calls = calls.join(shares, on=name, maintain_order="left").with_columns(pl.col("flags").fill_null(0))
    is_exit, is_enter = (pl.col("flags") & flag > 0 for flag in (_EXIT, _ENTER))
    entered = pl.col("offset").filter(~is_exit).min().over(thread)
    is_early = (pl.col("offset") < entered).fill_null(value=True) & _is_late(_list_begun(log))
    at_start = is_exit & ((pl.int_range(pl.len()).over(thread) == 0) | is_early)
    at_end = pl.col("offset").shift(-1).over(thread).is_null()
    is_torn = (is_exit & ~at_start) | (is_enter & pl.col("holds") & ~at_end)
    beside = {
        f"{column}_beside": pl.when(is_exit).then(pl.col(column).shift(1)).otherwise(pl.col(column).shift(-1))
        .over(thread).fill_null(pl.col(column))
        for column in ("offset", "ts_ns")
    }  # fmt: skip
    torn = calls.with_columns(**beside, is_torn=is_torn & prints_both).filter("is_torn")
    place, time = ("offset", "offset_beside"), ("ts_ns", "ts_ns_beside")
    return torn.select(
        "file", "process", "thread", low=pl.min_horizontal(place), high=pl.max_horizontal(place),
        from_ns=pl.min_horizontal(time), to_ns=pl.max_horizontal(time), count=pl.lit(1),
    )  # fmt: skip


@gives(HOLES)
def _find_dropped(log: pl.DataFrame, losses: pl.DataFrame, files: pl.Series) -> pl.DataFrame:
    """Return holes of all threads where the reader found bytes that were never stored.

    Args:
        log: rows of the log.
        losses: from_ns, to_ns: from the line before each to the one behind it.
        files: the logs with records that could not be read.
    """
    lines = log.filter(pl.col("file").is_in(files.implode())).select("file", "offset", "ts_ns").drop_nulls()
    spans = losses.select("from_ns", "to_ns").drop_nulls()
    both = lines.join(spans, how="cross").group_by("file", "from_ns", "to_ns").agg(
        low=pl.col("offset").filter(pl.col("ts_ns") <= pl.col("from_ns")).max(),
        high=pl.col("offset").filter(pl.col("ts_ns") >= pl.col("to_ns")).min(),
    )  # fmt: skip
    none = {name: pl.lit(None) for name in ("process", "thread", "count")}
    return both.drop_nulls().with_columns(**none)


@gives(HOLES)
def _place_missing(missing: pl.DataFrame) -> pl.DataFrame:
    """Return holes of all threads where bytes were written that a log does not hold in its middle."""
    none = {name: pl.lit(None) for name in ("process", "thread", "count")}
    inside = missing.drop_nulls(["before", "to_ns"])
    return inside.select("file", "from_ns", "to_ns", low="before", high="position", **none)


@gives(HOLES)
def _join_holes(found: pl.DataFrame) -> pl.DataFrame:
    """Return holes in which those of one process that meet are one, at the place that they share, of all their threads.

    Lines that are missing between two packets of one ring, and between two of another one, are missing where both are.
    """
    rows = found.sort("file", "process", "low", "high").with_row_index("row")
    number, groups, key, until = 0, [], None, 0
    for file, process, low, high in rows.select("file", "process", "low", "high").iter_rows():
        if (file, process) == key and low < until:
            until = min(until, high)
        else:
            number, key, until = number + 1, (file, process), high
        groups.append(number)
    rows = rows.with_columns(pl.Series("hole", groups, dtype=pl.Int64))
    shared = rows.group_by("hole").agg(
        pl.col("low", "from_ns").max(), pl.col("high", "to_ns").min(), pl.col("count").sum()
    )
    threads = rows.select("hole", "file", "process", "thread").unique(maintain_order=True)
    return threads.join(shared, on="hole", maintain_order="left")


def _list_begun(log: pl.DataFrame) -> pl.DataFrame:
    """Return file, process whose first lines are in a log; a line without a process counts for all in its file."""
    begins = log.filter(pl.col("name").is_in(BEGINNINGS)).select("file", "process").unique()
    unnamed = begins.filter(pl.col("process").is_null()).select("file")
    return pl.concat([begins, log.select("file", "process").unique().join(unnamed, on="file", how="semi")]).unique()


def _is_late(begun: pl.DataFrame) -> pl.Expr:
    """Tell which rows are of processes whose first lines are not in the log."""
    key = pl.struct("file", "process")
    return ~key.is_in(begun.select(key.alias("key"))["key"].implode())


def _find_heads(log: pl.DataFrame) -> pl.DataFrame:
    """Return file, to_ns of the logs that begin in the middle of a run: when their first line was printed.

    They do not have the lines that the runtime prints first, and show the end of what began before: the end of a
    command, the exit of a call, packets of a ring behind its first one, or the deletion of a queue.
    """
    late = log.filter(_is_late(_list_begun(log)))
    ends = (_late_ends(late), _late_exits(late), _late_packets(late), _late_deletions(late))
    files = pl.concat([rows["file"] for rows in ends]).unique()
    lines = log.filter(pl.col("file").is_in(files.implode()) & (pl.col("layer") != "gpu")).drop_nulls("ts_ns")
    first = lines.group_by("file").agg(pl.col("ts_ns").min(), pl.col("process").first())
    # Pieces of one log come one after the other.
    first = first.sort("ts_ns").unique("process", keep="first", maintain_order=True)
    return first.select("file", to_ns="ts_ns").sort("file")


def _late_ends(rows: pl.DataFrame) -> pl.DataFrame:
    """Return the first lines of commands that end."""
    is_command = (pl.col("layer") == "command") & ~pl.col("name").is_in([*COMMAND_MENTIONS, SUBMITTED])
    lines = rows.filter(is_command & pl.col("command").is_not_null())
    return lines.unique(["file", "process", "command"], keep="first", maintain_order=True).filter(
        pl.col("name") == COMPLETE
    )


def _late_exits(rows: pl.DataFrame) -> pl.DataFrame:
    """Return exits before their thread enters any call; up to ROCm 5.6 no line enters the first call of a process."""
    thread, is_exit = ["file", "thread"], pl.col("flags").fill_null(0) & _EXIT > 0
    begins = rows.group_by("file").agg(begins=pl.col("offset").min())
    calls = rows.filter((pl.col("layer") == "hip") & pl.col("thread").is_not_null()).join(begins, on="file")
    entered = pl.col("offset").filter(~is_exit).min().over(thread)
    early = (pl.col("offset") < entered).fill_null(value=True) & (pl.col("offset") > pl.col("begins"))
    return calls.filter(is_exit & early)


def _late_packets(rows: pl.DataFrame) -> pl.DataFrame:
    """Return the rings without first packet and Created line."""
    ring = ["file", "process", "ring"]
    lines = rows.filter((pl.col("layer") == "aql") & pl.col("ring").is_not_null() & (pl.col("clock") != "mono_raw"))
    made = lines.filter(pl.col("name") == QUEUE_CREATED)
    packets = lines.filter(pl.col("name").is_in(PACKET_KINDS)).group_by(ring).agg(pl.col("packet_index").min())
    return packets.filter(pl.col("packet_index") > 0).join(made, on=ring, how="anti", nulls_equal=True)


def _late_deletions(rows: pl.DataFrame) -> pl.DataFrame:
    """Return deleted queues where more are deleted than made so far; up to ROCm 6.1 the lines name no ring."""
    lives = rows.filter((pl.col("layer") == "aql") & pl.col("name").is_in(_LIVES))
    step = pl.when(pl.col("name") == QUEUE_CREATED).then(1).otherwise(-1)
    return lives.filter(step.cum_sum().over("file", "process") < 0)


def list_unreadable(ledger: pl.DataFrame, events: pl.DataFrame) -> pl.DataFrame:
    """Return rows of `losses`: one for each file and reason with which records of the file are lost.

    Where in the file they were is not told: the span is that of all rows of the file, or begins with the last one if
    the file ends in the damage. Lines of a HIP log are not counted: a missing line that the log itself shows may be the
    one that could not be read.

    Args:
        ledger: the table.
        events: file, ts_ns.
    """
    told = ledger.with_columns(pl.col("source", "reason").cast(pl.String))
    lossy = told.filter(pl.col("reason").is_in(list_lossy()))
    if lossy.is_empty():
        return schema.LOSSES.empty()
    rows = events.lazy().select("file", "ts_ns").join(lossy.lazy().select("file").unique(), on="file", how="semi")
    spans = rows.group_by("file").agg(first=pl.col("ts_ns").min(), last=pl.col("ts_ns").max()).collect()
    at_end = pl.col("reason").is_in(_AT_END)
    counted = pl.col("reason").is_in(list_lossy(Lost.COUNTED)) & (pl.col("source") != "amd_log")
    found = lossy.join(spans, on="file", how="left").select(
        "source",
        from_ns=pl.when(at_end).then("last").otherwise("first"),
        to_ns=pl.when(~at_end).then("last"),
        count=pl.when(counted).then("records"),
    )
    return schema.LOSSES.conform(found)
