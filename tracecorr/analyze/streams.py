"""Which streams existed, and to which queues did they submit?"""

from __future__ import annotations

import polars as pl

from tracecorr.analyze.frames import as_text, collect

NO_STREAM_NAMES = (
    "the log does not say which stream a packet or copy is of (commands do from ROCm 7.0 on, from 7.2 on at level 5, "
    "and before that the calls that are given one)"
)


def summarize_streams(streams: pl.LazyFrame, stream_queues: pl.LazyFrame, launches: pl.LazyFrame) -> pl.DataFrame:
    """Return one row per stream: its queues in order of use, and what it submitted.

    dispatches, barriers and copies are null where the log of the process does not name the stream of all of them
    (barriers up to ROCm 6.4): the others may be of any stream. So are those that the log of the process does not show
    at all: its level may print no packets.
    """
    used = (
        stream_queues.sort("from_ns")
        .group_by("stream", maintain_order=True)
        .agg(
            pl.col("queue").unique(maintain_order=True).cast(pl.String).str.join(" ").alias("queues"),
            pl.col("evidence").cast(pl.String).unique().sort().str.join(" ").alias("queue_evidence"),
        )
    )
    kind = pl.col("kind").cast(pl.String)
    sorts = {"dispatches": kind == "dispatch", "barriers": kind.str.starts_with("barrier"), "copies": kind == "copy"}
    counts = [of_sort.sum().cast(pl.Int64).alias(name) for name, of_sort in sorts.items()]
    submitted = launches.group_by("stream").agg(counts)
    unknown = _list_unknown(launches, sorts)
    known = [
        pl.when(~pl.col(f"unknown_{name}").fill_null(value=True)).then(pl.col(name).fill_null(0)).alias(name)
        for name in sorts
    ]
    return collect(
        streams.select("stream", "process", "handle", "priority", "flags", "created_ns", "destroyed_ns")
        .join(used, on="stream", how="left")
        .join(submitted, on="stream", how="left")
        .join(unknown, on="process", how="left", nulls_equal=True)
        .with_columns(*known, *as_text("queues", "queue_evidence"))
        .drop(f"unknown_{name}" for name in sorts)
        .sort("stream")
    )


def _list_unknown(launches: pl.LazyFrame, sorts: dict[str, pl.Expr]) -> pl.LazyFrame:
    """Return of each process with launches which of the numbers of its streams are unknown."""
    silent = (pl.col("kind").cast(pl.String) == "copy").all()  # a level that prints copies may print no packets
    unnamed = pl.col("stream").is_null()
    # A command that is there, but without its stream, is none that a lossy log lacks.
    nameless = {
        name: (of_sort & unnamed & pl.col("command_event").is_not_null()).any()
        | (of_sort.any() & ~(of_sort & ~unnamed).any())
        for name, of_sort in sorts.items()
    }
    missing = {name: nameless[name] if name == "copies" else nameless[name] | silent for name in sorts}
    return launches.group_by("process").agg(lacks.alias(f"unknown_{name}") for name, lacks in missing.items())


def names_streams(launches: pl.LazyFrame) -> bool:
    """Tell whether the log says which stream its packets and copies are of (`NO_STREAM_NAMES`)."""
    seen = pl.col("stream").is_not_null().any() | (pl.len() == 0)
    return bool(collect(launches.select(seen)).item())


def count_streams_at_once(streams: pl.LazyFrame, stream_queues: pl.LazyFrame) -> pl.DataFrame:
    """Return per queue how many of the streams that submitted to it lived at the same time, at most.

    A stream lives from its creation, or its first packet where the log does not show that, until it is destroyed.

    Args:
        streams, stream_queues: the tables.

    Returns: queue, at_once.
    """
    lives = stream_queues.group_by("queue", "stream").agg(pl.col("from_ns").min()).join(streams, on="stream")
    begins = lives.select("queue", at=pl.min_horizontal("created_ns", "from_ns"), step=pl.lit(1))
    ends = lives.select("queue", at="destroyed_ns", step=pl.lit(-1)).drop_nulls("at")
    # What ends when another one begins made room for it.
    steps = pl.concat([begins, ends]).sort("at", "step")
    living = steps.with_columns(living=pl.col("step").cum_sum().over("queue"))
    return collect(living.group_by("queue").agg(at_once=pl.col("living").max().cast(pl.Int64)).sort("queue"))
