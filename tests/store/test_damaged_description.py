"""A capture.json or clock.json that is JSON but damaged: told with what is wrong, never an internal error."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tracecorr.api import open_capture
from tracecorr.model.errors import CaptureError, InputError
from tracecorr.pipeline import correlate
from tracecorr.store import Capture

_SAMPLE = Path(__file__).parents[2] / "samples" / "streams-graph.tracecorr"


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    path = tmp_path / "damaged.tracecorr"
    path.mkdir()
    shutil.copytree(_SAMPLE / "raw", path / "raw")
    shutil.copy(_SAMPLE / "capture.json", path)
    return path


def _change(path: Path, keys: tuple[Any, ...], value: Any) -> None:
    content = json.loads(path.read_text())
    place = content
    for key in keys[:-1]:
        place = place[key]
    place[keys[-1]] = value
    path.write_text(json.dumps(content))


@pytest.mark.parametrize(
    ("keys", "value", "says"),
    [
        (("files",), {}, "files is no list"), (("files",), None, "it names no files"),
        (("events",), "x", "events is no whole"), (("state",), [1], "state is no text"),
        (("files",), 7, "files is no list"), (("files", 0), "raw/a", r"files\[0\] is no object"),
        (("files", 3, "size"), None, r"files\[3\].size is missing"),
        (("files", 0, "file"), -1, r"files\[0\].file is no whole number"),
        (("files", 1, "path"), 5, r"files\[1\].path is no text"),
        (("processes", 0, "pid"), 1e30, r"processes\[0\].pid is no whole"),
        (("processes", 0, "namespace_pid"), "7", r"processes\[0\].namespace_pid is no whole"),
        (("timens_offsets",), {"monotonic": "far"}, "timens_offsets.monotonic is no whole"),
        (("event_cost",), {"added_ns": [1]}, "event_cost.added_ns is no whole"),
        (("event_cost",), {"added_ns": 1, "recorded_ns": 1}, "event_cost.alone_ns is missing"),
        (("overhead_ratios",), {"high": "x"}, "overhead_ratios.high is no number"),
        (("processes", 0, "exe"), 7, r"processes\[0\].exe is no text"),
        (("losses",), [{"source": "a", "reason": "b", "path": []}], r"losses\[0\].path is no text"),
        (("plan", "late"), [{"library": "a", "pid": 1, "probes": [7]}], r"plan.late\[0\].probes\[0\] is no text"),
        (("wanted", "ranges"), -3, "wanted.ranges is no list"),
        (("plan", "instances"), 1, "plan.instances is no list"),
        (("plan", "instances", 0), {"name": "a"}, r"plan.instances\[0\].clock is missing"),
        (("plan", "instances", 0, "events", 0), "a", r"plan.instances\[0\].events\[0\] is no object"),
        (("plan", "probes", 0, "instance"), [7], r"plan.probes\[0\].instance is no text"),
        (("plan", "absent"), [{"what": "a"}], r"plan.absent\[0\].why is missing"),
        (("plan",), [1], "plan is no object"), (("warnings",), [None], r"warnings\[0\] is no text"),
    ],
)  # fmt: skip
def test_a_damaged_description_is_named(capture: Path, keys: tuple[Any, ...], value: Any, says: str) -> None:
    _change(capture / "capture.json", keys, value)
    with pytest.raises(CaptureError, match=says) as error:
        correlate(capture)
    assert "capture.json is damaged" in str(error.value) and error.value.next_step


@pytest.mark.parametrize(
    ("plan", "says"),
    [
        ([1], r"nodes\[0\].plan is no object"),
        ({"late": [{"library": "a"}]}, r"nodes\[0\].plan.late\[0\].pid is missing"),
    ],
)
def test_a_damaged_plan_of_a_node_is_named(capture: Path, plan: Any, says: str) -> None:
    node = {"node": "a", "used": {}, "capture": "a", "shift_ns": 0, "placed_by": "own_clock", "plan": plan}
    _change(capture / "capture.json", ("nodes",), [node])
    with pytest.raises(CaptureError, match=says):
        Capture.open(capture)


def test_null_in_place_of_a_list_is_no_damage(capture: Path) -> None:
    for keys in (("plan", "instances"), ("plan", "probes"), ("warnings",), ("wanted", "ranges"), ("processes",)):
        _change(capture / "capture.json", keys, None)
    correlate(capture)
    assert "command: " in str(open_capture(capture).report())


def test_a_thread_that_ended_before_it_was_asked_is_no_damage(capture: Path) -> None:
    """The kernel gives no robust list of it."""
    _change(capture / "capture.json", ("threads",), [{"pid": 7, "tid": 7, "robust_list": None}, {"pid": 7, "tid": 8}])
    correlate(capture)
    assert not {7, 8} & set(Capture.open(capture).table("threads").collect()["tid"])


def test_a_description_without_files_is_named(capture: Path) -> None:
    text = (capture / "capture.json").read_text()
    (capture / "capture.json").write_text(text.replace('"files"', '"fi1es"'))
    with pytest.raises(CaptureError, match="it names no files"):
        Capture.open(capture)


@pytest.mark.parametrize("text", ["", "{", "[1]", "null", '{"state": "complete"}'])
def test_what_is_no_description_is_damaged_and_its_raw_files_are_imported_again(capture: Path, text: str) -> None:
    (capture / "capture.json").write_text(text)
    with pytest.raises(CaptureError, match=r"capture\.json is damaged") as error:
        Capture.open(capture)
    raw = capture / "raw"
    assert error.value.next_step.endswith(
        f"tracecorr import --amd-log {raw}/amd_log/* --ftrace {raw}/ftrace/* --clock-samples {raw}/clock.json -o NEW"
    )
    shutil.rmtree(raw)
    with pytest.raises(CaptureError, match="is damaged") as error:
        Capture.open(capture)
    assert error.value.next_step == "make one with `tracecorr import`"


def test_a_file_at_a_strange_place_is_refused(capture: Path) -> None:
    number = next(
        i for i, e in enumerate(json.loads((capture / "capture.json").read_text())["files"]) if e["form"] == "pages"
    )
    _change(capture / "capture.json", ("files", number, "path"), "x")
    with pytest.raises(InputError):
        correlate(capture)
    assert not (capture / "tables").exists()


def test_a_sample_without_its_value_is_named(capture: Path) -> None:
    path = capture / "raw" / "clock.json"
    _change(path, ("samples", 0, "raw"), {"mono0": 1, "mono1": 2})
    with pytest.raises(InputError, match="no file of clock samples"):
        correlate(capture)
