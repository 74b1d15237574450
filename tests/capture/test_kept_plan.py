"""What capture.json says of probes that are armed while a capture runs, when the capture has no end."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tracecorr.capture.plan.plan import Absent, Plan
from tracecorr.capture.probes import libraries as kept_plan
from tracecorr.capture.probes.libraries import KeptPlan
from tracecorr.store.recording import describe_gaps

_PLAN = Plan((), (), (Absent("doorbells (libhsa-runtime64)", "no library that exports hsa_signal_store_* was found"),))
_LATE = {"library": "/lib/libhsa-runtime64.so.1", "kind": "hsa", "pid": 7, "before_start": False, "seen_ns": 1_000_000,
         "doorbells_ns": 3_000_000, "armed_ns": 4_000_000, "probes": ["doorbell0"]}  # fmt: skip


class Folder:
    """A capture folder that counts what is written into it."""

    def __init__(self, path: Path) -> None:
        self.path, self.written, self.free = path, 0, 1 << 30
        self.failure: OSError | None = None

    def free_bytes(self) -> int:
        return self.free

    def write_info(self, info: dict[str, Any]) -> None:
        if self.failure:
            raise self.failure
        self.written += 1
        self.path.write_text(json.dumps(info, default=str))

    def list_gaps(self) -> list[str]:
        return list(describe_gaps(json.loads(self.path.read_text())["plan"]))


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path / "capture.json")


def _keep(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> tuple[KeptPlan, SimpleNamespace]:
    late = SimpleNamespace(armed=[], absent=())
    kept = KeptPlan(folder, {}, SimpleNamespace(plan=_PLAN), late)  # type: ignore[arg-type]
    monkeypatch.setattr(kept, "_pace", SimpleNamespace(run=lambda work: work()))
    kept.learn()
    return kept, late


def test_what_is_armed_late_is_in_capture_json_at_once(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    kept, late = _keep(folder, monkeypatch)
    kept.tick()
    assert folder.written == 0
    late.armed.append(_LATE)
    kept.tick()
    (line,) = folder.list_gaps()
    assert line.startswith("late: libhsa-runtime64.so.1 was found when process 7 mapped it")
    kept.tick()
    assert folder.written == 1


def test_news_waits_for_its_turn(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    kept, late = _keep(folder, monkeypatch)
    monkeypatch.setattr(kept, "_pace", kept_plan.Pace(3_600))
    for _ in range(3):
        late.armed.append(_LATE)
        kept.tick()
    assert folder.written == 1


def test_a_disk_that_is_nearly_full_keeps_its_room_for_the_end(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    kept, late = _keep(folder, monkeypatch)
    late.armed.append(_LATE)
    folder.free = 1 << 20
    kept.tick()
    assert folder.written == 0


def test_a_disk_that_takes_nothing_ends_no_capture(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    kept, late = _keep(folder, monkeypatch)
    late.armed.append(_LATE)
    folder.failure = OSError(28, "No space left on device")
    kept.tick()
    folder.failure = None
    kept.tick()
    assert folder.written == 1
