"""Whose a thread is: what a trace records at a time goes before the kernel's tables."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from tracecorr.link.threads.thread_owners import OWNER_COLUMNS, find_owners, set_owners
from tracecorr.model import schema
from tracecorr.pipeline import correlate, import_files
from tracecorr.store import Capture

Threads = list[tuple[int, int | None, str | None]]
Reader = Callable[[str], Threads]


@pytest.fixture
def read_threads(tmp_path: Path) -> Reader:
    """Return a function that reads a SYNTHETIC trace of lines `TASK-TID TGID MS BODY`: tid, pid and comm of threads."""

    def read(text: str) -> Threads:
        rows = [line.split(None, 3) for line in text.splitlines() if line.strip()]
        lines = [f"{task:>20} ({tgid:>7}) [000] ..... 5.{int(ms):03d}000: {body}" for task, tgid, ms, body in rows]
        (tmp_path / "trace.txt").write_text("# tracer: nop\n#\n" + "\n".join(lines) + "\n")
        out = tmp_path / "trace.tracecorr"
        import_files(out, [], [tmp_path / "trace.txt"], clock="mono")
        correlate(out)
        return _list_threads(Capture.open(out))

    return read


def _list_threads(capture: Capture) -> Threads:
    pids = capture.table("processes").select("process", "pid")
    threads = capture.table("threads").join(pids, on="process", how="left").sort("tid", "from_ns")
    return threads.select("tid", "pid", pl.col("comm").cast(pl.String)).collect().rows()


_IOCTL = "sys_ioctl(fd: 4, cmd: 0xc0284b16, arg: 0x7ffd061c4300)"
_FORK = "sched_process_fork: comm=t1 pid={} child_comm=t1 child_pid={}"
_BORN_803 = f"""
    t1-803 803 1 sys_clone3(uargs: 0x7ffd06, size: 88)
    t1-803 803 1 {_FORK.format(803, 838)}
    t1-803 803 2 sys_clone3 -> 0x346
"""
_LIST = "sys_set_robust_list(head: 0x7f5190000920, len: 24)"


def test_a_thread_that_the_trace_shows_begin_is_not_of_the_process_that_had_its_number(read_threads: Reader) -> None:
    threads = read_threads(f"{_BORN_803} sleep-838 775 3 {_LIST}\nsleep-838 775 4 {_IOCTL}")
    assert threads == [(803, 803, "t1"), (838, 803, "t1")]


def test_a_thread_whose_table_contradicts_its_fork_is_of_no_process(read_threads: Reader) -> None:
    assert read_threads(f"{_BORN_803} sleep-838 775 4 {_IOCTL}") == [(803, 803, "t1"), (838, None, "t1")]


@pytest.mark.parametrize("tgid", [803, 838])
def test_a_table_that_fits_the_fork_says_which_of_both_it_made(tgid: int, read_threads: Reader) -> None:
    assert read_threads(f"{_BORN_803} worker-838 {tgid} 4 {_IOCTL}")[1] == (838, tgid, "worker")


@pytest.mark.parametrize(
    ("flags", "pid", "tgid"), [(0x3D0F00, 803, "838"), (0x3D0F00, 803, "-------"), (0x1200011, 838, "803")]
)
def test_the_flags_of_a_clone_tell_more_than_a_table(flags: int, pid: int, tgid: str, read_threads: Reader) -> None:
    call = f"sys_clone(clone_flags: {flags:#x}, newsp: 0x0, parent_tidptr: 0x0, child_tidptr: 0x0, tls: 0x0)"
    threads = read_threads(f"t1-803 803 1 {call}\nt1-803 803 1 {_FORK.format(803, 838)}\nt1-838 {tgid} 4 {_IOCTL}")
    assert threads[1][:2] == (838, pid)


def test_a_call_that_ended_made_no_later_thread(read_threads: Reader) -> None:
    call = "sys_clone(clone_flags: 0x3d0f00, newsp: 0x0, parent_tidptr: 0x0, child_tidptr: 0x0, tls: 0x0)"
    begun = f"t1-803 803 1 {call}\nt1-803 803 2 sys_clone -> 0x99\nt1-803 803 3 {_FORK.format(803, 838)}"
    assert read_threads(f"{begun}\nt1-838 775 4 {_IOCTL}")[1] == (838, None, "t1")


@pytest.mark.parametrize("table", [803, 775])
def test_each_life_of_a_number_has_its_own_process(table: int, read_threads: Reader) -> None:
    threads = read_threads(f"""{_BORN_803}
        x-838 {table} 4 {_LIST}
        x-838 {table} 5 {_IOCTL}
        x-838 {table} 6 sched_process_exit: comm=first pid=838 prio=120
        app-900 900 600 sys_clone3(uargs: 0x7ffd06, size: 88)
        app-900 900 600 sched_process_fork: comm=app pid=900 child_comm=app child_pid=838
        app-900 900 601 sys_clone3 -> 0x346
        x-838 {table} 602 {_LIST}
        x-838 {table} 603 {_IOCTL}
        x-838 {table} 604 sched_process_exit: comm=second pid=838 prio=120
    """)
    assert threads == [(803, 803, "t1"), (838, 803, "first"), (838, 900, "second"), (900, 900, "app")]


def test_a_table_tells_of_the_last_thread_that_had_the_number(read_threads: Reader) -> None:
    """Of the first one the forks leave open whether it was a thread or a process."""
    threads = read_threads(f"""
        t1-803 803 1 {_FORK.format(803, 838)}
        x-838 838 2 {_IOCTL}
        x-838 838 3 sched_process_exit: comm=first pid=838 prio=120
        t1-803 803 600 {_FORK.format(803, 838)}
        x-838 838 601 {_IOCTL}
    """)
    assert [row for row in threads if row[0] == 838] == [(838, None, "first"), (838, 838, "x")]


def test_a_thread_of_a_later_process_is_not_the_later_process_of_its_number(read_threads: Reader) -> None:
    made = "task_newtask: pid={} comm=t1 clone_flags={} oom_score_adj=0"
    ended = "sched_process_exit: comm=t1 pid={} prio=120"
    threads = read_threads(f"""
        t1-100 100 1 {made.format(101, "3d0f00")}
        t1-101 101 2 {_IOCTL}
        t1-101 101 3 {ended.format(101)}
        t1-100 100 100 {made.format(101, "1200011")}
        t1-101 101 101 {made.format(103, "3d0f00")}
        t1-103 103 102 {_IOCTL}
        t1-103 103 103 {ended.format(103)}
        t1-100 100 200 {made.format(103, "1200011")}
        t1-103 103 201 {_IOCTL}
    """)
    pids = [(tid, pid) for tid, pid, _ in threads]
    assert pids == [(100, 100), (101, 100), (101, 101), (103, 101), (103, 103)]


def test_a_process_whose_number_is_given_out_again_is_another_one(read_threads: Reader) -> None:
    threads = read_threads(f"""
        sh-838 838 1 sched_process_exec: filename=/bin/sh pid=838 old_pid=838
        sh-839 838 2 {_IOCTL}
        sh-838 838 3 sched_process_exit: comm=sh pid=838 prio=120
        sh-700 700 600 {_FORK.format(700, 838)}
        sh-838 838 601 sched_process_exec: filename=/usr/bin/env pid=838 old_pid=838
        sh-838 838 602 {_IOCTL}
    """)
    assert [row for row in threads if row[0] == 838] == [(838, 838, "sh"), (838, 838, "env")]


def test_a_table_of_a_later_thread_tells_nothing_of_the_one_before_it(read_threads: Reader) -> None:
    threads = read_threads(f"t1-838 803 1 {_IOCTL}\n" + _BORN_803.replace(" 1 ", " 600 ").replace(" 2 ", " 601 ") + f"""
        t1-838 803 602 {_LIST}
        t1-838 803 603 {_IOCTL}
    """)  # fmt: skip
    assert [pid for tid, pid, _ in threads if tid == 838] == [None, 803]


def test_where_no_event_speaks_of_a_thread_the_table_does(read_threads: Reader) -> None:
    assert read_threads(f"app-838 775 1 {_IOCTL}") == [(838, 775, "app")]


def test_the_program_that_a_thread_executed_names_it(read_threads: Reader) -> None:
    threads = read_threads(f"""
        sleep-502 502 1 sched_process_exec: filename=/usr/bin/env pid=502 old_pid=502
        sleep-502 502 2 sched_process_exec: filename=/rig/programs/a-very-long-program pid=502 old_pid=502
        sleep-502 502 3 {_IOCTL}
    """)
    assert threads == [(502, 502, "a-very-long-pro")]


def test_a_thread_that_renamed_itself_is_called_what_a_switch_shows(read_threads: Reader) -> None:
    switch = (
        "sched_switch: prev_comm={} prev_pid=502 prev_prio=120 prev_state=S ==> next_comm=x next_pid=0 next_prio=120"
    )
    threads = read_threads(f"""
        t1-502 502 1 sched_process_exec: filename=/rig/t1 pid=502 old_pid=502
        t1-502 502 2 {switch.format("old")}
        t1-502 502 3 {switch.format("main")}
    """)
    assert [row for row in threads if row[0]] == [(502, 502, "main")]


@pytest.mark.parametrize(
    ("renamed", "again", "names"),
    [
        ("pid=838 ", "", ["t1", "NCCL Service  0"]),
        ("pid=838 ", "pid=838 ", ["t1", "NCCL I/O  0"]),
        ("", "", ["t1", "t1"]),  # kernels 6.14 to 7.0 do not print whose name it is
    ],
)
def test_a_name_that_a_thread_gives_to_another_one(
    renamed: str, again: str, names: list[str], read_threads: Reader
) -> None:
    rename = "task_rename: {}oldcomm=t1 newcomm=NCCL {}  0 oom_score_adj=0"
    threads = read_threads(f"""
        <...>-803 803 1 {_FORK.format(803, 838)}
        <...>-838 803 2 {_IOCTL}
        <...>-803 803 3 {rename.format(renamed, "Service")}
        {f"<...>-838 803 4 {rename.format(again, 'I/O')}" if again else ""}
    """)
    assert [name for _, _, name in threads] == names


def test_a_thread_that_gave_up_its_name_has_not_the_one_of_before(read_threads: Reader) -> None:
    born = f"<...>-803 803 1 {_FORK.format(803, 838)}\n<...>-838 803 2 {_IOCTL}"
    unnamed = "<...>-838 803 3 task_rename: pid=838 oldcomm=t1 newcomm= oom_score_adj=0"
    assert read_threads(f"{born}\n{unnamed}")[1] == (838, 803, None)


def test_events_of_a_text_tell_threads_and_processes_that_were_made(read_threads: Reader) -> None:
    made = "<...>-803 803 1 task_newtask: pid={} comm=t1 clone_flags={} oom_score_adj=0"
    ioctls = [f"<...>-{tid} ------- 3 {_IOCTL}" for tid in (838, 839)]
    threads = read_threads("\n".join([made.format(838, "3d0f00"), made.format(839, "1200011"), *ioctls]))
    assert threads == [(803, 803, "t1"), (838, 803, "t1"), (839, 839, "t1")]


def test_the_placeholder_of_the_kernel_is_no_name(read_threads: Reader) -> None:
    assert read_threads(f"<...>-7 7 1 {_IOCTL}") == [(7, 7, None)]


@pytest.fixture
def sample(repo: Path, tmp_path: Path) -> Path:
    """Return a RECORDED capture with binary pages."""
    copy = tmp_path / "sample.tracecorr"
    shutil.copytree(
        repo / "samples" / "streams-graph.tracecorr", copy, ignore=shutil.ignore_patterns("tables", "views")
    )
    return copy


def _rows(**columns: list[object]) -> pl.DataFrame:
    return schema.PART_EVENTS.conform(pl.DataFrame(columns)).with_columns(source=pl.lit("ftrace"))


def _owners(rows: pl.DataFrame, noted: list[tuple[int, int, str, int]], exact: tuple[int, ...] = ()) -> pl.DataFrame:
    names = {"pid": pl.Int64, "tid": pl.Int64, "comm": pl.String, "seen_ns": pl.Int64}
    seen = pl.DataFrame(noted, schema=names, orient="row")
    return find_owners(rows.select(OWNER_COLUMNS), schema.PART_ARGS.empty(), seen, exact)


def test_what_a_capture_read_in_proc_goes_before_the_table() -> None:
    rows = _rows(
        stamp_ns=[5, 6], tid=[838, 803], pid=[775, 803], comm=["sleep", "<...>"], clock=["mono"] * 2, file=[0, 0]
    )
    owners = _owners(rows, [(803, 838, "t1", 9), (803, 803, "t1", 9)])
    assert owners.select("tid", "pid", "comm").rows() == [(803, 803, "t1"), (838, 803, "t1")]
    assert set_owners(rows, owners)["pid"].to_list() == [803, 803]


def test_what_a_capture_read_twice_and_differently_is_not_known() -> None:
    rows = _rows(stamp_ns=[5], tid=[838], pid=[775], clock=["mono"], file=[0])
    assert _owners(rows, [(803, 838, "t1", 9), (838, 838, "t1", 9)])["pid"].to_list() == [None]


def test_records_that_hold_their_process_go_before_those_of_a_table() -> None:
    rows = _rows(stamp_ns=[5, 6], tid=[838, 838], pid=[775, 803], comm=["t1", "sleep"], clock=["mono"] * 2, file=[0, 1])
    assert _owners(rows, [], (1,)).select("pid", "comm").rows() == [(803, "t1")]
    # Of two tables that nobody supports none is believed.
    assert _owners(rows, []).select("pid", "is_changed").rows() == [(None, False)]


def test_stamps_of_two_clocks_are_not_compared() -> None:
    rows = _rows(stamp_ns=[5, 6], tid=[838, 838], pid=[775, 803], clock=["mono", "local"], file=[0, 1])
    assert _owners(rows, [(803, 838, "t1", 9)]).is_empty()


@pytest.mark.parametrize("is_stale", [False, True])
def test_stale_tables_of_binary_pages_change_nothing(sample: Path, *, is_stale: bool) -> None:
    """HAND-MADE damage: tables of the kernel as they were when other threads had the numbers of the workload's."""
    correlate(sample)
    right = _list_threads(Capture.open(sample))
    assert [pid for _, pid, _ in right].count(31126) > 1
    for tables in sample.glob("raw/ftrace/*/saved_tgids"):
        _spoil(tables, {str(tid): "775" if is_stale else str(pid) for tid, pid, _ in right if pid == 31126})
    for tables in sample.glob("raw/ftrace/*/saved_cmdlines"):
        _spoil(tables, {str(tid): "sleep" if is_stale else str(comm) for tid, pid, comm in right if pid == 31126})
    correlate(sample)
    assert _list_threads(Capture.open(sample)) == right


def _spoil(table: Path, entries: dict[str, str]) -> None:
    table.write_text("".join(f"{number} {word}\n" for number, word in entries.items()))


def test_a_number_given_out_again_at_once_leaves_the_end_of_its_last_thread_alone() -> None:
    """Records less than the slack before a birth are the new thread's, unless the old one ended between."""
    ms = [1, 2, 97, 98, 100, 102]
    names = ["sched_process_fork", "ioctl", "ioctl", "sched_process_exit", "sched_process_fork", "ioctl"]
    rows = _rows(
        stamp_ns=[t * 1_000_000 for t in ms], offset=list(range(6)), tid=[803, 838, 838, 838, 900, 838],
        pid=[803, 803, 803, 803, 900, 803], clock=["mono"] * 6, file=[0] * 6, name=names,
    )  # fmt: skip
    children = {"file": [0, 0], "offset": [0, 4], "key": ["child_pid"] * 2, "u64": [838] * 2}
    args = schema.PART_ARGS.conform(pl.DataFrame(children))
    owners = find_owners(rows.select(OWNER_COLUMNS), args)
    assert set_owners(rows, owners)["pid"].to_list() == [803, 803, 803, 803, 900, None]


def test_a_child_that_executes_a_program_after_it_registered_a_list_is_a_process(read_threads: Reader) -> None:
    program = "sched_process_exec: filename=/usr/bin/env pid=838 old_pid=838"
    threads = read_threads(f"{_BORN_803} x-838 803 3 {_LIST}\nx-838 803 4 {program}\nx-838 803 5 {_IOCTL}")
    assert threads == [(803, 803, "t1"), (838, 838, "env")]
