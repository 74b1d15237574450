"""Where the time of slow HIP calls went: what of the time of a call is known, by what it was spent on; mutexes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import polars as pl

from tracecorr.analyze.calls import is_called
from tracecorr.analyze.values import Tables, add_gaps, as_text, collect, count_of, render_ns
from tracecorr.link.locks import waits_for_mutex
from tracecorr.model.columns import is_counted
from tracecorr.model.kinds import QUEUE_CREATED, QUEUES_COUNTED

_MOST_CALLS = 10
# What a part of a call is: the time of a queue's creation is that between two lines of the log.
_CHILD, _QUEUE, _SYSCALL, _IOCTL, _LOCK, _OFF_CPU = (
    "child call",
    "making a queue",
    "system call",
    "ioctl",
    "lock",
    "off CPU",
)
_FUTEXES = ("futex", "futex_wait", "futex_waitv")
_RECORD_MORE = "record with --event-set full to see whether it ran"


def summarize_slow_calls(tables: Tables, call: int | None = None) -> pl.DataFrame:
    """Return the longest call of each HIP function, the ten longest of these, or one call, taken apart.

    Parts may lie in each other: a system call in the making of a queue counts in both. `rest_ns` is the time in which
    none of them lies.

    Args:
        tables: of a capture.
        call: event of a HIP call whose start and end were seen, and that no other one encloses; no row if it is none.

    Returns: call_event, summary (the rest in words), name, thread, dur_ns, child_ns, queue_ns, of_queue, of_queue_ns
        (the longest system call or ioctl in the making of the queue), syscalls (number), syscall_ns, longest,
        longest_ns (of the system calls and ioctls), ioctls, ioctl_ns, lock_ns, off_cpu_ns (null if no switch of the
        thread is recorded), rest_ns.
    """
    calls = _choose_calls(tables, call)
    parts = _list_parts(tables, calls)
    named = {_CHILD: "child", _QUEUE: "queue", _SYSCALL: "syscall", _IOCTL: "ioctl", _LOCK: "lock", _OFF_CPU: "off_cpu"}
    ns, kind = pl.col("end_ns") - pl.col("from_ns"), pl.col("part")
    kernel = kind.is_in([_SYSCALL, _IOCTL, _LOCK])
    summed = parts.group_by("call").agg(
        *(ns.filter(kind == part).sum().alias(f"{name}_ns") for part, name in named.items()),
        syscalls=(kind == _SYSCALL).sum().cast(pl.Int64), ioctls=(kind == _IOCTL).sum().cast(pl.Int64),
        longest=pl.col("name").filter(kernel).get(ns.filter(kernel).arg_max(), null_on_oob=True),
        longest_ns=ns.filter(kernel).max(),
    )  # fmt: skip
    found = calls.join(summed, on="call", how="left", maintain_order="left")
    found = found.join(_find_longest_of_queue(parts), on="call", how="left", maintain_order="left")
    found = found.join(_measure_cover(parts), on="call", how="left", maintain_order="left")
    counted = [f"{name}_ns" for name in named.values() if name != "off_cpu"] + ["syscalls", "ioctls"]
    found = found.with_columns(
        pl.col(counted).fill_null(0),
        off_cpu_ns=pl.when("switched").then(pl.col("off_cpu_ns").fill_null(0)),
        rest_ns=pl.col("dur_ns") - pl.col("covered_ns").fill_null(0),
    )
    told = [_describe_slow_call(row) for row in found.iter_rows(named=True)]
    columns = (
        "name", "thread", "dur_ns", "child_ns", "queue_ns", "of_queue", "of_queue_ns", "syscalls", "syscall_ns",
        "longest", "longest_ns", "ioctls", "ioctl_ns", "lock_ns", "off_cpu_ns", "rest_ns",
    )  # fmt: skip
    return found.select(pl.col("call").alias("call_event"), pl.Series("summary", told, dtype=pl.String), *columns)


def _describe_slow_call(row: Mapping[str, Any]) -> str:
    """Return a row of `summarize_slow_calls` in words."""
    return f"{row['name']} {render_ns(row['dur_ns'])}: {'; '.join(_describe_parts(row)) or 'nothing in it is recorded'}"


def _describe_parts(row: Mapping[str, Any]) -> Iterator[str]:
    if row["queue_ns"]:
        inside = f", of it one {row['of_queue']} of {render_ns(row['of_queue_ns'])}" if row["of_queue_ns"] else ""
        yield f"{render_ns(row['queue_ns'])} making the queue{inside}"
    if row["child_ns"]:
        yield f"{render_ns(row['child_ns'])} in HIP calls inside"
    for what, count, one, many in (
        ("syscall", row["syscalls"], "system call", "system calls"), ("ioctl", row["ioctls"], "ioctl", "ioctls"),
    ):  # fmt: skip
        if count:
            yield f"{render_ns(row[f'{what}_ns'])} in {count_of(count, many, one)}"
    if row["longest_ns"] and row["longest_ns"] != row["of_queue_ns"]:
        yield f"the longest of them: one {row['longest']} of {render_ns(row['longest_ns'])}"
    if row["lock_ns"]:
        yield f"{render_ns(row['lock_ns'])} waiting for locks (futex)"
    if row["off_cpu_ns"]:
        yield f"{render_ns(row['off_cpu_ns'])} off the CPU"
    if row["rest_ns"] > 0:
        yield f"{render_ns(row['rest_ns'])} not explained" + _explain_rest(row)


def _explain_rest(row: Mapping[str, Any]) -> str:
    """Return why the rest of a call is not explained, and what would."""
    if row["off_cpu_ns"] is not None:
        return ": the thread ran on a CPU"
    return f": {_RECORD_MORE}" if row["traced"] else ": no kernel trace covers it"


def _choose_calls(tables: Tables, call: int | None) -> pl.DataFrame:
    """Return the longest call of each function, or the one given, and what the trace shows of its thread.

    Returns: call, name, thread, tid, dur_ns, from_ns, until_ns, traced (system calls), switched.
    """
    events = tables("events")
    outer = events.filter(is_called(), pl.col("dur_ns").is_not_null(), pl.col("parent").is_null())
    outer = outer if call is None else outer.filter(pl.col("event") == call)
    rows = outer.select("thread", "tid", "dur_ns", *as_text("name"), call="event", from_ns="ts_ns")
    longest = rows.sort("dur_ns", "call", descending=[True, False]).unique("name", keep="first", maintain_order=True)
    chosen = collect(longest.head(_MOST_CALLS).with_columns(until_ns=pl.col("from_ns") + pl.col("dur_ns")))
    inside = events.filter(pl.col("thread").is_in(chosen["thread"].drop_nulls().unique().implode()))
    kernel = pl.col("layer").cast(pl.String).is_in(["syscall", "ioctl"])
    traced = inside.filter(kernel).select(pl.col("thread").unique())
    switched = inside.filter(pl.col("name").cast(pl.String) == _SWITCH).select(pl.col("thread").unique())
    for name, threads in (("traced", traced), ("switched", switched)):
        known = collect(threads)["thread"].drop_nulls()
        chosen = chosen.with_columns(pl.col("thread").is_in(known.implode()).fill_null(value=False).alias(name))
    return chosen


_SWITCH = "sched_switch"
_PARTS = {"part": pl.String, "name": pl.String, "call": pl.Int64, "from_ns": pl.Int64, "end_ns": pl.Int64}


def _list_parts(tables: Tables, calls: pl.DataFrame) -> pl.DataFrame:
    """Return the parts of calls: call, part, name, from_ns, end_ns, cut at the ends of the call."""
    events = tables("events").with_columns(as_text("layer", "name"))
    spans = calls.select("call", "from_ns", "until_ns", "thread")
    rows = collect(events.filter(pl.col("chain").is_in(calls["call"].implode())))
    layer, name = pl.col("layer"), pl.col("name")
    part = (
        pl.when((layer == "hip") & pl.col("parent").is_in(calls["call"].implode())).then(pl.lit(_CHILD))
        .when((layer == "syscall") & name.is_in(_FUTEXES)).then(pl.lit(_LOCK))
        .when(layer == "syscall").then(pl.lit(_SYSCALL))
        .when(layer == "ioctl").then(pl.lit(_IOCTL))
    )  # fmt: skip
    timed = rows.with_columns(part=part).drop_nulls(["part", "dur_ns"]).select(
        "part", "name", call="chain", from_ns="ts_ns", end_ns=pl.col("ts_ns") + pl.col("dur_ns")
    )  # fmt: skip
    found = pl.concat([timed, _list_creations(rows), _list_switches(tables, spans)])
    cut = found.join(spans.select("call", low="from_ns", high="until_ns"), on="call")
    cut = cut.with_columns(from_ns=pl.max_horizontal("from_ns", "low"), end_ns=pl.min_horizontal("end_ns", "high"))
    return cut.filter(pl.col("end_ns") > pl.col("from_ns")).drop("low", "high")


def _list_creations(rows: pl.DataFrame) -> pl.DataFrame:
    """Return the times between the lines that count the queues and that tell of the one made."""
    lines = rows.filter(pl.col("name").is_in([QUEUES_COUNTED, QUEUE_CREATED])).sort("event")
    before = pl.when(pl.col("name") == QUEUES_COUNTED).then("ts_ns").forward_fill().over("chain")
    made = lines.with_columns(counted=before).filter(pl.col("name") == QUEUE_CREATED).drop_nulls("counted")
    return made.select(part=pl.lit(_QUEUE), name="name", call="chain", from_ns="counted", end_ns="ts_ns")


def _list_switches(tables: Tables, spans: pl.DataFrame) -> pl.DataFrame:
    """Return the times in which the threads of calls were off the CPU: from a switch away to the next one back."""
    threads = collect(tables("threads").select("thread", "tid")).drop_nulls()
    wanted = spans.select("call", "thread", "from_ns", "until_ns").join(threads, on="thread")
    switches = tables("events").filter(pl.col("name").cast(pl.String) == _SWITCH).select("event", "ts_ns", "tid")
    following = tables("args").filter(pl.col("key").cast(pl.String) == "next_pid").select("event", following="u64")
    rows = collect(switches.join(following, on="event", how="left"))
    if rows.is_empty():
        return pl.DataFrame(schema=_PARTS)
    away = rows.select("ts_ns", "tid", is_away=pl.lit(value=True))
    back = rows.select("ts_ns", tid=pl.col("following").cast(pl.Int32), is_away=pl.lit(value=False))
    both = pl.concat([away, back]).join(wanted.select("tid").unique(), on="tid", how="semi").sort("tid", "ts_ns")
    spent = both.with_columns(end_ns=pl.col("ts_ns").shift(-1).over("tid")).filter("is_away").drop_nulls("end_ns")
    inside = wanted.join(spent, on="tid")
    inside = inside.filter(pl.col("end_ns") > pl.col("from_ns"), pl.col("ts_ns") < pl.col("until_ns"))
    return inside.select(part=pl.lit(_OFF_CPU), name=pl.lit(_OFF_CPU), call="call", from_ns="ts_ns", end_ns="end_ns")


def _find_longest_of_queue(parts: pl.DataFrame) -> pl.DataFrame:
    """Return of each call that makes a queue the longest system call or ioctl in it: call, of_queue, of_queue_ns."""
    made = parts.filter(pl.col("part") == _QUEUE).select("call", low="from_ns", high="end_ns")
    rows = parts.filter(pl.col("part").is_in([_SYSCALL, _IOCTL, _LOCK])).join(made, on="call")
    inside = rows.filter(pl.col("from_ns") >= pl.col("low"), pl.col("end_ns") <= pl.col("high"))
    longest = inside.with_columns(ns=pl.col("end_ns") - pl.col("from_ns")).sort("ns", descending=True)
    return longest.unique("call", keep="first", maintain_order=True).select("call", of_queue="name", of_queue_ns="ns")


def _measure_cover(parts: pl.DataFrame) -> pl.DataFrame:
    """Return of each call (call, covered_ns) the time in which at least one of its parts lies."""
    spans = add_gaps(parts.rename({"from_ns": "start_ns"}), ["call"])
    return spans.group_by("call").agg(pl.col("covered_ns").sum())


_SAME = ["process", "lock", "call", "woken_by", "waker_call"]


def summarize_lock_waits(tables: Tables) -> pl.DataFrame:
    """Return the waits for mutexes that ended, those of one call at one lock by one waker together, the longest first.

    Args:
        tables: gives the table of a capture by its name.

    Returns: event (of the longest wait), process, lock (address), call (HIP call around the wait), waits, threads,
        waited_ns (in all), longest_ns, tid (of the longest), woken_by (tid), waker_call (HIP call around the wake-up),
        wake_event, summary (the same in words).
    """
    futexes = list_futexes(tables)
    waits = futexes.filter(waits_for_mutex() & (pl.col("result") == "0") & pl.col("dur_ns").is_not_null())
    links = tables("links").filter(pl.col("rule").cast(pl.String) == "lock_wait")
    wakes = futexes.select(wake_event="event", woken_by="tid", waker_call="call")
    ended = links.select(event="to_event", wake_event="from_event").join(wakes, on="wake_event", how="left")
    rows = waits.join(ended, on="event", how="left").sort("dur_ns", "event", descending=[True, False])
    grouped = rows.group_by(_SAME, maintain_order=True).agg(
        pl.col("event", "tid", "wake_event").first(), waits=pl.len().cast(pl.Int64),
        threads=pl.col("tid").n_unique().cast(pl.Int64), waited_ns=pl.col("dur_ns").sum(),
        longest_ns=pl.col("dur_ns").max(),
    )  # fmt: skip
    found = collect(grouped.sort("waited_ns", "event", descending=[True, False]))
    columns = (
        "event", "process", "lock", "call", "waits", "threads", "waited_ns", "longest_ns", "tid", "woken_by",
        "waker_call", "wake_event",
    )  # fmt: skip
    words = [_describe_waits(row) for row in found.iter_rows(named=True)]
    return found.select(*columns, summary=pl.Series(words, dtype=pl.String))


def list_futexes(tables: Tables) -> pl.LazyFrame:
    """Return the futex calls of a trace: event, process, thread, tid, dur_ns, chain, result, lock, op, val, call."""
    is_futex = (pl.col("layer").cast(pl.String) == "syscall") & (pl.col("name").cast(pl.String) == "futex")
    rows = tables("events").filter(is_futex & is_counted())
    rows = rows.select("event", "process", "thread", "tid", "dur_ns", "chain", *as_text("result"))
    key = pl.col("key").cast(pl.String)
    names = {"lock": "uaddr", "op": "op", "val": "val"}
    args = tables("args").join(rows.select("event"), on="event", how="semi").group_by("event")
    given = args.agg(pl.col("u64").filter(key == name).first().alias(column) for column, name in names.items())
    roots = tables("events").join(rows.select(event="chain"), on="event", how="semi")
    named = roots.select(pl.col("name").cast(pl.String).alias("call"), chain="event")
    return rows.join(given, on="event").join(named, on="chain", how="left")


def _describe_waits(row: Mapping[str, Any]) -> str:
    what = row["call"] or "code outside of HIP calls"
    if row["threads"] == 1:
        told = f"{what} of thread {row['tid']} waited {render_ns(row['waited_ns'])}"
    else:
        told = f"{what} of {row['threads']} threads waited {render_ns(row['waited_ns'])} in all"
    if row["waits"] > 1:
        told += f" ({count_of(row['waits'], 'wait')}, the longest {render_ns(row['longest_ns'])})"
    told += f" for lock {row['lock']:#x}"
    if row["woken_by"] is None:
        return f"{told}; who woke it is not recorded"
    inside = f", which was in {row['waker_call']}" if row["waker_call"] else ""
    return f"{told}; woken by thread {row['woken_by']}{inside}"
