"""What a value of a setting changed: latencies with intervals, and whether the runtime shows that it was heeded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl

from tracecorr.analyze.compare.statistics import MIN_VALUES, QUANTILES, STAGES, Sample, read_steady, resample
from tracecorr.analyze.frames import Tables, collect
from tracecorr.analyze.run_facts import describe_model

_SCHEMA = {
    "value": pl.String, "reached": pl.String, "queues": pl.Int64, "streams": pl.Int64, "stage": pl.String,
    "launches": pl.Int64, "p50_ns": pl.Int64, "p50_least_ns": pl.Int64, "p50_most_ns": pl.Int64, "p95_ns": pl.Int64,
    "p95_least_ns": pl.Int64, "p95_most_ns": pl.Int64, "measured_on": pl.String,
}  # fmt: skip
_ROUNDS, _SEED, _CONFIDENCE = 4000, 44, 0.95
_SHARES = (0.5, 0.95)


def summarize_setting(name: str, value: str, tables: Tables, info: Mapping[str, Any]) -> pl.DataFrame:
    """Return one row per stage of the steady launches of a capture made with a value of a setting.

    Args:
        name: of the setting.
        value: what it was.
        tables: gives the table of the capture by its name.
        info: contents of capture.json.

    Returns: value, reached (whether the workload's environment had it, as recorded), queues (compute queues that the
        runtime made), streams, stage (of `compare.statistics.STAGES`), launches, p50_ns and p95_ns with the ends of
        their bootstrap intervals (95 %; null with too few launches), measured_on (what stood for a GPU; null = a GPU).
    """
    queues = collect(tables("queues").filter(pl.col("hwq").is_not_null()).select(pl.len())).item()
    streams = collect(tables("streams").select(pl.len())).item()
    steady = read_steady(tables)
    head = (value, _tell_reached(name, value, info), queues, streams)
    model = describe_model(info) or None
    rows = [(*head, *found, model) for stage, start, end in STAGES if (found := _sum_up(steady, stage, start, end))]
    return pl.DataFrame(rows or [(*head, None, 0, *[None] * 6, model)], schema=_SCHEMA, orient="row")


def _tell_reached(name: str, value: str, info: Mapping[str, Any]) -> str:
    """Return whether the setting reached the process; that it acted is shown by queues, streams and times alone."""
    found = [text for text in info.get("command") or [] if text == f"{name}={value}"]
    stored = (info.get("environment") or {}).get(name)
    if stored == value or found:
        return "set for the process"
    if stored is not None:
        return f"no: the process had {stored}"
    return "an argument of the program"


def _sum_up(steady: pl.DataFrame, stage: str, start: str, end: str) -> tuple[Any, ...] | None:
    took = steady.select(took=pl.col(end) - pl.col(start)).drop_nulls()["took"].to_numpy()
    if not len(took):
        return None
    sample = Sample.of(took)
    middle, high = (sample.quantile(share) for share in _SHARES)
    if len(took) < MIN_VALUES:
        return stage, len(took), middle, None, None, high, None, None
    drawn = resample(sample, QUANTILES, _ROUNDS, np.random.default_rng(_SEED))[:, :2]
    least, most = np.quantile(drawn, [(1 - _CONFIDENCE) / 2, (1 + _CONFIDENCE) / 2], axis=0).astype(int).tolist()
    return stage, len(took), middle, least[0], most[0], high, least[1], most[1]
