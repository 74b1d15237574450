"""Help of the tests that change the machine: the state of tracefs, and a small plan."""

from __future__ import annotations

import os
import re
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tracecorr.capture.plan.machine import look_at_process_numbers
from tracecorr.capture.plan.plan import NO, EventPlan, InstancePlan, Plan, ProbePlan
from tracecorr.capture.tracefs.arm import Armed, arm
from tracecorr.capture.tracefs.control import Tracefs, find_tracefs
from tracecorr.capture.tracefs.journal import PREFIX, Journal, journal_folder, new_token, owner_of
from tracecorr.model.errors import MachineError

# Processes whose captures belong to the state; empty = all.
OURS = {os.getpid()}
# What others may change at any time, or what only reports: not part of the state that a capture must restore.
_REPORTS = (
    "trace", "trace_pipe", "trace_marker", "trace_marker_raw", "per_cpu", "instances", "error_log", "saved_cmdlines",
    "saved_tgids", "enabled_functions", "touched_functions", "available_filter_functions", "printk_formats",
    "available_filter_functions_addrs", "dyn_ftrace_total_info", "available_events", "uprobe_profile",
    "kprobe_profile", "free_buffer", "README", "snapshot", "stack_trace", "events",
)  # fmt: skip


def need_tracefs() -> Tracefs:
    """Return the tracing folder of this machine, or skip."""
    if (numbers := look_at_process_numbers()).state == NO:
        pytest.skip(numbers.why)
    try:
        tracefs = find_tracefs()
        (tracefs.root / "instances" / f"probe_of_tests_{os.getpid()}").mkdir()
        (tracefs.root / "instances" / f"probe_of_tests_{os.getpid()}").rmdir()
    except (MachineError, OSError) as error:
        pytest.skip(f"this machine lets nobody trace: {error}")
    return tracefs


def read_state(tracefs: Tracefs) -> dict[str, str]:
    """Return every control file of the top folder, the enable bits of all events, our instances and probes.

    Instances and probes of captures of processes that are not in `OURS` are theirs, and left out.
    """
    state = {p.name: _text(p) for p in tracefs.root.iterdir() if p.is_file() and p.name not in _REPORTS}
    # 6.1 enlarges the top buffer for good; its size is put back, the note that it never was larger is not.
    state["buffer_size_kb"] = state["buffer_size_kb"].partition(" (")[0].strip()
    state["buffer_total_size_kb"] = state["buffer_total_size_kb"].partition(" (")[0].strip()
    state |= {f"options/{p.name}": _text(p) for p in (tracefs.root / "options").iterdir()}
    state["enabled events"] = " ".join(
        e for e in _text(tracefs.root / "set_event").split() if not _foreign(e.partition(":")[0])
    )
    state |= {
        f"events/{p.name}": _text(p / "enable") for p in (tracefs.root / "events").iterdir() if not _foreign(p.name)
    }
    ours = [n for n in tracefs.instances() if n.startswith(PREFIX) and not _foreign(n)]
    for file in ("uprobe_events", "kprobe_events", "dynamic_events"):
        lines = state.get(file, "").splitlines()
        state[file] = "\n".join(x for x in lines if PREFIX in x and not _foreign(re.split("[:/]", x)[1]))
    return state | {"instances": " ".join(ours)}


def _foreign(name: str) -> bool:
    owner = owner_of(name)
    return owner is not None and bool(OURS) and owner.pid not in OURS


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError as error:
        return f"errno {error.errno}"


def unused_library(folder: Path) -> Path:
    """Return a copy of the C library that no process maps: a probe on it disturbs nobody."""
    maps = Path("/proc/self/maps").read_text().splitlines()
    found = next(line.split()[-1] for line in maps if re.search(r"/libc[.-].*so", line))
    copy = folder / "libcopy.so"
    if not copy.exists():
        shutil.copyfile(found, copy)
    return copy


def small_plan(folder: Path) -> Plan:
    """Return a plan with every kind of thing that this kernel may offer, and some that it cannot have."""
    place = f"{unused_library(folder)}:0x100000"
    return Plan(
        instances=(
            InstancePlan(
                "workload", "mono", follows_workload=True, buffer_kb_per_cpu=256,
                events=(EventPlan("syscalls", "sys_enter_ioctl"), EventPlan("syscalls", "sys_exit_ioctl"),
                        EventPlan("sched", "sched_process_exit"), EventPlan("amdgpu", "no_such_event")),
                functions=("no_such_function",),
                options=(("event-fork", "1"), ("record-tgid", "1"), ("no-such-option", "1")),
            ),
            InstancePlan("gpu", "mono", follows_workload=False, buffer_kb_per_cpu=128),
        ),
        probes=(
            ProbePlan("u", "one", f"{place} sig=%di:x64", "workload"),
            ProbePlan("u", "of_perf", f"{place} sig=%di:x64", "workload", through="perf"),
            ProbePlan("u", "refused", f"{place} sig=%no:x64", "workload"),
        ),
        absent=(),
    )  # fmt: skip


def arm_small(tracefs: Tracefs, adjust: Callable[[Plan], Plan] = lambda plan: plan) -> Armed:
    """Arm the small plan as a capture of this process."""
    token = new_token()
    return arm(adjust(small_plan(journal_folder().parent)), tracefs, Journal.create(token), token)


def kill_armed(tracefs: Tracefs) -> int:
    """Return the pid of a process that armed the small plan and was killed; what it left belongs to the state."""
    child = os.fork()
    if child == 0:
        arm_small(tracefs)
        os.kill(os.getpid(), signal.SIGKILL)
    OURS.add(child)
    os.waitpid(child, 0)
    return child


def need_zlib(folder: Path) -> Path:
    """Return a copy of zlib that only the caller maps, or skip."""
    found = sorted(Path("/usr/lib").rglob("libz.so.1")) + sorted(Path("/lib").rglob("libz.so.1"))
    if not found:
        pytest.skip("no libz.so.1 on this machine")
    copy = folder / "libz-copy.so"
    shutil.copyfile(found[0], copy)
    return copy
