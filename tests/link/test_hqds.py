"""Dumps in a capture: which queue a slot belongs to (recorded run, synthetic dumps)."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tracecorr.link.hqds import assign_gpus, attach_queues, list_gpus
from tracecorr.model import schema
from tracecorr.model.errors import InputError
from tracecorr.pipeline import correlate, import_files
from tracecorr.store import Capture


def _bank(xcc: int, ring: int, active: bool = True) -> str:
    words = [0] * 56
    words[2], words[3], words[8], words[9], words[17] = int(active), 0x303, ring >> 8 & 0xFFFFFFFF, ring >> 40, 0x11
    lines = [f"    {0xC914 + 4 * i:08x}: " + " ".join(f"{w:08x}" for w in words[i : i + 8]) for i in range(0, 56, 8)]
    return f" Inst {xcc},  CP Pipe 0, Queue 2\n" + "\n".join(lines) + "\n"


def _read_dump_at(capture: Path, start_ns: int) -> None:
    """Say in capture.json that the dump was read from then on, for 8 us."""
    info = json.loads((capture / "capture.json").read_text())
    entry = next(e for e in info["files"] if e["form"] == "dump")
    entry |= {"read_start_ns": start_ns, "read_end_ns": start_ns + 8000}
    (capture / "capture.json").write_text(json.dumps(info))


@pytest.fixture
def capture(data_folder: Path, recorded: Callable[..., Capture], tmp_path: Path) -> Capture:
    """Return a recorded capture with one synthetic dump that shows one of its queues on two XCCs."""
    source = data_folder / "captures" / "streams-priority"
    files = [source / "amd.log"], [source / "ftrace.txt"]
    queues = recorded("captures/streams-priority").table("queues")
    queue = queues.drop_nulls("create_ioctl_event").collect().row(0, named=True)
    dump = tmp_path / "hqds"
    ring = queue["ring_base"] or queue["hwq"]
    dump.write_text(f"Node 1, gpu_id 65a1:\n{_bank(0, ring)}{_bank(1, ring)}{_bank(2, 0x7F0000000000)}foreign\n")
    out = tmp_path / "with.tracecorr"
    import_files(out, *files, clock_samples=source / "clock.json", hqd=[dump])
    _read_dump_at(out, queue["created_ns"] + 1000)
    node = out / "raw" / "topology" / "nodes" / "1"
    node.mkdir(parents=True)
    (node / "gpu_id").write_text("26017\n")
    (node / "properties").write_text("gfx_target_version 90402\nnum_xcc 4\nlocation_id 768\ndrm_render_minor 128\n")
    assert correlate(out) == []
    return Capture.open(out)


def test_a_slot_belongs_to_the_queue_of_its_ring(capture: Capture) -> None:
    rows = capture.table("hqd").collect()
    assert rows.select("snapshot", "gpu", "xcc", "logical", pl.col("queue").is_not_null()).rows() == [
        (0, 0, 0, 0, True), (0, 0, 1, 0, True), (0, 0, 2, 1, False),
    ]  # fmt: skip
    events = capture.table("events").filter(pl.col("layer").cast(pl.String) == "hqd").collect()
    assert events.select("name", "dur_ns", "source", "gpu").rows() == [("hqd_active", 8000, "hqd", 0)] * 2
    seen = events.drop_nulls("queue").row(0, named=True)
    assert seen["queue"] == rows["queue"][0]
    assert capture.raw(seen["file"], seen["offset"], 8) == b" Inst 0,"
    queue = capture.table("queues").filter(queue=seen["queue"]).collect().row(0, named=True)
    links = capture.table("links").filter(pl.col("rule").cast(pl.String) == "hqd_of_queue").collect()
    assert links.select("from_event", "to_event").rows() == [(queue["create_ioctl_event"], seen["event"])]


def test_a_dump_that_was_read_before_the_run_does_not_part_log_and_trace(capture: Capture) -> None:
    first = capture.table("events").select(pl.col("ts_ns").min()).collect().item()
    _read_dump_at(capture.path, first - 1_000_000_000)
    assert correlate(capture.path) == []


def test_a_dump_of_another_run_is_warned_of(data_folder: Path, tmp_path: Path) -> None:
    log = data_folder / "captures" / "streams-priority" / "amd.log"
    dump = tmp_path / "hqds"
    for rings, is_foreign in ((_FOREIGN, True), (_FOREIGN + _ring_of(log, tmp_path), False)):
        dump.write_text("Node 1, gpu_id 65a1:\n" + "".join(_bank(0, ring) for ring in rings))
        out = tmp_path / f"{is_foreign}.tracecorr"
        import_files(out, [log], [], hqd=[dump])
        assert any("no queue of the dump is one of this log" in told for told in correlate(out)) == is_foreign
    alone = tmp_path / "alone.tracecorr"
    import_files(alone, [], [], hqd=[dump])
    assert not any("no queue of the dump" in told for told in correlate(alone))


_FOREIGN = [0x7F0000000000]


def _ring_of(log: Path, folder: Path) -> list[int]:
    plain = folder / "plain.tracecorr"
    import_files(plain, [log], [])
    correlate(plain)
    return Capture.open(plain).table("queues").drop_nulls("hwq").collect()["hwq"].head(1).to_list()


def test_topology_and_dump_describe_the_gpu(capture: Capture) -> None:
    found = capture.table("gpus").filter(gpu_id=26017).collect().row(0, named=True)
    wanted = {
        "kfd_node": 1, "pci": "0000:03:00.0", "render_minor": 128, "gfx_target": "gfx942", "xcc_count": 4,
        "xcc_ids": "0 1 2", "partition": "SPX", "scheduler": "HWS",
    }  # fmt: skip
    assert {key: found[key] for key in wanted} == wanted


def test_a_file_that_is_no_dump_is_refused(data_folder: Path, tmp_path: Path) -> None:
    log = data_folder / "captures" / "streams-priority" / "amd.log"
    with pytest.raises(InputError, match="no queue of a KFD dump"):
        import_files(tmp_path / "x.tracecorr", [log], [], hqd=[log])


def test_foreign_lines_of_a_dump_are_in_the_ledger(capture: Capture) -> None:
    ledger = capture.table("ledger").filter(pl.col("source").cast(pl.String) == "hqd").collect()
    assert ledger.select("outcome", "reason", "records").rows() == [
        ("skipped", "no_line_of_a_dump", 1), ("used", "", 7),
    ]  # fmt: skip


def _tables(**queue: Any) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    queues = schema.QUEUES.conform(
        pl.DataFrame({"queue": [0, 1], "process": [0, 1], "gpu": [0, 0], "ring_base": [4096, 4096], **queue})
    )
    processes = schema.PROCESSES.conform(pl.DataFrame({"process": [0, 1], "pid": [70, 71]}))
    return queues, processes, schema.GPUS.conform(pl.DataFrame({"gpu": [0, 1], "gpu_id": [9, 10]}))


def _slot(**columns: Any) -> pl.DataFrame:
    row = {"gpu_id": 9, "pq_base": 4096, "logical": 0, "read_start_ns": 50, "read_end_ns": 60, **columns}
    return schema.HQD.conform(pl.DataFrame({key: [value] for key, value in row.items()}))


@pytest.mark.parametrize(
    ("slot", "queue", "found"),
    [
        ({}, {}, None),  # two processes use the address
        ({"pid": 71}, {}, 1),
        ({"pid": 72}, {}, None),
        ({"pid": 71, "gpu_id": 10}, {}, None),
        ({}, {"destroyed_ns": [49, None]}, 1),
        ({}, {"created_ns": [0, 61]}, 0),
        ({"read_start_ns": None, "read_end_ns": None}, {"created_ns": [0, 61]}, None),
        ({"logical": None}, {"destroyed_ns": [49, None]}, None),  # a stale slot
    ],
)
def test_a_slot_is_joined_only_where_one_queue_fits(
    slot: dict[str, Any], queue: dict[str, Any], found: int | None
) -> None:
    assert attach_queues(_slot(**slot), *_tables(**queue))["queue"].to_list() == [found]


@pytest.mark.parametrize(
    ("queue", "found"),
    [
        ({"type": "compute_aql", "size": 64, "doorbell_offset": 0xFDEF000000000020}, 0),
        ({"type": "compute_aql", "size": 16384}, None),
        ({"type": "sdma"}, None),
        ({"doorbell_offset": 0xFDEF000000000008}, None),
        ({"doorbell_offset": 0xFDEF000000001020}, 0),  # its page may be the second one of the process
    ],
)
def test_a_slot_that_shows_another_queue_than_its_ring_had_is_foreign(queue: dict[str, Any], found: int | None) -> None:
    """A process that is not in the capture may have a ring at the same address."""
    queues, processes, gpus = _tables(**{key: [value, None] for key, value in queue.items()})
    slot = _slot(dump="hqds", type="cp", ring_bytes=4096, doorbell=0x1008)
    assert attach_queues(slot, queues.filter(queue=0), processes, gpus)["queue"].to_list() == [found]


def _dumps(*rows: dict[str, Any]) -> list[int | None]:
    """Return the queue of each row of dumps, of two processes with rings at one address."""
    table = pl.concat([_slot(**{"snapshot": 0, "dump": "hqds", **row}) for row in rows], how="diagonal_relaxed")
    return attach_queues(table, *_tables())["queue"].to_list()


def test_a_doorbell_that_an_mqd_names_tells_whose_slot_it_is() -> None:
    mqds = [{"dump": "mqds", "pid": pid, "doorbell": doorbell, "logical": n}
            for n, (pid, doorbell) in enumerate([(70, 0x1000), (71, 0x1400)])]  # fmt: skip
    slots = [{"doorbell": 0x1400, "vmid": 9, "xcc": xcc} for xcc in (0, 1)]
    runlist = {"dump": "rls", "pq_base": None, "doorbell": 0x1000}
    assert _dumps(*mqds, *slots, runlist) == [0, 1, 1, 1, 0]
    # A process that is not in the capture has the doorbell.
    foreign = {"dump": "mqds", "pid": 72, "doorbell": 0x1400, "logical": 3}
    assert _dumps(*mqds, foreign, *slots) == [0, 1, None, None, None]


def test_a_slot_with_another_doorbell_than_the_mqd_of_its_ring_is_foreign() -> None:
    mqd = {"dump": "mqds", "pid": 71, "doorbell": 0x1400}
    table = pl.concat(
        [_slot(**mqd, snapshot=0), _slot(dump="hqds", snapshot=0, doorbell=0x1800)], how="diagonal_relaxed"
    )
    queues, processes, gpus = _tables()
    found = attach_queues(table, queues.filter(queue=1), processes, gpus)
    assert found["queue"].to_list() == [1, None]


def test_mqds_that_name_no_process_leave_the_address() -> None:
    rows = [_slot(dump=dump, snapshot=0, doorbell=0x1400) for dump in ("mqds", "hqds")]
    queues, processes, gpus = _tables()
    found = attach_queues(pl.concat(rows, how="diagonal_relaxed"), queues.filter(queue=1), processes, gpus)
    assert found["queue"].to_list() == [1, 1]


def test_two_rings_of_one_dump_are_not_of_one_queue() -> None:
    """The dump shows a process with another VMID whose ring lies at the same address, and one is not in the capture."""
    slots = [_slot(dump="hqds", snapshot=0, logical=n, vmid=8 + n) for n in (0, 1)]
    queues, processes, gpus = _tables()
    assert attach_queues(slots[0], queues.filter(queue=1), processes, gpus)["queue"].to_list() == [1]
    both = pl.concat(slots, how="diagonal_relaxed")
    assert attach_queues(both, queues.filter(queue=1), processes, gpus)["queue"].to_list() == [None, None]


def test_calls_that_name_their_gpu() -> None:
    args = schema.ARGS.conform(
        pl.DataFrame({"event": [1, 2, 3, 4], "key": ["gpu", "gpu_id", "gpu", "size"], "u64": [9, 10, 77, 9]})
    )
    paths = ["/dev/dri/renderD128", "/dev/dri/card0", "/dev/dri/renderD129", None]
    devices = pl.DataFrame({"event": [5, 6, 7, 8], "path": paths}, schema={"event": pl.Int64, "path": pl.String})
    gpus = pl.DataFrame({"gpu": [0, 1, 2, 3], "gpu_id": [9, 10, 11, 12], "render_minor": [128, None, 129, 129]})
    found = assign_gpus(args, devices, schema.GPUS.conform(gpus))
    assert found.sort("event").rows() == [(1, 0), (2, 1), (5, 0)]


def test_gpus_of_all_sources_are_one_table() -> None:
    queues = pl.DataFrame(
        {"queue": [0, 1, 2], "gpu_id": [10, None, 9]}, schema={"queue": pl.UInt32, "gpu_id": pl.UInt64}
    )
    known = schema.GPUS.conform(pl.DataFrame({"gpu": [7], "gpu_id": [11], "gfx_target": ["gfx942"]}))
    table, keyed = list_gpus(queues, _slot(kfd_node=4, xcc=3), known)
    assert table.select("gpu", "gpu_id", "kfd_node", "gfx_target", "xcc_ids").rows() == [
        (0, 9, 4, None, "3"), (1, 10, None, None, None), (2, 11, None, "gfx942", None),
    ]  # fmt: skip
    assert keyed["gpu"].to_list() == [1, None, 0]
