"""The plan: a pure function from what is wanted and what the machine offers to what gets armed and what is absent."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Iterator
from dataclasses import replace

from tracecorr.capture.plan.plan import (
    EVENT_SETS,
    LOG_WRITES,
    NO_DESCRIPTOR,
    SMI_EVENTS,
    Absent,
    EventPlan,
    InstancePlan,
    Offer,
    Plan,
    ProbePlan,
    Wanted,
)
from tracecorr.capture.probes.kernel import plan_kernel_functions
from tracecorr.capture.probes.user import (
    choose_watch,
    copy_suffix,
    describe_cost,
    perf_cpus,
    plan_user_probes,
    watch_probes,
)
from tracecorr.model.errors import InputError, MachineError

_SYSCALLS = (
    "ioctl", "openat", "mmap", "munmap", "close", "dup", "dup2", "dup3", "clone", "clone3", "set_robust_list",
    "execve", "exit_group",
)  # fmt: skip
# Per event set and instance. Scheduler and interrupt events fire outside the workload: nothing filters them by pid.
_WORKLOAD = {
    "minimal": ("sched/sched_process_fork", "sched/sched_process_exec", "sched/sched_process_exit"),
    "default": (*(f"syscalls/sys_{way}_{call}" for call in _SYSCALLS for way in ("enter", "exit")), LOG_WRITES),
    "full": ("sched/sched_switch", "sched/sched_wakeup"),
}
_GPU = {
    "minimal": ("gpu_scheduler/*", "printk/console"),
    "default": (
        "amdkfd/*", "amdgpu/amdgpu_iv", "amdgpu/amdgpu_cs", "amdgpu/amdgpu_cs_ioctl", "amdgpu/amdgpu_sched_run_job",
        "amdgpu/amdgpu_pasid_*", "amdgpu/amdgpu_bo_move", "amdgpu/amdgpu_ib_pipe_sync", "amdgpu/amdgpu_isolation",
        "amdgpu/amdgpu_cleaner_shader", "amdgpu/amdgpu_reset_reg_dumps",
    ),
    "full": ("amdgpu/amdgpu_bo_*", "amdgpu/amdgpu_vm_*", "dma_fence/*"),
}  # fmt: skip
# Not every driver has them, and nothing that is linked needs them: their absence is no news.
_OPTIONAL = (
    "amdkfd/*", "amdgpu/amdgpu_isolation", "amdgpu/amdgpu_cleaner_shader", "amdgpu/amdgpu_reset_reg_dumps",
)  # fmt: skip
_GPU_SYSTEMS = (
    "gpu_scheduler", "amdgpu", "amdkfd", "amdgpu_dm", "dma_fence", "drm", "irq", "irq_vectors", "workqueue", "printk",
)  # fmt: skip
# Every register access of the driver: only by its exact name.
_TOO_HOT = ("amdgpu/amdgpu_device_rreg", "amdgpu/amdgpu_device_wreg")

_SHARE_OF_MEMORY, _MOST_BYTES = 0.02, 2 << 30
_LEAST_KB, _PAGE_KB = 64, 4
# How the memory is shared out: workload, gpu, perf.
_SHARES = {True: (0.5, 0.25, 0.25), False: (0.7, 0.3, 0.0)}
_MOST_PERF_KB = 16384


def make_plan(wanted: Wanted, offer: Offer) -> Plan:
    """Choose what gets armed.

    Args:
        wanted: what the command line asks for.
        offer: what the machine offers.

    Raises:
        InputError: the event set has no such name, or the buffers would take too much of the memory.
        MachineError: this machine's traces cannot be put on the clock of the log.
    """
    if wanted.event_set not in EVENT_SETS:
        raise InputError(f"there is no event set {wanted.event_set!r}", f"choose one of {', '.join(EVENT_SETS)}")
    if "mono" not in offer.clocks:
        raise MachineError("tracefs has no clock mono", "a kernel of 3.17 or newer, with CONFIG_TRACING")
    if wanted.buffer_mb is not None and wanted.buffer_mb > offer.most_buffer_mb:
        raise _refuse_buffers(wanted.buffer_mb, offer)
    sets = EVENT_SETS[: EVENT_SETS.index(wanted.event_set) + 1]
    kernel = plan_kernel_functions(wanted, offer, sets)
    user, no_user = plan_user_probes(wanted, offer, sets)
    workload, gpu, no_events = _plan_events(wanted, offer, sets)
    by_perf = any(p.through == "perf" for p in user)
    sizes = _buffers(wanted, offer, by_perf)
    moved = {"trace_printk_dest": "1"} if offer.driver_prints and "trace_printk_dest" in offer.instance_options else {}
    instances = (
        _favour_busy(offer, InstancePlan(
            "workload", "mono", True, sizes[0], workload, kernel.functions,
            _options(offer, {"event-fork": "1", "function-fork": "1", "function-trace": "1"}),
        )),
        InstancePlan("gpu", "mono", False, sizes[1], gpu, (), _options(offer, moved)),
    )  # fmt: skip
    absent = (*no_events, *kernel.absent, *no_user, *_missing_smi_events(offer))
    copied = offer.driver_prints and not moved
    return Plan(
        instances, (*kernel.probes, *user), absent, sizes[2] if by_perf else 0, offer.workload_cpus,
        choose_watch(offer), copied, offer.smi_gpus,
    )  # fmt: skip


def _missing_smi_events(offer: Offer) -> tuple[Absent, ...]:
    return () if offer.smi_gpus else (Absent(SMI_EVENTS, offer.smi_refusal or "the driver has no GPU"),)


def plan_late_probes(
    wanted: Wanted, offer: Offer, number: int, taken: int = 0
) -> tuple[tuple[ProbePlan, ...], tuple[Absent, ...]]:
    """Return the probes of runtimes that appeared after the start, their names made unique, and what is absent.

    Args:
        wanted: what the command line asks for.
        offer: what the machine offers, with only the new runtimes in it.
        number: how many runtimes are armed already, plus one: no two probes may have one name.
        taken: how many probes go through perf already.
    """
    sets = EVENT_SETS[: EVENT_SETS.index(wanted.event_set) + 1]
    probes, absent = plan_user_probes(wanted, offer, sets, taken)
    return tuple(_renamed(p, number) for p in probes), absent


def _renamed(probe: ProbePlan, number: int) -> ProbePlan:
    name, back = (probe.name[:-4], "_ret") if probe.kind == "u-return" else (probe.name, "")
    return replace(probe, name=f"{name}{copy_suffix(number)}{back}")


def _plan_events(
    wanted: Wanted, offer: Offer, sets: Iterable[str]
) -> tuple[tuple[EventPlan, ...], tuple[EventPlan, ...], list[Absent]]:
    """Return the events of the workload's instance, those of the GPU's, and what is absent."""
    patterns = {"workload": [p for s in sets for p in _WORKLOAD[s]], "gpu": [p for s in sets for p in _GPU[s]]}
    for given in wanted.events:
        text = given.replace(":", "/", 1)  # as perf and trace-cmd write it
        patterns["gpu" if text.partition("/")[0] in _GPU_SYSTEMS else "workload"].append(text)
    absent: list[Absent] = []
    chosen: dict[str, dict[str, None]] = {"workload": {}, "gpu": {}}
    for instance, texts in patterns.items():
        for text in texts:
            found = _matching(text, offer.events)
            chosen[instance].update(dict.fromkeys(found))
            if not found and text not in _OPTIONAL:
                absent.append(_no_event(text, offer.events))
    plans = {name: tuple(_plan_event(path, wanted.events) for path in paths) for name, paths in chosen.items()}
    return plans["workload"], plans["gpu"], list(dict.fromkeys(absent))


def _plan_event(path: str, asked: Iterable[str]) -> EventPlan:
    # Who asks for all writes gets them.
    alone = path == LOG_WRITES and not any(fnmatch.fnmatch(path, text.replace(":", "/", 1)) for text in asked)
    system, name = path.split("/", 1)
    return EventPlan(system, name, NO_DESCRIPTOR if alone else "")


def _matching(text: str, events: frozenset[str]) -> list[str]:
    if text in events:
        return [text]
    return [e for e in sorted(fnmatch.filter(events, text)) if e not in _TOO_HOT]


def _no_event(text: str, events: frozenset[str]) -> Absent:
    system = text.partition("/")[0]
    if any(e.startswith(f"{system}/") for e in events):
        return Absent(f"event {text}", "this kernel does not have it")
    remedies = {"gpu_scheduler": "modprobe amdgpu", "amdgpu": "modprobe amdgpu",
                "syscalls": "a kernel with CONFIG_FTRACE_SYSCALLS"}  # fmt: skip
    why = "the driver amdgpu is not loaded" if system in ("gpu_scheduler", "amdgpu") else "this kernel has none of them"
    return Absent(f"events {system}/*", why, remedies.get(system, ""))


def _options(offer: Offer, more: dict[str, str]) -> tuple[tuple[str, str], ...]:
    """Return the options of an instance: threads by process, losses counted instead of old records overwritten.

    A new instance begins with what the top one has: clock marks must be taken, and no stacks recorded with each event.
    """
    every = {"overwrite": "0", "record-tgid": "1", "markers": "1", "stacktrace": "0", "userstacktrace": "0", **more}
    return tuple((name, value) for name, value in every.items() if name in offer.instance_options)


def _refuse_buffers(buffer_mb: int, offer: Offer) -> InputError:
    available = offer.memory_available_bytes >> 20
    return InputError(
        f"--buffer-mb {buffer_mb} is more than half of the available memory ({available} MiB)",
        f"give --buffer-mb {offer.most_buffer_mb} or less, or leave it out",
    )


def _buffers(wanted: Wanted, offer: Offer, by_perf: bool) -> tuple[int, int, int]:
    """Return KiB per CPU of the workload's instance, the GPU's, and perf's rings (a power of two of pages)."""
    whole = min(int(offer.memory_available_bytes * _SHARE_OF_MEMORY), _MOST_BYTES)
    if wanted.buffer_mb is not None:
        whole = wanted.buffer_mb << 20
    per_cpu = whole // 1024 // max(offer.cpus, 1)
    workload, gpu, perf = (max(int(per_cpu * share) // _PAGE_KB * _PAGE_KB, _LEAST_KB) for share in _SHARES[by_perf])
    perf = perf * offer.cpus // perf_cpus(offer)
    return workload, gpu, min(1 << (perf.bit_length() - 1), _MOST_PERF_KB)


def _favour_busy(offer: Offer, plan: InstancePlan) -> InstancePlan:
    """Give the memory of an instance to the CPUs that the workload may use; the others keep an eighth of theirs."""
    busy = len(offer.workload_cpus)
    if not 0 < busy < offer.cpus:
        return plan
    idle_kb = max(plan.buffer_kb_per_cpu // 8 // _PAGE_KB * _PAGE_KB, _LEAST_KB)
    busy_kb = (plan.buffer_kb_per_cpu * offer.cpus - idle_kb * (offer.cpus - busy)) // busy // _PAGE_KB * _PAGE_KB
    return replace(plan, buffer_kb_per_cpu=idle_kb, busy_cpus=offer.workload_cpus, busy_buffer_kb=busy_kb)


def render_plan(plan: Plan, offer: Offer | None = None) -> str:
    """Return the plan as text: what gets armed where, and what is absent, why, and what mends it."""
    lines = [f"kernel {offer.kernel}, {offer.cpus} CPUs"] if offer else []
    for instance in plan.instances:
        lines += _render_instance(instance, [p for p in plan.probes if p.instance == instance.name])
    if plan.perf_buffer_kb_per_cpu:
        lines.append(f"perf rings: {plan.perf_buffer_kb_per_cpu} KiB per CPU{_render_cost(plan, offer)}")
    if any(p.kind in ("u", "u-return") for p in plan.probes) or plan.watch_mappings:
        lines.append(f"libraries that appear late: {_LATE[plan.watch_mappings]}")
    if plan.copy_top_buffer:
        lines.append("the driver's own trace_printk: copied from the top buffer, which keeps it")
    if plan.smi_gpus:
        lines.append(f"{SMI_EVENTS}: gpu_id {' '.join(f'{gpu:x}' for gpu in plan.smi_gpus)}")
    lines.append("absent: nothing" if not plan.absent else f"absent: {len(plan.absent)}")
    for absent in plan.absent:
        lines.append(f"  {absent.what}: {absent.why}")
        if absent.remedy:
            lines.append(f"    fix: {absent.remedy}")
    return "\n".join(lines)


def _render_cost(plan: Plan, offer: Offer | None) -> str:
    if offer is None:
        return ""
    probes = sum(p.through == "perf" for p in plan.probes) + watch_probes(offer)
    return f"; {describe_cost(probes, perf_cpus(offer))}"


def _render_instance(instance: InstancePlan, probes: list[ProbePlan]) -> Iterator[str]:
    whom = "the workload and its children" if instance.follows_workload else "the whole machine"
    busy = f", {instance.busy_buffer_kb} KiB on {len(instance.busy_cpus)} of the workload" if instance.busy_cpus else ""
    yield f"instance {instance.name}: {whom}, clock {instance.clock}, {instance.buffer_kb_per_cpu} KiB per CPU{busy}"
    if instance.options:
        yield f"  options: {' '.join(f'{name}={value}' for name, value in instance.options)}"
    systems: dict[str, list[str]] = {}
    for event in instance.events:
        alone = " (of HIP logs only, without the written text)" if event.filter == NO_DESCRIPTOR else ""
        systems.setdefault(event.system, []).append(f"{event.name}{alone}")
    for system, names in systems.items():
        yield f"  events {system}: {' '.join(names)}"
    if instance.functions:
        yield f"  functions: {' '.join(instance.functions)}"
    for probe in probes:
        bound = ", bound to the workload by perf" if probe.through == "perf" else ""
        kept = f", only if {probe.filter}" if probe.filter else ""
        yield f"  probe {probe.name}: {_KINDS[probe.kind]}{bound}{kept}: {probe.definition}"


_LATE = {
    "workload": "probed as soon as they are mapped",
    "machine": "probed as soon as they are mapped; perf reports each code mapping of the whole machine",
    "": "looked for every 10 ms while processes are young",
}
_KINDS = {
    "p": "kprobe", "r": "kprobe at return", "f": "fprobe", "f-return": "fprobe at return", "u": "uprobe",
    "u-return": "uprobe at return",
}  # fmt: skip
