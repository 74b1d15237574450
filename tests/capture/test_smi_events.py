"""SMI events: clients of the driver, lines taken as they come, and what tables make of them (all synthetic).

No machine of the tests has a GPU: a socket pair stands for a client of the driver, its lines have the driver's form.
"""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import polars as pl
import pytest

from tracecorr import open_capture
from tracecorr.analyze.ioctls import summarize_evictions
from tracecorr.capture import smi_events
from tracecorr.capture.folder import RecordingFolder
from tracecorr.capture.plan.plan import NO, YES
from tracecorr.capture.smi_events import SmiRecorder, list_gpu_ids, look_at_smi, open_clients
from tracecorr.capture.workload.invoker import Invoker
from tracecorr.pipeline import correlate
from tracecorr.store.raw import describe_file
from tracecorr.store.recording import list_raw_files

ME = Invoker(os.geteuid(), os.getegid(), (), "me", {})
GPU, OTHER = 0x65A1, 0xF7BC
LINE = ":3:hip_module.cpp           :825 : 2496504193 us: [pid:7 tid: 0x7fb85b569880]  hipInit ( 0 ) \n"


@pytest.fixture
def nodes(tmp_path: Path) -> Path:
    for number, gpu in enumerate((0, GPU, OTHER)):
        (tmp_path / f"nodes/{number}").mkdir(parents=True)
        (tmp_path / f"nodes/{number}/gpu_id").write_text(f"{gpu}\n")
    return tmp_path / "nodes"


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[int, socket.socket]]:
    """Stand for the driver's ioctl: gpu_id -> its end of the client."""
    ends: dict[int, socket.socket] = {}

    def answer(_: int, request: int, argument: bytes) -> bytes:
        assert request == 0xC0084B1F
        gpu = int.from_bytes(argument[:4], "little")
        ends[gpu], mine = socket.socketpair()
        os.set_inheritable(mine.fileno(), True)
        return argument[:4] + mine.detach().to_bytes(4, "little")

    monkeypatch.setattr(fcntl, "ioctl", answer)
    yield ends
    for end in ends.values():
        end.close()


def test_every_gpu_of_the_topology_gets_a_client_that_no_child_inherits(
    nodes: Path, driver: dict[int, socket.socket], tmp_path: Path
) -> None:
    (nodes / "1/gpu_id").replace(nodes / "1/no_gpu_id")
    assert list_gpu_ids(nodes) == [OTHER]
    (nodes / "1/no_gpu_id").replace(nodes / "1/gpu_id")
    (tmp_path / "kfd").touch()
    clients = open_clients(tmp_path / "kfd", nodes)
    assert list(clients) == list(driver) == [GPU, OTHER]
    assert not any(os.get_inheritable(client) for client in clients.values())
    smi_events.close_clients(clients)


@pytest.mark.usefixtures("driver")
def test_doctor_says_why_there_are_none(nodes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert look_at_smi(tmp_path / "nothing", nodes)[0].why.startswith("there is no ")
    (tmp_path / "kfd").touch()
    assert look_at_smi(tmp_path / "kfd", tmp_path)[0].why == "the driver has no GPU"
    if os.geteuid() == 0:
        finding, gpus = look_at_smi(tmp_path / "kfd", nodes)
        assert (finding.state, gpus) == (YES, (GPU, OTHER))
    monkeypatch.setattr(smi_events, "has_capability", lambda _: False)
    assert "CAP_SYS_ADMIN" in look_at_smi(tmp_path / "kfd", nodes)[0].why

    def refuse(*_: object) -> bytes:
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))

    monkeypatch.setattr(fcntl, "ioctl", refuse)
    finding, gpus = look_at_smi(tmp_path / "kfd", nodes)
    assert (finding.state, gpus, finding.why) == (NO, (), "the driver has no GPU")


def _wait_for_lines(path: Path, count: int) -> None:
    for _ in range(6000):
        if path.read_bytes().count(b"\n") >= count:
            return
        time.sleep(0.01)
    pytest.fail(f"{path} has no {count} lines")


def test_lines_are_put_together_and_stamped(nodes: Path, driver: dict[int, socket.socket], tmp_path: Path) -> None:
    (tmp_path / "kfd").touch()
    recorder = SmiRecorder(open_clients(tmp_path / "kfd", nodes), (tmp_path / "out").open("wb", buffering=0))
    began = time.monotonic_ns()
    recorder.start()
    assert int.from_bytes(driver[GPU].recv(64), "little") & (1 << 63 | 1 << 8 | 1) == 1 << 63 | 1 << 8 | 1
    driver[GPU].send(b"9 1000 -7 65a1 2\na 20")
    driver[OTHER].send(b"2 40:1f\n")
    _wait_for_lines(tmp_path / "out", 2)
    driver[GPU].send(b"00 -7 65a1\n")
    _wait_for_lines(tmp_path / "out", 3)
    driver[OTHER].close()
    driver[GPU].send(b"9 30")
    recorder.stop()
    recorder.stop()
    lines = sorted((line.split(b" ", 3) for line in (tmp_path / "out").read_bytes().splitlines()), key=lambda x: x[2:])
    assert [line[2:] for line in lines] == [
        [b"65a1", b"9 1000 -7 65a1 2"], [b"65a1", b"9 30"], [b"65a1", b"a 2000 -7 65a1"], [b"f7bc", b"2 40:1f"],
    ]  # fmt: skip
    assert all(began <= int(after) <= int(before) <= time.monotonic_ns() for after, before, *_ in lines)
    assert recorder.failure is None


def _full_disk() -> IO[bytes]:
    return Path("/dev/full").open("wb", buffering=0)


def test_a_full_disk_is_a_loss(nodes: Path, driver: dict[int, socket.socket], tmp_path: Path) -> None:
    (tmp_path / "kfd").touch()
    recorder = SmiRecorder(open_clients(tmp_path / "kfd", nodes), _full_disk())
    recorder.start()
    driver[GPU].send(b"2 40:1f\n")
    for _ in range(6000):
        if recorder.failure is not None:
            break
        time.sleep(0.01)
    recorder.stop()
    assert recorder.failure is not None
    assert recorder.failure.errno == errno.ENOSPC
    assert recorder.discarded_bytes > 0


def _record(path: Path, lines: str, trace_clock: str) -> None:
    """Write a capture of process 70 (7 in its container) with these lines of SMI events. boot = mono + 5 s."""
    folder = RecordingFolder.create(path, ME)
    folder.write_text("raw/kfd_smi.txt", lines)
    folder.write_text("raw/amd_log/hip_7", LINE)
    folder.write_text("raw/topology/nodes/1/gpu_id", f"{GPU}\n")
    folder.write_text("raw/topology/nodes/1/properties", "gfx_target_version 90402\nnum_xcc 1\nlocation_id 768\n")
    reading = {"mono0": 1_000_000_000, "value": 6_000_000_100, "mono1": 1_000_000_200}
    folder.write_text(
        "raw/clock.json", f'{{"trace_clock": "{trace_clock}", "samples": [{{"boot": {reading}}}]}}'.replace("'", '"')
    )
    call = "gemm-70 (     70) [000] ..... 2.000100: sys_"
    folder.write_text("raw/trace.txt", f"{call}ioctl(fd: 0x3, cmd: 0xc0604b02, arg: 0x7f)\n{call}ioctl -> 0x0\n")
    size, checksum = describe_file(folder.path / "raw/trace.txt")
    trace = {"file": 9, "path": "raw/trace.txt", "source": "ftrace", "form": "text", "size": size, "checksum": checksum}
    process = {"pid": 70, "namespace_pid": 7, "comm": "gemm", "exe": "/opt/gemm", "seen_ns": 5}
    folder.write_info({"state": "complete", "processes": [process], "ftrace_clock": trace_clock,
                       "files": [*list_raw_files(folder.path), trace]})  # fmt: skip
    folder.close()


def test_events_reach_tables_and_report(tmp_path: Path) -> None:
    """Process 70 is the workload; 99 is a stranger whose queues stop, too."""
    lines = (
        "2000000000 2000900000 65a1 9 7000000000 -70 65a1 2\n"
        "2003000000 2003100000 65a1 a 7003000000 -70 65a1\n"
        "2003000000 2003100000 65a1 9 7003050000 -99 65a1 0\n"
        "2004000000 2004400000 65a1 2 40:1f\n"
    )
    _record(tmp_path / "x.tracecorr", lines, "mono")
    correlate(tmp_path / "x.tracecorr")
    capture = open_capture(tmp_path / "x.tracecorr")
    rows = capture.table("events").filter(pl.col("layer").cast(pl.String) == "smi").collect()
    found = rows.select(pl.col("name").cast(pl.String), "ts_ns", "dur_ns", "pid", "process", "gpu", "err_lo_ns").rows()
    (process_key,) = rows["process"].drop_nulls().unique()
    assert found == [
        ("QUEUE_EVICTION", 2_000_000_000, 3_000_000, 70, process_key, 0, 100),
        ("QUEUE_EVICTION", 2_003_050_000, None, 99, None, 0, 100),
        ("THERMAL_THROTTLE", 2_004_400_000, None, None, None, 0, 400_000),
    ]
    table = summarize_evictions(*(capture.table(t) for t in ("events", "args", "processes")))
    assert table.select("pid", "name", "trigger", "events", "total_ns", "half_seen").rows() == [
        (70, "QUEUE_EVICTION", "TTM", 1, 3_000_000, 0), (99, "QUEUE_EVICTION", "SVM", 1, None, 1),
        (None, "THERMAL_THROTTLE", None, 1, None, 0),
    ]  # fmt: skip


def test_what_the_driver_dropped_keeps_its_time_beside_a_trace_on_another_clock(tmp_path: Path) -> None:
    """Nothing aligns this trace: it is shown beside the log, 494 s later than its own stamps."""
    _record(tmp_path / "x.tracecorr", "2000000000 2000900000 65a1 e 7000000000 -0 3\n", "local")
    correlate(tmp_path / "x.tracecorr")
    capture = open_capture(tmp_path / "x.tracecorr")
    moved = capture.clock_map.filter(pl.col("source").cast(pl.String) == "ftrace:local").collect()
    assert moved.select(pl.col("method").cast(pl.String), pl.col("offset_ns") > 0).rows() == [("unaligned", True)]
    lost = capture.table("losses").select(pl.col("source").cast(pl.String), "from_ns", "to_ns", "count").collect()
    assert lost.rows() == [("kfd_smi", 2_000_000_000, 2_000_900_000, 3)]
