"""Arm a plan: instances, probes, filters and events of one capture, and take all of it away again."""

from __future__ import annotations

import errno
import os
import re
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tracecorr.capture.plan.plan import LOG_WRITES, Absent, EventPlan, InstancePlan, Plan, ProbePlan
from tracecorr.capture.tracefs.control import Tracefs
from tracecorr.capture.tracefs.journal import PREFIX, Journal
from tracecorr.capture.tracefs.undo import ACTIONS
from tracecorr.capture.workload.processes import find_threads
from tracecorr.model.errors import ControlFileError, MachineError

_FILTER = "set_ftrace_filter"
DRIVER_MODULE = "[amdgpu]"
# Marks a name that only the driver's function of this name is meant by.
OF_DRIVER = ":mod:amdgpu"


def traceable_functions(tracefs: Tracefs) -> list[str]:
    """Return the lines `name` or `name [module]` of all functions that can be traced, in the kernel's order.

    Raises:
        ControlFileError: the kernel does not show them.
    """
    return tracefs.read("available_filter_functions").splitlines()


def set_functions(instance: Tracefs, names: Sequence[str], lines: Sequence[str]) -> dict[str, str]:
    """Set the filter of an instance and read it back; return why the kernel refused some names.

    A name makes the kernel look through all 60,000 functions, a line number of its list does not (Linux 5.1), so
    numbers are tried first. What does not come back as it was asked for is asked for again by name.

    Args:
        instance: where to set the filter; its tracer must be off.
        names: functions, all copies of each; with `OF_DRIVER` behind the name only the driver's.
        lines: what `traceable_functions` returned.

    Raises:
        ControlFileError: the filter cannot be used here.
    """
    numbers, missing = number_functions(lines, names)
    wanted = {name.partition(":")[0] for name in names} - set(missing)
    instance.write(_FILTER, "")
    if instance.append_words(_FILTER, map(str, numbers)) or functions_set(instance) != wanted:
        instance.write(_FILTER, "")
        refused = instance.append_words(_FILTER, [name for name in names if name not in missing])
        return {**missing, **refused}
    return missing


def functions_set(instance: Tracefs) -> set[str]:
    """Return the names in the filter of an instance; none means that every function would be traced."""
    return {line.split()[0] for line in instance.read(_FILTER).splitlines() if line and line[0] != "#"}


def number_functions(lines: Sequence[str], names: Sequence[str]) -> tuple[list[int], dict[str, str]]:
    """Return the line numbers (from 1) of all functions with these names, and the names that are not there.

    Args:
        lines: `name` or `name [module]`, as the kernel lists them.
        names: functions, perhaps with `OF_DRIVER`.
    """
    wanted = {name.partition(":")[0]: name.endswith(OF_DRIVER) for name in names}
    numbers: list[int] = []
    found: set[str] = set()
    for number, line in enumerate(lines, 1):
        name, _, module = line.partition(" ")
        if name in wanted and (not wanted[name] or module == DRIVER_MODULE):
            numbers.append(number)
            found.add(name)
    return numbers, {n: "there is no such function" for n in names if n.partition(":")[0] not in found}


_LEAST_BUFFER_KB = 64
# How many bytes of what system calls are given their events hold.
_CONTENTS = "syscall_user_buf_size"
# So many tasks of the machine may be in a function at once, waiting too: returns of more are lost, counted nowhere. By
# itself the kernel takes two per CPU; it allows 4096 (KRETPROBE_MAXACTIVE_MAX of trace_probe.h).
_MOST_INSIDE = 1024
# Where trace_printk goes: one instance of all; the kernel gives it back to the top one when ours is removed.
_PRINTK = "trace_printk_dest"


@dataclass(frozen=True)
class PerfProbe:
    """A user-space probe that is defined but enabled nowhere: `perf_event_open` binds it to the workload."""

    name: str
    event_id: int  # type of the tracepoint and of its records
    format: str  # text of its format file
    filter: str = ""  # which hits are kept


def arm(plan: Plan, tracefs: Tracefs, journal: Journal, token: str) -> Armed:
    """Make the plan real, with recording still off; what the kernel refuses is in `absent`.

    Args:
        plan: what to arm.
        tracefs: the tracing folder.
        journal: every change is written there first.
        token: names the capture: instances `tracecorr_TOKEN_NAME`, probes `tracecorr_TOKEN/NAME`.

    Raises:
        MachineError: an instance cannot be made; nothing is left armed.
    """
    armed = Armed(tracefs, journal, token)
    armed.perf_buffer_kb_per_cpu = plan.perf_buffer_kb_per_cpu
    armed.perf_cpus, armed.watch_mappings = plan.perf_cpus, plan.watch_mappings
    armed.copy_top_buffer, armed.smi_gpus = plan.copy_top_buffer, plan.smi_gpus
    note_top_buffer(tracefs, journal)
    try:
        for instance in plan.instances:
            armed.make_instance(instance)
        armed.absent += plan.absent
        armed.define(plan.probes)
        for instance in plan.instances:
            armed.enable(instance)
    except BaseException:
        armed.disarm()
        raise
    return armed


class Armed:
    """What is armed on this machine for one capture."""

    def __init__(self, tracefs: Tracefs, journal: Journal, token: str) -> None:
        self.tracefs = tracefs
        self.group = f"{PREFIX}{token}"
        self.instances: dict[str, Path] = {}
        self.absent: list[Absent] = []
        self.perf_probes: list[PerfProbe] = []
        self._journal = journal
        self._plans: dict[str, InstancePlan] = {}
        self._probes: list[ProbePlan] = []
        self._placeholder = _Placeholder()
        self.perf_buffer_kb_per_cpu = 0
        self.perf_cpus: tuple[int, ...] = ()
        self.watch_mappings, self.copy_top_buffer = "", False
        self.smi_gpus: tuple[int, ...] = ()

    @property
    def armed(self) -> Plan:
        """What the kernel accepted: real buffers, events, functions and probes, and what is absent."""
        return Plan(
            tuple(self._plans.values()), tuple(self._probes), tuple(self.absent), self.perf_buffer_kb_per_cpu,
            self.perf_cpus, self.watch_mappings, self.copy_top_buffer, self.smi_gpus,
        )  # fmt: skip

    def make_instance(self, plan: InstancePlan) -> None:
        """Make one instance, quiet, with clock, options and buffer.

        Raises:
            MachineError: the kernel does not make it, or not with the clock of the plan.
        """
        path = self.tracefs.root / "instances" / f"{self.group}_{plan.name}"
        self._journal.note("instance", path=str(path))
        try:
            path.mkdir()
        except OSError as error:
            raise MachineError(
                f"cannot make the tracing instance {path}: {error.strerror}",
                "free some memory" if error.errno == errno.ENOMEM else "tracecorr doctor says what is missing",
            ) from error
        self.instances[plan.name] = path
        instance = Tracefs(path)
        instance.write("tracing_on", "0")
        instance.write("trace_clock", plan.clock)
        options = tuple(o for o in plan.options if self._accepts(instance, *o))
        self._plans[plan.name] = replace(
            plan,
            events=(),
            functions=(),
            options=options,
            buffer_kb_per_cpu=self._size_buffer(instance, "buffer_size_kb", plan.buffer_kb_per_cpu),
            busy_buffer_kb=self._size_busy(instance, plan),
        )

    def define(self, probes: Iterable[ProbePlan]) -> list[ProbePlan]:
        """Define probes without enabling them; return those that the kernel accepted."""
        accepted = []
        for probe in probes:
            file = self._probe_file(probe)
            self._journal.note("probe", tracefs=str(self.tracefs.root), file=file, name=f"{self.group}/{probe.name}")
            real = self._define(probe, file)
            if real is None:
                continue
            accepted.append(real)
            if real.through == "perf":
                self._offer_to_perf(real)
        self._probes += accepted
        return accepted

    def add_probes(self, probes: Iterable[ProbePlan]) -> list[ProbePlan]:
        """Define and enable probes of a library that appeared late; return those that the kernel accepted."""
        accepted = self.define(probes)
        for name in {p.instance for p in accepted if p.through == "tracefs"}:
            self._journal.note("quiet", path=str(self.instances[name]))
            self._enable_probes(name, [p for p in accepted if p.instance == name])
        return accepted

    def enable(self, plan: InstancePlan) -> None:
        """Switch on the events, functions and probes of one instance; nothing is recorded before `start`."""
        instance = Tracefs(self.instances[plan.name])
        self._journal.note("quiet", path=str(instance.root))
        if plan.follows_workload:
            # An empty list would mean everybody.
            instance.write("set_event_pid", str(self._placeholder.tid))
        events = tuple(e for e in plan.events if self._enable_event(instance, e))
        functions = self._trace_functions(instance, plan)
        self._plans[plan.name] = replace(self._plans[plan.name], events=events, functions=functions)
        self._enable_probes(plan.name, [p for p in self._probes if p.instance == plan.name])

    def admit(self, pid: int) -> None:
        """Follow the process `pid` (host number): all its threads, and what they start later.

        Raises:
            ControlFileError: the kernel refused it.
        """
        for fresh in find_threads(pid):
            for name, plan in self._plans.items():
                if plan.follows_workload:
                    for file in ("set_event_pid", "set_ftrace_pid") if plan.functions else ("set_event_pid",):
                        Tracefs(self.instances[name]).append(file, " ".join(map(str, fresh)))

    def list_followed(self) -> set[int]:
        """Return the threads (host numbers) that the kernel follows by now as the workload's."""
        paths = [self.instances[name] for name, plan in self._plans.items() if plan.follows_workload]
        words = [word for path in paths if path.is_dir() for word in Tracefs(path).read("set_event_pid").split()]
        return {int(word) for word in words} - {self._placeholder.tid}

    def start(self) -> None:
        """Record from now on."""
        for path in self.instances.values():
            Tracefs(path).write("tracing_on", "1")

    def stop(self) -> None:
        """Record no more; what was recorded stays in the buffers."""
        for path in self.instances.values():
            if path.is_dir():
                Tracefs(path).write("tracing_on", "0")

    def function_symbols(self, instance: str) -> str:
        """Return the lines of /proc/kallsyms of the functions that an instance traces."""
        names = {name.partition(":")[0] for name in self._plans[instance].functions}
        if not names:
            return ""
        with Path("/proc/kallsyms").open() as lines:
            return "".join(line for line in lines if line.split()[2] in names)

    def disarm(self) -> list[str]:
        """Undo everything, the last change first; return what could not be undone yet. May be called again."""
        # The folder is root's until it is complete: who kills the capture before that leaves it to `clean`.
        problems = self._journal.undo(ACTIONS, but=("folder",))
        self._placeholder.end()
        return problems

    def _define(self, probe: ProbePlan, file: str) -> ProbePlan | None:
        """Define a probe, or its poorer form; return what the kernel accepted."""
        try:
            self.tracefs.append(file, self._definition(probe))
        except ControlFileError as error:
            why = error.log or os.strerror(error.number)
            if not probe.otherwise or probe.otherwise == probe.definition:
                self.absent.append(Absent(f"probe {probe.name} ({probe.definition})", why))
                return None
            self.absent.append(Absent(f"fields of probe {probe.name} ({probe.definition})", why))
            return self._define(replace(probe, definition=probe.otherwise, otherwise=""), file)
        return probe

    def _size_buffer(self, instance: Tracefs, file: str, size_kb: int) -> int:
        """Set a buffer size, or a smaller one where the kernel has no memory; return it."""
        size = size_kb
        while True:
            try:
                instance.write(file, str(size))
            except ControlFileError as error:
                if error.number != errno.ENOMEM or size // 2 < _LEAST_BUFFER_KB:
                    raise
                size //= 2
            else:
                break
        if size < size_kb:
            what = f"{file} of {size_kb} KiB in {instance.root.name.removeprefix(self.group + '_')}"
            self.absent.append(Absent(what, f"the kernel had no memory for more than {size} KiB"))
        return size

    def _size_busy(self, instance: Tracefs, plan: InstancePlan) -> int:
        files = [f"per_cpu/cpu{cpu}/buffer_size_kb" for cpu in plan.busy_cpus]
        sizes = [self._size_buffer(instance, f, plan.busy_buffer_kb) for f in files if instance.has(f)]
        return min(sizes, default=0)

    def _accepts(self, instance: Tracefs, option: str, value: str) -> bool:
        if option == _PRINTK and self.tracefs.read(f"options/{_PRINTK}").strip() != "1":
            self.absent.append(Absent("the driver's own trace_printk", "another tracing instance receives it"))
            return False
        try:
            instance.write(f"options/{option}", value)
        except ControlFileError as error:
            self.absent.append(Absent(f"option {option}={value}", os.strerror(error.number)))
            return False
        return True

    def _enable_event(self, instance: Tracefs, event: EventPlan) -> bool:
        folder = f"events/{event.system}/{event.name}"
        try:
            if f"{event.system}/{event.name}" == LOG_WRITES and not self._leaves_contents(instance, folder):
                return False
            if event.filter:
                instance.write(f"{folder}/filter", event.filter)
            instance.write(f"{folder}/enable", "1")
        except ControlFileError as error:
            self.absent.append(Absent(f"event {event.system}/{event.name}", error.log or os.strerror(error.number)))
            return False
        return True

    def _leaves_contents(self, instance: Tracefs, folder: str) -> bool:
        """Tell whether an event of a write holds none of what is written: Linux 6.19 copies it by default."""
        try:
            instance.write(_CONTENTS, "0")
        except ControlFileError as error:
            if not instance.has(_CONTENTS) and "__data_loc" not in instance.read(f"{folder}/format"):
                return True
            why = f"it would contain what is written: {_CONTENTS}: {os.strerror(error.number)}"
            self.absent.append(Absent(f"event {LOG_WRITES}", why))
            return False
        return True

    def record_writes(self, descriptors: Iterable[int]) -> None:
        """Record the writes to these descriptors of the workload, where the plan has writes of logs.

        Raises:
            ControlFileError: the kernel refused it.
        """
        text = " || ".join(f"fd == {number}" for number in sorted(descriptors))
        for name, plan in self._plans.items():
            if any(f"{e.system}/{e.name}" == LOG_WRITES and e.filter for e in plan.events):
                Tracefs(self.instances[name]).write(f"events/{LOG_WRITES}/filter", text)

    def _trace_functions(self, instance: Tracefs, plan: InstancePlan) -> tuple[str, ...]:
        """Switch the function tracer on for exactly these functions: an empty filter would mean all of them."""
        if not plan.functions:
            return ()
        accepted: list[str] = []
        try:
            refused = set_functions(instance, plan.functions, traceable_functions(self.tracefs))
            self.absent += [Absent(f"function {name}", why) for name, why in refused.items()]
            accepted = [name for name in plan.functions if name not in refused]
            if not accepted or not functions_set(instance):
                return ()
            if plan.follows_workload:
                instance.write("set_ftrace_pid", str(self._placeholder.tid))
            instance.write("current_tracer", "function")
        except ControlFileError as error:
            self.absent += [
                Absent(f"function {name}", os.strerror(error.number)) for name in accepted or plan.functions
            ]
            return ()
        return tuple(accepted)

    def _enable_probes(self, name: str, probes: list[ProbePlan]) -> None:
        instance = Tracefs(self.instances[name])
        for probe in probes:
            if probe.through == "tracefs" and not self._enable_event(
                instance, EventPlan(self.group, probe.name, probe.filter)
            ):
                self._probes.remove(probe)

    def _offer_to_perf(self, probe: ProbePlan) -> None:
        folder = f"events/{self.group}/{probe.name}"
        number = int(self.tracefs.read(f"{folder}/id"))
        self.perf_probes.append(PerfProbe(probe.name, number, self.tracefs.read(f"{folder}/format"), probe.filter))

    def _probe_file(self, probe: ProbePlan) -> str:
        if probe.kind in ("u", "u-return"):
            return "uprobe_events"
        return "dynamic_events" if probe.kind.startswith("f") else "kprobe_events"

    def _definition(self, probe: ProbePlan) -> str:
        name = f"{self.group}/{probe.name}"
        if probe.kind == "r":
            return f"r{_MOST_INSIDE}:{name} {probe.definition}"
        if probe.kind == "f-return":
            function, _, arguments = probe.definition.partition(" ")
            return f"f:{name} {function}%return {arguments}"
        letter = {"p": "p", "f": "f", "u": "p", "u-return": "r"}[probe.kind]
        return f"{letter}:{name} {probe.definition}"


def note_top_buffer(tracefs: Tracefs, journal: Journal) -> None:
    """Write down that the top buffer is still small: older kernels (6.1) enlarge it when any instance is used."""
    found = re.fullmatch(r"(\d+) \(expanded: (\d+)\)\s*", tracefs.read("buffer_size_kb"))
    if found:
        journal.note("top_buffer", path=str(tracefs.root), small_kb=found[1], large_kb=found[2])


class _Placeholder:
    """A thread that sleeps: the pid that filters hold until the workload is there, because it does nothing."""

    def __init__(self) -> None:
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._over.wait, name="tracecorr-idle", daemon=True)
        self._thread.start()
        self.tid = self._thread.native_id

    def end(self) -> None:
        """Let the thread end; may be called again."""
        self._over.set()
