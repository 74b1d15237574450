"""How each clock was mapped to CLOCK_MONOTONIC, and with which error."""

from __future__ import annotations

import polars as pl

from tracecorr.analyze.values import as_text, collect, render_ns
from tracecorr.clock.placing import UNTIMED
from tracecorr.model.kinds import Flag

# Width of the bounds of a piece where they are widest; without it, the sum of both sides.
WIDTH_NS = pl.coalesce("width_ns", pl.col("lo_ns") + pl.col("hi_ns"))
# Largest step between two pieces that continue each other.
_ROUNDED_NS = 2


def summarize_clocks(clock_map: pl.LazyFrame) -> pl.DataFrame:
    """Return one row per stretch of the clock map without a step, which may be many pieces.

    `error_ns` is the width of its bounds, `rate_ppb` the mean rate of the pieces. `from_ns` is on CLOCK_MONOTONIC, like
    the times of events; in the map it is on the source's clock.
    """
    span = pl.col("to_ns") - pl.col("from_ns")
    return collect(
        _number_stretches(clock_map)
        .group_by("source", "method", "stretch", maintain_order=True)
        .agg(
            # The offset is the one at this stamp of the source.
            (pl.col("from_ns") + pl.col("offset_ns")).first(),
            (pl.col("to_ns").last() - pl.col("from_ns").first()).alias("span_ns"),
            pl.col("offset_ns").first(),
            pl.when(span.sum() > 0)
            .then((pl.col("rate_ppb") * span).sum() / span.sum())
            .otherwise(pl.col("rate_ppb").first())
            .round()
            .cast(pl.Int64),
            lines=pl.len().cast(pl.Int64),
            least_rate_ppb=pl.col("rate_ppb").min(),
            largest_rate_ppb=pl.col("rate_ppb").max(),
            error_ns=WIDTH_NS.max(),
            pairs=pl.col("pairs").max(),
            violated=pl.col("violated").max(),
        )
        .drop("stretch")
    )


def _number_stretches(clock_map: pl.LazyFrame) -> pl.LazyFrame:
    """Return the pieces in order, with the step from the piece before, and the number of their stretch."""
    before = (pl.col(name).shift(1) for name in ("from_ns", "to_ns", "offset_ns", "rate_ppb"))
    first, last, offset, rate = before
    told = offset + (rate * 1e-9 * (pl.col("from_ns") - first)).round().cast(pl.Int64)
    # The pieces of one map follow each other, also in a dataset of many nodes; its first one has the counts.
    ordered = clock_map.with_columns(as_text("source", "method")).sort("source", maintain_order=True)
    same = (pl.col("source") == pl.col("source").shift(1)) & pl.col("pairs").is_null()
    ordered = ordered.with_columns(
        step_ns=pl.when(same).then(pl.col("offset_ns") - told), follows=same & (pl.col("from_ns") == last + 1)
    )
    goes_on = (pl.col("follows") & (pl.col("step_ns").abs() <= _ROUNDED_NS)).fill_null(value=False)
    return ordered.with_columns(stretch=(~goes_on).cum_sum())


def find_untimed(clock_map: pl.LazyFrame) -> list[str]:
    """Return the clocks of kernel traces that count cycles or events and were not mapped: they show no durations."""
    source, method = (pl.col(c).cast(pl.String) for c in ("source", "method"))
    known = [f"ftrace:{clock}" for clock in UNTIMED]
    return collect(clock_map.filter(source.is_in(known) & (method == "unaligned")).select(source))["source"].to_list()


def find_step_ns(clock_map: pl.LazyFrame) -> int:
    """Return the error of a duration in the kernel trace because of a clock with large steps."""
    is_coarse = pl.col("source").cast(pl.String) == "ftrace:uptime"
    return 2 * 10_000_000 if collect(clock_map.select(is_coarse.any())).item() else 0


def describe_durations(clock_map: pl.LazyFrame) -> str:
    """Return, in words, the error of durations in the kernel trace; empty if they are those of its stamps."""
    untimed, step_ns = find_untimed(clock_map), find_step_ns(clock_map)
    coarse = f"durations have an error of {render_ns(step_ns)}, the steps of the trace's clock" if step_ns else ""
    lost = f"durations are unknown: {', '.join(untimed)} does not count nanoseconds" if untimed else ""
    return "; ".join(filter(None, (lost, coarse, describe_fitted_rate(clock_map))))


def describe_fitted_rate(clock_map: pl.LazyFrame) -> str:
    """Return, in words, how durations of the kernel trace are scaled; empty if no rate was fitted by pairs."""
    source, method = (pl.col(c).cast(pl.String) for c in ("source", "method"))
    fitted = _number_stretches(clock_map.filter(source.str.starts_with("ftrace") & (method == "causal_pairs")))
    step = pl.col("step_ns").abs()
    rate, step_ns = collect(fitted.select(pl.col("rate_ppb").abs().max(), step.filter(step > _ROUNDED_NS).max())).row(0)
    if not rate and not step_ns:
        return ""
    carried = (
        f"the rate that was fitted to the trace's clock, up to {rate / 1000:.1f} ppm, that is {render_ns(rate)} "
        "per second"
    )
    stepped = f"the steps of the trace's clock, up to {render_ns(step_ns)}" if step_ns else ""
    told = " and ".join(filter(None, (carried if rate else "", stepped)))
    return f"durations are on the common clock: they include {told}"


def summarize_time_errors(events: pl.LazyFrame) -> pl.DataFrame:
    """Return one row per source: the width of the interval that holds the true start of its events.

    It consists of the clock's bounds and the step of the printed time.
    """
    width = pl.col("err_lo_ns").cast(pl.Int64) + pl.col("err_hi_ns").cast(pl.Int64)
    unaligned = pl.col("flags").fill_null(0) & int(Flag.UNALIGNED) > 0
    # Few widths occur, so that counting them is much cheaper than sorting all events.
    counts = collect(
        events.group_by("source", width.alias("width"), unaligned.alias("unaligned")).agg(rows=pl.len().cast(pl.Int64))
    )
    known = pl.col("width").is_not_null()
    return (
        counts.with_columns(as_text("source"))
        .sort("source", "width")
        .group_by("source", maintain_order=True)
        .agg(
            pl.col("rows").sum().alias("events"),
            pl.col("rows").filter(~known).sum().alias("error_unknown"),
            pl.col("rows").filter("unaligned").sum().alias("unaligned"),
            _median().alias("p50_ns"),
            pl.col("width").max().alias("max_ns"),
        )
    )


def _median() -> pl.Expr:
    """Return the median of the widths, which are sorted and counted."""
    known = pl.col("width").is_not_null()
    rows, widths = pl.col("rows").filter(known), pl.col("width").filter(known)
    return widths.filter(rows.cum_sum() * 2 >= rows.sum()).first()
