"""HQD, MQD and runlist dumps: the recorded ones of 8 MI308X, and synthetic ones of other generations."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import dump_cases as cases
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracecorr.analyze.queues import count_slots, list_logical_queues
from tracecorr.analyze.values import plain_rows
from tracecorr.read.kfd.dumps import Dump, read_dumps

EXPECTED = json.loads((Path(__file__).parent / "mi308x_dumps.json").read_text())


def _read_all(text: str) -> list[Dump]:
    data = text.encode()
    dumps = read_dumps(data, 3)
    assert sum(dump.ledger["bytes"].sum() for dump in dumps) == len(data)
    return dumps


def _read(text: str) -> Dump:
    (dump,) = _read_all(text)
    return dump


def _skipped(dump: Dump) -> dict[str, int]:
    return dict(dump.ledger.filter(pl.col("outcome") == "skipped").select("reason", "records").iter_rows())


def _row(dump: Dump, **wanted: Any) -> dict[str, Any]:
    found = dump.rows.filter(**wanted) if wanted else dump.rows
    assert found.height == 1
    return found.row(0, named=True)


@pytest.mark.parametrize("name", EXPECTED)
def test_recorded_dumps_of_8_mi308x(data_folder: Path, name: str) -> None:
    path = data_folder / "real" / name
    if not path.is_file():
        pytest.skip(f"no recorded dump {path}")
    dump = _read(path.read_text())
    expected = EXPECTED[name]
    assert (dump.kind, dump.rows.height, _skipped(dump)) == (expected["kind"], expected["rows"], {})
    queues = plain_rows(list_logical_queues(dump.rows.with_columns(snapshot=pl.lit(0))).drop("snapshot", "dump"))
    assert queues == expected["queues"]
    states = dump.rows.group_by(pl.col("type", "state").cast(pl.String)).len().sort("type", "state")
    assert [list(row) for row in states.rows()] == expected["states"]


def test_recorded_queues_are_the_same_in_registers_and_in_memory(data_folder: Path) -> None:
    paths = [data_folder / "real" / name for name in EXPECTED if "active" in name]
    if not all(path.is_file() for path in paths):
        pytest.skip(f"no recorded dumps {[str(p) for p in paths]}")
    keys = ["gpu_id", "xcc", "pq_base", "ring_bytes", "doorbell", "pipe_priority", "queue_priority", "mqd_base"]
    user = pl.col("type").cast(pl.String) == "cp"
    tables = [_read(p.read_text()).rows.filter(user & pl.col("logical").is_not_null()) for p in paths]
    registers, memory = (t.select(keys).sort("pq_base", "xcc") for t in tables)
    assert registers.height == 20
    assert registers.equals(memory)


def test_a_kernel_before_6_5_names_no_instance() -> None:
    text = (
        "Node 1, gpu_id 65a1:\n  HIQ on MEC 2 Pipe 0 Queue 0\n" + cases.cp_block({2: 1, 8: 0xFCC0})
        + "  CP Pipe 0, Queue 1\n" + cases.cp_block(cases.RUNNING) + "  CP Pipe 1, Queue 1\n"
        + cases.cp_block(cases.STALE) + "  CP Pipe 2, Queue 1\n" + cases.cp_block({4: 0x0BE05301, 17: 0x308509})
    )  # fmt: skip
    dump = _read(text)
    assert dump.kind == "hqds" and _skipped(dump) == {}
    assert dump.rows.select("type", "xcc", "pipe", "slot", "state", "logical").rows() == [
        ("hiq", 0, 0, 0, "active", None), ("cp", 0, 0, 1, "active", 0), ("cp", 0, 1, 1, "stale", None),
        ("cp", 0, 2, 1, "unused", None),
    ]  # fmt: skip
    running = _row(dump, pipe=0, slot=1)
    wanted = {
        "gpu_id": 0x65A1, "kfd_node": 1, "active": True, "rptr": 0x40, "wptr": 0x1_0000_0020, "quantum": 0x111,
        "pq_base": 0x7F4910800000, "ring_bytes": 1 << 20, "doorbell": 0x1008, "doorbell_enabled": True,
        "pipe_priority": 2, "queue_priority": 11, "vmid": 3, "mqd_base": 0x17BA000, "file": 3,
    }  # fmt: skip
    assert {key: running[key] for key in wanted} == wanted
    assert text.encode()[running["offset"] :].startswith(b"  CP Pipe 0, Queue 1")


@pytest.mark.parametrize("start", [0xC824, 0x12A914])
def test_registers_are_told_by_place_not_by_address(start: int) -> None:
    """gfx10 to gfx12 start elsewhere than gfx9, and so does each XCC."""
    dump = _read("Node 1, gpu_id 1:\n Inst 0,  CP Pipe 0, Queue 2\n" + cases.cp_block(cases.RUNNING, start))
    assert _row(dump)["pq_base"] == 0x7F4910800000


@pytest.mark.parametrize("generation", cases.SDMA_RUNS)
def test_sdma_of_each_generation(generation: str) -> None:
    heading = "Node 1, gpu_id 1:\n  SDMA Engine 2, RLC 5\n"
    row = _row(_read(heading + cases.sdma_block(generation, cases.sdma_values(generation))))
    wanted = {
        "type": "sdma", "xcc": None, "pipe": 2, "slot": 5, "state": "active", "rptr": 0x80, "wptr": 0x100,
        "pq_base": 0x7F57558C2000, "ring_bytes": 1 << 20, "doorbell": 0x1F0, "doorbell_enabled": True, "vmid": 3,
        "quantum": None, "logical": 0,
    }  # fmt: skip
    assert {key: row[key] for key in wanted} == wanted
    gone = _row(_read(heading + cases.sdma_block(generation, cases.sdma_values(generation, mapped=False))))
    assert (gone["state"], gone["active"], gone["logical"]) == ("stale", False, None)
    torn = _read(heading + cases.sdma_block(generation, cases.sdma_values(generation)).splitlines()[0] + "\n")
    assert torn.rows.is_empty() and _skipped(torn) == {"sdma_block_cut_short": 1}


def test_partitions_of_one_device_keep_their_queues_apart() -> None:
    """In CPX mode each XCC is a node of its own; two processes may use one VMID and one address there."""
    block = " Inst {},  CP Pipe 0, Queue 2\n" + cases.cp_block(cases.RUNNING)
    text = f"Node 2, gpu_id a001:\n{block.format(0)}Node 3, gpu_id a002:\n{block.format(1)}"
    dump = _read(text)
    assert dump.rows["logical"].to_list() == [0, 1]
    spx = _read(f"Node 2, gpu_id a001:\n{block.format(0)}{block.format(1)}")
    assert spx.rows["logical"].to_list() == [0, 0]
    assert count_slots(spx.rows.with_columns(snapshot=pl.lit(0))).row(0)[3:] == ("cp", 2, 2, 0, 0)
    assert list_logical_queues(spx.rows)["xccs"].to_list() == [2]


@pytest.mark.parametrize("mapped", [False, True])
@pytest.mark.parametrize("layout", [(0x48, 0x58, 0x6C), (0x44, 0x4C, 0x64), (0x3C, 0x44, 0x5C)])
def test_mqds_of_two_processes(layout: tuple[int, int, int], mapped: bool) -> None:
    compute = "  Compute queue on device 65a1\n" + cases.compute_mqd(cases.RUNNING)
    sdma = "  SDMA queue on device 65a1\n" + cases.sdma_mqd(*layout, mapped=mapped)
    dump = _read(f"Process 20 PASID 0x8001:\n{sdma}{compute}Process 31 PASID 31:\n{compute}")
    assert dump.kind == "mqds" and _skipped(dump) == {}
    columns = ["pid", "mqd", "type", "xcc", "state", "active", "doorbell", "pq_base", "ring_bytes", "logical"]
    assert dump.rows.select(columns).rows() == [
        (20, 0, "sdma", None, "described", None, 0x1F0, 0x7F57558C2000, 1 << 20, 0),
        (20, 1, "cp", 0, "described", None, 0x1008, 0x7F4910800000, 1 << 20, 1),
        (31, 0, "cp", 0, "described", None, 0x1008, 0x7F4910800000, 1 << 20, 2),
    ]


@pytest.mark.parametrize("more", [1, 3])
def test_an_sdma_queue_behind_a_compute_queue_of_several_xccs_is_one_mqd(more: int) -> None:
    """The driver dumps the memory behind the MQD, too: its neighbours there are queues of anybody."""
    compute = "  Compute queue on device 65a1\n" + cases.compute_mqd(cases.RUNNING) * (1 + more)
    strange = cases.hex_lines(0, [0x25, 0x11111111, 0x7E, *[0] * 125]) * more
    sdma = "  SDMA queue on device 65a1\n" + cases.sdma_mqd(0x48, 0x58, 0x6C)
    dump = _read(f"Process 20 PASID 0x8001:\n{compute}{sdma}{strange}{compute}")
    assert dump.rows.filter(pl.col("type") == "sdma").select("mqd", "pq_base").rows() == [(1, 0x7F57558C2000)]
    assert dump.rows["mqd"].to_list() == [*[0] * (1 + more), 1, *[2] * (1 + more)]
    assert _skipped(dump) == {"mqds_of_other_queues": 1}
    assert dump.ledger.filter(pl.col("outcome") == "skipped")["bytes"].to_list() == [len(strange)]


def test_an_sdma_mqd_of_unknown_layout_has_no_doorbell() -> None:
    dump = _read("Process 1 PASID 0x1:\n  SDMA queue on device 1\n" + cases.sdma_mqd(0x78, 0x7C, 0x80))
    assert (_row(dump)["pq_base"], _row(dump)["doorbell"]) == (0x7F57558C2000, None)


def test_the_queues_of_a_runlist_are_listed() -> None:
    text = "Node 1, gpu_id 65a1:\n" + cases.hex_lines(0, cases.runlist(), "  ") + "Node 2, gpu_id 7:\n"
    dump = _read(text + "  No active runlist\n")
    assert dump.kind == "rls" and _skipped(dump) == {}
    assert dump.rows.select("gpu_id", "mqd", "type", "pipe", "doorbell", "mqd_base", "state", "active").rows() == [
        (0x65A1, 0, "cp", None, 0x1002, 0x17BA000, "listed", None),
        (0x65A1, 1, "sdma", 1, 0x1F0, 0x11000, "listed", None),
        (0x65A1, 2, "sdma", 1, 0x1F2, 0x12000, "listed", None),
        (0x65A1, 3, "sdma", 10, 0x1F4, 0x200013000, "listed", None),
    ]


@pytest.mark.parametrize(
    ("words", "queues"), [(47, 4), (45, 4), (44, 3), (38, 3), (31, 2), (30, 1), (24, 1), (23, 0), (1, 0)]
)
def test_a_runlist_that_is_cut_lists_only_whole_packets(words: int, queues: int) -> None:
    """The packets of its queues end behind 24, 31, 38 and 45 words."""
    text = "Node 1, gpu_id 65a1:\n" + cases.hex_lines(0, cases.runlist()[:words], "  ")
    assert _read(text).rows.height == queues


@pytest.mark.parametrize(
    ("text", "kind", "skipped"),
    [
        ("", None, {}),
        ("Node 1, gpu_id 1:\n Device is stopped\n", "hqds", {}),
        ("Node 1, gpu_id 1:\n  No active runlist\n", "rls", {}),
        (" Inst 0,  CP Pipe 0, Queue 2\n" + cases.cp_block({}, size=39), "hqds",
         {"not_the_56_registers_of_gfx9_to_gfx12": 1}),
        (" Inst 0,  CP Pipe 0, Queue 2\n", "hqds", {"heading_without_registers": 1}),
        ("    0000c914: 00000000\n", None, {"registers_without_heading": 1}),
        ("Process 1 PASID 1:\n  Bad user queue type 5 on device 1\n", "mqds", {"queue_of_unknown_type": 1}),
        ("Process 1 PASID 1:\n  Compute queue on device 1\n" + cases.compute_mqd({}, header=1), "mqds",
         {"no_compute_mqd_of_gfx9_to_gfx12": 1}),
        ("$ sudo cat hqds\n    0000c9: 00\n", None, {"no_line_of_a_dump": 2}),
        (" Inst 0,  CP Pipe 0, Queue 2\ncat: hqds: Input/output error\n" + cases.cp_block(cases.RUNNING), "hqds",
         {"heading_without_registers": 1, "no_line_of_a_dump": 1, "registers_without_heading": 1}),
        ("  SDMA Engine 0, RLC 0\n" + cases.sdma_block("gfx942", cases.sdma_values("gfx942"))
         + cases.sdma_block("gfx942", cases.sdma_values("gfx942"), 0x4E40 + 0x160), "hqds",
         {"sdma_block_cut_short": 1}),
        ("Process 1 PASID 1:\n  SDMA queue on device 1\n" + cases.hex_lines(0, [0] * 6), "mqds",
         {"mqd_cut_short": 1}),
        # The line between two queues lacks.
        ("Process 1 PASID 1:\n  Compute queue on device 1\n" + cases.compute_mqd(cases.RUNNING)
         + cases.compute_mqd({**cases.RUNNING, 8: 0x1000}), "mqds", {"mqd_cut_short": 1}),
    ],
)  # fmt: skip
def test_what_is_not_understood_is_counted(text: str, kind: str | None, skipped: dict[str, int]) -> None:
    dump = _read(text)
    assert (dump.kind, dump.rows.height, _skipped(dump)) == (kind, 0, skipped)


_HQDS = "Node 1, gpu_id 65a1:\n Inst 0,  CP Pipe 0, Queue 2\n" + cases.cp_block(cases.RUNNING)
_MQDS = "Process 20 PASID 0x8001:\n  Compute queue on device 65a1\n" + cases.compute_mqd(cases.RUNNING)
_RLS = "Node 1, gpu_id 65a1:\n" + cases.hex_lines(0, cases.runlist(), "  ")


@pytest.mark.parametrize(
    "kinds",
    [
        ("hqds", "hqds"), ("mqds", "mqds"), ("rls", "rls"), ("hqds", "mqds", "rls"), ("mqds", "hqds", "hqds"),
        ("rls", "mqds"), ("hqds", "rls"),
    ],
)  # fmt: skip
def test_each_dump_of_a_file_is_one_of_its_own(kinds: tuple[str, ...]) -> None:
    """`cat hqds mqds rls`, or a dump that was read again and again."""
    texts = {"hqds": _HQDS, "mqds": _MQDS, "rls": _RLS}
    dumps = _read_all("".join(f"== {kind}\n{texts[kind]}" for kind in kinds))
    assert [d.kind for d in dumps] == list(kinds)
    alone = [_read(texts[kind]).rows.drop("offset", "logical") for kind in kinds]
    assert all(d.rows.drop(["offset", "logical"]).equals(a) for d, a in zip(dumps, alone, strict=True))
    numbers = [n for d in dumps for n in d.rows["logical"].unique().drop_nulls()]
    assert len(numbers) == len(set(numbers))


def test_slots_behind_a_lost_name_of_a_node_are_of_no_gpu() -> None:
    second = " Inst 0,  CP Pipe 0, Queue 3\n" + cases.cp_block(cases.RUNNING)
    text = _HQDS + second + "Node 2, gpu_id 7:\n" + _HQDS.split("\n", 1)[1] + second
    gpus = [0x65A1, 0x65A1, 7, 7]
    assert _read(text).rows["gpu_id"].to_list() == gpus
    assert _read(text.replace("Node 2, gpu_id 7:\n", "")).rows["gpu_id"].to_list() == [*gpus[:2], None, None]


@pytest.mark.parametrize("value", [0, 0xFFFFFFFF])
@pytest.mark.parametrize(
    "heading", [" Inst 0,  CP Pipe 0, Queue 2", "   Inst 0, HIQ on MEC 2 Pipe 0 Queue 0", "  SDMA Engine 0, RLC 1"]
)
def test_a_device_that_does_not_answer_has_no_queues(heading: str, value: int) -> None:
    if "SDMA" in heading:
        block = cases.sdma_block("gfx942", dict.fromkeys(range(0x60), value))
    else:
        block = cases.cp_block(dict.fromkeys(range(56), value))
    dump = _read(f"{_HQDS}{heading}\n{block}".replace("Queue 2", "Queue 3", 1))
    assert (dump.rows.height, _skipped(dump)) == (1, {"registers_did_not_answer": 1})


_WHOLE = (
    "Node 1, gpu_id 65a1:\n Inst 0,  CP Pipe 0, Queue 2\n" + cases.cp_block(cases.RUNNING) + "  SDMA Engine 0, RLC 0\n"
    + cases.sdma_block("gfx942", cases.sdma_values("gfx942")) + "Process 1 PASID 0x1:\n"
    + "  Compute queue on device 65a1\n" + cases.compute_mqd(cases.RUNNING)
)  # fmt: skip


_LINES = _WHOLE.splitlines(keepends=True)


@given(st.integers(0, len(_LINES)), st.integers(0, len(_LINES)))
def test_a_dump_that_lacks_lines_never_gives_a_wrong_row(first: int, last: int) -> None:
    _assert_no_wrong_row("".join(_LINES[: min(first, last)] + _LINES[max(first, last) :]))


@given(st.integers(0, len(_WHOLE)))
def test_a_dump_that_ends_anywhere_never_gives_a_wrong_row(end: int) -> None:
    _assert_no_wrong_row(_WHOLE[:end])


def _assert_no_wrong_row(cut: str) -> None:
    columns = ["offset", "logical", "dump", "gpu_id", "kfd_node", "pid", "mqd"]
    whole, rows = (pl.concat([d.rows.drop(columns) for d in _read_all(text)]) for text in (_WHOLE, cut))
    assert rows.join(whole, on=whole.columns, how="anti", nulls_equal=True).is_empty()


@given(st.binary(max_size=400))
def test_any_bytes_are_accounted_for(data: bytes) -> None:
    assert sum(dump.ledger["bytes"].sum() for dump in read_dumps(data)) == len(data)
