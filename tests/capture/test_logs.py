"""The logs of a workload: cut at a line, what follows is counted and its space freed."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

import tracecorr.capture.hiplog.log_file as log_file_module
from tracecorr.capture.hiplog.keeper import LogKeeper


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


def test_a_removed_log_is_a_loss(tmp_path: Path) -> None:
    (tmp_path / "hip_1").write_bytes(b"one\n")
    (tmp_path / "hip_2").write_bytes(b"two two\n")
    keeper = LogKeeper(tmp_path)
    keeper.refresh()
    (tmp_path / "hip_2").unlink()
    keeper.cut()
    (loss,) = keeper.finish()
    assert (loss["path"], loss["bytes"]) == ("raw/amd_log/hip_2", 8)
    assert "removed" in loss["reason"]
    assert (keeper.size, keeper.names, keeper.problems) == (4, ["hip_1"], [])


def test_a_log_that_vanishes_while_it_is_cut_ends_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "hip_1"
    log.write_bytes(b"one\nhalf")
    whole = log_file_module.open_log

    def vanish(path: Path, flags: int, owners: frozenset[int]) -> int:
        log.unlink(missing_ok=True)
        return whole(path, flags, owners)

    monkeypatch.setattr(log_file_module, "open_log", vanish)
    keeper = LogKeeper(tmp_path)
    keeper.cut()
    (loss,) = keeper.finish()
    assert (loss["bytes"], keeper.names) == (8, [])
    assert keeper.problems == ["the log hip_1 cannot be read, cut or compressed: No such file or directory"]


def test_a_renamed_log_is_still_cut_where_it_was(tmp_path: Path) -> None:
    (tmp_path / "hip_1").write_bytes(b"kept\n")
    keeper = LogKeeper(tmp_path)
    keeper.cut()
    (tmp_path / "hip_1").rename(tmp_path / "hip_old")
    with (tmp_path / "hip_old").open("ab") as stream:
        stream.write(b"lost\n")
    (loss,) = keeper.finish()
    assert (loss["path"], loss["bytes"], loss["records"]) == ("raw/amd_log/hip_old", 5, 1)
    assert (tmp_path / "hip_old").read_bytes() == b"kept\n"


def test_what_is_no_file_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("nowhere")
    os.mkfifo(tmp_path / "pipe")
    keeper = LogKeeper(tmp_path)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "s"))
        keeper.cut()
        assert keeper.finish() == []
    assert (keeper.names, keeper.problems) == ([], [])


def test_a_folder_that_vanishes_is_said(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    (logs / "hip_1").write_bytes(b"one\n")
    keeper = LogKeeper(logs)
    keeper.refresh()
    (logs / "hip_1").unlink()
    logs.rmdir()
    keeper.cut()
    (loss,) = keeper.finish()
    assert loss["bytes"] == 4
    assert keeper.problems == ["the folder of the logs cannot be read: No such file or directory"]
