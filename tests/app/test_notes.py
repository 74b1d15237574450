"""What `views/notes.json` may hold besides notes: it is a file that people edit and copy."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tracecorr.app import index
from tracecorr.app.notes import read_notes, save_notes
from tracecorr.pipeline import correlate
from tracecorr.store import Capture

_SAMPLE = Path(__file__).parents[2] / "samples" / "streams-graph.tracecorr"


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> index.CaptureIndex:
    path = tmp_path_factory.mktemp("notes") / "noted.tracecorr"
    path.mkdir()
    shutil.copytree(_SAMPLE / "raw", path / "raw")
    shutil.copy(_SAMPLE / "capture.json", path)
    correlate(path)
    return index.build(Capture.open(path))


@pytest.mark.parametrize(
    "change",
    [
        {"file": ["a"]}, {"file": 7}, {"offset": "1"}, {"offset": 1 << 70}, {"delta_ns": "1"}, {"dur_ns": None},
        {"text": {}},
    ],
)  # fmt: skip
def test_a_damaged_note_is_left_out_and_the_others_stay(shown: index.CaptureIndex, change: dict[str, Any]) -> None:
    save_notes(shown, [{"text": "kept", "start": 5, "dur": 0}])
    stored = shown.capture.path / "views" / "notes.json"
    (note,) = json.loads(stored.read_text())
    stored.write_text(json.dumps([note | change, note]))
    assert read_notes(shown) == [{"text": "kept", "dur": 0, "start": 5}]
