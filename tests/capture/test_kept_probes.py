"""Every process of a workload has its probes, whoever started it when, and whichever other one ends."""

from __future__ import annotations

import ctypes
import errno
import os
import time
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
from hsa_stores import read_stores, store_doorbells

from tracecorr.capture.folder import RecordingFolder
from tracecorr.capture.plan.plan import Offer, Runtime, Wanted
from tracecorr.capture.plan.planning import make_plan
from tracecorr.capture.plan.runtimes import read_runtime
from tracecorr.capture.probes import perf as perf_events
from tracecorr.capture.probes.libraries import LateProbes
from tracecorr.capture.recorder import KernelRecorder
from tracecorr.capture.tracefs.control import Tracefs
from tracecorr.capture.tracefs.journal import Journal, new_token
from tracecorr.capture.workload.invoker import find_invoker

_CALLS, _PAIRS, _TOGETHER = 20, 30, 4


@pytest.mark.parametrize("kernel", ["of this machine", "that lets children exchange events"])
def test_a_child_keeps_its_probes_when_a_brother_ends(
    tracefs: Tracefs, hsa_library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kernel: str
) -> None:
    if kernel != "of this machine":
        monkeypatch.setattr(perf_events, "open_keeper", _refuse)
    runtime = read_runtime(hsa_library, str(hsa_library), lambda _: None)
    assert runtime is not None
    stores = _record(tracefs, tmp_path, hsa_library, (runtime,), _run_pairs)
    assert stores["pid"].value_counts()["count"].to_list() == [_CALLS] * _PAIRS


def test_children_that_nobody_saw_yet_have_the_probes_of_a_late_library(
    tracefs: Tracefs, hsa_library: Path, tmp_path: Path
) -> None:
    """They were started before the first of them mapped it, and inherited nothing."""
    stores = _record(tracefs, tmp_path, hsa_library, (), _run_together)
    assert stores["pid"].value_counts()["count"].to_list() == [_CALLS] * _TOGETHER


def _record(
    tracefs: Tracefs, work: Path, library: Path, known: tuple[Runtime, ...], run: Callable[[Path, int, int], None]
) -> pl.DataFrame:
    """Record a process that calls `run`; what it tells is answered when the library was looked for. Return stores."""
    offer = Offer("test", 2, 1 << 30, uprobes=True, perf_probes=True, clocks=("mono",), runtimes=known)
    wanted, token = Wanted("minimal"), new_token()
    folder = RecordingFolder.create(work / "x.tracecorr", find_invoker({"PATH": "/bin"}))
    recorder = KernelRecorder.arm(make_plan(wanted, offer), tracefs, Journal.create(token), token, folder)
    try:
        if recorder.map_watch is None or (known and len(recorder.armed.perf_probes) < 2):
            pytest.skip(f"no probes through perf here: {recorder.plan.absent}")
        late = LateProbes(wanted, offer, recorder)
        (loaded, told), (gate, go) = os.pipe(), os.pipe()
        pid = os.fork()
        if not pid:
            os.close(go)
            os.read(gate, 1)
            run(library, gate, told)
        os.close(told)
        recorder.admit(pid)
        recorder.start()
        os.write(go, b"x")
        while os.read(loaded, 1):
            late.look([pid])
            while late.pause == 0:
                late.look([pid])
            os.write(go, b"x")
        assert os.waitpid(pid, 0)[1] == 0
        recorder.stop()
    finally:
        assert recorder.disarm() == []
    stores = read_stores(folder.path)
    folder.close()
    return stores


def _refuse(_: int) -> int:
    raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))


def _run_pairs(library: Path, gate: int, told: int) -> None:
    """Fork pairs on one CPU: one gives it to the other once and ends, then the other loads the library and calls."""
    os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])
    for _ in range(_PAIRS):
        waits, wakes = os.pipe()
        first = os.fork()
        if not first:
            time.sleep(0.005)  # till the other waits
            os.write(wakes, b"x")
            time.sleep(0.005)  # to the other, but from it to nobody: it sleeps longer
            os._exit(0)
        second = os.fork()
        if not second:
            os.read(waits, 1)
            time.sleep(0.01)
            while Path(f"/proc/{first}").exists():
                time.sleep(0.001)
            _call(library, gate, told)
        os.waitpid(first, 0)
        os.waitpid(second, 0)
    os._exit(0)


def _run_together(library: Path, gate: int, told: int) -> None:
    """Fork processes that all wait for one; it loads the library and calls, then they do."""
    waits, wakes = os.pipe()
    children = []
    for number in range(_TOGETHER):
        children.append(os.fork())
        if not children[-1]:
            if number:
                os.read(waits, 1)
            _call(library, gate, told)
    os.waitpid(children[0], 0)
    os.write(wakes, b"x" * _TOGETHER)
    for child in children[1:]:
        os.waitpid(child, 0)
    os._exit(0)


def _call(library: Path, gate: int, told: int) -> None:
    """Load the library, then ring when it is allowed."""
    loaded = ctypes.CDLL(str(library))
    os.write(told, b"x")
    os.read(gate, 1)
    store_doorbells(loaded, _CALLS)
    os._exit(0)
