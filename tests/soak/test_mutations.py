"""A few mutations of every reader; scripts/soak/run mutations tries thousands."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

_COUNT = 3


def _try(repo: Path, data: Path, *words: str) -> dict[str, str]:
    """Run mutations; return what became of them, by reader. Only a process without threads may fork its workers."""
    command = [sys.executable, "-m", "soak.mutations", *words]
    paths = {"PYTHONPATH": f"{repo}:{repo / 'scripts'}", "TRACECORR_DATA": str(data)}
    done = subprocess.run(
        command, env={**os.environ, **paths}, capture_output=True, text=True, timeout=280, check=False
    )
    assert done.returncode == 0, done.stdout
    return {line.split(":")[0]: line for line in done.stdout.splitlines()}


def test_mutated_files_end_in_rows_or_are_refused(repo: Path, data_folder: Path) -> None:
    ends = _try(repo, data_folder, "--count", str(_COUNT))
    assert len(ends) >= 14
    # A file in which nearly nothing was changed is read: what refuses each one would pass this test, too.
    # SQLite refuses most damaged databases, so more of them are tried.
    ends |= _try(repo, data_folder, "rocpd", "--count", str(4 * _COUNT))
    readers = (
        "amd_log", "ftrace_text", "ftrace_pages", "perf_pages", "trace_dat", "rocprof_csv", "rocpd", "kernel_log",
        "dump",
    )  # fmt: skip
    for reader in readers:
        assert " 0 rows" not in ends[reader], ends[reader]
