"""Queues that are made again and again on one ring, by one thread, are each joined with their own ioctl (SYNTHETIC)."""

from __future__ import annotations

import polars as pl
import pytest

from tracecorr.link.creations import join_creations

COUNT = 100_000
STEP_NS = 1_000_000


def _creations() -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return 100,000 Created lines of one thread and ring, and the ioctl of each in the middle of its making."""
    at = pl.int_range(COUNT, eager=True) * STEP_NS
    key = pl.lit(3, pl.UInt32)
    lines = pl.select(
        event=pl.int_range(COUNT), process=key, thread=key, ts_ns=at + 900_000, from_ns=at + 100_000,
        ring=pl.lit(0x3C00000, pl.UInt64), err_hi_ns=pl.lit(1000, pl.Int64), swq=pl.lit(0x220000, pl.UInt64),
        size=pl.lit(16384, pl.UInt64), ring_evidence=pl.lit("recorded"),
    )  # fmt: skip
    ioctls = pl.select(
        event=COUNT + pl.int_range(COUNT), process=key, thread=key, ts_ns=at + 300_000, end_ns=at + 700_000,
        ioctl_lo=pl.lit(500, pl.Int64), ioctl_hi=pl.lit(500, pl.Int64), ring_base=pl.lit(0x3C00000, pl.UInt64),
        size_bytes=pl.lit(1 << 20, pl.Int64), type=pl.lit("compute_aql"),
        lost_ns=pl.lit(None, pl.Int64),
    )  # fmt: skip
    return lines, ioctls


@pytest.mark.parametrize(("probed", "evidence"), [(True, "recorded"), (False, "derived")])
def test_each_creation_of_a_ring_has_its_ioctl(probed: bool, evidence: str) -> None:
    lines, ioctls = _creations()
    if not probed:
        ioctls = ioctls.with_columns(ring_base=pl.lit(None, pl.UInt64))
    joins = join_creations(lines, ioctls).sort("event")
    assert joins["event"].to_list() == list(range(COUNT))
    assert (joins["ioctl"] - joins["event"] == COUNT).all()
    assert joins["evidence"].unique().to_list() == [evidence]


@pytest.mark.parametrize(("thread", "late_ns", "joined"), [(4, 0, 20), (4, 400_000, 0), (3, 400_000, 7)])
def test_ioctls_of_threads_that_the_log_does_not_name_are_its_own_where_most_fit(
    thread: int, late_ns: int, joined: int
) -> None:
    """Of two processes that have a pid in common the one makes two of three queues at other times than the other."""
    lines, ioctls = (rows.head(20) for rows in _creations())
    late = pl.when(pl.int_range(pl.len()) % 3 > 0).then(late_ns).otherwise(0)
    ioctls = ioctls.with_columns(pl.col("ts_ns", "end_ns") + late, thread=pl.lit(thread, pl.UInt32))
    assert len(join_creations(lines, ioctls)) == joined


@pytest.mark.parametrize(("error_ns", "joined"), [(200_000, True), (400_000, True), (30_000_000, False)])
def test_a_ring_tells_nothing_where_the_clock_is_less_sure_than_a_creation_is_long(error_ns: int, joined: bool) -> None:
    """The first of two creations on a ring lost its lines, the second one its ioctl."""
    lines, ioctls = (rows.head(20) for rows in _creations())
    ioctls = ioctls.with_columns(ioctl_lo=pl.lit(error_ns), ioctl_hi=pl.lit(error_ns))
    whole = join_creations(lines, ioctls).sort("event")
    assert whole["ioctl"].to_list() == ([COUNT + n for n in range(20)] if joined else [])
    assert join_creations(lines[10:11], ioctls[:10]).is_empty()


@pytest.mark.parametrize(
    ("error_ns", "evidence"), [(100_000, ["derived"]), (400_000, ["inferred"]), (30_000_000, [])]
)  # fmt: skip
def test_time_tells_nothing_where_the_clock_is_less_sure_than_a_creation_is_long(
    error_ns: int, evidence: list[str]
) -> None:
    """No probe shows the ring. The ioctl is the own one, or that of the creation before, whose lines were lost."""
    lines, ioctls = (rows.head(20) for rows in _creations())
    wide = {name: pl.lit(error_ns) for name in ("ioctl_lo", "ioctl_hi")}
    ioctls = ioctls.with_columns(ring_base=pl.lit(None, pl.UInt64), **wide)
    assert join_creations(lines[10:11], ioctls[10:11])["evidence"].to_list() == evidence
    assert join_creations(lines[10:11], ioctls[9:10]).is_empty()
