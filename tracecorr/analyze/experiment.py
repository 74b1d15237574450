"""What the preemption experiment measured: latency, overlap, phases and yields, from the stamps of its workloads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from tracecorr.analyze.compare.statistics import (
    MIN_VALUES,
    QUANTILES,
    Sample,
    interval_of_difference,
    reaches_percentile,
)
from tracecorr.analyze.values import count_of, describe_ns, percentile, render_ns
from tracecorr.analyze.verdicts.model import Finding, Outcome, failed, passed, unknown

STAMPS = {"policy": pl.String, "phase": pl.String, "round": pl.Int64, "role": pl.String, "start_ns": pl.Int64,
          "return_ns": pl.Int64, "complete_ns": pl.Int64}  # fmt: skip
TOGETHER = "together"
# Launches of a phase in which both were started, that did not run while the other one was at work.
APART = "apart"
_PHASES = ("high_alone", "low_alone", "sequential", TOGETHER, APART)
_OTHER = {"high": "low", "low": "high"}


def as_rows(
    phase: str, number: int, stamps: Mapping[str, list[tuple[int, int, int]]], policy: str = "none"
) -> pl.DataFrame:
    """Return the stamps of one round as rows of `STAMPS`."""
    rows = [(policy, phase, number, role, *stamp) for role, found in stamps.items() for stamp in found]
    return pl.DataFrame(rows, schema=STAMPS, orient="row")


def took_ns() -> pl.Expr:
    """Return the time from a launch to its completion as observed by the host."""
    return pl.col("complete_ns") - pl.col("start_ns")


_NO_STATEMENT = "the verdict says nothing about preemption or priority"


def add_causes(finding: Finding, priorities: pl.DataFrame, cpus: int | None) -> Finding:
    """Return the verdict with known facts about its cause.

    Args:
        finding: the verdict on the latency.
        priorities: `priorities.summarize_priorities` of the captured rounds; empty if none was captured.
        cpus: of the machine; None if they are not known.
    """
    causes = [*_tell_refused(priorities, finding), *_tell_cpus(cpus, finding)]
    counts = {**finding.counts, **_count_refused(priorities)}
    return replace(finding, reason="; ".join([finding.reason, *causes]), counts=counts)


def _count_refused(priorities: pl.DataFrame) -> dict[str, int]:
    if priorities.is_empty() or priorities["update_refused"].null_count() == priorities.height:
        return {}
    told = priorities["update_refused"].drop_nulls()
    return {"priorities_set": told.len(), "priorities_refused": int(told.sum())}


def _tell_refused(priorities: pl.DataFrame, finding: Finding) -> Iterator[str]:
    """Yield whether the driver refused priorities; for a FAIL also if that is not recorded."""
    counts = _count_refused(priorities)
    if refused := counts.get("priorities_refused"):
        which = f"of {refused} of {counts['priorities_set']} queues of the captured rounds"
        yield f"the driver refused to set the priority (UPDATE_QUEUE) {which}, so {_NO_STATEMENT}"
    elif not counts and finding.outcome == Outcome.FAIL:
        yield "whether the driver accepted the priorities is not recorded"


def _tell_cpus(cpus: int | None, finding: Finding) -> Iterator[str]:
    """Yield, for a FAIL, that both may have waited for a CPU."""
    if finding.outcome == Outcome.FAIL:
        has = "" if cpus is None else f" (this machine has {cpus})"
        yield f"both may also have waited for a CPU{has}, which is not measured"


# Above this slow-down by instrumentation a captured round does not explain latencies.
_MAX_OVERHEAD = 1.2
_ROUNDS = 20_000
_CONFIDENCE, _P95 = 0.95, QUANTILES.index(0.95)


def judge_latency(stamps: pl.DataFrame, overhead: pl.DataFrame, kept: float) -> Finding:
    """Return whether the high one kept its latency beside the low one.

    Args:
        stamps: uninstrumented launches.
        overhead: result of `measure_overhead`; empty without captures.
        kept: limit of the P95 together, as a multiple of the P95 alone.
    """
    launches = _part_phases(stamps).filter(pl.col("role") == "high")
    alone_ns, beside_ns, apart_ns = (_list_latencies(launches, phase) for phase in ("high_alone", TOGETHER, APART))
    counts = {"launches_high_alone": len(alone_ns), "launches_together": len(beside_ns) + len(apart_ns),
              "launches_beside": len(beside_ns)}  # fmt: skip
    if few := _say_too_few(counts, stamps):
        return unknown(*few, counts)
    alone, beside = Sample.of(alone_ns), Sample.of(beside_ns)
    low, high = interval_of_difference(alone, beside, _CONFIDENCE, _ROUNDS)
    first, second = alone.quantile(0.95), beside.quantile(0.95)
    least, most = int(low[_P95]), int(high[_P95])
    counts |= {"alone_p95_ns": first, "together_p95_ns": second, "low_ns": least, "high_ns": most}
    said = f"its P95 is {render_ns(first)} alone and {render_ns(second)} beside the low one"
    said += f" (difference {render_ns(least)} to {render_ns(most)}, limit {kept:g} times that alone"
    said += f"; {_share(counts)} ran beside it)" if counts["launches_beside"] < counts["launches_together"] else ")"
    slowest = max(_ratios_of_high(overhead), default=0.0)
    if slowest > _MAX_OVERHEAD:
        return unknown(
            f"{said}, but instrumentation slows the high one {slowest} times",
            "the captured rounds do not explain the plain ones: lower --log-level, or a longer kernel", counts,
        )  # fmt: skip
    return _judge_limit(alone, beside, kept, said, counts)


def _judge_limit(alone: Sample, beside: Sample, kept: float, said: str, counts: Mapping[str, int]) -> Finding:
    """Return whether P95 beside the low one is within its limit, if the number of launches decides it."""
    limit_ns = (kept - 1) * counts["alone_p95_ns"]
    is_kept = counts["together_p95_ns"] <= kept * counts["alone_p95_ns"]
    is_chance = counts["high_ns"] > limit_ns if is_kept else counts["low_ns"] <= limit_ns
    lesser, greater, times = (beside, alone, 1 / kept) if is_kept else (alone, beside, kept)
    if is_chance:
        said += f": it is {'not longer' if is_kept else 'longer'} than the limit, but this may be chance"
    elif not _has_enough(lesser, greater, times):
        is_chance = True
        said += (
            f": with so few launches {'beside the low one' if is_kept else 'alone'} all of them may be faster than P95"
        )
    if is_kept and (not is_chance or reaches_percentile(lesser, _P95, _CONFIDENCE)):
        return passed(said, counts)
    if is_chance:
        return unknown(said, "more --rounds, on a machine without other work", counts)
    return failed(said, counts)


def _has_enough(lesser: Sample, greater: Sample, times: float) -> bool:
    """Tell whether the side with the smaller P95 has enough values to show that it is smaller.

    All n values lie below the percentile with probability share^n. Unless that is rare, the percentile may be larger
    than all values, which a bootstrap cannot show. Then it counts as smaller only if the percentile of the other side
    that n values do bound is above all of them.

    Args:
        lesser, greater: the sides.
        times: factor of the lesser side's values.
    """
    if reaches_percentile(lesser, _P95, _CONFIDENCE):
        return True
    shown = ((1 - _CONFIDENCE) / 2) ** (1 / lesser.effective)
    return greater.quantile(shown) > times * int(lesser.ordered[-1])


def _list_latencies(launches: pl.DataFrame, phase: str) -> npt.NDArray[np.int64]:
    return launches.filter(pl.col("phase") == phase).select(took_ns().alias("ns"))["ns"].to_numpy()


def _say_too_few(counts: Mapping[str, int], stamps: pl.DataFrame) -> tuple[str, str] | None:
    """Return why there are too few launches to compare, and the remedy; None if there are enough."""
    stamped = min(counts["launches_high_alone"], counts["launches_together"])
    if stamped < MIN_VALUES:
        return (
            f"{stamped} launches of the high one were stamped, {MIN_VALUES} are needed",
            "let it print a stamp per launch; more --rounds",
        )
    share = f"only {_describe_share(stamps)}"
    if counts["launches_beside"] < MIN_VALUES:
        return f"{share}, {MIN_VALUES} are needed", f"{_advise(stamps)}; more --rounds"
    if is_apart(stamps):
        return f"{share}: these rounds show each one alone", _advise(stamps)
    return None


def _share(counts: Mapping[str, int]) -> str:
    return f"{counts['launches_beside']} of {counts['launches_together']} launches"


def _ratios_of_high(overhead: pl.DataFrame) -> list[float]:
    return overhead.filter(pl.col("role") == "high")["ratio"].drop_nulls().to_list()


# With a smaller share of the high one's launches beside the low one a phase shows each one alone.
_LEAST_SHARE = 0.1
# Place of a launch: before, during or after the work of the other one.
_BEFORE, _BESIDE, _AFTER = -1, 0, 1


def _mark_beside(stamps: pl.DataFrame) -> pl.DataFrame:
    """Return the stamps with `beside` and `place`, both only for `together`.

    A workload is at work from its first start to its last completion.

    Returns: beside (whether a launch ran while the other one was at work), place (before, beside or after that).
    """
    together = pl.col("phase") == TOGETHER
    work = _list_work(stamps).with_columns(pl.col("role").replace_strict(_OTHER, return_dtype=pl.String))
    before, after = pl.col("complete_ns") < pl.col("begin_ns"), pl.col("start_ns") > pl.col("end_ns")
    # Without stamps of the other one nothing ran beside it.
    known = pl.when(before).then(_BEFORE).when(after | pl.col("begin_ns").is_null()).then(_AFTER).otherwise(_BESIDE)
    return (
        stamps.join(work, on=["round", "role"], how="left", maintain_order="left")
        .with_columns(place=pl.when(together).then(known))
        .with_columns(beside=pl.col("place") == _BESIDE)
        .drop("begin_ns", "end_ns")
    )


def _part_phases(stamps: pl.DataFrame) -> pl.DataFrame:
    """Return the stamps with `phase` split: `together` = launches beside the other one's work, the rest is `apart`."""
    left_alone = (pl.col("phase") == TOGETHER) & ~pl.col("beside")
    return _mark_beside(stamps).with_columns(phase=pl.when(left_alone).then(pl.lit(APART)).otherwise("phase"))


def is_apart(stamps: pl.DataFrame) -> bool:
    """Tell whether rounds of both at once had (nearly) no launch of the high one beside the low one's work."""
    high = _mark_beside(stamps).filter((pl.col("phase") == TOGETHER) & (pl.col("role") == "high"))
    return not high.is_empty() and high["beside"].sum() < _LEAST_SHARE * high.height


def list_overlaps(stamps: pl.DataFrame, rounds: str) -> pl.DataFrame:
    """Return one row per round of both at once and role.

    Args:
        stamps: launches.
        rounds: name of these rounds.

    Returns: rounds, round, role, launches, beside (launches while the other one was at work), began_ns
        (after the first launch of the round), worked_ns (from its first start to its last completion).
    """
    rows = _mark_beside(stamps).filter(pl.col("phase") == TOGETHER)
    found = rows.group_by("round", "role").agg(
        launches=pl.len().cast(pl.Int64), beside=pl.col("beside").sum().cast(pl.Int64),
        begin=pl.col("start_ns").min(), end=pl.col("complete_ns").max(),
    )  # fmt: skip
    return found.sort("round", "role").select(
        pl.lit(rounds).alias("rounds"), "round", "role", "launches", "beside",
        began_ns=pl.col("begin") - pl.col("begin").min().over("round"), worked_ns=pl.col("end") - pl.col("begin"),
    )  # fmt: skip


def describe_apart(stamps: pl.DataFrame, rounds: str) -> str:
    """Return that both were hardly at work at the same time, and the remedy; empty if they were.

    Args:
        stamps: launches.
        rounds: name of these rounds.
    """
    if not is_apart(stamps):
        return ""
    return (
        f"{rounds} rounds of both at once: {_describe_share(stamps)}; their launches are called `{APART}`, and do not "
        f"show both together. To have them at work at once: {_advise(stamps)}"
    )


def _describe_share(stamps: pl.DataFrame) -> str:
    """Return how many launches of the high one ran beside the low one's work."""
    high = _mark_beside(stamps).filter((pl.col("phase") == TOGETHER) & (pl.col("role") == "high"))
    launches = count_of(high.height, "launches", "launch")
    return f"{high['beside'].sum()} of {launches} of the high one ran while the low one was at work"


def _advise(stamps: pl.DataFrame) -> str:
    """Return the remedy for too few launches at the same time: more of the one that ends early."""
    work = _list_work(stamps)
    both = work.filter(pl.col("role") == "high").join(work.filter(pl.col("role") == "low"), on="round", suffix="_low")
    early = both.filter(pl.col("end_ns_low") < pl.col("end_ns"))
    role, first = ("low", early) if 2 * early.height >= both.height else ("high", both.filter(~_is_in(early)))
    begin, end = ("begin_ns", "end_ns_low") if role == "low" else ("begin_ns_low", "end_ns")
    gap = first.select((pl.col(begin) - pl.col(end)).median()).item()
    late = f" {render_ns(int(gap))} before the {_OTHER[role]} one began" if gap is not None and gap > 0 else " first"
    return f"more launches of the {role} one (--iterations of the samples), which ended{late}"


def _is_in(rows: pl.DataFrame) -> pl.Expr:
    return pl.col("round").is_in(rows["round"].implode())


def _list_work(stamps: pl.DataFrame) -> pl.DataFrame:
    """Return, per round of both at once and role, the begin and end of its work."""
    together = stamps.filter(pl.col("phase") == TOGETHER)
    return together.group_by("round", "role").agg(begin_ns=pl.col("start_ns").min(), end_ns=pl.col("complete_ns").max())


def summarize_phases(stamps: pl.DataFrame) -> pl.DataFrame:
    """Return one row per phase and role: call and launch-to-completion latency, throughput.

    Args:
        stamps: rows of `STAMPS`: one launch each, times of the workload's own CLOCK_MONOTONIC, uninstrumented.

    Returns: phase (`_part_phases`), role, rounds, launches, call_mean_ns, call_p50_ns, call_p95_ns,
        call_p99_ns, call_std_ns, and the same for `done` (launch to completion), per_second (launches by the time from
        first start to last completion; before and after the other one's work each by its own).
    """
    parts = _part_phases(stamps)
    measured = parts.with_columns(call=pl.col("return_ns") - pl.col("start_ns"), done=took_ns())
    spans = parts.group_by("phase", "role", "round", "place").agg(
        n=pl.len(), span=pl.col("complete_ns").max() - pl.col("start_ns").min()
    )
    rates = spans.group_by("phase", "role").agg(per_second=(pl.col("n").sum() * 1e9 / pl.col("span").sum()).round(1))
    figures = [expr for name in ("call", "done") for expr in _describe(name)]
    rows = measured.group_by("phase", "role").agg(
        rounds=pl.col("round").n_unique().cast(pl.Int64), launches=pl.len().cast(pl.Int64), **dict(figures)
    )
    return rows.join(rates, on=["phase", "role"]).sort(_order(), "role")


def _order() -> pl.Expr:
    return pl.col("phase").replace_strict({p: i for i, p in enumerate(_PHASES)}, default=9, return_dtype=pl.Int64)


def _describe(name: str) -> list[tuple[str, pl.Expr]]:
    value = pl.col(name)
    whole = [(f"{name}_mean_ns", value.mean().round(0).cast(pl.Int64))]
    whole += [(f"{name}_p{q}_ns", percentile(value, q)) for q in (50, 95, 99)]
    return [*whole, (f"{name}_std_ns", value.std().fill_nan(None).round(0).cast(pl.Int64))]


def summarize_throughput(stamps: pl.DataFrame) -> pl.DataFrame:
    """Return launches per second of both roles in total: one after the other, and started together.

    The time between the two, in which the second one starts, does not count.

    Returns: phase (apart where both were hardly at work at once), rounds, launches, beside (how many of them ran while
        the other one was at work, null if they ran in turn), total_per_second.
    """
    shared = _mark_beside(stamps).filter(pl.col("phase").is_in(["sequential", TOGETHER]))
    turn = pl.when(pl.col("phase") == "sequential").then("role")
    spans = shared.group_by("phase", "round", turn=turn).agg(
        n=pl.len(), beside=pl.col("beside").sum(), span=pl.col("complete_ns").max() - pl.col("start_ns").min()
    )
    together = pl.col("phase") == TOGETHER
    called = pl.lit(APART if is_apart(stamps) else TOGETHER)
    return spans.group_by("phase").agg(
        rounds=pl.col("round").n_unique().cast(pl.Int64), launches=pl.col("n").sum().cast(pl.Int64),
        beside=pl.col("beside").sum().cast(pl.Int64),
        total_per_second=(pl.col("n").sum() * 1e9 / pl.col("span").sum()).round(1),
    ).sort("phase").with_columns(
        phase=pl.when(together).then(called).otherwise("phase"), beside=pl.when(together).then("beside")
    )  # fmt: skip


def measure_overhead(stamps: pl.DataFrame, captured: pl.DataFrame) -> pl.DataFrame:
    """Return, per phase and role, the median latency without and with instrumentation, and their ratio.

    Returns: phase (`_part_phases`), role, plain_launches, captured_launches, plain_p50_ns, captured_p50_ns, ratio
        (null with fewer than `MIN_VALUES` launches on a side).
    """
    plain, instrumented = (
        _part_phases(side)
        .group_by("phase", "role")
        .agg(launches=pl.len().cast(pl.Int64), p50_ns=percentile(took_ns(), 50))
        for side in (stamps, captured)
    )
    keys = ["phase", "role"]
    # Phases without a captured round are left out.
    ran = captured["phase"].unique().to_list()
    joined = plain.join(instrumented, on=keys, how="full", suffix="_captured", coalesce=True)
    joined = joined.filter(pl.col("phase").is_in([*ran, *([APART] if TOGETHER in ran else [])])).sort(_order(), "role")
    counts = [pl.col(name).fill_null(0) for name in ("launches", "launches_captured")]
    is_known = (pl.min_horizontal(counts) >= MIN_VALUES) & (pl.col("p50_ns") > 0)
    return joined.select(
        *keys, plain_launches=counts[0], captured_launches=counts[1], plain_p50_ns="p50_ns",
        captured_p50_ns="p50_ns_captured",
        ratio=pl.when(is_known).then(pl.col("p50_ns_captured") / pl.col("p50_ns")).round(2),
    )  # fmt: skip


_STOPPED, _WENT_ON, _TOO_SHORT = "stopped", "went on", "too short to tell"
_NOT_THROUGHOUT = "not at work throughout"
# A pause is no usual one where it is so many times longer than 99 of 100 pauses of the low one alone.
TIMES = 2
_SCHEMA = {"round": pl.Int64, "start_ns": pl.Int64, "complete_ns": pl.Int64, "kind": pl.String,
           "low_completions": pl.Int64, "pause_ns": pl.Int64, "stop_ns": pl.Int64, "resume_ns": pl.Int64}  # fmt: skip
_Times = npt.NDArray[np.int64]


def _list_own_pauses(stamps: pl.DataFrame) -> pl.DataFrame:
    """Return `pause_ns`: the times between completions of the low one while it was alone."""
    alone = stamps.filter(pl.col("phase") == "low_alone").sort("round", "complete_ns")
    return alone.select(pause_ns=pl.col("complete_ns").diff().over("round")).drop_nulls()


def find_limit(stamps: pl.DataFrame) -> int | None:
    """Return the pause above which the low one counts as stopped; None if its own pauses are unknown."""
    own = _list_own_pauses(stamps)
    if own.height < MIN_VALUES:
        return None
    usual = own.select(percentile(pl.col("pause_ns"), 99)).item()
    return None if usual is None else int(TIMES * usual)


def measure_yields(stamps: pl.DataFrame) -> pl.DataFrame:
    """Return, per launch of the high one in rounds of both at once, what the low one did.

    Completions are those observed by the host: bounds of the GPU's schedule.

    Returns: round, start_ns, complete_ns, kind (stopped: there is a pause inside the launch above the limit; went on:
        there is none in a launch that is longer than the limit; too short to tell: the launch is not longer, or there
        is no limit; not at work throughout: the low one began, or ended, inside the launch or beyond it),
        low_completions (inside the launch), pause_ns (the longest time inside it without a completion), stop_ns (from
        the launch to the begin of this pause), resume_ns (from the launch to the first completion of the low one after
        it). The last two are null but for `stopped`.
    """
    together = stamps.filter(pl.col("phase") == TOGETHER)
    low = together.filter(pl.col("role") == "low").sort("complete_ns")
    high = together.filter(pl.col("role") == "high").sort("start_ns")
    limit = find_limit(stamps)
    rows: list[dict[str, Any]] = []
    for (number,), part in high.group_by("round", maintain_order=True):
        beside = low.filter(pl.col("round") == number)
        for start, complete in part.select("start_ns", "complete_ns").iter_rows():
            launch = _Launch(start, complete, beside["complete_ns"].to_numpy(), beside["start_ns"].min())
            rows.append({"round": number, **launch.describe(limit)})
    return pl.DataFrame(rows, schema=_SCHEMA)


@dataclass(frozen=True)
class _Launch:
    """Hold a launch of the high one, all completions of the low one in its round, and when that began."""

    start: int
    complete: int
    ends: _Times
    begin: Any  # int, or None without a launch of the low one

    def describe(self, limit: int | None) -> dict[str, Any]:
        first, last = np.searchsorted(self.ends, self.start, "left"), np.searchsorted(self.ends, self.complete, "right")
        points = np.concatenate([[self.start], self.ends[first:last], [self.complete]])
        pauses = np.diff(points)
        place = int(np.argmax(pauses))
        kind = self._name_kind(int(pauses[place]), int(last), limit)
        told = {"start_ns": self.start, "complete_ns": self.complete, "kind": kind,
                "low_completions": int(last - first), "pause_ns": int(pauses[place])}  # fmt: skip
        if kind == _STOPPED:
            told["stop_ns"] = int(points[place]) - self.start
            told["resume_ns"] = int(self.ends[first + place]) - self.start
        return told

    def _name_kind(self, pause: int, last: int, limit: int | None) -> str:
        if self.begin is None or self.begin > self.start or last >= len(self.ends):
            return _NOT_THROUGHOUT
        if limit is None or self.complete - self.start <= limit:
            return _TOO_SHORT
        return _STOPPED if pause > limit else _WENT_ON


def summarize_yields(stamps: pl.DataFrame) -> pl.DataFrame:
    """Return the number of launches of the high one by kind of `measure_yields`, with their times.

    Returns: what, launches, measured (what the times are), mean_ns, p50_ns, p95_ns, p99_ns, max_ns.
    """
    yields = measure_yields(stamps)
    if yields.is_empty():
        return yields.clear()
    return pl.concat(_list_rows(stamps, yields))


def _list_rows(stamps: pl.DataFrame, yields: pl.DataFrame) -> Iterator[pl.DataFrame]:
    of = {kind: yields.filter(pl.col("kind") == kind) for kind in (_STOPPED, _WENT_ON, _TOO_SHORT, _NOT_THROUGHOUT)}
    pause = "longest time inside the launch without a completion of the low one"
    yield _sum_up(of[_STOPPED], _STOPPED, pause, "pause_ns")
    if not of[_STOPPED].is_empty():
        yield _sum_up(of[_STOPPED], _STOPPED, "from the launch to the start of that time", "stop_ns")
        yield _sum_up(of[_STOPPED], _STOPPED, "from the launch to the low one's first completion after it", "resume_ns")
    yield _sum_up(of[_WENT_ON], _WENT_ON, pause, "pause_ns")
    for kind in (_TOO_SHORT, _NOT_THROUGHOUT):
        yield _sum_up(of[kind].with_columns(took=took_ns()), kind, "the launch of the high one itself", "took")
    yield _sum_up(_list_own_pauses(stamps), "low one alone", "between its completions", "pause_ns", counts=False)


def _sum_up(rows: pl.DataFrame, what: str, measured: str, column: str, *, counts: bool = True) -> pl.DataFrame:
    launches = pl.len().cast(pl.Int64) if counts else pl.lit(None, pl.Int64)
    return rows.select(
        what=pl.lit(what).first(), launches=launches, measured=pl.lit(measured).first(), **_by_name(column)
    )


def _by_name(column: str) -> dict[str, pl.Expr]:
    expressions = describe_ns(column)
    return {expr.meta.output_name(): expr for expr in expressions if expr.meta.output_name() != "total_ns"}
