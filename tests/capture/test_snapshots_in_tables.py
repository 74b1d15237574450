"""What a capture takes beside the trace reaches the tables: dumps, polled counters, programs (all synthetic)."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tracecorr.capture.folder import RecordingFolder
from tracecorr.capture.snapshots import Snapshots
from tracecorr.capture.workload.invoker import Invoker
from tracecorr.link.polled import build_samples
from tracecorr.link.threads.identities import add_programs
from tracecorr.model import schema
from tracecorr.pipeline import correlate
from tracecorr.read.kfd.topology import read_polls
from tracecorr.store import Capture
from tracecorr.store.recording import list_raw_files

ME = Invoker(os.geteuid(), os.getegid(), (), "me", {})
RING = 0x7F5755000000
LINE = ":3:hip_module.cpp           :825 : 2496504193 us: [pid:7 tid: 0x7fb85b569880]  hipInit ( 0 ) \n"


def _hqds() -> str:
    words = [0] * 56
    words[2], words[3], words[8], words[9], words[17] = 1, 0x303, RING >> 8 & 0xFFFFFFFF, RING >> 40, 0x11
    lines = [f"    {0xC914 + 4 * i:08x}: " + " ".join(f"{w:08x}" for w in words[i : i + 8]) for i in range(0, 56, 8)]
    return "Node 1, gpu_id 65a1:\n Inst 0,  CP Pipe 0, Queue 2\n" + "\n".join(lines) + "\n"


@pytest.fixture
def capture(tmp_path: Path) -> Capture:
    """Return the capture of a synthetic machine: process 70 (7 in its container) with two queues on one GPU."""
    machine = tmp_path / "machine"
    files = {
        "kfd/proc/70/vram_26017": "4096\n", "kfd/proc/70/sdma_26017": "12\n",
        "kfd/proc/70/queues/3/gpuid": "26017", "kfd/proc/70/queues/3/type": "0",
        "kfd/proc/70/queues/4/gpuid": "26017", "kfd/proc/70/queues/4/type": "4",
        "cards/0000:03:00.0/gpu_busy_percent": "93\n", "debug/hqds": _hqds(),
    }  # fmt: skip
    for name, text in files.items():
        (machine / name).parent.mkdir(parents=True, exist_ok=True)
        (machine / name).write_text(text)
    (machine / "drm/card1").mkdir(parents=True)
    (machine / "drm/card1/device").symlink_to(machine / "cards/0000:03:00.0")
    folder = RecordingFolder.create(tmp_path / "x.tracecorr", ME)
    folder.write_text("raw/amd_log/hip_7", LINE)
    folder.write_text("raw/topology/nodes/1/gpu_id", "26017\n")
    folder.write_text("raw/topology/nodes/1/properties", "gfx_target_version 90402\nnum_xcc 1\nlocation_id 768\n")
    taker = Snapshots(folder, 1000.0, machine / "debug", machine / "kfd", machine / "drm")
    taker.tick([70])
    assert taker.problems == []
    process = {"pid": 70, "namespace_pid": 7, "comm": "gemm", "exe": "/opt/gemm", "seen_ns": 5}
    folder.write_info({"state": "complete", "processes": [process], "files": list_raw_files(folder.path)})
    folder.close()
    correlate(tmp_path / "x.tracecorr")
    return Capture.open(tmp_path / "x.tracecorr")


def test_polled_values_have_their_gpu_and_process(capture: Capture) -> None:
    rows = capture.table("samples").with_columns(pl.col("name").cast(pl.String)).sort("name").collect()
    assert rows.select("gpu", "process", "name", "value").rows() == [
        (0, None, "cp_queues", 1.0), (0, 0, "cp_queues_26017", 1.0), (0, None, "gpu_busy_percent", 93.0),
        (0, None, "queue_processes", 1.0), (0, 0, "queues_26017", 2.0), (0, None, "sdma_queues", 1.0),
        (0, 0, "sdma_queues_26017", 1.0), (0, 0, "vram_26017", 4096.0),
    ]  # fmt: skip
    polled = json.loads((capture.path / "raw/sysfs.jsonl").read_text())
    assert rows["ts_ns"].is_between(polled["start_ns"], polled["end_ns"]).all()
    assert capture.table("gpus").select("gpu_id", "pci").collect().rows() == [(26017, "0000:03:00.0")]
    used = capture.table("ledger").filter(pl.col("source").cast(pl.String) == "sysfs").collect()
    size = (capture.path / "raw/sysfs.jsonl").stat().st_size
    assert used.select("outcome", "records", "bytes").rows() == [("used", 1, size)]


def test_dumps_have_the_times_of_their_read(capture: Capture) -> None:
    (entry,) = [e for e in capture.info["files"] if e["form"] == "dump"]
    rows = capture.table("hqd").select("read_start_ns", "read_end_ns", "state", "pq_base", "gpu_id").collect()
    assert rows.rows() == [(entry["read_start_ns"], entry["read_end_ns"], "active", RING, 26017)]
    event = capture.table("events").filter(pl.col("layer").cast(pl.String) == "hqd").collect().row(0, named=True)
    assert event["ts_ns"] == entry["read_start_ns"]
    assert event["dur_ns"] == entry["read_end_ns"] - entry["read_start_ns"]


def test_the_program_of_a_process_is_known(capture: Capture) -> None:
    rows = capture.table("processes").select("pid", "log_pid", "comm", "exe", "how").collect()
    assert rows.rows() == [(70, 7, "gemm", "/opt/gemm", "NSpid")]


def _processes(rows: list[dict[str, Any]]) -> pl.DataFrame:
    return schema.PROCESSES.conform(pl.DataFrame(rows, infer_schema_length=None))


def test_a_program_is_given_only_to_the_life_that_was_seen() -> None:
    processes = _processes([
        {"process": 0, "pid": 70, "from_ns": 0, "to_ns": 9}, {"process": 1, "pid": 70, "from_ns": 20, "to_ns": 30},
        {"process": 2, "log_pid": 7}, {"process": 3, "log_pid": 8}, {"process": 4, "pid": 90, "log_pid": 9},
    ])  # fmt: skip
    seen = pl.DataFrame({
        "pid": [70, 71, 72, 80], "log_pid": [70, 7, 7, 8], "comm": ["a", "b", "c", "d"],
        "exe": ["/a", "/b", "/c", None], "seen_ns": [25, 1, 1, 1],
    })  # fmt: skip
    found = add_programs(processes, seen)
    # 7 is the number of two processes in their containers: which of them wrote the log is not known.
    assert found.select("pid", "comm", "exe").rows() == [
        (70, None, None), (70, "a", "/a"), (None, None, None), (80, "d", None), (90, None, None),
    ]  # fmt: skip


def test_values_without_a_row_for_their_owner_say_whose_they_are() -> None:
    polls = schema.PART_POLLS.conform(
        pl.DataFrame({
            "ts_ns": [5, 5, 15, 25], "pci": ["0000:03:00.0", None, None, None], "pid": [None, 99, 70, 70],
            "name": ["gpu_busy_percent", "vram_9", "vram_9", "vram_9"], "gpu_id": [None, 9, 9, 9], "value": [1.0] * 4,
        })
    )  # fmt: skip
    gpus = schema.GPUS.conform(pl.DataFrame({"gpu": [0, 1], "gpu_id": [9, 10], "pci": ["0000:03:00.0"] * 2}))
    processes = _processes([{"process": 0, "pid": 70, "from_ns": 10}, {"process": 1, "pid": 70, "from_ns": 20}])
    assert build_samples(polls, gpus, processes).select("gpu", "process", "name").rows() == [
        (None, None, "gpu_busy_percent 0000:03:00.0"), (0, None, "vram_9 pid 99"), (0, 0, "vram_9"), (0, 1, "vram_9"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "bad",
    [
        b"{}\n", b"\xff\n", b"[1]\n", b'{"start_ns": 1, "end_ns": 2, "processes": {', b"\n",
        b'{"start_ns": 2, "end_ns": 1, "processes": {}, "cards": {}}\n',
        b'{"start_ns": 1, "end_ns": 2, "processes": {"x": 1}, "cards": {}}\n',
        b'{"start_ns": 1, "end_ns": 2, "processes": {}, "cards": {"c": {"n": "much"}}}\n',
    ],
)  # fmt: skip
def test_lines_that_are_no_polls_are_in_the_ledger(bad: bytes) -> None:
    good = b'{"start_ns": 1, "end_ns": 3, "processes": {}, "cards": {"c": {"n": 4}}}\n'
    (block,) = read_polls([good, bad], 3)
    assert block.polls.select("ts_ns", "pci", "name", "value").rows() == [(2, "c", "n", 4.0)]
    assert block.ledger.select("file", "outcome", "records", "bytes").rows() == [
        (3, "used", 1, len(good)), (3, "skipped", 1, len(bad)),
    ]  # fmt: skip
