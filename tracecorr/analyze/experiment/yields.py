"""Did the low one stop while a launch of the high one ran? Only what its completions show."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from tracecorr.analyze.compare.latency import MIN_VALUES
from tracecorr.analyze.experiment.stamps import TOGETHER, took_ns
from tracecorr.analyze.frames import describe_ns, percentile

STOPPED, WENT_ON, TOO_SHORT = "stopped", "went on", "too short to tell"
NOT_THROUGHOUT = "not at work throughout"
# A pause is no usual one where it is so many times longer than 99 of 100 pauses of the low one alone.
TIMES = 2
_SCHEMA = {"round": pl.Int64, "start_ns": pl.Int64, "complete_ns": pl.Int64, "kind": pl.String,
           "low_completions": pl.Int64, "pause_ns": pl.Int64, "stop_ns": pl.Int64, "resume_ns": pl.Int64}  # fmt: skip
_Times = npt.NDArray[np.int64]


def list_own_pauses(stamps: pl.DataFrame) -> pl.DataFrame:
    """Return `pause_ns`: the times between completions of the low one while it was alone."""
    alone = stamps.filter(pl.col("phase") == "low_alone").sort("round", "complete_ns")
    return alone.select(pause_ns=pl.col("complete_ns").diff().over("round")).drop_nulls()


def find_limit(stamps: pl.DataFrame) -> int | None:
    """Return the pause above which the low one counts as stopped; None where its own pauses are not known."""
    own = list_own_pauses(stamps)
    if own.height < MIN_VALUES:
        return None
    usual = own.select(percentile(pl.col("pause_ns"), 99)).item()
    return None if usual is None else int(TIMES * usual)


def measure_yields(stamps: pl.DataFrame) -> pl.DataFrame:
    """Return, per launch of the high one in rounds of both at once, what the completions of the low one show.

    Completions are those that the host noticed, so these are bounds of what the GPU did, not its schedule.

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
        if kind == STOPPED:
            told["stop_ns"] = int(points[place]) - self.start
            told["resume_ns"] = int(self.ends[first + place]) - self.start
        return told

    def _name_kind(self, pause: int, last: int, limit: int | None) -> str:
        if self.begin is None or self.begin > self.start or last >= len(self.ends):
            return NOT_THROUGHOUT
        if limit is None or self.complete - self.start <= limit:
            return TOO_SHORT
        return STOPPED if pause > limit else WENT_ON


def summarize_yields(stamps: pl.DataFrame) -> pl.DataFrame:
    """Return how many launches of the high one are of each kind of `measure_yields`, with the times that tell it.

    Returns: what, launches, measured (what the times are), mean_ns, p50_ns, p95_ns, p99_ns, max_ns.
    """
    yields = measure_yields(stamps)
    if yields.is_empty():
        return yields.clear()
    return pl.concat(_list_rows(stamps, yields))


def _list_rows(stamps: pl.DataFrame, yields: pl.DataFrame) -> Iterator[pl.DataFrame]:
    of = {kind: yields.filter(pl.col("kind") == kind) for kind in (STOPPED, WENT_ON, TOO_SHORT, NOT_THROUGHOUT)}
    pause = "longest time inside the launch without a completion of the low one"
    yield _sum_up(of[STOPPED], STOPPED, pause, "pause_ns")
    if not of[STOPPED].is_empty():
        yield _sum_up(of[STOPPED], STOPPED, "from the launch to the begin of that time", "stop_ns")
        yield _sum_up(of[STOPPED], STOPPED, "from the launch to the low one's first completion after it", "resume_ns")
    yield _sum_up(of[WENT_ON], WENT_ON, pause, "pause_ns")
    for kind in (TOO_SHORT, NOT_THROUGHOUT):
        yield _sum_up(of[kind].with_columns(took=took_ns()), kind, "the launch of the high one itself", "took")
    yield _sum_up(list_own_pauses(stamps), "low one alone", "between its completions", "pause_ns", counts=False)


def _sum_up(rows: pl.DataFrame, what: str, measured: str, column: str, *, counts: bool = True) -> pl.DataFrame:
    launches = pl.len().cast(pl.Int64) if counts else pl.lit(None, pl.Int64)
    return rows.select(
        what=pl.lit(what).first(), launches=launches, measured=pl.lit(measured).first(), **_by_name(column)
    )


def _by_name(column: str) -> dict[str, pl.Expr]:
    expressions = describe_ns(column)
    return {expr.meta.output_name(): expr for expr in expressions if expr.meta.output_name() != "total_ns"}
