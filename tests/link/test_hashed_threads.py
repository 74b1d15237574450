"""Logs that print a hash in the place of a thread's address, as ROCm's development branch of 2026 does (SYNTHETIC)."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from tracecorr.link.threads.hashed_tids import SHARED_NUMBER, hash_addresses, name_rocr_threads
from tracecorr.link.threads.thread_map import ROBUST_LIST_OFFSET, map_threads
from tracecorr.model import schema
from tracecorr.pipeline import correlate, import_files
from tracecorr.store import Capture

_ADDRESS, _RING = 0x7FB85B569880, 0x3C00000
_MADE = f"Created SWq=0x220000 to map on HWq={_RING:#x} with size 16384 with priority 1, cooperative: 0"
_LINES = (
    (10, 3, "\x1b[32m hipStreamCreate ( 0x7ffc ) \x1b[0m"),
    (20, 3, "Number of allocated hardware queues with low priority: 0, with normal priority: 0, "
            "with high priority: 0, maximum per priority is: 4"),
    (90, 3, _MADE),
    (99, 3, "hipStreamCreate: Returned hipSuccess : 0x55c431a2a210"),
)  # fmt: skip
_RECORDS = (
    (1, f"sys_set_robust_list(head: {_ADDRESS + 0x2E0:#x}, len: 0x18)"),
    (2, "sys_set_robust_list -> 0x0"),
    (30, "sys_ioctl(fd: 4, cmd: 0xc0604b02, arg: 0x7ffc)"),
    (31, f"kcq: (kfd_ioctl_create_queue+0x4/0x570 [amdgpu]) ring={_RING:#x} size=1048576 gpu=0xf7bc qtype=2 prio=7"),
    (40, "sys_ioctl -> 0x0"),
)


def _processes(folder: Path, tid: int) -> list[tuple[int | None, int | None]]:
    """Return pid and log_pid of the processes of a log whose lines print a thread, and of the trace of a pid alike."""
    prefix = ":{}:rocdevice.cpp            :2952: {:010d} us: [pid:10 tid: 0x{:05x}] {}\n"
    (folder / "amd.log").write_text("".join(prefix.format(n, 5_000_000_000 + at, tid, text) for at, n, text in _LINES))
    record = "  python-11   (     10) [000] .....  5000.{:06d}: {}\n"
    text = "".join(record.format(at, body) for at, body in _RECORDS)
    (folder / "trace.txt").write_text(f"# tracer: nop\n#\n{text}")
    import_files(folder / "x.tracecorr", [folder / "amd.log"], [folder / "trace.txt"], clock="mono")
    correlate(folder / "x.tracecorr")
    rows = Capture.open(folder / "x.tracecorr").table("processes").select("pid", "log_pid").collect().rows()
    return [(pid, log_pid) for pid, log_pid in rows]


@pytest.mark.parametrize(
    ("tid", "found"),
    [
        (_ADDRESS, [(10, 10)]),
        (0x0A1B2, [(10, 10)]),
        # The thread that made the queue has another address than all of the log: that is of another run.
        (_ADDRESS + 0x100000, [(None, 10), (10, None)]),
    ],
    ids=["address", "hash", "address of another run"],
)
def test_a_hash_tells_not_that_a_trace_is_of_another_run(
    tmp_path: Path, tid: int, found: list[tuple[int | None, int | None]]
) -> None:
    assert _processes(tmp_path, tid) == found


@pytest.mark.parametrize(
    ("address", "printed"),
    # As g++ 12 computes them: std::hash<std::thread::id> & 0xFFFFF.
    [
        (0x7F3E10230740, 0x19DC9), (0x7FD5BFA8D640, 0x00661), (0x76EEA3FFF6C0, 0xE83E8), (0x1, 0x48EB7),
        (0x7FFFF7D8A740, 0xD7167), (0x73E2EC01CB20, 0x11630),
    ],
)  # fmt: skip
def test_the_hash_of_an_address_is_that_of_libstdcxx(address: int, printed: int) -> None:
    assert hash_addresses(pl.Series([address], dtype=pl.UInt64)).to_list() == [printed]


def _map(log: list[tuple[int, int]], lists: list[tuple[int, int, int]]) -> dict[int, tuple[int | None, str | None]]:
    """Return log_tid -> tid and how, of (pid, tid) of a log and (tgid, tid, address) of a trace."""
    records = schema.PART_EVENTS.conform(pl.DataFrame({
        "file": [0] * len(log) + [1] * len(lists), "offset": range(len(log) + len(lists)),
        "stamp_ns": range(len(log) + len(lists)), "pid": [p for p, _ in log] + [p for p, _, _ in lists],
        "tid": [t for _, t in log] + [t for _, t, _ in lists],
        "layer": ["signal"] * len(log) + ["syscall"] * len(lists),
        "name": ["x"] * len(log) + ["set_robust_list"] * len(lists),
        "arg": [None] * len(log) + [a + ROBUST_LIST_OFFSET for *_, a in lists],
    }))  # fmt: skip
    found = map_threads(records.filter(file=0), records.filter(file=1)).threads
    return {row["log_tid"]: (row["tid"], row["how"]) for row in found.drop_nulls("log_tid").to_dicts()}


# Two addresses with one hash (found by search), and one beside them.
_TWIN, _OTHER_TWIN, _LONE = 0x7F0000005D80, 0x7F000000D100, 0x7FD5BFA8D640


def test_a_hash_of_one_thread_is_that_thread_and_one_of_two_is_none() -> None:
    shared, lone = hash_addresses(pl.Series([_TWIN, _LONE], dtype=pl.UInt64)).to_list()
    trace = [(10, 11, _TWIN), (10, 12, _OTHER_TWIN), (10, 13, _LONE)]
    assert _map([(10, shared), (10, lone)], trace) == {
        shared: (None, SHARED_NUMBER), lone: (13, "set_robust_list (hash)"),
    }  # fmt: skip


def test_a_hash_of_another_process_is_no_thread_unless_a_second_one_agrees() -> None:
    first, second = hash_addresses(pl.Series([_TWIN, _LONE], dtype=pl.UInt64)).to_list()
    trace = [(20, 21, _TWIN), (20, 22, _LONE), (30, 31, _LONE)]
    assert _map([(7, first)], trace) == {first: (None, None)}
    assert _map([(7, first), (7, second)], trace) == {
        first: (21, "set_robust_list (hash)"), second: (22, "set_robust_list (hash)"),
    }  # fmt: skip


def test_lines_of_rocr_are_of_the_thread_whose_hash_hip_prints() -> None:
    hashed = hash_addresses(pl.Series([_LONE], dtype=pl.UInt64)).item()
    rows = pl.DataFrame({"source": ["amd_log"] * 3, "file": [0] * 3, "pid": [7] * 3, "tid": [hashed, _LONE, _TWIN]},
                        schema_overrides={"pid": pl.UInt32, "tid": pl.UInt64})  # fmt: skip
    assert name_rocr_threads(rows)["tid"].to_list() == [hashed, hashed, _TWIN]
