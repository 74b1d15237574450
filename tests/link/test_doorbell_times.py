"""Stores and packet lines of one thread keep their distance in time; those of two do not (HAND-MADE)."""

from __future__ import annotations

import polars as pl
import pytest

from tracecorr.link.threads.doorbell_threads import match_doorbells
from tracecorr.link.threads.doorbell_times import bracket_lines, find_slack, list_untimely

RING = 0x3C00000
# When a thread prints each packet, ns: no two steps are alike.
PRINTED = [1_000_000 + 400_000 * n + 170_000 * (n * n % 7) for n in range(40)]
# The same program in another process: the same packets, at a pace of its own.
ELSEWHERE = [1_000_000 + 400_000 * n + 170_000 * (n * n * n % 11) for n in range(40)]


def lines_of(thread: int, times: list[int], name: str = "dispatch") -> pl.DataFrame:
    lines = pl.DataFrame({"packet_index": range(len(times)), "stamp_ns": times}).with_columns(
        file=pl.lit(0, pl.UInt16), log_pid=pl.lit(thread, pl.UInt32), log_tid=pl.lit(thread, pl.UInt64),
        ring=pl.lit(RING, pl.UInt64), offset=pl.col("stamp_ns"), name=pl.lit(name),
    )  # fmt: skip
    # Behind each packet's line its call ends.
    others = lines.with_columns(pl.col("stamp_ns") + (20_000 if name == "dispatch" else -20_000))
    return bracket_lines(lines, pl.concat([lines, others]))


def stores_of(tid: int, times: list[int], ring: int | None = RING, slack: int | None = 1_000) -> pl.DataFrame:
    return pl.DataFrame({"packet_index": range(len(times)), "stamp_ns": times}).with_columns(
        tid_key=pl.lit(tid, pl.Int64), ring=pl.lit(ring, pl.UInt64), slack_ns=pl.lit(slack, pl.Int64)
    )


def stored(times: list[int], name: str = "dispatch", *, offset: int = 0, rate: float = 0.0) -> list[int]:
    """Return when the packets printed then are stored, by a clock that is off and drifts."""
    step = 5_000 if name == "dispatch" else -5_000
    return [at + step + offset + round(rate * at) for at in times]


@pytest.mark.parametrize("ring", [RING, None])
@pytest.mark.parametrize(
    ("offset", "rate"), [(0, 0.0), (-7_000_000_000, 0.0), (25_000_000, 500e-6), (25_000_000, -500e-6)]
)
@pytest.mark.parametrize("name", ["dispatch", "barrier_and"])
def test_of_threads_with_equal_packets_the_one_is_meant_that_stores_when_these_are_printed(
    ring: int | None, offset: int, rate: float, name: str
) -> None:
    own = stores_of(7, stored(PRINTED, name, offset=offset, rate=rate), ring)
    other = stores_of(8, stored(ELSEWHERE, name, offset=offset, rate=rate), ring)
    lines = lines_of(1, PRINTED, name)
    found, untimely = match_doorbells(lines, pl.concat([own, other]))
    assert found.select("log_tid", "tid_key").rows() == [(1, 7)]
    assert untimely["tid_key"].to_list() == ([8] if ring else [])
    # The trace shows only the other process.
    assert match_doorbells(lines, other)[0].is_empty()
    # Both logs, and both threads.
    both = pl.concat([lines, lines_of(2, ELSEWHERE, name)])
    found, _ = match_doorbells(both, pl.concat([own, other]))
    assert sorted(found.select("log_tid", "tid_key").rows()) == [(1, 7), (2, 8)]


def test_a_store_that_came_late_and_a_step_of_the_clock_make_no_other_thread() -> None:
    times = stored(PRINTED)
    late = [at + (3_000_000 if n % 8 == 5 else 0) for n, at in enumerate(times)]
    stepped = [at + (9_000_000_000 if n >= 20 else 0) for n, at in enumerate(times)]
    for seen in (late, stepped):
        assert match_doorbells(lines_of(1, PRINTED), stores_of(7, seen))[0]["tid_key"].to_list() == [7]


def test_clocks_that_count_no_nanoseconds_are_asked_for_no_times() -> None:
    clocks = pl.DataFrame({"clock": ["local", "mono", "uptime", "counter", "x86-tsc", None]})
    assert clocks.select(find_slack(pl.col("clock"))).to_series().to_list() == [1_000, 1_000, 20_000_000, *[None] * 3]
    cycles = stores_of(7, [3 * at for at in stored(PRINTED)], slack=None)
    assert match_doorbells(lines_of(1, PRINTED), cycles)[0]["tid_key"].to_list() == [7]
    nothing = lines_of(1, PRINTED).with_columns(doorbell_lo_ns=pl.lit(None, pl.Int64))
    assert list_untimely(nothing.join(stores_of(7, ELSEWHERE), on=["ring", "packet_index"])).is_empty()
