"""Reports of RECORDED and published inputs: their numbers are those of the files beside this test.

`TRACECORR_WRITE_EXPECTED=1` writes these files again.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from tracecorr.analyze.report import summarize_capture
from tracecorr.pipeline import correlate, import_files
from tracecorr.store import Capture

_EXPECTED = Path(__file__).parent / "expected"
_MAX_ROWS = 12
_SAMPLES = ("t1-streams", "streams-graph")
# Name -> HIP logs, traces, profiles in the folder of recorded data.
_IMPORTS: dict[str, tuple[list[str], list[str], list[str]]] = {
    "mocksched": ([], ["vm/bookworm-mocksched/sched.trace.txt"], []),
    "kernel-trace": ([], [], ["cases/field/kt.csv"]),
}


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | bool)


def _numbers(capture: Capture) -> dict[str, Any]:
    """Return the numbers of a report, with the names that identify their rows; errors of clocks are left out."""
    report = summarize_capture(capture.name, capture.table, capture.info).as_dict()
    rows = {
        key: [
            {name: value for name, value in row.items() if _is_number(value) and "error" not in name}
            | {name: row[name] for name in ("name", "kind", "stage", "path", "ring") if row.get(name) is not None}
            for row in section["rows"][:_MAX_ROWS]
        ]
        for key, section in report["sections"].items()
        if key not in ("glossary", "clocks", "time_errors")
    }
    return {
        "summary": {k: v for k, v in report["summary"].items() if _is_number(v) and "error" not in k},
        "verdicts": {v["name"]: [v["outcome"], v["events"]] for v in report["verdicts"]},
        "sections": rows,
    }


def _check(name: str, capture: Capture) -> None:
    found, path = json.loads(json.dumps(_numbers(capture))), _EXPECTED / f"{name}.json"
    if os.environ.get("TRACECORR_WRITE_EXPECTED") == "1":
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")
    assert found == json.loads(path.read_text())


@pytest.mark.parametrize("name", _SAMPLES)
def test_reports_of_samples_hold_their_numbers(name: str, repo: Path, tmp_path: Path) -> None:
    path = Path(shutil.copytree(repo / "samples" / f"{name}.tracecorr", tmp_path / f"{name}.tracecorr"))
    correlate(path)
    _check(name, Capture.open(path))


@pytest.mark.parametrize("name", _IMPORTS)
def test_reports_of_recorded_inputs_hold_their_numbers(name: str, data_folder: Path, tmp_path: Path) -> None:
    logs, traces, profiles = ([data_folder / path for path in paths] for paths in _IMPORTS[name])
    made = import_files(tmp_path / f"{name}.tracecorr", logs, traces, rocprof=profiles)
    correlate(made.path)
    _check(name, made)
