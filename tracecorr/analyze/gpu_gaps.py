"""Where was a GPU longest without a kernel, and what did the host do there?"""

from __future__ import annotations

from typing import Any

import polars as pl

from tracecorr.analyze.frames import Tables, as_text, collect
from tracecorr.model.sights import is_counted

_OF_ONE = ["gpu", "agent"]
_MAX_GAPS = 10
_HOST = {"call": pl.String, "host_call": pl.String, "in_it_ns": pl.Int64, "outside_ns": pl.Int64}


def add_waits(spans: pl.DataFrame) -> pl.DataFrame:
    """Return rows of `spans.add_gaps` of `GpuWork.timed` with what of the gap in front of each is whose.

    Returns: `spans` with unsubmitted_ns (time of the gap before the packet's line was printed; of a profile before its
        call began), in_ring_ns (time of it after the doorbell had been rung for sure); null without a gap, and where
        the moment is not known. What remains of a gap lies between the two.
    """
    began, gap = pl.col("start_ns") - pl.col("gap_ns"), pl.col("gap_ns")
    asked, rung = pl.col("asked_ns") - began, pl.col("start_ns") - pl.col("rung_ns")
    return spans.with_columns(
        unsubmitted_ns=pl.when(asked.is_not_null()).then(pl.min_horizontal(asked.clip(lower_bound=0), gap)),
        in_ring_ns=pl.when(rung.is_not_null() & gap.is_not_null()).then(
            pl.min_horizontal(rung.clip(lower_bound=0), gap)
        ),
    )


def list_gaps(spans: pl.DataFrame, tables: Tables) -> pl.DataFrame:
    """Return the ten longest times without a kernel on each GPU.

    Args:
        spans: rows of `spans.add_gaps`, of kernels.
        tables: gives the table of a capture by its name.

    Returns: gpu, agent, from_ns, idle_ns, event (the packet that ended it), kernel, queue, call (that submitted it),
        unsubmitted_ns, in_ring_ns (`add_waits`), host_call (where the thread of the call was longest in
        unsubmitted_ns), in_it_ns, outside_ns (the time of it outside of HIP calls; null = not known), error_ns (how
        far unsubmitted_ns and in_ring_ns may lie from the truth; null = unknown).
    """
    least = pl.col("gap_ns").top_k(_MAX_GAPS).min().over(_OF_ONE)
    gaps = add_waits(spans.filter(pl.col("gap_ns") >= least)).sort("gap_ns", "start_ns", descending=[True, False])
    gaps = gaps.filter(pl.int_range(pl.len()).over(_OF_ONE) < _MAX_GAPS)
    gaps = gaps.sort(_OF_ONE, nulls_last=True, maintain_order=True)
    names = collect(tables("kernels").select("kernel", name=pl.coalesce("display", "name")))
    gaps = gaps.join(names, on="kernel", how="left", maintain_order="left")
    calls = _list_calls(gaps, tables)
    host = [_find_host(gap, calls) for gap in gaps.iter_rows(named=True)]
    return gaps.hstack(pl.DataFrame(host, schema=_HOST, orient="row")).select(
        *_OF_ONE, from_ns=pl.col("start_ns") - pl.col("gap_ns"), idle_ns="gap_ns", event="event", kernel="name",
        queue="queue", call="call", unsubmitted_ns="unsubmitted_ns", in_ring_ns="in_ring_ns", host_call="host_call",
        in_it_ns="in_it_ns", outside_ns="outside_ns", error_ns="wait_error_ns",
    )  # fmt: skip


def _list_calls(gaps: pl.DataFrame, tables: Tables) -> pl.DataFrame:
    """Return the outermost HIP calls of the threads that ended a gap: event, name, thread, start_ns, end_ns."""
    of_profile = bool(gaps["of_profile"].any())
    is_ours = (pl.col("source").cast(pl.String) == "rocprof") == of_profile
    outer = (pl.col("chain") == pl.col("event")) | pl.lit(of_profile)
    calls = tables("events").filter(pl.col("layer").cast(pl.String) == "hip", is_ours, is_counted(), outer)
    thread = pl.col("thread").cast(pl.Int64)
    if of_profile:
        tids = tables("args").filter(pl.col("key").cast(pl.String) == "tid").select("event", called_by="u64")
        calls = calls.join(tids.unique("event"), on="event", how="left")
        thread = pl.col("called_by").cast(pl.Int64, strict=False)
    asked = thread.is_in(gaps["thread"].drop_nulls().unique().implode())
    named = pl.col("event").is_in(gaps["call_event"].drop_nulls().unique().implode())
    end = pl.col("ts_ns") + pl.col("dur_ns")
    return collect(
        calls.filter(asked | named).select("event", *as_text("name"), thread=thread, start_ns="ts_ns", end_ns=end)
    )


def _find_host(gap: dict[str, Any], calls: pl.DataFrame) -> tuple[str | None, str | None, int | None, int | None]:
    """Return the name of the call that ended a gap, and where its thread was in the gap until it submitted."""
    named = calls.filter(pl.col("event") == (-1 if gap["call_event"] is None else gap["call_event"]))["name"]
    call = named[0] if len(named) else None
    if gap["thread"] is None or not gap["unsubmitted_ns"]:
        return call, None, None, None
    began = gap["start_ns"] - gap["gap_ns"]
    until = began + gap["unsubmitted_ns"]
    inside = pl.min_horizontal("end_ns", pl.lit(until)) - pl.max_horizontal("start_ns", pl.lit(began))
    own = calls.filter(pl.col("thread") == gap["thread"])
    rows = own.drop_nulls("end_ns").select("name", ns=inside).filter(pl.col("ns") > 0)
    longest = rows.sort("ns", descending=True).head(1)
    name, ns = longest.row(0) if longest.height else (None, None)
    # A call of which one line is seen may have lasted through it.
    is_sure = own.filter(pl.col("end_ns").is_null() & (pl.col("start_ns") < until)).is_empty()
    return call, name, ns, until - began - int(rows["ns"].sum()) if is_sure else None
