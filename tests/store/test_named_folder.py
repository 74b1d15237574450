"""Names of captures: a capture is found by its name without the suffix, whatever else has that name."""

from __future__ import annotations

from pathlib import Path

import pytest

from tracecorr.store import named_folder


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    """Return a capture folder, as far as its name is concerned."""
    folder = tmp_path / "gemm.tracecorr"
    folder.mkdir()
    (folder / "capture.json").write_text("{}")
    return folder


def test_a_program_or_a_plain_folder_does_not_hide_the_capture_of_its_name(capture: Path, tmp_path: Path) -> None:
    assert named_folder(tmp_path / "gemm") == capture
    (tmp_path / "gemm").write_text("a program")
    assert named_folder(tmp_path / "gemm") == capture
    (tmp_path / "gemm").unlink()
    (tmp_path / "gemm").mkdir()
    assert named_folder(tmp_path / "gemm") == capture


def test_a_capture_without_the_suffix_is_the_one_that_is_named(capture: Path, tmp_path: Path) -> None:
    (tmp_path / "gemm").mkdir()
    (tmp_path / "gemm" / "capture.json").write_text("{}")
    assert named_folder(tmp_path / "gemm") == tmp_path / "gemm"
    assert named_folder(capture) == capture


def test_a_name_without_a_capture_stays_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    assert [named_folder(tmp_path / name) for name in ("plain", "none")] == [tmp_path / "plain", tmp_path / "none"]
