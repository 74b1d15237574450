"""Percentiles with the interval in which they would fall if the run were repeated."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

QUANTILES = (0.5, 0.95, 0.99)


@dataclass(frozen=True)
class Sample:
    """Hold one side of a comparison.

    Args:
        ordered: the values, ascending.
        effective: how many independent values they are worth (see `count_independent`).
    """

    ordered: Ints
    effective: float

    @classmethod
    def of(cls, values: Ints) -> Sample:
        """Return the sample of values in the order in which they occurred."""
        return cls(np.sort(values), count_independent(values))

    def quantile(self, share: float) -> int:
        """Return the value at a share of the sample (nearest rank: a value that occurred)."""
        return int(self.ordered[_rank(share, len(self.ordered)) - 1])


def count_independent(values: Ints) -> float:
    """Return how many independent values a series is worth.

    Launches that follow one another are alike, so that n of them tell less than n independent ones. The
    correlation r between neighbours (of being above the median) scales n by (1 - r) / (1 + r).

    >>> count_independent(np.array([1, 9] * 50))
    100.0
    """
    if len(values) < 3:
        return float(len(values))
    high = (values > np.median(values)).astype(np.float64)
    spread = float(high.var())
    if spread == 0:
        return float(len(values))
    mean = high.mean()
    correlation = float(np.mean((high[:-1] - mean) * (high[1:] - mean))) / spread
    correlation = min(max(correlation, 0.0), 0.999)
    return max(1.0, len(values) * (1 - correlation) / (1 + correlation))


def resample(sample: Sample, shares: tuple[float, ...], rounds: int, random: np.random.Generator) -> Floats:
    """Return what the percentiles would be in `rounds` bootstrap samples, shape (rounds, len(shares)).

    A bootstrap sample of n values is n independent draws; its k-th smallest value is the value at the k-th
    smallest of n uniform numbers, which is Beta(k, n - k + 1) distributed. So no sample has to be drawn, and
    the percentiles of one round belong together.

    Args:
        shares: ascending, between 0 and 1.
    """
    count = max(1, round(sample.effective))
    ranks = [_rank(share, count) for share in shares]
    result = np.empty((rounds, len(shares)))
    below, taken = np.zeros(rounds), 0
    for place, rank in enumerate(ranks):
        step = rank - taken
        if step > 0:
            below = below + (1 - below) * random.beta(step, count - rank + 1, size=rounds)
            taken = rank
        index = np.minimum((below * len(sample.ordered)).astype(np.int64), len(sample.ordered) - 1)
        result[:, place] = sample.ordered[index]
    return result


def _rank(share: float, count: int) -> int:
    return min(max(1, int(np.ceil(share * count))), count)
