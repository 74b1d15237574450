"""Libraries that appear late are heard of when they are mapped, and probed before their first call."""

from __future__ import annotations

import ctypes
import os
import select
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from hsa_stores import read_stores, store_doorbells

from tracecorr.capture.folder import RecordingFolder
from tracecorr.capture.plan.plan import InstancePlan, Offer, Plan, Wanted
from tracecorr.capture.plan.runtimes import MappedFile
from tracecorr.capture.probes import libraries as library_watch
from tracecorr.capture.probes import mappings
from tracecorr.capture.probes.libraries import LateProbes
from tracecorr.capture.probes.mappings import MapWatch
from tracecorr.capture.probes.perf import Ring
from tracecorr.capture.recorder import KernelRecorder
from tracecorr.capture.tracefs.control import Tracefs
from tracecorr.capture.tracefs.journal import Journal, new_token
from tracecorr.capture.workload.invoker import find_invoker

_STORES = 50


@dataclass
class _Child:
    """A process that maps a library, and then rings, when it is told to."""

    pid: int
    go: int
    done: int

    def step(self) -> None:
        os.write(self.go, b"x")
        assert os.read(self.done, 1) == b"y"


@pytest.fixture
def child(hsa_library: Path) -> Iterator[_Child]:
    (go_out, go), (done, done_in) = os.pipe(), os.pipe()
    pid = os.fork()
    if not pid:
        try:
            os.close(go)
            os.read(go_out, 1)
            loaded = ctypes.CDLL(str(hsa_library))
            os.write(done_in, b"y")
            os.read(go_out, 1)
            store_doorbells(loaded, _STORES)
            os.write(done_in, b"y")
        finally:
            os._exit(0)
    yield _Child(pid, go, done)
    os.close(go)
    os.waitpid(pid, 0)


def _watch(*, whole_machine: bool = False) -> MapWatch:
    try:
        return MapWatch(os.sched_getaffinity(0), whole_machine=whole_machine)
    except OSError as error:
        pytest.skip(f"this machine does not let perf watch mappings: {error.strerror}")


@pytest.mark.parametrize("whole_machine", [False, True])
def test_a_mapping_is_told_at_once(child: _Child, hsa_library: Path, whole_machine: bool) -> None:
    watch = _watch(whole_machine=whole_machine)
    try:
        if not whole_machine:
            watch.admit(child.pid)
        assert watch.failed == ""
        watch.take()
        child.step()
        assert select.select([watch.descriptor], [], [], 10)[0]
        told, lost = watch.take()
    finally:
        watch.close()
    # Others may map something, too, while the whole machine is watched.
    found = [(pid, mapping.inode) for pid, mapping in told if mapping.path == str(hsa_library)]
    assert found == [(child.pid, hsa_library.stat().st_ino)]
    assert not lost


@pytest.mark.parametrize(("records", "full"), [(0, False), (50, False), (100, True)])
def test_a_ring_without_room_has_lost_something(records: int, full: bool) -> None:
    """The kernel tells of a loss with the next record only, and the last library of a program has none after it."""
    name = b"/opt/rocm/lib/libhsa-runtime64.so.1\0".ljust(64, b"\0")
    content = mappings._MAPPING.pack(7, 7, 0x1000, 0x2000, 0, 0, 0, 99, 0, 5, 0) + name
    record = mappings._HEADER.pack(mappings._MMAP2, 0, mappings._HEADER.size + len(content)) + content
    ring = SimpleNamespace(size=16384, take=lambda: record * records, close=lambda: None)
    watch = _watch()
    try:
        for real in watch._rings:
            real.close()
        watch._rings = [cast(Ring, ring)]
        told, lost = watch.take()
    finally:
        watch.close()
    assert [mapping.inode for _, mapping in told] == [99] * records
    assert lost == full


def test_what_rings_doorbells_is_read_first(tmp_path: Path) -> None:
    """Programs map dozens of libraries; each takes milliseconds to read."""
    watch = library_watch.LibraryWatch(told=True, reads_hip=False)
    names = ("libc.so.6", "libamdhip64.so.7", "libhsa-runtime64.so.1", "libunusual.so", "libroctx64.so.4")
    read: list[str] = []
    watch.arrive((1, MappedFile("0-1", at + 1, str(tmp_path / name))) for at, name in enumerate(names))
    watch.arrive([(2, MappedFile("0-1", 1, str(tmp_path / "libc.so.6")))])
    assert watch.pause == 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(library_watch, "read_mapped_runtime", lambda _pid, m, _refuse: read.append(Path(m.path).name))
        while watch.has_more:
            assert watch.read_next() is None
        # Nothing needs HIP itself: large as it is, it waits until no more libraries come.
        assert "libamdhip64.so.7" not in read
        assert not watch.has_more
        patch.setattr(library_watch, "_CALM_SECONDS", 0.0)
        assert watch.has_more and watch.read_next() is None
        assert not watch.has_more
    assert read == ["libhsa-runtime64.so.1", "libroctx64.so.4", "libc.so.6", "libunusual.so", "libamdhip64.so.7"]


@pytest.mark.parametrize("whose", ["workload", "machine"])
def test_a_late_library_is_probed_without_a_look_at_proc(
    tracefs: Tracefs, child: _Child, hsa_library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, whose: str
) -> None:
    monkeypatch.setattr(library_watch, "list_mappings", lambda _: [])
    folder = RecordingFolder.create(tmp_path / "x.tracecorr", find_invoker({"PATH": "/bin"}))
    token = new_token()
    plan = Plan((InstancePlan("workload", "mono", True, 256),), (), (), watch_mappings=whose)
    recorder = KernelRecorder.arm(plan, tracefs, Journal.create(token), token, folder)
    try:
        if recorder.map_watch is None or recorder.plan.absent:
            pytest.skip(f"this machine does not let perf watch mappings: {recorder.plan.absent}")
        offer = Offer("test", 2, 1 << 30, uprobes=True, perf_probes=True, clocks=("mono",))
        late = LateProbes(Wanted("minimal"), offer, recorder)
        recorder.admit(child.pid)
        recorder.start()
        late.look([child.pid])
        child.step()
        assert select.select(late.descriptors, [], [], 10)[0]
        while not late.armed:
            late.look([child.pid])
        (entry,) = late.armed
        assert (entry["library"], entry["pid"], "doorbell" in entry["probes"][0]) == (str(hsa_library), child.pid, True)
        assert entry["seen_ns"] <= entry["doorbells_ns"] <= entry["armed_ns"] <= time.monotonic_ns()
        child.step()
        recorder.stop()
    finally:
        assert recorder.disarm() == []
    stores = read_stores(folder.path)
    folder.close()
    assert stores["packet_index"].to_list() == list(range(_STORES))


def test_mappings_of_strangers_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the whole machine is watched: children of the workload count before anybody saw them, others never."""
    monkeypatch.setattr(library_watch, "list_mappings", lambda _: [])
    read: list[int] = []
    monkeypatch.setattr(library_watch, "read_mapped_runtime", lambda pid, _m, _refuse: read.append(pid))
    shell = subprocess.Popen(["sh", "-c", "sleep 600 & echo $!; wait"], stdout=subprocess.PIPE, start_new_session=True)
    try:
        assert shell.stdout is not None
        child = int(shell.stdout.readline())
        told = [(pid, MappedFile("0-1", at + 1, f"{tmp_path}/x{pid}.so"))
                for at, pid in enumerate((shell.pid, child, os.getpid(), 1, 1 << 30))]  # fmt: skip
        heard = SimpleNamespace(descriptor=-1, take=lambda: ([told.pop()] if told else [], False))
        recorder = SimpleNamespace(map_watch=heard)
        late = LateProbes(Wanted("minimal"), Offer("test", 2, 1 << 30), recorder)  # type: ignore[arg-type]
        while told:
            late.look([shell.pid])
        assert read == [child, shell.pid]
    finally:
        os.killpg(shell.pid, signal.SIGKILL)
        shell.communicate()
