"""What a capture arms: the plain values that `make_plan` derives from what is wanted and what the machine offers."""

from __future__ import annotations

from dataclasses import dataclass

EVENT_SETS = ("minimal", "default", "full")
SMI_EVENTS = "SMI events of the KFD (evictions, page faults, resets)"


@dataclass(frozen=True)
class Wanted:
    """What the command line asks for."""

    event_set: str = "default"
    events: tuple[str, ...] = ()  # more "system/name" or "system/glob"
    functions: tuple[str, ...] = ()  # more kernel functions, globs allowed
    uprobes: tuple[str, ...] = ()  # more "PATH:SYMBOL"
    ranges: tuple[str, ...] = ()  # "roctx:NAME": keep only these ranges
    probe_shared: bool = False  # arm uprobes through tracefs even where other processes map the library
    buffer_mb: int | None = None  # for all CPUs together


@dataclass(frozen=True)
class EventPlan:
    """A static event enabled in an instance, with an optional filter."""

    system: str
    name: str
    filter: str = ""


@dataclass(frozen=True)
class ProbePlan:
    """A dynamic probe. `definition` lacks the leading `p:GROUP/NAME`, for example `kfd_ioctl cmd=$arg2:x32`."""

    kind: str  # "p", "r", "f", "f-return", "u" or "u-return"
    name: str
    definition: str
    instance: str  # InstancePlan.name that records it
    through: str = "tracefs"  # "tracefs" or "perf": bound to the workload, no other process pays
    why: str = ""
    filter: str = ""  # which hits are kept
    otherwise: str = ""  # a poorer definition, for a kernel that refuses the first


@dataclass(frozen=True)
class InstancePlan:
    """One private tracefs instance."""

    name: str  # "workload" or "gpu"; on the machine tracecorr_TOKEN_NAME
    clock: str
    follows_workload: bool  # event filter by pid, children included
    buffer_kb_per_cpu: int
    events: tuple[EventPlan, ...] = ()
    functions: tuple[str, ...] = ()  # for the function tracer
    options: tuple[tuple[str, str], ...] = ()
    busy_cpus: tuple[int, ...] = ()  # CPUs with larger buffers: those of the workload
    busy_buffer_kb: int = 0


@dataclass(frozen=True)
class Absent:
    """Something wanted that will not be recorded."""

    what: str
    why: str
    remedy: str = ""


@dataclass(frozen=True)
class Plan:
    """What gets armed and what is absent; a pure function of (Wanted, Offer)."""

    instances: tuple[InstancePlan, ...]
    probes: tuple[ProbePlan, ...]
    absent: tuple[Absent, ...]
    perf_buffer_kb_per_cpu: int = 0  # for probes that go through perf
    perf_cpus: tuple[int, ...] = ()  # where the workload may run, and its probes are opened; empty = everywhere
    # Whose mappings perf tells of, so that libraries that appear late need not be polled: `workload`, `machine`, or "".
    watch_mappings: str = ""
    copy_top_buffer: bool = False  # copy what is printed there while the workload runs
    smi_gpus: tuple[int, ...] = ()  # gpu_ids whose SMI events are taken
