"""The drain moves whole pages as they fill, rests in between, and keeps no instance that it cannot drain."""

from __future__ import annotations

import errno
import io
import os
import resource
import select
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from machine_state import read_state, small_plan

from tracecorr.capture.folder import RecordingFolder
from tracecorr.capture.recorder import KernelRecorder
from tracecorr.capture.tracefs import drain as drains
from tracecorr.capture.tracefs.control import Tracefs
from tracecorr.capture.tracefs.drain import Drain, list_cpus
from tracecorr.capture.tracefs.journal import PREFIX, Journal, new_token
from tracecorr.capture.workload.invoker import allow_files, find_invoker, most_files

_SECONDS = 10


@pytest.fixture
def instance(tracefs: Tracefs) -> Iterator[Tracefs]:
    """Return an instance whose buffers are ready from their first record on, as those of older kernels are."""
    made = tracefs.instance(f"{PREFIX}{new_token()}_drain")
    made.root.mkdir()
    if not made.has("buffer_percent"):
        made.root.rmdir()
        pytest.skip("this kernel has no buffer_percent")
    made.write("buffer_percent", "0")
    made.write("tracing_on", "1")
    yield made
    made.root.rmdir()


class _Clock:
    """Stand in for `time` and `select` of a drain: the time of a drain passes only while it waits.

    Args:
        is_ready: whether epoll calls all buffers ready at once.
    """

    EPOLLIN, EPOLLERR = select.EPOLLIN, select.EPOLLERR

    def __init__(self, *, is_ready: bool) -> None:
        self.now, self._is_ready = 0.0, is_ready
        self._registered: set[int] = set()

    def monotonic(self) -> float:
        return self.now

    def epoll(self) -> _Clock:
        return self

    def register(self, descriptor: int, _events: int) -> None:
        self._registered.add(descriptor)

    def unregister(self, descriptor: int) -> None:
        self._registered.discard(descriptor)

    def poll(self, seconds: float) -> list[tuple[int, int]]:
        events = self.EPOLLIN if self._is_ready else self.EPOLLERR
        found = [(descriptor, events) for descriptor in sorted(self._registered)]
        self.now += 0 if found else seconds
        return found

    def close(self) -> None:
        self._registered.clear()


def _count_asked(
    root: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, clock: _Clock, splice: Callable[..., int]
) -> int:
    """Return how often a drain asks for pages in ten seconds of its own time."""
    asked = []

    def counted(*words: Any, **named: Any) -> int:
        asked.append(words)
        return splice(*words, **named)

    monkeypatch.setattr(os, "splice", counted)
    monkeypatch.setattr(drains, "time", clock)
    monkeypatch.setattr(drains, "select", clock)
    drain = Drain({"x": root}, lambda _, cpu: (folder / f"{cpu}").open("wb", buffering=0))
    stopping = _Stopping(clock)
    monkeypatch.setattr(drain, "_stopping", stopping)
    drain.start()
    stopping.over.wait()
    drain.stop()
    drain.close()
    return len(asked)


class _Stopping(threading.Event):
    """Tell a drain to end after ten seconds of its own time; `over` is set then."""

    def __init__(self, clock: _Clock) -> None:
        super().__init__()
        self._clock, self.over = clock, threading.Event()

    def is_set(self) -> bool:
        if self._clock.now >= _SECONDS:
            self.over.set()
        return self.over.is_set()

    def wait(self, timeout: float | None = None) -> bool:
        self._clock.now += timeout or 0
        return False


def test_a_buffer_that_is_ready_without_a_whole_page_is_not_asked_again_and_again(
    instance: Tracefs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    instance.write("trace_marker", "half a page")
    cpus = list_cpus(instance.root)
    asked = _count_asked(instance.root, tmp_path, monkeypatch, _Clock(is_ready=True), os.splice)
    assert sum((tmp_path / f"{cpu}").read_bytes().count(b"half a page") for cpu in cpus) == 1
    # Each that is ready once per pause of 10 ms.
    assert 0 < asked <= (_SECONDS / 0.01 + 1) * len(cpus)


def test_cpus_that_were_never_online_are_not_asked_again_and_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For them the kernel tells an error at once, and has nothing: as a file of sysfs does until it is read."""
    (tmp_path / "per_cpu/cpu7").mkdir(parents=True)
    (tmp_path / "per_cpu/cpu7/trace_pipe_raw").symlink_to("/sys/kernel/uevent_seqnum")

    def refuse(*_: Any, **__: Any) -> int:
        raise BlockingIOError

    asked = _count_asked(tmp_path, tmp_path, monkeypatch, _Clock(is_ready=False), refuse)
    # Once per sweep of 0.25 s, and once because of the error.
    assert 0 < asked <= _SECONDS / 0.25 + 2


def test_all_that_fills_a_buffer_while_it_rests_is_written(instance: Tracefs, tmp_path: Path) -> None:
    instance.write("buffer_size_kb", "1024")
    drain = Drain({"x": instance.root}, lambda _, cpu: (tmp_path / f"{cpu}").open("wb", buffering=0))
    drain.start()
    for number in range(2000):
        instance.write("trace_marker", f"mark {number:06} " + "x" * 200)
    drain.stop()
    drain.close()
    data = b"".join((tmp_path / f"{cpu}").read_bytes() for cpu in list_cpus(instance.root))
    assert [number for number in range(2000) if b"mark %06d " % number not in data] == []


@pytest.mark.parametrize("fails", ["open_new", "write_once"])
def test_a_recording_that_cannot_open_all_its_files_leaves_no_instance(
    tracefs: Tracefs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: str
) -> None:
    """The second file of pages, or the first of what describes them, when all pages are open."""
    before, token = read_state(tracefs), new_token()
    folder = RecordingFolder.create(tmp_path / "x.tracecorr", find_invoker({"PATH": "/bin"}))
    real, calls = getattr(folder, fails), iter([fails == "open_new"])

    def refuse(*words: Any) -> Any:
        if next(calls, False):
            return real(*words)
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(folder, fails, refuse)
    monkeypatch.setattr("tracecorr.capture.tracefs.undo._PATIENCE_S", 0.05)
    with pytest.raises(OSError, match="Too many open files"):
        KernelRecorder.arm(small_plan(tmp_path), tracefs, Journal.create(token), token, folder)
    assert read_state(tracefs) == before


def test_as_many_files_may_be_open_as_the_system_lets() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (100, before[1]))
    try:
        allow_files()
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == most_files() >= before[1]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_a_page_that_a_full_file_took_in_part_does_not_displace_those_behind_it(
    instance: Tracefs, tmp_path: Path
) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    drain = Drain({"x": instance.root}, lambda _, cpu: (tmp_path / f"{cpu}").open("wb", buffering=0))
    drain.start()
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, before[1]))
        _print_until(instance, lambda: drain.failure is not None)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    files = [tmp_path / f"{cpu}" for cpu in list_cpus(instance.root)]
    _print_until(instance, lambda: max(file.stat().st_size for file in files) > 10_000)
    drain.stop()
    drain.close()
    assert drain.discarded_bytes % 4096 == 0
    for file in files:
        data = file.read_bytes()
        heads = [int.from_bytes(data[at + 8 : at + 12], "little") & 0xFFFFF for at in range(0, len(data), 4096)]
        assert len(data) % 4096 == 0
        assert all(0 < used <= 4080 for used in heads)


def _print_until(instance: Tracefs, holds: Callable[[], bool]) -> None:
    for _ in range(1000):
        if holds():
            return
        for _ in range(40):
            instance.write("trace_marker", "x" * 200)
        time.sleep(0.02)
    pytest.fail("it did not come true")


def test_a_file_that_cannot_be_closed_keeps_no_instance(instance: Tracefs, tmp_path: Path) -> None:
    class Failing(io.FileIO):
        def close(self) -> None:
            if not self.closed:
                super().close()
                raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT))

    drain = Drain({"x": instance.root}, lambda _, cpu: Failing(tmp_path / f"{cpu}", "wb"))
    drain.close()
    assert drain.failure is not None and drain.failure.errno == errno.EDQUOT
    instance.root.rmdir()
    instance.root.mkdir()
