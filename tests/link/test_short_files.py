"""HAND-MADE logs that lack lines of packets, which no packet index tells: then nothing is counted."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from index_logs import HALVES, counted, line, made, packet, records

from tracecorr.link.packets.packet_index import complete_indexes
from tracecorr.link.packets.packet_losses import list_short_files
from tracecorr.model.kinds import COMMAND_MENTIONS, SUBMITTED


@pytest.mark.parametrize(
    "more",
    [
        pytest.param([{"name": "host_wait", "layer": "signal", "signal": 0x80}], id="nothing completes a signal"),
        pytest.param([line(0, name="KernelExecution"), line(0)], id="a kernel without its dispatch"),
        pytest.param([{"name": "hipFree", "layer": "hip", "flags": f} for f in HALVES], id="halves of calls"),
    ],
)
def test_in_a_log_that_lacks_packets_nothing_is_counted(more: list[dict[str, Any]]) -> None:
    rows = records(made(), line(0), packet(0), line(0), packet(0), *more)
    assert list_short_files(rows).to_list() == [0]
    assert counted(complete_indexes(rows)) == [None, None]


@pytest.mark.parametrize("name", ["handler", "gpu_time", "host_wait", "host_active_wait"])
def test_a_signal_that_only_another_process_completes_shows_a_loss(name: str) -> None:
    wait = {"name": name, "layer": "signal", "signal": 0x80}
    rows = records(packet(signal=0x80, process=1, file=1), packet(signal=0x90), wait)
    assert list_short_files(rows).to_list() == [0]
    copied = {"name": "copy", "layer": "copy", "signal": 0x80}
    assert list_short_files(records(copied, wait)).is_empty()
    # A line that names none.
    assert list_short_files(records(packet(), {**wait, "signal": 0}, {**wait, "signal": None})).is_empty()


def test_commands_end_in_the_order_of_time_whatever_part_of_the_log_was_read_first() -> None:
    begin, end = ({"name": name, "layer": "command", "command": 0x51} for name in ("KernelExecution", "complete"))
    rows = records(*(row for n in range(3) for row in (begin, packet(0, n), end)))
    assert list_short_files(rows).is_empty()
    assert list_short_files(pl.concat([rows[2:], rows[:2]])).is_empty()
    # A line that enqueued one lacks.
    assert list_short_files(rows.filter(pl.col("offset") != 30)).to_list() == [0]


@pytest.mark.parametrize("name", ["barrier_and", "barrier_value"])
def test_a_barrier_may_end_before_its_line_is_printed(name: str) -> None:
    """HIP prints a barrier's line behind its doorbell store; ROCr's thread may tell of its end in between."""
    ended = {"name": "handler", "layer": "signal", "signal": 0x80, "thread": 1}
    rows = records(made(), line(0), packet(0), line(0), ended, packet(0, name=name, signal=0x80))
    assert list_short_files(rows).is_empty()
    assert counted(complete_indexes(rows)) == [0, 1]
    # Its thread had not begun with it, or writes a dispatch, whose line comes first: a line lacks.
    early = records(line(0), ended, line(0), packet(0, name=name, signal=0x80))
    assert list_short_files(early).to_list() == [0]
    assert list_short_files(records(line(0), ended, packet(0, signal=0x80))).to_list() == [0]


def test_a_signal_is_completed_in_the_part_of_the_log_that_was_read_last() -> None:
    """The file that was read first goes on where the other one ends."""
    wait = {"name": "host_wait", "layer": "signal", "signal": 0x80}
    rows = records(
        {**wait, "stamp_ns": 8000}, packet(signal=0x80, stamp_ns=9000),
        packet(signal=0x80, stamp_ns=1000, file=1), {**wait, "stamp_ns": 2000, "file": 1},
    )  # fmt: skip
    assert list_short_files(rows).is_empty()


@pytest.mark.parametrize("between", [*COMMAND_MENTIONS, SUBMITTED, "complete"])
def test_lines_that_enqueue_nothing_may_stand_before_a_kernels_dispatch(between: str) -> None:
    kernel = line(0, name="KernelExecution")
    whole = [kernel, line(0, name=between), packet(0)]
    # The log ends before the last one's.
    assert list_short_files(records(*whole, *whole, kernel)).is_empty()
    wait = {"name": "host_blocked_wait", "layer": "signal", "signal": 0x80}
    assert list_short_files(records(*whole, kernel, line(0, name=between), wait, *whole)).to_list() == [0]


def test_a_kernels_dispatch_is_that_of_its_thread_and_log() -> None:
    kernels = [line(thread, name="KernelExecution") for thread in (0, 1)]
    assert list_short_files(records(*kernels, packet(0), packet(1))).is_empty()
    # The second log shows no dispatch at all.
    rows = records(kernels[0], packet(0), *({**kernels[0], "file": 1, "process": 1, "thread": 5} for _ in range(2)))
    assert list_short_files(rows).to_list() == [1]


@pytest.mark.parametrize(("between", "expected"), [([], [0]), ([{"name": SUBMITTED}], [])])
def test_a_log_of_workers_lacks_a_kernel_that_none_submits_before_its_pointer_comes_again(
    between: list[dict[str, Any]], expected: list[int]
) -> None:
    command = {"layer": "command", "command": 0x10}
    kernels = [{**line(0, name="KernelExecution"), **command}, *({**line(2, **row), **command} for row in between)]
    again = [{**line(0), **command}]
    worked = [{**line(1, name="KernelExecution"), "command": 0x20}, {**line(2, name=SUBMITTED), "command": 0x20}]
    rows = records(made(), *worked, packet(2), *kernels, *again, packet(2))
    assert list_short_files(rows).to_list() == expected


def test_a_thread_whose_kernels_workers_submit_may_write_a_dispatch_itself() -> None:
    """HIP 6.4.3 without Direct Dispatch: a copy that its thread waits for is no work of the worker's."""
    kernels = [{**line(0, name="KernelExecution"), "command": command} for command in (0x10, 0x20)]
    taken = [{**line(1, name=SUBMITTED), "command": command} for command in (0x10, 0x20)]
    rows = [made(), *kernels, taken[0], packet(1), line(0), taken[1], packet(1), line(0), packet(0)]
    assert list_short_files(records(*rows)).is_empty()
    # What the thread submits itself is its own to write.
    assert list_short_files(records(*({**row, "thread": 0} for row in rows))).to_list() == [0]


def test_a_log_without_dispatches_lacks_those_of_its_kernels() -> None:
    barrier = packet(0, name="barrier_and", signal=0x80)
    wait = {"name": "host_wait", "layer": "signal", "signal": 0x80}
    kernel, worker = line(0, name="KernelExecution"), packet(1)
    assert list_short_files(records(made(), kernel, kernel, barrier, wait)).to_list() == [0]
    assert list_short_files(records(made(), kernel, worker, kernel, worker, barrier, wait)).to_list() == []


@pytest.mark.parametrize(("written", "expected"), [([packet(2)], []), ([], [0])])
def test_a_worker_that_submits_a_kernel_writes_its_dispatch_before_it_takes_the_next(
    written: list[dict[str, Any]], expected: list[int]
) -> None:
    """No dispatch is left of the log, or some are: a pointer that was a kernel's is a copy's the next time."""
    kernel, copy = ({**line(0, name=name), "command": 0x10} for name in ("KernelExecution", "CopyHostToDevice"))
    taken = {**line(2, name=SUBMITTED), "command": 0x10}
    rows = [made(), kernel, taken, *written, copy, taken, {**taken, "command": 0x30}, *written]
    assert list_short_files(records(*rows)).to_list() == expected
