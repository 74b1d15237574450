"""What was still open at the end of a capture: calls, the packets and copies behind them, the head of each ring.

The runtime prints that something ended only when it looks, so a packet without a recorded end may have ended. What is
known to have ended: packets before a printed read index, those whose signal or command was printed as ended or was
waited for to its end, and, with a barrier bit, all packets before such a one in its ring.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from tracecorr.analyze.failures import STANDSTILLS, list_lines
from tracecorr.analyze.hangs import Chain, End, follow_waits, tell_longest
from tracecorr.analyze.slow_calls import list_futexes
from tracecorr.analyze.values import Tables, as_text, collect, count_of, render_ns
from tracecorr.link.calls import list_open_calls
from tracecorr.link.locks import waits_for_mutex
from tracecorr.model.kinds import COMPLETE, NOT_ENQUEUES
from tracecorr.model.standstill import Line, Scene, Wait, Waiter, Work

_BARRIER_BIT = 0x100
_WAITS = ("host_wait", "host_active_wait", "host_blocked_wait")
# Rows that show that a signal reached its value: ROCr calls a handler then, and prints GPU times behind it.
_SIGNALLED = ("handler", "gpu_time")
_WAIT_VALUE, _WRITE_VALUE = "hipStreamWaitValue", "hipStreamWriteValue"
_MAX_TOLD, _MAX_EVENTS = 6, 20
_KEY = ["process", "thread"]


@dataclass(frozen=True)
class StillOpen:
    """Hold what was open at the end.

    Args:
        calls: open calls, the longest first: event, process, thread, tid, name, open_ns, waits_for, last_line,
            last_event.
        rings: rings with packets that have no recorded end, of processes with open calls: queue, process, first
            (index), event, kind, kernel, last (index), packets, dispatches, copies without a queue as a row without
            index.
        chains: of each open call what it waits for.
        scene: calls, and packets and copies without a recorded end.
        commands: how many enqueued commands of these processes have no end in the log.
    """

    calls: pl.DataFrame
    rings: pl.DataFrame
    chains: dict[int, Chain]
    scene: Scene
    commands: int


def find_still_open(tables: Tables) -> StillOpen:
    """Return what was still open at the end of a capture.

    Args:
        tables: gives the table of a capture by its name.
    """
    events = tables("events")
    log = events.filter(pl.col("source").cast(pl.String) == "amd_log")
    calls = _describe_calls(list_open_calls(events), log, tables("threads"))
    open_ones = calls.select("process").unique()
    launches = _list_launches(tables, open_ones, log)
    pending = launches.filter(~pl.col("ended"))
    targets = _find_targets(calls, launches, log)
    scene = _make_scene(calls, targets, pending, tables("links"), _find_locks(tables, calls))
    scene = replace(scene, lines=_list_lines(tables, open_ones) if calls.height else ())
    chains = {event: follow_waits(scene, f"call {event}") for event in calls["event"]}
    waits_for = pl.Series("waits_for", [_tell_first(chains[event]) for event in calls["event"]], pl.String)
    shown = calls.with_columns(waits_for).select(
        "event", "process", "thread", "tid", "name", "open_ns", "waits_for", "last_line", "last_event"
    )
    return StillOpen(shown, _list_rings(pending), chains, scene, _count_commands(log, open_ones))


def _describe_calls(calls: pl.DataFrame, log: pl.LazyFrame, threads: pl.LazyFrame) -> pl.DataFrame:
    """Return open calls with tid, log_tid, stream, arg, last_event, last_line and last_signal (of their thread)."""
    lines = log.join(calls.lazy().select(_KEY), on=_KEY, how="semi", nulls_equal=True).group_by(_KEY).agg(
        last_event=pl.col("event").max(), last_line=pl.col("name").cast(pl.String).sort_by("event").last(),
        last_signal=pl.col("signal").sort_by("event").last(),
    )  # fmt: skip
    given = log.select("event", "stream", "arg").join(calls.lazy().select("event"), on="event", how="semi")
    named = calls.join(collect(given), on="event", how="left", maintain_order="left")
    named = named.join(
        threads.select("thread", "tid", "log_tid").collect(), on="thread", how="left", maintain_order="left"
    )
    return named.join(collect(lines), on=_KEY, how="left", nulls_equal=True, maintain_order="left")


def _list_launches(tables: Tables, processes: pl.DataFrame, log: pl.LazyFrame) -> pl.DataFrame:
    """Return packets and copies of some processes, each with whether it is known to have ended.

    Returns: event, kind, process, queue, packet_index, signal, stream, header, call_event, call, arg (of the call),
        kernel (name), longest_ns (of the earlier runs of that kernel that have GPU times), ended.
    """
    kernels = tables("kernels").select("kernel", kernel_name=pl.coalesce("display", "name"))
    calls = log.filter(pl.col("layer").cast(pl.String) == "hip")
    calls = calls.select(*as_text("name"), "arg", call_event="event").rename({"name": "call"})
    rows = (
        tables("launches")
        .join(processes.lazy(), on="process", how="semi", nulls_equal=True)
        .select(
            "event", *as_text("kind"), "process", "queue", "packet_index", "signal", "stream", "header", "rptr",
            "call_event", "kernel", ran_ns=pl.col("gpu_end_ns") - pl.col("gpu_start_ns"),
            printed=pl.col("complete_ns").is_not_null() | pl.col("gpu_end_ns").is_not_null(),
        )
        .join(kernels, on="kernel", how="left")
        .join(calls, on="call_event", how="left")
    )  # fmt: skip
    longest = pl.when(pl.col("kernel").is_not_null()).then(pl.col("ran_ns").max().over("kernel"))
    timed = rows.with_columns(longest_ns=longest)
    found = collect(timed).drop("kernel", "ran_ns").rename({"kernel_name": "kernel"}).sort("event")
    told = _list_signalled(log, found)
    found = found.with_columns(printed=pl.col("printed") | pl.col("event").is_in(told.implode()))
    gate = pl.col("printed") & ((pl.col("header") & _BARRIER_BIT) > 0).fill_null(value=False)
    gated = pl.col("packet_index").filter(gate).max().over("queue")
    before = pl.max_horizontal(pl.col("rptr").max().over("queue") - 1, gated)
    ended = pl.col("printed") | (pl.col("queue").is_not_null() & (pl.col("packet_index") <= before))
    return found.with_columns(ended=ended.fill_null(value=False)).drop("rptr", "printed")


def _list_signalled(log: pl.LazyFrame, launches: pl.DataFrame) -> pl.Series:
    """Return the packets and copies (event) whose signal is shown to have reached its value.

    That is: its handler was called, or a thread that waited for it went on.
    """
    following = pl.col("event").max().over(_KEY)
    rows = log.select("event", *_KEY, *as_text("name"), "signal", is_last=pl.col("event") == following)
    seen = pl.col("name").is_in(_SIGNALLED) | (pl.col("name").is_in(_WAITS) & ~pl.col("is_last"))
    seen_rows = collect(rows.filter(seen & pl.col("signal").is_not_null()).select("process", "signal", "event"))
    uses = launches.filter(pl.col("signal").fill_null(0) != 0).select("process", "signal", "event", use="event")
    found = seen_rows.sort("event").join_asof(
        uses.sort("event"), on="event", by=["process", "signal"], check_sortedness=False
    )
    return found["use"].drop_nulls().unique()


def _find_locks(tables: Tables, calls: pl.DataFrame) -> dict[int, Wait]:
    """Return for each open call the mutex that its thread waits for, if that is the last thing in the trace of it."""
    if calls.is_empty():
        return {}
    threads = calls.select("thread", waiter="event").drop_nulls().unique("thread", keep="last")
    traced = tables("events").filter(pl.col("source").cast(pl.String) == "ftrace")
    last = traced.group_by("thread").agg(pl.col("event").max())
    opened = list_futexes(tables).filter(pl.col("dur_ns").is_null() & waits_for_mutex())
    found = opened.join(last, on=["thread", "event"]).join(threads.lazy(), on="thread")
    return {
        row["waiter"]: Wait(
            "lock", f"it waits for the lock at {row['lock']:#x} (futex, event {row['event']})", (),
            "who holds that lock (not recorded)", row["lock"],
        )
        for row in collect(found.filter(pl.col("event") > pl.col("waiter"))).iter_rows(named=True)
    }  # fmt: skip


def _list_lines(tables: Tables, processes: pl.DataFrame) -> tuple[Line, ...]:
    """Return the lines of the kernel log after which queues of some processes may stand."""
    mine = pl.col("process").is_null() | pl.col("process").is_in(processes["process"].implode())
    rows = list_lines(tables).filter(mine & pl.col("name").is_in(list(STANDSTILLS)))
    return tuple(
        Line(
            f"the kernel log: {row['text']} (event {row['event']})", row["means"] or "", row["helps"] or "",
            "" if row["queue"] is None else f"queue {row['queue']}", row["process"] is not None, row["event"],
        )
        for row in rows.iter_rows(named=True)
    )  # fmt: skip


def _find_targets(calls: pl.DataFrame, launches: pl.DataFrame, log: pl.LazyFrame) -> dict[int, tuple[int, str]]:
    """Return for each open call the packet or copy that it waits for, and how that is known.

    By the signal of its thread's last line; the record of the event that it is given; the last work of its stream; its
    own last packet or copy.
    """
    is_record = pl.col("name").cast(pl.String).str.starts_with("hipEventRecord")
    records = collect(log.filter(is_record & pl.col("arg").is_not_null()).select("event", "process", "arg"))
    found: dict[int, tuple[int, str]] = {}
    for call in calls.iter_rows(named=True):
        mine = launches.filter(pl.col("process").eq_missing(pl.lit(call["process"], pl.UInt32)))
        if call["last_line"] in _WAITS and call["last_signal"]:
            uses = mine.filter((pl.col("signal") == call["last_signal"]) & (pl.col("event") < call["last_event"]))
            how = f"it waits for signal {call['last_signal']:#x}"
        elif call["name"].startswith("hipEventSynchronize") and call["arg"]:
            same = (pl.col("arg") == call["arg"]) & (pl.col("event") < call["event"])
            record = records.filter(same & pl.col("process").eq_missing(pl.lit(call["process"], pl.UInt32)))
            uses = mine.filter(pl.col("call_event") == (record["event"].max() if record.height else -1))
            how = f"it waits for the HIP event {call['arg']:#x}"
        elif call["name"].startswith("hipStreamSynchronize") and call["stream"] is not None:
            uses, how = mine.filter(pl.col("stream") == call["stream"]), "it waits for the last work of its stream"
        else:
            uses, how = mine.filter(pl.col("call_event") == call["event"]), "its own last work has no recorded end"
        if uses.height:
            found[call["event"]] = (int(uses["event"][-1]), how)
    return found


def _make_scene(
    calls: pl.DataFrame,
    targets: dict[int, tuple[int, str]],
    pending: pl.DataFrame,
    links: pl.LazyFrame,
    locks: dict[int, Wait],
) -> Scene:
    """Return the open calls, what they wait for, and what may meet that; only heads, targets and writers of values."""
    rings = pending.drop_nulls(["queue", "packet_index"])
    heads = rings.sort("packet_index").unique("queue", keep="first", maintain_order=True)
    writes = pl.col("call").str.starts_with(_WRITE_VALUE).fill_null(value=False) & (pl.col("kind") == "dispatch")
    writers = pending.filter(writes)
    wanted = {event for event, _ in targets.values()} | set(heads["event"]) | set(writers["event"])
    waiting = collect(
        links.filter((pl.col("rule").cast(pl.String) == "signal_dependency") & pl.col("to_event").is_in(list(wanted)))
        .select("from_event", "to_event")
    )  # fmt: skip
    rows = {row["event"]: row for row in pending.filter(
        pl.col("event").is_in([*wanted, *waiting["from_event"]])
    ).iter_rows(named=True)}  # fmt: skip
    producers: dict[int, list[int]] = {}
    for producer, waiter in waiting.iter_rows():
        producers.setdefault(waiter, []).extend([producer] if producer in rows else [])
    by_address: dict[int, list[int]] = {}
    for row in writers.iter_rows(named=True):
        by_address.setdefault(row["arg"], []).append(row["event"])
    works = {_key(event): _make_work(row, rows, producers.get(event, []), by_address) for event, row in rows.items()}
    waiters = {
        f"call {call['event']}": _make_waiter(call, targets.get(call["event"]), works, locks.get(call["event"]))
        for call in calls.iter_rows(named=True)
    }
    return Scene(works, {f"queue {q}": _key(e) for q, e in heads.select("queue", "event").iter_rows()}, waiters)


def _key(event: int) -> str:
    return f"work {event}"


def _make_work(
    row: dict[str, Any], rows: dict[int, dict[str, Any]], producers: list[int], by_address: dict[int, list[int]]
) -> Work:
    told = _tell_work(row)
    waits = [
        Wait("signal", f"{told} waits for the end of {_tell_work(rows[event])}", (_key(event),))
        for event in producers
    ]  # fmt: skip
    if (row["call"] or "").startswith(_WAIT_VALUE) and row["kind"] in ("dispatch", "barrier_value") and row["arg"]:
        waits.append(_wait_for_value(row, rows, by_address.get(row["arg"], [])))
    header, ring = row["header"], f"queue {row['queue']}" if row["queue"] is not None else ""
    return Work(
        _key(row["event"]), told, ring, row["packet_index"], row["kernel"] or "", tuple(waits),
        row["kind"] == "barrier_or", None if header is None else bool(header & _BARRIER_BIT), row["event"],
        row["longest_ns"],
    )  # fmt: skip


def _wait_for_value(row: dict[str, Any], rows: dict[int, dict[str, Any]], writers: list[int]) -> Wait:
    told = f"{_tell_work(row)} waits for the value at {row['arg']:#x} ({row['call']})"
    writers = [event for event in writers if event != row["event"]]
    if writers:
        told += f", which {' or '.join(_tell_work(rows[event]) for event in writers[:_MAX_TOLD])} would write"
    else:
        told += "; no packet in the log writes it"
    return Wait("value", told, tuple(map(_key, writers)), f"a write of the host or of a device to {row['arg']:#x}",
                row["arg"])  # fmt: skip


def _make_waiter(
    call: dict[str, Any], target: tuple[int, str] | None, works: dict[str, Work], lock: Wait | None
) -> Waiter:
    numbers = (str(call["tid"]) if call["tid"] is not None else "", hex(call["log_tid"]) if call["log_tid"] else "")
    thread = f"thread {next(filter(None, numbers), 'not named')}"
    waits: tuple[Wait, ...] = () if lock is None else (lock,)
    if target and _key(target[0]) in works:
        work = works[_key(target[0])]
        waits = (Wait("signal", f"{target[1]}: {work.told}", (work.key,)),)
    return Waiter(f"call {call['event']}", thread, call["name"], waits, call["open_ns"], call["event"])


def _tell_work(row: dict[str, Any]) -> str:
    kernel = f" of {row['kernel']}" if row["kernel"] else ""
    if row["queue"] is None or row["packet_index"] is None:
        return f"a {row['kind']}{kernel} (event {row['event']})"
    return f"packet {row['packet_index']} of queue {row['queue']} ({row['kind']}{kernel}, event {row['event']})"


def _tell_first(chain: Chain) -> str | None:
    return chain.steps[0] if chain.steps else None


def _list_rings(pending: pl.DataFrame) -> pl.DataFrame:
    rows = pending.sort("packet_index", nulls_last=True)
    first = (pl.col(name).first().alias(alias) for name, alias in (
        ("packet_index", "first"), ("event", "event"), ("kind", "kind"), ("kernel", "kernel")
    ))  # fmt: skip
    return rows.group_by("process", "queue").agg(
        *first, last=pl.col("packet_index").max(), packets=pl.len().cast(pl.Int64),
        dispatches=(pl.col("kind") == "dispatch").sum().cast(pl.Int64),
    ).sort("process", "queue", nulls_last=True)  # fmt: skip


def _count_commands(log: pl.LazyFrame, processes: pl.DataFrame) -> int:
    """Return how many commands were enqueued and have no end behind that in the log."""
    rows = log.filter((pl.col("layer").cast(pl.String) == "command") & pl.col("command").is_not_null())
    rows = rows.join(processes.lazy(), on="process", how="semi", nulls_equal=True)
    name = pl.col("name").cast(pl.String)
    ends, begins = (pl.col("event").filter(which).max() for which in (name == COMPLETE, ~name.is_in(NOT_ENQUEUES)))
    last = rows.group_by("process", "command").agg(end=ends, begin=begins).filter(pl.col("begin").is_not_null())
    return int(collect(last.select((pl.col("end").is_null() | (pl.col("end") < pl.col("begin"))).sum())).item() or 0)


def describe_still_open(found: StillOpen) -> Iterator[str]:
    """Yield what was open, one fact a line: calls with their chains, rings, how much of the log may be missing."""
    rings = {row["queue"]: row for row in found.rings.iter_rows(named=True) if row["queue"] is not None}
    for row in found.calls.head(_MAX_TOLD).iter_rows(named=True):
        chain = found.chains[row["event"]]
        yield _tell_call(row, found.scene)
        yield from (f"{row['name']}: {step}" for step in chain.steps)
        yield f"{row['name']}: {_tell_end(chain, found.scene, rings)}"
    if (more := found.calls.height - _MAX_TOLD) > 0:
        yield f"... and {count_of(more, 'more open call')}: section Calls that were still open"
    if rings:
        told = (f"queue {q}: {count_of(r['packets'], 'packet')} from {r['first']} on" for q, r in rings.items())
        yield f"without a recorded end (the runtime prints an end only when it checks): {'; '.join(told)}"
    yield from (line.told for line in found.scene.lines[:_MAX_TOLD])
    if (more := len(found.scene.lines) - _MAX_TOLD) > 0:
        yield f"... and {count_of(more, 'more line')} of the kernel log: section The kernel log"
    if found.commands:
        yield f"{count_of(found.commands, 'command')} without an end in the log"
    if found.calls.height:
        yield (
            "how much of the log may be missing: the runtime writes each record at once, so at most one record if the "
            "process was killed; what a pipe or a cut file dropped is unknown"
        )


def _tell_call(row: dict[str, Any], scene: Scene) -> str:
    who = scene.waiters[f"call {row['event']}"].told
    last = row["last_line"] if row["last_event"] != row["event"] else "that of the call itself"
    return (
        f"the log ends inside {row['name']} (event {row['event']}, {who}), open for at least "
        f"{render_ns(row['open_ns'])}; last line of the thread: {last} (event {row['last_event']})"
    )


def _tell_end(chain: Chain, scene: Scene, rings: dict[int, dict[str, Any]]) -> str:
    """Return what the end of a chain means."""
    if chain.end is End.CIRCLE:
        unless = f"; only {' or '.join(dict.fromkeys(chain.others))} could end it" if chain.others else ""
        return f"a deadlock{'' if chain.is_gated else ', if no packet passes those before it'}{unless}"
    work = scene.works.get(chain.last)
    if work is None:
        return f"{' or '.join(chain.others)} must end that" if chain.others else "what it waits for is not in the log"
    if chain.end is End.UNSEEN:
        return "what would end that is not in the log"
    ring = next((r for q, r in rings.items() if f"queue {q}" == work.ring), None)
    if ring is None or not ring["dispatches"] or work.kernel:
        runs = f"{work.told} runs{tell_longest(work)}, or its end is not recorded"
        return f"{runs}; the log does not show whether it would end"
    return (
        f"{work.told} is the first one without a recorded end in its ring; with those up to packet {ring['last']} that "
        f"are {count_of(ring['dispatches'], 'dispatches', 'dispatch')}: which of them ran is not in the log"
    )


def list_events(found: StillOpen) -> tuple[int, ...]:
    """Return the rows of `events` that the answer rests on, calls first."""
    behind = [event for chain in found.chains.values() for event in chain.events]
    lines = [line.event for line in found.scene.lines if line.event is not None]
    return tuple(dict.fromkeys([*found.calls["event"], *behind, *lines]))[:_MAX_EVENTS]
