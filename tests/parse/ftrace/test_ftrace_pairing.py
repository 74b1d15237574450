"""SYNTHETIC traces in which records are missing, doubled or out of order: which enters and exits are one call."""

from __future__ import annotations

import polars as pl
import pytest
from ftrace_cases import read_text

from tracecorr.model.kinds import Flag

HEAD = "# tracer: nop\n#\n# SYNTHETIC\n"
ENTER, EXIT = "sys_ioctl(fd: 4, cmd: 0xc0284b16, arg: 0x10)", "sys_ioctl -> 0x0"
RAW_ENTER, RAW_EXIT = "sys_enter: NR 16 (4, c0284b16, 10, 0, 0, 0)", "sys_exit: NR 16 = 0"
STORE = "doorbell: (0x7f91946c11c0) sig=0x7ffb80 val=3"
WHOLE, NO_EXIT, NO_ENTER = "whole", "enter only", "exit only"


def calls_of(records: list[tuple[int, str]], chunk_bytes: int = 1 << 20) -> list[tuple[int, str]]:
    """Return time (us) and shape of each system call of one thread, of records with times (us)."""
    lines = [f"  hip-136   (    99) [001] .....    24.{at:06d}: {text}\n" for at, text in records]
    rows = read_text((HEAD + "".join(lines)).encode(), block_bytes=chunk_bytes).events
    rows = rows.filter(pl.col("layer").cast(pl.String).is_in(["ioctl", "syscall"])).sort("stamp_ns", "offset")
    shapes = {0: WHOLE, int(Flag.ENTER_ONLY): NO_EXIT, int(Flag.EXIT_ONLY): NO_ENTER}
    return [(stamp // 1000 % 1_000_000, shapes[flags]) for stamp, flags in rows.select("stamp_ns", "flags").iter_rows()]


@pytest.mark.parametrize(
    ("records", "expected"),
    [
        pytest.param([(1, ENTER), (5, EXIT), (7, ENTER), (9, EXIT)], [(1, WHOLE), (7, WHOLE)], id="complete"),
        pytest.param([(1, ENTER), (7, ENTER), (9, EXIT)], [(1, NO_EXIT), (7, WHOLE)], id="an exit is missing"),
        pytest.param([(1, ENTER), (5, EXIT), (9, EXIT)], [(1, WHOLE), (9, NO_ENTER)], id="an enter is missing"),
        pytest.param(
            [(1, ENTER), (6, STORE), (9, EXIT)], [(1, NO_EXIT), (9, NO_ENTER)], id="a store of user space between"
        ),
        pytest.param([(7, ENTER), (1, ENTER), (5, EXIT), (9, EXIT)], [(1, WHOLE), (7, WHOLE)], id="out of order"),
        pytest.param(
            [(9, EXIT), (1, ENTER), (5, ENTER), (5, EXIT)],
            [(1, NO_EXIT), (5, NO_EXIT), (5, NO_ENTER), (9, NO_ENTER)], id="out of order within one microsecond",
        ),
    ],
)  # fmt: skip
def test_an_enter_and_the_next_record_of_its_thread_are_one_call(
    records: list[tuple[int, str]], expected: list[tuple[int, str]]
) -> None:
    assert calls_of(records) == expected


@pytest.mark.parametrize("chunk_bytes", [1 << 20, 300, 100])
def test_raw_syscalls_and_syscalls_together_tell_each_call_once(chunk_bytes: int) -> None:
    one = [(1, RAW_ENTER), (1, ENTER), (5, RAW_EXIT), (5, EXIT)]
    records = [(at + 10 * n, text) for n in range(20) for at, text in one]
    assert calls_of(records, chunk_bytes) == [(1 + 10 * n, WHOLE) for n in range(20)]
    turned = [(1, ENTER), (1, RAW_ENTER), (5, EXIT), (6, RAW_EXIT)]
    records = [(at + 10 * n, text) for n in range(20) for at, text in turned]
    assert calls_of(records, chunk_bytes) == [(1 + 10 * n, WHOLE) for n in range(20)]


def test_a_call_that_only_one_of_both_tells_is_told() -> None:
    records = [(1, RAW_ENTER), (5, RAW_EXIT), (11, RAW_ENTER), (11, ENTER), (15, EXIT), (15, RAW_EXIT), (21, ENTER)]
    assert calls_of([*records, (30, EXIT)]) == [(1, WHOLE), (11, WHOLE), (21, WHOLE)]
    other = RAW_ENTER.replace("(4,", "(5,")
    assert calls_of([(1, other), (2, ENTER), (5, EXIT), (5, RAW_EXIT)]) == [(1, NO_EXIT), (2, WHOLE)]
