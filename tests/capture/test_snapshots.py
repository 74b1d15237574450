"""Snapshots beside the trace, from synthetic folders in the form of sysfs and debugfs."""

from __future__ import annotations

import importlib
import json
import os
from importlib.metadata import version
from pathlib import Path

import pytest

from tracecorr.capture.facts import name_cards
from tracecorr.capture.folder import RecordingFolder
from tracecorr.capture.snapshots import Snapshots, find_packages, look_at_slots, read_devices, read_maps
from tracecorr.capture.workload.invoker import Invoker
from tracecorr.store.recording import list_raw_files

ME = Invoker(os.geteuid(), os.getegid(), (), "me", {})


@pytest.fixture
def folder(tmp_path: Path) -> RecordingFolder:
    return RecordingFolder.create(tmp_path / "x.tracecorr", ME)


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """Return a synthetic machine: one process with one queue, one card."""
    root = tmp_path / "machine"
    files = {
        "kfd/proc/7/vram_100": "4096\n", "kfd/proc/7/sdma_100": "12\n", "kfd/proc/7/pasid": "32770\n",
        "kfd/proc/7/stats_100/cu_occupancy": "1\n", "kfd/proc/7/stats_100/evicted_ms": "30\n",
        "kfd/proc/7/queues/3/gpuid": "100", "kfd/proc/7/queues/3/size": "1048576", "kfd/proc/7/queues/3/type": "0",
        "kfd/proc/8/vram_100": "1\n", "kfd/proc/8/queues/1/gpuid": "100", "kfd/proc/8/queues/1/type": "1",
        "drm/card1/device/gpu_busy_percent": "93\n", "debug/hqds": "hqds text\n", "debug/mqds": "mqds text\n",
    }  # fmt: skip
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def snapshots(folder: RecordingFolder, machine: Path, interval: float | None = None) -> Snapshots:
    return Snapshots(folder, interval, machine / "debug", machine / "kfd", machine / "drm")


def test_counters_are_polled_once_a_second(folder: RecordingFolder, machine: Path) -> None:
    taker = snapshots(folder, machine)
    taker.tick([7])
    taker.tick([7])
    (line,) = (folder.shown / "raw/sysfs.jsonl").read_text().splitlines()
    found = json.loads(line)
    assert found["processes"]["7"] == {
        "counters": {"evicted_ms_100": 30, "vram_100": 4096},
        "queues": {"3": {"gpuid": 100, "size": 1048576, "type": 0}},
    }
    # A program beside the workload: its queues take slots of the same GPU.
    assert found["processes"]["8"] == {"counters": {}, "queues": {"1": {"gpuid": 100, "type": 1}}}
    assert found["cards"] == {"device": {"gpu_busy_percent": 93}}
    assert found["start_ns"] <= found["end_ns"]


def test_the_hardware_is_read_only_when_asked(folder: RecordingFolder, machine: Path) -> None:
    taker = snapshots(folder, machine)
    taker.tick([7])
    assert not (folder.shown / "raw/hqd").exists()
    taker.finish()
    (entry,) = [e for e in list_raw_files(folder.shown) if e["source"] == "hqd"]
    assert entry["path"].startswith("raw/hqd/mqds-")
    assert 0 < entry["read_start_ns"] <= entry["read_end_ns"]


def test_reads_of_the_hardware_keep_their_interval(folder: RecordingFolder, machine: Path) -> None:
    taker = snapshots(folder, machine, 1000.0)
    for _ in range(3):
        taker.tick([7])
    assert [path.read_text() for path in (folder.shown / "raw/hqd").iterdir()] == ["hqds text\n"]


def test_a_dump_that_cannot_be_read_is_said_once(folder: RecordingFolder, machine: Path) -> None:
    (machine / "debug/hqds").unlink()
    taker = snapshots(folder, machine, 0.0)
    taker.tick([7])
    taker.tick([7])
    assert len(taker.problems) == 1


def test_no_gpu_means_no_file(folder: RecordingFolder, tmp_path: Path) -> None:
    taker = snapshots(folder, tmp_path / "nothing")
    taker.tick([os.getpid()])
    taker.finish()
    assert not (folder.shown / "raw/sysfs.jsonl").exists()
    assert read_devices(os.getpid(), read_maps(os.getpid())) == {"open": [], "mapped": []}


def test_python_packages_are_named_whose_libraries_are_mapped() -> None:
    importlib.import_module("numpy")
    maps = read_maps(os.getpid())
    assert find_packages(os.getpid(), maps)["numpy"] == version("numpy")
    assert "numpy" not in find_packages(os.getpid(), maps, {"numpy"})


def test_gpus_have_the_names_that_they_tell_or_that_the_table_has(tmp_path: Path) -> None:
    table = tmp_path / "amdgpu.ids"
    table.write_text(
        "# List of AMDGPU IDs\n1.0.0\n74A1,\t00,\tAMD Instinct MI300X\n744C,\tC8,\tAMD Radeon RX 7900 XTX\n"
    )
    cards = {
        "0000:05:00.0": {"device": "0x74a1", "revision": "0x00"}, "0000:85:00.0": {"device": "0x74a1"},
        "0000:c5:00.0": {"device": "0x74a1", "revision": "0x00", "product_name": "AMD Instinct MI300X OAM"},
        "0000:c6:00.0": {"device": "0x9999", "revision": "0x00"},
    }  # fmt: skip
    for address, files in cards.items():
        (tmp_path / address).mkdir()
        for name, text in files.items():
            (tmp_path / address / name).write_text(f"{text}\n")
    assert name_cards(tmp_path, table) == {
        "0000:05:00.0": "AMD Instinct MI300X", "0000:c5:00.0": "AMD Instinct MI300X OAM",
    }  # fmt: skip


def test_no_more_dumps_are_taken_than_tables_can_count(
    folder: RecordingFolder, machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tracecorr.capture.snapshots._MOST_DUMPS", 2)
    monkeypatch.setattr("tracecorr.capture.snapshots._REST_FACTOR", 0)
    taker = snapshots(folder, machine, 1e-9)
    for _ in range(4):
        taker.tick([])
    taker.finish()
    assert [path.name.split("-")[0] for path in sorted((folder.shown / "raw/hqd").iterdir())] == ["hqds"] * 2 + ["mqds"]
    assert taker.problems == ["no more snapshots of hqds: a capture holds 2 of them"]


@pytest.mark.parametrize(("queues", "state", "words"), [(3, "yes", ""), (25, "partly", "oversubscribed")])
def test_taken_slots_of_each_gpu_are_a_finding(tmp_path: Path, queues: int, state: str, words: str) -> None:
    files = {
        f"proc/7/queues/{i}/{name}": text for i in range(queues) for name, text in (("gpuid", "100"), ("type", "0"))
    }
    files |= {"proc/8/queues/1/gpuid": "100", "proc/8/queues/1/type": "1", "topology/nodes/1/gpu_id": "100\n",
              "topology/nodes/1/properties": "gfx_target_version 90402\nnum_cp_queues 24\n",
              "topology/nodes/0/gpu_id": "0\n", "topology/nodes/0/properties": "simd_count 0\n"}  # fmt: skip
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    (found,) = look_at_slots(tmp_path)
    assert (found.name, found.state) == ("queue slots of GPU 64", state)
    assert found.why.startswith(f"{queues} of 24 compute slots taken, by 1 processes")
    assert words in found.why
