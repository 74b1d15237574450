"""Slots of hardware queues: who holds them, and from when to when they were oversubscribed (synthetic polls)."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from tracecorr import open_capture
from tracecorr.analyze.occupancy import list_oversubscribed, summarize_occupancy, summarize_queue_holders
from tracecorr.pipeline import correlate
from tracecorr.store import write_info
from tracecorr.store.recording import list_raw_files

GPU = 63420
LINE = ":3:hip_module.cpp           :825 : 2496504193 us: [pid:7 tid: 0x7fb85b569880]  hipInit ( 0 ) \n"
PROPERTIES = """gfx_target_version 90402
num_xcc 8
num_cp_queues 24
num_sdma_engines 2
num_sdma_xgmi_engines 14
num_sdma_queues_per_engine 8
"""  # of an MI300X
SAID = "Runlist is getting oversubscribed due to too many queues. Expect reduced ROCm performance."


def _poll(second: int, *, evicted: int, **queues: tuple[int, int]) -> str:
    """Return a poll of processes with so many compute and SDMA queues."""
    processes = {
        pid.removeprefix("p"): {
            "counters": {f"evicted_ms_{GPU}": evicted if pid == "p7" else 0},
            "queues": {
                str(i): {"gpuid": GPU, "size": 4096, "type": 0 if i < compute else 1} for i in range(compute + sdma)
            },
        }
        for pid, (compute, sdma) in queues.items()
    }
    at = second * 1_000_000_000
    return json.dumps({"start_ns": at - 10, "end_ns": at + 10, "processes": processes, "cards": {}}) + "\n"


@pytest.fixture(scope="module")
def capture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("occupancy") / "x.tracecorr"
    polls = [
        _poll(2490, evicted=5, p7=(1, 0)), _poll(2491, evicted=5, p7=(8, 2), p90=(16, 0)),
        _poll(2492, evicted=45, p7=(8, 2), p90=(16, 0), p91=(6, 1)), _poll(2493, evicted=505, p7=(8, 2), p90=(20, 0)),
        _poll(2494, evicted=505, p7=(8, 2)),
    ]  # fmt: skip
    # printk's clock is 1 s behind: the line is of 2491.5 s.
    readings = [
        {"printk": {"mono0": s * 10**9, "value": (s - 1) * 10**9, "mono1": s * 10**9 + 500}} for s in (2490, 2495)
    ]
    files = {
        "raw/amd_log/hip_7": LINE, "raw/sysfs.jsonl": "".join(polls), "raw/topology/nodes/1/gpu_id": f"{GPU}\n",
        "raw/topology/nodes/1/properties": PROPERTIES, "raw/kernel_log/kmsg.txt": f"4,1,2490500000,-;amdgpu: {SAID}\n",
        "raw/clock.json": json.dumps({"trace_clock": "mono", "samples": readings}),
    }  # fmt: skip
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    process = {"pid": 7, "namespace_pid": 7, "comm": "gemm", "exe": "/opt/gemm", "seen_ns": 5}
    write_info(folder, {"state": "complete", "processes": [process], "files": list_raw_files(folder)})
    correlate(folder)
    return folder


def test_slots_of_a_gpu_and_the_most_that_were_taken(capture: Path) -> None:
    rows = summarize_occupancy(open_capture(capture).table)
    assert rows.to_dicts() == [{
        "gpu": 0, "cp_slots": 24, "most_cp_queues": 30, "own_cp_queues": 8, "process_limit": 13, "most_processes": 3,
        "sdma_slots": 128, "most_sdma_queues": 3, "oversubscribed": "yes", "over_ns": 1_000_000_000, "evicted_ms": 500,
        "evicted_others_ms": 0, "polls": 5,
    }]  # fmt: skip


def test_a_span_of_oversubscription_has_bounds_and_the_line_of_the_kernel_log(capture: Path) -> None:
    opened = open_capture(capture)
    (span,) = list_oversubscribed(opened.table).to_dicts()
    line = opened.events.filter(pl.col("layer") == "kernel").collect()
    assert span == {
        "gpu": 0, "reason": "queues", "after_ns": 2491 * 10**9, "from_ns": 2492 * 10**9, "to_ns": 2493 * 10**9,
        "before_ns": 2494 * 10**9, "most": 30, "limit": 24, "event": line["event"][0],
    }  # fmt: skip


def test_every_process_with_queues_is_named(capture: Path) -> None:
    rows = summarize_queue_holders(open_capture(capture).table)
    assert rows.select("process", "pid", "most_cp_queues", "most_sdma_queues").rows() == [
        (0, 7, 8, 2), (None, 90, 20, 0), (None, 91, 6, 1),
    ]  # fmt: skip


def test_a_gpu_of_unknown_slots_is_not_judged() -> None:
    """MES tells no slots, and a GPU whose topology was not read has none."""
    frames = {
        "gpus": pl.LazyFrame({"gpu": [0], "gfx_target": ["gfx1100"], "partition": [None], "scheduler": ["MES"],
                              "cp_slots": [8], "sdma_slots": [4]}),
        "samples": pl.LazyFrame({"ts_ns": [1, 1], "gpu": [0, 0], "process": [None, None], "value": [30.0, 9.0],
                                 "name": ["cp_queues", "queue_processes"]}),
        "events": pl.LazyFrame({"event": [0], "ts_ns": [0], "gpu": [0], "layer": ["hip"], "name": ["x"],
                                "err_lo_ns": [0]}),
    }  # fmt: skip
    (row,) = summarize_occupancy(frames.__getitem__).to_dicts()
    assert (row["most_cp_queues"], row["cp_slots"], row["oversubscribed"]) == (30, None, None)
