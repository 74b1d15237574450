"""Which write of a trace put which bytes into a log: REAL captures with write events, and SYNTHETIC small traces."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import polars as pl
import pytest

from tracecorr.link.warnings import warn_of_writes
from tracecorr.link.writes.place import LOG_COLUMNS, TRACE_COLUMNS, LogWrites, find_write, place_writes
from tracecorr.model import frames, schema
from tracecorr.pipeline import import_files
from tracecorr.progress import Stages
from tracecorr.read.ftrace.text import read_ftrace_text
from tracecorr.sources import list_log_starts, read_others
from tracecorr.store.capture import make_parts_folder

Placed = list[tuple[int, int, int]]


@pytest.mark.parametrize(
    ("name", "log", "writes"),
    [
        ("writes-file", "hip.log_18058", 4174),
        ("writes-local", "amd.log", 4107),
        ("writes-two-processes", "amd.log", 8394),
    ],
)
def test_each_write_of_a_recorded_log_is_placed(
    data_folder: Path, tmp_path: Path, name: str, log: str, writes: int
) -> None:
    source = data_folder / "captures" / name
    capture = import_files(tmp_path / "one.tracecorr", [source / log], [source / "raw"])
    traces, starts = read_others(capture, make_parts_folder(capture.path), Stages()), list_log_starts(capture, Stages())
    size = (source / log).stat().st_size
    rows = traces.read_events(TRACE_COLUMNS[1:]).select(TRACE_COLUMNS)
    placed = place_writes(rows, traces.args, schema.LOSSES.empty(), starts, {0: size}).placed
    assert (placed.height, placed["length"].sum()) == (writes, size)
    assert placed["evidence"].unique().to_list() == ["recorded"]
    assert find_write(starts[0].with_columns(file=0), placed).null_count() == 0


# Who prints how many bytes, in the order of the file; what the trace shows; and what is found: position, length, tid.
_OPEN = "8 8 sys_openat(dfd: ffffff9c, filename: 7f00, flags: 241, mode: 1b6); 8 8 sys_openat -> 0x3; "


def _write(tid: int, fd: int, count: int, done: int | str | None = None, pid: int = 8) -> str:
    result = f"0x{count:x}" if done is None else done if isinstance(done, str) else f"0x{done:x}"
    return f"{tid} {pid} sys_write(fd: {fd:x}, buf: 7f10, count: {count:x}); {tid} {pid} sys_write -> {result}; "


_FORK = "8 8 sched_process_fork: comm=p pid=8 child_comm=p child_pid=9; "
_TEN = [10, 20, 30, 40, 50, 60, 70, 80, 90, 100]
_CASES: dict[str, tuple[Sequence[int], str, Placed]] = {
    "one write each": (
        [100, 50], _OPEN + _write(8, 3, 100) + _write(9, 3, 50), [(0, 100, 8), (100, 50, 9)],
    ),
    "the result counts: a short write, a full disk, a restart": (
        [100, 50],
        _OPEN + _write(8, 3, 100, 60) + _write(8, 3, 40, "0xffffffffffffffe4") + _write(8, 3, 40, "0xfffffffffffffe00")
        + _write(8, 3, 40) + _write(8, 3, 50),
        [(0, 60, 8), (60, 40, 8), (100, 50, 8)],
    ),
    "a record in pieces of any size": (
        [200, 50], _OPEN + _write(8, 3, 128) + _write(8, 3, 72) + _write(8, 3, 50),
        [(0, 128, 8), (128, 72, 8), (200, 50, 8)],
    ),
    "a duplicated descriptor": (
        [100, 50], _OPEN + "8 8 sys_dup(fildes: 3); 8 8 sys_dup -> 0x5; " + _write(8, 5, 100) + _write(8, 3, 50),
        [(0, 100, 8), (100, 50, 8)],
    ),
    "a process that was forked": (
        [100, 50, 70], _OPEN + _write(8, 3, 100) + _FORK + _write(9, 3, 50, pid=9) + _write(8, 3, 70),
        [(0, 100, 8), (100, 50, 9), (150, 70, 8)],
    ),
    "another file has the number": (
        [100, 50],
        _write(8, 3, 999) + "8 8 sys_close(fd: 3); " + _OPEN + _write(8, 3, 100) + _write(8, 3, 50),
        [(0, 100, 8), (100, 50, 8)],
    ),
    "writev": (
        [100, 50],
        _OPEN + _write(8, 3, 100) + "8 8 sys_writev(fd: 3, vec: 7f10, vlen: 2); 8 8 sys_writev -> 0x32; ",
        [(0, 100, 8), (100, 50, 8)],
    ),
    "pwrite64 does not move the position": (
        [100, 50, 70],
        _OPEN + _write(8, 3, 100)
        + "9 8 sys_pwrite64(fd: 3, buf: 7f10, count: 46, pos: 96); 9 8 sys_pwrite64 -> 0x46; ",
        [(0, 100, 8), (150, 70, 9)],
    ),
    "a file that was not empty": (
        [300, *_TEN], "".join(_write(8, 2, size) for size in _TEN),
        [(300 + sum(_TEN[:i]), size, 8) for i, size in enumerate(_TEN)],
    ),
    "a file that was truncated": (
        [50, 70],
        _OPEN + _write(8, 3, 100) + _write(8, 3, 30) + "8 8 sys_close(fd: 3); " + _OPEN + _write(8, 3, 50)
        + _write(8, 3, 70),
        [(0, 50, 8), (50, 70, 8)],
    ),
    "two writers whose bytes land in the other order": (
        [100, 50, 70, *_TEN],
        _OPEN + _write(8, 3, 100) + _write(9, 3, 70) + "".join(_write(8, 3, size) for size in (50, *_TEN)),
        [(0, 100, 8), (100, 50, 8), (150, 70, 9), *((220 + sum(_TEN[:i]), size, 8) for i, size in enumerate(_TEN))],
    ),
    "a trace of entries alone": (
        [100, 50],
        "8 8 sys_write(fd: 2, buf: 7f10, count: 64); 8 8 sys_write(fd: 2, buf: 7f10, count: 32); ",
        [(0, 100, 8), (100, 50, 8)],
    ),
    "contents in the text": (
        [100, 50],
        _OPEN + '8 8 sys_write(fd: 0x3, buf: 0x7f10 (3a:33) ":3, "count: 9", count: 0x64); 8 8 sys_write -> 0x64; '
        + _write(8, 3, 50),
        [(0, 100, 8), (100, 50, 8)],
    ),
    "another file": ([100, 50], _OPEN + _write(8, 3, 64) + _write(8, 3, 86), []),
}  # fmt: skip


@pytest.mark.parametrize("case", _CASES)
def test_positions_follow_descriptors_and_results(case: str) -> None:
    sizes, trace, expected = _CASES[case]
    rows, args = _read_trace(trace)
    log = _make_log(sizes)
    placed = _place(log, rows, schema.LOSSES.empty(), args).placed
    assert placed.select("position", "length", "tid").rows() == expected


def _read_trace(text: str) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the rows and args of records `TID PID BODY`, one in ten microseconds."""
    records = [record.split(None, 2) for record in text.split("; ") if record.strip()]
    lines = [
        f"{'p-' + tid:>16} ({pid:>7}) [000] ..... 5.{number:05d}0: {body}"
        for number, (tid, pid, body) in enumerate(records)
    ]
    blocks = list(read_ftrace_text([("# tracer: nop\n#\n" + "\n".join(lines) + "\n").encode()], 1))
    events, args = (pl.concat(frames) for frames in zip(*((b.events, b.args) for b in blocks), strict=True))
    return events.with_columns(source=pl.lit("ftrace", schema.CAT)).select(TRACE_COLUMNS), args


def _make_log(sizes: Sequence[int], stamps_ns: Sequence[int] | None = None) -> pl.DataFrame:
    """Return the rows of a log of one thread whose records have some sizes, with stamps or without."""
    ends = pl.Series(sizes).cum_sum()
    rows = pl.DataFrame(
        {"offset": [0, *ends[:-1].to_list()], "length": sizes, "stamp_ns": stamps_ns or [None] * len(sizes)}
    )
    rows = rows.with_columns(file=0, pid=8, tid=7, clock=pl.lit("mono"), layer=pl.lit("hip"), name=pl.lit("hipMalloc"))
    events = schema.PART_EVENTS.conform(rows)
    return events.with_columns(source=pl.lit("amd_log", schema.CAT)).select(LOG_COLUMNS)


def _place(log: pl.DataFrame, trace: pl.DataFrame, losses: pl.DataFrame, args: pl.DataFrame | None = None) -> LogWrites:
    """Return where the writes of a trace lie in the log."""
    starts = frames.LOG_STARTS.conform(log.select("offset", "stamp_ns", thread=pl.lit(0)))
    size = int(log["length"].sum())
    return place_writes(trace, schema.PART_ARGS.empty() if args is None else args, losses, {0: starts}, {0: size})


# SYNTHETIC: a loop whose iterations print the same lengths: microseconds from the first stamp, and bytes.
_ITERATION = ((0, 90), (4, 164), (9, 120), (15, 141), (40, 90), (46, 75))


def _loop(count: int, step_us: int = 150) -> tuple[list[int], list[int]]:
    """Return sizes and stamps (ns) of a prologue and `count` equal iterations."""
    sizes, stamps = [101, 137, 149, 163, 171, 83, 97, 111, 119], [n * 7_000 for n in range(9)]
    rng = random.Random(1)
    for number in range(count):
        jitter = rng.randrange(12)
        sizes += [size for _, size in _ITERATION]
        stamps += [100_000 + 1_000 * (number * step_us + at + jitter) for at, _ in _ITERATION]
    return sizes, stamps


def _make_writes(sizes: Sequence[int], stamps: Sequence[int], offset_ns: int = 5_000_000) -> pl.DataFrame:
    """Return the writes of records, three microseconds behind their stamps, on a clock with another begin."""
    rows = pl.DataFrame({"size_bytes": sizes, "stamp_ns": stamps}).with_columns(
        pl.col("stamp_ns") + 3_000 + offset_ns, end_stamp_ns=pl.col("stamp_ns") + 4_000 + offset_ns,
        result=pl.col("size_bytes").cast(pl.String), offset=pl.int_range(pl.len()) * 100, file=1, pid=8, tid=8, fd=3,
        layer=pl.lit("syscall"), name=pl.lit("write"),
    )  # fmt: skip
    events = schema.PART_EVENTS.conform(rows)
    return events.with_columns(source=pl.lit("ftrace", schema.CAT)).select(TRACE_COLUMNS)


@pytest.mark.parametrize("lost", ["trace", "log", "head", "end"])
def test_no_join_over_a_hole_in_a_loop_is_wrong(lost: str) -> None:
    sizes, stamps = _loop(10_000)
    log, writes = _make_log(sizes, stamps), _make_writes(sizes, stamps)
    truth = dict(zip(log["offset"], writes["offset"], strict=True))
    # Whole iterations and parts of them.
    holes = {"head": [(0, 700)], "end": [(59_000, 60_009)]}.get(lost, [(12_000, 12_060), (40_001, 40_101)])
    losses = schema.LOSSES.empty()
    if lost == "trace":
        spans = [(int(writes["stamp_ns"][a]), int(writes["stamp_ns"][b - 1])) for a, b in holes]
        losses = schema.LOSSES.conform(pl.DataFrame(spans, schema=["from_ns", "to_ns"], orient="row"))
        for a, b in reversed(holes):
            writes = pl.concat([writes[:a], writes[b:]])
    else:
        inside = pl.any_horizontal(pl.int_range(pl.len()).is_between(a, b - 1) for a, b in holes)
        log, old = log.filter(~inside), log.filter(~inside)["offset"]
        log = log.with_columns(offset=pl.col("length").cast(pl.Int64).cum_sum() - pl.col("length"))
        truth = {new: truth[before] for new, before in zip(log["offset"], old, strict=True)}
    found = _place(log, writes, losses)
    calls = found.placed["trace_offset"].gather(find_write(log, found.placed))
    joined = [(at, call) for at, call in zip(log["offset"], calls, strict=True) if call is not None]
    assert [(at, call) for at, call in joined if truth[at] != call] == []
    assert len(joined) > 0.98 * log.height
    if lost != "trace":
        expected = [sum(sizes[a:b]) for a, b in holes]
        assert found.missing["bytes"].to_list() == expected


@pytest.mark.parametrize(
    ("foreign", "told"),
    [
        ([], []),
        # What io_uring, splice and 32-bit programs write no event of a write call shows.
        ([(0, 300)], ["300 of its 91,207 bytes"]),
        ([(80, 300)], ["300 of its 91,207 bytes"]),
        ([(0, 300), (80, 40)], ["340 of its 91,247 bytes"]),
    ],
)
def test_bytes_of_no_write_are_told(foreign: list[tuple[int, int]], told: list[str]) -> None:
    sizes = random.Random(1).sample(range(100, 1000), 160)
    trace = "".join(_write(8, 2, size) for size in sizes)
    records = list(sizes)
    for at, size in reversed(foreign):
        records.insert(at, size)
    log = _make_log(records)
    rows, args = _read_trace(trace)
    found = _place(log, rows, schema.LOSSES.empty(), args)
    size = int(log["length"].sum())
    files = pl.DataFrame({"file": 0, "path": "amd.log", "size": size}, schema_overrides={"file": pl.UInt16})
    warnings = warn_of_writes(found, files)
    assert [words in text for words, text in zip(told, warnings, strict=True)] == [True] * len(told)
    assert found.placed["length"].sum() == sum(sizes)
