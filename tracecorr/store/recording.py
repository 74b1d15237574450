"""What a capture recorded, found again in its folder: raw files by their places, identities, losses."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import polars as pl

from tracecorr.model import schema
from tracecorr.model.errors import CaptureError, quote_path
from tracecorr.model.reasons import MISSING_BYTES, Lost, list_lossy
from tracecorr.store import zstd_frames
from tracecorr.store.capture import Capture, write_info
from tracecorr.store.followed import complete_frames, list_unfinished
from tracecorr.store.raw import describe_file, find_compression

# A dump of the driver's queues has the times of its read in its name (CLOCK_MONOTONIC, ns).
_DUMP_TIMES = re.compile(r"-(\d+)-(\d+)\.txt$")
# A probe on a place in a file, as a plan names it.
_PROBE = re.compile(r"probe \S+ \((?P<path>.+):0x[0-9a-f]+(?: .*)?\)")
_PROCESS = re.compile(r"/proc/(\d+)/root/")
# How `capture.folder` calls a file until it takes the place of an older one.
_UNWRITTEN = ".*.new"
# The state of a capture that failed after its start; what it recorded until then is there.
FAILED = "failed"
# How `--range` and capture.json name a range of roctx.
RANGE_PREFIX = "roctx:"
# What stands for a byte of a path that is no text.
_NO_TEXT = re.compile("[\ud800-\udfff]")
# A shell's exit status of what a signal ended is this and the signal.
_BY_SIGNAL = 128
_GONE = "Failed to find the given file"
# First match wins: path inside the folder, source, form.
_PLACES = (
    (re.compile(r"raw/amd_log/[^/]+"), "amd_log", "log"),
    (re.compile(r"raw/ftrace/[^/]+/cpu\d+\.bin"), "ftrace", "pages"),
    (re.compile(r"raw/ftrace/[^/]+/perf-cpu\d+\.bin"), "ftrace", "perf"),
    (re.compile(r"raw/ftrace/[^/]+/.+"), "ftrace", "description"),
    (re.compile(r"raw/hqd/[^/]+"), "hqd", "dump"),
    (re.compile(r"raw/sysfs\.jsonl"), "sysfs", "polls"),
    (re.compile(r"raw/trace_printk/\w+\.txt"), "trace_printk", "prints"),
    (re.compile(r"raw/kfd_smi\.txt"), "kfd_smi", "smi"),
    (re.compile(r"raw/kernel_log/.*"), "kernel_log", "kernel_log"),
    (re.compile(r"raw/clock\.json"), "tracecorr", "clock_samples"),
)


def list_raw_files(root: Path, known: Mapping[str, tuple[int, str]] | None = None) -> list[dict[str, Any]]:
    """Return the entries `files` of capture.json for what lies in `raw/`, logs first.

    Args:
        root: the capture folder.
        known: size in bytes (decompressed) and checksum of files that need not be read for that, by name.
    """
    entries: list[dict[str, Any]] = []
    found = [path for path in (root / "raw").rglob("*") if path.is_file() and not path.is_symlink()]
    # Beside its compressed file lies what there was no room for, or a program still writes; it has holes.
    names = set(found)
    found = [path for path in found if path.with_name(path.name + zstd_frames.SUFFIX) not in names]
    for rank, (_, source, form) in enumerate(_PLACES):
        for path in sorted(found):
            name = str(path.relative_to(root))
            if path.name.startswith(".") or _rank(name) != rank:
                continue
            size, checksum = (known or {}).get(path.name) or describe_file(path)
            entries.append({
                "file": len(entries), "path": name, "source": source, "form": form, "size": size, "checksum": checksum,
                **_read_times(name), **_stored_bytes(path),
            })  # fmt: skip
    return entries


def _stored_bytes(path: Path) -> dict[str, int]:
    return {"stored_bytes": path.stat().st_size} if path.suffix == zstd_frames.SUFFIX else {}


def _read_times(name: str) -> dict[str, int]:
    times = _DUMP_TIMES.search(name) if name.startswith("raw/hqd/") else None
    return {"read_start_ns": int(times[1]), "read_end_ns": int(times[2])} if times else {}


def _rank(name: str) -> int:
    """Return the number of the place that a path inside the folder matches first; their count where none does."""
    return next((rank for rank, (place, _, _) in enumerate(_PLACES) if place.fullmatch(name)), len(_PLACES))


def close_killed(capture: Capture) -> Capture:
    """Complete capture.json of a recording that was killed; any other capture is returned as it is.

    Its program may have written on since it was completed, or there may be room on the disk now for the rest of a log:
    then the files are listed again.

    Raises:
        CaptureError: the recording still runs.
    """
    state = capture.info.get("state")
    if capture.info.get("unfinished"):
        problems = [*(capture.info.get("problems") or []), *complete_frames(capture.path)]
        return _describe_anew(capture, unfinished=False, problems=problems)
    if state == "killed" and not list_unfinished(capture.path):
        return _describe_anew(capture) if _has_grown(capture) else capture
    if state not in ("recording", "killed"):
        return capture
    if is_recorded_now(capture):
        raise CaptureError(f"{capture.path} is being recorded now", "wait for the end of its capture")
    problems = ["the capture was killed: what it had not stored, and its exit status, are missing"]
    return _describe_anew(capture, state="killed", problems=problems + complete_frames(capture.path))


def drop_unwritten(capture: Capture) -> None:
    """Remove what a recorder was about to put in place of older files, once it has ended."""
    recorder = capture.info.get("recorder")
    if not recorder or _is_alive(recorder):
        return
    for path in (*capture.path.glob(_UNWRITTEN), *(capture.path / "raw").rglob(_UNWRITTEN)):
        if path.is_file() and not path.is_symlink():
            with suppress(OSError):  # root's, and this is the user
                path.unlink()


def _describe_anew(capture: Capture, **changed: object) -> Capture:
    """Write into capture.json what lies in the folder now, and what else has changed."""
    write_info(capture.path, {**capture.info, **changed, "files": list_raw_files(capture.path)})
    return Capture.open(capture.path)


def _has_grown(capture: Capture) -> bool:
    """Tell whether a log has another size than capture.json says; what is compressed does not grow."""
    logs = [entry for entry in capture.info["files"] if entry["form"] == "log" and "stored_bytes" not in entry]
    sizes = [(capture.path / entry["path"], entry["size"]) for entry in logs]
    return any(path.is_file() and path.stat().st_size != size for path, size in sizes)


def is_recorded_now(capture: Capture) -> bool:
    """Tell whether the recording of a capture still runs."""
    return capture.info.get("state") == "recording" and _is_alive(capture.info.get("recorder") or {})


def is_attached(info: Mapping[str, Any]) -> bool:
    """Tell whether a capture recorded a process that ran already, whose log may be older than the recording."""
    return any(process.get("how") == "attached" for process in info.get("processes") or [])


def is_completed_now(capture: Capture) -> bool:
    """Tell whether the process that recorded a capture still lives to build its tables."""
    return not is_recorded_now(capture) and not capture.has_tables() and _is_alive(capture.info.get("recorder") or {})


def describe_missing_tables(capture: Capture, named: Path) -> CaptureError:
    """Return the error for a capture without tables, with what to do until it has some.

    Args:
        capture: the capture.
        named: its folder as the user names it.
    """
    if is_recorded_now(capture):
        shown = f"wait for the end of its capture; the page shows it meanwhile: tracecorr serve {quote_path(named)}"
        return CaptureError(f"{named} is being recorded now and has no tables yet", shown)
    if is_completed_now(capture):
        return CaptureError(f"{named} has no tables yet: they are being built", "wait for the end of its capture")
    return CaptureError(f"{named} has no tables yet", f"build them: tracecorr correlate {quote_path(named)}")


def describe_state(info: Mapping[str, Any]) -> str:
    """Return how far a capture is: what capture.json says, but for one whose recording ended without a word."""
    state = name_state(info)
    if state != "recording" or _is_alive(info.get("recorder") or {}):
        return state
    return "recording, but by no process of this machine: if it was killed, tracecorr correlate completes it"


def name_state(info: Mapping[str, Any]) -> str:
    """Return how a capture ended, as capture.json says, and why it failed, where it did."""
    state, why = str(info.get("state") or ""), info.get("failure")
    return f"the capture failed: {why}" if state == FAILED and why else state


def _is_alive(recorder: dict[str, Any]) -> bool:
    """Tell whether the process lives that records: its number and its start time, as /proc/PID/stat tells it."""
    try:
        fields = Path(f"/proc/{int(recorder['pid'])}/stat").read_text().rpartition(")")[2].split()
        # One that was killed may wait for its parent to learn of it.
        return fields[0] not in "ZX" and int(fields[19]) == int(recorder["started"])
    except (OSError, ValueError, KeyError, TypeError, IndexError):
        return False


def chosen_ranges(info: dict[str, Any]) -> list[str]:
    """Return the texts of the roctx ranges that a capture was asked to keep; all are kept where it names none."""
    asked = (info.get("wanted") or {}).get("ranges") or []
    return [str(text).removeprefix(RANGE_PREFIX) for text in asked]


def seen_processes(info: dict[str, Any]) -> pl.DataFrame:
    """Return host `pid`, `log_pid`, `comm`, `exe` and `seen_ns` of the processes that a capture saw."""
    rows = [
        (p["pid"], p.get("namespace_pid"), p.get("comm") or None, _as_text(p.get("exe")), p.get("seen_ns"))
        for p in info.get("processes") or []
    ]
    names = {"pid": pl.Int64, "log_pid": pl.Int64, "comm": pl.String, "exe": pl.String, "seen_ns": pl.Int64}
    return pl.DataFrame(rows, schema=names, orient="row")


def _as_text(path: str | None) -> str | None:
    """Return a path with a sign for each byte that is no text in UTF-8: a table holds text only."""
    return _NO_TEXT.sub("\N{REPLACEMENT CHARACTER}", path) if path else None


def seen_threads(info: dict[str, Any]) -> pl.DataFrame:
    """Return `tid` and `robust_list` of the threads that a capture asked the kernel for."""
    rows = [(t["tid"], t.get("robust_list")) for t in info.get("threads") or []]
    return pl.DataFrame(rows, schema={"tid": pl.Int64, "robust_list": pl.UInt64}, orient="row")


def seen_names(info: dict[str, Any]) -> pl.DataFrame:
    """Return `pid`, `tid`, `comm` and `seen_ns` of the threads and processes that a capture read in /proc.

    The threads of a process that ran already were read at the start, all others at the end.
    """
    read_ns = (info.get("start" if is_attached(info) else "stop") or {}).get("monotonic")
    rows = [(p["pid"], p["pid"], p.get("comm") or None, p.get("seen_ns")) for p in info.get("processes") or []]
    rows += [(t["pid"], t["tid"], t.get("comm") or None, read_ns) for t in info.get("threads") or [] if "pid" in t]
    names = {"pid": pl.Int64, "tid": pl.Int64, "comm": pl.String, "seen_ns": pl.Int64}
    return pl.DataFrame(rows, schema=names, orient="row")


def list_exact(info: Mapping[str, Any]) -> list[int]:
    """Return the files whose records hold their process themselves, not as a table of the kernel has it."""
    return [entry["file"] for entry in info.get("files") or [] if entry.get("form") == "perf"]


def seen_time_offsets(info: dict[str, Any]) -> dict[str, int]:
    """Return `monotonic_ns` and `boottime_ns`: what a capture found in /proc/PID/timens_offsets of its workload."""
    found = info.get("timens_offsets") or {}
    return {f"{clock}_ns": int(found[clock]) for clock in ("monotonic", "boottime") if clock in found}


def list_recorded_losses(
    info: Mapping[str, Any], told: Iterable[Mapping[str, Any]]
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return rows for `ledger` and `losses`: what a capture itself dropped, times on CLOCK_MONOTONIC.

    Args:
        info: contents of capture.json.
        told: its `losses`, completed (`kernel_counts.complete_losses`).
    """
    told = list(told)
    files = {entry["path"]: entry["file"] for entry in info.get("files") or []}
    ledger = [
        (files.get(loss.get("path")), loss["source"], "lost", loss["reason"], loss.get("records"), 0) for loss in told
    ]
    losses = [(loss["source"], None, loss.get("from_ns"), loss.get("to_ns"), loss.get("records")) for loss in told]
    return (
        pl.DataFrame(ledger, schema=list(schema.LEDGER.schema), orient="row").pipe(schema.LEDGER.conform),
        pl.DataFrame(losses, schema=list(schema.LOSSES.schema), orient="row").pipe(schema.LOSSES.conform),
    )


def describe_gaps(plan: Mapping[str, Any]) -> Iterator[str]:
    """Yield what a capture did not record, and what it recorded only from some moment on.

    Args:
        plan: `plan` of capture.json. Probes on one library that are absent for one reason are one line.
    """
    yield from (_describe_late(entry) for entry in list_late(plan))
    lines: dict[tuple[str, str], list[str]] = {}
    for absent in plan.get("absent") or []:
        probe = _PROBE.fullmatch(absent["what"])
        lines.setdefault((probe["path"] if probe else absent["what"], absent["why"]), []).append(absent["what"])
    for (place, why), names in lines.items():
        what = f"{len(names)} probes on {place}" if len(names) > 1 else names[0]
        # The kernel's words for a path below /proc/PID/root whose process is gone.
        ended = _GONE in why and _PROCESS.match(place)
        yield f"not recorded: {what}: {why}" + (f" (process {ended[1]} had ended)" if ended else "")


def list_late(plan: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the libraries that were probed only when a process had mapped them; what tells no times is left out."""
    times = ("seen_ns", "doorbells_ns", "armed_ns")
    return [
        entry for entry in plan.get("late") or []
        if entry.get("probes") and not entry.get("before_start") and all(isinstance(entry.get(t), int) for t in times)
    ]  # fmt: skip


def _describe_late(entry: Mapping[str, Any]) -> str:
    """Return from when on a library is probed that was found only when a process mapped it."""
    rings = rings_doorbells(entry)
    what = "doorbells are" if rings else "functions are"
    before = ", earlier ones are inferred" if rings else ""
    return (
        f"late: {Path(entry['library']).name} was found when process {entry['pid']} mapped it: its {what} recorded "
        f"from {measure_lateness(entry) / 1e6:,.1f} ms after that was seen{before}"
    )


def rings_doorbells(entry: Mapping[str, Any]) -> bool:
    """Tell whether a library that was probed late is one whose probes record doorbells."""
    return any(str(name).startswith("doorbell") for name in entry.get("probes") or [])


def measure_lateness(entry: Mapping[str, Any]) -> int:
    """Return the time, ns, from when the capture saw that a library is mapped to its probes; it may be mapped before.

    Args:
        entry: one of `list_late`.
    """
    return int(entry["doorbells_ns" if rings_doorbells(entry) else "armed_ns"] - entry["seen_ns"])


def describe_event_cost(info: Mapping[str, Any]) -> str:
    """Return what recording added to an ioctl of tracecorr's own, empty if that was not measured.

    Args:
        info: contents of capture.json; `capture` times the call before it arms and when the recording is over.
    """
    cost = info.get("event_cost")
    if not isinstance(cost, Mapping):
        return ""
    return (
        f"recording added {cost['added_ns']:,} ns to an ioctl of tracecorr's own, "
        f"{cost['added_ns'] / 2:,.0f} ns per event "
        f"({cost['alone_ns']:,} ns before, {cost['recorded_ns']:,} ns recorded)"
    )


def describe_exit(info: Mapping[str, Any]) -> str:
    """Return the exit status of the workload, with the signal that it stands for, if any; empty if it is not known.

    Args:
        info: contents of capture.json; its status is that of a shell, 128 + the signal that ended the workload, or that
            the workload itself so passed on.
    """
    status = info.get("exit_status")
    if not isinstance(status, int) or isinstance(status, bool):
        return ""
    number = status - _BY_SIGNAL
    if number not in set(signal.Signals):
        return str(status)
    return f"{status}, as after {signal.Signals(number).name} ({signal.strsignal(number)})"


_OVERRUN = "the kernel dropped these records because its buffers were full; no file shows which"
# A hit that was seen twice was counted once; records that damage took were not counted.
_NO_RECORDS = ["duplicate_sample", *list_lossy(Lost.UNTOLD)]


def count_read(ledger: pl.DataFrame) -> int:
    """Return how many records the files of the kernel trace hold.

    Args:
        ledger: the table.
    """
    told = ledger.with_columns(pl.col("source", "outcome", "reason").cast(pl.String))
    held = told.filter(
        (pl.col("source") == "ftrace")
        & (pl.col("outcome") != "lost")
        & ~pl.col("reason").is_in(_NO_RECORDS).fill_null(value=False)
    )
    return int(held["records"].sum() or 0)


def complete_losses(info: Mapping[str, Any], ledger: pl.DataFrame, losses: pl.DataFrame) -> list[dict[str, Any]]:
    """Return `losses` of capture.json with the records of the trace that were lost without a file that tells of them.

    What the capture could not write gets its number of records: those that it counted, without those that are there.
    What the kernel counted as lost, and neither a file nor that explains, is an entry of its own.

    Args:
        info: contents of capture.json.
        ledger: rows of the parts.
        losses: spans that the readers found.
    """
    given = [dict(loss) for loss in info.get("losses") or []]
    if not isinstance(info.get("events"), int) or not isinstance(info.get("lost_events"), int):
        return given
    unwritten = int(info.get("unwritten_events") or 0)
    told = losses.filter(pl.col("source").cast(pl.String) == "ftrace")["count"]
    missing = max(info["events"] - count_read(ledger), 0) + unwritten
    for loss in given:
        if loss["source"] == "ftrace" and loss.get("records") is None and missing:
            loss["records"], missing = missing, 0
    rest = info["lost_events"] - unwritten - int(told.sum() or 0)
    # A span of unknown number may hold any of them.
    if rest > 0 and not told.null_count():
        given.append({"source": "ftrace", "records": rest, "bytes": 0, "reason": _OVERRUN})
    return given


def list_missing_bytes(root: Path, files: Iterable[Mapping[str, Any]]) -> pl.DataFrame:
    """Return a row of `ledger` for each raw file whose end is not there any more.

    A compressed one is left out: it does not decompress without its end.

    Args:
        root: the capture folder.
        files: the entries `files` of capture.json.
    """
    paths = [(entry, root / entry["path"]) for entry in files]
    rows = [
        {"file": entry["file"], "source": entry["source"], "bytes": entry["size"] - path.stat().st_size}
        for entry, path in paths
        if path.is_file() and not find_compression(path)
    ]
    found = pl.DataFrame(rows, schema={"file": pl.Int64, "source": pl.String, "bytes": pl.Int64})
    missing = found.filter(pl.col("bytes") > 0)
    return schema.LEDGER.conform(missing.with_columns(outcome=pl.lit("lost"), reason=pl.lit(MISSING_BYTES), records=0))
