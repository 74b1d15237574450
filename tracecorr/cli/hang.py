"""The verb `hang`: why a running process stands still, from outside and without harm."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tracecorr.cli.console import FAILED, UNKNOWN, say, show
from tracecorr.model.errors import InputError, MachineError
from tracecorr.model.printable import printable
from tracecorr.threads import begin_polars

if TYPE_CHECKING:
    from tracecorr.live.look import Look

# All reads of one process together may take so long, besides the time between the looks.
_LIMIT_SECONDS = 30.0
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_KERNEL_LOG, _RECENT_NS, _RECORD_BYTES, _MOST_RECORDS = Path("/dev/kmsg"), 900 * 10**9, 8192, 20_000
_SHOWN_THREADS = 12


def hang_verb(
    pid: Annotated[list[int] | None, typer.Option("--pid", metavar="N", help="Process to look at; repeatable.")] = None,
    container: Annotated[
        str | None, typer.Option(metavar="C", help="Look at the processes of a running container.")
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Look at all processes that use the GPU (the default).")] = False,
    wait: Annotated[str, typer.Option(metavar="TIME", help="Time between the two looks: 500ms, 1s, 2m.")] = "1s",
    stall: Annotated[
        str, typer.Option(metavar="TIME", help="What stood for so long is said to stand; else it cannot be told.")
    ] = "30s",
    watch: Annotated[bool, typer.Option("--watch", help="Look until something stands, or all are gone.")] = False,
    save: Annotated[bool, typer.Option("--save", help="Write what was seen to hang-TIME.json, decoded.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show why a running process stands still: which packet is at the head, what it waits for, who would end that.

    Two looks from outside. Nothing is stopped, written or preloaded, and no ioctl is made. A verdict has three parts:
    what was seen, what that means (proved, likely, one of), what would decide.

    \b
    source           reads                   lock  root  worst case
    /proc/PID/task   state, call, stack      none  (1)   a part is missing
    /proc/PID/fd     who has /dev/kfd open   none  (1)   one is not found
    /sys/class/kfd   queues, slots           none  no    a part is missing
    /dev/kmsg        lines of the driver     none  (2)   a part is missing
    /proc/PID/maps   what may be read        mmap  (1)   no answer in 30 s:
    and pagemap, mem queues, packets,        mmap  (1)   told, and a child
                     signals, arguments                  is left behind

    \b
    (1) root, or its user (of memory and calls: kernel.yama.ptrace_scope=0)
    (2) root where kernel.dmesg_restrict=1

    Only present pages of memory without a file are read: others may block, or would change the process.

    Exit status: 0 nothing stands, 4 something stands, 5 it cannot be told. A packet at the head is not called a hang
    before --stall: kernels may run long, and collectives and persistent kernels wait by design.
    """
    if (pid is not None) + (container is not None) + every > 1:
        raise InputError("--pid, --container and --all exclude each other", "name one of them")
    wait_s, stall_s = _read_time("--wait", wait), _read_time("--stall", stall)
    pids = _list_pids(pid, container)
    begin_polars()
    firsts: dict[int, Look] = {}
    while True:
        answer = _look(pids, wait_s, stall_s, firsts)
        if not watch or answer["status"] == FAILED or not answer["processes"]:
            break
        say(f"{time.strftime('%H:%M:%S')}: {answer['answer']}")
    if save:
        name = Path(time.strftime("hang-%Y%m%d-%H%M%S.json"))
        name.write_text(json.dumps(answer, indent=1) + "\n")
        say(f"saved {name}")
    show(json.dumps(answer, indent=1) if as_json else _render(answer), keep="\n")
    if answer["status"]:
        raise typer.Exit(answer["status"])


def _read_time(option: str, text: str) -> float:
    found = re.fullmatch(r"(\d+(?:\.\d+)?)(ms|s|m|h)?", text.strip())
    if not found or not float(found[1]):
        raise InputError(f"{option} {text!r} is no time", "write a number with ms, s, m or h: 500ms, 30s")
    return float(found[1]) * _UNITS[found[2] or "s"]


def _list_pids(named: list[int] | None, container: str | None) -> list[int]:
    from tracecorr.live.processes import find_processes, list_cgroup, read_process

    if named:
        for pid in named:
            if read_process(pid) is None:
                raise InputError(f"there is no process {pid}", "tracecorr hang lists those that use the GPU")
        return sorted(set(named))
    if container:
        from tracecorr.capture.workload.engines import container_pid

        inside = set(list_cgroup(container_pid(container, os.environ)))
        using = sorted(inside & set(find_processes()))
        return using or sorted(inside)
    return find_processes()


def _look(pids: list[int], wait_s: float, stall_s: float, firsts: dict[int, Look]) -> dict[str, Any]:
    """Return the answer about some processes as JSON; `firsts` has the oldest look since when nothing moved."""
    from tracecorr.analyze.hangs import judge_scene
    from tracecorr.live.look import look_twice
    from tracecorr.live.processes import tell_occupancy
    from tracecorr.live.scene import ANSWERS, describe_sight, make_scene

    if not hasattr(os, "fork") or not Path("/proc/self/task").is_dir():
        raise MachineError("this machine has no /proc", "run it on Linux")
    told = []
    for sight in look_twice(pids, wait_s, _LIMIT_SECONDS) if pids else []:
        if sight.looks[-1].process is None:
            continue
        scene = make_scene(sight)
        stood_ns = sight.looks[-1].at_ns - sight.looks[0].at_ns
        found = judge_scene(scene, stood_ns, int(stall_s * 1e9))
        if found and (first := firsts.get(sight.pid)):
            longer = dataclasses.replace(sight, looks=[first, sight.looks[-1]])
            stood_ns = longer.looks[-1].at_ns - first.at_ns
            again = judge_scene(make_scene(longer), stood_ns, int(stall_s * 1e9))
            found, firsts[sight.pid] = (again, first) if again else (found, sight.looks[0])
        elif found:
            firsts[sight.pid] = sight.looks[0]
        else:
            firsts.pop(sight.pid, None)
        told.append(describe_sight(sight, found))
    status = max((p["status"] for p in told), key=(0, UNKNOWN, FAILED).index, default=0)
    return {"status": status, "answer": ANSWERS[status], "processes": told, "gpus": tell_occupancy(),
            "kernel_log": _read_kernel_log(pids) if told else []}  # fmt: skip


def _read_kernel_log(pids: list[int]) -> list[str]:
    """Return what the driver printed in the last 15 minutes, lines that name another process left out."""
    import polars as pl

    from tracecorr.read.kernel_log.lines import read_records
    from tracecorr.read.kernel_log.reader import name_messages

    try:
        log = os.open(_KERNEL_LOG, os.O_RDONLY | os.O_NONBLOCK)
    except OSError as error:
        return [f"the kernel log is not readable ({error.strerror}): look as root"]
    data = bytearray()
    try:
        for _ in range(_MOST_RECORDS):
            try:
                data += os.read(log, _RECORD_BYTES)
            except BrokenPipeError:  # records were overwritten
                continue
            except OSError:
                break
    finally:
        os.close(log)
    records = name_messages(read_records(bytes(data)))
    if records.is_empty():
        return []
    recent = pl.col("stamp_ns") >= records["stamp_ns"].max() - _RECENT_NS  # type: ignore[operator]
    mine = pl.col("pid").is_null() | pl.col("pid").is_in(pids)
    return records.filter(pl.col("name").is_not_null() & recent & mine)["text"].to_list()


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
    if not answer["processes"]:
        lines.append("no process uses the GPU")
    lines += answer["gpus"]
    lines += [f"kernel log: {printable(line)}" for line in answer["kernel_log"]]
    lines += (
        []
        if answer["kernel_log"] or not answer["processes"]
        else ["kernel log: silent about the GPU in the last 15 minutes"]
    )
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
