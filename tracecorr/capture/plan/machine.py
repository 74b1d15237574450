"""Find out, by trying, what this machine offers to a capture; nothing of it stays."""

from __future__ import annotations

import contextlib
import errno
import os
import platform
import resource
import stat
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from tracecorr.capture.debugfs import KFD_DEBUGFS
from tracecorr.capture.plan.plan import NO, PARTLY, YES, Finding, Offer, Runtime, Wanted
from tracecorr.capture.plan.runtimes import find_runtimes, installed_libraries, other_users, read_library, read_runtime
from tracecorr.capture.plan.trials import Trials, try_tracefs
from tracecorr.capture.probes.user import describe_cost, most_probes, perf_cpus
from tracecorr.capture.smi_events import look_at_smi
from tracecorr.capture.snapshots import look_at_slots
from tracecorr.capture.tracefs.control import find_tracefs
from tracecorr.capture.tracefs.journal import Journal, new_token, pid_namespace
from tracecorr.capture.tracefs.undo import ACTIONS
from tracecorr.capture.workload.engines import available_engines
from tracecorr.capture.workload.invoker import call_as_root, most_files, read_environment
from tracecorr.capture.workload.paths import find_inside
from tracecorr.capture.workload.processes import list_children, list_threads
from tracecorr.model.errors import TracecorrError
from tracecorr.model.hip_environment import describe_effects
from tracecorr.store.free_memory import available_memory_bytes, read_cgroup_limit

_KFD_DEVICE = Path("/dev/kfd")
_DRM = Path("/sys/class/drm")
_AMD_VENDOR = "0x1002"
# Virtual functions of Instinct accelerators, by PCI device (amdgpu_drv.c, kernel 7.2, and ROCm's list).
_VIRTUAL_FUNCTIONS = ("0x7410", "0x74b5", "0x74b6", "0x74b9", "0x74bd", "0x75b0", "0x75b3")
_LOCKDOWN = Path("/sys/kernel/security/lockdown")
_PARANOID = Path("/proc/sys/kernel/perf_event_paranoid")
_MODULE = Path("/sys/module/amdgpu")
_FIRST_PID_NAMESPACE = 0xEFFFFFFC  # PROC_PID_INIT_INO of proc_ns.h (Linux 3.8 to 6.18)


def _read_text(path: Path) -> str:
    """Return the text of a file of the kernel, or "" where it cannot be read."""
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""


def _can_see(path: Path) -> bool:
    """Tell whether the file is there for this process; Path.exists of Python 3.11 raises behind a closed folder."""
    try:
        path.stat()
    except OSError:
        return False
    return True


def look_at_kfd() -> Finding:
    """Open /dev/kfd, which a GPU program must be able to do."""
    try:
        os.close(os.open(_KFD_DEVICE, os.O_RDWR | os.O_CLOEXEC))
    except FileNotFoundError:
        why = f"there is no {_KFD_DEVICE}"
        return Finding("/dev/kfd", NO, why, "modprobe amdgpu" if not _MODULE.is_dir() else "")
    except OSError as error:
        no_gpu = error.errno == errno.EINVAL
        why = "the driver has no GPU" if no_gpu else str(error.strerror)
        return Finding("/dev/kfd", NO, why, "" if no_gpu else "usermod -aG render,video USER, then log in again")
    return Finding("/dev/kfd", YES)


def _look_at_debugfs() -> Finding:
    """Look whether the driver's dumps (hqds, mqds, rls) are there; none is read here, reading hqds disturbs."""
    if _can_see(KFD_DEBUGFS / "mqds"):
        return Finding("debugfs of the KFD", YES, str(KFD_DEBUGFS))
    if not any(Path("/sys/kernel/debug").glob("*")):
        return Finding("debugfs of the KFD", NO, "debugfs is not mounted, or no right to see it",
                       "as root: mount -t debugfs nodev /sys/kernel/debug")  # fmt: skip
    return Finding("debugfs of the KFD", NO, f"there is no {KFD_DEBUGFS}", "modprobe amdgpu")


def is_virtual_function() -> bool:
    """Tell whether a GPU of this machine is an SR-IOV function, whose registers must not be read in bulk."""
    for device in _DRM.glob("renderD*/device"):
        if _read_text(device / "vendor") != _AMD_VENDOR:
            continue
        if _can_see(device / "physfn") or _read_text(device / "device") in _VIRTUAL_FUNCTIONS:
            return True
    return False


def _look_at_lockdown() -> Finding:
    """Read the kernel's lockdown mode: confidentiality bars tracefs and probes."""
    mode = next((w.strip("[]") for w in _read_text(_LOCKDOWN).split() if w.startswith("[")), "none")
    if mode == "confidentiality":
        return Finding("lockdown", NO, "confidentiality: tracing is forbidden", "boot with lockdown=integrity")
    return Finding("lockdown", YES, f"mode {mode}: tracing is allowed")


def _look_at_rights() -> Finding:
    """Tell whether this process may trace at all."""
    if os.geteuid() != 0:
        return Finding("rights", NO, "tracing needs root", f"run it as root: {call_as_root('...')}")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    paranoid = _read_text(_PARANOID) or "unknown"
    return Finding("rights", YES, f"root; open files {soft} of {hard}; perf_event_paranoid {paranoid}")


def look_at_process_numbers() -> Finding:
    """Tell whether this process sees processes by the kernel's own numbers: filters and records have no others."""
    if pid_namespace() == _FIRST_PID_NAMESPACE:
        return Finding("process numbers", YES)
    why = "tracecorr runs in a container with its own PID namespace: the kernel would trace others with these numbers"
    remedy = "call tracecorr on the host (--container NAME), or start the container with --pid=host"
    return Finding("process numbers", NO, why, remedy)


def look_at_limits() -> Finding:
    """Read the memory limit of this process's cgroup: the readers of a busy capture live in it."""
    file, limit = read_cgroup_limit()
    if limit is not None and limit < 512 << 20:
        why = f"this cgroup may use {limit >> 20} MiB"
        return Finding("cgroup limits", PARTLY, why, "start tracecorr outside of this cgroup, or with --buffer-mb 64")
    return Finding("cgroup limits", YES, f"{file} {'max' if limit is None else limit}")


def _look_at_engines() -> Finding:
    """Look for container engines."""
    engines = available_engines()
    if engines:
        return Finding("container engines", YES, ", ".join(engines))
    return Finding("container engines", NO, "neither docker nor podman", "only needed for --container and --image")


# Exported by HIP 7.3 and later: a program that runs already can turn its own log on.
_LOG_SWITCH = "hipExtEnableLogging"
_LOG_ON_DEMAND = (
    "a program may call hipExtSetLoggingParams(5, 0, 0x7fffffff) and hipExtEnableLogging() itself: what it then writes "
    "to the file that AMD_LOG_LEVEL_FILE named when it started is captured (capture --pid); nobody else can turn it on"
)


def look_at_environment(environment: Mapping[str, str]) -> Iterator[Finding]:
    """Yield a line per variable that changes what a capture of the workload sees."""
    for effect in describe_effects(environment):
        yield Finding("environment", PARTLY, effect)


def look_at_runtimes(runtimes: Sequence[Runtime], where: str) -> Iterator[Finding]:
    """Yield a line per runtime found, and one for each kind that was not.

    Args:
        runtimes: what was found.
        where: whose libraries were looked at, such as `this machine`.
    """
    names = {"hip": "libamdhip64", "hsa": "libhsa-runtime64", "roctx": "libroctx64"}
    for runtime in runtimes:
        users = f", mapped by {runtime.other_users} other processes" if runtime.other_users else ""
        version = f" {runtime.version}" if runtime.version else ""
        yield Finding(f"runtime {runtime.kind}", YES, f"{runtime.path}{version}{users}")
        if _LOG_SWITCH in runtime.symbols:
            yield Finding("log on demand", PARTLY, _LOG_ON_DEMAND)
    for kind, name in names.items():
        if not any(r.kind == kind for r in runtimes):
            why = f"no {name} in the usual places of {where}; if the workload loads another one, it is found then"
            yield Finding(f"runtime {kind}", NO, why)


def _look_at_events(events: frozenset[str]) -> Iterator[Finding]:
    """Yield a line per group of events; nothing where tracefs could not be tried."""
    if not events:
        return
    groups = {
        "syscalls": ("syscalls/sys_enter_ioctl", "a kernel with CONFIG_FTRACE_SYSCALLS"),
        "sched": ("sched/sched_process_fork", "a kernel with CONFIG_TRACING"),
        "gpu_scheduler": ("gpu_scheduler/", "modprobe amdgpu"),
        "amdgpu": ("amdgpu/", "modprobe amdgpu"),
    }
    for system, (needed, remedy) in groups.items():
        count = sum(e.startswith(f"{system}/") for e in events)
        if any(e.startswith(needed) for e in events):
            yield Finding(f"events {system}", YES, f"{count} events")
        else:
            why = "the driver is not loaded" if remedy == "modprobe amdgpu" else "this kernel does not have them"
            yield Finding(f"events {system}", NO, why, remedy)
    if any(e.startswith("amdkfd/") for e in events):
        yield Finding("events amdkfd", YES, "the driver has its own")


# What the default set wants of one libhsa-runtime64 and one libroctx64.
_USUAL_PROBES = 13


def probe_machine(
    pid: int | None = None,
    wanted: Wanted | None = None,
    environment: Mapping[str, str] | None = None,
    attached: bool = False,
    program: str = "",
) -> Offer:
    """Return what the machine offers, each point tried; scratch instance and probes are removed again.

    Args:
        pid: a process of the workload or of its container, whose libraries are looked at.
        wanted: its `uprobes` name libraries to look at.
        environment: of the workload: where it finds its libraries.
        attached: whether `pid` is the workload itself, with all its threads.
        program: path of its executable or script, as it names it.
    """
    trials = _try()
    runtimes = _runtimes(pid, wanted or Wanted(), environment, program)
    kfd, debugfs = look_at_kfd(), _look_at_debugfs()
    smi, smi_gpus = look_at_smi()
    memory, cpus = available_memory_bytes(), os.cpu_count() or 1
    where = "this machine" if pid is None else f"process {pid}"
    offer = Offer(
        kernel=platform.release(),
        cpus=cpus,
        memory_available_bytes=memory,
        workload_cpus=_allowed_cpus([0] if pid is None else list_threads(pid), cpus),
        workload_threads=_count_threads(pid) if attached and pid is not None else 1,
        most_files=most_files(),
        kfd=kfd.state == YES,
        smi_gpus=smi_gpus,
        smi_refusal=smi.why if smi.state == NO else "",
        virtual_function=is_virtual_function(),
        runtimes=runtimes,
        findings=(
            _look_at_rights(), look_at_code(), look_at_process_numbers(), *trials.findings,
            *_look_at_events(trials.events), _look_at_lockdown(), look_at_limits(), kfd, smi, debugfs,
            *look_at_slots(),
            *look_at_runtimes(runtimes, where), *look_at_environment(_environment_of(pid, environment)),
            _look_at_engines(),
        ),
        **{name: value for name, value in vars(trials).items() if name != "findings"},
    )  # fmt: skip
    return replace(offer, findings=(*offer.findings, _look_at_memory(offer), *_look_at_probe_budget(offer)))


def _environment_of(pid: int | None, environment: Mapping[str, str] | None) -> Mapping[str, str]:
    return environment or (read_environment(pid) if pid is not None else None) or {}


def _look_at_memory(offer: Offer) -> Finding:
    """Return how much memory the buffers can have."""
    budget = f"{offer.memory_available_bytes >> 20} MiB available, {offer.cpus} CPUs"
    return Finding("buffer memory", YES, f"{budget}: --buffer-mb may be {offer.most_buffer_mb} at most")


def _look_at_probe_budget(offer: Offer) -> tuple[Finding, ...]:
    """Return what probes cost each thread of the workload, where they are bound to it."""
    if not offer.perf_probes:
        return ()
    most, cpus = most_probes(offer), perf_cpus(offer)
    why = f"up to {most} probes are bound to the workload: {describe_cost(1, cpus)}"
    remedy = "" if most >= _USUAL_PROBES else "run the workload on fewer CPUs (taskset, numactl)"
    return (Finding("probes through perf", YES if not remedy else PARTLY if most else NO, why, remedy),)


def look_at_code() -> Finding:
    """Tell whether another user can change what root runs here: Python, its libraries, tracecorr itself."""
    if os.geteuid() != 0:
        return Finding("code", YES, "it does not run as root")
    program = Path(sys.executable)
    places = [program.parent, program.resolve().parent, Path(__file__), *(Path(name or ".") for name in sys.path)]
    for place in (path.absolute() for path in places):
        writable = next((path for path in (place, *place.resolve().parents) if _others_write(path, place)), None)
        if writable is not None:
            who = f"user {writable.stat().st_uid}" if writable.stat().st_uid else "others than root"
            why = f"root runs code from {place}, and {who} may write {writable}: whoever changes it becomes root"
            step = "install tracecorr where only root may write: sudo pipx install --global"
            return Finding("code", PARTLY, why, step)
    return Finding("code", YES, "only root may change what runs as root")


def _others_write(path: Path, place: Path) -> bool:
    """Tell whether users other than root may write a file or folder, or replace what is in it."""
    try:
        found = path.stat()
    except OSError:
        return False
    # Of a folder above, the sticky bit keeps what belongs to root.
    is_kept = path != place and found.st_mode & stat.S_ISVTX
    return found.st_uid != 0 or (bool(found.st_mode & 0o022) and not is_kept)


def _count_threads(pid: int) -> int:
    """Return the threads of a process and of its descendants."""
    return len(list_threads(pid)) + sum(_count_threads(child) for child in list_children(pid))


def _allowed_cpus(tids: Iterable[int], cpus: int) -> tuple[int, ...]:
    """Return the CPUs that some threads may use, where these are not all."""
    allowed: set[int] = set()
    for tid in tids:
        with contextlib.suppress(OSError):  # it has ended
            allowed |= os.sched_getaffinity(tid)
    return tuple(sorted(allowed)) if len(allowed) < cpus else ()


def _try() -> Trials:
    """Try tracefs; what bars it is a finding, not an error."""
    trials = Trials()
    token = new_token()
    if os.geteuid() != 0:
        return replace(trials, findings=[Finding("tracefs", NO, "not tried: that needs root")])
    try:
        journal = Journal.create(token)
    except TracecorrError as error:
        return replace(trials, findings=[Finding("tracefs", NO, error.what, error.next_step)])
    try:
        tracefs = find_tracefs(journal)
        trials = try_tracefs(tracefs, journal, token)
        trials.findings.insert(0, Finding("tracefs", YES, str(tracefs.root)))
    except TracecorrError as error:
        trials.findings.append(Finding("tracefs", NO, error.what, error.next_step))
    finally:
        left = journal.undo(ACTIONS)
    trials.findings += [Finding("clean-up", NO, problem, "tracecorr clean") for problem in left]
    return trials


def _runtimes(
    pid: int | None, wanted: Wanted, environment: Mapping[str, str] | None, program: str
) -> tuple[Runtime, ...]:
    root = Path("/") if pid is None else Path(f"/proc/{pid}/root")
    found = {(r.device, r.inode): r for r in find_runtimes(pid, installed_libraries(root, environment, program))}
    for path, symbols in _asked_for(wanted).items():
        file = find_inside(root, path)
        library = read_library(file, symbols, path) if file is not None else None
        if file is not None and library is not None:
            # A runtime may be in any folder: its own functions are probed, too.
            known = found.get((library.device, library.inode)) or read_runtime(file, path)
            merged = (
                library if known is None else replace(known, path=path, symbols={**known.symbols, **library.symbols})
            )
            found[library.device, library.inode] = merged
    mine = () if pid is None else (pid,)
    return tuple(replace(r, other_users=len(other_users(r, mine))) for r in found.values())


def _asked_for(wanted: Wanted) -> dict[str, list[str]]:
    asked: dict[str, list[str]] = {}
    for text in wanted.uprobes:
        path, _, symbol = text.rpartition(":")
        if path and symbol:
            asked.setdefault(path, []).append(symbol)
    return asked
