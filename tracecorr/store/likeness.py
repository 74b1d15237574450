"""What a file that was refused looks like, so that the message can say what to do with it."""

from __future__ import annotations

import re
from pathlib import Path

from tracecorr.model.errors import quote_path
from tracecorr.read.amdlog import looks_like_amd_log
from tracecorr.read.ftrace import looks_like_ftrace_text, looks_like_trace_dat
from tracecorr.read.kfd.dumps import looks_like_dump
from tracecorr.read.rocprof import looks_like_rocprof, looks_like_sqlite
from tracecorr.store.raw import read_chunks, read_head

_PACKED = {b"\xfd7zXZ\x00": "xz", b"BZh": "bzip2", b"PK\x03\x04": "zip"}
# A file of perf record, and lines of perf script: task, pid, perhaps its thread, CPU, time.
_PERF = re.compile(rb"PERFILE2|\s*\S[^\n]{0,20}?\s+\d+(/\d+)?\s+\[\d{3,}\]\s+\d+\.\d{6,9}:\s")
_UTF16 = (b"\xff\xfe", b"\xfe\xff")
# A program may print much before its first HIP call, as builds and downloads do.
_SEARCHED_BYTES = 256 << 20
# What is cut between two chunks is looked at with the second one.
_OVERLAP_BYTES = 8 << 10
# What `import` takes, by the option that takes it; the dump of queues last, whose lines are the plainest.
_KINDS = (
    ("--amd-log", "a HIP log", looks_like_amd_log),
    ("--ftrace", "a kernel trace", looks_like_ftrace_text),
    ("--ftrace", "a trace.dat", looks_like_trace_dat),
    ("--rocprof", "output of rocprof", looks_like_rocprof),
    ("--rocprof", "a database", looks_like_sqlite),
    ("--hqd", "a dump of the KFD's queues", looks_like_dump),
)


def suggest_use(path: Path, head: bytes, option: str) -> str:
    """Return the next step for a file that `option` refused.

    Args:
        path: the file.
        head: its first bytes, decompressed where it is gzip or zstd.
        option: option of `import` that it was given to.

    >>> suggest_use(Path("a.log"), b"dear diary", "--amd-log")
    'check what was given to --amd-log'
    """
    if head.startswith(_UTF16):
        return "it is text in UTF-16: convert it first (iconv -f UTF-16 -t UTF-8)"
    for magic, name in _PACKED.items():
        if head.startswith(magic):
            return f"it is packed with {name}: unpack it first (.gz and .zst are read as they are)"
    if option == "--ftrace" and re.fullmatch(r"(perf-)?cpu\d+\.bin", path.name):
        return f"pages are read by their folder: --ftrace {quote_path(path.parent)}"
    if _PERF.match(head):
        return "perf made it, whose files are not read: record with tracecorr capture or trace-cmd record"
    other, kind = _recognize(head, option)
    return f"it looks like {kind}: give it to {other}" if other else f"check what was given to {option}"


def find_option(path: Path) -> str:
    """Return the option of `import` that takes a file or folder, by what it holds; empty where nothing tells.

    Raises:
        InputError: the file cannot be read.
    """
    if path.is_dir():
        return "--ftrace" if any(path.glob("*cpu*.bin")) else ""
    return _recognize(read_head(path))[0] or ("--amd-log" if search_amd_log(path)[0] else "")


def search_amd_log(path: Path) -> tuple[bool, int]:
    """Tell whether a file holds a line of a HIP log, and how many bytes were searched, at most 256 MiB.

    NULs at the beginning do not count: a log that was emptied while its writer kept its place begins with as many bytes
    of them as there were in it (`truncate`, `logrotate`; ROCm's own limit, `AMD_LOG_LEVEL_SIZE`, with AMD_LOG_ASYNC).

    Raises:
        InputError: the file cannot be read.
    """
    searched, before = 0, b""
    for chunk in read_chunks(path):
        text = chunk if before else chunk.lstrip(b"\0")
        if looks_like_amd_log(before + text):
            return True, searched
        searched += len(text)
        if searched >= _SEARCHED_BYTES:
            break
        before = text[-_OVERLAP_BYTES:]
    return False, searched


def _recognize(head: bytes, refused: str = "") -> tuple[str, str]:
    """Return the option that takes a file which begins so, and its kind; both empty where none but `refused` would."""
    found = ((option, kind) for option, kind, looks_right in _KINDS if option != refused and looks_right(head))
    return next(found, ("", ""))
