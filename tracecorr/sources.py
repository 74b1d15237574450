"""Raw files to parts: which reader takes which file of a capture, in this process or in several."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from itertools import combinations, count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import polars as pl
from polars import selectors as cs

from tracecorr.model import schema
from tracecorr.model.errors import InputError
from tracecorr.model.kinds import DERIVED, INFERRED, RECORDED
from tracecorr.model.parts import Block
from tracecorr.model.reasons import NUL_BYTES
from tracecorr.progress import Stages, Watch
from tracecorr.read.amdlog.blocks import BLOCK_BYTES
from tracecorr.read.amdlog.reader import list_starts, read_amd_log
from tracecorr.read.amdlog.shared import SharedLog, find_order
from tracecorr.read.ftrace.events import keep_ranges
from tracecorr.read.ftrace.pages import read_ftrace_pages
from tracecorr.read.ftrace.perf_records import read_perf_records
from tracecorr.read.ftrace.text import PRINTS, read_ftrace_text, read_prints
from tracecorr.read.ftrace.trace_dat import read_trace_dat
from tracecorr.read.kernel_log.printk import read_kernel_log
from tracecorr.read.kfd.dumps import read_snapshots
from tracecorr.read.kfd.smi import read_smi_events
from tracecorr.read.kfd.topology import read_polls
from tracecorr.read.rocprof.profile import RepeatedRecords
from tracecorr.read.rocprof.rocpd import read_rocpd
from tracecorr.read.rocprof.text_files import read_rocprof
from tracecorr.store.capture import Capture
from tracecorr.store.log_ranges import finish_log, list_long_logs, open_processes, start_log
from tracecorr.store.parts import Parts, SourcePart, StoredPart, join_parts, write_part
from tracecorr.store.raw import RawStream, open_database, open_read_at
from tracecorr.store.recording import chosen_ranges
from tracecorr.store.trace_folders import list_recordings, open_page_trace, trace_clock

# Log stamps are cut to a microsecond, trace texts round to one; pages are exact.
_STEPS = {
    "log": (0, 1000),
    "text": (500, 500),
    "pages": (0, 0),
    "dump": (0, 0),
    "rocprof": (0, 0),
    "polls": (0, 0),
    "smi": (0, 0),
    "kernel_log": (0, 1000),
    "prints": (500, 500),
}
# Another process costs about what it takes to read so many bytes of a log.
_LEAST_RANGE = 128 << 20
# What tells a record of a trace from others, and how many two traces may share by chance.
_OF_RECORD = ("clock", "tid", "cpu", "name")
_LEAST_SAME, _LEAST_SHARE = 3, 0.01
_OF_PRINTS = ("layer", "name", "tid", "stamp_ns", "end_stamp_ns", "clock")
# How drivers call what they print, and those of it that tell of a queue that is made.
_PRINTED, _OF_CREATION = "^[A-Z][A-Z0-9_]+$", ("CREATE_QUEUE_SUCCESS", "KFD_MQD_CREATE")
# Records that a header counts and its text does not hold.
_OF_HEADER = pl.all_horizontal(pl.col("cpu", "from_ns", "to_ns").is_null()) & pl.col("count").is_not_null()
# A write of a log is over in that time, if its thread is not preempted.
_WRITE_NS = 20_000
# Text rounds a stamp by less.
_ROUNDED_NS = 1_000


def read_others(capture: Capture, folder: Path, stages: Stages) -> Parts:
    """Read all raw files of a capture but its logs, each with the reader of its form, and write their rows as parts.

    Args:
        capture: the capture.
        folder: takes the parts (`store.capture.make_parts_folder`).
        stages: told what is read, and how far it is.

    Raises:
        InputError: a file is missing or damaged.
    """
    return Parts([
        SourcePart(source, _STEPS[form], write_part(folder, f"{source}-{number}", blocks))
        for number, (source, form, blocks) in enumerate(_open_readers(capture, stages))
    ])  # fmt: skip


def read_logs(
    capture: Capture,
    folder: Path,
    placed: pl.DataFrame,
    ready: Mapping[int, list[StoredPart]],
    stages: Stages,
    jobs: int,
) -> tuple[Parts, pl.DataFrame]:
    """Read the logs of a capture, one that several processes wrote at once by the bytes of each of them.

    Args:
        capture: the capture.
        folder: takes the parts.
        placed: which write of a trace put which bytes into a log (`part_tables.WRITES`).
        ready: what was read already: key of `files` -> its parts in the order of the file.
        stages: told what is read, and how far it is.
        jobs: processes that read long logs.

    Returns: the parts; `placed`, in which writes of two processes are swapped where the log tells their order.

    Raises:
        InputError: a file is missing or damaged.
        WorkerError: a process that read a log was killed.
    """
    logs = [entry for entry in capture.info["files"] if entry["form"] == "log"]
    counts = placed.group_by("file").agg(pl.col("pid").n_unique(), known=pl.col("pid").is_not_null().all())
    shared = counts.filter("known", pl.col("pid") > 1)["file"].to_list()
    alone = [entry for entry in logs if entry["file"] not in shared]
    ready = {**_read_long_logs(capture, alone, folder, stages, jobs), **ready}
    parts, writes = [], [placed.filter(~pl.col("file").is_in(shared))]
    for number, entry in enumerate(logs):
        name = f"amd_log-{number}"
        if entry["file"] in shared:
            own = placed.filter(pl.col("file") == entry["file"])
            stored, own = _read_shared(capture, entry, own, folder, name)
            writes.append(own)
        elif entry["file"] in ready:
            stored = join_parts(ready[entry["file"]], folder, name)
        else:
            stream = _open_stream(capture, entry, stages)
            stored = write_part(folder, name, _count_holes(read_amd_log(stream, entry["file"]), stream, entry))
        parts.append(SourcePart("amd_log", _STEPS["log"], stored))
    return Parts(parts), pl.concat(writes).sort("file", maintain_order=True)


def list_log_starts(capture: Capture, stages: Stages) -> dict[int, pl.DataFrame]:
    """Return where the records of each log (key of `files`) start: `frames.LOG_STARTS`."""
    found = {}
    for entry in capture.info["files"]:
        if entry["form"] == "log":
            stream = _open_stream(capture, entry, stages)
            starts = list_starts(stream)
            found[entry["file"]] = starts.with_columns(_move(starts["offset"], stream.skipped))
    return found


def _open_stream(capture: Capture, entry: Mapping[str, Any], stages: Stages) -> RawStream:
    # If its recorder was killed, a log may still grow: it is read as far as capture.json lists it.
    return RawStream(capture.raw_path(entry), int(entry["size"]), _watch(stages, [entry]).count)


def _read_long_logs(
    capture: Capture, entries: Sequence[Mapping[str, Any]], folder: Path, stages: Stages, jobs: int
) -> dict[int, list[StoredPart]]:
    """Return the parts of the logs (key of `files`) that are so long that several processes read them sooner."""
    logs = list_long_logs(capture.path, entries, folder, _LEAST_RANGE)
    counts = [min(log.size // _LEAST_RANGE, jobs) for log in logs]
    if jobs < 2 or sum(counts) < 2:
        return {}
    jobs = min(jobs, sum(counts))
    stages.begin(f"reading {', '.join(log.path.name for log in logs)} in {jobs} processes")
    with open_processes(jobs) as submit:
        started = [start_log(submit, log, count, BLOCK_BYTES) for log, count in zip(logs, counts, strict=True)]
        return {one.log.file: finish_log(submit, one)[0] for one in started}


def _open_readers(capture: Capture, stages: Stages) -> Iterator[tuple[str, str, Iterator[Block]]]:
    clock = trace_clock(capture)
    snapshots = count()
    chosen = chosen_ranges(capture.info)
    profiles = [entry for entry in capture.info["files"] if entry["form"] in ("rocprof", "rocpd")]
    repeated = RepeatedRecords() if len(profiles) > 1 else None
    for entry in capture.info["files"]:
        stream = _open_stream(capture, entry, stages)
        chunks = iter(stream)
        if entry["form"] == "text":
            yield "ftrace", "text", _count_holes(read_ftrace_text(chunks, entry["file"], clock), stream, entry)
        elif entry["form"] == "trace_dat":
            yield "ftrace", "pages", _read_dat(capture.raw_path(entry), entry["file"], clock)
        elif entry["form"] == "rocprof":
            yield "rocprof", "rocprof", read_rocprof(chunks, entry["file"], repeated)
        elif entry["form"] == "rocpd":
            yield "rocprof", "rocprof", _read_database(capture.raw_path(entry), entry["file"], repeated)
        elif entry["form"] == "dump":
            times = entry.get("read_start_ns"), entry.get("read_end_ns")
            yield "hqd", "dump", read_snapshots(chunks, entry["file"], snapshots, *times)
        elif entry["form"] == "polls":
            yield "sysfs", "polls", read_polls(chunks, entry["file"])
        elif entry["form"] == "prints":
            yield "trace_printk", "prints", read_prints(chunks, entry["file"], Path(entry["path"]).stem)
        elif entry["form"] == "kernel_log":
            yield "kernel_log", "kernel_log", read_kernel_log(chunks, entry["file"])
        elif entry["form"] == "smi":
            yield "kfd_smi", "smi", read_smi_events(chunks, entry["file"])
    for recording in list_recordings(capture.info["files"]):
        trace, files = open_page_trace(capture, recording, _watch(stages, recording).follow)
        # What a capture could not store it tells itself.
        trace = replace(trace, is_told=not capture.info.get("losses"))
        through_perf = any(entry["form"] == "perf" for entry in recording)
        read = read_perf_records if through_perf else read_ftrace_pages
        blocks = read(trace, files, clock)
        yield "ftrace", "pages", keep_ranges(blocks, chosen) if chosen else blocks


def _count_holes(blocks: Iterator[Block], stream: RawStream, entry: Mapping[str, Any]) -> Iterator[Block]:
    """Yield the blocks of a text with the offsets of the file, and a row of its ledger for the zeros left out of holes.

    Args:
        blocks: what a reader yields; its offsets are those of what it read.
        stream: what it read.
        entry: the file in capture.json.
    """
    for block in blocks:
        yield _move_offsets(block, stream.skipped) if stream.skipped else block
    if stream.skipped:
        row = {
            "file": entry["file"],
            "source": entry["source"],
            "outcome": "skipped",
            "reason": NUL_BYTES,
            "records": 0,
        }
        zeros = sum(size for _, size in stream.skipped)
        yield Block(ledger=schema.LEDGER.conform(pl.DataFrame([{**row, "bytes": zeros}])))


# So many processes of one log can be separated by its content.
_MOST_SURE = 2


def _swap_writes(placed: pl.DataFrame, read_at: Callable[[int, int], bytes], size: int) -> pl.DataFrame:
    """Return the writes of a log, with those swapped that its content tells to be so."""
    position, length, began, ended = (
        placed[name].to_numpy() for name in ("position", "length", "stamp_ns", "end_stamp_ns")
    )
    # If the end of a write was not traced, it may have been going on.
    over = np.maximum.accumulate(np.where(ended == began, began + _WRITE_NS, ended))
    close = began[1:] < over[:-1]
    found = find_order(position, length, placed["pid"].to_list(), np.append(close, False), read_at, size)
    order, position, at = np.arange(placed.height), position.copy(), found.swapped
    order[at], order[at + 1] = at + 1, at
    position[at + 1] = position[at] + length[at + 1]
    rows = pl.int_range(pl.len())
    evidence = (
        pl.when(rows.is_in(np.concatenate([found.unsure, found.unsure + 1]))).then(pl.lit(INFERRED))
        # Which of two processes wrote first follows from when both began, and from the content.
        .when(pl.col("evidence").cast(pl.String) == RECORDED).then(pl.lit(DERIVED)).otherwise("evidence")
    )  # fmt: skip
    moved = placed[order].with_columns(position=pl.Series(position))
    return moved.with_columns(evidence=evidence.cast(placed.schema["evidence"]))


def _read_shared(
    capture: Capture, entry: Mapping[str, Any], placed: pl.DataFrame, folder: Path, name: str
) -> tuple[StoredPart, pl.DataFrame]:
    """Return the rows of a log of several processes, read from copies of the bytes of each, and who wrote what.

    Args:
        capture, entry: the log.
        placed: its writes.
        folder, name: where the part goes.
    """
    with open_read_at(capture.raw_path(entry)) as (read_at, size), TemporaryDirectory(dir=folder) as copies:
        placed = _swap_writes(placed, read_at, size)
        position, length = (placed[column].to_numpy() for column in ("position", "length"))
        log = SharedLog.of(position, length, placed["pid"].to_list(), size)
        names = [Path(copies) / f"{writer}.log" for writer in range(log.count)]
        with ExitStack() as stack:
            log.split(read_at, [stack.enter_context(path.open("wb")) for path in names])
        stored = write_part(folder, name, _read_copies(log, names, entry["file"]))
    printed, wrote = stored.read("events", ("pid",))["pid"].n_unique(), placed["pid"].n_unique()
    if printed < wrote or wrote > _MOST_SURE:
        # Processes of several containers may have one number: no line tells then whose bytes came first. Of many that
        # write at once, content decides a pair wrongly now and then (simulated runs of four).
        placed = placed.with_columns(evidence=pl.lit(INFERRED, placed.schema["evidence"]))
    return stored, placed


def _read_copies(log: SharedLog, names: Sequence[Path], file: int) -> Iterator[Block]:
    for writer, name in enumerate(names):
        with name.open("rb") as stream:
            for block in read_amd_log(stream, file):
                yield log.restore(block, writer)


def _move_offsets(block: Block, skipped: Sequence[tuple[int, int]]) -> Block:
    frames = {"events": block.events, "packets": block.packets, "args": block.args}
    moved = {
        name: frame.with_columns(_move(column, skipped) for column in frame.select(cs.ends_with("offset")))
        for name, frame in frames.items()
    }
    return Block(**moved, ledger=block.ledger, losses=block.losses, hqd=block.hqd, polls=block.polls)


def _move(offsets: pl.Series, skipped: Sequence[tuple[int, int]]) -> pl.Series:
    """Return places in what was read as places in the file, of which some zeros were left out."""
    places = np.array([place for place, _ in skipped], dtype=np.int64)
    before = np.cumsum([0, *(size for _, size in skipped)])
    return offsets + before[np.searchsorted(places, offsets.fill_null(0).to_numpy(), side="right")]


def _watch(stages: Stages, entries: Sequence[Mapping[str, Any]]) -> Watch:
    """Return what tells how far the reading of one source is; several files are named by their folder."""
    name = Path(entries[0]["path"])
    return stages.watch(name.name if len(entries) == 1 else name.parent.name, sum(entry["size"] for entry in entries))


def _read_dat(path: Path, file: int, clock: str) -> Iterator[Block]:
    with open_read_at(path) as (read_at, size):
        yield from read_trace_dat(read_at, size, file, clock)


def _read_database(path: Path, file: int, repeated: RepeatedRecords | None) -> Iterator[Block]:
    with open_database(path) as connection:
        yield from read_rocpd(connection, path.stat().st_size, file, repeated)


def refuse_repeated(parts: Parts, files: Sequence[Mapping[str, Any]]) -> None:
    """Refuse two kernel traces that hold the same records: nothing tells which of them counts.

    Args:
        parts: what the readers gave; the instances of one capture record apart, and are not asked.
        files: the entries `files` of capture.json.

    Raises:
        InputError: two traces show the same records (clock, thread, CPU, name, microsecond).
    """
    traces = [_list_moments(part) for part in parts.each if part.source == "ftrace"]
    for (one, first), (other, second) in combinations([trace for trace in traces if trace[1].height], 2):
        same = first.join(second, on=first.columns, how="semi", nulls_equal=True).height
        if same >= max(_LEAST_SAME, _LEAST_SHARE * min(first.height, second.height)):
            names = " and ".join(_name_trace(files, number) for number in (one, other))
            raise InputError(
                f"{names} hold the same records ({same:,} of {min(first.height, second.height):,}): two recordings of "
                "one tracing buffer, or of the same events",
                "import one of them; of two pieces that overlap, cut one where the other begins",
            )


def _list_moments(part: SourcePart) -> tuple[int, pl.DataFrame]:
    """Return a file of a trace, and what tells its records from others; texts round to a microsecond."""
    rows = part.read_events((*_OF_RECORD, "layer", "file", "stamp_ns")).drop_nulls("stamp_ns")
    # Marks are written into every instance.
    rows = rows.filter(pl.col("layer").cast(pl.String) != "marker")
    names = pl.col("clock", "name").cast(pl.String)
    found = rows.select(pl.col("tid", "cpu"), names, us=(pl.col("stamp_ns") + 500) // 1000)
    return (rows["file"].first() or 0), found  # type: ignore[return-value]


def _name_trace(files: Sequence[Mapping[str, Any]], number: int) -> str:
    entry = next(entry for entry in files if entry["file"] == number)
    path = Path(entry["path"])
    return str(path.parent if entry["form"] in ("pages", "perf") else path)


def drop_continued_losses(parts: Parts) -> Parts:
    """Return the parts without the losses of a text's header whose records are in the next pieces of that text.

    A text that was cut into pieces has one header, in its first piece. It counts the records of all of them.
    """
    traces = [part for part in parts.each if part.source == "ftrace"]
    missing = [int(part.stored.losses.filter(_OF_HEADER)["count"].sum()) for part in traces]
    if len(traces) < 2 or not any(missing):
        return parts
    ends = [part.read_events(("stamp_ns",))["stamp_ns"].drop_nulls() for part in traces]
    changed = {}
    for part, count_missing, end in zip(traces, missing, ends, strict=True):
        after = [
            other
            for other, lost, begin in zip(traces, missing, ends, strict=True)
            if other is not part and not lost and len(begin) and len(end) and begin.min() >= end.max()  # type: ignore[operator]
        ]
        found = sum(_count_read(other) for other in after)
        # A line that was cut in two is one more in the second file.
        if count_missing and after and 0 <= found - count_missing <= len(after):
            left = part.stored.losses.filter(~_OF_HEADER)
            changed[id(part)] = replace(part, stored=replace(part.stored, losses=left))
    return Parts([changed.get(id(part), part) for part in parts.each])


def _count_read(part: SourcePart) -> int:
    return int(part.stored.ledger.filter(pl.col("outcome").cast(pl.String) != "lost")["records"].sum())


def set_prints_apart(parts: Parts) -> Parts:
    """Return the parts with a driver's prints as a source of their own where they are on another clock than its ioctls.

    trace_printk writes to the top tracing buffer, on the clock of that one (`local` by default), whatever clock an
    instance records with. What it tells of a queue that is made lies in an ioctl of its thread, on one clock.
    """
    traces = [part for part in parts.each if part.source == "ftrace"]
    if len(traces) < 2:
        return parts
    events = [part.read_events(_OF_PRINTS) for part in traces]
    ioctls = pl.concat([rows.filter(pl.col("layer") == "ioctl") for rows in events])
    apart = [id(part) for part, rows in zip(traces, events, strict=True) if _is_of_another_clock(rows, ioctls)]
    changed = [replace(part, source=PRINTS) if id(part) in apart else part for part in parts.each]
    return Parts(changed)


def _is_of_another_clock(rows: pl.DataFrame, ioctls: pl.DataFrame) -> bool:
    """Tell of a trace whose clock is not told whether it holds prints alone, most of them outside of their ioctls."""
    name, clock = (rows[column].cast(pl.String) for column in ("name", "clock"))
    if rows.is_empty() or not (name.str.contains(_PRINTED).all() and (clock == "unknown").all()):
        return False
    made = rows.filter(name.is_in(_OF_CREATION)).join(ioctls.select("tid").unique(), on="tid", how="semi")
    begun = made.select("tid", at=pl.col("stamp_ns") + _ROUNDED_NS).drop_nulls().sort("at")
    calls = ioctls.select("tid", "stamp_ns", "end_stamp_ns").drop_nulls("stamp_ns").sort("stamp_ns")
    last = begun.join_asof(calls, left_on="at", right_on="stamp_ns", by="tid", check_sortedness=False, coalesce=False)
    # The end of one that goes on behind the trace is not known.
    open_still = pl.col("end_stamp_ns").is_null() | (pl.col("end_stamp_ns") >= pl.col("at") - 2 * _ROUNDED_NS)
    inside = last.select(pl.col("stamp_ns").is_not_null() & open_still).to_series().sum()
    return 2 * inside < begun.height
