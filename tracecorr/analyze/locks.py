"""Waits for locks: which call waited for which mutex, and which thread woke it, from the links `lock_wait`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl

from tracecorr.analyze.frames import Tables, as_text, collect
from tracecorr.analyze.values import count_of, render_ns
from tracecorr.link.locks import waits_for_mutex
from tracecorr.model.columns import is_counted

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
