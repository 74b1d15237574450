"""Votes of system calls on which thread of the log made them (HAND-MADE)."""

from __future__ import annotations

import polars as pl
import pytest

from tracecorr.link.threads.thread_votes import guess_threads, select_voters
from tracecorr.model.schema import CAT, PART_ARGS

# Calls of 100 ns, one each 1000 ns, of log threads 0xa (from 0 on) and 0xb (from 500 on).
_A, _B = [(0xA, 1000 * n) for n in range(10)], [(0xB, 1000 * n + 500) for n in range(10)]


def _vote(calls: list[tuple[int, int]], ioctls: list[tuple[int, int, int]]) -> list[tuple[int, int, str]]:
    """Return log_tid, tid_key, how; calls are (log tid, start), ioctls (kernel tid, start, duration)."""
    hip = [{"source": "amd_log", "layer": "hip", "file": 0, "pid": 7, "tid": tid, "ts_ns": at, "dur_ns": 100,
            "tid_key": None, "host_tid": None} for tid, at in calls]  # fmt: skip
    made = [{"source": "ftrace", "layer": "ioctl", "file": 1, "pid": 70, "tid": None, "ts_ns": at, "dur_ns": dur,
             "tid_key": tid, "host_tid": tid} for tid, at, dur in ioctls]  # fmt: skip
    placed = pl.DataFrame(
        hip + made,
        schema_overrides={"source": CAT, "layer": CAT, "file": pl.UInt16, "pid": pl.UInt32, "tid": pl.UInt64,
                          "tid_key": pl.Int64, "host_tid": pl.Int64},
    ).with_columns(
        name=pl.lit("any"), parent_offset=pl.lit(None, pl.Int64), offset=pl.lit(0), err_lo_ns=pl.lit(0, pl.UInt32),
        ring=pl.lit(None, pl.UInt64),
    )  # fmt: skip
    return guess_threads(placed, PART_ARGS.empty()).select("log_tid", "tid_key", "how").sort("log_tid").rows()


@pytest.mark.parametrize(
    ("ioctls", "found"),
    [
        pytest.param([(70, 1000 * n + 10, 80) for n in range(6)], [(0xA, 70, "6 of 6 ioctls inside its calls")],
                     id="all in one thread's calls"),
        pytest.param([(70, 1000 * n + 10, 80) for n in range(4)], [], id="too few"),
        pytest.param([(70, 1000 * n + 10, 95) for n in range(6)], [], id="they end behind the calls"),
        pytest.param([(70, 1000 * n + 200, 80) for n in range(6)], [], id="between the calls"),
        pytest.param([(70, 1000 * n + 10, 80) for n in range(8)] + [(70, 8200, 1), (70, 9200, 1)], [],
                     id="two of ten lie in no call"),
        pytest.param([(t, 1000 * n + 10 + t, 10) for n in range(6) for t in (60, 70)], [],
                     id="two kernel threads in the calls of one"),
        pytest.param([(70, 1000 * n + 10, 80) for n in range(6)] + [(71, 1000 * n + 510, 80) for n in range(6)],
                     [(0xA, 70, "6 of 6 ioctls inside its calls"), (0xB, 71, "6 of 6 ioctls inside its calls")],
                     id="one for each"),
    ],
)  # fmt: skip
def test_a_thread_is_guessed_only_by_ioctls_that_lie_in_its_calls_alone(
    ioctls: list[tuple[int, int, int]], found: list[tuple[int, int, str]]
) -> None:
    assert _vote(_A + _B, ioctls) == found


def test_calls_of_two_threads_at_the_same_times_name_none() -> None:
    assert _vote(_A + [(0xB, at) for _, at in _A], [(70, 1000 * n + 10, 80) for n in range(6)]) == []


def test_who_is_known_on_both_sides_has_no_vote() -> None:
    rows = [
        ("log of the unknown", "amd_log", "hip", None, 5), ("log of the known", "amd_log", "hip", 70, 5),
        ("ioctl of the known", "ftrace", "ioctl", 70, 5), ("ioctl", "ftrace", "ioctl", 71, 5),
        ("syscall", "ftrace", "syscall", 71, 5), ("switch", "ftrace", "sched", 71, 5),
        ("no time", "amd_log", "hip", None, None), ("profile", "rocprof", "hip", 71, 5),
    ]  # fmt: skip
    records = pl.DataFrame(rows, schema=["name", "source", "layer", "host_tid", "stamp_ns"], orient="row").with_columns(
        pl.col("source", "layer").cast(CAT), pl.col("host_tid").cast(pl.Int64),
        **{name: pl.lit(None) for name in ("end_stamp_ns", "step_lo_ns", "step_hi_ns", "clock", "flags", "file",
                                           "offset", "parent_offset", "pid", "tid", "ring")},
    )  # fmt: skip
    assert select_voters(records)["name"].to_list() == ["log of the unknown", "ioctl", "syscall"]
