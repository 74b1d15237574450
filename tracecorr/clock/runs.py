"""Runs: which inequalities one line satisfies, one after the other, and which are wrong."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tracecorr.clock.bounds import Inequalities, Ints, Mask
from tracecorr.clock.lines import Lines, fit_lines
from tracecorr.clock.slopes import PIECE_NS, Rates

# How many later inequalities must agree with the old run before one that does not is called wrong.
_LOOK_AHEAD = 48
# A clock keeps its rate for a second: more runs than so many in one are not made by single wrong inequalities.
_MOST_RUNS = 4
# So many neighbours on each side are asked whether it is wrong.
_NEIGHBOURS = (3, 6, 12, 24, 48)


@dataclass(frozen=True)
class Run:
    """Hold inequalities that lines satisfy together.

    Args:
        chosen: their indices, without single ones that are wrong.
        sure: those of them that the next run's lines do not satisfy as well.
        rate: middle slope of the lines through the sure ones.
        spread: how far the slopes lie from it.
    """

    chosen: Ints
    sure: Ints
    rate: float
    spread: float


def find_runs(given: Inequalities, rates: Rates) -> list[Run]:
    """Return the fewest runs that hold all inequalities, but for single ones that are wrong.

    Args:
        given: the inequalities.
        rates: what is known of the slope.

    Returns: none when no run is bounded on both sides.
    """
    found: list[Ints] = []
    # What follows a run and is too little for another one.
    rest: list[list[Ints]] = []
    start = 0
    while start < len(given):
        chosen, bounded, start = _grow(given, start, rates)
        if bounded and (len(chosen) >= 3 or (not found and start == len(given))):
            found.append(chosen)
            rest.append([])
        elif found and not _is_wrong(given, found[-1], int(chosen[0]), rates):
            rest[-1].append(chosen)
    if not found:
        return []
    later = [_reach_back(given, found[k - 1 : k + 1], rates) for k in range(1, len(found))]
    sure = [_trim(run, first, given) for run, first in zip(found, [*later, None], strict=True)]
    lines = [_fits(given, run, rates) for run in sure]
    return [
        Run(np.concatenate([chosen, *more]), own, line.rate, line.spread)
        for chosen, more, own, line in zip(found, rest, sure, lines, strict=True)
        if line is not None
    ]


def find_sound_runs(given: Inequalities, rates: Rates, sampled: Mask) -> list[Run]:
    """Return the runs without those that are there for the sake of one wrong inequality.

    A clock keeps its rate for a second. Near a change of it, what would tell that one inequality is wrong lies on
    another line, so that it makes a run of its own: a short one, which those beside it explain but for this one.

    Args:
        given: the inequalities.
        rates: what is known of the slope.
        sampled: which of them are clock samples, and not wrong.
    """
    kept = np.arange(len(given))
    while True:
        found = [replace(run, chosen=kept[run.chosen], sure=kept[run.sure]) for run in find_runs(given[kept], rates)]
        if not (found and rates.reach) or len(found) > _MOST_RUNS * (1 + np.ptp(given.x) / PIECE_NS):
            return found
        wrong = _find_wrong(given, found, rates, sampled)
        if not wrong:
            return found
        kept = kept[~np.isin(kept, wrong)]


def _find_wrong(given: Inequalities, runs: list[Run], rates: Rates, sampled: Mask) -> list[int]:
    """Return the first or last inequality of short runs of which the runs on both sides explain all others.

    The first run and the last one may be short because the evidence begins or ends there. What a run is told from
    is told from no other: without its wrong inequality it is another run.
    """
    longest = PIECE_NS / (1 + rates.middle)
    wrong: list[int] = []
    k = 1
    while k < len(runs) - 1:
        first, last = runs[k].chosen[[0, -1]]
        is_short = given.x[last] - given.x[first] < longest
        one = _find_wrong_end(given, (runs[k - 1], runs[k], runs[k + 1]), rates, sampled) if is_short else None
        wrong += [] if one is None else [one]
        k += 1 if one is None else 3
    return wrong


def _find_wrong_end(given: Inequalities, runs: tuple[Run, Run, Run], rates: Rates, sampled: Mask) -> int | None:
    before, run, after = runs
    for one in (run.chosen[0], run.chosen[-1]):
        if not sampled[one] and _explain(given, (before, after), run.chosen[run.chosen != one], rates):
            return int(one)
    return None


def _explain(given: Inequalities, beside: tuple[Run, Run], rows: Ints, rates: Rates) -> bool:
    """Tell whether lines of the run before satisfy the first of some inequalities, those of the run behind the rest.

    Args:
        given: all inequalities.
        beside: the run before and the one behind.
        rows: indices of the inequalities in question.
        rates: what is known of the slope.
    """
    before, after = beside
    good, bad = 0, len(rows) + 1
    while bad - good > 1:
        middle = (good + bad) // 2
        if _fits(given, np.concatenate([before.sure, rows[:middle]]), rates) is not None:
            good = middle
        else:
            bad = middle
    return _fits(given, np.concatenate([rows[good:], after.sure]), rates) is not None


def _grow(given: Inequalities, start: int, rates: Rates) -> tuple[Ints, bool, int]:
    """Return the longest run from `start` on that lines satisfy, whether any do, and where the next run begins.

    A single inequality that contradicts both its past and its future is wrong, and left out.
    """
    skipped: list[int] = []
    while True:
        end, lines = _longest(given, start, skipped, rates)
        if end >= len(given):
            break
        # Does the run go on without this one, which even its neighbours alone contradict?
        ahead = np.arange(start, min(end + 1 + _LOOK_AHEAD, len(given)))
        without = ahead[~np.isin(ahead, [*skipped, end])]
        goes_on = end + 1 < len(given) and _fits(given, without, rates) is not None
        if not goes_on or not _is_wrong(given, without, end, rates):
            break
        skipped.append(end)
    chosen = np.arange(start, max(end, start + 1))
    return chosen[~np.isin(chosen, skipped)], lines is not None, max(end, start + 1)


def _is_wrong(given: Inequalities, others: Ints, one: int, rates: Rates) -> bool:
    """Tell whether an inequality contradicts its neighbours.

    Where only a longer run contradicts it, the clock may have changed its rate, and both are right.
    """
    place = int(np.searchsorted(others, one))
    for reach in _NEIGHBOURS:
        near = others[max(place - reach, 0) : place + reach]
        lines = _fits(given, near, rates)
        if lines is None:
            if given[near].is_two_sided:
                return False
            continue
        at = lines.offsets + lines.rates * given.x[one]
        if at.max() < given.low[one] or at.min() > given.high[one]:
            return True
    return False


def _longest(given: Inequalities, start: int, skipped: list[int], rates: Rates) -> tuple[int, Lines | None]:
    good, bad = start, len(given) + 1
    found: Lines | None = None
    step = 64
    while bad - good > 1:
        end = min(good + step, bad - 1) if bad > len(given) else (good + bad) // 2
        end = min(end, len(given))
        chosen = np.arange(start, end)
        one_sided = not given[start:end].is_two_sided
        lines = _fits(given, chosen[~np.isin(chosen, skipped)], rates)
        if lines is not None or one_sided:
            good, found, step = end, lines, step * 4
            if end == len(given):
                break
        else:
            bad = end
    return good, found


def _fits(given: Inequalities, chosen: Ints, rates: Rates) -> Lines | None:
    return fit_lines(given[chosen], rates.middle, rates.reach)


def _reach_back(given: Inequalities, pair: list[Ints], rates: Rates) -> int:
    """Return the first inequality of the earlier run from which on the later run's lines fit, too."""
    earlier, later = pair
    good, bad = len(earlier), -1
    while good - bad > 1:
        middle = (good + bad) // 2
        if _fits(given, np.concatenate([earlier[middle:], later]), rates) is not None:
            good = middle
        else:
            bad = middle
    return int(earlier[good]) if good < len(earlier) else int(earlier[-1]) + 1


def _trim(chosen: Ints, later: int | None, given: Inequalities) -> Ints:
    """Leave out what the next run, which reaches back to index `later`, satisfies as well."""
    if later is None:
        return chosen
    sure = chosen[chosen < later]
    return sure if len(sure) >= 3 and given[sure].is_two_sided else chosen
