"""Silences: a thread prints no line while it is in the kernel; where it seems to, the clock is another one."""

from __future__ import annotations

import numpy as np
import polars as pl

from tracecorr.clock.bounds import Ints
from tracecorr.clock.causal_pairs import LOG_STEP_NS
from tracecorr.clock.intervals import Moments, list_numbers

# Without a clock that user space can read, a line's time is read in one of these.
_READ_TIME = ("clock_gettime", "clock_gettime64", "gettimeofday", "time")
# What begins or ends a thread may lack its exit or its enter.
_ONE_HALF = ("clone", "clone3", "fork", "vfork", "execve", "execveat", "exit", "exit_group", "rt_sigreturn")
# Calls so long are asked, of a clock that lies so far off: what is farther off puts queue creations apart, too.
_SHORTEST_NS, _LONGEST_NS, _MOST_CALLS = 4_000, 10_000_000, 5_000
_NEAREST_NS, _FARTHEST_NS = 20_000, 2_000_000
# So many calls with lines in them, and so many times more than at the best shift, are of another clock. Where records
# were lost the enter of one call and the exit of another look like one: they leave more halves than such calls.
_LEAST, _TIMES, _HALVES = 5, 4, 2


def count_spoken(
    calls: pl.DataFrame, moments: Moments, steps: tuple[int, int], guessed: frozenset[int] = frozenset()
) -> int:
    """Return how many system calls hold a line of their own thread, if a clock that is shifted explains nearly all.

    Two threads that are taken for one speak in each other's calls by any clock.

    Args:
        calls: columns thread, name, stamp_ns, end_stamp_ns of the trace, on a clock said to be that of the log.
        moments: the lines of the log (`list_moments`).
        steps: how far the true time of a trace stamp may lie below and above it.
        guessed: threads that were found by what they did at the same time, and say nothing of the clock.

    Returns: 0 where the calls do not show another clock.
    """
    duration = pl.col("end_stamp_ns") - pl.col("stamp_ns")
    calls = calls.filter(pl.col("thread").is_in(list(set(moments) - guessed)))
    asked = calls.filter(duration.is_between(_SHORTEST_NS, _LONGEST_NS), ~pl.col("name").is_in(_READ_TIME))
    found = [
        _list_spoken(part["stamp_ns"].to_numpy() + steps[1], part["end_stamp_ns"].to_numpy() - steps[0], moments[key])
        for (key,), part in asked.top_k(_MOST_CALLS, by=duration).partition_by("thread", as_dict=True).items()
    ]  # fmt: skip
    if not found:
        return 0
    least, most = (np.concatenate(side) for side in zip(*found, strict=True))
    spoken = int(((least < 0) & (most > 0)).sum())
    enough = spoken >= _LEAST and spoken > _HALVES * _count_halves(calls)
    return spoken if enough and _TIMES * _count_at_best(least, most) <= spoken else 0


def _list_spoken(start: Ints, end: Ints, lines: Ints) -> tuple[Ints, Ints]:
    """Return the shifts of the trace's clock that put a line into a call, as spans that do not overlap in a call."""
    first = np.searchsorted(lines, start - _FARTHEST_NS)
    call, row = list_numbers(first, np.searchsorted(lines, end + _FARTHEST_NS) - first)
    line = lines[row]
    least, most = line + LOG_STEP_NS - end[call], line - start[call]
    again = call[1:] == call[:-1]
    most[:-1][again] = np.minimum(most[:-1], least[1:])[again]
    return least[least < most], most[least < most]


def _count_at_best(least: Ints, most: Ints) -> int:
    """Return how many calls hold a line at the shift, beyond what is near none, at which fewest do."""
    at = np.concatenate([least, most])
    order = np.argsort(at, kind="stable")
    count = np.cumsum(np.concatenate([np.ones(len(least)), -np.ones(len(most))])[order])
    beyond = (np.abs(at[order]) > _NEAREST_NS) & (np.abs(at[order]) < _FARTHEST_NS)
    return int(count[beyond].min(initial=len(least)))


def _count_halves(calls: pl.DataFrame) -> int:
    """Return how many calls lack their enter or their exit, but for those in which the trace began or ended."""
    stamp = pl.col("stamp_ns")
    inner = (stamp > stamp.min().over("thread")) & (stamp < stamp.max().over("thread"))
    return calls.filter(inner & pl.col("end_stamp_ns").is_null() & ~pl.col("name").is_in(_ONE_HALF)).height
