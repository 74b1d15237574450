"""The checksum of raw files is the published one, however the bytes are cut."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from tracecorr.model.checksum import Checksum
from tracecorr.pipeline import correlate
from tracecorr.store import Capture


def _text(*pieces: bytes) -> str:
    checksum = Checksum()
    for piece in pieces:
        checksum.update(piece)
    return checksum.text()


def test_it_is_the_published_one() -> None:
    # XXH3_128bits of nothing with seed 0, as the XXH3 specification gives it.
    assert _text() == "xxh128:99aa06d3014798d86001c324468d497f"


@given(st.lists(st.binary(max_size=300)))
def test_pieces_do_not_matter(pieces: list[bytes]) -> None:
    whole = b"".join(pieces)
    assert _text(*pieces) == _text(whole)
    assert _text(whole + b"\0") != _text(whole)


def test_an_older_capture_keeps_its_sha256(repo: Path, tmp_path: Path) -> None:
    path = tmp_path / "x.tracecorr"
    shutil.copytree(repo / "samples" / "t1-streams.tracecorr", path)
    entries = json.loads((path / "capture.json").read_text())["files"]
    assert any("sha256" in entry for entry in entries)
    correlate(path)
    told = Capture.open(path).table("files").collect()["checksum"].to_list()
    assert told == [f"sha256:{entry['sha256']}" for entry in entries]
