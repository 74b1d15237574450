"""Captures of older formats open: their tables are built again from the raw files, and that is said."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner

from tracecorr.api import open_capture
from tracecorr.cli import app
from tracecorr.model.errors import CaptureError, InputError
from tracecorr.pipeline import correlate
from tracecorr.store import Capture
from tracecorr.store.capture import FORMAT_VERSION


def _age(path: Path) -> None:
    """Make a capture one of format 1, with a table that has other columns."""
    info = json.loads((path / "capture.json").read_text())
    (path / "capture.json").write_text(json.dumps({**info, "format": 1}))
    table = path / "tables" / "links.parquet"
    pl.read_parquet(table).drop("gap_err_ns").write_parquet(table)


@pytest.fixture
def old(tmp_path: Path, sample: Path) -> Path:
    path = tmp_path / "old.tracecorr"
    shutil.copytree(sample, path)
    _age(path)
    return path


def test_a_verb_builds_the_tables_of_an_older_format_again(old: Path, sample: Path) -> None:
    done = CliRunner().invoke(app, ["query", str(old), "select count(*) from links"])
    assert done.exit_code == 0, done.output
    assert "was made by an older tracecorr: its tables are built again" in done.stderr
    capture = Capture.open(old)
    assert capture.info["format"] == FORMAT_VERSION
    assert capture.table("links").collect().equals(Capture.open(sample).table("links").collect())
    assert "older" not in CliRunner().invoke(app, ["query", str(old), "select count(*) from links"]).stderr


def test_notebooks_build_them_again(old: Path) -> None:
    with pytest.warns(UserWarning, match="built again"):
        assert open_capture(old).launches.collect().height


def test_what_cannot_be_built_again_is_told(old: Path) -> None:
    shutil.rmtree(old / "raw")
    with pytest.warns(UserWarning, match="older"), pytest.raises(InputError, match="cannot read"):
        open_capture(old)
    assert Capture.open(old).has_tables()


def test_a_folder_of_a_later_format_is_refused(old: Path) -> None:
    info = json.loads((old / "capture.json").read_text())
    (old / "capture.json").write_text(json.dumps({**info, "format": FORMAT_VERSION + 1}))
    with pytest.raises(CaptureError, match=f"format {FORMAT_VERSION + 1}, this tracecorr reads 1 and 2"):
        correlate(old)
