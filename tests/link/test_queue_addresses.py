"""Packets that print the address of their queue as its ring, as those of HIP 5.7.1 and 5.2.3 were seen to do.

SYNTHETIC lines and stores.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tracecorr.link.rings import name_rings
from tracecorr.model.schema import CAT
from tracecorr.pipeline import correlate, import_files
from tracecorr.store import Capture

_ENDS = " (type=2, barrier=1, acquire=1, release=1), setup=3, completion_signal=0x0"
_RECORD = "\x1b[32m hipEventRecord ( event:0x51, stream:0xa0 ) \x1b[0m"


def _made(queue: int) -> str:
    return f"created hardware queue {queue:#x} with size 16384 with priority 1, cooperative: 0"


def _packet(kind: str, queue: int) -> str:
    return f"HWq={queue:#x}, {kind} Header = 0xb02{_ENDS}"


def _dispatch(queue: int) -> str:
    return _packet("Dispatch", queue)


def _value(queue: int) -> str:
    return _packet("BarrierValue", queue)


def _capture(folder: Path, *messages: str) -> Capture:
    prefix = ":3:{:<25}:{:<4}: {:010d} us: [pid:7     tid:0x7f00000000a0] {}\n"
    lines = [prefix.format("rocvirtual.cpp", 965, 5_000_000_000 + 9 * n, text) for n, text in enumerate(messages)]
    (folder / "amd.log").write_text("".join(lines))
    out = folder / "log.tracecorr"
    import_files(out, [folder / "amd.log"], [])
    correlate(out)
    return Capture.open(out)


def _packets(capture: Capture) -> list[tuple[Any, ...]]:
    """Return SWq and index of each packet, by its queue."""
    launches, queues = capture.table("launches").collect(), capture.table("queues").select("queue", "swq").collect()
    return launches.sort("event").join(queues, on="queue", how="left", maintain_order="left").select(
        "swq", "packet_index"
    ).rows()  # fmt: skip


def test_the_packets_of_the_only_queue_have_its_one_ring(tmp_path: Path) -> None:
    lines = [_made(0x31), _dispatch(0x1000), _RECORD, _value(0x31), "hipEventRecord: Returned hipSuccess : "]
    capture = _capture(tmp_path, "Initializing HSA stack.", *lines, _dispatch(0x1000))
    assert _packets(capture) == [(0x31, 0), (0x31, 1), (0x31, 2)]
    assert capture.table("queues").select("swq", "hwq", "dispatches", "barriers").collect().rows() == [
        (0x31, 0x1000, 2, 1)
    ]


def test_a_barrier_that_may_be_on_any_ring_leaves_no_count(tmp_path: Path) -> None:
    """Four queues were made, of which two rings and two addresses are seen: they may be two queues, or four."""
    addresses = (0x31, 0x3A, 0x43, 0x4C)
    capture = _capture(
        tmp_path, *map(_made, addresses), _dispatch(0x1000), _value(0x31), _dispatch(0x1000), _dispatch(0x2000),
        _value(0x3A), _dispatch(0x2000),
    )  # fmt: skip
    assert _packets(capture) == [(None, None), (0x31, None), (None, None), (None, None), (0x3A, None), (None, None)]
    queues = capture.table("queues").select("swq", "hwq", "dispatches", "barriers").collect()
    assert sorted(queues.rows(), key=str) == [
        (0x31, None, 0, 1), (0x3A, None, 0, 1), (0x43, None, 0, 0), (0x4C, None, 0, 0), (None, 0x1000, 2, 0),
        (None, 0x2000, 2, 0),
    ]  # fmt: skip


def test_packets_that_all_print_addresses_are_counted_by_them(tmp_path: Path) -> None:
    """HIP 5.2.3 prints no ring at all."""
    capture = _capture(
        tmp_path, "Initializing HSA stack.", _made(0x31), _made(0x3A), _dispatch(0x31), _value(0x31), _dispatch(0x3A),
        _dispatch(0x31),
    )  # fmt: skip
    assert _packets(capture) == [(0x31, 0), (0x31, 1), (0x3A, 0), (0x31, 2)]
    assert capture.table("queues").select("swq", "hwq").collect().rows() == [(0x31, None), (0x3A, None)]


def _records(*rows: dict[str, Any]) -> tuple[pl.DataFrame, pl.DataFrame]:
    line = {"process": 0, "layer": "aql", "source": "amd_log", "file": 0, "ring": None}
    made = [{**line, "stamp_ns": n, "offset": 10 * n, **row} for n, row in enumerate(rows)]
    args = [
        {"file": row["file"], "offset": row["offset"], "key": "swq", "u64": row["swq"]} for row in made if "swq" in row
    ]
    columns = ("process", "layer", "name", "source", "file", "offset", "stamp_ns", "ring")
    types = {"process": pl.UInt32, "layer": CAT, "name": CAT, "source": CAT, "file": pl.UInt16, "ring": pl.UInt64}
    frame = pl.DataFrame([{name: row[name] for name in columns} for row in made], schema_overrides=types)
    return frame, pl.DataFrame(args, schema_overrides={"key": CAT, "u64": pl.UInt64, "file": pl.UInt16})


def _store(ring: int, swq: int) -> dict[str, Any]:
    return {"name": "doorbell", "layer": "doorbell", "source": "ftrace", "file": 1, "ring": ring, "swq": swq}


def _row(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, **more}


@pytest.mark.parametrize(
    ("stores", "ring", "unknown"),
    [
        pytest.param([_store(0x1000, 0x31)], 0x1000, [], id="told by a store"),
        pytest.param([_store(0x2000, 0x3A)], 0x31, [0], id="another queue is told"),
        pytest.param([_store(0x1000, 0x31), _store(0x2000, 0x31)], 0x31, [0], id="two rings, one after the other"),
        pytest.param([], 0x31, [0], id="nothing tells"),
    ],
)
def test_doorbell_stores_tell_the_ring_of_an_address(
    stores: list[dict[str, Any]], ring: int, unknown: list[int]
) -> None:
    rows = [_row("queue_created", swq=0x31), _row("queue_created", swq=0x3A), _row("dispatch", ring=0x1000)]
    found, unplaced = name_rings(*_records(*rows, _row("barrier_value", ring=0x31), *stores))
    assert found["ring"].to_list()[:4] == [None, None, 0x1000, ring]
    assert unplaced.to_list() == unknown


def test_an_address_is_that_of_a_queue_as_long_as_it_lives() -> None:
    """Before, behind, and in another process it is a ring; so it is where the Created line names the ring."""
    packet = _row("dispatch", ring=0x31)
    rows = [packet, _row("queue_created", swq=0x31), packet, _row("queue_deleted", swq=0x31), packet,
            {**packet, "process": 1}, _row("queue_created", swq=0x55, ring=0x66, process=1),
            _row("dispatch", ring=0x55, process=1), _store(0x1000, 0x31)]  # fmt: skip
    found, unplaced = name_rings(*_records(*rows))
    assert found["ring"].to_list() == [0x31, None, 0x1000, None, 0x31, 0x31, 0x66, 0x55, 0x1000]
    assert unplaced.is_empty()


def test_a_log_that_begins_late_may_lack_queues(tmp_path: Path) -> None:
    """The ring may be that of a queue that was made before."""
    capture = _capture(tmp_path, _made(0x31), _dispatch(0x1000), _value(0x31))
    assert _packets(capture) == [(None, None), (0x31, None)]


def _lives(capture: Capture, *names: str) -> list[tuple[str, int]]:
    """Return the lines about queues with the time when their queue was made, in the order of the log."""
    events = capture.table("events").sort("event").collect().with_columns(pl.col("name").cast(pl.String))
    queues = capture.table("queues").select("queue", "created_ns").collect()
    rows = events.filter(pl.col("name").is_in(names)).join(queues, on="queue", how="left", maintain_order="left")
    return [(name, made // 1_000 - 5_000_000_000 if made else -1) for name, made in rows.select(
        "name", "created_ns").rows()]  # fmt: skip


def test_lines_that_print_the_address_of_a_queue_are_of_its_life(tmp_path: Path) -> None:
    """Up to ROCm 6.1 an address is given out again with the next queue."""
    about = ["acquireQueue refCount: 0x31 (1)", "releaseQueue refCount:0x31 (0)"]
    ended = "deleting hardware queue 0x31 with refCount 0"
    lines = [_made(0x31), *about, ended, "selected queue refCount: 0x31 (2)", _made(0x31), *about]
    capture = _capture(tmp_path, "Initializing HSA stack.", *lines)
    names = ("queue_acquired", "queue_released", "queue_deleted", "queue_selected")
    # Between the end of one and the creation of the next the log lacks the queue that a line tells of.
    assert _lives(capture, *names) == [
        ("queue_acquired", 9), ("queue_released", 9), ("queue_deleted", 9), ("queue_selected", -1),
        ("queue_acquired", 54), ("queue_released", 54),
    ]  # fmt: skip


def test_lines_of_later_releases_that_print_the_address_have_their_queue_too(tmp_path: Path) -> None:
    """From ROCm 6.2 on Created lines name ring and address, those of a queue's end the ring alone."""
    made = "Created SWq=0x31 to map on HWq=0x1000 with size 16384 with priority 1, cooperative: 0"
    mask, ended = "Setting CU mask 0xff for hardware queue 0x31", "Deleting hardware queue 0x1000 with refCount 0"
    hostcall = "Created hostcall buffer 0x50 for hardware queue 0x31"
    capture = _capture(tmp_path, "Initializing HSA stack.", made, mask, hostcall, ended, mask, made, mask)
    assert _lives(capture, "queue_cu_mask", "hostcall_buffer_created", "queue_deleted") == [
        ("queue_cu_mask", 9), ("hostcall_buffer_created", 9), ("queue_deleted", 9), ("queue_cu_mask", -1),
        ("queue_cu_mask", 54),
    ]  # fmt: skip


@pytest.mark.parametrize("printed", [0x1000, 0x31], ids=["its ring", "its address"])
def test_a_queue_that_aborts_is_the_one_of_its_packets(tmp_path: Path, printed: int) -> None:
    aborted = f"Callback: Queue {printed:#x} aborting with error : HSA_STATUS_ERROR_EXCEPTION: bad. code: 0x1016"
    capture = _capture(tmp_path, "Initializing HSA stack.", _made(0x31), _dispatch(0x1000), aborted)
    assert _lives(capture, "queue_aborted") == [("queue_aborted", 9)]


def test_a_queue_that_aborts_is_known_by_its_packets_alone(tmp_path: Path) -> None:
    aborted = "Callback: Queue {} aborting with error : HSA_STATUS_ERROR_EXCEPTION: bad. code: 0x1016"
    capture = _capture(tmp_path, _dispatch(0x1000), aborted.format("0x1000"), aborted.format("0x2000"))
    events = capture.table("events").filter(name="queue_aborted").sort("event").collect()
    assert events["queue"].to_list() == [0, None]
