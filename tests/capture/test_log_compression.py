"""Logs compressed while they grow: whole afterwards, also after cuts, kills, full disks and emptied files."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from functools import cache
from pathlib import Path

import pytest

import tracecorr.capture.hiplog.log_file as follower_module
from tracecorr.capture.folder import RecordingFolder
from tracecorr.capture.hiplog.keeper import LogKeeper
from tracecorr.capture.workload.invoker import Invoker
from tracecorr.model.checksum import Checksum
from tracecorr.store import Capture, followed
from tracecorr.store.followed import complete_frames, list_growing, read_growing
from tracecorr.store.raw import read_at, read_chunks
from tracecorr.store.recording import close_killed, list_raw_files
from tracecorr.store.zstd_frames import FRAME_BYTES

ME = Invoker(os.geteuid(), os.getegid(), (), "me", {})


@cache
def lines(size: int, seed: int = 0) -> bytes:
    """Return about `size` bytes of lines, like a log's (synthetic)."""
    made = random.Random(seed)
    count = size // 40
    return b"".join(
        b":3:hip.cpp:%d: %016x [pid:1 tid:2]\n" % (made.randrange(99), made.getrandbits(60)) for _ in range(count)
    )


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[RecordingFolder]:
    made = RecordingFolder.create(tmp_path / "x.tracecorr", ME)
    yield made
    made.close()


def keep(folder: RecordingFolder) -> LogKeeper:
    return LogKeeper(folder.path / "raw/amd_log", folder.frames)


def close(folder: RecordingFolder, keeper: LogKeeper) -> tuple[list[dict[str, object]], bytes]:
    """Close as a session does; return losses, and the bytes of the only log."""
    losses = keeper.finish()
    folder.seal_logs({os.geteuid()})
    (entry,) = list_raw_files(folder.path, keeper.stored)
    assert entry == list_raw_files(folder.path)[0]
    data = b"".join(read_chunks(folder.shown / entry["path"]))
    assert (len(data), _checksum(data)) == (entry["size"], entry["checksum"])
    return losses, data


def _checksum(data: bytes) -> str:
    checksum = Checksum()
    checksum.update(data)
    return checksum.text()


def append(folder: RecordingFolder, data: bytes, name: str = "hip_1") -> Path:
    path = folder.path / "raw/amd_log" / name
    with path.open("ab") as stream:
        stream.write(data)
    return path


def used(path: Path) -> int:
    return path.stat().st_blocks * 512


def test_a_large_log_is_compressed_and_freed_while_it_grows(folder: RecordingFolder) -> None:
    keeper, whole = keep(folder), b""
    for seed in range(6):
        whole += (piece := lines(2 * FRAME_BYTES, seed))
        path = append(folder, piece)
        while keeper.refresh():
            pass
        assert used(path) < 6 * FRAME_BYTES
        assert keeper.size == len(whole)
        assert b"".join(read_growing(folder.path, "hip_1")) == whole
    assert path.stat().st_size == len(whole)
    losses, data = close(folder, keeper)
    assert (losses, data == whole) == ([], True)
    assert [p.name for p in (folder.shown / "raw/amd_log").iterdir()] == ["hip_1.zst"]
    assert not folder.frames.exists()
    for offset in (0, FRAME_BYTES - 5, len(whole) - 10):
        assert read_at(folder.shown / "raw/amd_log/hip_1.zst", offset, 20) == whole[offset : offset + 20]


def test_a_log_is_read_while_it_is_recorded_though_its_space_is_given_back_at_any_moment(
    folder: RecordingFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is compressed between the look at its frames and the one at the rest of it."""
    keeper, whole = keep(folder), lines(5 * FRAME_BYTES)
    path, opened = append(folder, whole), followed._open_plain

    def open_after_a_frame(path: Path) -> AbstractContextManager[int]:
        keeper.refresh()
        return opened(path)

    monkeypatch.setattr(followed, "_open_plain", open_after_a_frame)
    assert b"".join(read_growing(folder.path, "hip_1")) == whole
    assert used(path) < 2 * FRAME_BYTES
    assert close(folder, keeper) == ([], whole)


def test_a_small_log_stays_as_it_is(folder: RecordingFolder) -> None:
    keeper, whole = keep(folder), lines(FRAME_BYTES // 2)
    append(folder, whole)
    keeper.refresh()
    losses, data = close(folder, keeper)
    assert (losses, data == whole) == ([], True)
    assert [p.name for p in (folder.shown / "raw/amd_log").iterdir()] == ["hip_1"]


def test_what_comes_after_the_cut_is_no_part_of_it(folder: RecordingFolder) -> None:
    keeper, whole = keep(folder), lines(2 * FRAME_BYTES)
    append(folder, whole + b"half a li")
    keeper.cut()
    path = append(folder, b"ne\n" + b"lost\n" * 4_000_000)
    keeper.refresh()
    assert keeper.size == len(whole)
    assert used(path) < 3 * FRAME_BYTES
    (loss,), data = close(folder, keeper)
    assert data == whole
    assert (loss["offset"], loss["bytes"], loss["records"]) == (len(whole), 20_000_012, 4_000_001)
    assert loss["path"] == "raw/amd_log/hip_1.zst"


@pytest.mark.parametrize("grown", [0, 3 * FRAME_BYTES], ids=["shorter", "longer than before"])
def test_a_log_that_its_runtime_empties_goes_on(folder: RecordingFolder, grown: int) -> None:
    """AMD_LOG_LEVEL_SIZE: past its limit the runtime empties the file and writes on (ROCm 6.4 and later)."""
    keeper, first = keep(folder), lines(2 * FRAME_BYTES + 4000)
    path = append(folder, first)
    while keeper.refresh():
        pass
    second = lines(grown, 1) + b"a last line\n"
    os.truncate(path, 0)
    append(folder, second)
    keeper.refresh()
    assert keeper.problems == []
    losses, data = close(folder, keeper)
    assert "emptied" in str(losses[0]["reason"])
    kept = len(data) - len(second)
    assert kept >= FRAME_BYTES - 100 and data == first[:kept] + second
    assert losses[0]["offset"] == kept and (grown or losses[0]["bytes"] == len(first) - kept)


def test_a_removed_log_keeps_what_was_compressed(folder: RecordingFolder) -> None:
    keeper, whole = keep(folder), lines(FRAME_BYTES + 4000)
    path = append(folder, whole)
    keeper.refresh()
    path.unlink()
    (loss,), data = close(folder, keeper)
    assert whole.startswith(data) and len(data) > FRAME_BYTES - 100
    assert (loss["offset"], loss["bytes"]) == (len(data), len(whole) - len(data))


def test_a_renamed_log_is_followed(folder: RecordingFolder) -> None:
    keeper, whole = keep(folder), lines(FRAME_BYTES + 4000)
    path = append(folder, whole)
    keeper.refresh()
    path.rename(path.with_name("hip_old"))
    append(folder, b"more\n", "hip_old")
    losses, data = close(folder, keeper)
    assert (losses, data == whole + b"more\n") == ([], True)
    assert (folder.shown / "raw/amd_log/hip_old.zst").exists()


def test_many_logs_are_followed_by_a_thread(folder: RecordingFolder) -> None:
    keeper = keep(folder)
    whole = {f"hip_{number}": lines(FRAME_BYTES + number * 1000, number) for number in range(5)}
    keeper.start()
    for start in range(0, 2 * FRAME_BYTES, FRAME_BYTES // 2):
        for name, data in whole.items():
            append(folder, data[start : start + FRAME_BYTES // 2], name)
    assert keeper.finish() == []
    folder.seal_logs({os.geteuid()})
    stored = {
        path.name.removesuffix(".zst"): b"".join(read_chunks(path)) for path in (folder.shown / "raw/amd_log").iterdir()
    }
    assert stored == whole


def test_a_file_system_that_cannot_punch_holes_is_named(
    folder: RecordingFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(follower_module, "free_space", refuse)
    keeper, whole = keep(folder), lines(6 * FRAME_BYTES)
    append(folder, whole)
    while keeper.refresh():
        pass
    assert keeper.problems == ["the log hip_1 takes its space until the end: Operation not supported (punching holes)"]
    losses, data = close(folder, keeper)
    assert (losses, data == whole) == ([], True)


_RECORDER = """
import sys, time
from pathlib import Path
from tracecorr.capture.hiplog.keeper import LogKeeper
root = Path(sys.argv[1])
keeper = LogKeeper(root / "raw/amd_log", root / "raw/.amd_log")
print("go", flush=True)
while True:
    keeper.refresh()
"""


@pytest.mark.parametrize("whole_frames", [0, 2])
@pytest.mark.parametrize("torn", [0, 3, 18, 1 << 19, -1])
def test_a_frame_that_was_torn_at_any_byte_is_read_from_the_log(
    folder: RecordingFolder, whole_frames: int, torn: int
) -> None:
    """Also the first one, where the file holds nothing else."""
    whole = lines(3 * FRAME_BYTES)
    log, keeper = append(folder, whole), keep(folder)
    sizes = []
    for _ in range(whole_frames + 1):
        keeper.refresh()
        sizes.append((folder.frames / "hip_1.zst").stat().st_size)
    keeper.stop()
    last = sizes[-1] - ([0, *sizes])[-2]
    with (folder.frames / "hip_1.zst").open("r+b") as frames:
        frames.truncate(sizes[-1] - last + (torn if torn >= 0 else last - 1))
    assert b"".join(read_growing(folder.shown, "hip_1")) == whole
    assert complete_frames(folder.shown) == []
    assert b"".join(read_chunks(log.with_name("hip_1.zst"))) == whole
    assert not log.exists()


def test_nothing_is_lost_when_tracecorr_is_killed_at_any_moment(folder: RecordingFolder, repo: Path) -> None:
    made = random.Random(5)
    for turn in range(8):
        name = f"hip_{turn}"
        recorder = subprocess.Popen([sys.executable, "-c", _RECORDER, folder.shown], stdout=subprocess.PIPE,
                                    env={**os.environ, "PYTHONPATH": str(repo)})  # fmt: skip
        assert recorder.stdout is not None and recorder.stdout.readline() == b"go\n"
        whole = lines(3 * FRAME_BYTES, turn)
        for start in range(0, len(whole), 1 << 20):
            append(folder, whole[start : start + (1 << 20)], name)
        time.sleep(made.uniform(0, 0.15))
        recorder.send_signal(signal.SIGKILL)
        recorder.wait()
        recorder.stdout.close()
        assert b"".join(read_growing(folder.shown, name)) == whole
        assert complete_frames(folder.shown) == []
        logs = folder.shown / "raw/amd_log"
        stored = logs / f"{name}.zst" if (logs / f"{name}.zst").exists() else logs / name
        assert b"".join(read_chunks(stored)) == whole
        stored.unlink()
    assert list_growing(folder.shown) == {}


def test_a_disk_that_runs_full_does_not_stop_the_compression(small_disk: Path) -> None:
    """What is compressed makes the room for what comes next, because a frame's space is reserved before."""
    folder = RecordingFolder.create(small_disk / "x.tracecorr", ME)
    keeper, whole = keep(folder), lines(24 << 20)
    append(folder, whole[: 8 << 20])
    keeper.refresh()
    append(folder, whole[8 << 20 :])
    filler = (small_disk / "filler").open("wb", buffering=0)
    with pytest.raises(OSError, match="No space"):
        while True:
            filler.write(bytes(4096))
    while keeper.refresh():
        pass
    losses, data = close(folder, keeper)
    assert (losses, keeper.problems, data == whole) == ([], [], True)
    filler.close()
    folder.close()


def test_a_disk_that_was_full_before_leaves_the_log_as_it_is(small_disk: Path) -> None:
    folder = RecordingFolder.create(small_disk / "x.tracecorr", ME)
    keeper, whole = keep(folder), lines(8 << 20)
    append(folder, whole)
    filler = (small_disk / "filler").open("wb", buffering=0)
    with pytest.raises(OSError, match="No space"):
        while True:
            filler.write(bytes(4096))
    keeper.refresh()
    assert len(keeper.problems) == 1 and "No space left" in keeper.problems[0]
    losses, data = close(folder, keeper)
    assert (losses, data == whole) == ([], True)
    filler.close()
    folder.close()


def fill(disk: Path, left: int) -> None:
    """Leave so many bytes of a file system free."""
    with (disk / "filler").open("wb", buffering=0) as filler, pytest.raises(OSError, match="No space"):
        while True:
            filler.write(bytes(4096))
    os.truncate(disk / "filler", (disk / "filler").stat().st_size - left)


@pytest.mark.parametrize("compressed", [0, 2])
def test_what_a_full_disk_left_of_a_killed_log_is_compressed_when_there_is_room(
    small_disk: Path, compressed: int
) -> None:
    folder = RecordingFolder.create(small_disk / "x.tracecorr", ME)
    folder.write_info({"state": "recording"})
    keeper, whole = keep(folder), random.Random(9).randbytes(4 * FRAME_BYTES)
    append(folder, whole)
    for _ in range(compressed):
        keeper.refresh()
    keeper.stop()
    if not compressed:
        folder.frames.mkdir()
        (folder.frames / "hip_1.zst").touch()
    fill(small_disk, 5 << 20 if compressed else 1 << 20)
    killed = close_killed(Capture.open(folder.shown))
    told = ["the end of the log hip_1 could not be compressed: No space left on device"]
    assert (killed.info["state"], killed.info["problems"][1:]) == ("killed", told if compressed else [])
    (entry,) = killed.info["files"]
    begin = b"".join(read_chunks(folder.shown / entry["path"]))
    # Where none of it could be compressed the log stays as it is.
    assert whole.startswith(begin) and (entry["size"], not compressed) == (len(begin), begin == whole)
    (small_disk / "filler").unlink()
    mended = close_killed(killed)
    (entry,) = mended.info["files"]
    assert b"".join(read_chunks(folder.shown / entry["path"])) == whole
    assert (entry["size"], mended.info["problems"]) == (len(whole), killed.info["problems"][:1])
    assert close_killed(mended).info == mended.info
    folder.close()


def test_the_log_of_a_killed_capture_is_not_taken_from_a_program_that_still_writes_it(folder: RecordingFolder) -> None:
    folder.write_info({"state": "recording"})
    keeper, parts = keep(folder), [lines(FRAME_BYTES + 4096), lines(4096), lines(8192)]
    log = folder.shown / "raw/amd_log/hip_1"
    append(folder, parts[0])
    keeper.refresh()
    keeper.stop()
    with log.open("ab", buffering=0) as program:
        killed = close_killed(Capture.open(folder.shown))
        assert "a program may still write it" in killed.info["problems"][1]
        for written in (1, 2):
            (entry,) = killed.info["files"]
            stored = b"".join(read_chunks(folder.shown / entry["path"]))
            assert stored == b"".join(parts[:written]) and entry["size"] == len(stored)
            assert os.fstat(program.fileno()).st_nlink == 1
            program.write(parts[written])
            killed = close_killed(killed)
    done = close_killed(killed)
    (entry,) = done.info["files"]
    assert b"".join(read_chunks(folder.shown / entry["path"])) == b"".join(parts)
    assert not log.exists() and len(done.info["problems"]) == 1


def test_a_log_whose_compressed_file_could_have_no_name_stays_as_it_is(folder: RecordingFolder) -> None:
    """The workload names its logs, with up to 255 bytes."""
    keeper = keep(folder)
    data = lines(2 * FRAME_BYTES)
    append(folder, data, "x" * 252)
    keeper.refresh()
    _, read = close(folder, keeper)
    assert read == data
    assert keeper.problems == []
