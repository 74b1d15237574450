"""What tracefs really offers, found by trying it in a scratch instance: version numbers tell nothing."""

from __future__ import annotations

import errno
import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tracecorr.capture.plan.plan import NO, PARTLY, YES, Finding
from tracecorr.capture.probes.perf import try_perf
from tracecorr.capture.tracefs.arm import (
    DRIVER_MODULE,
    functions_set,
    note_top_buffer,
    set_functions,
    traceable_functions,
)
from tracecorr.capture.tracefs.control import Tracefs
from tracecorr.capture.tracefs.journal import PREFIX, Journal, journal_folder
from tracecorr.capture.workload.invoker import call_as_root
from tracecorr.model.errors import ControlFileError

# Exported on every kernel and hardly ever called; a probe on it is only defined, never enabled.
_QUIET_FUNCTION = "vfs_fsync"
_TYPED_ARGUMENT = "flags=file->f_flags"
_DRIVER_FUNCTION, _DRIVER_TYPED = "create_queue_cpsch", "qid=q->properties.queue_id"
# How the kernel's own README of tracefs describes what it knows (seen on 6.8, not on 5.10 and 5.15).
_FPROBES, _FIELDS = "f[:", "->field"


@dataclass
class Trials:
    """What came of trying; the fields are those of `Offer`."""

    clocks: tuple[str, ...] = ()
    instance_options: frozenset[str] = frozenset()
    events: frozenset[str] = frozenset()
    functions: Mapping[str, int] = field(default_factory=dict)
    shared_names: frozenset[str] = frozenset()
    function_tracer: bool = False
    kprobes: bool = False
    fprobes: bool = False
    uprobes: bool = False
    numbered_arguments: bool = False
    return_arguments: bool = False
    btf_arguments: bool = False
    perf_probes: bool = False
    driver_prints: bool = False
    findings: list[Finding] = field(default_factory=list)


def try_tracefs(tracefs: Tracefs, journal: Journal, token: str) -> Trials:
    """Try everything that a capture may use; the caller undoes the journal.

    Args:
        tracefs: the tracing folder.
        journal: every change is written there first.
        token: names the scratch instance and the probes that are tried.
    """
    trials = Trials()
    note_top_buffer(tracefs, journal)
    scratch = _try_instance(tracefs, journal, f"{PREFIX}{token}_scratch", trials)
    if scratch is None:
        return trials
    trials.events = tracefs.events()
    listed = _listed_functions(tracefs)
    trials.functions, trials.shared_names = count_functions(listed or _all_functions())
    _try_function_tracer(scratch, listed, trials)
    prober = _Prober(tracefs, journal, f"{PREFIX}{token}")
    _try_kernel_probes(prober, trials)
    _try_user_probes(prober, trials)
    trials.driver_prints = _has_driver_prints(tracefs)
    return trials


@dataclass
class _Prober:
    """Define probes that nothing enables; each is in the journal."""

    tracefs: Tracefs
    journal: Journal
    group: str
    number: int = 0

    def refusal(self, file: str, kind: str, definition: str) -> str:
        """Return why the kernel refuses a probe, or ""."""
        self.number += 1
        name = f"{self.group}/try{self.number}"
        self.journal.note("probe", tracefs=str(self.tracefs.root), file=file, name=name)
        try:
            self.tracefs.append(file, f"{kind}:{name} {definition}")
        except ControlFileError as error:
            return error.log or os.strerror(error.number)
        return ""


def _try_instance(tracefs: Tracefs, journal: Journal, name: str, trials: Trials) -> Tracefs | None:
    scratch = tracefs.instance(name)
    journal.note("instance", path=str(scratch.root))
    try:
        scratch.root.mkdir()
        scratch.write("tracing_on", "0")
        trials.clocks = scratch.choices("trace_clock")
        scratch.write("trace_clock", "mono")
    except (OSError, ControlFileError) as error:
        reason = error.what if isinstance(error, ControlFileError) else f"{error.strerror}: {scratch.root}"
        memory = isinstance(error, OSError) and error.errno == errno.ENOMEM
        trials.findings.append(
            Finding("instances", NO, reason, "free some memory" if memory else f"run it as root: {call_as_root('...')}")
        )
        return None
    trials.instance_options = frozenset(p.name for p in (scratch.root / "options").iterdir())
    missing = [o for o in ("event-fork", "record-tgid") if o not in trials.instance_options]
    if missing:
        why = f"no option {', '.join(missing)}: children or processes of threads are not followed"
        trials.findings.append(Finding("instances", PARTLY, why, "a kernel of 4.13 or newer"))
    else:
        trials.findings.append(Finding("instances", YES, f"clocks: {' '.join(trials.clocks)}"))
    return scratch


def _listed_functions(tracefs: Tracefs) -> list[str]:
    try:
        return traceable_functions(tracefs)
    except ControlFileError:
        return []


def _all_functions() -> list[str]:
    """Return `name [module]` of all functions of the kernel, where the traceable ones are not shown."""
    lines = (line.split() for line in Path("/proc/kallsyms").read_text().splitlines())
    return [" ".join(words[2:]) for words in lines if len(words) > 2 and words[1] in "tT"]


def count_functions(lines: list[str]) -> tuple[Mapping[str, int], frozenset[str]]:
    """Return how many functions bear each name, and which names the driver shares with other code.

    A name of the driver counts there alone: `amdgpu:NAME` tells it from others.

    Args:
        lines: `name` or `name [module]`.
    """
    driver = Counter(line.split()[0] for line in lines if line.endswith(DRIVER_MODULE))
    others = Counter(line.split()[0] for line in lines if not line.endswith(DRIVER_MODULE))
    return {**others, **driver}, frozenset(driver.keys() & others.keys())


def _try_function_tracer(scratch: Tracefs, listed: list[str], trials: Trials) -> None:
    if "function" not in scratch.read("available_tracers").split():
        remedy = "a kernel with CONFIG_FUNCTION_TRACER and CONFIG_DYNAMIC_FTRACE"
        trials.findings.append(Finding("function tracer", NO, "this kernel does not have it", remedy))
        return
    try:
        # Never without a filter: that would trace every function of the kernel.
        set_functions(scratch, [_QUIET_FUNCTION], listed)
        if functions_set(scratch) != {_QUIET_FUNCTION}:
            raise ControlFileError("set_ftrace_filter does not take a function", 0)
        scratch.write("current_tracer", "function")
        scratch.write("current_tracer", "nop")
        scratch.write("set_ftrace_filter", "")
    except ControlFileError as error:
        switched_off = Path("/proc/sys/kernel/ftrace_enabled")
        off = switched_off.exists() and _read_quietly(switched_off) == "0"
        remedy = "sysctl kernel.ftrace_enabled=1" if off else "none: the kernel lists the tracer and refuses it"
        why = os.strerror(error.number) if error.number else error.what
        trials.findings.append(Finding("function tracer", NO, why, remedy))
        return
    trials.function_tracer = True
    count = sum(trials.functions.values())
    trials.findings.append(Finding("function tracer", YES, f"{count} functions can be traced"))


def _try_kernel_probes(prober: _Prober, trials: Trials) -> None:
    function, syntax = _QUIET_FUNCTION, _read_quietly(prober.tracefs.root / "README")
    if not prober.tracefs.has("kprobe_events"):
        reason = "this kernel has no kprobe_events"
    else:
        reason = prober.refusal("kprobe_events", "p", f"{function} a=%di:x64")
    trials.kprobes = not reason
    remedy = "a kernel with CONFIG_KPROBE_EVENTS" if reason else ""
    trials.findings.append(Finding("kprobes", YES if trials.kprobes else NO, reason, remedy))
    if trials.kprobes:
        trials.numbered_arguments = not prober.refusal("kprobe_events", "p", f"{function} a=$arg1:x64")
        trials.return_arguments = not prober.refusal("kprobe_events", "r", f"{function} a=$arg1:x64")
    if prober.tracefs.has("dynamic_events"):
        reason = explain_refusal(prober.refusal("dynamic_events", "f", f"{function} a=$arg1:x64"), _FPROBES, syntax)
        trials.fprobes = not reason
        trials.numbered_arguments = trials.numbered_arguments or trials.fprobes
    trials.findings.append(
        Finding("fprobes", YES if trials.fprobes else NO, "" if trials.fprobes else reason or "no dynamic_events",
                "" if trials.fprobes or trials.kprobes else "a kernel with CONFIG_FPROBE_EVENTS")
    )  # fmt: skip
    _try_types(prober, trials, syntax)


def explain_refusal(reason: str, word: str, syntax: str) -> str:
    """Return why the kernel refuses a probe; `Invalid argument` alone does not say that it does not know such probes.

    Args:
        reason: what it said, "" where it took the probe.
        word: what its description of probes has when it knows them.
        syntax: that description, the file README of tracefs.
    """
    return reason if not reason or not syntax or word in syntax else f"this kernel does not know them ({reason})"


def _try_types(prober: _Prober, trials: Trials, syntax: str) -> None:
    """Try fields by name, on a function of the driver where it is loaded: it has type data of its own."""
    if not (trials.kprobes or trials.fprobes):
        return
    file, kind = ("kprobe_events", "p") if trials.kprobes else ("dynamic_events", "f")
    driver = _DRIVER_FUNCTION in trials.functions
    tried = f"{_DRIVER_FUNCTION} {_DRIVER_TYPED}" if driver else f"{_QUIET_FUNCTION} {_TYPED_ARGUMENT}"
    reason = explain_refusal(prober.refusal(file, kind, tried), _FIELDS, syntax)
    trials.btf_arguments = not reason
    ways = [
        "fields by name" if trials.btf_arguments else "",
        "$argN" if trials.numbered_arguments else "registers",
        "$argN in return probes" if trials.return_arguments else "",
    ]
    state = YES if trials.btf_arguments else PARTLY
    why = "; ".join(w for w in ways if w) + (f"; fields by name are refused: {reason}" if reason else "")
    trials.findings.append(Finding("arguments of kernel functions", state, why))


def _try_user_probes(prober: _Prober, trials: Trials) -> None:
    """Try a probe on a file of our own that no process maps, through tracefs and through perf."""
    if not prober.tracefs.has("uprobe_events"):
        remedy = "a kernel with CONFIG_UPROBE_EVENTS"
        trials.findings.append(Finding("uprobes", NO, "this kernel has no uprobe_events", remedy))
        return
    target = journal_folder() / f"{prober.group}.probed"
    prober.journal.note("file", path=str(target))
    target.write_bytes(bytes(4096))
    reason = prober.refusal("uprobe_events", "p", f"{target}:0x100 a=%di:x64")
    trials.uprobes = not reason
    trials.findings.append(Finding("uprobes", YES if trials.uprobes else NO, reason))
    if not trials.uprobes:
        return
    event = int(prober.tracefs.read(f"events/{prober.group}/try{prober.number}/id"))
    reason = try_perf(event)
    trials.perf_probes = not reason
    remedy = "run it as root, or: sysctl kernel.perf_event_paranoid=-1" if reason else ""
    why = reason or "probes are bound to the workload: no other process gets slower"
    trials.findings.append(Finding("uprobes through perf", YES if trials.perf_probes else NO, why, remedy))


def _has_driver_prints(tracefs: Tracefs) -> bool:
    """Tell whether the driver has trace_printk texts, as some DKMS trees do."""
    text = _read_quietly(tracefs.root / "printk_formats")
    return any(word in text for word in ("[KFD", "KFD_MQD", "[CU_MASK"))


def _read_quietly(path: Path) -> str:
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""
