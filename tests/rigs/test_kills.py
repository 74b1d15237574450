"""A few rounds of the soak: captures that are killed at random moments leave the machine as it was."""

from __future__ import annotations

import pytest
from rig import NullGpu
from soak import kills


def test_killed_captures_leave_nothing(
    nullgpu: NullGpu, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TRACECORR_RIGS", str(nullgpu.folder.parent))
    monkeypatch.setenv("NULLGPU_CACHE", str(nullgpu.cache))
    assert kills.main(4) == 0, capsys.readouterr().out
