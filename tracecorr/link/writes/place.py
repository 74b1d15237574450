"""Which write of the trace put which bytes into which log, and the edges from records to their writes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import polars as pl

from tracecorr.clock.hull import NO_HIGH, NO_LOW, Ints, Mask
from tracecorr.link.events import find_places
from tracecorr.link.writes.alignment import Log, Piece, Run, align_runs, list_missing
from tracecorr.link.writes.descriptions import WRITES, Written, follow_writes
from tracecorr.model import frames
from tracecorr.model.kinds import DERIVED, INFERRED, RECORDED
from tracecorr.model.part_tables import MISSING, WRITERS
from tracecorr.model.part_tables import WRITES as PLACED

# What is asked of part events: of traces, and of logs.
TRACE_COLUMNS = (
    "source", "file", "offset", "stamp_ns", "end_stamp_ns", "pid", "tid", "layer", "name", "result", "fd", "arg",
    "size_bytes", "flags",
)  # fmt: skip
LOG_COLUMNS = (
    "source", "file", "offset", "length", "end_offset", "end_length", "stamp_ns", "end_stamp_ns", "clock", "pid", "tid",
)  # fmt: skip
# The log's descriptor is the one whose writes fit so many of its records.
_LEAST_SHARE = 0.5
# So many files are tried for one log, those of the most similar size first.
_MOST_TRIED = 8
# Of the records of a thread so many may be written by others.
_FEW = 0.1
_LEAST_OF_LIFE = 4  # fewer may be records of another thread that this one wrote
# Stamps of the log are cut to a microsecond. In a millisecond a clock drifts by less than one.
_LOG_STEP_NS, _BUCKET_NS = 1000, 1_000_000


def has_writes(trace: pl.DataFrame) -> bool:
    """Tell whether part events of traces (layer, name) show writes."""
    shown = (pl.col("layer") == "syscall") & pl.col("name").is_in(WRITES)
    return bool(trace.lazy().select(shown.any()).collect().item())


@dataclass(frozen=True)
class LogWrites:
    """Hold what the writes of a trace tell of logs.

    Args:
        placed: `part_tables.WRITES`, by file and position.
        writers: `part_tables.WRITERS`.
        spans: between which stamps of the log some writes were entered, for `clock.causal_pairs.bound_spans`.
        missing: `part_tables.MISSING`.
        unfit: logs (key of `files`) that are no file that the trace shows to be written, though one is as long.
    """

    placed: pl.DataFrame = field(default_factory=PLACED.empty)
    writers: pl.DataFrame = field(default_factory=WRITERS.empty)
    spans: pl.DataFrame = field(default_factory=frames.SPANS.empty)
    missing: pl.DataFrame = field(default_factory=MISSING.empty)
    unfit: tuple[int, ...] = ()


def place_writes(
    trace: pl.DataFrame,
    args: pl.DataFrame,
    losses: pl.DataFrame,
    starts: Mapping[int, pl.DataFrame],
    sizes: Mapping[int, int],
) -> LogWrites:
    """Return which write put which bytes into which log, and the bytes that are missing there.

    Args:
        trace: part events of traces (`TRACE_COLUMNS`).
        args: part args of the traces.
        losses: rows of `losses` of the traces, on their own clock.
        starts: the records of each log (key of `files`): `frames.LOG_STARTS`.
        sizes: the bytes of each log.
    """
    written = follow_writes(trace, args, losses)
    files = _list_files(written)
    found, missing, unfit = [PLACED.empty()], [MISSING.empty()], []
    for number, records in starts.items():
        aligned = _align_log(records, sizes[number], files)
        if aligned is None:
            unfit += [number] if any(2 * one.size > sizes[number] for one in files) else []
            continue
        of_file = pl.lit(number, pl.UInt16).alias("file")
        found.append(PLACED.conform(_list_placed(aligned, records).with_columns(of_file)))
        missing.append(MISSING.conform(_describe_missing(aligned, records).with_columns(of_file)))
    placed = pl.concat(found).sort("file", maintain_order=True)
    return LogWrites(placed, missing=pl.concat(missing), unfit=tuple(unfit))


def join_writers(known: LogWrites, log: pl.DataFrame) -> LogWrites:
    """Return what `place_writes` found with who wrote the records of each thread, and what they tell of the clock.

    Args:
        known: what is placed.
        log: part events of the logs (`LOG_COLUMNS`).
    """
    wrote = _join_records(_list_records(log), known.placed)
    writers, by_themselves = _list_writers(wrote)
    sure = wrote.filter(pl.col("write_evidence").cast(pl.String) != INFERRED)
    return replace(known, writers=writers, spans=_list_spans(sure, by_themselves))


def _list_records(log: pl.DataFrame) -> pl.DataFrame:
    """Return the lines of logs that have a row: file, offset, end, stamp_ns, next_ns, pid, tid, by file and offset.

    Args:
        log: part events of logs.

    Returns: `next_ns` is the next stamp of the same thread. Both are of CLOCK_MONOTONIC, else null.
    """
    mono = pl.col("clock") == "mono"
    end = pl.col("offset") + pl.col("length").cast(pl.Int64)
    starts = log.select("file", "offset", "pid", "tid", end=end, stamp_ns=pl.when(mono).then("stamp_ns"))
    ends = log.filter(pl.col("end_offset").is_not_null()).select(
        "file", "pid", "tid", offset="end_offset", end=pl.col("end_offset") + pl.col("end_length").cast(pl.Int64),
        stamp_ns=pl.when(mono).then("end_stamp_ns"),
    )  # fmt: skip
    both = pl.concat([starts, ends.select(starts.columns)]).sort("file", "offset", "stamp_ns", nulls_last=True)
    lines = both.unique(["file", "offset"], keep="first", maintain_order=True)
    thread = ["file", "pid", "tid"]
    following = pl.col("stamp_ns").backward_fill().shift(-1).over(thread)
    return lines.with_columns(next_ns=following)


@dataclass(frozen=True)
class _File:
    """Hold writes that may all be of one file: runs, and their calls in the same order."""

    calls: pl.DataFrame
    runs: list[Run]

    @property
    def size(self) -> int:
        """Return how many bytes they wrote."""
        return sum(run.size for run in self.runs)


def _list_files(written: Written) -> list[_File]:
    """Return what may be a log each: each description, and those of one number from before the trace together."""
    calls = written.calls
    groups = [[number] for number in calls["description"].unique(maintain_order=True).to_list()]
    old = [number for (number,) in groups if written.descriptions[number].since_ns is None]
    for numbers in ({2}, {1, 2}):
        shared = [number for number in old if written.descriptions[number].fd in numbers]
        groups += [shared] if len(shared) > 1 and shared not in groups else []
    return [_make_file(calls.filter(pl.col("description").is_in(group)), written.starts) for group in groups]


def _make_file(calls: pl.DataFrame, starts: Sequence[int | None]) -> _File:
    """Return the writes of descriptions of one file, in the order of time."""
    if calls["description"].n_unique() > 1:
        calls = calls.sort("stamp_ns", maintain_order=True)
    run, length, stamp = (calls[name].to_numpy() for name in ("run", "length", "stamp_ns"))
    several = calls["description"].n_unique() > 1
    borders = np.zeros(1, dtype=np.int64) if several else np.flatnonzero(np.append(True, run[1:] != run[:-1]))
    runs = []
    for first, stop in zip(borders.tolist(), [*borders[1:].tolist(), len(run)], strict=True):
        ends = np.cumsum(length[first:stop])
        known = None if several else starts[run[first]]
        runs.append(Run(ends - length[first:stop], int(ends[-1]), stamp[first:stop], known))
    return _File(calls, runs)


@dataclass(frozen=True)
class _Aligned:
    """Hold the file that is a log, and where its runs lie in it."""

    file: _File
    log: Log
    runs: list[Run]
    pieces: list[Piece]


def _align_log(records: pl.DataFrame, size: int, files: Sequence[_File]) -> _Aligned | None:
    """Return the file that is the log; None if none is."""
    following = pl.col("stamp_ns").backward_fill().shift(-1).over("thread") + _LOG_STEP_NS
    stamps, nexts = records.select(pl.col("stamp_ns").fill_null(NO_LOW), next_ns=following.fill_null(NO_HIGH))
    log = Log(records["offset"].to_numpy(), stamps.to_numpy(), nexts.to_numpy(), size)
    for file in sorted(files, key=lambda one: abs(one.size - size))[:_MOST_TRIED]:
        runs = _know_start(file, size)
        pieces = align_runs(log, runs)
        fitting = sum(piece.last - piece.first + 1 for piece in pieces)
        if fitting >= max(1, _LEAST_SHARE * len(log.starts)):
            return _Aligned(file, log, runs, pieces)
    return None


def _know_start(file: _File, size: int) -> list[Run]:
    """Return the runs; where all writes make a log of that size, the first of them is at its begin."""
    first, *others = file.runs
    if first.known is None and file.size == size:
        first = Run(first.starts, first.size, first.stamps, 0)
    return [first, *others]


def _list_placed(found: _Aligned, records: pl.DataFrame) -> pl.DataFrame:
    """Return the calls whose place in the log is known, with `position` and `evidence`."""
    runs, pieces, size = found.runs, found.pieces, found.log.size
    whole = len(runs) == 1 and len(pieces) == 1 and pieces[0].high - pieces[0].low == size == found.file.size
    firsts = np.cumsum([0, *(len(run.starts) for run in runs)])
    parts = []
    for piece in pieces:
        run = runs[piece.run]
        chosen = np.flatnonzero((run.starts >= piece.low) & (run.starts < piece.high))
        calls = found.file.calls[pl.Series(firsts[piece.run] + chosen)]
        evidence = RECORDED if whole or piece.is_timed else INFERRED
        parts.append(
            calls.select(
                "length", "trace_file", "trace_offset", "tid", "pid", "stamp_ns", end_stamp_ns="end_ns",
                position=pl.Series(run.starts[chosen] + piece.shift), evidence=pl.lit(evidence),
            )
        )  # fmt: skip
    return _swap(pl.concat(parts).sort("position"), records)


def _describe_missing(found: _Aligned, records: pl.DataFrame) -> pl.DataFrame:
    """Return the bytes that were written and are not in the log, without `file`."""
    shape = {"first": pl.Int64, "behind": pl.Int64, "position": pl.Int64, "bytes": pl.Int64}
    rows = pl.DataFrame(list_missing(found.log, found.runs, found.pieces), schema=shape, orient="row")
    first, behind = (rows.select(pl.when(pl.col(name) >= 0).then(name)).to_series() for name in ("first", "behind"))
    return rows.select("position", "bytes").with_columns(
        before=records["offset"].gather(first), from_ns=records["stamp_ns"].gather(first),
        to_ns=records["stamp_ns"].gather(behind),
    )  # fmt: skip


def _swap(placed: pl.DataFrame, records: pl.DataFrame) -> pl.DataFrame:
    """Return the writes with those neighbours swapped that landed in the other order than they began.

    Two writers may begin in another order than their bytes land. A record between them that starts where the second
    would end, if it were the first, shows that.
    """
    at, length, tid = (placed[name].to_numpy() for name in ("position", "length", "tid"))
    starts = records["offset"].to_numpy()
    swapped = at[:-1] + length[1:]
    follows = (at[:-1] + length[:-1] == at[1:]) & (tid[:-1] != tid[1:]) & (length[:-1] != length[1:])
    pairs = np.flatnonzero(follows)
    # Nearly every write begins a record.
    pairs = pairs[~_is_among(at[pairs + 1], starts)]
    pairs = pairs[_is_among(swapped[pairs], starts)]
    pairs = pairs[np.diff(pairs, prepend=-2) > 1]
    if not len(pairs):
        return placed
    order = np.arange(len(at))
    order[pairs], order[pairs + 1] = pairs + 1, pairs
    at = at.copy()
    at[pairs + 1] = swapped[pairs]
    changed = np.zeros(len(at), dtype=np.bool_)
    changed[pairs] = changed[pairs + 1] = True
    moved = placed.drop("position")[pl.Series(order)].with_columns(position=pl.Series(at))
    return moved.with_columns(evidence=pl.when(pl.Series(changed)).then(pl.lit(DERIVED)).otherwise("evidence"))


def _is_among(places: Ints, starts: Ints) -> Mask:
    """Tell which places are among `starts`, which are in order."""
    if not len(starts):
        return np.zeros(len(places), np.bool_)
    at = np.minimum(np.searchsorted(starts, places), len(starts) - 1)
    found: Mask = starts[at] == places
    return found


def _join_records(records: pl.DataFrame, placed: pl.DataFrame) -> pl.DataFrame:
    """Return the records with the writes of their first and last byte: write_tid, write_pid, entered_ns, last_ns,
    write_evidence."""
    first = find_write(records, placed)
    last = find_write(records.select("file", offset=pl.col("end") - 1), placed)
    columns = {"write_tid": "tid", "write_pid": "pid", "entered_ns": "stamp_ns", "write_evidence": "evidence"}
    found = {name: placed[column].gather(first) for name, column in columns.items()}
    return records.with_columns(**found, last_ns=placed["stamp_ns"].gather(last)).drop_nulls("write_tid")


def _list_writers(wrote: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return who wrote the records of each thread (`part_tables.WRITERS`), and the logs whose threads write themselves.

    A thread may write what another one printed before it. Of threads whose records are written by several, one after
    the other, each has its time; where they take turns two threads have one number, and neither is named.
    """
    log, thread = ["file", "pid"], ["file", "pid", "tid"]
    known = wrote.drop_nulls(thread)
    groups = known.group_by(*thread, "write_tid", "write_pid", maintain_order=True).agg(
        count=pl.len(), first=pl.col("offset").min(), last=pl.col("offset").max(), from_ns=pl.col("stamp_ns").min(),
        stamp_ns=pl.col("entered_ns").min(),
    )  # fmt: skip
    # One thread that writes what several print is the runtime's own (AMD_LOG_ASYNC of ROCm 10).
    apart = (pl.col("write_tid").n_unique().over(log) > 1) | (
        (pl.col("tid").n_unique().over(log) == 1) & (pl.col("write_tid") == pl.col("write_pid"))
    )
    groups = groups.filter(apart).with_columns(share=pl.col("count") / pl.col("count").sum().over(thread))
    ordered = groups.sort(*thread, "first")
    # A short life, all of whose records stand before or behind those of the others, is one, too.
    before, behind = pl.col("last").cum_max().shift(1).over(thread), pl.col("first").shift(-1).over(thread)
    alone_there = (before.is_null() | (before < pl.col("first"))) & (behind.is_null() | (pl.col("last") < behind))
    large = ordered.filter((pl.col("share") > _FEW) | (alone_there & (pl.col("count") >= _LEAST_OF_LIFE)))
    turns = (pl.col("first") < pl.col("last").shift(1)).over(thread).fill_null(value=False).any().over(thread)
    large = large.filter(~turns)
    alone = pl.len().over("write_tid", "file", "pid") == 1
    is_first = pl.int_range(pl.len()).over(thread) == 0
    writers = large.filter(alone).select(
        "file", "stamp_ns", log_pid="pid", log_tid="tid", tid="write_tid", pid="write_pid",
        from_ns=pl.when(is_first).then(0).otherwise("from_ns"),
        evidence=pl.when(pl.col("share") == 1).then(pl.lit(RECORDED)).otherwise(pl.lit(DERIVED)),
    )  # fmt: skip
    return WRITERS.conform(writers), groups.select(log).unique()


@frames.gives(frames.SPANS)
def _list_spans(wrote: pl.DataFrame, by_themselves: pl.DataFrame) -> pl.DataFrame:
    """Return between which stamps of the log writes were entered: the narrowest on both sides of each millisecond.

    Args:
        wrote: records with their writes.
        by_themselves: file and pid of those whose threads write themselves: only there a write is over before its
            thread stamps the next record.
    """
    sides = []
    at = (pl.col("entered_ns") // _BUCKET_NS).alias("bucket")
    after = wrote.drop_nulls("stamp_ns").with_columns(at, room=pl.col("entered_ns") - pl.col("stamp_ns"))
    before = wrote.drop_nulls(["next_ns", "last_ns"]).join(by_themselves, on=["file", "pid"], how="semi")
    before = before.with_columns(at, room=pl.col("next_ns") - pl.col("last_ns"))
    for side, from_ns, to_ns, stamp in (
        (after, pl.col("stamp_ns"), pl.lit(None, pl.Int64), "entered_ns"),
        (before, pl.lit(None, pl.Int64), pl.col("next_ns") + _LOG_STEP_NS, "last_ns"),
    ):
        nearest = side.sort("room").unique("bucket", keep="first")
        sides.append(nearest.select(stamp_ns=stamp, end_stamp_ns=stamp, from_ns=from_ns, to_ns=to_ns))
    return pl.concat(sides).sort("stamp_ns")


def find_write(offsets: pl.DataFrame, placed: pl.DataFrame) -> pl.Series:
    """Return for each place of a log (columns file, offset) the row of `placed` that wrote the byte; null = none."""
    key = pl.col("file").cast(pl.Int64) * (1 << 48)
    starts = placed.select(key + pl.col("position")).to_series().to_numpy()
    asked = offsets.select((key + pl.col("offset")).fill_null(-1)).to_series().to_numpy()
    if not len(starts):
        return pl.Series([None] * len(asked), dtype=pl.UInt32)
    found = np.searchsorted(starts, asked, side="right") - 1
    at = np.maximum(found, 0)
    inside = (found >= 0) & (asked < starts[at] + placed["length"].to_numpy()[at])
    return pl.select(pl.when(pl.Series(inside)).then(pl.Series(at)).cast(pl.UInt32)).to_series()


def count_explained(placed: pl.DataFrame) -> pl.DataFrame:
    """Return file, explained: how many bytes of each log are of a write of `placed`."""
    end = pl.col("position") + pl.col("length")
    before = end.cum_max().shift(1).over("file").fill_null(0)
    own = placed.select("file", own=(end - pl.max_horizontal("position", before)).clip(lower_bound=0))
    return own.group_by("file", maintain_order=True).agg(explained=pl.col("own").sum())


def find_calls(events: pl.DataFrame, placed: pl.DataFrame) -> pl.Series:
    """Return the event of each write of `placed`; null if no row is its record."""
    rows = events.select("event", "file", "offset", "layer", "source")
    calls = rows.filter((pl.col("layer") == "syscall") & (pl.col("source") == "ftrace"))
    asked = placed.select(file="trace_file", offset="trace_offset")
    return calls["event"].gather(find_places(calls, asked))


@frames.gives(frames.EDGES)
def link_writes(events: pl.DataFrame, placed: pl.DataFrame) -> pl.DataFrame:
    """Return the edges `write_of_record`: from each row of a log to the system call that wrote its first byte.

    Args:
        events: placed rows with event, source, file, offset, layer.
        placed: as `place_writes` returns them.
    """
    is_line = (pl.col("source") == "amd_log") & (pl.col("layer") != "gpu")
    lines = events.select("event", "file", "offset", "layer", "source").filter(is_line)
    write = find_write(lines, placed)
    return pl.DataFrame({
        "from_event": lines["event"], "to_event": find_calls(events, placed).gather(write),
        "evidence": placed["evidence"].gather(write),
    }).drop_nulls().with_columns(rule=pl.lit("write_of_record"))  # fmt: skip
