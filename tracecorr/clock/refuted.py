"""Traces that were said to be on one clock, and are shown to be on another one."""

from __future__ import annotations

from typing import NamedTuple

import polars as pl

_CLOCKS = {"mono": "CLOCK_MONOTONIC", "boot": "CLOCK_BOOTTIME", "mono_raw": "CLOCK_MONOTONIC_RAW"}


class Refuted(NamedTuple):
    """Tell of a trace that is not on the clock that was said.

    Args:
        clock: what was said, as ftrace calls it.
        beside_ns: the largest offset from that clock that is shown, ns.
    """

    clock: str
    beside_ns: int

    @property
    def name(self) -> str:
        """Return what the clock is called by clock_gettime."""
        return _CLOCKS[self.clock]


def find_refuted(clock_map: pl.DataFrame) -> Refuted | None:
    """Return which trace is said to be on a clock that its bounds leave no room for; None where none is.

    CLOCK_MONOTONIC is beside itself by nothing, and CLOCK_BOOTTIME never behind it. Where other sources show the same
    clock (GPU times, ROCr's lines), it is at the same time where they show it.

    Args:
        clock_map: the table.
    """
    maps = clock_map.with_columns(pl.col("source", "method").cast(pl.String))
    fitted = maps.filter(~pl.col("method").is_in(["same_clock", "unaligned"]))
    # Where the host slept nothing else may show that: clocks that cannot be mapped tell nothing.
    for clock in _CLOCKS:
        own = _list_ends(fitted.filter(pl.col("source") == f"ftrace:{clock}"))
        others = fitted.filter(
            pl.col("source").str.ends_with(f":{clock}") & ~pl.col("source").str.starts_with("ftrace")
        )
        beside = pl.concat([_compare_zero(own, clock), _compare(own, others)])
        if beside.len():
            return Refuted(clock, int(beside.gather(beside.abs().arg_max())[0]))  # type: ignore[arg-type]
    return None


def _list_ends(pieces: pl.DataFrame) -> pl.DataFrame:
    return pl.concat([pieces.with_columns(_offset(end).alias("at")) for end in ("from_ns", "to_ns")])


def _offset(stamp: str, suffix: str = "") -> pl.Expr:
    """Return the offset of a piece at a stamp."""
    run = pl.col(stamp) - pl.col(f"from_ns{suffix}")
    return pl.col(f"offset_ns{suffix}") + (pl.col(f"rate_ppb{suffix}") * 1e-9 * run).round().cast(pl.Int64)


def _compare_zero(own: pl.DataFrame, clock: str) -> pl.Series:
    """Return the offsets that the clock cannot have."""
    ahead, behind = pl.col("at") > pl.col("lo_ns"), pl.col("at") < -pl.col("hi_ns")
    wrong = {"mono": ahead | behind, "boot": ahead}.get(clock, pl.lit(value=False))
    return own.filter(wrong)["at"]


def _compare(own: pl.DataFrame, others: pl.DataFrame) -> pl.Series:
    """Return how far beside the same clock of other sources a trace is, where the bounds of both leave no zero."""
    # The host may have slept in between: only times that both show can be compared.
    both = own.drop("at").unique().join(others, how="cross", suffix="_2").with_columns(
        begin=pl.max_horizontal("from_ns", "from_ns_2"), end=pl.min_horizontal("to_ns", "to_ns_2")
    )  # fmt: skip
    both = both.filter(pl.col("begin") <= pl.col("end"))
    ends = [both.with_columns(at=_offset(end) - _offset(end, "_2")) for end in ("begin", "end")]
    wrong = (pl.col("at") > pl.col("lo_ns") + pl.col("hi_ns_2")) | (pl.col("at") < -pl.col("hi_ns") - pl.col("lo_ns_2"))
    return pl.concat(ends).filter(wrong)["at"]


def warn_refuted(clock_map: pl.DataFrame) -> list[str]:
    """Return what to say of a trace that is on another clock than was said, and what to do about it."""
    found = find_refuted(clock_map)
    if found is None:
        return []
    return [
        f"ftrace:{found.clock}: the trace was said to be on {found.name}, but the evidence shows that it runs "
        f"{found.beside_ns / 1e6:+.3f} ms beside it; times are those that the evidence gives. Name the clock that it "
        "was recorded with (--ftrace-clock local, unless trace_clock was set), or leave the option out. If it was "
        f"{found.clock}, the log is of another time namespace or machine"
    ]
