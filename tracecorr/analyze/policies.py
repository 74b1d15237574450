"""What each preemption policy did to both workloads, from their stamps; what such numbers can show, and what not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from tracecorr.analyze.compare.statistics import MIN_VALUES, QUANTILES, Sample, resample
from tracecorr.analyze.experiment import TOGETHER, took_ns
from tracecorr.analyze.values import percentile, render_ns
from tracecorr.analyze.verdicts.model import Finding

_NONE = "none"
_P95 = QUANTILES.index(0.95)
_ROUNDS, _SEED, _CONFIDENCE = 4000, 44, 0.95
_Times = npt.NDArray[np.int64]
# What the policy can act on, whatever the numbers are (facts of the driver and of the hardware's scheduler).
_MECHANISMS = {
    _NONE: "arbitration: the GPU gives the next workgroup to either of them",
    "priority": "arbitration: the higher queue gets the next workgroup; waves that run go on to their end",
    "cumask": "isolation: each has its own CUs and never more; a partition (CPX) isolates memory and queues, too",
    "slice": "host hold-back: the low one launches nothing outside of its slice; its queued packets go on",
    "event": "host hold-back: the low one launches nothing while the high one is busy; its queued packets go on",
    "stop": "host hold-back: the low one's host code is stopped; its queued packets and running kernels go on",
    "suspend": "preemption: the driver takes the low one's queues off the GPU and saves their waves; each switch also "
    "unmaps the high one's queues once",
    "command": "host hold-back by a policy of the user's",
}
# These do not wait for the end of a kernel.
_NO_HOST = ("cumask", "suspend")
_MOVES_SHOWN = ("evictions", "suspends")


def summarize_policies(stamps: pl.DataFrame) -> pl.DataFrame:
    """Return one row per policy: the latency of the high one beside the low one, and what that cost.

    Args:
        stamps: rows of `experiment.STAMPS`, uninstrumented.

    Returns: policy, launches (of the high one, both at once), mean_ns, p50_ns, p95_ns, p99_ns, std_ns (launch to
        completion), p95_least_ns, p95_most_ns (bootstrap, 95 %; null with too few launches), alone_p50_ns, alone_p95_ns
        (the high one alone under this policy), cost (its median alone, as a multiple of that without a policy).
    """
    high = stamps.filter(pl.col("role") == "high").with_columns(took=took_ns())
    took, beside = pl.col("took"), high.filter(pl.col("phase") == TOGETHER)
    figures = beside.group_by("policy", maintain_order=True).agg(
        launches=pl.len().cast(pl.Int64), mean_ns=took.mean().round(0).cast(pl.Int64),
        p50_ns=percentile(took, 50), p95_ns=percentile(took, 95), p99_ns=percentile(took, 99),
        std_ns=took.std().fill_nan(None).round(0).cast(pl.Int64),
    )  # fmt: skip
    bounds = [(name, *_bound_p95(part["took"].to_numpy())) for (name,), part in beside.group_by("policy")]
    alone = high.filter(pl.col("phase") == "high_alone").group_by("policy").agg(
        alone_p50_ns=percentile(took, 50), alone_p95_ns=percentile(took, 95)
    )  # fmt: skip
    plain = alone.filter(pl.col("policy") == _NONE)["alone_p50_ns"].to_list()
    first = plain[0] if plain and plain[0] else None
    intervals = pl.DataFrame(bounds, schema=_BOUNDS, orient="row")
    joined = figures.join(intervals, on="policy", how="left", maintain_order="left")
    return joined.join(alone, on="policy", how="left", maintain_order="left").with_columns(
        cost=(pl.col("alone_p50_ns") / pl.lit(first, pl.Float64)).round(2)
    )


_BOUNDS = {"policy": pl.String, "p95_least_ns": pl.Int64, "p95_most_ns": pl.Int64}


def _bound_p95(took: _Times) -> tuple[int | None, int | None]:
    """Return the bootstrap interval of the P95 of launches in the order of time."""
    if len(took) < MIN_VALUES:
        return None, None
    drawn = resample(Sample.of(took), QUANTILES, _ROUNDS, np.random.default_rng(_SEED))[:, _P95]
    least, most = np.quantile(drawn, [(1 - _CONFIDENCE) / 2, (1 + _CONFIDENCE) / 2])
    return int(least), int(most)


def summarize_low(stamps: pl.DataFrame) -> pl.DataFrame:
    """Return one row per policy: how soon the low one made way and went on, and what it still got done.

    Times are those of the hosts: the low one's last completion is noticed after its end on the GPU.

    Returns: policy, launches (of the low one, both at once), p50_ns, p95_ns, p99_ns (launch to completion), gave_way
        (launches of the high one beside the low one with such a time), way_p50_ns, way_p95_ns (from the launch of the
        high one to the last completion of the low one before the high one's; 0 = there was none), back_p50_ns,
        back_p95_ns (from the end of the high one to the low one's next completion, where none of the high one's
        launches began before), beside_per_second (its completions during launches of the high one),
        idle_per_second (its completions between them), alone_per_second.
    """
    rows = []
    for (policy,), part in stamps.group_by("policy", maintain_order=True):
        together = part.filter(pl.col("phase") == TOGETHER)
        low = together.filter(pl.col("role") == "low").with_columns(took=took_ns())
        took = low.select(
            launches=pl.len(), p50_ns=percentile(pl.col("took"), 50), p95_ns=percentile(pl.col("took"), 95),
            p99_ns=percentile(pl.col("took"), 99),
        ).to_dicts()[0]  # fmt: skip
        rows.append({"policy": policy, **took, **_sum_handovers(together), **_sum_rates(part, together)})
    return pl.DataFrame(rows, schema=_LOW)


_LOW = {
    "policy": pl.String, "launches": pl.Int64, "p50_ns": pl.Int64, "p95_ns": pl.Int64, "p99_ns": pl.Int64,
    "gave_way": pl.Int64, "way_p50_ns": pl.Int64, "way_p95_ns": pl.Int64, "back_p50_ns": pl.Int64,
    "back_p95_ns": pl.Int64, "beside_per_second": pl.Float64, "idle_per_second": pl.Float64,
    "alone_per_second": pl.Float64,
}  # fmt: skip


def measure_handovers(together: pl.DataFrame) -> pl.DataFrame:
    """Return one row per launch of the high one while the low one was at work.

    Args:
        together: stamps of rounds of both at once under one policy.

    Returns: round, start_ns, way_ns (to the low one's last completion before the launch's, 0 = none), back_ns (from
        the launch's completion to the low one's next; null if the high one launched again before it).
    """
    rows: list[dict[str, Any]] = []
    for (number,), part in together.group_by("round", maintain_order=True):
        ends = part.filter(pl.col("role") == "low")["complete_ns"].sort().to_numpy()
        begin = part.filter(pl.col("role") == "low")["start_ns"].min()
        high = part.filter(pl.col("role") == "high").sort("start_ns")
        starts, completes = high["start_ns"].to_numpy(), high["complete_ns"].to_numpy()
        for place, (start, complete) in enumerate(zip(starts.tolist(), completes.tolist(), strict=True)):
            after = int(np.searchsorted(ends, complete, "right"))
            if begin is None or start < begin or after == len(ends):
                continue
            last = int(ends[after - 1]) if after and ends[after - 1] >= start else start
            again = place + 1 < len(starts) and starts[place + 1] <= ends[after]
            rows.append({"round": number, "start_ns": start, "way_ns": last - start,
                         "back_ns": None if again else int(ends[after]) - complete})  # fmt: skip
    return pl.DataFrame(rows, schema=dict.fromkeys(("round", "start_ns", "way_ns", "back_ns"), pl.Int64))


def _sum_handovers(together: pl.DataFrame) -> Mapping[str, Any]:
    found = measure_handovers(together)
    figures = {f"{name}_p{q}_ns": percentile(pl.col(f"{name}_ns"), q) for name in ("way", "back") for q in (50, 95)}
    return {"gave_way": found.height, **found.select(**figures).to_dicts()[0]}


def _sum_rates(part: pl.DataFrame, together: pl.DataFrame) -> Mapping[str, float | None]:
    """Return completions of the low one per second: during the high one's launches, between them, and alone."""
    busy = idle = during = between = 0
    for (_,), one in together.group_by("round", maintain_order=True):
        low, high = (one.filter(pl.col("role") == role) for role in ("low", "high"))
        if low.is_empty() or high.is_empty():
            continue
        first, last = int(low["start_ns"].to_numpy().min()), int(low["complete_ns"].to_numpy().max())
        spans = _merge(high["start_ns"].clip(first, last).to_numpy(), high["complete_ns"].clip(first, last).to_numpy())
        taken = sum(end - begin for begin, end in spans)
        ends = low["complete_ns"].sort().to_numpy()
        inside = sum(int(np.searchsorted(ends, e, "right") - np.searchsorted(ends, b, "left")) for b, e in spans)
        busy, idle = busy + taken, idle + last - first - taken
        during, between = during + inside, between + len(ends) - inside
    alone = part.filter((pl.col("phase") == "low_alone") & (pl.col("role") == "low"))
    spans_alone = alone.group_by("round").agg(n=pl.len(), ns=pl.col("complete_ns").max() - pl.col("start_ns").min())
    return {
        "beside_per_second": _rate(during, busy), "idle_per_second": _rate(between, idle),
        "alone_per_second": _rate(int(spans_alone["n"].sum()), int(spans_alone["ns"].sum())),
    }  # fmt: skip


def _rate(count: int, span_ns: int) -> float | None:
    return round(count * 1e9 / span_ns, 1) if span_ns > 0 else None


def _merge(begins: _Times, ends: _Times) -> list[tuple[int, int]]:
    """Return spans, which may overlap, as spans that do not."""
    merged: list[tuple[int, int]] = []
    for begin, end in sorted(zip(begins.tolist(), ends.tolist(), strict=True)):
        if merged and begin <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((begin, end))
    return [span for span in merged if span[1] > span[0]]


def compare_stamps(stamps: pl.DataFrame, launches: pl.DataFrame) -> pl.DataFrame:
    """Return how the stamps of a workload agree with the launches that its HIP log shows.

    A stamp's launch is the last packet of a call that began between its start and its return.

    Args:
        stamps: of one workload alone, rows of `experiment.STAMPS`.
        launches: call_ns and complete_ns of the same run, which may be null.

    Returns: stamps, with_launch, call_p50_ns, call_p95_ns (from the stamp's start to the call in the log),
        late_p50_ns, late_p95_ns (from the completion in the log to the one that the workload noticed).
    """
    calls = launches.drop_nulls("call_ns").group_by("call_ns").agg(pl.col("complete_ns").max()).sort("call_ns")
    joined = stamps.select("start_ns", "return_ns", noticed_ns="complete_ns").sort("return_ns")
    joined = joined.join_asof(calls, left_on="return_ns", right_on="call_ns", strategy="backward", coalesce=False)
    found = joined.filter(pl.col("call_ns") >= pl.col("start_ns")).select(
        call=pl.col("call_ns") - pl.col("start_ns"), late=pl.col("noticed_ns") - pl.col("complete_ns")
    )  # fmt: skip
    figures = {f"{name}_p{q}_ns": percentile(pl.col(name), q) for name in ("call", "late") for q in (50, 95)}
    return found.select(stamps=pl.lit(stamps.height, pl.Int64), with_launch=pl.len().cast(pl.Int64), **figures)


def describe_policy(
    policy: str, finding: Finding, moves: Mapping[str, int | None], longest_ns: int | None, target_ns: int
) -> str:
    """Return one sentence on a policy: what the numbers say, what it can act on, and what was seen of the queues.

    Args:
        policy: its name.
        finding: whether the high one kept its latency under it.
        moves: kind of move -> how often it was recorded, None = nothing records it; empty if nothing was captured.
        longest_ns: bound of the low one's longest kernel; None if it is unknown.
        target_ns: how soon the high one shall have the GPU.
    """
    said = f"{finding.outcome}, {finding.reason}. It acts by {_MECHANISMS[policy]}"
    seen = [moves.get(name) for name in _MOVES_SHOWN]
    if not moves or None in seen:
        said += "; whether waves were saved (preemption) is UNKNOWN, no capture shows evictions or suspends"
    elif any(seen):
        shown = ", ".join(f"{count} {name}" for name, count in zip(_MOVES_SHOWN, seen, strict=True))
        said += f"; queues were taken off the GPU ({shown}): there waves were saved (preemption)"
    else:
        said += "; no eviction and no suspend was recorded: nothing shows that waves were saved (preemption)"
    if longest_ns is not None and longest_ns > target_ns and policy not in _NO_HOST:
        said += (
            f"; the low one's longest kernel takes up to {render_ns(longest_ns)}, longer than {render_ns(target_ns)}: "
            "no host policy can reach it"
        )
    return said
