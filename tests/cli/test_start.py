"""What a verb imports before it answers, and with what polars begins then."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

_CPUS = """
import os
os.sched_getaffinity = lambda _: set(range({}))
"""
_VERB = """
from tracecorr.cli import main
main(["report", "--explain", "PASS"])
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


# Each runs in a process of its own, which has imported the command line alone.
_EACH = """
import gc, io, json, os, sys
from tracecorr.cli import main
for words in json.load(sys.stdin):
    sys.stdout.flush()
    if not os.fork():
        kept, sys.stdout, sys.stderr = sys.stdout, io.StringIO(), io.StringIO()
        if words[0] == "tracecorr":
            os.environ |= {"COMP_WORDS": "\\n".join(words), "COMP_CWORD": str(len(words) - 1)}
            os.environ["_TRACECORR_COMPLETE"], words = "complete_bash", []
        status = main(words)
        heavy = [name for name in ("polars", "numpy", "plotly", "dash") if name in sys.modules]
        print(json.dumps([status, heavy, gc.get_freeze_count() > 0]), file=kept, flush=True)
        os._exit(0)
    os.wait()
"""


def _import_by(cases: list[list[str]]) -> list[tuple[int, list[str], bool]]:
    """Return of each call its status, the heavy modules that it imported, and whether these began as they should."""
    done = subprocess.run(
        [sys.executable, "-c", _EACH], input=json.dumps(cases), capture_output=True, text=True, check=True
    )
    return [(status, heavy, began) for status, heavy, began in map(json.loads, done.stdout.splitlines())]


def test_help_completion_and_wrong_usage_import_nothing_heavy() -> None:
    verbs = ("report", "capture", "export", "serve", "experiment preempt", "hqd", "hang", "import", "correlate")
    asked = [*(f"{verb} --help" for verb in verbs), "--help", "--version", "help", "help sql", "query --examples"]
    wrong = [
        "repot", "report --jsn", "report nowhere", "query nowhere SELECT", "export nowhere", "serve nowhere",
        "info nowhere", "compare nowhere nowhere", "correlate nowhere", "report --strict", "export --to perfeto",
        "capture --duration nan", "capture --kill --pid 1", "hqd --interval 3", "doctor --pid 1 --container x",
        "hang --pid 99999999", "import", "experiment preempt --high true --low true --kept nan",
    ]  # fmt: skip
    completed = ["tracecorr comp", "tracecorr report ge", "tracecorr report --verdict no",
                 "tracecorr query --example sk", "tracecorr export --only hi"]  # fmt: skip
    found = _import_by([line.split() for line in (*asked, *completed, *wrong)])
    assert [heavy for _, heavy, _ in found] == [[]] * len(found)
    fine = len(asked) + len(completed)
    assert [status for status, _, _ in found] == [0] * fine + [2] * len(wrong)


def test_verbs_that_work_import_what_they_use(sample: Path) -> None:
    """And polars begins with few threads, whichever verb needs it first."""
    name = str(sample)
    cases = [["report", name], ["info", name], ["query", name, "SELECT 1"], ["compare", name, name],
             ["export", name, "-o", f"{name}.json", "--to", "chrome"], ["correlate", name], ["doctor"],
             ["capture", "--dry-run", "--", "true"], ["import", "--amd-log", __file__]]  # fmt: skip
    for words, (_, heavy, began) in zip(cases, _import_by(cases), strict=True):
        assert heavy == ["polars", "numpy"] and began, words
