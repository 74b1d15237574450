"""Import: copy foreign files into a new capture folder, after a look at what they are."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tracecorr.model.checksum import Checksum
from tracecorr.model.errors import InputError, explain_unwritten, quote_path
from tracecorr.read.ftrace import looks_like_ftrace_text, looks_like_trace_dat
from tracecorr.read.kfd.dumps import looks_like_dump
from tracecorr.read.rocprof import check_rocpd, looks_like_rocprof, looks_like_sqlite
from tracecorr.store.capture import Capture, refuse_odd_name, write_info
from tracecorr.store.likeness import search_amd_log, suggest_use
from tracecorr.store.log_joining import Arrangement, arrange_logs, join_pieces
from tracecorr.store.place import check_place, name_stage, put_in_place
from tracecorr.store.raw import copy_in, describe_file, open_database, read_clock_samples, read_head
from tracecorr.store.told_clocks import check_told_clock
from tracecorr.store.trace_dat import unpack_in_place

# How each line of a file of docker's log driver `json-file` begins: its text is escaped.
_DOCKER_JSON = b'{"log":"'
# What will become a capture, or was replaced by one, until its process is done.
_STAGE = re.compile(r"\.(?P<name>.+)\.(?P<pid>\d+)\.(?P<part>new|old)")


@dataclass(frozen=True)
class Incoming:
    """Name one file to copy: where it is, where it goes inside the folder, and what it holds."""

    origin: Path
    target: str
    source: str
    form: str


def import_files(
    out: Path,
    amd_logs: list[Path],
    ftrace: list[Path],
    clock: str = "auto",
    clock_samples: Path | None = None,
    hqd: list[Path] | None = None,
    rocprof: list[Path] | None = None,
    force: bool = False,
    progress: Callable[[str], None] | None = None,
    live: Callable[[str], None] | None = None,
) -> Capture:
    """Copy files of other tools into a new capture folder; its tables are not built yet.

    Args:
        out: the folder to make.
        amd_logs: HIP logs, plain, gzip or zstd. Files that are surely pieces of one log become one.
        ftrace: kernel traces: text, a `trace.dat` of trace-cmd, or a folder of binary pages.
        clock: trace_clock of the traces that do not name theirs, or `auto`.
        clock_samples: clock.json with bracketed samples.
        hqd: debugfs dumps of the KFD's queues.
        rocprof: CSV, JSON or rocpd databases of rocprof.
        force: replace `out`.
        progress: called with a line of text for each file.
        live: called with what is being done now.

    Raises:
        InputError: a file is missing, empty, or not what its option says, or names another clock than `clock`.
        CaptureError: `out` exists and may not be replaced, or its tables are being built.
    """
    target = out.resolve()
    # Beside it the capture is made; a process has at most seven digits.
    refuse_odd_name(str(target), longer=len("..1234567.new"))
    check_place(out, force=force)
    incoming = [*_plan(amd_logs, ftrace, hqd or []), *_plan_rocprof(rocprof or [])]
    if clock_samples is not None:
        read_clock_samples(clock_samples)
        incoming.append(Incoming(clock_samples, "raw/clock.json", "tracecorr", "clock_samples"))
    for item in incoming:
        refuse_odd_name(item.target)
    for text in _describe_abandoned(target.parent):
        (progress or _ignore)(text)
    stage = name_stage(target)
    try:
        entries = _copy(incoming, stage, progress or _ignore, live or _ignore)
        doubts = check_told_clock(clock, entries, [str(item.origin) for item in incoming], stage)
        entries, unsure = _join_logs(entries, incoming, stage, progress or _ignore)
        write_info(stage, {"ftrace_clock": clock, "files": entries, "import_warnings": [*doubts, *unsure]})
        put_in_place(stage, target)
    except OSError as error:
        raise explain_unwritten(out, error) from error
    finally:
        shutil.rmtree(stage, ignore_errors=True)
    # "." names the folder that was just replaced.
    return Capture.open(out if out.name else target)


def _describe_abandoned(folder: Path) -> Iterator[str]:
    """Yield what to say of each folder that an import, or the making of a dataset, left half done.

    It stays: its process may live where its number cannot be seen, on another machine or in another container.
    """
    for path in sorted(folder.glob(".*.*.*")):
        found = _STAGE.fullmatch(path.name)
        if found is None or Path(f"/proc/{found['pid']}").exists():
            continue
        target, told = folder / found["name"], f"warning: {path} was left by process {found['pid']}, which was killed"
        if found["part"] == "old" and not target.exists():
            yield f"{told} while it replaced {target}; next step: mv {quote_path(path)} {quote_path(target)}"
        else:
            yield f"{told} while it made {target}; next step: rm -r {quote_path(path)}"


def _plan(amd_logs: list[Path], ftrace: list[Path], hqd: list[Path]) -> Iterator[Incoming]:
    for number, path in enumerate(amd_logs):
        _check_amd_log(path)
        yield Incoming(path, f"raw/amd_log/{number}-{plain_name(path)}", "amd_log", "log")
    for number, path in enumerate(ftrace):
        if path.is_dir():
            yield from _plan_pages(path, number)
        elif looks_like_trace_dat(read_head(path, 64)):
            yield Incoming(path, f"raw/ftrace/{number}-{plain_name(path)}", "ftrace", "trace_dat")
        else:
            _check(path, looks_like_ftrace_text, "no event of an ftrace text", "--ftrace")
            yield Incoming(path, f"raw/ftrace/{number}-{plain_name(path)}", "ftrace", "text")
    for number, path in enumerate(hqd):
        _check(path, looks_like_dump, "no queue of a KFD dump (hqds, mqds, rls)", "--hqd")
        yield Incoming(path, f"raw/hqd/{number}-{plain_name(path)}", "hqd", "dump")


def _plan_rocprof(files: list[Path]) -> Iterator[Incoming]:
    for number, path in enumerate(files):
        _refuse_folder(path, "--rocprof")
        if looks_like_sqlite(read_head(path, 64)):
            _check_database(path)
            yield Incoming(path, f"raw/rocprof/{number}-{plain_name(path)}", "rocprof", "rocpd")
            continue
        _check(path, looks_like_rocprof, "no table or trace of rocprof (CSV, JSON or rocpd database)", "--rocprof")
        yield Incoming(path, f"raw/rocprof/{number}-{plain_name(path)}", "rocprof", "rocprof")


def _check_database(path: Path) -> None:
    with path.open("rb") as stream:
        if not looks_like_sqlite(stream.read(64)):
            raise InputError(f"{path} is a compressed database", "decompress it first")
    with open_database(path) as connection:
        check_rocpd(connection, read_head(path, 100), path.stat().st_size, str(path))


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


def _refuse_folder(path: Path, option: str) -> None:
    if path.is_dir():
        raise InputError(f"{path} is a folder, {option} takes files", f"name them: {option} {quote_path(path)}/*")


def _check_amd_log(path: Path) -> None:
    head = _read_given(path, "--amd-log")
    if head.startswith(_DOCKER_JSON):
        raise InputError(
            f"{path} holds lines of a log within JSON, as docker keeps them",
            f"take them out: jq -j .log {quote_path(path)} > hip.log, or docker logs CONTAINER > hip.log 2>&1",
        )
    found, searched = search_amd_log(path)
    if found:
        return
    holds = (
        f"no line of a HIP log (AMD_LOG_LEVEL) in its first {searched} bytes" if searched else "nothing but NUL bytes"
    )
    raise InputError(f"{path} holds {holds}", suggest_use(path, head, "--amd-log"))


def _check(path: Path, looks_right: Callable[[bytes], bool], lacks: str, option: str) -> None:
    head = _read_given(path, option)
    if not looks_right(head):
        raise InputError(f"{path} holds {lacks} in its first {len(head)} bytes", suggest_use(path, head, option))


def _read_given(path: Path, option: str) -> bytes:
    """Return the first bytes of a file that an option was given."""
    _refuse_folder(path, option)
    head = read_head(path)
    if not head:
        raise InputError(f"{path} is empty", f"record it again, or leave out {option}")
    return head


def plain_name(path: Path) -> str:
    """Return the name that a file has once it is decompressed: without `.gz` and `.zst`."""
    return path.name.removesuffix(".gz").removesuffix(".zst")


def _ignore(_: str) -> None:
    """Take a line that nobody wants."""


def _copy(
    incoming: list[Incoming], stage: Path, progress: Callable[[str], None], live: Callable[[str], None]
) -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = []
    for number, item in enumerate(incoming):
        live(f"copying {item.origin.name} ...")
        seen = Checksum()
        stored = copy_in(item.origin, stage / item.target, seen, compress=item.form in ("log", "text"))
        size, checksum = seen.size, seen.text()
        if item.form == "trace_dat":
            unpack_in_place(stored, item.origin)
            size, checksum = describe_file(stored)
        twin = next(
            (e for e in entries if e["checksum"] == checksum and e["form"] in ("log", "text", "trace_dat")), None
        )
        if twin:
            raise InputError(f"{item.origin} was given twice (it equals {twin['path']})", "name each file once")
        entries.append({
            "file": number, "path": str(stored.relative_to(stage)), "source": item.source, "form": item.form,
            "size": size, "checksum": checksum,
        })  # fmt: skip
        if item.form != "description":
            progress(f"{item.origin}: {size:,} bytes")
    return entries


def _join_logs(
    entries: list[dict[str, Any]], incoming: list[Incoming], stage: Path, progress: Callable[[str], None]
) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the entries after pieces of one log became one file, and what is not sure of the others."""
    logs = {stage / e["path"]: e for e in entries if e["form"] == "log"}
    names = {path: incoming[entry["file"]].origin.name for path, entry in logs.items()}
    found = arrange_logs(names) if len(logs) > 1 else Arrangement()
    for pieces in found.logs:
        path = join_pieces(pieces)
        size, checksum = describe_file(path)
        told = [{"name": p.log.name, "size": p.log.size, "repeated": p.repeated, "proven": p.proven} for p in pieces]
        first, *others = (logs[piece.log.path] for piece in pieces)
        first |= {"path": str(path.relative_to(stage)), "size": size, "checksum": checksum, "pieces": told}
        entries = [entry for entry in entries if entry not in others]
        repeated = sum(piece.repeated for piece in pieces)
        again = f"; {repeated:,} bytes that two of them hold count once" if repeated else ""
        progress(f"{' + '.join(piece.log.name for piece in pieces)}: pieces of one log{again}")
    return [{**entry, "file": number} for number, entry in enumerate(entries)], found.doubts
