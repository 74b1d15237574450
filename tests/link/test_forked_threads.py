"""HAND-MADE: processes forked from one have the same addresses; each has threads that use one stack after the other."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from tracecorr.pipeline import correlate, import_files
from tracecorr.store import Capture

MAIN, STACK = 0x7F5190000000, 0x7F5180000000
_LIST = 0x2E0
# Each process (by pid) with its threads: tid, address, when it registered it, when it makes its call (us behind 5 s).
PROCESSES = {
    700: [(700, MAIN, 10, 100), (701, STACK, 200, 300), (702, STACK, 600, 700)],
    800: [(800, MAIN, 20, 150), (801, STACK, 400, 500), (802, STACK, 800, 900)],
}


def _log(path: Path, pid: int, log_pid: int, added_us: int) -> Path:
    start = 5_000_000 + added_us
    place = ":3:rocdevice.cpp            :468 : {:010d} us: [pid:{:<5} tid: {:#x}] Initializing HSA stack.\n"
    lines = [place.format(start + 50, log_pid, MAIN)]
    for _, address, _, us in PROCESSES[pid]:
        head = f":3:hip_memory.cpp           :777 : {{:010d}} us: [pid:{log_pid:<5} tid: {address:#x}] "
        lines.append(head.format(start + us) + "\x1b[32m hipMalloc ( 0x7f517a5fdc88, 262144 ) \x1b[0m\n")
        lines.append(head.format(start + us + 50) + "hipMalloc: Returned hipSuccess : 0x14: duration: 50 us\n")
    path.write_text("".join(lines))
    return path


def _trace(path: Path) -> Path:
    rows = []
    for pid, threads in PROCESSES.items():
        for tid, address, born, call in threads:
            for us, text in (
                (born, f"sys_set_robust_list(head: {address + _LIST:#x}, len: 0x18)"),
                (born + 1, "sys_set_robust_list -> 0x0"),
                (call + 20, "sys_ioctl(fd: 4, cmd: 0xc0284b16, arg: 0x7ffd061c4300)"), (call + 30, "sys_ioctl -> 0x0"),
            ):  # fmt: skip
                rows.append((us, f"             app-{tid:<7} ({pid:>7}) [000] .....      5.{us:06d}: {text}\n"))
    path.write_text("# tracer: nop\n" + "".join(text for _, text in sorted(rows)))
    return path


def _tables(folder: Path, log_pids: tuple[int, int], added_us: int = 0) -> Capture:
    """Return the capture; the time namespace of the processes adds `added_us` to the clock of their logs."""
    named = zip(PROCESSES, log_pids, strict=True)
    logs = [_log(folder / f"hip_{pid}", pid, log_pid, added_us) for pid, log_pid in named]
    out = folder / "case.tracecorr"
    import_files(out, logs, [_trace(folder / "ftrace.txt")], clock="mono")
    told = json.loads((out / "capture.json").read_text())
    told["timens_offsets"] = {"monotonic": 1000 * added_us, "boottime": 0}
    (out / "capture.json").write_text(json.dumps(told))
    correlate(out)
    return Capture.open(out)


@pytest.mark.parametrize("added_us", [0, 7_000_000, -4_000_000], ids=["host", "ahead", "behind"])
def test_each_thread_has_the_address_that_it_registered_in_its_own_process(tmp_path: Path, added_us: int) -> None:
    """Whatever a time namespace adds to the clock of the log."""
    capture = _tables(tmp_path, (700, 800), added_us)
    threads = capture.table("threads").drop_nulls("log_tid").sort("tid").collect()
    expected = sorted((tid, address) for rows in PROCESSES.values() for tid, address, *_ in rows)
    assert threads.select("tid", "log_tid").rows() == expected
    assert set(threads["evidence"].cast(pl.String)) == {"recorded"}
    links = capture.table("links").filter(pl.col("rule").cast(pl.String) == "syscall_in_call").collect()
    events = capture.table("events").collect()
    calls, ioctls = events["ts_ns"].gather(links["from_event"]), events["ts_ns"].gather(links["to_event"])
    assert sorted(zip(calls, ioctls, strict=True)) == [
        (5_000_000_000 + 1000 * us, 5_000_020_000 + 1000 * us)
        for us in sorted(call for rows in PROCESSES.values() for *_, call in rows)
    ]


@pytest.mark.parametrize("log_pids", [(7, 8), (7, 7)], ids=["two numbers", "one number"])
def test_processes_of_other_pid_namespaces_are_not_taken_for_each_other(
    tmp_path: Path, log_pids: tuple[int, int]
) -> None:
    threads = _tables(tmp_path, log_pids).table("threads").collect()
    shared = threads.drop_nulls(["log_tid", "tid"]).filter(pl.col("evidence").cast(pl.String) == "recorded")
    assert shared.is_empty()
