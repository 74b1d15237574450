"""SYNTHETIC logs of writers that go on after the capture: what is kept stays as it is, the rest takes no space."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from tracecorr.capture.folder import RecordingFolder
from tracecorr.capture.hiplog.discard_log import MOST_BYTES
from tracecorr.capture.hiplog.keeper import ClosedLogs, LateWriters, LogKeeper, close_logs
from tracecorr.capture.workload.invoker import find_invoker
from tracecorr.store.raw import read_chunks
from tracecorr.store.zstd_frames import FRAME_BYTES

# Writes a log as a runtime does: opened once, line by line, for ever.
_WRITER = """
import sys, time
log = open(sys.argv[1], sys.argv[2], buffering=0)
log.write(b"line of the workload\\n" * int(sys.argv[3]))
print("go", flush=True)
while True:
    log.write(b"line that comes too late\\n" * 2000)
    time.sleep(0.01)
"""


class Writer:
    """A process that writes a log until it is killed."""

    def __init__(self, log: Path, mode: str, lines: int) -> None:
        words = [sys.executable, "-c", _WRITER, str(log), mode, str(lines)]
        self.process = subprocess.Popen(words, stdout=subprocess.PIPE)
        self.inode = log.stat().st_ino if self._is_ready() else 0

    def _is_ready(self) -> bool:
        assert self.process.stdout is not None
        return self.process.stdout.readline() == b"go\n"

    def status(self) -> os.stat_result:
        """Return what its log is by now."""
        links = Path(f"/proc/{self.process.pid}/fd").iterdir()
        return next(status for status in (link.stat() for link in links) if status.st_ino == self.inode)

    def end(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[RecordingFolder]:
    made = RecordingFolder.create(tmp_path / "x.tracecorr", find_invoker({"PATH": "/bin"}))
    yield made
    made.close()


def close(keeper: LogKeeper, folder: RecordingFolder, *pids: int) -> ClosedLogs:
    """Close the logs of a workload on the host of which some processes live."""
    launched = SimpleNamespace(logs=folder.path / "raw/amd_log", collect=lambda _: None)
    return close_logs(keeper, launched, folder, pids, 1.0)  # type: ignore[arg-type]


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


@pytest.mark.parametrize("mode", ["ab", "wb"])
@pytest.mark.parametrize("lines", [100, FRAME_BYTES // 10], ids=["as it is", "compressed"])
def test_who_writes_on_changes_nothing_and_takes_no_space(folder: RecordingFolder, mode: str, lines: int) -> None:
    logs = folder.path / "raw/amd_log"
    keeper = LogKeeper(logs, folder.frames)
    writer = Writer(logs / "hip_7", mode, lines)
    try:
        while keeper.refresh():
            pass
        keeper.cut()
        closed = close(keeper, folder, writer.process.pid)
        (stored,) = list(logs.iterdir())
        kept = stored.read_bytes()
        whole = b"".join(read_chunks(stored))
        assert stored.name == ("hip_7.zst" if lines > 100 else "hip_7")
        assert whole.startswith(b"line of the workload\n" * lines)
        assert whole.endswith(b"\n")
        (said,) = closed.problems
        assert f"still runs (pid {writer.process.pid})" in said
        discarder = int(re.findall(r"process (\d+) gives its space back", said)[0])
        emptied, before = False, writer.status().st_blocks
        for _ in range(6000):
            emptied |= (now := writer.status().st_blocks) < before
            before = now
            if emptied:
                break
            time.sleep(0.01)
        assert emptied
        assert is_running(discarder)
        assert stored.read_bytes() == kept
        assert writer.status().st_nlink == 0
    finally:
        writer.end()
    for _ in range(6000):
        if not is_running(discarder):
            break
        time.sleep(0.01)
    assert not is_running(discarder)


def test_a_log_that_nobody_writes_needs_no_keeper(folder: RecordingFolder) -> None:
    logs = folder.path / "raw/amd_log"
    (logs / "hip_7").write_bytes(b"line\n")
    keeper = LogKeeper(logs, folder.frames)
    keeper.refresh()
    with (logs / "hip_7").open("rb"):
        assert close(keeper, folder, os.getpid()).problems == []
    assert (logs / "hip_7").read_bytes() == b"line\n"


def test_what_still_has_a_name_is_never_emptied(folder: RecordingFolder) -> None:
    """A log that could not be brought out of a container is still the user's."""
    logs = folder.path / "raw/amd_log"
    writer = Writer(logs / "hip_7", "ab", MOST_BYTES // 10)
    late = LateWriters(logs, [writer.process.pid], {os.geteuid()})
    try:
        assert late.names == {"hip_7"}
        assert late.discard(1.0) == ""
    finally:
        late.close()
        writer.end()
    assert (logs / "hip_7").stat().st_size > MOST_BYTES


def test_a_link_to_another_file_is_not_copied_to_its_user(folder: RecordingFolder, tmp_path: Path) -> None:
    secret, logs = tmp_path / "secret", folder.path / "raw/amd_log"
    secret.write_bytes(b"of somebody else\n")
    os.link(secret, logs / "hip_7")
    keeper = LogKeeper(logs, folder.frames)
    with secret.open("ab"):
        assert LateWriters(logs, [os.getpid()], {os.geteuid()}).names == frozenset()
        keeper.refresh()
        keeper.finish({"hip_7"})
    assert (logs / "hip_7").stat().st_nlink == 2
    assert secret.read_bytes() == b"of somebody else\n"
    (logs.parent / "gone").mkdir()
    assert LateWriters(logs.parent / "nowhere", [os.getpid()], {os.geteuid()}).names == frozenset()
