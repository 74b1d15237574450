"""With what polars begins: on machines of few and many CPUs, which are made up here."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

_CPUS = """
import os
os.sched_getaffinity = lambda _: set(range({}))
"""
_VERB = """
from tracecorr.cli import main
main(["info", "--help"])
"""


def _run(code: str, **environment: str) -> list[str]:
    clean = {name: value for name, value in os.environ.items() if name != "POLARS_MAX_THREADS"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=clean | environment, capture_output=True, text=True, check=True
    )
    return done.stdout.split()[-2:]


@pytest.mark.parametrize(
    ("cpus", "environment", "threads"),
    [(192, {}, "16"), (6, {}, "3"), (1, {}, "1"), (192, {"POLARS_MAX_THREADS": "5"}, "5")],
)
def test_command_line_wakes_few_threads(cpus: int, environment: dict[str, str], threads: str) -> None:
    told = "\nimport polars\nprint(polars.thread_pool_size(), os.environ.get('POLARS_MAX_THREADS'))"
    assert _run(_CPUS.format(cpus) + _VERB + told, **environment) == [
        threads,
        environment.get("POLARS_MAX_THREADS", "None"),
    ]


@pytest.mark.parametrize(("before", "is_frozen"), [("", "True"), ("import numpy, polars\n", "False")])
def test_garbage_is_not_looked_for_in_what_the_command_line_imports(before: str, is_frozen: str) -> None:
    told = "\nimport gc\nprint(gc.get_freeze_count() > 0, gc.isenabled())"
    assert _run(before + _VERB + told) == [is_frozen, "True"]


def test_threads_of_libraries_take_no_signals() -> None:
    """Nor do those that come with what a capture imports before it waits for its signals."""
    told = """
from pathlib import Path
import tracecorr.capture.run, tracecorr.store.recording
masks = [line for task in Path("/proc/self/task").iterdir() if task.name != str(os.getpid())
         for line in (task / "status").read_text().splitlines() if line.startswith("SigBlk")]
print("threads", len(masks) > 0 and all(int(mask.split()[1], 16) >> 14 & 1 for mask in masks))
"""
    assert _run(_CPUS.format(192) + _VERB + told) == ["threads", "True"]
