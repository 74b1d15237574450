"""A capture leaves the machine as it was: at the end, after an exception, after SIGKILL, beside others."""

from __future__ import annotations

import contextlib
import errno
import itertools
import json
import os
import re
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from machine_state import OURS, arm_small, kill_armed, read_state

from tracecorr.capture.plan.plan import Offer, Plan, ProbePlan, Wanted
from tracecorr.capture.plan.planning import make_plan
from tracecorr.capture.tracefs.arm import Armed, arm, note_top_buffer
from tracecorr.capture.tracefs.control import Tracefs, find_tracefs, last_explanation
from tracecorr.capture.tracefs.journal import Journal, new_token, owner_of, pid_namespace, read_journal, this_process
from tracecorr.capture.tracefs.undo import ACTIONS, list_running, restore_leftovers
from tracecorr.model.errors import ControlFileError, MachineError


def test_what_is_armed_and_what_is_refused(tracefs: Tracefs) -> None:
    armed = arm_small(tracefs)
    try:
        workload = armed.instances["workload"]
        assert (workload / "tracing_on").read_text().strip() == "0"
        assert (workload / "events/syscalls/sys_enter_ioctl/enable").read_text().strip() == "1"
        assert (workload / f"events/{armed.group}/one/enable").read_text().strip() == "1"
        assert (workload / f"events/{armed.group}/of_perf/enable").read_text().strip() == "0"
        assert "[mono]" in (workload / "trace_clock").read_text()
        refused = {a.what: a.why for a in armed.absent}
        assert refused["event amdgpu/no_such_event"] == "No such file or directory"
        assert refused["option no-such-option=1"] == "No such file or directory"
        assert "function no_such_function" in refused
        assert next(why for what, why in refused.items() if "refused" in what) == "Invalid register name"
        assert [p.name for p in armed.armed.probes] == ["one", "of_perf"]
        assert [p.name for p in armed.perf_probes] == ["of_perf"]
        assert f"ID: {armed.perf_probes[0].event_id}\n" in armed.perf_probes[0].format
        # Without a name in the filter the function tracer would trace every function of the kernel.
        assert (workload / "current_tracer").read_text().strip() == "nop"
    finally:
        assert armed.disarm() == []


def test_no_return_is_lost_where_some_hundred_threads_wait_in_a_function(tmp_path: Path) -> None:
    (tmp_path / "kprobe_events").touch()
    token = new_token()
    armed = Armed(Tracefs(tmp_path), Journal.create(token), token)
    armed.define([ProbePlan("r", "kfd_ioctl_ret", "kfd_ioctl ret=$retval:s64", "workload")])
    defined = (tmp_path / "kprobe_events").read_text()
    armed.disarm()
    found = re.match(r"r(\d+):\S+ kfd_ioctl ret=", defined)
    assert found and 768 <= int(found[1]) <= 4096  # two for each of 384 CPUs; what the kernel takes


def test_buffers_of_busy_cpus_are_larger_and_fall_back(tracefs: Tracefs, monkeypatch: pytest.MonkeyPatch) -> None:
    write = Tracefs.write

    def refuse_large(self: Tracefs, name: str, text: str) -> None:
        if name.endswith("buffer_size_kb") and int(text) > 1500:
            raise ControlFileError("no memory", errno.ENOMEM)
        write(self, name, text)

    monkeypatch.setattr(Tracefs, "write", refuse_large)

    def favour(plan: Plan) -> Plan:
        busy = replace(plan.instances[0], busy_cpus=(0,), busy_buffer_kb=4096)
        return replace(plan, instances=(busy, *plan.instances[1:]))

    armed = arm_small(tracefs, favour)
    try:
        assert armed.armed.instances[0].busy_buffer_kb == 1024
        assert int((armed.instances["workload"] / "per_cpu/cpu0/buffer_size_kb").read_text()) in range(1000, 1100)
        assert any("had no memory for more than 1024 KiB" in a.why for a in armed.absent)
    finally:
        assert armed.disarm() == []


def test_only_what_was_admitted_is_recorded(tracefs: Tracefs) -> None:
    armed = arm_small(tracefs)
    try:
        gate_read, gate_write = os.pipe()
        child = os.fork()
        if child == 0:
            os.read(gate_read, 1)
            for _ in range(3):
                os.isatty(0)
            os._exit(0)
        armed.admit(child)
        armed.start()
        os.isatty(0)
        os.write(gate_write, b"x")
        os.waitpid(child, 0)
        armed.stop()
        trace = (armed.instances["workload"] / "trace").read_text()
        lines = [line for line in trace.splitlines() if "sys_ioctl(" in line]
        assert len(lines) == 3
        assert all(f"-{child} " in line for line in lines)
    finally:
        assert armed.disarm() == []


def test_what_somebody_set_for_the_top_instance_does_not_hold_for_those_of_a_capture(tracefs: Tracefs) -> None:
    theirs = {"markers": "0", "function-trace": "0", "stacktrace": "1", "userstacktrace": "1"}
    theirs = {name: value for name, value in theirs.items() if tracefs.has(f"options/{name}")}
    before = {name: tracefs.read(f"options/{name}").strip() for name in theirs}
    offer = Offer("test", 2, 1 << 30, clocks=("mono",), instance_options=frozenset(theirs))
    token = new_token()
    try:
        for name, value in theirs.items():
            tracefs.write(f"options/{name}", value)
        armed = arm(make_plan(Wanted("minimal"), offer), tracefs, Journal.create(token), token)
    finally:
        for name, value in before.items():
            tracefs.write(f"options/{name}", value)
    try:
        workload = Tracefs(armed.instances["workload"])
        assert {name: workload.read(f"options/{name}").strip() for name in theirs} == {
            name: str(1 - int(value)) for name, value in theirs.items()
        }
    finally:
        assert armed.disarm() == []


def test_a_number_that_comes_again_is_followed_again(tracefs: Tracefs) -> None:
    armed = arm_small(tracefs)
    try:
        child = _fork_waiting()
        armed.admit(child[0])
        _end(child)
        while child[0] in armed.list_followed():  # the kernel takes it out when it frees the process
            time.sleep(0.01)
        again = next((found for found in map(_fork_again, [child[0]] * 20) if found), None)
        if again is None:
            pytest.skip("other processes took the number first, 20 times")
        time.sleep(0.3)  # the kernel takes the number out when it frees such a process, too
        armed.admit(again[0])
        followed = armed.list_followed()
        _end(again)
        assert again[0] in followed
    finally:
        assert armed.disarm() == []


def _fork_waiting() -> tuple[int, int]:
    """Return a process that waits, and what ends it when it is closed."""
    waiting, gate = os.pipe()
    pid = os.fork()
    if not pid:
        os.close(gate)
        os.read(waiting, 1)
        os._exit(0)
    os.close(waiting)
    return pid, gate


def _end(process: tuple[int, int]) -> None:
    os.close(process[1])
    os.waitpid(process[0], 0)


def _fork_again(pid: int) -> tuple[int, int] | None:
    with contextlib.suppress(OSError):
        Path("/proc/sys/kernel/ns_last_pid").write_text(str(pid - 1))
    found = _fork_waiting()
    if found[0] == pid:
        return found
    _end(found)
    return None


def test_state_after_normal_end_is_state_before(tracefs: Tracefs, run_folder: Path) -> None:
    before = read_state(tracefs)
    armed = arm_small(tracefs)
    armed.start()
    armed.admit(os.getpid())
    assert read_state(tracefs) != before
    late = ProbePlan("u", "late", armed.armed.probes[0].definition, "workload")
    assert armed.add_probes([late]) == [late]
    armed.stop()
    assert armed.disarm() == []
    assert armed.disarm() == []
    assert read_state(tracefs) == before
    assert list(run_folder.glob("*")) == []


def test_state_after_failed_arming_is_state_before(tracefs: Tracefs) -> None:
    before = read_state(tracefs)

    def break_second(plan: Plan) -> Plan:
        return replace(plan, instances=(plan.instances[0], replace(plan.instances[1], clock="sundial")))

    with pytest.raises(MachineError, match="sundial"):
        arm_small(tracefs, break_second)
    assert read_state(tracefs) == before


def test_state_after_sigkill_before_any_change_is_state_before(tracefs: Tracefs, run_folder: Path) -> None:
    """A capture arms, starts and disarms; one after the other is killed before its first, second, ... change."""
    before, interrupted, number = read_state(tracefs), 0, 0
    while killed := _arm_until_change(number):
        number += 1
        interrupted += len(list(run_folder.glob("*.journal")))
        assert not [text for text in restore_leftovers(run_folder)[1] if f"_{killed}_" in text]
        assert read_state(tracefs) == before, f"killed before change {number}"
    assert number > interrupted > 30
    assert list(run_folder.glob("*.journal")) == []


def _arm_until_change(number: int) -> int:
    """Arm in a process that is killed before it changes its `number`-th file; return its pid, 0 if it ended before."""
    child = os.fork()
    if child == 0:
        _kill_before_change(number)
        armed = arm_small(find_tracefs())
        armed.start()
        armed.disarm()
        os._exit(0)
    OURS.add(child)
    return child if os.WIFSIGNALED(os.waitpid(child, 0)[1]) else 0


def _kill_before_change(number: int) -> None:
    """Let this process be killed when it opens its `number`-th file for writing, or makes or removes one."""
    left = itertools.count(number, -1)

    def watch(call: Callable[..., Any]) -> Callable[..., Any]:
        def watched(*words: Any, **named: Any) -> Any:
            changes = call is not os_open or words[1] & (os.O_WRONLY | os.O_RDWR)
            if changes and next(left) == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return call(*words, **named)

        return watched

    os_open = os.open
    for name in ("open", "mkdir", "rmdir", "unlink", "replace"):
        setattr(os, name, watch(getattr(os, name)))


def test_restore_by_name_when_the_journal_is_gone(tracefs: Tracefs, run_folder: Path) -> None:
    before = read_state(tracefs)
    child = kill_armed(tracefs)
    for path in run_folder.glob("*"):
        path.unlink()
    assert read_state(tracefs) != before
    done, left = restore_leftovers(run_folder)
    assert not [text for text in left if f"_{child}_" in text]
    assert {text.split()[0] for text in done if f"_{child}_" in text} == {"instance", "probe"}
    assert read_state(tracefs) == before


@pytest.mark.parametrize("lists", [{"kprobe_events": "p"}, {"uprobe_events": "p"}, {"dynamic_events": "f"}])
def test_probes_of_every_kind_are_found_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lists: dict[str, str]
) -> None:
    monkeypatch.setattr("tracecorr.capture.tracefs.undo.mounted_tracefs", lambda: tmp_path)
    (tmp_path / "instances").mkdir()
    (file, letter), dead = next(iter(lists.items())), f"tracecorr_{os.getpid()}_1_0_{pid_namespace()}"
    mine = f"{letter}:{dead}/one vfs_fsync\n"
    (tmp_path / "dynamic_events").write_text(f"{mine}s:foreign/two\np:tracecorr_x/three vfs_fsync\n")
    if file != "dynamic_events":
        (tmp_path / file).write_text(mine)
    assert restore_leftovers(tmp_path / "none") == ([f"probe {dead}/one"], [])
    assert (tmp_path / file).read_text().endswith(f"-:{dead}/one\n")


def test_living_captures_and_foreign_instances_are_left_alone(tracefs: Tracefs, run_folder: Path) -> None:
    foreign = tracefs.root / "instances" / f"foreign_{os.getpid()}"
    foreign.mkdir()
    try:
        (foreign / "events/sched/sched_process_exit/enable").write_text("1")
        first, second = arm_small(tracefs), arm_small(tracefs)
        done, left = restore_leftovers(run_folder)
        assert not [text for text in (*done, *left) if first.group in text or second.group in text]
        assert first.disarm() == []
        assert (second.instances["workload"] / "events/syscalls/sys_enter_ioctl/enable").read_text().strip() == "1"
        assert (second.instances["workload"] / f"events/{second.group}/one/enable").read_text().strip() == "1"
        assert second.disarm() == []
        assert (foreign / "events/sched/sched_process_exit/enable").read_text().strip() == "1"
    finally:
        foreign.rmdir()


def test_an_instance_in_use_is_told_and_removed_later(tracefs: Tracefs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tracecorr.capture.tracefs.undo._PATIENCE_S", 0.05)
    armed = arm_small(tracefs)
    with (armed.instances["gpu"] / "trace_pipe").open("rb"):
        problems = armed.disarm()
    assert len(problems) == 1
    assert "_gpu cannot be removed yet: Device or resource busy" in problems[0]
    assert armed.disarm() == []


def test_journal_survives_a_torn_last_line(tmp_path: Path) -> None:
    journal = Journal.create("x", tmp_path)
    journal.note("file", path=str(tmp_path / "a"))
    with journal.path.open("ab") as stream:
        stream.write(b'{"kind": "inst')
    owner, found = read_journal(journal.path)
    assert owner == this_process()
    assert found.notes == journal.notes


@pytest.fixture
def no_tracefs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep `restore_leftovers` to its journals."""
    monkeypatch.setattr("tracecorr.capture.tracefs.undo.mounted_tracefs", lambda: None)


def _dead_journal(folder: Path) -> Journal:
    """Return the journal of a capture whose process is gone; it names two changes."""
    journal = Journal.create(f"{os.getpid()}_1_0_{pid_namespace()}", folder)
    first = asdict(replace(this_process(), started=1))
    journal.path.write_text(f"{json.dumps(first)}\n")
    for name in ("a", "b"):
        (folder / name).touch()
        journal.note("file", path=str(folder / name))
    return journal


@pytest.mark.usefixtures("no_tracefs")
@pytest.mark.parametrize("number", [1, 2])
def test_what_a_damaged_journal_still_names_is_undone_and_the_rest_told(tmp_path: Path, number: int) -> None:
    path = _dead_journal(tmp_path).path
    lines = path.read_bytes().splitlines(keepends=True)
    lines[number - 1] = b'{"kind": "fil{}\n'
    path.write_bytes(b"".join(lines))
    done, left = restore_leftovers(tmp_path)
    assert done == []
    assert [(tmp_path / name).exists() for name in ("a", "b")] == [number == 2, False]
    assert f"line {number} of {path} cannot be read" in str(left)
    assert path.exists()


@pytest.mark.usefixtures("no_tracefs")
@pytest.mark.parametrize("note", [{"kind": "file", "path": "."}, {"kind": "file"}, {"kind": "quiet"}])
def test_a_change_that_cannot_be_undone_keeps_no_other_from_it(tmp_path: Path, note: dict[str, str]) -> None:
    journal = _dead_journal(tmp_path)
    journal.note(**note)
    done, left = restore_leftovers(tmp_path)
    assert (done, len(left)) == ([], 1)
    assert f"{note} is not undone" in left[0]
    assert not any((tmp_path / name).exists() for name in ("a", "b"))
    assert journal.path.exists()


def test_captures_that_run_are_named(tmp_path: Path) -> None:
    _dead_journal(tmp_path)
    (tmp_path / "odd.journal").write_bytes(b"\0" * 99)
    (tmp_path / f"{new_token()}.journal").mkdir()
    assert list_running(tmp_path) == []
    Journal.create(new_token(), tmp_path)
    assert list_running(tmp_path) == [os.getpid()]


@pytest.mark.usefixtures("no_tracefs")
def test_a_journal_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    (tmp_path / f"{new_token()}.journal").mkdir()
    (tmp_path / "odd.journal").write_bytes(b"\0" * 99)
    (tmp_path / "gone.journal").symlink_to(tmp_path / "nowhere")
    done, left = restore_leftovers(tmp_path)
    assert done == []
    assert len(left) == 2
    assert "Is a directory" in str(left)
    assert f"{tmp_path}/odd.journal does not name its owner" in str(left)


@pytest.mark.usefixtures("no_tracefs")
@pytest.mark.parametrize("written", [b"", b'{"pid": 22770, "sta'])
def test_a_capture_that_was_killed_while_its_journal_began_leaves_nothing(tmp_path: Path, written: bytes) -> None:
    journal = _dead_journal(tmp_path).path
    journal.write_bytes(written)
    done, left = restore_leftovers(tmp_path)
    assert (len(done), left) == (1, [])
    assert not list(tmp_path.glob("*1_0_*"))


def test_a_change_that_is_written_down_in_part_is_not_made(tmp_path: Path) -> None:
    journal = Journal.create("x", tmp_path)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (journal.path.stat().st_size + 9, before[1]))
    try:
        with pytest.raises(MachineError, match="cannot write the journal"):
            journal.note("mount", path="/x")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert journal.notes == []


@pytest.mark.parametrize(
    ("name", "text", "size"),
    [("set_event", "", "7"), ("set_event", "sched:sched_switch\n", "1408"), ("current_tracer", "function\n", "1408"),
     ("per_cpu/cpu0/stats", "entries: 12\n", "1408"), ("buffer_size_kb", "512\n", "512")],
)  # fmt: skip
def test_top_buffer_is_shrunk_only_where_nobody_uses_it(tmp_path: Path, name: str, text: str, size: str) -> None:
    top = tmp_path / "tracing"
    (top / "per_cpu/cpu0").mkdir(parents=True)
    plain = {"buffer_size_kb": "7 (expanded: 1408)\n", "set_event": "", "current_tracer": "nop\n"}
    for file, content in {**plain, "per_cpu/cpu0/stats": "entries: 0\noverrun: 0\n"}.items():
        (top / file).write_text(content)
    journal = Journal.create("x", tmp_path)
    note_top_buffer(Tracefs(top), journal)
    (top / "buffer_size_kb").write_text("1408\n")
    (top / name).write_text(text)
    assert journal.undo(ACTIONS) == []
    assert (top / "buffer_size_kb").read_text().strip() == size


def test_a_change_that_cannot_be_written_down_is_not_made(tmp_path: Path) -> None:
    journal = Journal.create("x", tmp_path)
    journal.path.unlink()
    with pytest.raises(MachineError, match="cannot write the journal"):
        journal.note("mount", path="/x")
    assert journal.notes == []


def test_tokens_name_their_owner() -> None:
    token = new_token()
    owner = owner_of(f"tracecorr_{token}_workload")
    assert owner is not None
    assert not owner.is_dead()
    assert replace(owner, started=owner.started + 1).is_dead()
    assert not replace(owner, started=owner.started + 1, namespace=1).is_dead()
    assert replace(owner, boot="another").is_dead()
    assert owner_of("tracecorr_old") is None
    assert owner_of("trace-cmd") is None
    assert new_token() != token


def test_error_log_entry_of_the_command_is_found() -> None:
    lines = [
        "[ 1.0] trace_kprobe: error: Invalid probed address or symbol", "  Command: p:a/b nothing", "         ^",
        "[ 2.0] trace_kprobe: error: The symbol is not unique", "  Command: p:a/c init_mqd", "         ^",
        "[ 3.0] trace_kprobe: error: Another one", "  Command: p:z/c other", "         ^",
    ]  # fmt: skip
    assert last_explanation(lines, "p:a/c init_mqd") == "The symbol is not unique"
    assert last_explanation(lines, "p:a/d none") == ""


def test_tracefs_that_is_not_mounted_is_mounted_and_unmounted(tracefs: Tracefs, tmp_path: Path) -> None:
    code = f"""
import subprocess
from pathlib import Path
from tracecorr.capture.tracefs.journal import Journal
from tracecorr.capture.tracefs.control import find_tracefs, mounted_tracefs
from tracecorr.capture.tracefs.undo import ACTIONS
from tracecorr.model.errors import ControlFileError, MachineError
while (place := mounted_tracefs()) is not None:
    subprocess.run(["umount", "-l", str(place)], check=True)
try:
    find_tracefs()
except MachineError as error:
    assert "mount -t tracefs" in error.next_step, error.next_step
else:
    raise SystemExit("found what is not there")
journal = Journal.create("x", Path({str(tmp_path)!r}))
assert find_tracefs(journal).root == Path("/sys/kernel/tracing")
assert journal.undo(ACTIONS) == []
assert mounted_tracefs() is None
print("done")
"""
    del tracefs
    command = ["unshare", "--mount", "--propagation", "private", sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if "unshare failed" in done.stderr:
        pytest.skip(f"no mount namespace here: {done.stderr}")
    assert done.stdout == "done\n", done.stderr
