"""Copies that ROCr refuses are none, and the kernel that HIP takes instead is (SYNTHETIC logs as HIP 7.2.4).

The lines are those of hipMemcpyPeerAsync of HIP 7.2.4 on null GPUs, between which it asks for an engine that ROCr does
not use.
"""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from hip_logs import correlate_messages
from index_logs import records

from tracecorr.analyze.memory import summarize_copies
from tracecorr.link.launches import name_refused_copies
from tracecorr.store import Capture

_REFUSED = "HSA copy failed with code 4097, falling to Blit copy"
_KERNEL = (
    "ShaderName : __amd_rocclr_copyBuffer",
    "SWq=0x22, HWq=0x3c00000, id=6, Dispatch Header = 0x1502 (type=2), setup=1, rptr=0, wptr=0",
)


def _copy(signal: int, size: int = 4194304) -> str:
    return (
        f"HSA Copy copy_engine=0x1, dst=0x302d800000, src=0x302a000000, size={size}, forceSDMA=1, engineType=4, "
        f"wait_event=0x0, completion_signal={signal:#x}"
    )


def _correlate(folder: Path, *inside: str) -> Capture:
    enqueue = "Command (CopyDeviceToDevice) enqueued: 0x51 to queue: 0x66"
    call = ("\x1b[32m hipMemcpyPeerAsync ( 0x66 ) \x1b[0m", enqueue)
    return correlate_messages(folder, *call, *inside, "hipMemcpyPeerAsync: Returned hipSuccess : : duration: 9 us")


def _submitted(capture: Capture) -> list[tuple[object, ...]]:
    launches = capture.table("launches").sort("event").collect()
    return launches.select(pl.col("kind").cast(pl.String), "signal").rows()


def _names(capture: Capture) -> list[str]:
    events = capture.table("events").filter(pl.col("layer") == "copy").sort("event").collect()
    return events["name"].cast(pl.String).to_list()


def test_a_refused_copy_is_not_among_what_was_submitted(tmp_path: Path) -> None:
    capture = _correlate(tmp_path, _copy(0xA0), _REFUSED, *_KERNEL)
    assert _submitted(capture) == [("dispatch", None)]
    assert _names(capture) == ["copy_refused", "copy_failed"]


def test_the_copy_before_a_refused_one_is_not_refused(tmp_path: Path) -> None:
    capture = _correlate(tmp_path, _copy(0xA0), _copy(0xA1), _REFUSED, *_KERNEL)
    assert _submitted(capture) == [("copy", 0xA0), ("dispatch", None)]


def test_a_failure_behind_another_line_is_of_a_copy_that_the_log_does_not_show(tmp_path: Path) -> None:
    capture = _correlate(tmp_path, _copy(0xA0), "Last copy mask 0x1", _REFUSED, *_KERNEL)
    assert _submitted(capture) == [("copy", 0xA0), ("dispatch", None)]


def test_the_bytes_of_refused_copies_are_told_apart(tmp_path: Path) -> None:
    capture = _correlate(tmp_path, _copy(0xA0, 64), _copy(0xA1, 128), _REFUSED, *_KERNEL)
    rows = summarize_copies(*(capture.table(name) for name in ("events", "launches", "kernels")))
    assert rows.select("path", "copies", "bytes").rows() == [
        ("requested from ROCr and refused, then done by a blit kernel", 1, 128),
        ("copy engine (SDMA)", 1, 64),
        ("blit kernel __amd_rocclr_copyBuffer", 1, None),
    ]


def _row(name: str, thread: int = 0, layer: str = "copy", **more: object) -> dict[str, object]:
    return {"name": name, "thread": thread, "layer": layer, **more}


@pytest.mark.parametrize(
    ("rows", "refused"),
    [
        pytest.param([_row("copy"), _row("copy", 1), _row("copy_failed", 1), _row("copy_failed")], {0, 1}, id="two"),
        pytest.param([_row("copy"), _row("copy_failed", 1)], set(), id="the failure of another thread"),
        pytest.param([_row("copy"), _row("copy_failed", file=1)], set(), id="the failure of another log"),
        pytest.param([_row("copy"), _row("copy", layer="gpu"), _row("copy_failed")], {0}, id="a GPU time between"),
        pytest.param([_row("copy"), _row("copy_mask"), _row("copy_failed")], set(), id="another line between"),
        pytest.param([_row("handler", layer="signal"), _row("copy_failed")], set(), id="no copy before"),
    ],
)  # fmt: skip
def test_the_copy_in_the_line_before_in_its_thread_is_refused(rows: list[dict[str, object]], refused: set[int]) -> None:
    frame = records(*rows).with_row_index("event")
    for given in (frame, frame.reverse()):
        named = name_refused_copies(given).filter(pl.col("name").cast(pl.String) == "copy_refused")
        assert set(named["event"]) == refused
