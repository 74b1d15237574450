"""SYNTHETIC stamps of the launches of an experiment."""

from __future__ import annotations

import numpy as np
import polars as pl

from tracecorr.analyze.experiment import as_rows


def stamps(high_alone: int, together: int, count: int = 100, seed: int = 1) -> pl.DataFrame:
    """Return SYNTHETIC launches of a high one that take about so many us alone and together, low ones of 50 us.

    Together the low one goes on until the high one has ended.
    """
    rng = np.random.default_rng(seed)

    def series(mean_us: int, phase: str, role: str, count: int = count) -> pl.DataFrame:
        done = (rng.gamma(20, mean_us / 20, count) * 1000).astype(np.int64)
        start = np.cumsum(done + 1000) - done
        rows = list(
            zip(start.tolist(), (start + 5000).tolist(), (start + np.maximum(done, 5000)).tolist(), strict=True)
        )
        return as_rows(phase, 0, {role: rows})

    return pl.concat([
        series(high_alone, "high_alone", "high"), series(50, "low_alone", "low"), series(together, "together", "high"),
        series(50, "together", "low", count * (together // 50 + 1)),
    ])  # fmt: skip
