"""Half an hour of ticks in a moment: what a recording does each second does not grow with its length."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tracecorr.capture import recorder as recorders
from tracecorr.capture.folder import RecordingFolder
from tracecorr.capture.plan.plan import Offer, Wanted
from tracecorr.capture.plan.planning import make_plan
from tracecorr.capture.recorder import KernelRecorder
from tracecorr.capture.tracefs.clocks import ClockSampler
from tracecorr.capture.tracefs.control import Tracefs
from tracecorr.capture.tracefs.journal import Journal, new_token
from tracecorr.capture.workload.invoker import find_invoker

_SPAN_S = 1800


class _Clock:
    """Stand in for `time` where the recorder asks what is due."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


def test_clock_samples_are_saved_rarer_the_longer_it_lasts(
    tracefs: Tracefs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file holds all samples: saved each second, each of them would be written 900 times on average."""
    clock = _Clock()
    monkeypatch.setattr(recorders, "time", clock)
    token = new_token()
    folder = RecordingFolder.create(tmp_path / "x.tracecorr", find_invoker({"PATH": "/bin"}))
    plan = make_plan(Wanted("minimal"), Offer("test", 2, 1 << 30, clocks=("mono",)))
    recorder = KernelRecorder.arm(plan, tracefs, Journal.create(token), token, folder)
    saved: list[tuple[float, int]] = []
    monkeypatch.setattr(folder, "write_text", lambda path, text: _note(saved, clock.now, path, text))
    try:
        recorder.start()
        begun = len(saved)
        behind = 0.0
        for second in range(1, _SPAN_S + 1):
            clock.now += 1
            recorder.tick()
            behind = max(behind, (clock.now - saved[-1][0]) / (second + 50))
        recorder.stop()
    finally:
        assert recorder.disarm() == []
        folder.close()
    taken = saved[-1][1]
    assert saved[-2][1] > taken * 0.95, "of a capture that is killed hardly a sample lacks"
    assert behind <= 0.02
    assert sum(count for _, count in saved[begun:]) < 60 * taken
    assert taken > _SPAN_S


def _note(saved: list[tuple[float, int]], now: float, path: str, text: str) -> None:
    if path == "raw/clock.json":
        saved.append((now, len(json.loads(text)["samples"])))


def test_samples_are_encoded_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While Python encodes all samples of a day no thread drains the trace, for some seconds."""
    (tmp_path / "trace_marker").touch()
    sampler = ClockSampler({"workload": tmp_path})
    for _ in range(1000):
        sampler.sample("during")
    sampler.close()
    encoded: list[str] = []
    encode = json.dumps

    def noted(value: object) -> str:
        encoded.append(encode(value))
        return encoded[-1]

    monkeypatch.setattr(json, "dumps", noted)
    text = sampler.render("mono", {"top_buffer": {"samples": [1]}})
    content = json.loads(text)
    assert sum(map(len, encoded)) < 1000 < len(text) / 100
    assert (content["trace_clock"], content["top_buffer"]) == ("mono", {"samples": [1]})
    assert [sample["id"] for sample in content["samples"]] == list(range(1000))
