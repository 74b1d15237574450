"""What else `doctor` looks at: the driver, rights, limits, memory, container engines, runtimes."""

from __future__ import annotations

import errno
import os
import resource
from collections.abc import Iterator, Sequence
from pathlib import Path

from tracecorr.capture.called_by_root import call_as_root
from tracecorr.capture.debugfs import KFD_DEBUGFS
from tracecorr.capture.engines import available_engines
from tracecorr.capture.offer import NO, PARTLY, YES, Finding, Runtime
from tracecorr.capture.owner import pid_namespace
from tracecorr.store.free_memory import read_cgroup_limit

KFD_DEVICE = Path("/dev/kfd")
_DRM = Path("/sys/class/drm")
_AMD_VENDOR = "0x1002"
# Virtual functions of Instinct accelerators, by PCI device (amdgpu_drv.c, kernel 7.2, and ROCm's list).
_VIRTUAL_FUNCTIONS = ("0x7410", "0x74b5", "0x74b6", "0x74b9", "0x74bd", "0x75b0", "0x75b3")
_LOCKDOWN = Path("/sys/kernel/security/lockdown")
_PARANOID = Path("/proc/sys/kernel/perf_event_paranoid")
_MODULE = Path("/sys/module/amdgpu")
_FIRST_PID_NAMESPACE = 0xEFFFFFFC  # PROC_PID_INIT_INO of proc_ns.h (Linux 3.8 to 6.18)


def read_text(path: Path) -> str:
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
        os.close(os.open(KFD_DEVICE, os.O_RDWR | os.O_CLOEXEC))
    except FileNotFoundError:
        why = f"there is no {KFD_DEVICE}"
        return Finding("/dev/kfd", NO, why, "modprobe amdgpu" if not _MODULE.is_dir() else "")
    except OSError as error:
        no_gpu = error.errno == errno.EINVAL
        why = "the driver has no GPU" if no_gpu else str(error.strerror)
        return Finding("/dev/kfd", NO, why, "" if no_gpu else "usermod -aG render,video USER, then log in again")
    return Finding("/dev/kfd", YES)


def look_at_debugfs() -> Finding:
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
        if read_text(device / "vendor") != _AMD_VENDOR:
            continue
        if _can_see(device / "physfn") or read_text(device / "device") in _VIRTUAL_FUNCTIONS:
            return True
    return False


def look_at_lockdown() -> Finding:
    """Read the kernel's lockdown mode: confidentiality bars tracefs and probes."""
    mode = next((w.strip("[]") for w in read_text(_LOCKDOWN).split() if w.startswith("[")), "none")
    if mode == "confidentiality":
        return Finding("lockdown", NO, "confidentiality: tracing is barred", "boot with lockdown=integrity")
    return Finding("lockdown", YES, f"mode {mode}: tracing is allowed")


def look_at_rights() -> Finding:
    """Tell whether this process may trace at all."""
    if os.geteuid() != 0:
        return Finding("rights", NO, "tracing needs root", f"run it as root: {call_as_root('...')}")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    paranoid = read_text(_PARANOID) or "unknown"
    return Finding("rights", YES, f"root; open files {soft} of {hard}; perf_event_paranoid {paranoid}")


def look_at_process_numbers() -> Finding:
    """Tell whether this process sees processes by the kernel's own numbers: filters and records have no others."""
    if pid_namespace() == _FIRST_PID_NAMESPACE:
        return Finding("process numbers", YES)
    why = "tracecorr runs in a container with process numbers of its own: the kernel would trace others that bear them"
    remedy = "call tracecorr on the host (--container NAME), or start the container with --pid=host"
    return Finding("process numbers", NO, why, remedy)


def look_at_limits() -> Finding:
    """Read the memory limit of this process's cgroup: the readers of a busy capture live in it."""
    file, limit = read_cgroup_limit()
    if limit is not None and limit < 512 << 20:
        why = f"this cgroup may use {limit >> 20} MiB"
        return Finding("cgroup limits", PARTLY, why, "start tracecorr outside of this cgroup, or with --buffer-mb 64")
    return Finding("cgroup limits", YES, f"{file} {'max' if limit is None else limit}")


def look_at_engines() -> Finding:
    """Look for container engines."""
    engines = available_engines()
    if engines:
        return Finding("container engines", YES, ", ".join(engines))
    return Finding("container engines", NO, "neither docker nor podman", "only needed for --container and --image")


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
    for kind, name in names.items():
        if not any(r.kind == kind for r in runtimes):
            why = f"no {name} in the usual places of {where}; one that the workload brings along is found when it runs"
            yield Finding(f"runtime {kind}", NO, why)


def look_at_events(events: frozenset[str]) -> Iterator[Finding]:
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
