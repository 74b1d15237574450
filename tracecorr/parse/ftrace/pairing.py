"""Pair enters with exits per kernel thread, across blocks, and nest kernel functions in their call."""

from __future__ import annotations

import polars as pl

from tracecorr.model import schema
from tracecorr.model.kinds import Flag
from tracecorr.parse.ftrace.halves import ENTER, EXIT, FUNCTION, GRAPH, HALF, SYSCALL, Batch, all_args

# Open enters kept per (thread, function): deeper ones are recursion or missed returns.
_MAX_OPEN = 8
_END = {
    "end_seq": "seq",
    "end_file": "file",
    "end_offset": "offset",
    "end_length": "length",
    "end_stamp_ns": "stamp_ns",
    "end_result": "result",
}
_PAIRED = pl.Schema({**HALF, **{end: HALF[start] for end, start in _END.items()}})


class Pairer:
    """Turn halves into rows of `PART_EVENTS`; halves of one call may come in different blocks."""

    def __init__(self, clock: str) -> None:
        self._clock = clock
        self._open = HALF.to_frame()
        self._late_args: list[pl.DataFrame] = []
        self._with_return: set[str] = set()

    def feed(self, batch: Batch) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Return (events, args) of everything that is complete with this batch."""
        halves = pl.concat(batch.halves) if batch.halves else HALF.to_frame()
        calls = pl.concat([self._open, halves.filter(pl.col("call") > 0)])
        plain = halves.filter(pl.col("call") == 0)
        functions = calls["call"] >= FUNCTION
        if functions.any():
            returns = calls.filter((pl.col("phase") == EXIT) & (pl.col("call") >= FUNCTION))["key"]
            self._with_return.update(returns.unique().to_list())
        syscalls, open_syscalls = _pair_syscalls(calls.filter(pl.col("call") == SYSCALL))
        paired, open_functions = self._pair_functions(calls.filter(pl.col("call") >= FUNCTION))
        if paired.height + open_functions.height:
            paired, open_functions = self._nest(syscalls, open_syscalls, paired, open_functions)
        self._open = pl.concat([open_syscalls, open_functions])
        rows = pl.concat([_as_paired(plain), syscalls, paired])
        return self._events(rows), self._args(batch, rows)

    def finish(self) -> pl.DataFrame:
        """Return the events of the enters that nothing ended."""
        rows, self._open = _as_paired(self._open), HALF.to_frame()
        return self._events(rows)

    def _pair_functions(self, calls: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Match like parentheses per (thread, function): neighbours first, then what they enclosed."""
        done = [_as_paired(calls.filter(pl.col("phase") == 0))]
        rest = calls.filter(pl.col("phase") != 0).sort("tid", "key", "seq")
        for _ in range(_MAX_OPEN):
            pairs, rest = _neighbours(rest, same=("tid", "key"))
            done.append(pairs)
            if pairs.is_empty():
                break
        done.append(_as_paired(rest.filter(pl.col("phase") == EXIT)))
        opened = rest.filter(pl.col("phase") == ENTER)
        index = pl.int_range(pl.len(), dtype=pl.Int64).reverse().over("tid", "key")
        opened = opened.with_columns(index.alias("age"))
        done.append(_as_paired(opened.filter(pl.col("age") >= _MAX_OPEN).drop("age")))
        return pl.concat(done), opened.filter(pl.col("age") < _MAX_OPEN).drop("age")

    def _nest(
        self, syscalls: pl.DataFrame, open_syscalls: pl.DataFrame, paired: pl.DataFrame, opened: pl.DataFrame
    ) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Fill `depth` and `parent_offset` of kernel functions from the system call around them."""
        columns = ["tid", "seq", "file", "offset"]
        outer = pl.concat(
            [
                syscalls.select(*columns, "phase", "end_seq"),
                _as_paired(open_syscalls).select(*columns, "phase", "end_seq"),
            ]
        )
        inner = pl.concat([paired, _as_paired(opened)]).with_row_index("row")
        kernel = (pl.col("layer") != "hsa") & (pl.col("phase") != EXIT) & pl.col("depth").is_null()
        marks = _marks(outer, inner.filter(kernel), self._with_return)
        inner = inner.join(marks, on="row", how="left", maintain_order="left").with_columns(
            pl.coalesce("depth", "new_depth").alias("depth"),
            pl.coalesce("parent_offset", "new_parent").alias("parent_offset"),
        )
        inner = inner.drop("row", "new_depth", "new_parent").select(_PAIRED.names())
        return inner.head(paired.height), inner.tail(opened.height).select(HALF.names())

    def _events(self, rows: pl.DataFrame) -> pl.DataFrame:
        alone = pl.col("end_seq").is_null()
        returns = (pl.col("call") == SYSCALL) | pl.col("key").is_in(list(self._with_return))
        flags = (
            pl.when(alone & (pl.col("phase") == ENTER) & returns).then(Flag.ENTER_ONLY.value)
            .when(alone & (pl.col("phase") == EXIT)).then(Flag.EXIT_ONLY.value).otherwise(0)
        )  # fmt: skip
        flags = flags + pl.when(pl.col("stamp_ns").is_null()).then(Flag.NO_TIME.value).otherwise(0)
        same_file = pl.col("file") == pl.col("end_file")
        rows = rows.sort("seq").with_columns(
            flags.alias("flags"),
            pl.lit(self._clock).alias("clock"),
            pl.coalesce("end_result", "result").alias("result"),
            pl.coalesce("end_stamp_ns", pl.col("stamp_ns") + pl.col("dur_ns")).alias("end_stamp_ns"),
            pl.when(same_file).then(pl.col("end_offset")).alias("end_offset"),
            pl.when(same_file).then(pl.col("end_length")).alias("end_length"),
        )
        return schema.PART_EVENTS.conform(rows.select(c for c in rows.columns if c in schema.PART_EVENTS.schema))

    def _args(self, batch: Batch, rows: pl.DataFrame) -> pl.DataFrame:
        frames = list(batch.args)
        if batch.exit_args:
            late = pl.concat(batch.exit_args, how="vertical_relaxed").with_columns(pl.col("file").cast(pl.UInt16))
            ends = rows.filter(pl.col("end_seq").is_not_null()).select(
                "end_file", "end_offset", pl.col("file").alias("to_file"), pl.col("offset").alias("to")
            )
            late = late.join(ends, left_on=["file", "offset"], right_on=["end_file", "end_offset"], how="left")
            frames.append(
                late.select(
                    pl.coalesce("to_file", "file").alias("file"),
                    pl.coalesce("to", "offset").alias("offset"),
                    "key",
                    "u64",
                    "text",
                )
            )
        return all_args(frames)


def _as_paired(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.with_columns(pl.lit(None, _PAIRED[c]).alias(c) for c in _END).select(_PAIRED.names())


def _neighbours(frame: pl.DataFrame, same: tuple[str, ...], *, key: bool = False) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return (pairs, rest): enters directly followed by their exit in a frame sorted by `same` and seq."""
    if frame.height < 2:
        return _as_paired(frame.clear()), frame
    fits = (pl.col("phase") == ENTER) & (pl.col("phase").shift(-1) == EXIT)
    for column in (*same, "key") if key else same:
        fits = fits & pl.col(column).eq_missing(pl.col(column).shift(-1))
    frame = frame.with_columns(fits.fill_null(value=False).alias("starts"))
    ends = pl.col("starts").shift(1, fill_value=False)
    frame = frame.with_columns(ends.alias("ends"), *(pl.col(c).shift(-1).alias(end) for end, c in _END.items()))
    pairs = frame.filter("starts").select(_PAIRED.names())
    return pairs, frame.filter(~pl.col("starts") & ~pl.col("ends")).select(HALF.names())


def _pair_syscalls(calls: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """A thread is in one system call at a time: an enter is ended by the thread's next record or never."""
    calls = calls.sort("tid", "seq")
    last = (pl.col("tid") != pl.col("tid").shift(-1)).fill_null(value=True) & (pl.col("phase") == ENTER)
    is_open = calls.select(last.alias("x"))["x"] if calls.height else pl.Series([], dtype=pl.Boolean)
    pairs, rest = _neighbours(calls.filter(~is_open), same=("tid",), key=True)
    return pl.concat([pairs, _as_paired(rest)]), calls.filter(is_open)


def _marks(outer: pl.DataFrame, inner: pl.DataFrame, with_return: set[str]) -> pl.DataFrame:
    """Return `new_depth` and `new_parent` per `row` of `inner`."""
    far = 1 << 62
    parents = outer.filter(pl.col("phase") == ENTER).select(
        "tid",
        "seq",
        pl.col("end_seq").fill_null(far).alias("until"),
        pl.col("offset").alias("new_parent"),
        pl.col("file").alias("in_file"),
    )
    parents = parents.sort("seq")
    inside = inner.select("row", "tid", "seq", "file", "phase", "key", "end_seq").sort("seq")
    inside = inside.join_asof(parents, on="seq", by="tid", strategy="backward", check_sortedness=False)
    nested = (pl.col("seq") < pl.col("until")).fill_null(value=False)
    spans = inner.filter(
        (pl.col("phase") == ENTER) & (pl.col("end_seq").is_not_null() | pl.col("key").is_in(list(with_return)))
    )
    steps = pl.concat(
        [
            spans.select("tid", "seq", pl.lit(1).alias("step"), pl.lit(None, pl.UInt32).alias("row")),
            spans.filter(pl.col("end_seq").is_not_null()).select(
                "tid", pl.col("end_seq").alias("seq"), pl.lit(-1).alias("step"), pl.lit(None, pl.UInt32).alias("row")
            ),
            inside.select("tid", "seq", pl.lit(0).alias("step"), "row"),
        ]
    ).sort("tid", "seq", "step")
    # A row of step 0 sorts before its own +1, so the running sum is what encloses it.
    level = steps.with_columns(pl.col("step").cum_sum().over("tid").alias("level")).filter(pl.col("row").is_not_null())
    inside = inside.join(level.select("row", "level"), on="row", how="left")
    depth = pl.col("level").clip(0, 1000) + nested.cast(pl.Int32)
    parent = pl.when(nested & (pl.col("file") == pl.col("in_file"))).then(pl.col("new_parent"))
    return inside.select("row", depth.cast(pl.UInt16).alias("new_depth"), parent.alias("new_parent"))


__all__ = ["GRAPH", "Pairer"]
