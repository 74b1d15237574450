"""SYNTHETIC logs of broken captures: calls that return early print no exit, and do not tell that lines were lost."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from hip_logs import correlate_messages

LAUNCH = "hipModuleLaunchKernel ( 0x5, 1, 1, 1, 64, 1, 1, 0, 0x70, 0x7f10, char array:<null> )"
COPY = "hipMemcpyHtoDAsync ( 0x5, 0x6, 64, 0x70 )"
NODE = "[hipGraph] Current capture node ModuleLaunchKernel on stream : 0x70"
PACKET = (
    "SWq=0x220000, HWq=0x3c00000, id=1, Dispatch Header = 0x1502 (type=2, barrier=1, acquire=2, release=2), setup=3, "
    "grid=[64, 1, 1], workgroup=[64, 1, 1], private_seg_size=0, group_seg_size=0, kernel_obj=0x1000, "
    "kernarg_address=0x14, completion_signal=0x0, correlation_id=0, rptr=0, wptr={}"
)
COPIED = ["+hipMemcpyHtoDAsync ( 0x5, 0x6, 64, 0x71 )", "hipMemcpyHtoDAsync: Returned hipSuccess : : duration: 1 us"]
FREED = ["+hipFree ( 0x5 )", "hipFree: Returned hipSuccess : "]
WAIT = ["+hipStreamSynchronize ( 0x70 )", "hipStreamSynchronize: Returned hipErrorStreamCaptureUnsupported : "]
Lines = list[str]


def launch(index: int) -> Lines:
    enqueued = f"Command (KernelExecution) enqueued: 0x{index + 16:x} to queue: 0x71"
    return [f"+{LAUNCH}", enqueued, PACKET.format(index), "hipModuleLaunchKernel: Returned hipSuccess : "]


def capture_of(*captured: str, result: str = "hipErrorStreamCaptureInvalidated") -> Lines:
    begin = ["+hipStreamBeginCapture ( 0x70, 2 )", "hipStreamBeginCapture: Returned hipSuccess : : duration: 1 us"]
    end = ["+hipStreamEndCapture ( 0x70, 0x7f20 )", f"hipStreamEndCapture: Returned {result} : "]
    return [*begin, f"+{LAUNCH}", NODE, *captured, *end]


def losses(folder: Path, *lines: str) -> int:
    """Return how many losses are told of a log of these messages; `+` is an enter."""
    shown = [f"\x1b[32m {line[1:]} \x1b[0m" if line.startswith("+") else line for line in lines]
    return correlate_messages(folder, *shown).table("losses").collect().height


@pytest.mark.parametrize(
    "calls", [
        pytest.param(capture_of(*WAIT, f"+{LAUNCH}", f"+{COPY}"), id="behind the call that breaks the capture"),
        pytest.param(capture_of(f"+{LAUNCH}", "+hipDeviceSynchronize (  )"), id="the end tells it"),
        pytest.param(capture_of(*WAIT, f"+{LAUNCH}", result="hipSuccess"), id="a call tells it"),
        pytest.param([*capture_of(*WAIT), f"+{LAUNCH}"], id="a launch behind the end of the capture"),
        pytest.param(capture_of(*WAIT, f"+{LAUNCH}")[:-2], id="a capture without end"),
    ],
)  # fmt: skip
def test_a_call_that_returns_early_in_a_broken_capture_is_no_loss(tmp_path: Path, calls: Lines) -> None:
    waited = ["+hipDeviceSynchronize (  )", "hipDeviceSynchronize: Returned hipSuccess : "]
    assert losses(tmp_path, *launch(0), *COPIED, *waited, *calls, *launch(1), *launch(2)) == 0


@pytest.mark.parametrize(
    "calls", [
        pytest.param(capture_of(f"+{LAUNCH}", result="hipSuccess"), id="the capture did not break"),
        pytest.param([f"+{LAUNCH}", *capture_of(*WAIT)], id="before the capture"),
        pytest.param([*capture_of(*WAIT), f"+{COPY}"], id="a function that submits no packets"),
        pytest.param([*capture_of(*WAIT), *launch(1)[:-1]], id="it did something"),
        pytest.param([*capture_of(*WAIT, f"+{LAUNCH}", "Host wait on completion_signal=0x5")], id="it waited"),
    ],
)  # fmt: skip
def test_other_calls_without_exit_lack_it(tmp_path: Path, calls: Lines) -> None:
    rest = [*launch(2 if PACKET.format(1) in calls else 1), *FREED]
    assert losses(tmp_path, *launch(0), *COPIED, *calls, *rest) > 0


def test_a_launch_behind_a_broken_capture_may_lack_its_lines_where_others_lack(tmp_path: Path) -> None:
    behind = [*capture_of(*WAIT), f"+{LAUNCH}"]
    assert losses(tmp_path, *launch(0), *behind, *launch(2), *launch(3)) > 0


def enqueue(index: int) -> Lines:
    """Return a launch whose packet another thread writes."""
    enqueued = f"Command (KernelExecution) enqueued: 0x{index + 16:x} to queue: 0x71"
    return [f"+{LAUNCH}", enqueued, "hipModuleLaunchKernel: Returned hipSuccess : "]


def submit(index: int) -> Lines:
    return [f"@Command (KernelExecution) submitted: 0x{index + 16:x}", "@" + PACKET.format(index)]


@pytest.mark.parametrize(("written", "lost"), [((0, 1, 2), False), ((0, 2), True), ((0,), True)])
def test_packets_that_worker_threads_write_tell_that_a_launch_behind_a_broken_capture_did_nothing(
    tmp_path: Path, written: tuple[int, ...], lost: bool
) -> None:
    """Direct Dispatch is off; a queue whose last packet comes before the launch tells nothing of it."""
    rest = [line for index in written[1:] for line in [*enqueue(index), *submit(index)]]
    assert bool(losses(tmp_path, *enqueue(0), *submit(0), *capture_of(*WAIT), f"+{LAUNCH}", *rest, *FREED)) == lost


def test_barriers_behind_a_broken_capture_are_counted_where_their_lines_print_no_index(tmp_path: Path) -> None:
    """Up to HIP 6.4 they print none."""
    barrier = PACKET.split(", grid")[0].replace("Dispatch Header = 0x1502 (type=2", "Barrier Header = 0x1503 (type=3")
    bare = f"{barrier}, dep_signal=[0x0 0x0 0x0 0x0 0x0], completion_signal=0x7f01"
    lines = [*launch(0), *capture_of(*WAIT), f"+{LAUNCH}", *launch(1), bare]
    shown = [f"\x1b[32m {line[1:]} \x1b[0m" if line.startswith("+") else line for line in lines]
    made = "Created SWq=0x220000 to map on HWq=0x3c00000 with size 16384 with priority 1, cooperative: 0"
    launches = correlate_messages(tmp_path, made, *shown).table("launches").sort("event").collect()
    assert launches["packet_index"].to_list() == [0, 1, 2]


def test_an_exit_that_lacks_elsewhere_in_the_log_makes_both_doubtful(tmp_path: Path) -> None:
    behind = [*capture_of(*WAIT), f"+{LAUNCH}"]
    assert losses(tmp_path, *launch(0), *behind, *launch(1), *FREED, FREED[0], *launch(2)) == 2


def test_an_error_that_a_function_inside_hip_tells_leaves_the_call_its_end(tmp_path: Path) -> None:
    """HIP 7.2.4 prints `hipStreamSynchronize_common: Returned`, and no enter, only where it returns an error."""
    waits = [["+hipStreamSynchronize ( 0x70 )", "hipStreamSynchronize: Returned hipSuccess : "]] * 8
    inner = "hipStreamSynchronize_common: Returned hipErrorStreamCaptureUnsupported : "
    lines = [line for wait in waits for line in wait] + [WAIT[0], inner, WAIT[1]]
    shown = [f"\x1b[32m {line[1:]} \x1b[0m" if line.startswith("+") else line for line in lines]
    calls = correlate_messages(tmp_path, *shown).table("events").collect()
    ended = calls.filter(pl.col("name").cast(pl.String) == "hipStreamSynchronize")["dur_ns"]
    assert (len(ended), ended.null_count()) == (9, 0)
