"""SYNTHETIC traces in which records are missing or doubled: which enters and exits are one call."""

from __future__ import annotations

import polars as pl
import pytest
from ftrace_cases import read_text

from tracecorr.model.kinds import Flag

HEAD = "# tracer: nop\n#\n# SYNTHETIC\n"
ENTER, EXIT = "sys_ioctl(fd: 4, cmd: 0xc0284b16, arg: 0x10)", "sys_ioctl -> 0x0"
RAW_ENTER, RAW_EXIT = "sys_enter: NR 16 (4, c0284b16, 10, 0, 0, 0)", "sys_exit: NR 16 = 0"
INTO = "kfd_ioctl: (kfd_ioctl+0x4/0x570 [amdgpu]) cmd=0xc0284b16 arg=0x10"
OUT = "kfd_ioctl_ret: (__x64_sys_ioctl+0x94/0xc0 <- kfd_ioctl) ret=0"
AROUND = "do: (do_syscall_64+0x0/0x90) nr=16"
AROUND_OUT = "do_ret: (entry_SYSCALL_64_after_hwframe+0x46/0xb0 <- do_syscall_64) ret=0"
WHOLE, NO_EXIT, NO_ENTER = "whole", "enter only", "exit only"


def calls_of(
    records: list[tuple[int, str]], chunk_bytes: int = 1 << 20, layers: tuple[str, ...] = ("ioctl", "syscall")
) -> list[tuple[int, str]]:
    """Return time (us) and shape of each system call of one thread, of records with times (us)."""
    lines = [f"  hip-136   (    99) [001] .....    24.{at:06d}: {text}\n" for at, text in records]
    rows = read_text((HEAD + "".join(lines)).encode(), block_bytes=chunk_bytes).events
    rows = rows.filter(pl.col("layer").cast(pl.String).is_in(layers)).sort("stamp_ns", "offset")
    shapes = {0: WHOLE, int(Flag.ENTER_ONLY): NO_EXIT, int(Flag.EXIT_ONLY): NO_ENTER}
    return [(stamp // 1000 % 1_000_000, shapes[flags]) for stamp, flags in rows.select("stamp_ns", "flags").iter_rows()]


@pytest.mark.parametrize(
    ("records", "expected"),
    [
        pytest.param([(1, ENTER), (5, EXIT), (7, ENTER), (9, EXIT)], [(1, WHOLE), (7, WHOLE)], id="complete"),
        pytest.param([(1, ENTER), (7, ENTER), (9, EXIT)], [(1, NO_EXIT), (7, WHOLE)], id="an exit is missing"),
        pytest.param([(1, ENTER), (5, EXIT), (9, EXIT)], [(1, WHOLE), (9, NO_ENTER)], id="an enter is missing"),
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


ONE = [(1, ENTER), (2, INTO), (8, OUT), (9, EXIT)]


def functions_of(records: list[tuple[int, str]], chunk_bytes: int = 1 << 20) -> list[tuple[int, str]]:
    """Return time (us) and shape of each kernel function."""
    return calls_of(records, chunk_bytes, ("kfd", "other"))


def later(by: int, records: list[tuple[int, str]]) -> list[tuple[int, str]]:
    return [(at + by, text) for at, text in records]


def test_a_function_around_a_system_call_is_whole() -> None:
    """The enter of do_syscall_64 comes before the record of its call, its exit behind it."""
    one = [(0, AROUND), *ONE, (10, AROUND_OUT)]
    assert functions_of([*one, *later(20, one)]) == [(0, WHOLE), (2, WHOLE), (20, WHOLE), (22, WHOLE)]
