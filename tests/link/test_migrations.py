"""Memory that HIP has moved by ROCr completes signals that packets had before (SYNTHETIC logs)."""

from __future__ import annotations

from pathlib import Path

import polars as pl
from hip_logs import correlate_messages

from tracecorr.store import Capture

_CREATED = "Created SWq=0x22 to map on HWq=0x50 with size 64 with priority 1, cooperative: 0"
_PREFETCH = "HSA prefetch async dev_ptr=0x7f10, count=8192, wait_event=0x0, completion_signal={:#x}"
_TIME = "Signal = ({:#x}), Translated start/end = {} / {}, Elapsed = 70 ns, ticks start/end = 1 / 8, Ticks elapsed = 7"


def _packet(name: str, index: int, signal: int, waited: int = 0) -> str:
    depends = f"dep_signal=[{waited:#x}, 0x0, 0x0, 0x0, 0x0], " if name == "BarrierAND" else ""
    return (
        f"SWq=0x22, HWq=0x50, id=1, {name} Header = 0x1502 (type=2, barrier=1, acquire=2, release=2), {depends}"
        f"completion_signal={signal:#x}, rptr={index}, wptr={index}"
    )


def _links(capture: Capture, rule: str) -> int:
    return capture.table("links").filter(pl.col("rule").cast(pl.String) == rule).collect().height


def _read(folder: Path, *between: str) -> Capture:
    lines = (_CREATED, _packet("Dispatch", 0, 0xA00), *between, _packet("BarrierAND", 1, 0xB00, 0xA00))
    return correlate_messages(folder, *lines)


def test_what_waits_for_a_migration_does_not_wait_for_the_packet_before(tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    assert _links(_read(tmp_path / "plain"), "signal_dependency") == 1
    assert _links(_read(tmp_path, _PREFETCH.format(0xA00)), "signal_dependency") == 0


def test_the_time_of_a_migration_is_not_that_of_the_packet_before(tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    time = _TIME.format(0xA00, 5_000_000_001_100, 5_000_000_001_170)
    assert _links(_read(tmp_path / "plain", time), "gpu_time_of_signal") == 1
    assert _links(_read(tmp_path, _PREFETCH.format(0xA00), time), "gpu_time_of_signal") == 0


def test_a_time_that_the_runtime_calls_invalid_is_not_that_of_the_packet(tmp_path: Path) -> None:
    times = [_TIME.format(signal, 5_000_000_001_100, 5_000_000_001_170) for signal in (0xA00, 0xB00)]
    made = correlate_messages(
        tmp_path, _CREATED, _packet("Dispatch", 0, 0xA00), _packet("Dispatch", 1, 0xB00),
        "Invalid signal timing: start=9, end=7, signal=0xa02", *times,
    )  # fmt: skip
    assert made.table("launches").sort("packet_index").collect()["gpu_start_ns"].is_null().to_list() == [True, False]
