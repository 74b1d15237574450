"""What two captures hold side by side: queues, kernels and their times, calls, ioctls, packets, rates."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import polars as pl

from tracecorr.analyze.calls import is_called, summarize_hip_calls
from tracecorr.analyze.compare.statistics import MIN_VALUES, Ints, Sample, bound_difference, is_significant, tell_bounds
from tracecorr.analyze.evidence import Evidence
from tracecorr.analyze.failures import summarize_failures
from tracecorr.analyze.gpu import KERNELS, list_work
from tracecorr.analyze.ioctls import summarize_ioctls
from tracecorr.analyze.kernels import UNKNOWN_KERNEL, summarize_kernels
from tracecorr.analyze.launches import count_packets, summarize_launches
from tracecorr.analyze.queues import count_doubled, count_streams_at_once, names_streams
from tracecorr.analyze.run_facts import list_machine
from tracecorr.analyze.values import Tables, collect, percentile, render_ns, total
from tracecorr.model.kernel_names import label_kernels

_SLICES = 100
# Packets more per call that are a finding: with one more in every other call.
_LEAST_PER_CALL = 0.5


def measure_rate(tables: Tables, slices: int = _SLICES) -> pl.DataFrame:
    """Return dispatches per second in equal slices of the time between the first and the last dispatch.

    Returns: slice, from_start_ns, dispatches, per_second; empty with fewer than two dispatches.
    """
    times = collect(tables("launches").filter(pl.col("kind") == "dispatch").select("packet_ns").drop_nulls())
    shape = {"slice": pl.Int64, "from_start_ns": pl.Int64, "dispatches": pl.Int64, "per_second": pl.Float64}
    if times.height < 2:
        return pl.DataFrame(schema=shape)
    first, last = times["packet_ns"].sort()[[0, -1]]
    width = max(1, -(-(last - first + 1) // slices))
    counts = times.group_by(slice=(pl.col("packet_ns") - first) // width).agg(dispatches=pl.len().cast(pl.Int64))
    whole = pl.DataFrame({"slice": range((last - first) // width + 1)}, schema={"slice": pl.Int64})
    filled = whole.join(counts, on="slice", how="left", maintain_order="left").with_columns(
        pl.col("dispatches").fill_null(0)
    )
    return filled.select(
        "slice", from_start_ns=pl.col("slice") * width, dispatches="dispatches",
        per_second=(pl.col("dispatches") * 1e9 / width).round(1),
    ).cast(shape)  # type: ignore[arg-type]  # fmt: skip


def summarize_rate(tables: Tables) -> dict[str, float | int | None]:
    """Return the number of dispatches, their span and rate, and the spread of the rate over 100 slices of the span.

    The number is None if the log has no packet.
    """
    rates = measure_rate(tables)
    at = pl.col("packet_ns")
    dispatches = tables("launches").filter(pl.col("kind") == "dispatch")
    count, span = collect(dispatches.select(at.count().alias("count"), span=at.max() - at.min())).row(0)
    # A log without any packet does not prove that there was none.
    numbers: dict[str, float | int | None] = {"dispatches": count if count_packets(tables("launches")) else None}
    if rates.is_empty():
        return numbers | dict.fromkeys(("span_ns", "per_second", "p5_per_second", "p95_per_second", "idle_slices"))
    return numbers | {
        "span_ns": span,
        "per_second": round((count - 1) * 1e9 / span, 1) if span else None,
        "p5_per_second": rates["per_second"].quantile(0.05, "nearest"),
        "p95_per_second": rates["per_second"].quantile(0.95, "nearest"),
        "idle_slices": rates.filter(pl.col("dispatches") == 0).height,
    }


def compare_rates(first: Tables, second: Tables) -> pl.DataFrame:
    """Return one row per side: span, dispatches, rate, and its spread over the slices."""
    rows = [{"side": side, **summarize_rate(tables)} for side, tables in (("A", first), ("B", second))]
    shape = {
        "side": pl.String, "dispatches": pl.Int64, "span_ns": pl.Int64, "per_second": pl.Float64,
        "p5_per_second": pl.Float64, "p95_per_second": pl.Float64, "idle_slices": pl.Int64,
    }  # fmt: skip
    return pl.DataFrame(rows, schema=shape)


# Number of the largest differences that are named.
_MAX_CHANGES = 3
# Counts that differ by less than this share of the larger one are about the same.
_LEAST_CHANGE = 0.1


def compare_packets(first: Tables, second: Tables) -> pl.DataFrame:
    """Return one row per kind of packet or copy of either side: kind, only, a_packets, b_packets."""
    sides = [summarize_launches(tables("launches")) for tables in (first, second)]
    return join_sides(sides[0], sides[1], "kind", ["packets"])


def compare_failures(first: Evidence, second: Evidence) -> pl.DataFrame:
    """Return one row per error of the runtime, notice, and failed call of either side: failure, only, a_times, b_times.

    Errors that differ only in numbers are one.
    """
    return join_sides(_list_failures(first), _list_failures(second), "failure", ["times"])


def _list_failures(side: Evidence) -> pl.DataFrame:
    told = side.complaints.select("times", failure=pl.format("{}: {}", "severity", "name"))
    failed = summarize_failures(side.tables("events"))
    calls = failed.select("times", failure=pl.format("{} returned {}", "name", "result"))
    return pl.concat([told, calls], how="diagonal").group_by("failure").agg(pl.col("times").sum())


def compare_packets_per_call(first: Tables, second: Tables) -> pl.DataFrame:
    """Return one row per HIP function and kind of packet that its calls submit on either side.

    Returns: what (`KIND per FUNCTION`), only, a_per_call, b_per_call, a_packets, b_packets, a_calls, b_calls.
    """
    sides = [_count_per_call(tables) for tables in (first, second)]
    return join_sides(sides[0], sides[1], "what", ["per_call", "packets", "calls"])


def _count_per_call(tables: Tables) -> pl.DataFrame:
    calls = tables("events").filter(is_called()).select(call_event="event", call=pl.col("name").cast(pl.String))
    numbers = calls.group_by("call").agg(calls=pl.len().cast(pl.Int64))
    packets = tables("launches").select("call_event", kind=pl.col("kind").cast(pl.String))
    counted = packets.join(calls, on="call_event").group_by("call", "kind").agg(packets=pl.len().cast(pl.Int64))
    each = counted.join(numbers, on="call").with_columns(per_call=(pl.col("packets") / pl.col("calls")).round(3))
    return collect(each.select(pl.format("{} per {}", "kind", "call").alias("what"), "per_call", "packets", "calls"))


def name_extra_packets(frame: pl.DataFrame, shown: Sequence[bool]) -> Iterator[str]:
    """Yield how many packets more a function submits in each call, if both sides recorded packets and the function.

    Args:
        frame: rows of `compare_packets_per_call`.
        shown: whether A and B have packets.
    """
    if not all(shown):
        return
    for side in ("a", "b"):
        # A kind of packet that one side never submits in calls that it makes is a difference, too.
        function = pl.col("what").str.split(" per ").list.last()
        made = frame.filter(pl.col(f"{side}_calls").is_not_null()).select(what=function)["what"]
        frame = frame.with_columns(
            pl.when(function.is_in(made.implode())).then(pl.col(f"{side}_per_call").fill_null(0)).otherwise(
                f"{side}_per_call"
            ).alias(f"{side}_per_call")
        )  # fmt: skip
    change = pl.col("b_per_call") - pl.col("a_per_call")
    rows = frame.filter(change.abs() >= _LEAST_PER_CALL).sort(-change.abs(), "what").head(_MAX_CHANGES)
    for row in rows.iter_rows(named=True):
        yield f"{row['what']}: {row['a_per_call']:.2f} in A, {row['b_per_call']:.2f} in B"


def compare_machines(first: Evidence, second: Evidence) -> pl.DataFrame:
    """Return one row per fact of the machine, its software and environment: what, a, b, differs."""
    sides = [
        list_machine(side.tables, side.info).group_by("what", maintain_order=True).agg(pl.col("value").str.join("; "))
        for side in (first, second)
    ]
    both = sides[0].join(sides[1], on="what", how="full", coalesce=True, maintain_order="left_right", suffix="_b")
    rows = both.select("what", a="value", b="value_b", differs=pl.col("value").ne_missing(pl.col("value_b")))
    return rows.sort("differs", descending=True, maintain_order=True)


def name_machine_changes(frame: pl.DataFrame) -> Iterator[str]:
    """Yield what differs between the machines, where both sides tell it; names of hosts and of log files are none."""
    same = pl.col("what").is_in(["host", "environment AMD_LOG_LEVEL_FILE"])
    told = frame.filter("differs", pl.col("a").is_not_null() & pl.col("b").is_not_null(), ~same)
    for row in told.head(_MAX_CHANGES).iter_rows(named=True):
        yield f"{row['what']}: {row['a']} in A, {row['b']} in B"
    # A variable that only one side has set is known only if both sides have their environments.
    named = frame.filter(pl.col("what").str.starts_with("environment "))
    if named["a"].count() and named["b"].count():
        alone = named.filter(pl.col("a").is_null() | pl.col("b").is_null()).head(_MAX_CHANGES)
        for row in alone.iter_rows(named=True):
            a, b = ("not set" if row[side] is None else row[side] for side in ("a", "b"))
            yield f"{row['what']}: {a} in A, {b} in B"


def tell_kinds(frame: pl.DataFrame, what: str, sources: Sequence[bool], counted: str = "") -> str:
    """Return how many rows are in both sides, and only in one; what a side did not record is no difference.

    Args:
        frame: rows of `join_sides`.
        what: what a row is, as a plural.
        sources: whether A and B have the source of these rows.
        counted: what `a_calls` and `b_calls` count, as a plural, to add their sums; empty = without sums.
    """
    known = _tell_recorded(frame, sources)
    kinds = {only: frame.filter(pl.col("only").str.starts_with(only)).height for only in ("both", "A", "B")}
    if all(known):
        told = f"{what}: {kinds['both']} in both, {kinds['A']} only in A, {kinds['B']} only in B"
    else:
        told = f"{what}: {_tell_sides([kinds['A'], kinds['B']], known)}"
    if not counted:
        return told
    sums = [int(frame[f"{side}_calls"].sum() or 0) for side in ("a", "b")]
    return f"{told}; {counted}: {_tell_sides(sums, known)}"


def _tell_sides(numbers: Sequence[int], known: Sequence[bool]) -> str:
    told = (f"{n:,}" if is_known else "unknown" for n, is_known in zip(numbers, known, strict=True))
    return ", ".join(f"{number} in {side}" for number, side in zip(told, "AB", strict=True))


def name_changes(frame: pl.DataFrame, what: str, sources: Sequence[bool]) -> Iterator[str]:
    """Yield, in one line, the counts that differ most, if both sides recorded them.

    Args:
        frame: rows of `join_sides`: name, only, and the counts of A and B.
        what: what is counted, as a plural.
        sources: whether A and B have the source of these rows.
    """
    if not all(_tell_recorded(frame, sources)):
        return
    name, _, first, second = frame.columns[:4]
    counts = frame.select(name, a=pl.col(first).fill_null(0), b=pl.col(second).fill_null(0))
    change = (pl.col("b") - pl.col("a")).abs()
    large = counts.filter((change > 0) & (change >= _LEAST_CHANGE * pl.max_horizontal("a", "b")))
    rows = large.sort(-change, name).head(_MAX_CHANGES)
    if rows.height:
        told = "; ".join(f"{named} {a:,} in A, {b:,} in B" for named, a, b in rows.iter_rows())
        yield f"largest changes of {what}: {told}"


# Number of kernels whose times are compared: the most dispatched, or those that took longest.
_MAX_KERNELS = 50


def join_sides(first: pl.DataFrame, second: pl.DataFrame, key: str, columns: list[str]) -> pl.DataFrame:
    """Return one row per value of `key` in either frame, with `a_` and `b_` columns and `only` (A, B or both)."""
    sides = [
        frame.select(key, *columns).rename({c: f"{side}_{c}" for c in columns})
        for side, frame in (("a", first), ("b", second))
    ]
    both = sides[0].join(sides[1], on=key, how="full", coalesce=True, nulls_equal=True)
    a, b = pl.col(f"a_{columns[0]}"), pl.col(f"b_{columns[0]}")
    only = pl.when(b.is_null()).then(pl.lit("A")).when(a.is_null()).then(pl.lit("B")).otherwise(pl.lit("both"))
    paired = [f"{side}_{c}" for c in columns for side in ("a", "b")]
    total = a.fill_null(0) + b.fill_null(0)
    return both.select(key, only.alias("only"), *paired).sort([total, key], descending=[True, False])


def _tell_recorded(joined: pl.DataFrame, sources: Sequence[bool]) -> list[bool]:
    """Return whether A and B recorded such rows: they have the source, or one of the rows.

    Args:
        joined: rows of `join_sides`.
        sources: whether A and B have the source of these rows.
    """
    rows = [joined.filter(pl.col("only").str.contains(f"^(?:{side}|both)")).height for side in ("A", "B")]
    return [source or rows[side] > 0 for side, source in enumerate(sources)]


def name_unrecorded(joined: pl.DataFrame, sources: Sequence[bool]) -> pl.DataFrame:
    """Return rows of `join_sides` with `only` naming the side that did not record such rows.

    Args:
        joined: rows of `join_sides`.
        sources: as `_tell_recorded` takes them.
    """
    first, second = _tell_recorded(joined, sources)
    only = pl.col("only")
    for side, other, known in (("A", "B", second), ("B", "A", first)):
        if not known:
            only = pl.when(pl.col("only") == side).then(pl.lit(f"{side} ({other}: not recorded)")).otherwise(only)
    return joined.with_columns(only=only)


def name_kernels(first: Tables, second: Tables) -> tuple[Tables, Tables]:
    """Return both sides with short kernel names that are unique over both."""
    both = pl.concat([tables("kernels").select("name") for tables in (first, second)])
    names = collect(both.drop_nulls().unique(maintain_order=True))["name"]
    labels = pl.LazyFrame({"name": names, "label": pl.Series(label_kernels(names.to_list()), dtype=pl.String)})

    def rename(tables: Tables) -> Tables:
        kernels = tables("kernels").join(labels, on="name", how="left", maintain_order="left")
        kernels = kernels.with_columns(display=pl.coalesce("label", "display")).drop("label")
        return lambda table: kernels if table == "kernels" else tables(table)

    return rename(first), rename(second)


def compare_kernels(first: Tables, second: Tables, steady: tuple[pl.DataFrame, pl.DataFrame], confidence: float,
                    rounds: int) -> pl.DataFrame:  # fmt: skip
    """Return one row per kernel name of either side: dispatches, and the median time from call to packet.

    Returns: name, only, a_dispatches, b_dispatches, a_queues, b_queues, a_streams, b_streams, a_p50_ns, b_p50_ns,
        difference_ns, low_ns, high_ns (interval of the difference), significant (null with too few launches).
    """
    found = [
        summarize_kernels(tables("launches"), tables("kernels"))
        .group_by("name", maintain_order=True)
        .agg(pl.col("dispatches").sum(), pl.col("queues").max(), pl.col("streams").max())
        for tables in (first, second)
    ]
    joined = join_sides(found[0], found[1], "name", ["dispatches", "queues", "streams"])
    ns = pl.col("packet_ns") - pl.col("call_ns")
    times = [
        side.filter(pl.col("kind") == "dispatch").select(name="kernel_name", ns=ns).drop_nulls("ns") for side in steady
    ]
    medians = _compare_shared(joined, times, confidence, rounds)
    return joined.join(medians, on="name", how="left", maintain_order="left")


# A row of `_compare_medians`.
_MEDIANS = {
    "name": pl.String, "a_p50_ns": pl.Int64, "b_p50_ns": pl.Int64, "difference_ns": pl.Int64, "low_ns": pl.Int64,
    "high_ns": pl.Int64, "significant": pl.Boolean,
}  # fmt: skip


def _compare_shared(
    joined: pl.DataFrame, times: Sequence[pl.DataFrame], confidence: float, rounds: int
) -> pl.DataFrame:
    """Return rows of `_MEDIANS` for the first kernels that both sides have.

    Args:
        joined: rows of `join_sides` by kernel name.
        times: per side name and ns, in time order.
        confidence: probability that all intervals together contain the true differences.
        rounds: bootstrap rounds.
    """
    shared = joined.filter(pl.col("only") == "both")["name"].head(_MAX_KERNELS)
    wide = 1 - (1 - confidence) / max(1, shared.len())
    a, b = (
        {key[0]: part["ns"].to_numpy() for key, part in side.partition_by("name", as_dict=True).items()}
        for side in times
    )
    none = np.empty(0, dtype=np.int64)
    rows = [_compare_medians(name, a.get(name, none), b.get(name, none), wide, rounds) for name in shared]
    return pl.DataFrame(rows, schema=_MEDIANS)


def _compare_medians(name: str, a_ns: Ints, b_ns: Ints, confidence: float, rounds: int) -> dict[str, Any]:
    """Return a row of `_MEDIANS`: both medians, their difference B - A, its interval; null with too few values.

    Args:
        name: the kernel.
        a_ns, b_ns: its times on both sides, in time order.
        confidence: probability that the interval contains the true difference.
        rounds: bootstrap rounds.
    """
    row: dict[str, Any] = dict.fromkeys(_MEDIANS)
    row["name"] = name
    if min(len(a_ns), len(b_ns)) < MIN_VALUES:
        return row
    a, b = Sample.of(a_ns), Sample.of(b_ns)
    low, high = bound_difference(a, b, confidence, rounds)[0]
    first, second = a.quantile(0.5), b.quantile(0.5)
    row |= {"a_p50_ns": first, "b_p50_ns": second, "difference_ns": second - first}
    return row | {"low_ns": low, "high_ns": high, "significant": is_significant(second - first, low, high)}


def compare_calls(first: Tables, second: Tables) -> pl.DataFrame:
    """Return one row per HIP function of either side: calls, total and median time."""
    sides = [summarize_hip_calls(tables("events")) for tables in (first, second)]
    return join_sides(sides[0], sides[1], "name", ["calls", "total_ns", "p50_ns", "p99_ns"])


def compare_ioctls(first: Tables, second: Tables) -> pl.DataFrame:
    """Return one row per ioctl of either side: calls, errors, total time."""
    sides = [summarize_ioctls(tables("events")) for tables in (first, second)]
    return join_sides(sides[0], sides[1], "name", ["calls", "errors", "total_ns"])


def compare_queues(first: Tables, second: Tables) -> pl.DataFrame:
    """Return one row per count of queues and streams, with `a`, `b` and their difference."""
    sides = [_describe_queues(tables) for tables in (first, second)]
    names = list(dict.fromkeys([*sides[0], *sides[1]]))
    # Unknown counts are null, also those of the types if the queues of a side are unknown.
    rows = [(name, *(side.get(name, None if side["queues"] is None else 0) for side in sides)) for name in names]
    frame = pl.DataFrame(rows, schema={"what": pl.String, "a": pl.Int64, "b": pl.Int64}, orient="row")
    return frame.with_columns(difference=pl.col("b") - pl.col("a"))


def _describe_queues(tables: Tables) -> dict[str, int | None]:
    queues = tables("queues").with_columns(pl.col("type").cast(pl.String)).collect()
    edges = tables("stream_queues").select("stream", "queue").unique().collect()
    per_queue = edges.group_by("queue").len()["len"]
    at_once = count_streams_at_once(tables("streams"), tables("stream_queues"))["at_once"]
    per_stream = edges.group_by("stream").len()["len"]
    files = tables("files").select(pl.col("source").cast(pl.String)).collect()["source"]
    logged, made = "amd_log" in files, queues["create_ioctl_event"].count()
    shown = count_packets(tables("launches"))
    named = shown and names_streams(tables("launches"))
    recorded = logged or queues.height > 0
    sure = recorded and not count_doubled(queues)
    numbers: dict[str, int | None] = {
        "queues": queues.height if sure else None,
        "queues made by HIP (Created lines)": queues["created_line_event"].count() if logged else None,
        "queues with dispatches": queues.filter(pl.col("dispatches") > 0).height
        if shown or (logged and queues.is_empty())
        else None,
        "CREATE_QUEUE ioctls": made if made or _shows_ioctls(tables) else None,
        "processes with queues": queues["process"].drop_nulls().n_unique() if recorded else None,
        "known GPUs with queues": queues["gpu"].drop_nulls().n_unique() if recorded else None,
        "streams": int(tables("streams").select(pl.len()).collect().item()) if logged else None,
        "streams that submitted": per_stream.len() if named else None,
        "queues shared by streams": int((at_once > 1).sum()) if named else None,
        "most streams on one queue": _largest(per_queue) if named else None,
        "most queues of one stream": _largest(per_stream) if named else None,
    }
    kinds = queues.group_by(pl.col("type").fill_null("unknown type")).len().sort("type")
    return numbers | {f"queues: {kind}": int(count) if sure else None for kind, count in kinds.iter_rows()}


def _shows_ioctls(tables: Tables) -> bool:
    return not tables("events").filter(pl.col("layer") == "ioctl").select("event").head(1).collect().is_empty()


def _largest(counts: pl.Series) -> int:
    return max(counts.to_list(), default=0)


def list_topology(tables: Tables) -> pl.DataFrame:
    """Return one row per stream and queue that it submitted to: priority, spans, in the order of first use."""
    streams = tables("streams").select("stream", "priority")
    queues = tables("queues").select("queue", "hwq", "priority_log")
    edges = tables("stream_queues").select("stream", "queue", "from_ns")
    joined = edges.join(streams, on="stream", how="left").join(queues, on="queue", how="left")
    return collect(joined.sort("from_ns", "stream").select("stream", "priority", "queue", "hwq", "priority_log"))


def compare_gpu_times(first: Tables, second: Tables, confidence: float, rounds: int) -> pl.DataFrame:
    """Return one row per kernel with a GPU time on either side, the longest total first.

    Args:
        first, second: give a table of A and of B by its name, with the names of `name_kernels`.
        confidence: probability that all intervals of the table together contain the true differences.
        rounds: bootstrap rounds.

    Returns: name, only, a_timed, b_timed (dispatches with times), a_total_ns, b_total_ns, a_p50_ns, b_p50_ns,
        difference_ns (of the medians, B - A), low_ns, high_ns (its interval), percent, significant (null with too few
        dispatches, and for kernels after the `_MAX_KERNELS` that took longest).
    """
    sides = [_list_times(tables) for tables in (first, second)]
    summed = [side.group_by("name").agg(timed=pl.len().cast(pl.Int64), total_ns=total(pl.col("ns")),
                                        p50_ns=percentile(pl.col("ns"), 50)) for side in sides]  # fmt: skip
    took = pl.sum_horizontal(pl.col("a_total_ns", "b_total_ns").fill_null(0))
    joined = join_sides(summed[0], summed[1], "name", ["timed", "total_ns", "p50_ns"])
    joined = joined.sort(took, "name", descending=[True, False])
    found = _compare_shared(joined, sides, confidence, rounds).drop("a_p50_ns", "b_p50_ns")
    percent = pl.when(pl.col("a_p50_ns") > 0).then(100 * pl.col("difference_ns") / pl.col("a_p50_ns")).round(1)
    both = joined.join(found, on="name", how="left", maintain_order="left").with_columns(percent=percent)
    return both.select(pl.exclude("significant"), "significant")


def _list_times(tables: Tables) -> pl.DataFrame:
    """Return name and ns of each kernel with GPU times, in the order of their starts."""
    timed = list_work(tables).timed.filter(pl.col("work") == KERNELS).sort("start_ns", maintain_order=True)
    names = collect(tables("kernels").select("kernel", name=pl.coalesce("display", "name")))
    named = timed.join(names, on="kernel", how="left", maintain_order="left")
    return named.select(pl.col("name").fill_null(UNKNOWN_KERNEL), ns=pl.col("end_ns") - pl.col("start_ns"))


def tell_gpu_times(found: pl.DataFrame) -> Iterator[str]:
    """Yield in words which kernels differ in their GPU times; nothing if no side has any.

    Args:
        found: what `compare_gpu_times` gave.
    """
    if found.is_empty():
        return
    sums = found.select(pl.col("a_timed", "b_timed", "a_total_ns", "b_total_ns").sum()).row(0, named=True)
    told = (
        f"{sums[f'{side}_timed']:,} in {side.upper()} ({render_ns(sums[f'{side}_total_ns'])})"
        if sums[f"{side}_timed"]
        else f"none in {side.upper()}"
        for side in ("a", "b")
    )
    yield f"kernels with GPU times, and their sum: {', '.join(told)}"
    differ = found.filter("significant")
    for row in differ.head(_MAX_CHANGES).iter_rows(named=True):
        percent = f", {row['percent']:+.1f} %" if row["percent"] is not None else ""
        yield (
            f"SIGNIFICANT GPU time of {row['name']}, p50: {render_ns(row['a_p50_ns'])} in A, "
            f"{render_ns(row['b_p50_ns'])} in B{percent} ({tell_bounds(row['low_ns'], row['high_ns'])})"
        )
    if differ.height > _MAX_CHANGES:
        yield f"... and {differ.height - _MAX_CHANGES} more kernels with different GPU times: see GPU times of kernels"
    compared = found["significant"].count()
    if not compared:
        yield f"no GPU times are compared: no kernel has {MIN_VALUES} on both sides"
        return
    yield f"GPU times of {compared - differ.height} of {compared} kernels that are compared do not differ significantly"
