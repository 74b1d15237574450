"""SYNTHETIC: system calls of threads that print: by the right clock a thread prints none within its own calls."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from tracecorr.clock.silences import count_spoken

MS = 1_000_000
STEPS = (500, 500)
PRINTED = 2_000


def run_thread(thread: int = 1, seed: int = 1, pace_ns: int = 100_000) -> tuple[pl.DataFrame, dict[int, np.ndarray]]:
    """Return the system calls and the lines of a thread that prints, now and then makes a call, and prints again."""
    rng = np.random.default_rng(seed)
    lines = np.cumsum(rng.integers(8_000, pace_ns, PRINTED))
    before = np.sort(rng.choice(PRINTED - 1, 400, replace=False))
    room = np.diff(lines)[before]
    start = lines[before] + 2_000
    # A line's stamp is cut to a whole microsecond.
    return calls_of(thread, start, start + (room - 4_000) * 3 // 4), {thread: lines // 1_000 * 1_000}


def calls_of(thread: int, start: np.ndarray, end: np.ndarray, name: str = "ioctl") -> pl.DataFrame:
    return pl.DataFrame({"stamp_ns": start, "end_stamp_ns": end}).select(
        pl.lit(thread).alias("thread"), pl.lit(name).alias("name"), "stamp_ns", "end_stamp_ns"
    )


def shifted(calls: pl.DataFrame, by_ns: int) -> pl.DataFrame:
    return calls.with_columns(pl.col("stamp_ns", "end_stamp_ns") + by_ns)


@pytest.mark.parametrize("seed", range(5))
def test_by_the_clock_of_the_log_no_thread_speaks_in_its_calls(seed: int) -> None:
    assert count_spoken(*run_thread(seed=seed), STEPS) == 0


@pytest.mark.parametrize("by_ns", [-1_700_000, -300_000, -40_000, 40_000, 300_000, 1_700_000])
def test_by_a_clock_beside_it_threads_seem_to_speak_in_their_calls(by_ns: int) -> None:
    calls, moments = run_thread()
    assert count_spoken(shifted(calls, by_ns), moments, STEPS) > 50


def test_a_clock_that_is_a_few_microseconds_beside_it_is_not_told() -> None:
    """What is nearer than 20 us may be the time that reading a clock takes."""
    calls, moments = run_thread()
    assert count_spoken(shifted(calls, 12_000), moments, STEPS) == 0


def test_two_threads_that_are_taken_for_one_tell_nothing_of_the_clock() -> None:
    """By no clock the calls of the one lie between the lines of the other."""
    calls, moments = run_thread(seed=1)[0], run_thread(seed=2)[1]
    assert count_spoken(calls, moments, STEPS) == 0


def test_a_thread_that_was_guessed_tells_nothing_of_the_clock() -> None:
    calls, moments = run_thread()
    wrong = shifted(calls, 300_000)
    assert count_spoken(wrong, moments, STEPS, frozenset({1})) == 0
    other = run_thread(2, seed=9)
    both = pl.concat([wrong, shifted(other[0], 300_000)]), {**moments, **other[1]}
    assert 50 < count_spoken(*both, STEPS, frozenset({1})) < count_spoken(*both, STEPS)


def test_lines_whose_time_is_read_by_a_system_call_are_in_no_wrong_call() -> None:
    """Each line stands 30 us behind the enter of the call that reads its time."""
    _, moments = run_thread()
    lines = moments[1]
    for name in ("clock_gettime", "gettimeofday"):
        assert count_spoken(calls_of(1, lines - 30_000, lines + 3_000, name), moments, STEPS) == 0
    assert count_spoken(calls_of(1, lines - 30_000, lines + 3_000, "read"), moments, STEPS) > 0


@pytest.mark.parametrize("share", [0.02, 0.1, 0.3, 0.5])
def test_lost_records_of_a_trace_are_no_other_clock(share: float) -> None:
    """Where the exit of a call and the enter of the next one are lost, the two look like one that holds lines."""
    for seed in range(5):
        calls, moments = run_thread(seed=seed)
        rng = np.random.default_rng(seed)
        enters, exits = (calls[name].to_numpy()[rng.random(400) >= share] for name in ("stamp_ns", "end_stamp_ns"))
        stamp = np.concatenate([enters, exits])
        is_exit = np.repeat([False, True], [len(enters), len(exits)])[np.argsort(stamp)]
        stamp = np.sort(stamp)
        ends = np.append(is_exit[1:] & ~is_exit[:-1], False)
        paired = pl.DataFrame({"stamp_ns": stamp, "end": np.append(stamp[1:], 0), "ends": ends, "is_exit": is_exit})
        paired = paired.filter(~(pl.col("is_exit") & pl.col("ends").shift(1, fill_value=False)))
        rows = paired.select(thread=1, name=pl.lit("ioctl"), stamp_ns="stamp_ns",
                             end_stamp_ns=pl.when("ends").then("end"))  # fmt: skip
        assert rows["end_stamp_ns"].count() < 400
        assert count_spoken(rows, moments, STEPS) == 0


def test_calls_without_an_end_are_no_lost_records_where_a_thread_began_and_ended() -> None:
    calls, moments = run_thread()
    wrong = shifted(calls, 300_000)
    edges = pl.DataFrame({
        "thread": 1, "name": ["futex", "exit_group"], "stamp_ns": [-MS, 10**10], "end_stamp_ns": [None, None],
    }, schema=wrong.schema)  # fmt: skip
    births = calls_of(1, np.arange(100) * MS + 7, np.arange(100)).with_columns(
        name=pl.lit("clone3"), end_stamp_ns=pl.lit(None, pl.Int64)
    )
    assert count_spoken(pl.concat([wrong, edges, births]), moments, STEPS) > 50


def test_few_calls_and_other_threads_tell_nothing() -> None:
    calls, moments = run_thread()
    wrong = shifted(calls, 300_000)
    assert count_spoken(wrong.head(6), moments, STEPS) == 0
    assert count_spoken(wrong, {2: moments[1]}, STEPS) == 0
    assert count_spoken(wrong.clear(), moments, STEPS) == 0
    assert count_spoken(wrong, {}, STEPS) == 0
