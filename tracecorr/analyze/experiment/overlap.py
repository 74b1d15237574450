"""Were both workloads at work at once? Two that are started together need not be ready, or end, together."""

from __future__ import annotations

import polars as pl

from tracecorr.analyze.experiment.stamps import APART, OTHER, TOGETHER
from tracecorr.analyze.values import count_of, render_ns

# With a smaller share of the high one's launches beside the low one a phase tells of either alone.
_LEAST_SHARE = 0.1
# Where a launch lies: before the other one was at work, beside it, after it.
_BEFORE, _BESIDE, _AFTER = -1, 0, 1


def mark_beside(stamps: pl.DataFrame) -> pl.DataFrame:
    """Return the stamps with `beside` and `place`, both null but for `together`.

    At work is a workload from its first start to its last completion.

    Returns: beside (whether a launch ran while the other one was at work), place (before, beside or after that).
    """
    together = pl.col("phase") == TOGETHER
    work = _list_work(stamps).with_columns(pl.col("role").replace_strict(OTHER, return_dtype=pl.String))
    before, after = pl.col("complete_ns") < pl.col("begin_ns"), pl.col("start_ns") > pl.col("end_ns")
    # Where the other one stamped nothing, nothing ran beside it.
    known = pl.when(before).then(_BEFORE).when(after | pl.col("begin_ns").is_null()).then(_AFTER).otherwise(_BESIDE)
    return (
        stamps.join(work, on=["round", "role"], how="left", maintain_order="left")
        .with_columns(place=pl.when(together).then(known))
        .with_columns(beside=pl.col("place") == _BESIDE)
        .drop("begin_ns", "end_ns")
    )


def part_phases(stamps: pl.DataFrame) -> pl.DataFrame:
    """Return the stamps with what is at hand in `phase`: of `together` only what ran beside the other, the rest apart.

    So like is compared with like: launches beside the other one's work with such, undisturbed ones with such.
    """
    left_alone = (pl.col("phase") == TOGETHER) & ~pl.col("beside")
    return mark_beside(stamps).with_columns(phase=pl.when(left_alone).then(pl.lit(APART)).otherwise("phase"))


def is_apart(stamps: pl.DataFrame) -> bool:
    """Tell whether rounds of both at once had (nearly) no launch of the high one beside the low one's work."""
    high = mark_beside(stamps).filter((pl.col("phase") == TOGETHER) & (pl.col("role") == "high"))
    return not high.is_empty() and high["beside"].sum() < _LEAST_SHARE * high.height


def list_overlaps(stamps: pl.DataFrame, rounds: str) -> pl.DataFrame:
    """Return one row per round of both at once and role.

    Args:
        stamps: launches.
        rounds: what these rounds are called.

    Returns: rounds, round, role, launches, beside (how many of them ran while the other one was at work), began_ns
        (after the first launch of the round), worked_ns (from its first start to its last completion).
    """
    rows = mark_beside(stamps).filter(pl.col("phase") == TOGETHER)
    found = rows.group_by("round", "role").agg(
        launches=pl.len().cast(pl.Int64), beside=pl.col("beside").sum().cast(pl.Int64),
        begin=pl.col("start_ns").min(), end=pl.col("complete_ns").max(),
    )  # fmt: skip
    return found.sort("round", "role").select(
        pl.lit(rounds).alias("rounds"), "round", "role", "launches", "beside",
        began_ns=pl.col("begin") - pl.col("begin").min().over("round"), worked_ns=pl.col("end") - pl.col("begin"),
    )  # fmt: skip


def describe_apart(stamps: pl.DataFrame, rounds: str) -> str:
    """Return that rounds of both at once never had both at work, and what helps; empty where they had.

    Args:
        stamps: launches.
        rounds: what these rounds are called.
    """
    if not is_apart(stamps):
        return ""
    return (
        f"{rounds} rounds of both at once: {describe_share(stamps)}; what is found there is called `{APART}`, and is "
        f"no answer of both together. To have them at work at once: {advise(stamps)}"
    )


def describe_share(stamps: pl.DataFrame) -> str:
    """Return how many launches of the high one ran beside the low one's work."""
    high = mark_beside(stamps).filter((pl.col("phase") == TOGETHER) & (pl.col("role") == "high"))
    launches = count_of(high.height, "launches", "launch")
    return f"{high['beside'].sum()} of {launches} of the high one ran while the low one was at work"


def advise(stamps: pl.DataFrame) -> str:
    """Return what lets more launches run beside the other one: more of them of the one that ends early."""
    work = _list_work(stamps)
    both = work.filter(pl.col("role") == "high").join(work.filter(pl.col("role") == "low"), on="round", suffix="_low")
    early = both.filter(pl.col("end_ns_low") < pl.col("end_ns"))
    role, first = ("low", early) if 2 * early.height >= both.height else ("high", both.filter(~_is_in(early)))
    begin, end = ("begin_ns", "end_ns_low") if role == "low" else ("begin_ns_low", "end_ns")
    gap = first.select((pl.col(begin) - pl.col(end)).median()).item()
    late = f" {render_ns(int(gap))} before the {OTHER[role]} one began" if gap is not None and gap > 0 else " first"
    return f"more launches of the {role} one (--iterations of the samples), which ended{late}"


def _is_in(rows: pl.DataFrame) -> pl.Expr:
    return pl.col("round").is_in(rows["round"].implode())


def _list_work(stamps: pl.DataFrame) -> pl.DataFrame:
    """Return, per round of both at once and role, from when to when it was at work."""
    together = stamps.filter(pl.col("phase") == TOGETHER)
    return together.group_by("round", "role").agg(begin_ns=pl.col("start_ns").min(), end_ns=pl.col("complete_ns").max())
