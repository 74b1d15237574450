"""Which file is what: what `import` is given, looked at before it is copied, and pieces of one log put in their order.

Nothing here opens a file: `Files` (module `store.raw`) does.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from sqlite3 import Connection
from typing import Any, Protocol

import polars as pl

from tracecorr.model.errors import InputError, quote_path
from tracecorr.model.kinds import BEGINNINGS
from tracecorr.read.amdlog.reader import looks_like_amd_log, read_amd_log
from tracecorr.read.ftrace.lines import looks_like_ftrace_text
from tracecorr.read.ftrace.trace_dat import looks_like_trace_dat, read_description
from tracecorr.read.kernel_log.printk import looks_like_kernel_log
from tracecorr.read.kfd.dumps import looks_like_dump
from tracecorr.read.rocprof.rocpd import check_rocpd, looks_like_sqlite
from tracecorr.read.rocprof.text_files import has_counters, is_statistic, looks_like_rocprof

_PACKED = {b"\xfd7zXZ\x00": "xz", b"BZh": "bzip2", b"PK\x03\x04": "zip"}
# A file of perf record, and lines of perf script: task, pid, perhaps its thread, CPU, time.
_PERF = re.compile(rb"PERFILE2|\s*\S[^\n]{0,20}?\s+\d+(/\d+)?\s+\[\d{3,}\]\s+\d+\.\d{6,9}:\s")
_UTF16 = (b"\xff\xfe", b"\xfe\xff")
# How each line of a file of docker's log driver `json-file` begins: its text is escaped.
_DOCKER_JSON = b'{"log":"'
# A program may print much before its first HIP call, as builds and downloads do.
_SEARCHED_BYTES = 256 << 20
# What is cut between two chunks is looked at with the second one.
_OVERLAP_BYTES = 8 << 10
# What `import` takes, by the option that takes it; the dump of queues last: its lines are the plainest.
_KINDS = (
    ("--amd-log", "a HIP log", looks_like_amd_log),
    ("--ftrace", "a kernel trace", looks_like_ftrace_text),
    ("--ftrace", "a trace.dat", looks_like_trace_dat),
    ("--rocprof", "output of rocprof", looks_like_rocprof),
    ("--rocprof", "a database", looks_like_sqlite),
    ("--kernel-log", "a kernel log", looks_like_kernel_log),
    ("--hqd", "a dump of the KFD's queues", looks_like_dump),
)
# So many bytes of each end of a log are read: some six thousand lines.
_END_BYTES = 1 << 20
_RECORD = re.compile(rb":\d:")
# A line of another thread is written so long after its stamp was taken, at most.
_LATE_NS = 10_000_000
# A process prints so many lines before that of its beginning, at most.
_MOST_EARLY = 10
# Forms of traces that name no clock.
_SILENT = ("text", "pages", "perf")

_ReadAt = Callable[[int, int], bytes]


class Files(Protocol):
    """Open files for reading their decompressed bytes; each function raises InputError where it cannot."""

    def read_head(self, path: Path, head_bytes: int = ...) -> bytes:
        """Return the first bytes."""

    def read_chunks(self, path: Path, chunk_bytes: int = ...) -> Iterator[bytes]:
        """Yield all bytes."""

    def open_read_at(self, path: Path) -> AbstractContextManager[tuple[_ReadAt, int]]:
        """Give a function of (offset, bytes), and the size."""

    def open_database(self, path: Path) -> AbstractContextManager[Connection]:
        """Give an SQLite database for reading."""

    def read_clock_samples(self, path: Path) -> dict[str, Any]:
        """Return the contents of a clock.json."""


@dataclass(frozen=True)
class Incoming:
    """Name one file to copy: where it is, where it goes inside the folder, and what it holds."""

    origin: Path
    target: str
    source: str
    form: str


def plan_import(
    files: Files,
    amd_logs: Sequence[Path],
    ftrace: Sequence[Path],
    clock_samples: Path | None,
    hqd: Sequence[Path],
    rocprof: Sequence[Path],
    kernel_logs: Sequence[Path] = (),
) -> list[Incoming]:
    """Return the files to copy, after a look at what they are.

    Raises:
        InputError: a file is missing, empty, or not what its option says.
    """
    others = [*_plan_kernel_logs(files, kernel_logs), *_plan_others(files, hqd, rocprof)]
    incoming = [*_plan_logs(files, amd_logs), *_plan_traces(files, ftrace), *others]
    if clock_samples is not None:
        files.read_clock_samples(clock_samples)
        incoming.append(Incoming(clock_samples, "raw/clock.json", "tracecorr", "clock_samples"))
    return incoming


def plain_name(path: Path) -> str:
    """Return the name that a file has once it is decompressed: without `.gz`, `.zst` and `.zstd`."""
    return path.name.removesuffix(".gz").removesuffix(".zst").removesuffix(".zstd")


def _plan_logs(files: Files, logs: Sequence[Path]) -> Iterator[Incoming]:
    for number, path in enumerate(logs):
        _check_amd_log(files, path)
        yield Incoming(path, f"raw/amd_log/{number}-{plain_name(path)}", "amd_log", "log")


def _plan_traces(files: Files, traces: Sequence[Path]) -> Iterator[Incoming]:
    for number, path in enumerate(traces):
        target = f"raw/ftrace/{number}-{plain_name(path)}"
        if path.is_dir():
            yield from _plan_pages(path, number)
        elif looks_like_trace_dat(files.read_head(path, 64)):
            yield Incoming(path, target, "ftrace", "trace_dat")
        else:
            _check(files, path, looks_like_ftrace_text, "no event of an ftrace text", "--ftrace")
            yield Incoming(path, target, "ftrace", "text")


def _plan_pages(folder: Path, number: int) -> Iterator[Incoming]:
    pages = sorted([*folder.glob("cpu*.bin"), *folder.glob("perf-cpu*.bin")])
    if not pages:
        raise InputError(
            f"{folder} holds no pages of a kernel trace (cpu0.bin, ...)",
            "name a trace text, a trace.dat, or a folder with cpuN.bin, header_page and events/*/*/format",
        )
    # The pages may be links to where they were recorded; a link to a folder is not followed.
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        form = ("perf" if path.name.startswith("perf-") else "pages") if path in pages else "description"
        yield Incoming(path, f"raw/ftrace/{number}/{path.relative_to(folder)}", "ftrace", form)


def _plan_kernel_logs(files: Files, logs: Sequence[Path]) -> Iterator[Incoming]:
    for number, path in enumerate(logs):
        expected = "no kernel log (dmesg, /dev/kmsg, journalctl) with a line of the GPU's driver"
        _check(files, path, looks_like_kernel_log, expected, "--kernel-log")
        yield Incoming(path, f"raw/kernel_log/{number}-{plain_name(path)}", "kernel_log", "kernel_log")


def _plan_others(files: Files, hqd: Sequence[Path], rocprof: Sequence[Path]) -> Iterator[Incoming]:
    for number, path in enumerate(hqd):
        _check(files, path, looks_like_dump, "no queue of a KFD dump (hqds, mqds, rls)", "--hqd")
        yield Incoming(path, f"raw/hqd/{number}-{plain_name(path)}", "hqd", "dump")
    for number, path in enumerate(_list_profiles(files, rocprof)):
        target = f"raw/rocprof/{number}-{plain_name(path)}"
        if looks_like_sqlite(files.read_head(path, 64)):
            yield Incoming(path, target, "rocprof", "rocpd")
        else:
            expected = "no table or trace of rocprof (CSV, JSON or rocpd database)"
            _check(files, path, looks_like_rocprof, expected, "--rocprof")
            yield Incoming(path, target, "rocprof", "rocprof")


def _list_profiles(files: Files, given: Sequence[Path]) -> list[Path]:
    """Return the files of profiles, counters last: they become values of the dispatches of other files.

    Of a folder that rocprofv3 wrote these are its traces, counters and databases; what sums them up is left out.

    Raises:
        InputError: a folder holds none of them.
    """
    found: list[Path] = []
    for path in given:
        inside = sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else [path]
        taken = [p for p in inside if p == path or _is_profile(files.read_head(p))]
        if not taken:
            raise InputError(
                f"{path} holds no output of rocprof with times (*_trace.csv, *_counter_collection.csv, "
                "*_results.json, *_results.db)",
                "name the folder that was given to rocprofv3 as --output-directory, or the files",
            )
        found += taken
    return sorted(found, key=lambda path: path.is_file() and has_counters(files.read_head(path)))


def _is_profile(head: bytes) -> bool:
    return looks_like_sqlite(head) or (looks_like_rocprof(head) and not is_statistic(head))


def check_database(files: Files, path: Path, name: Path) -> None:
    """Make sure that a database, decompressed, is whole and holds tables of rocpd.

    Args:
        files: opens it.
        path: where it was copied to.
        name: what the user calls it.

    Raises:
        InputError: it is damaged, or of another program.
    """
    with files.open_read_at(path) as (read_at, size), files.open_database(path) as connection:
        check_rocpd(connection, read_at(0, 100), size, str(name))


def _check_amd_log(files: Files, path: Path) -> None:
    head = _read_given(files, path, "--amd-log")
    if head.startswith(_DOCKER_JSON):
        raise InputError(
            f"{path} holds lines of a log within JSON, as docker keeps them",
            f"take them out: jq -j .log {quote_path(path)} > hip.log, or docker logs CONTAINER > hip.log 2>&1",
        )
    found, searched = _search_amd_log(files, path)
    if not found:
        where = f"in its first {searched} bytes" if searched else ""
        holds = f"no line of a HIP log (AMD_LOG_LEVEL) {where}" if searched else "nothing but NUL bytes"
        raise InputError(f"{path} holds {holds}", _suggest_use(path, head, "--amd-log"))


def _check(files: Files, path: Path, looks_right: Callable[[bytes], bool], expected: str, option: str) -> None:
    head = _read_given(files, path, option)
    if not looks_right(head):
        raise InputError(f"{path} holds {expected} in its first {len(head)} bytes", _suggest_use(path, head, option))


def _read_given(files: Files, path: Path, option: str) -> bytes:
    """Return the first bytes of a file that an option was given."""
    _refuse_folder(path, option)
    head = files.read_head(path)
    if not head:
        raise InputError(f"{path} is empty", f"record it again, or leave out {option}")
    return head


def _refuse_folder(path: Path, option: str) -> None:
    if path.is_dir():
        raise InputError(f"{path} is a folder, {option} takes files", f"name them: {option} {quote_path(path)}/*")


def _suggest_use(path: Path, head: bytes, option: str) -> str:
    """Return the next step for a file that `option` refused, by its first bytes."""
    if head.startswith(_UTF16):
        return "it is text in UTF-16: convert it first (iconv -f UTF-16 -t UTF-8)"
    for magic, name in _PACKED.items():
        if head.startswith(magic):
            return f"it is packed with {name}: unpack it first (.gz and .zst are read as they are)"
    if option == "--ftrace" and re.fullmatch(r"(perf-)?cpu\d+\.bin", path.name):
        return f"pages are read by their folder: --ftrace {quote_path(path.parent)}"
    if _PERF.match(head):
        return "perf made it, and its files are not read: record with tracecorr capture or trace-cmd record"
    other, kind = _recognize(head, option)
    if other:
        return f"it looks like {kind}: give it to {other}"
    takes = next(kind for name, kind, _ in _KINDS if name == option)
    return f"{option} takes {takes}; its content decides, not its name"


def find_option(files: Files, path: Path) -> str:
    """Return the option of `import` that takes a file or folder, by its content; empty if none does.

    Raises:
        InputError: the file cannot be read.
    """
    if path.is_dir():
        return "--ftrace" if any(path.glob("*cpu*.bin")) else ""
    return _recognize(files.read_head(path))[0] or ("--amd-log" if _search_amd_log(files, path)[0] else "")


def _recognize(head: bytes, refused: str = "") -> tuple[str, str]:
    """Return the option that takes a file with this head, and its kind; both empty if none but `refused` would."""
    found = ((option, kind) for option, kind, looks_right in _KINDS if option != refused and looks_right(head))
    return next(found, ("", ""))


def _search_amd_log(files: Files, path: Path) -> tuple[bool, int]:
    """Tell whether a file holds a line of a HIP log, and how many bytes were searched, at most 256 MiB.

    NULs at its beginning are not counted: so begins a log that its program wrote on after it was emptied in place.
    """
    searched, before = 0, b""
    for chunk in files.read_chunks(path):
        text = chunk if before else chunk.lstrip(b"\0")
        if looks_like_amd_log(before + text):
            return True, searched
        searched += len(text)
        if searched >= _SEARCHED_BYTES:
            break
        before = text[-_OVERLAP_BYTES:]
    return False, searched


def check_told_clock(
    files: Files, clock: str, entries: Sequence[Mapping[str, Any]], names: Sequence[str], stage: Path
) -> list[str]:
    """Return what to say of each `trace.dat`, and of clock samples, that name another clock than the import was told.

    A trace's own clock is taken: trace-cmd noted it while it recorded. What was told is for the traces that name none,
    whatever the samples name.

    Args:
        files: opens them.
        clock: what was told; `auto` = nothing.
        entries: of capture.json.
        names: how the user calls the file of each entry.
        stage: the capture folder.

    Raises:
        InputError: no trace is left that takes the clock that was told.
    """
    if clock == "auto":
        return []
    doubts = []
    own: dict[str, set[str]] = {}
    for entry in entries:
        name, path = names[entry["file"]], stage / entry["path"]
        if entry["form"] == "clock_samples":
            doubts += _doubt_samples(clock, name, files.read_clock_samples(path))
        if entry["form"] == "trace_dat":
            with files.open_read_at(path) as (read_at, size):
                own[name] = _read_clocks(read_at, size)
    others = {name: ", ".join(sorted(clocks - {"", clock})) for name, clocks in own.items() if clocks - {"", clock}}
    taken = any(entry["form"] in _SILENT for entry in entries) or any(clocks & {"", clock} for clocks in own.values())
    for name, found in others.items():
        recorded = f"{name} was recorded with the trace_clock {found}, as it says itself"
        if not taken:
            raise InputError(f"{recorded}, not with {clock}", "leave out --ftrace-clock")
        doubts.append(f"{recorded}: --ftrace-clock {clock} is used for the files that name no clock")
    return doubts


def _doubt_samples(clock: str, name: str, samples: Mapping[str, Any]) -> list[str]:
    named = samples.get("trace_clock", "unknown")
    if named in ("unknown", clock):
        return []
    return [f"{name} says that the trace_clock was {named}: --ftrace-clock {clock} is used nevertheless"]


def _read_clocks(read_at: _ReadAt, size: int) -> set[str]:
    """Return the clocks of the recorded buffers of a `trace.dat`; an empty one is of a buffer that names none."""
    dat = read_description(read_at, size)
    clocks = {buffer.clock for buffer in dat.buffers if any(data.size for data in buffer.cpus)}
    return clocks | ({dat.clock()} if dat.text else set())


@dataclass(frozen=True)
class _LogEnds:
    """Hold what both ends of a log show.

    Args:
        name: the log as the user named it.
        spans: first and last stamp (ns) of each thread (log pid, pthread address) that is seen.
        begun: pids of the processes whose runtime begins in its first lines.
        begins_record: whether its first line is the beginning of a record.
        is_cut: whether its last line has no end.
    """

    name: str
    spans: Mapping[tuple[int, int], tuple[int, int]]
    begun: frozenset[int | None]
    begins_record: bool
    is_cut: bool


def read_ends(name: str, read_at: _ReadAt, size: int) -> _LogEnds:
    """Return what the ends of a log show.

    Args:
        name: what the user calls it.
        read_at: returns bytes from (offset, bytes).
        size: its bytes, decompressed.
    """
    first, last = read_at(0, _END_BYTES), read_at(max(0, size - _END_BYTES), _END_BYTES)
    head, tail = _read_lines(first[: first.rfind(b"\n") + 1]), _read_lines(last[last.find(b"\n") + 1 :])
    seen = pl.concat([head, tail]).drop_nulls(["pid", "tid"])
    spans = seen.group_by("pid", "tid").agg(
        low=pl.col("stamp_ns").min(), high=pl.max_horizontal("stamp_ns", "end_stamp_ns").max()
    )
    early = head.filter(pl.int_range(pl.len()).over("pid") <= _MOST_EARLY)
    begun = early.filter(pl.col("name").cast(pl.String).is_in(BEGINNINGS))["pid"]
    return _LogEnds(
        name, {(pid, tid): (low, high) for pid, tid, low, high in spans.iter_rows()}, frozenset(begun.to_list()),
        bool(_RECORD.match(first)), not last.endswith(b"\n"),
    )  # fmt: skip


def _read_lines(data: bytes) -> pl.DataFrame:
    """Return pid, tid, name, stamp_ns and end_stamp_ns of lines with a time of HIP, in their order."""
    blocks = list(read_amd_log(BytesIO(data), 0, _END_BYTES))
    events = pl.concat([block.events for block in blocks]).sort("offset")
    own = events.filter((pl.col("clock") == "mono") & pl.col("stamp_ns").is_not_null())
    return own.select("pid", "tid", "name", "stamp_ns", "end_stamp_ns")


def arrange_logs(logs: Sequence[_LogEnds]) -> list[list[int]]:
    """Return the files of each log in the order in which the user gave them: one, or pieces of it.

    A file that shows the same threads (pid and pthread address) as an earlier one goes on with it, unless a process of
    that pid begins in it.

    Raises:
        InputError: such a file is older than the one before it, or both show the same moments.
    """
    groups: list[list[int]] = []
    for number, log in enumerate(logs):
        before = next((group for group in groups if _are_pieces(logs[group[-1]], log)), None)
        if before is None:
            groups.append([number])
            continue
        _refuse_disorder(logs[before[-1]], log)
        before.append(number)
    return groups


def describe_doubts(logs: Sequence[_LogEnds]) -> list[str]:
    """Return a warning for each log that may be a piece of another one: its lines name no thread that tells."""
    return [
        f"the lines of {log.name} name no pid and tid: it stays a log of its own; if it is a piece of another one, "
        "join them with cat"
        for log in logs if not log.spans and not log.begun
    ]  # fmt: skip


def _are_pieces(before: _LogEnds, log: _LogEnds) -> bool:
    pids = {pid for pid, _ in before.spans.keys() & log.spans.keys()}
    # If a process begins in both, or in a later one, its pid was used again, or a container has the same.
    is_new = bool(pids & log.begun) and (bool(pids & before.begun) or _first(log) >= _last(before) - _LATE_NS)
    return bool(pids) and not is_new


def _refuse_disorder(before: _LogEnds, log: _LogEnds) -> None:
    shared = before.spans.keys() & log.spans.keys()
    if all(log.spans[thread][0] >= before.spans[thread][1] for thread in shared):
        return
    pids = ", ".join(str(pid) for pid in sorted({pid for pid, _ in shared}))
    names = f"{quote_path(log.name)} {quote_path(before.name)}"
    if _last(log) <= _first(before):
        raise InputError(
            f"{before.name} and {log.name} are pieces of one log (process {pids}), and the second one is older",
            f"give them in the order in which they were written: --amd-log {names}",
        )
    raise InputError(
        f"{before.name} and {log.name} show the same threads of process {pids} at the same times: they hold the same "
        "lines, or are of containers with equal pids and addresses",
        "import files that share no lines, and each container alone",
    )


def _first(log: _LogEnds) -> int:
    return min(low for low, _ in log.spans.values())


def _last(log: _LogEnds) -> int:
    return max(high for _, high in log.spans.values())
