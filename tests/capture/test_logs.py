"""The logs of a workload: cut at a line, what follows is counted and its space freed."""

from __future__ import annotations

from pathlib import Path

from tracecorr.capture.logs import LogKeeper


def test_all_is_kept_without_a_cut(tmp_path: Path) -> None:
    (tmp_path / "hip_1").write_bytes(b"one\ntwo\n")
    keeper = LogKeeper(tmp_path)
    keeper.refresh()
    assert (keeper.size, keeper.names) == (8, ["hip_1"])
    assert keeper.finish() == []
    assert (tmp_path / "hip_1").read_bytes() == b"one\ntwo\n"


def test_after_a_cut_lines_are_counted_and_freed(tmp_path: Path) -> None:
    log = tmp_path / "hip_1"
    head = b"kept line\n" * 1000
    log.write_bytes(head + b"half a li")
    keeper = LogKeeper(tmp_path)
    keeper.cut()
    with log.open("ab") as stream:
        stream.write(b"ne\n" + b"lost line\n" * 100_000)
    keeper.refresh()
    assert keeper.size == len(head)
    assert log.stat().st_size == len(head) + 12 + 1_000_000
    assert log.stat().st_blocks * 512 < 100_000
    (loss,) = keeper.finish()
    assert log.read_bytes() == head
    assert (loss["records"], loss["bytes"], loss["offset"]) == (100_001, 1_000_012, len(head))


def test_a_log_that_starts_after_the_cut_is_lost_whole(tmp_path: Path) -> None:
    keeper = LogKeeper(tmp_path)
    keeper.cut()
    (tmp_path / "hip_2").write_bytes(b"a\nb\nc\n")
    (loss,) = keeper.finish()
    assert (loss["records"], loss["bytes"], loss["path"]) == (3, 6, "raw/amd_log/hip_2")
    assert (tmp_path / "hip_2").read_bytes() == b""


def test_links_and_pipes_are_not_followed(tmp_path: Path) -> None:
    logs, outside = tmp_path / "logs", tmp_path / "outside"
    logs.mkdir()
    outside.write_text("secret\n")
    (logs / "hip_3").symlink_to(outside)
    keeper = LogKeeper(logs)
    keeper.cut()
    assert keeper.finish() == []
    assert outside.read_text() == "secret\n"
