"""What a capture arms: the plain values that `make_plan` derives from what is wanted and what the machine offers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

_SHARE_FOR_BUFFERS = 0.5
YES, PARTLY, NO = "yes", "partly", "no"


@dataclass(frozen=True)
class Finding:
    """One line of `doctor`: what was tried, what came of it, and the command that mends it."""

    name: str
    state: str  # YES, PARTLY or NO
    why: str = ""
    remedy: str = ""


@dataclass(frozen=True)
class Runtime:
    """A user-space library whose functions can be probed, found by its exported symbols and not by its name."""

    kind: str  # "hsa", "hip", "roctx"; "other" for a library that was asked for by path
    path: str  # as the workload sees it
    host_path: str  # as the host reaches the same file; the probe binds to it
    device: int
    inode: int
    symbols: Mapping[str, int]  # exported function -> offset in the file
    version: str = ""
    other_users: int = 0  # processes beside the workload that map this file


@dataclass(frozen=True)
class Offer:
    """All that the plan may use. Made by `probe_machine`, or by hand for a described machine in a test."""

    kernel: str
    cpus: int
    memory_available_bytes: int
    workload_cpus: tuple[int, ...] = ()  # where the workload may run; empty = anywhere
    workload_threads: int = 1  # threads that it has already, when it is attached to
    most_files: int = 1 << 20  # descriptors that one process may have open
    events: frozenset[str] = frozenset()  # "system/name", as listed by tracefs
    functions: Mapping[str, int] = field(default_factory=dict)  # traceable name -> how many functions of one module
    shared_names: frozenset[str] = frozenset()  # functions of the driver whose name others of the kernel bear, too
    function_tracer: bool = False
    kprobes: bool = False
    uprobes: bool = False
    fprobes: bool = False
    numbered_arguments: bool = False  # $argN in kernel probes; without it registers are named
    return_arguments: bool = False  # $argN in return probes
    btf_arguments: bool = False  # fields by name, of functions of the driver too
    perf_probes: bool = False  # perf_event_open on a tracepoint works
    clocks: tuple[str, ...] = ()
    instance_options: frozenset[str] = frozenset()  # options of a private instance: event-fork, trace_printk_dest, ...
    kfd: bool = False  # /dev/kfd can be opened
    smi_gpus: tuple[int, ...] = ()  # gpu_ids whose SMI events the driver gives us, of all processes
    smi_refusal: str = ""  # why it gives none
    virtual_function: bool = False  # an SR-IOV function: hqds must not be read
    driver_prints: bool = False  # the driver has trace_printk texts
    runtimes: tuple[Runtime, ...] = ()
    findings: tuple[Finding, ...] = ()

    @property
    def most_buffer_mb(self) -> int:
        """Return how many MiB all buffers together may have: the workload needs memory, too.

        Buffers of ftrace are taken at once, and no process is charged for them.
        """
        return int(self.memory_available_bytes * _SHARE_FOR_BUFFERS) >> 20


EVENT_SETS = ("minimal", "default", "full")
SMI_EVENTS = "SMI events of the KFD (evictions, page faults, resets)"


# The writes of the HIP logs: recorded of descriptors that are logs alone, of none before one is known.
LOG_WRITES, NO_DESCRIPTOR = "syscalls/sys_enter_write", "fd == 0xffffffff"


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
    """A dynamic probe. `definition` is without the leading `p:GROUP/NAME`, for example `kfd_ioctl cmd=$arg2:x32`."""

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
