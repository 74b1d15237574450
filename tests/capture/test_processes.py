"""The processes of a workload, seen while they live."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tracecorr.capture.workload import processes
from tracecorr.capture.workload.processes import (
    ProcessTable,
    SeenProcess,
    find_cgroup,
    list_children,
    read_thread_map,
    read_time_offsets,
)


def wait_for(condition: Callable[[], bool]) -> None:
    """Look until it holds."""
    for _ in range(6000):
        if condition():
            return
        time.sleep(0.01)
    pytest.fail("it did not come true")


def test_children_and_their_children_are_found() -> None:
    shell = subprocess.Popen(["sh", "-c", "sh -c 'sleep 60; :' & echo ready; wait"], stdout=subprocess.PIPE)
    try:
        assert shell.stdout is not None
        shell.stdout.readline()
        table = ProcessTable()
        assert table.add(shell.pid, "started")
        assert not table.add(shell.pid, "again")
        wait_for(lambda: table.refresh() == [] and "sleep" in {seen.comm for seen in table.seen.values()})
        assert {"sh", "sleep"} <= {seen.comm for seen in table.seen.values()}
        assert {seen.namespace_pid for seen in table.seen.values()} == set(table.seen)
    finally:
        for child in table.alive - {shell.pid}:
            os.kill(child, 9)
        shell.kill()
        shell.wait()
    wait_for(lambda: table.refresh() == [] and not table.alive)
    assert shell.pid in table.seen


def test_an_admitted_child_of_a_known_process_has_not_left_its_parents() -> None:
    shell = subprocess.Popen(["sh", "-c", "read line; :"], stdin=subprocess.PIPE)
    try:
        table = ProcessTable()
        table.adopt([shell.pid])
        assert table.seen[shell.pid].how == "left its parents"
        again = ProcessTable()
        assert again.add(os.getpid(), "started")
        again.adopt([shell.pid])
        assert again.seen[shell.pid].how == "child"
    finally:
        shell.communicate()


def test_threads_of_known_processes_are_not_looked_at_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    table, read, over = ProcessTable(), list[int](), threading.Event()
    assert table.add(os.getpid(), "started")
    monkeypatch.setattr(processes, "read_status", lambda pid: read.append(pid))
    thread = threading.Thread(target=over.wait)
    thread.start()
    table.adopt([os.getpid(), thread.native_id or 0, 1])
    over.set()
    thread.join()
    assert set(read) == {1}


def test_processes_that_wrote_on_are_named_after_their_end() -> None:
    ended = subprocess.Popen(["sh", "-c", "read line; :"], stdin=subprocess.PIPE)
    table = ProcessTable()
    assert table.add(ended.pid, "child")
    assert f"left processes that go on: {ended.pid} (" in table.describe_survivors()
    left = table.alive
    ended.communicate()
    assert table.refresh() == []
    assert table.describe_survivors() == ""
    assert f"left processes that went on: {ended.pid} (" in table.describe_survivors(left)


def test_a_program_that_replaces_one_of_the_same_name_is_seen(tmp_path: Path) -> None:
    other = tmp_path / "sh"
    shutil.copy(shutil.which("sh") or "", other)
    words = ["sh", "-c", f"echo ready; read line; exec {other} -c 'read line'"]
    shell = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    table = ProcessTable()
    assert shell.stdin is not None and shell.stdout is not None
    shell.stdout.readline()
    assert table.add(shell.pid, "started")
    first = table.seen[shell.pid]
    shell.stdin.write(b"x\n")
    shell.stdin.flush()
    wait_for(lambda: table.refresh() == [] and table.seen[shell.pid].exe == str(other))
    assert table.seen[shell.pid] == replace(first, exe=str(other))
    shell.communicate()


def test_a_process_that_is_looked_at_while_it_ends_keeps_its_program() -> None:
    """The kernel takes the program away before it tells that the process has ended (exit_mm, exit_notify)."""
    program = os.path.realpath(shutil.which("cat") or "")
    for _ in range(50):
        seen = _watch_cat_to_its_end(program)
        assert (seen.comm, seen.exe) == ("cat", program)


def _watch_cat_to_its_end(program: str) -> SeenProcess:
    table = ProcessTable()
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as ending:
        assert table.add(ending.pid, "started")
        wait_for(lambda: table.refresh() == [] and table.seen[ending.pid].exe == program)
        assert ending.stdin is not None
        ending.stdin.close()
        while table.alive:
            table.refresh()
    return table.seen[ending.pid]


def test_what_waits_at_the_gate_is_not_the_program_of_the_workload() -> None:
    """One that ends before anybody looks has its name, while nobody waits for it, but no program."""
    gate = subprocess.Popen(["sh", "-c", "read line; exec true"], stdin=subprocess.PIPE)
    table = ProcessTable()
    assert table.add(gate.pid, "started", at_gate=True)
    assert (table.seen[gate.pid].comm, table.seen[gate.pid].exe) == ("", "")
    assert gate.stdin is not None
    gate.stdin.close()
    os.waitid(os.P_PID, gate.pid, os.WEXITED | os.WNOWAIT)
    assert table.refresh() == []
    assert not table.alive
    assert (table.seen[gate.pid].comm, table.seen[gate.pid].exe) == ("true", "")
    gate.wait()


def test_a_dead_process_has_no_children() -> None:
    process = subprocess.Popen(["true"])
    process.wait()
    assert list_children(process.pid) == []
    assert not ProcessTable().add(process.pid, "late")


@pytest.mark.skipif(sys.platform != "linux" or os.uname().machine != "x86_64", reason="x86-64 only")
def test_threads_have_their_robust_list() -> None:
    over, ready = threading.Event(), threading.Event()
    thread = threading.Thread(target=lambda: (ready.set(), over.wait()))
    thread.start()
    ready.wait()
    lists = {t["tid"]: t["robust_list"] for t in read_thread_map([os.getpid()])}
    over.set()
    thread.join()
    assert lists[thread.native_id] == thread.ident + 0x2E0  # glibc: ident is the pthread address


def test_time_offsets_of_a_time_namespace() -> None:
    assert read_time_offsets(os.getpid()) == {}
    process = subprocess.Popen(["unshare", "-T", "--monotonic", "100", "sh", "-c", "echo ready; read x"],
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)  # fmt: skip
    assert process.stdout is not None
    if not process.stdout.readline():
        pytest.skip("this machine makes no time namespaces")
    offsets = read_time_offsets(process.pid)
    process.communicate(b"\n")
    assert offsets == {"monotonic": 100_000_000_000}


def test_the_time_namespace_is_that_of_the_processes_with_a_gpu() -> None:
    table = ProcessTable()
    for pid, offsets in ((1, {}), (2, {"monotonic": 5}), (3, {"monotonic": 5}), (4, {"monotonic": 6})):
        table.seen[pid] = SeenProcess(pid, pid, 0, 0, "", "", "", offsets, 0, "child")
    assert table.find_time_offsets(1, [2, 3, 99]) == {"monotonic": 5}
    assert table.find_time_offsets(1, [2, 4]) == {}
    assert table.find_time_offsets(4, []) == {"monotonic": 6}
    assert table.find_time_offsets(9, []) == {}


@pytest.mark.parametrize(
    ("lines", "cgroup"),
    [
        # Version 2 alone; version 1 alone; both, with the container in version 1 only; both, with systemd's driver.
        ("0::/system.slice/docker-one.scope", "/system.slice/docker-one.scope"),
        ("3:devices:/docker/one\n2:memory:/docker/one\n1:name=systemd:/docker/one", "/docker/one"),
        ("3:devices:/docker/one\n1:name=systemd:/docker/one\n0::/system.slice/docker.service", "/docker/one"),
        ("2:memory:/docker/one\n1:name=systemd:/\n0::/", "/docker/one"),
        ("3:net_cls:/x\n0::/system.slice/docker-one.scope", "/system.slice/docker-one.scope"),
        ("1:name=systemd:/\n0::/", "/"),
        ("0::/", "/"),
        ("", ""),
    ],
)
def test_the_cgroup_of_a_container_is_found_in_both_versions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: str, cgroup: str
) -> None:
    """Synthetic lines, in the form of Linux 5.10 with a hierarchy of systemd in version 1 and one of version 2."""
    (tmp_path / "7").mkdir()
    (tmp_path / "7/cgroup").write_text(lines + "\n")
    monkeypatch.setattr(processes, "_PROC", tmp_path)
    assert find_cgroup(7) == cgroup
