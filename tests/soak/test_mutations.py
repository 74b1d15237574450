"""A few mutations of every reader; scripts/soak/run mutations tries thousands."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

_COUNT = 5


def test_mutated_files_end_in_rows_or_are_refused(repo: Path, data_folder: Path) -> None:
    """They are imported in forked processes, which only a process without threads may make."""
    command = [sys.executable, "-m", "soak.mutations", "--count", str(_COUNT)]
    paths = {"PYTHONPATH": f"{repo}:{repo / 'scripts'}", "TRACECORR_DATA": str(data_folder)}
    done = subprocess.run(
        command, env={**os.environ, **paths}, capture_output=True, text=True, timeout=280, check=False
    )
    assert done.returncode == 0, done.stdout
    ends = {line.split(":")[0]: line for line in done.stdout.splitlines()}
    assert len(ends) >= 14
    # A file in which nearly nothing was changed is read: what refuses each one would pass this test, too.
    # SQLite refuses most damaged databases, so that five tell nothing of rocpd.
    readers = (
        "amd_log", "ftrace_text", "ftrace_pages", "perf_pages", "trace_dat", "rocprof_csv", "kernel_log", "dump",
    )  # fmt: skip
    for reader in readers:
        assert f" {_COUNT} rows" in ends[reader] or " 0 rows" not in ends[reader], ends[reader]
