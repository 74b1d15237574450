"""A folder of binary trace pages or perf records: which of its files is what."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from tracecorr.model.errors import InputError
from tracecorr.read.ftrace.formats import Format, PageTrace, parse_formats
from tracecorr.read.ftrace.trace_dat import read_description
from tracecorr.store.capture import Capture
from tracecorr.store.raw import open_read_at, read_chunks, read_clock_samples

# Every CPU has a chunk in memory, and a big machine has hundreds of CPUs.
_CHUNK_BYTES = 256 << 10
_CPU_FILE = re.compile(r"cpu(\d+)\.bin$")


def list_recordings(entries: Sequence[Mapping[str, Any]]) -> list[list[Mapping[str, Any]]]:
    """Return the entries of each folder of pages or perf records (`raw/ftrace/NAME/`)."""
    recordings: dict[str, list[Mapping[str, Any]]] = {}
    for entry in entries:
        if entry["form"] in ("pages", "perf", "description"):
            recordings.setdefault("/".join(str(entry["path"]).split("/")[:3]), []).append(entry)
    return list(recordings.values())


def trace_clock(capture: Capture) -> str:
    """Return the trace clock of a capture: as its import was told, else as its clock samples say; `unknown`."""
    asked, path = capture.info.get("ftrace_clock"), capture.path / "raw" / "clock.json"
    if asked in (None, "auto") and path.is_file():
        asked = read_clock_samples(path).get("trace_clock")
    # What is no name was not written by this tool.
    return asked if isinstance(asked, str) and asked not in ("", "auto") else "unknown"


def open_page_trace(
    capture: Capture, entries: Sequence[Mapping[str, Any]], follow: Callable[[Iterator[bytes]], Iterator[bytes]] = iter
) -> tuple[PageTrace, dict[int, int]]:
    """Return a recording of pages (or of perf records), and the file key of each of its CPUs.

    Args:
        capture: the capture.
        entries: entries of capture.json, all of one recording: its pages and their descriptions.
        follow: what the chunks of all files go through while they are read.

    Raises:
        InputError: a description cannot be read, or the name of a file of pages tells no CPU.
    """
    texts = {str(e["path"]): _read_text(capture.raw_path(e)) for e in entries if e["form"] == "description"}
    named = {PurePosixPath(path).name: text for path, text in texts.items()}
    files = {}
    for entry in entries:
        if entry["form"] not in ("pages", "perf"):
            continue
        cpu = _CPU_FILE.search(str(entry["path"]))
        if not cpu:
            raise InputError(f"{entry['path']} does not name the CPU of its pages", "its name must end with cpuN.bin")
        files[int(cpu[1])] = entry
    trace = PageTrace(
        pages={cpu: follow(read_chunks(capture.raw_path(entry), _CHUNK_BYTES)) for cpu, entry in files.items()},
        formats=dict(_formats(texts)),
        header_page=named.get("header_page", ""),
        header_event=named.get("header_event", ""),
        cmdlines=named.get("saved_cmdlines", ""),
        tgids=named.get("saved_tgids", ""),
        stats=_read_stats(named.get("stats.json", "{}")),
        probes=named.get("kprobe_events", "") + named.get("dynamic_events", ""),
        kallsyms=named.get("kallsyms", ""),
        printk=named.get("printk_formats", ""),
    )
    return trace, {cpu: int(entry["file"]) for cpu, entry in files.items()}


def read_formats(path: Path, descriptions: Sequence[Path]) -> Mapping[int, Format]:
    """Return the formats of the events of a file of binary records, by event id.

    Args:
        path: pages of a CPU, or a `trace.dat`, which holds its formats itself.
        descriptions: the files of the same recording that describe its pages; none are needed of a `trace.dat`.

    Raises:
        OSError: a file cannot be read.
        InputError: the `trace.dat` cannot be read.
    """
    if path.suffix == ".bin":
        return parse_formats(dict(_formats({str(file): _read_text(file) for file in descriptions})))
    with open_read_at(path) as (read_at, size):
        return parse_formats(read_description(read_at, size).events)


def _formats(texts: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return `system/event` and text of each format file, from `SYS/EVENT/format` and `SYS.EVENT.format`."""
    found = []
    for path, text in texts.items():
        parts = PurePosixPath(path).parts
        if parts[-1] == "format":
            found.append((f"{parts[-3]}/{parts[-2]}", text))
        elif parts[-1].endswith(".format"):
            found.append((parts[-1].removesuffix(".format").replace(".", "/", 1), text))
    return found


def _read_text(path: Path) -> str:
    return b"".join(read_chunks(path)).decode(errors="replace")


def _read_stats(text: str) -> dict[str, dict[str, str]]:
    try:
        stats = json.loads(text)
    except ValueError:
        return {}
    return {cpu: lines for cpu, lines in stats.items() if isinstance(lines, dict)} if isinstance(stats, dict) else {}
