"""SYNTHETIC pairs of a trace that is said to be `mono`: one that contradicts it may be of two lives of one ring."""

from __future__ import annotations

import polars as pl
import pytest

from tracecorr.clock import build
from tracecorr.clock.bounds import NO_HIGH, NO_LOW, Bounds, join_bounds, no_bounds
from tracecorr.clock.evidence import ClockEvidence

_OFFSET_NS = -300_000_000


def _spans(count: int) -> Bounds:
    """Return what some things, one each 10 ms, say of a clock that lies 0.3 s beside CLOCK_MONOTONIC."""
    at = pl.Series([10_000_000 * (n + 1) for n in range(count)], dtype=pl.Int64).to_numpy()
    low, high = (at * 0 + _OFFSET_NS + by for by in (-2_000, 2_000))
    return join_bounds(Bounds(at, low, at * 0 + NO_HIGH), Bounds(at, at * 0 + NO_LOW, high))


@pytest.mark.parametrize(
    ("spans", "held", "foreign", "method"), [
        (1, 2, 0, "same_clock"), (2, 2, 0, "causal_pairs"),
        pytest.param(1, 0, 0, "causal_pairs", id="no creation speaks for it"),
        pytest.param(1, 2, 3, "causal_pairs", id="other creations hold no ioctl"),
    ],
)  # fmt: skip
def test_a_single_pair_tells_no_other_clock_where_all_queue_creations_hold_their_ioctls(
    spans: int, held: int, foreign: int, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build, "count_held_creations", lambda *_: (held, foreign))
    monkeypatch.setattr(build, "list_calls_and_moments", lambda _: (pl.DataFrame(), {}))
    monkeypatch.setattr(build, "count_spoken", lambda *_: 0)
    evidence = ClockEvidence(pl.DataFrame(), pl.DataFrame(), {"samples": []})
    assert build._prove_mono(_spans(spans), no_bounds(), evidence, (500, 500)).method == method
