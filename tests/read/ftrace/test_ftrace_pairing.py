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


UNREADABLE = "99999999999"


def _durations(*records: tuple[str, int, str]) -> list[int | None]:
    """Return how long (us) the calls lasted that are whole, of records with seconds, microseconds and text."""
    lines = [f"  hip-136   (    99) [001] ..... {s:>5}.{us:06d}: {text}\n" for s, us, text in records]
    rows = read_text((HEAD + "".join(lines)).encode()).events.filter(pl.col("flags") == 0)
    took = (pl.col("end_stamp_ns") - pl.col("stamp_ns")) // 1000
    return rows.sort("offset").select(took).to_series().to_list()


@pytest.mark.parametrize("enter_text", [ENTER, INTO])
def test_no_call_ends_before_it_begins_where_a_time_is_not_readable(enter_text: str) -> None:
    leave = EXIT if enter_text == ENTER else OUT
    whole = [("24", 1, enter_text), ("24", 5, leave)]
    assert _durations(*whole, (UNREADABLE, 7, enter_text), ("24", 9, leave)) == [4]
    # Out of order: the records with a time are ordered by it, the other one is nobody's.
    turned = [("24", 20, enter_text), (UNREADABLE, 0, leave), ("24", 9, leave), ("24", 6, enter_text)]
    assert _durations(*whole, *turned) == [4, 3]


def test_what_one_thread_lacks_reorders_the_others_all_the_same() -> None:
    lines = "".join(
        f"  hip-{tid} (    99) [001] ..... {second:>5}.{us:06d}: {text}\n"
        for tid, second, us, text in (
            (137, UNREADABLE, 1, ENTER), (136, "24", 7, ENTER), (136, "24", 1, ENTER), (136, "24", 5, EXIT),
            (136, "24", 9, EXIT),
        )
    )  # fmt: skip
    rows = read_text((HEAD + lines).encode()).events.filter(pl.col("tid") == 136).sort("stamp_ns")
    assert rows.select(pl.col("end_stamp_ns") - pl.col("stamp_ns"), "flags").rows() == [(4000, 0), (2000, 0)]


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


ONE = [(1, ENTER), (2, INTO), (8, OUT), (9, EXIT)]


def functions_of(records: list[tuple[int, str]], chunk_bytes: int = 1 << 20) -> list[tuple[int, str]]:
    """Return time (us) and shape of each kernel function."""
    return calls_of(records, chunk_bytes, ("kfd", "other"))


def later(by: int, records: list[tuple[int, str]]) -> list[tuple[int, str]]:
    return [(at + by, text) for at, text in records]


@pytest.mark.parametrize("chunk_bytes", [1 << 20, 300, 200])
def test_a_function_does_not_outlive_its_system_call(chunk_bytes: int) -> None:
    """A return that a kretprobe missed is not the later return whose enter is missing."""
    missed, lone = [*ONE[:2], ONE[3]], [ONE[0], *ONE[2:]]
    records = [*ONE, *later(10, missed), *later(20, ONE), *later(30, lone), *later(40, ONE)]
    expected = [(2, WHOLE), (12, NO_EXIT), (22, WHOLE), (38, NO_ENTER), (42, WHOLE)]
    assert functions_of(records, chunk_bytes) == expected


def test_a_function_ends_before_its_thread_is_in_user_space() -> None:
    assert functions_of([(2, INTO), (5, STORE), (8, OUT)]) == [(2, NO_EXIT), (8, NO_ENTER)]
    assert functions_of([(2, INTO), (8, OUT), (9, STORE)]) == [(2, WHOLE)]


def two_threads(records: list[tuple[int, str, int]], chunk_bytes: int) -> list[tuple[int, int, int]]:
    """Return thread, time (us) and flags of each call and function, of records with their threads."""
    lines = [f"  hip-{tid}   (    99) [001] .....    24.{at:06d}: {text}\n" for at, text, tid in records]
    rows = read_text((HEAD + "".join(lines)).encode(), block_bytes=chunk_bytes).events
    rows = rows.filter(pl.col("layer").cast(pl.String).is_in(["ioctl", "syscall", "kfd"])).sort("tid", "stamp_ns")
    return [(t, ns // 1000 % 1_000_000, flags) for t, ns, flags in rows.select("tid", "stamp_ns", "flags").iter_rows()]


@pytest.mark.parametrize("chunk_bytes", [1 << 20, 440, 300, 150])
@pytest.mark.parametrize(("of_first", "flags"), [(True, [Flag.ENTER_ONLY, Flag.EXIT_ONLY]), (False, [0])])
def test_a_store_of_user_space_ends_functions_of_its_own_thread_alone(
    chunk_bytes: int, of_first: bool, flags: list[int]
) -> None:
    """The second thread makes calls meanwhile; it may be the one that stores."""
    first = [(1, INTO), (2, OUT), (3, INTO), (8, OUT)]
    second = [(4, ENTER), (5, EXIT), (9, ENTER)]
    records = sorted([
        *((at, text, 136) for at, text in first), *((at, text, 500) for at, text in second),
        (6, STORE, 136 if of_first else 500),
    ])  # fmt: skip
    found = two_threads(records, chunk_bytes)
    assert [tuple(row) for row in found if row[0] == 500] == [(500, 4, 0), (500, 9, int(Flag.ENTER_ONLY))]
    assert [flag for thread, _, flag in found if thread == 136] == [0, *map(int, flags)]


@pytest.mark.parametrize("chunk_bytes", [1 << 20, 300, 150])
def test_calls_of_two_threads_are_told_once_where_both_kinds_of_events_show_them(chunk_bytes: int) -> None:
    one = [(1, RAW_ENTER), (1, ENTER), (5, RAW_EXIT), (5, EXIT)]
    records = sorted(
        (at + 10 * n + late, place, text, tid)
        for n in range(6) for place, (at, text) in enumerate(one) for tid, late in ((136, 0), (500, 2))
    )  # fmt: skip
    found = two_threads([(at, text, tid) for at, _, text, tid in records], chunk_bytes)
    assert found == [(tid, 1 + 10 * n + late, 0) for tid, late in ((136, 0), (500, 2)) for n in range(6)]


def test_a_function_around_a_system_call_is_whole() -> None:
    """The enter of do_syscall_64 comes before the record of its call, its exit behind it."""
    one = [(0, AROUND), *ONE, (10, AROUND_OUT)]
    assert functions_of([*one, *later(20, one)]) == [(0, WHOLE), (2, WHOLE), (20, WHOLE), (22, WHOLE)]
