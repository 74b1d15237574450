"""A signal ends the work after the workload at once; `correlate` goes on from there."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from tracecorr.capture import run
from tracecorr.capture.folder import RecordingFolder
from tracecorr.capture.hiplog.keeper import LogKeeper, close_logs
from tracecorr.capture.interrupts import Interrupted, SignalInbox
from tracecorr.capture.run import build_tables
from tracecorr.capture.workload.invoker import Invoker, wait_readable
from tracecorr.store import Capture
from tracecorr.store.raw import read_chunks
from tracecorr.store.recording import close_killed
from tracecorr.store.zstd_frames import FRAME_BYTES

ME = Invoker(os.geteuid(), os.getegid(), (), "me", {})


@pytest.fixture
def folder(tmp_path: Path) -> RecordingFolder:
    made = RecordingFolder.create(tmp_path / "x.tracecorr", ME)
    made.write_info({"state": "complete", "files": []})
    return made


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("started", [False, True])
def test_a_signal_ends_a_wait(number: signal.Signals, started: bool) -> None:
    with SignalInbox() as inbox:
        if started:
            inbox.start()
        threading.Timer(0.2, os.kill, (os.getpid(), number)).start()
        with pytest.raises(Interrupted, match=number.name), inbox.interruptible():
            threading.Event().wait(60)
        assert number in signal.pthread_sigmask(signal.SIG_BLOCK, ())


def test_a_signal_between_two_phases_ends_the_next_one() -> None:
    with SignalInbox() as inbox:
        inbox.start()
        _send_to_inbox(inbox, signal.SIGTERM)
        with pytest.raises(Interrupted, match="SIGTERM"), inbox.interruptible():
            threading.Event().wait(60)
        _send_to_inbox(inbox, signal.SIGTERM)
        inbox.take()
        with inbox.interruptible():
            pass


def test_only_the_signal_that_is_dropped_is_gone() -> None:
    with SignalInbox() as inbox:
        inbox.start()
        _send_to_inbox(inbox, signal.SIGTERM)
        threading.Timer(0.2, signal.pthread_kill, (_find_collector(), signal.SIGINT)).start()
        inbox.drop(signal.SIGINT, 60)
        assert [received.number for received in inbox.take()] == [signal.SIGTERM]


def _find_collector() -> int:
    (collector,) = (thread for thread in threading.enumerate() if thread.name == "signals")
    return collector.ident or 0


def _send_to_inbox(inbox: SignalInbox, number: signal.Signals) -> None:
    """Send a signal to the thread that collects them: others of the tests do not block it."""
    signal.pthread_kill(_find_collector(), number)
    wait_readable([inbox.descriptor], 60)


def test_what_was_not_compressed_is_compressed_by_correlate(folder: RecordingFolder) -> None:
    log = folder.path / "raw/amd_log/hip_1"
    whole = b"one line of a log\n" * (FRAME_BYTES // 4)
    log.write_bytes(whole)
    keeper = LogKeeper(log.parent, folder.frames)
    keeper.refresh()  # one frame of it
    with SignalInbox() as inbox:
        signal.pthread_kill(threading.get_ident(), signal.SIGTERM)  # other threads of the tests do not block it
        launched = SimpleNamespace(logs=log.parent, collect=lambda _: None)
        closed = close_logs(keeper, launched, folder, (), 1.0, inbox.interruptible)  # type: ignore[arg-type]
    assert closed.is_interrupted
    assert sorted(path.name for path in log.parent.iterdir()) == ["hip_1", "hip_1.zst"]
    folder.write_info({"state": "complete", "files": [], "unfinished": True, "problems": ["told"]})
    info = close_killed(Capture.open(folder.shown)).info
    assert (info["unfinished"], info["problems"], info["state"]) == (False, ["told"], "complete")
    assert b"".join(read_chunks(folder.shown / info["files"][0]["path"])) == whole


def _wait(place: Path, *_: object) -> None:
    os.setpgid(0, 0)
    (place / f".tables.{os.getpid()}").mkdir()
    (place / "ready").touch()
    time.sleep(600)


def test_a_signal_ends_the_building_of_tables(folder: RecordingFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "_build", _wait)

    def interrupt() -> None:
        while not (folder.shown / "ready").exists():
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    with SignalInbox() as inbox:
        inbox.start()
        threading.Thread(target=interrupt).start()
        with pytest.raises(Interrupted), inbox.interruptible():
            build_tables(folder.shown, None)
    assert not list(folder.shown.glob(".tables.*"))


def test_a_log_made_longer_by_a_terabyte_costs_its_blocks(folder: RecordingFolder) -> None:
    log = folder.path / "raw/amd_log/hip_1"
    first, last = b"a line\n" * FRAME_BYTES, b"the last line\n"
    log.write_bytes(first)
    keeper = LogKeeper(log.parent, folder.frames)
    os.truncate(log, 1 << 40)
    with log.open("r+b") as stream:
        stream.seek(1 << 40)
        stream.write(last)
    while keeper.refresh():
        pass
    assert keeper.size == len(first) + len(last)
    keeper.cut()
    os.truncate(log, 1 << 41)
    assert [loss["bytes"] for loss in keeper.finish()] == [(1 << 40) - len(last)]
    assert keeper.stored["hip_1.zst"][0] == (1 << 40) + len(last)
    assert (folder.frames / "hip_1.zst").stat().st_size < 1 << 20


def test_tables_that_cannot_be_built_are_told(tmp_path: Path) -> None:
    (told,) = build_tables(tmp_path, None)
    assert told.startswith("the tables were not built: ")
