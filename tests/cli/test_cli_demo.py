"""The demo: the sample is copied once, and an unusable cache folder is explained."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from cli_inputs import Result

from tracecorr.bundled import copy_sample, find_sample
from tracecorr.model.errors import MachineError

Run = Callable[..., Result]


def make_sample(folder: Path) -> Path:
    """Make what looks like a sample."""
    (folder / "raw").mkdir(parents=True)
    (folder / "raw" / "amd.log").write_text("one")
    (folder / "capture.json").write_text("{}")
    return folder


def test_sample_is_copied_once(tmp_path: Path) -> None:
    sample = make_sample(tmp_path / "sample")
    copy = copy_sample(sample, tmp_path / "cache")
    (copy / "mine").write_text("kept")
    assert copy_sample(sample, tmp_path / "cache") == copy
    assert (copy / "mine").is_file()


def test_other_sample_replaces_the_copy(tmp_path: Path) -> None:
    sample = make_sample(tmp_path / "sample")
    copy = copy_sample(sample, tmp_path / "cache")
    (sample / "raw" / "amd.log").write_text("longer")
    copy_sample(sample, tmp_path / "cache")
    assert (copy / "raw" / "amd.log").read_text() == "longer"


def test_unusable_cache_is_explained(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file")
    with pytest.raises(MachineError, match="cannot copy") as caught:
        copy_sample(make_sample(tmp_path / "sample"), tmp_path / "cache")
    assert "XDG_CACHE_HOME" in caught.value.next_step


def test_demo_prints_the_summary(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    find_sample()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    result = run("demo", "--no-serve")
    assert result.status == 0, result.err
    assert result.out.startswith("# eight-streams\n\nabout: ")
    assert "SYNTHETIC: the KFD driver" in result.out.splitlines()[2]
    # Two lines of the kernel's log from before the recording are known badly; the other 7,220 events are not.
    worst = "the start of most events is known to 1.00 us, of the worst to 44.31 ms, by the clock kernel_log:printk"
    assert worst in result.out
    assert (tmp_path / "cache" / "tracecorr" / "eight-streams.tracecorr" / "tables").is_dir()
