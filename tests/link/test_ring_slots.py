"""Packets of graphs that print their slot in the ring have the index that is left for them (SYNTHETIC log of 2026)."""

from __future__ import annotations

from pathlib import Path

from hip_logs import correlate_messages

from tracecorr.analyze.verdicts import judge_capture
from tracecorr.link.packet_index import measure_depth
from tracecorr.store import Capture

_SIZE = 64


def _packet(index: int, read: int, *, is_slot: bool = False) -> str:
    printed = index % _SIZE if is_slot else index
    return (
        "SWq=0x22, HWq=0x50, id=1, priority=1, Dispatch Header = 0x1502 (type=2, barrier=1, acquire=2, release=2), "
        "setup=1, grid=[64, 1, 1], workgroup=[64, 1, 1], private_seg_size=0, group_seg_size=0, kernel_obj=0x1, "
        f"kernarg_address=0x2, completion_signal=0x0, rptr={read}, wptr={printed}"
    )


def _launch(first: int, count: int, read: int) -> list[str]:
    name = "Graph ShaderName : k(int*), device id : 0"
    lines = ["\x1b[32m hipGraphLaunch ( 0x66, 0x77 ) \x1b[0m"]
    for index in range(first, first + count):
        lines += [name, _packet(index, read, is_slot=True)]
    return [*lines, "hipGraphLaunch: Returned hipSuccess : : duration: 9 us"]


def _outcome(capture: Capture, claim: str) -> str:
    (verdict,) = judge_capture(capture.table, names=[claim])
    return str(verdict.outcome)


def test_slots_are_no_indexes_and_packets_that_print_one_keep_theirs(tmp_path: Path) -> None:
    made = f"Created SWq=0x22 to map on HWq=0x50 with size {_SIZE} with priority 1, cooperative: 0"
    lines = [made, *(_packet(index, index) for index in range(60)), *_launch(60, 8, 58), _packet(68, 66)]
    lines += [*_launch(69, 4, 66), _packet(73, 70)]
    capture = correlate_messages(tmp_path, *lines)
    launches = capture.table("launches").sort("event").collect()
    slots = [*range(64, 68), *range(69, 73)]
    assert launches["wptr"].to_list() == [None if index in slots else index for index in range(74)]
    assert launches.select(measure_depth()).to_series().max() == 6
    assert _outcome(capture, "packet_sequence_complete") == "UNKNOWN"
