"""HAND-MADE: the bounds of pieces between their knots, at steps, and where inequalities contradict them."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from tracecorr.clock.bounds import Inequalities
from tracecorr.clock.clock_map import ClockMap
from tracecorr.clock.pieces import Piece, Pieces

Floats = NDArray[np.float64]


def flat(first: float, last: float, offset: float = 0.0) -> Piece:
    """Return a piece of one rate, known to 5 ns on both sides."""
    ends = np.array([first, last])
    return Piece(first, last, ends, ends * 0 + offset - 5, ends * 0 + offset + 5, np.zeros(3), np.zeros(3))


def at(curve: Piece | Pieces, *stamps: float) -> list[tuple[float, float]]:
    low, high = curve.bound(np.array(stamps))
    return list(zip(low.tolist(), high.tolist(), strict=True))


def test_between_two_knots_the_bounds_open_by_what_the_slope_may_be() -> None:
    """At 0 known to 5, at 10 to 1; before it the slope lies in [-1, 2], in between in [-2, 3], behind in [-3, 4]."""
    piece = Piece(0, 10, np.array([0.0, 10]), np.array([-5.0, -1]), np.array([5.0, 1]),
                  np.array([-1.0, -2, -3]), np.array([2.0, 3, 4]))  # fmt: skip
    assert at(piece, -1, 0, 1, 8, 10, 12) == [(-7, 6), (-5, 5), (-7, 8), (-7, 5), (-1, 1), (-7, 9)]


def test_between_two_pieces_the_clock_is_on_either() -> None:
    curve = Pieces((flat(0, 100), flat(200, 300, 50), flat(400, 500, -50)), ())
    assert at(curve, -9, 100, 101, 199, 200, 300, 350, 400, 999) == [
        (-5, 5), (-5, 5), (-5, 55), (-5, 55), (45, 55), (45, 55), (-55, 55), (-55, -45), (-55, -45),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("rows", "wide"), [((40, 44), (28, 55)), ((0, 4), (-1000, 15)), ((96, 100), (84, 1000)), ((40, 43), None)]
)
@pytest.mark.parametrize("side", ["low", "high"])
def test_where_half_of_eight_inequalities_in_a_row_contradict_the_curve_it_is_wrong(
    rows: tuple[int, int], wide: tuple[int, int] | None, side: str
) -> None:
    """Four of a hundred lie 50 ns beside it, in the middle or at an end: believed, with a dozen on both sides."""
    x = np.arange(100.0)
    shift = np.where((x >= rows[0]) & (x < rows[1]), 50 if side == "low" else -50, 0)
    curve = Pieces((flat(0, 99),), ()).admit(Inequalities(x, shift - 4.0, shift + 4.0))
    bounds = at(curve, *range(-10, 110))
    wider = [stamp for stamp, found in zip(range(-10, 110), bounds, strict=True) if found != (-5, 5)]
    assert wider == ([] if wide is None else [n for n in range(-10, 110) if wide[0] <= n <= wide[1]])
    assert {bounds[stamp + 10] for stamp in wider} <= {(-5, 54) if side == "low" else (-54, 5)}


def test_a_map_has_no_row_for_times_of_which_its_source_has_no_stamp() -> None:
    """The clock steps after 1 s and after 2 s; only the middle of that was used, or none of a step."""
    curve = Pieces((flat(0, 999_999_999), flat(1e9, 1_999_999_999, 50), flat(2e9, 3e9)), ((0.0, 0.0),))
    clock = ClockMap("samples", curve=curve, pairs=4)
    stamps = np.array([0, 999_999_999, 1_000_000_000, 1_999_999_999, 2_000_000_000, 3_000_000_000])
    whole = clock.drawn(stamps).summarize("amd_log:mono_raw", 0, 3_000_000_000)
    assert [(row["from_ns"], row["to_ns"], row["offset_ns"]) for row in whole] == [
        (0, 999_999_999, 0), (1_000_000_000, 1_999_999_999, 50), (2_000_000_000, 3_000_000_000, 0)
    ]  # fmt: skip
    assert [(row["lo_ns"], row["hi_ns"], row["width_ns"]) for row in whole] == [(5, 5, 10)] * 3
    apart = clock.drawn(stamps[[0, 1, 5]]).summarize("amd_log:mono_raw", 0, 3_000_000_000)
    assert [(row["from_ns"], row["to_ns"]) for row in apart] == [(0, 999_999_999), (3_000_000_000, 3_000_000_000)]
    for first, last in ((0, 500_000_000), (1_200_000_000, 1_300_000_000), (2_500_000_000, 2_500_000_000)):
        (row,) = clock.summarize("amd_log:mono_raw", first, last)
        assert (row["from_ns"], row["to_ns"]) == (first, last)
