"""Logs of ROCm 4.2 to 4.5: HIP calls print pid and thread, packets the thread alone, the rest neither (SYNTHETIC)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tracecorr.pipeline import correlate, import_files
from tracecorr.store import Capture

_THREAD = 0x7FB360AD23C0
_PACKET = (
    "HWq=0x7fb360aa6000, Dispatch Header = 0x502 (type=2, barrier=1, acquire=2, release=0), setup=1, grid=[256, 1, 1], "
    "workgroup=[256, 1, 1], private_seg_size=0, group_seg_size=0, kernel_obj=0x7f, kernarg_address=0x7e, "
    "completion_signal=0x0"
)


def _call(pid: int, tid: int, name: str = "hipLaunchKernel") -> tuple[str, str]:
    return f"{pid:<5}: [{tid:x}] {name} ( 0x7fb3559704f0 )", f"{pid:<5}: [{tid:x}] {name}: Returned hipSuccess : "


def _launch(pid: int, tid: int) -> list[str]:
    enter, leave = _call(pid, tid)
    return [enter, f"[{tid:x}]!\tShaderName : vadd", f"[{tid:x}] {_PACKET}", leave]


def _launches(folder: Path, *messages: str) -> list[tuple[int | None, bool, bool]]:
    """Return the process of each dispatch, whether its call and whether its kernel are known."""
    line = ":3:rocvirtual.cpp           :843 : {:010d} us: {}\n"
    (folder / "amd.log").write_text("".join(line.format(266_505_000_000 + 7 * n, m) for n, m in enumerate(messages)))
    import_files(folder / "x.tracecorr", [folder / "amd.log"], [])
    correlate(folder / "x.tracecorr")
    rows = Capture.open(folder / "x.tracecorr").table("launches").sort("event").collect()
    columns = rows.select("process", "call_event", "kernel").rows()
    return [(process, call is not None, kernel is not None) for process, call, kernel in columns]


@pytest.mark.parametrize(
    ("messages", "found"),
    [
        (_launch(70, _THREAD), [(0, True, True)]),
        # Each of two threads has its own.
        ([*_launch(70, _THREAD), *_launch(71, _THREAD + 64)], [(0, True, True), (1, True, True)]),
        # A forked child has the address of its parent's thread: whose packets they are is not known.
        ([*_launch(70, _THREAD), *_launch(71, _THREAD)], [(None, False, False)] * 2),
        # A thread that calls nothing.
        ([*_call(70, _THREAD), f"[{_THREAD + 64:x}] {_PACKET}"], [(None, False, False)]),
    ],
    ids=["one process", "two processes", "a forked child", "a thread without calls"],
)
def test_a_packet_is_of_the_process_whose_calls_its_thread_makes(
    tmp_path: Path, messages: list[str], found: list[tuple[int | None, bool, bool]]
) -> None:
    assert _launches(tmp_path, *messages) == found
