"""SYNTHETIC logs of a capture into a graph: calls that print no exit then do not tell that lines were lost."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from tracecorr.pipeline import correlate, import_files
from tracecorr.store import Capture

_LAUNCH = "hipModuleLaunchKernel ( 0x5, 1, 1, 1, 64, 1, 1, 0, 0x70, 0x7f10, char array:<null> )"
_NODE = "[hipGraph] Current capture node ModuleLaunchKernel on stream : 0x70"
_PACKET = (
    "SWq=0x220000, HWq=0x3c00000, id=1, Dispatch Header = 0x1502 (type=2, barrier=1, acquire=2, release=2), setup=3, "
    "grid=[64, 1, 1], workgroup=[64, 1, 1], private_seg_size=0, group_seg_size=0, kernel_obj=0x1000, "
    "kernarg_address=0x14, completion_signal=0x0, correlation_id=0, rptr=0, wptr={}"
)
Lines = list[str]


def launch(index: int) -> Lines:
    enqueued = f"Command (KernelExecution) enqueued: 0x{index + 16:x} to queue: 0x70"
    return [f"+{_LAUNCH}", enqueued, _PACKET.format(index), "hipModuleLaunchKernel: Returned hipSuccess : "]


def capture_of(*captured: str) -> Lines:
    begin = ["+hipStreamBeginCapture ( 0x70, 2 )", "hipStreamBeginCapture: Returned hipSuccess : : duration: 1 us"]
    return [*begin, *captured, "+hipStreamEndCapture ( 0x70, 0x7f20 )", "hipStreamEndCapture: Returned hipSuccess : "]


def correlated(folder: Path, lines: Lines, owner: str) -> Capture:
    """Return a capture of a log of these messages, one a microsecond."""
    rows = []
    for number, line in enumerate(lines):
        text = f"\x1b[32m {line[1:]} \x1b[0m" if line.startswith("+") else line
        rows.append(f":3:hip_module.cpp           :825 : {5000000000 + number} us: {owner} {text}\n")
    (folder / "amd.log").write_text("".join(rows))
    out = folder / "x.tracecorr"
    import_files(out, [folder / "amd.log"], [])
    correlate(out)
    return Capture.open(out)


def linked(folder: Path, lines: Lines, owner: str = "[pid:9 tid: 0x7f00]") -> tuple[int, set[str | None]]:
    """Return how many losses are told, and the reasons why links of the launches are missing."""
    capture = correlated(folder, lines, owner)
    reasons = capture.table("launches").collect()["unlinked_reason"].cast(pl.String)
    return capture.table("losses").collect().height, set(reasons)


COMPLETE = {"no kernel trace"}


def test_a_capture_is_no_loss(tmp_path: Path) -> None:
    captured = capture_of(f"+{_LAUNCH}", _NODE, f"+{_LAUNCH}", _NODE, "[hipGraph] Add KernelNode(0x3c60)")
    assert linked(tmp_path, [*launch(0), *captured, *launch(1), *launch(2)]) == (0, COMPLETE)


def test_a_capture_below_the_level_that_tells_its_nodes_is_no_loss(tmp_path: Path) -> None:
    captured = capture_of(f"+{_LAUNCH}", f"+{_LAUNCH}")
    assert linked(tmp_path, [*launch(0), *captured, *launch(1), *launch(2)]) == (0, COMPLETE)


@pytest.mark.parametrize(
    "captured", [capture_of(f"+{_LAUNCH}", _NODE), capture_of(f"+{_LAUNCH}"), []], ids=["nodes", "no nodes", "none"]
)
def test_an_exit_that_lacks_outside_of_a_capture_is_a_loss(tmp_path: Path, captured: Lines) -> None:
    lost = launch(1)[:-1]
    losses, _ = linked(tmp_path, [*launch(0), *captured, *lost, *launch(2), *launch(3)])
    assert losses == 1


def test_a_call_in_a_capture_that_tells_no_node_as_others_do_lacks_its_exit(tmp_path: Path) -> None:
    captured = capture_of(f"+{_LAUNCH}", _NODE, f"+{_LAUNCH}")
    losses, _ = linked(tmp_path, [*launch(0), *captured, *launch(1), *launch(2)])
    assert losses == 1


def test_other_calls_of_a_log_without_threads_keep_their_ends(tmp_path: Path) -> None:
    free = ["+hipFree ( 0x5 )", "hipFree: Returned hipSuccess : "]
    captured = capture_of(*[f"+{_LAUNCH}"] * 3)
    rest = [*free, *launch(0)[:1], *launch(0)[3:]] * 60
    events = correlated(tmp_path, [*captured, *rest], "").table("events").collect()
    ended = events.filter(pl.col("name").cast(pl.String) == "hipFree")["dur_ns"]
    assert ended.null_count() == 0
