"""Memory: how much this process may still take, what a stage gives back."""

from __future__ import annotations

import ctypes
from pathlib import Path

import pyarrow as pa

from tracecorr.model.errors import MachineError


def give_back() -> None:
    """Return the free memory of arrow and of the C library to the system, where these can."""
    pa.default_memory_pool().release_unused()
    library = ctypes.CDLL(None)
    if hasattr(library, "malloc_trim"):
        library.malloc_trim(0)


_MEMINFO = Path("/proc/meminfo")
_OWN_CGROUP, _CGROUPS = Path("/proc/self/cgroup"), Path("/sys/fs/cgroup")
# Version 1 of cgroups says this, rounded down to pages, where there is no limit (PAGE_COUNTER_MAX of page_counter.h).
_NO_LIMIT = (2**63 - 1) // 65536 * 65536
# Linking holds more: some 220 of a log alone, and 600 of a log with a kernel trace (`scripts/bench parse`,
# `scripts/bench imports`). What is refused must be hopeless.
_LEAST_ROW_BYTES = 200


def refuse_hopeless(rows: int) -> None:
    """Refuse to link more rows than the memory of this machine can hold: the kernel would kill this process, or others.

    Args:
        rows: of all sources.

    Raises:
        MachineError: they cannot be linked here.
    """
    need, free = rows * _LEAST_ROW_BYTES, free_memory_bytes()
    if free is None or need <= free:
        return
    gb = [f"{size / 1e9:,.1f} GB" for size in (need, free)]
    raise MachineError(
        f"linking {rows:,} rows takes at least {gb[0]} of memory, and {gb[1]} are free here",
        "correlate it on a machine with more memory, or import a part of the log (head -c 2G LOG > PART)",
    )


def free_memory_bytes() -> int | None:
    """Return the memory, with swap, that this process can have at most; None if the kernel does not tell."""
    machine = [_read_meminfo(name) for name in ("MemAvailable", "SwapFree")]
    if machine[0] is None:
        return None
    limit = read_cgroup_limit()[1]
    whole = machine[0] + (machine[1] or 0)
    return whole if limit is None else min(whole, limit)


def available_memory_bytes() -> int:
    """Return the memory that can be taken without swapping; 0 if the kernel does not tell."""
    return _read_meminfo("MemAvailable") or 0


def read_cgroup_limit() -> tuple[str, int | None]:
    """Return the file that holds the memory limit of this process's cgroup, and the limit in bytes; None = no limit."""
    lines = (line.split(":", 2) for line in _read_text(_OWN_CGROUP).splitlines())
    groups = {words[1]: words[2] for words in lines if len(words) > 2}
    root, group, file = _CGROUPS, groups.get("", ""), "memory.max"
    # Version 1, alone or beside an empty version 2: hosts of Linux 5.10 have it.
    for controllers in groups:
        if "memory" in controllers.split(","):
            root, group, file = _CGROUPS / "memory", groups[controllers], "memory.limit_in_bytes"
    folder = root / group.lstrip("/")
    limits = (_read_text(path / file).strip() for path in (folder, *folder.parents))
    limit = min((int(text) for text in limits if text.isdigit()), default=_NO_LIMIT)
    return file, limit if limit < _NO_LIMIT else None


def _read_meminfo(name: str) -> int | None:
    words = _read_text(_MEMINFO).split()
    return int(words[words.index(f"{name}:") + 1]) * 1024 if f"{name}:" in words else None


def _read_text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
