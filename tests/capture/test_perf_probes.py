"""Probes through perf: only the workload is recorded, and read back as the rows that tracefs gives."""

from __future__ import annotations

import ctypes
import errno
import os
import threading
from dataclasses import replace
from pathlib import Path
from typing import IO, Any, cast

import polars as pl
import pytest
from machine_state import need_zlib

from tracecorr.capture.plan.plan import InstancePlan, Plan, ProbePlan
from tracecorr.capture.plan.runtimes import read_library
from tracecorr.capture.probes import perf as perf_probes
from tracecorr.capture.probes.perf import HitCounter, PerfRecorder, try_perf
from tracecorr.capture.tracefs.arm import Armed, arm
from tracecorr.capture.tracefs.control import Tracefs
from tracecorr.capture.tracefs.journal import Journal, new_token
from tracecorr.model.kinds import Flag
from tracecorr.model.parts import Block
from tracecorr.read.ftrace.formats import PageTrace
from tracecorr.read.ftrace.perf_records import read_perf_records

_CALLS, _THREADS = 200, 3


@pytest.fixture
def library(tmp_path: Path) -> Path:
    """Return a library of our own, so that a probe on it disturbs nobody."""
    return need_zlib(tmp_path)


def _arm(tracefs: Tracefs, library: Path, through: str) -> Armed:
    """Arm a probe with a filter and a return probe on crc32(crc, buffer, length)."""
    runtime = read_library(library, ["crc32"])
    assert runtime is not None
    place = f"{library}:{runtime.symbols['crc32']:#x}"
    probes = (
        ProbePlan("u", "check", f"{place} sig=%di:u64 val=%dx:s32", "workload", through, filter="val >= 50"),
        ProbePlan("u-return", "check_ret", f"{place} ret=$retval:u64", "workload", through),
    )
    token = new_token()
    plan = Plan((InstancePlan("workload", "mono", True, 1024, options=(("record-tgid", "1"),)),), probes, ())
    armed = arm(plan, tracefs, Journal.create(token), token)
    if armed.absent or (through == "perf" and try_perf(armed.perf_probes[0].event_id)):
        armed.disarm()
        pytest.skip(f"no uprobes through {through} here: {armed.absent}")
    return armed


def _start_caller(library: Path) -> tuple[int, int]:
    """Fork a process that waits for a byte, then calls from several threads; return (pid, gate)."""
    gate_read, gate_write = os.pipe()
    pid = os.fork()
    if pid:
        os.close(gate_read)
        return pid, gate_write
    os.read(gate_read, 1)
    crc32 = ctypes.CDLL(str(library)).crc32
    threads = [threading.Thread(target=_call, args=(crc32,)) for _ in range(_THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    os._exit(0)


def _call(crc32: ctypes._CFuncPtr) -> None:  # type: ignore[name-defined]
    for number in range(_CALLS):
        crc32(number, None, number % 100)


def _record(armed: Armed, library: Path, folder: Path) -> PerfRecorder:
    recorder = PerfRecorder(armed.perf_probes, 256, lambda name: (folder / name).open("wb"))
    pid, gate = _start_caller(library)
    other, other_gate = _start_caller(library)
    recorder.admit(pid)
    recorder.start()
    for descriptor in (gate, other_gate):
        os.write(descriptor, b"x")
        os.close(descriptor)
    os.waitpid(pid, 0)
    os.waitpid(other, 0)
    return recorder


@pytest.fixture
def recorded(tracefs: Tracefs, library: Path, tmp_path: Path) -> tuple[Armed, Any]:
    """Record the calls of one of two processes; return what was armed, and what was counted."""
    armed = _arm(tracefs, library, "perf")
    try:
        counts = _record(armed, library, tmp_path).stop()
    finally:
        assert armed.disarm() == []
    return armed, counts


def _rows(folder: Path, armed: Armed, **options: int) -> Block:
    paths = sorted(folder.glob("perf-cpu*.bin"))
    trace = PageTrace(
        pages={int(p.stem[8:]): p.read_bytes() for p in paths},
        formats={f"{armed.group}/{p.name}": p.format for p in armed.perf_probes},
    )
    blocks = list(read_perf_records(trace, {cpu: n for n, cpu in enumerate(trace.pages)}, "mono", **options))
    return Block(
        events=pl.concat([b.events for b in blocks]),
        args=pl.concat([b.args for b in blocks]),
        ledger=pl.concat([b.ledger for b in blocks]),
        losses=pl.concat([b.losses for b in blocks]),
    )


def test_workload_alone_is_recorded_and_read_back(recorded: tuple[Armed, Any], tmp_path: Path) -> None:
    armed, counts = recorded
    assert counts.lost == 0
    assert counts.samples == _THREADS * _CALLS * 3 // 2
    assert counts.bytes == sum(p.stat().st_size for p in tmp_path.glob("perf-cpu*.bin"))
    block = _rows(tmp_path, armed)
    kept = _THREADS * _CALLS // 2
    # A hit that the filter drops still has its return.
    assert sorted(block.events["flags"].value_counts().iter_rows()) == [(0, kept), (Flag.EXIT_ONLY.value, kept)]
    entered = block.events.join(block.args.filter(pl.col("key") == "val"), on=["file", "offset"])
    assert sorted(entered["u64"].to_list()) == sorted([n % 100 for n in range(_CALLS) if n % 100 >= 50] * _THREADS)
    assert entered["pid"].n_unique() == 1
    assert entered["tid"].n_unique() == _THREADS
    assert (entered["end_stamp_ns"] > entered["stamp_ns"]).all()
    assert entered["stamp_ns"].is_sorted()
    used = block.ledger.filter(pl.col("outcome") == "used")
    assert used["bytes"].sum() == counts.bytes


def test_small_windows_give_the_same_rows(recorded: tuple[Armed, Any], tmp_path: Path) -> None:
    armed, _ = recorded
    whole, windows = _rows(tmp_path, armed), _rows(tmp_path, armed, bytes_at_a_time=512)
    key = ["file", "offset"]
    assert windows.events.sort(key).equals(whole.events.sort(key))
    assert windows.args.sort([*key, "key"]).equals(whole.args.sort([*key, "key"]))
    path = max(tmp_path.glob("perf-cpu*.bin"), key=lambda p: p.stat().st_size)
    path.write_bytes(path.read_bytes()[:-10])
    torn = _rows(tmp_path, armed)
    assert torn.ledger.filter(pl.col("reason") == "torn_record")["bytes"].sum() > 0
    assert torn.ledger["bytes"].sum() == sum(p.stat().st_size for p in tmp_path.glob("perf-cpu*.bin"))


def test_lost_records_are_counted_with_their_time(recorded: tuple[Armed, Any], tmp_path: Path) -> None:
    armed, counts = recorded
    path = max(tmp_path.glob("perf-cpu*.bin"), key=lambda p: p.stat().st_size)
    data = path.read_bytes()
    half = int.from_bytes(data[6:8], "little")
    lost = (2).to_bytes(4, "little") + bytes(2) + (24).to_bytes(2, "little") + bytes(8) + (7).to_bytes(8, "little")
    assert HitCounter().count(data[:half] + lost + data[half:]).lost == 7
    path.write_bytes(data[:half] + lost + data[half:])
    block = _rows(tmp_path, armed)
    gap = block.losses.row(0, named=True)
    assert gap["count"] == 7
    assert gap["from_ns"] < gap["to_ns"]
    assert block.ledger.filter(pl.col("outcome") == "lost")["records"].sum() == 7
    assert block.ledger["bytes"].sum() == counts.bytes + 24


@pytest.mark.parametrize("damage", [b"", b"\1", b"\0" * 4096, b"\xff" * 4096, bytes(range(256)) * 20])
def test_any_bytes_are_accounted_for(damage: bytes) -> None:
    trace = PageTrace(pages={0: damage, 3: [damage[:5], damage[5:]]}, formats={})
    blocks = list(read_perf_records(trace, {0: 0, 3: 1}, "mono"))
    ledger = pl.concat([b.ledger for b in blocks])
    assert ledger["bytes"].sum() == 2 * len(damage)
    assert sum(b.events.height for b in blocks) == 0


def test_late_probe_and_late_process(tracefs: Tracefs, library: Path, tmp_path: Path) -> None:
    armed = _arm(tracefs, library, "perf")
    try:
        recorder = PerfRecorder([], 256, lambda name: (tmp_path / name).open("wb"))
        recorder.start()
        pid, gate = _start_caller(library)
        recorder.admit(pid)
        recorder.add_probes([replace(p, filter="") for p in armed.perf_probes])
        os.write(gate, b"x")
        os.close(gate)
        os.waitpid(pid, 0)
        recorder.stop()
    finally:
        assert armed.disarm() == []
    assert _rows(tmp_path, armed).events.height == _THREADS * _CALLS


@pytest.mark.parametrize("at_a_time", [1 << 20, 64])
def test_child_that_inherits_and_is_admitted_gives_each_hit_once(
    tracefs: Tracefs, library: Path, tmp_path: Path, at_a_time: int
) -> None:
    armed = _arm(tracefs, library, "perf")
    try:
        recorder = PerfRecorder(armed.perf_probes, 256, lambda name: (tmp_path / name).open("wb"))
        gate, told = os.pipe(), os.pipe()
        pid = os.fork()
        if not pid:
            os.read(gate[0], 1)
            child, go = _start_equal_calls(library)
            os.write(told[1], f"{child} ".encode())
            os.read(gate[0], 1)
            os.write(go, b"x")
            os.waitpid(child, 0)
            os._exit(0)
        recorder.admit(pid)
        recorder.start()
        os.write(gate[1], b"x")
        recorder.admit(int(os.read(told[0], 20)))
        os.write(gate[1], b"x")
        os.waitpid(pid, 0)
        counts = recorder.stop()
    finally:
        assert armed.disarm() == []
    assert counts.samples == 2 * _CALLS
    block = _rows(tmp_path, armed, bytes_at_a_time=at_a_time)
    assert block.events.height == _CALLS
    assert set(block.events["flags"]) == {0}
    doubles = block.ledger.filter(pl.col("reason") == "duplicate_sample")
    assert doubles["records"].sum() == 2 * _CALLS
    assert block.ledger["bytes"].sum() == counts.bytes


def test_a_workload_that_leaves_its_cpus_is_followed(tracefs: Tracefs, library: Path, tmp_path: Path) -> None:
    first, *rest = sorted(os.sched_getaffinity(0))
    if not rest:
        pytest.skip("this machine has one CPU")
    armed = _arm(tracefs, library, "perf")
    try:
        probes = [replace(p, filter="") for p in armed.perf_probes]
        recorder = PerfRecorder(probes, 256, lambda name: (tmp_path / name).open("wb"), [first])
        pid, gate = _start_caller(library)
        os.sched_setaffinity(pid, [first])
        recorder.admit(pid)
        recorder.start()
        assert recorder.cover([pid]) == set()
        os.sched_setaffinity(pid, rest[:1])
        assert recorder.cover([pid]) == set(rest[:1])
        os.write(gate, b"x")
        os.close(gate)
        os.waitpid(pid, 0)
        recorder.stop()
    finally:
        assert armed.disarm() == []
    events = _rows(tmp_path, armed).events
    assert events.height == _THREADS * _CALLS
    assert set(events["cpu"]) == set(rest[:1])
    assert recorder.absent == []


class _Disk:
    """A file of a disk that has room for `room` bytes and takes few at a time."""

    def __init__(self, path: Path, room: int) -> None:
        self._file, self._room = path.open("wb", buffering=0), room

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def write(self, data: memoryview) -> int:
        if not self._room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        done = self._file.write(data[: min(self._room, 1000)])
        self._room -= done
        return done


@pytest.mark.parametrize("room", [1 << 30, 5003, 0])
def test_full_disk_leaves_whole_records_and_counts_the_rest(
    tracefs: Tracefs, library: Path, tmp_path: Path, room: int
) -> None:
    armed = _arm(tracefs, library, "perf")
    try:
        probes = [replace(p, filter="") for p in armed.perf_probes]
        recorder = PerfRecorder(probes, 256, lambda name: cast(IO[bytes], _Disk(tmp_path / name, room)))
        pid, gate = _start_caller(library)
        recorder.admit(pid)
        recorder.start()
        os.write(gate, b"x")
        os.close(gate)
        os.waitpid(pid, 0)
        counts = recorder.stop()
    finally:
        assert armed.disarm() == []
    assert (recorder.failure is None) == (room == 1 << 30)
    assert (counts.discarded_bytes > 0) == (counts.unwritten > 0) == (room < 1 << 30)
    assert counts.unwritten <= counts.lost
    assert counts.samples + counts.lost == 2 * _THREADS * _CALLS
    assert counts.bytes == sum(p.stat().st_size for p in tmp_path.glob("perf-cpu*.bin"))
    if counts.bytes:
        ledger = _rows(tmp_path, armed).ledger
        assert ledger.filter(pl.col("reason") == "torn_record").is_empty()
        assert ledger.filter(pl.col("outcome") == "used")["bytes"].sum() == counts.bytes


def test_ring_is_halved_where_the_kernel_has_no_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = []

    def make(_: int, size_kb: int) -> None:
        sizes.append(size_kb)
        raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))

    monkeypatch.setattr(perf_probes, "Ring", make)
    recorder = PerfRecorder([], 256, lambda name: (tmp_path / name).open("wb"))
    assert sizes[:3] == [256, 128, 64]
    assert recorder.absent[0].what.startswith("probes of user space on CPU")
    assert recorder.stop().bytes == 0


def _start_equal_calls(library: Path) -> tuple[int, int]:
    """Fork a process that waits for a byte, then makes calls that cannot be told apart; return (pid, gate)."""
    gate_read, gate_write = os.pipe()
    pid = os.fork()
    if pid:
        return pid, gate_write
    os.read(gate_read, 1)
    crc32 = ctypes.CDLL(str(library)).crc32
    for _ in range(_CALLS):
        crc32(7, None, 60)
    os._exit(0)
