"""The verb `hang`: why a running process stands still, from outside and without harm."""

from __future__ import annotations

import dataclasses
import json
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tracecorr.capture.debugfs import KFD_DEBUGFS, read_kfd_dump
from tracecorr.cli.console import refuse_idle, say, show
from tracecorr.cli.parser import read_time
from tracecorr.model.errors import InputError, MachineError
from tracecorr.model.printable import printable
from tracecorr.model.standstill import ANSWERS, NOTHING, STANDS
from tracecorr.threads import begin_polars

if TYPE_CHECKING:
    from collections.abc import Callable

    from tracecorr.analyze.hangs import Judgment
    from tracecorr.live.driver import Driver
    from tracecorr.live.look import Look, Sight

# All reads of one process together may take so long, besides the time between the looks.
_LIMIT_SECONDS = 30.0
_SHOWN_THREADS = 12


def hang_verb(
    pid: Annotated[list[int] | None, typer.Option("--pid", metavar="N", help="Process to look at; repeatable.")] = None,
    container: Annotated[
        str | None, typer.Option(metavar="C", help="Look at the processes of a running container.")
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Look at all processes that use the GPU (the default).")] = False,
    wait: Annotated[str, typer.Option(metavar="TIME", help="Time between the two looks: 500ms, 1s, 2m.")] = "1s",
    stall: Annotated[
        str,
        typer.Option(
            metavar="TIME",
            help="A packet counts as hanging after this time without progress; needs --watch, or --wait of this time.",
        ),
    ] = "30s",
    deep: Annotated[
        bool,
        typer.Option(
            "--deep", help="If something is found, also read mqds and hqds once; these reads take driver locks."
        ),
    ] = False,
    debugfs: Annotated[
        Path | None, typer.Option(metavar="DIR", help=f"Debugfs folder of the KFD; default {KFD_DEBUGFS}.")
    ] = None,
    watch: Annotated[
        bool, typer.Option("--watch", help="Repeat until something hangs, or until all processes have ended.")
    ] = False,
    save: Annotated[bool, typer.Option("--save", help="Write what was seen, decoded, to hang-TIME.json.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show why a running process hangs: the packet at the head of each queue, what it waits for, what would end that.

    tracecorr looks at the process twice, from outside. It does not stop the
    process, write to its memory, preload a library or issue an ioctl. A verdict
    has three parts: what was seen, what that means ("proved", "likely", or "one
    of" several causes), and what would decide.

    \b
    source           reads                   lock  root  worst case
    /proc/PID/task   state, call, stack      none  (1)   a part is missing
    /proc/PID/fd     who has /dev/kfd open   none  (1)   one is not found
    /sys/class/kfd   queues, slots           none  no    a part is missing
    /dev/kmsg        lines of the driver     none  (2)   a part is missing
    /proc/PID/maps   what may be read        mmap  (1)   no answer in 30 s:
    and pagemap, mem queues, packets,        mmap  (1)   reported; a child
                     signals, arguments                  process stays blocked
    --deep: mqds     queue descriptors       (3)   yes   no answer in 5 s:
            hqds     registers of queues     (4)   yes   reported; a child
                                                         process stays blocked

    \b
    mmap = the process's memory lock (mmap_lock)
    (1) root, or the user of the process (for memory and calls this user needs
        kernel.yama.ptrace_scope=0)
    (2) root if kernel.dmesg_restrict=1
    (3) driver lock of each process that has queues, one after the other
    (4) driver lock of the registers; hqds are read only if mqds answered
    mqds and hqds are not read during a GPU reset, or if the looks found nothing.

    Only memory pages that are present and belong to no file are read. Reading
    other pages could block, or change the process.

    Exit status: 0 nothing hangs, 4 something hangs, 5 it cannot be decided. A
    packet at the head of a queue counts as hanging only after --stall: kernels
    may run long, and collectives and persistent kernels wait by design. A
    conclusion that depends on hardware behaviour is marked "not seen on
    hardware": it was not tested on a real GPU.
    """
    if (pid is not None) + (container is not None) + every > 1:
        raise InputError("--pid, --container and --all exclude each other", "name one of them")
    if deep and watch:
        raise InputError("--deep and --watch cannot be combined", "leave out one of them")
    refuse_idle("--debugfs", "--deep", given=debugfs is not None, there=deep)
    wait_s, stall_ns = read_time("--wait", wait), int(read_time("--stall", stall) * 1e9)
    folder = debugfs or KFD_DEBUGFS
    read = (lambda name: read_kfd_dump(name, folder).data) if deep else None
    pids = _list_pids(pid, container)
    firsts: dict[int, Look] = {}
    while True:
        answer = _look(pids, wait_s, stall_ns, firsts, read)
        if not watch or answer["status"] == STANDS or not answer["processes"]:
            break
        say(f"{time.strftime('%H:%M:%S')}: {answer['answer']}")
    if save:
        name = Path(time.strftime("hang-%Y%m%d-%H%M%S.json"))
        name.write_text(json.dumps(answer, indent=1) + "\n")
        say(f"saved {name}")
    show(json.dumps(answer, indent=1) if as_json else _render(answer), keep="\n")
    if answer["status"]:
        raise typer.Exit(answer["status"])


def _list_pids(named: list[int] | None, container: str | None) -> list[int]:
    from tracecorr.live.processes import find_processes, read_process

    if named:
        for pid in named:
            if read_process(pid) is None:
                raise InputError(f"there is no process {pid}", "tracecorr hang lists those that use the GPU")
        return sorted(set(named))
    if container:
        from tracecorr.capture.workload.container import ContainerMembers
        from tracecorr.capture.workload.engines import container_pid

        inside = ContainerMembers(container_pid(container, os.environ)).list_pids()
        return sorted(set(inside) & set(find_processes())) or inside
    return find_processes()


def _look(
    pids: list[int], wait_s: float, stall_ns: int, firsts: dict[int, Look], read: Callable[[str], bytes] | None
) -> dict[str, Any]:
    """Return the answer about some processes as JSON; `firsts` has the oldest look since when nothing moved."""
    if not hasattr(os, "fork") or not Path("/proc/self/task").is_dir():
        raise MachineError("this machine has no /proc", "run it on Linux")
    if not pids:
        return _answer([], [], [])
    begin_polars()
    from tracecorr.capture.plan.machine import is_virtual_function
    from tracecorr.live.driver import read_driver
    from tracecorr.live.look import look_twice
    from tracecorr.live.scene import describe_sight

    sights = [sight for sight in look_twice(pids, wait_s, _LIMIT_SECONDS) if sight.looks[-1].process is not None]
    driver = read_driver()
    found = [_judge(sight, driver, stall_ns, firsts) for sight in sights]
    if read is not None and any(found):
        # The registers of an SR-IOV function are asked of the host one by one.
        driver = read_driver(read, ["mqds"] if is_virtual_function() else ["mqds", "hqds"])
        found = [_judge(sight, driver, stall_ns, firsts) for sight in sights]
    told = [describe_sight(sight, judged) for sight, judged in zip(sights, found, strict=True)]
    ended = [f"process {pid}, which ended meanwhile" for pid in sorted(set(pids) - {sight.pid for sight in sights})]
    return _answer(told, driver.list_texts(pids), [*driver.gaps, *ended])


def _judge(sight: Sight, driver: Driver, stall_ns: int, firsts: dict[int, Look]) -> list[Judgment]:
    """Return what stands in a process, since the first look of those that saw the same."""
    from tracecorr.analyze.hangs import judge_scene
    from tracecorr.live.scene import make_scene

    last = sight.looks[-1]
    found = judge_scene(make_scene(sight, driver), last.at_ns - sight.looks[0].at_ns, stall_ns)
    if not found:
        firsts.pop(sight.pid, None)
        return []
    first = firsts.setdefault(sight.pid, sight.looks[0])
    longer = dataclasses.replace(sight, looks=[first, last])
    again = judge_scene(make_scene(longer, driver), last.at_ns - first.at_ns, stall_ns)
    if not again:
        firsts[sight.pid] = sight.looks[0]
    return again or found


def _answer(told: list[dict[str, Any]], kernel_log: list[str], not_read: list[str]) -> dict[str, Any]:
    from tracecorr.live.processes import tell_occupancy

    status = max((p["status"] for p in told), key=tuple(ANSWERS).index, default=NOTHING)
    return {"status": status, "answer": ANSWERS[status], "processes": told, "gpus": tell_occupancy(),
            "kernel_log": kernel_log, "not_read": not_read}  # fmt: skip


def _render(answer: dict[str, Any]) -> str:
    lines = []
    for process in answer["processes"]:
        lines.append(f"process {process['pid']} ({printable(process['name'])}): {process['answer']}")
        for judgment in process["judgments"]:
            certainty = f" ({judgment['certainty']})" if judgment["certainty"] else ""
            lines += [f"  seen: {line}" for line in judgment["seen"]]
            lines.append(f"  means{certainty}: {judgment['means']}")
            lines.append(f"  would decide: {judgment['would_decide']}")
        for queue in process["queues"]:
            counts = f"{queue['written']} written, {queue['finished']} finished, {queue['pending']} pending"
            lines.append(f"  queue {queue['id']} (HWq {queue['hwq']}, SWq {queue['swq']}): {counts}")
        lines += _render_threads(process["threads"])
        lines += [f"  not seen: {gap}" for gap in process["not_seen"]]
    if not answer["processes"] and not answer["not_read"]:
        lines.append("no process uses the GPU")
    lines += answer["gpus"]
    lines += [f"kernel log: {printable(line)}" for line in answer["kernel_log"]]
    lines += [f"not read: {gap}" for gap in answer["not_read"]]
    if answer["processes"] and not answer["kernel_log"] and not answer["not_read"]:
        lines.append("kernel log: silent about the GPU in the last 15 minutes")
    return "\n".join(lines)


def _render_threads(threads: list[dict[str, Any]]) -> list[str]:
    """Return the threads, those that do the same in one line."""
    groups: dict[tuple[str, str, str], list[int]] = {}
    for thread in threads:
        stack = " < ".join(thread["kernel_stack"])
        groups.setdefault((thread["state"], thread["doing"], stack), []).append(thread["tid"])
    lines = []
    for (state, doing, stack), tids in list(groups.items())[:_SHOWN_THREADS]:
        shown = ", ".join(map(str, tids[:4])) + (f" and {len(tids) - 4} more" if len(tids) > 4 else "")
        lines.append(
            f"  thread{'s' if len(tids) > 1 else ''} {shown}: {doing} ({state}){': ' + stack if stack else ''}"
        )
    return lines
