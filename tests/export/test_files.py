"""Files of exports take their place whole, whoever else writes there."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tracecorr.export.table_files import open_fresh, open_fresh_folder


def test_of_two_exports_to_one_place_the_last_one_stays_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = iter([1, 2, 3, 4])
    monkeypatch.setattr("tracecorr.export.table_files.os.getpid", lambda: next(numbers))
    path = tmp_path / "x.json"
    with open_fresh(path) as first:
        first.write(b"a long one\n" * 9)
        with open_fresh(path) as second:
            second.write(b"short\n")
        assert path.read_bytes() == b"short\n"
    assert path.read_bytes() == b"a long one\n" * 9
    with open_fresh_folder(tmp_path / "tables") as one:
        (one / "events.csv").write_text("one")
        with open_fresh_folder(tmp_path / "tables") as other:
            (other / "events.csv").write_text("other")
    assert (tmp_path / "tables/events.csv").read_text() == "one"
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["tables", "x.json"]


def test_a_link_in_place_of_what_is_written_is_not_followed(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_text("precious")
    (tmp_path / f".x.json.{os.getpid()}.new").symlink_to(other)
    with open_fresh(tmp_path / "x.json") as stream:
        stream.write(b"ours")
    assert (other.read_text(), (tmp_path / "x.json").read_text()) == ("precious", "ours")
