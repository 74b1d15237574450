"""Find out, by trying, what this machine offers to a capture; nothing of it stays."""

from __future__ import annotations

import contextlib
import os
import platform
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from tracecorr.capture import findings as look
from tracecorr.capture.descriptors import most_files
from tracecorr.capture.inside import find_inside
from tracecorr.capture.journal import Journal
from tracecorr.capture.offer import NO, PARTLY, YES, Finding, Offer, Runtime
from tracecorr.capture.owner import new_token
from tracecorr.capture.plan import Wanted
from tracecorr.capture.probe_budget import describe_cost, most_probes, perf_cpus
from tracecorr.capture.processes import list_children, list_threads
from tracecorr.capture.runtimes import find_runtimes, installed_libraries, other_users, read_library
from tracecorr.capture.smi_events import look_at_smi
from tracecorr.capture.tracefs import find_tracefs
from tracecorr.capture.trials import Trials, try_tracefs
from tracecorr.capture.undo import ACTIONS
from tracecorr.model.errors import TracecorrError
from tracecorr.store.free_memory import available_memory_bytes

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
    kfd, debugfs = look.look_at_kfd(), look.look_at_debugfs()
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
        virtual_function=look.is_virtual_function(),
        runtimes=runtimes,
        findings=(
            look.look_at_rights(), look.look_at_process_numbers(), *trials.findings,
            *look.look_at_events(trials.events), look.look_at_lockdown(), look.look_at_limits(), kfd, smi, debugfs,
            *look.look_at_runtimes(runtimes, where), look.look_at_engines(),
        ),
        **{name: value for name, value in vars(trials).items() if name != "findings"},
    )  # fmt: skip
    return replace(offer, findings=(*offer.findings, _look_at_memory(offer), *_look_at_probe_budget(offer)))


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
        if library is not None:
            known = found.get((library.device, library.inode))
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
