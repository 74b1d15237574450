"""The verb `capture`: record a workload's kernel trace and HIP log together."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from tracecorr.cli.console import ForceOption, add_suffix, begin_with, refuse_idle, say, show
from tracecorr.cli.parser import read_time
from tracecorr.model.errors import InputError
from tracecorr.threads import begin_polars

if TYPE_CHECKING:
    from tracecorr.capture.options import CaptureOptions
    from tracecorr.capture.plan.plan import Wanted


def _complete_event_sets(incomplete: str) -> list[str]:
    """Return the sets of kernel events that fit."""
    from tracecorr.capture.plan.plan import EVENT_SETS

    return begin_with(incomplete, EVENT_SETS)


# Options end at the first word of the command, which may have options of its own.
CONTEXT = {"allow_interspersed_args": False, "ignore_unknown_options": False}
_HQD_SECONDS = 10.0
# Three hours of a log that grows as fast as that of 700 small kernels a second.
_LOG_GB = 100.0
_Value = TypeVar("_Value")


_CommandArgument = Annotated[list[str] | None, typer.Argument(metavar="[--] COMMAND...", help="The workload.")]
_OutputOption = Annotated[
    Path | None,
    typer.Option(
        "--output", "-o", metavar="NAME.tracecorr", help="Capture folder to write; default: PROGRAM-DATE-TIME."
    ),
]
_EventSetOption = Annotated[
    str,
    typer.Option(
        metavar="SET",
        help="Which kernel events are recorded: minimal, default or full.",
        autocompletion=_complete_event_sets,
    ),
]
_EventsOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="SYSTEM/EVENT", help="Additional kernel events (SYSTEM:EVENT works, too; globs allowed); repeatable."
    ),
]
_FunctionsOption = Annotated[
    list[str] | None, typer.Option(metavar="GLOB", help="Additional kernel functions to trace; repeatable.")
]
_UprobesOption = Annotated[
    list[str] | None, typer.Option(metavar="PATH:SYMBOL", help="Additional library functions to probe; repeatable.")
]
_RangesOption = Annotated[
    list[str] | None,
    typer.Option(
        "--range",
        metavar="roctx:NAME",
        help="Of the roctx ranges and marks, keep only those with this text; repeatable.",
    ),
]
_ProbeSharedOption = Annotated[
    bool,
    typer.Option(
        "--probe-shared", help="Probe a library even if other processes use it; this slows its calls in them, too."
    ),
]
_DurationOption = Annotated[float | None, typer.Option(metavar="S", help="Stop recording after S seconds.")]
_DelayOption = Annotated[
    float, typer.Option(metavar="S", help="Start the kernel trace S seconds after the workload starts.")
]
_StartOnSignalOption = Annotated[
    bool, typer.Option("--start-on-signal", help="Start the kernel trace when tracecorr gets SIGUSR1.")
]
_BufferOption = Annotated[
    int | None,
    typer.Option(
        metavar="MB", help="Size of the kernel buffers of all CPUs together; at most half of the free memory."
    ),
]
_MaxLogOption = Annotated[
    float,
    typer.Option(
        metavar="GB", help="Stop recording when the HIP log exceeds this size (uncompressed; holes do not count)."
    ),
]
_MinFreeOption = Annotated[
    float, typer.Option(metavar="GB", help="Stop recording when less disk space than this is free.")
]
_HqdOption = Annotated[
    bool,
    typer.Option("--hqd", help="Read the hardware queues (HQDs) repeatedly; each read takes a driver lock."),
]
_HqdIntervalOption = Annotated[
    float | None, typer.Option(metavar="S", help=f"Minimum time between two HQD reads; default {_HQD_SECONDS:g}.")
]
_LocksOption = Annotated[
    bool,
    typer.Option("--locks", help="Also record futex calls: which thread waited for a lock, and which thread woke it."),
]
_StallOption = Annotated[
    str | None,
    typer.Option(
        metavar="TIME", help="If the workload hangs for this time (30s, 2m), save what `tracecorr hang` sees of it."
    ),
]
# Uncontended locks make no system call.
_LOCK_EVENTS = ("syscalls/sys_enter_futex", "syscalls/sys_exit_futex")
_StallKillOption = Annotated[
    bool,
    typer.Option(
        "--stall-kill",
        help="With --stall: then end the workload. If the driver cannot unmap its queues, the GPU is reset.",
    ),
]
_LogLevelOption = Annotated[int, typer.Option(metavar="N", help="AMD_LOG_LEVEL; 0 = no HIP log.")]
_PlainLogOption = Annotated[bool, typer.Option("--plain-log", help="Do not compress the HIP log while it is written.")]
_ContainerOption = Annotated[
    list[str] | None,
    typer.Option("--container", metavar="NAME", help="Run COMMAND in this running container (docker or podman)."),
]
_ImageOption = Annotated[
    list[str] | None,
    typer.Option("--image", metavar="IMAGE", help="Run COMMAND in a new container of IMAGE that can use the GPUs."),
]
_DockerOption = Annotated[
    list[str] | None,
    typer.Option(metavar="OPTION", help="Additional option of `docker run`, such as --run-option=--ipc=host."),
]
_PidOption = Annotated[
    list[int] | None,
    typer.Option(
        "--pid",
        metavar="PID",
        help="Attach to a running process; the HIP log is recorded only if the process writes one.",
    ),
]
_KillOption = Annotated[
    bool,
    typer.Option(
        "--kill", help="When a limit stops the recording, also end the workload: SIGTERM, SIGKILL after 10 s."
    ),
]
_NoCorrelateOption = Annotated[bool, typer.Option("--no-correlate", help="Do not build the tables.")]
_AsRootOption = Annotated[
    bool, typer.Option("--as-root", help="Run the workload as root, not as the user who called sudo.")
]
_ShareOption = Annotated[
    bool, typer.Option("--share", help="Let all users of this machine read the capture, not only the caller.")
]
_QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="Do not show the live status line.")]
_DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Print what would be recorded, and change nothing.")]


def capture_verb(
    command: _CommandArgument = None,
    output: _OutputOption = None,
    force: ForceOption = False,
    event_set: _EventSetOption = "default",
    events: _EventsOption = None,
    functions: _FunctionsOption = None,
    uprobes: _UprobesOption = None,
    ranges: _RangesOption = None,
    probe_shared: _ProbeSharedOption = False,
    duration: _DurationOption = None,
    delay: _DelayOption = 0,
    start_on_signal: _StartOnSignalOption = False,
    buffer_mb: _BufferOption = None,
    max_log_gb: _MaxLogOption = _LOG_GB,
    min_free_gb: _MinFreeOption = 1.0,
    hqd: _HqdOption = False,
    hqd_interval: _HqdIntervalOption = None,
    locks: _LocksOption = False,
    stall: _StallOption = None,
    stall_kill: _StallKillOption = False,
    log_level: _LogLevelOption = 5,
    plain_log: _PlainLogOption = False,
    containers: _ContainerOption = None,
    images: _ImageOption = None,
    run_option: _DockerOption = None,
    pids: _PidOption = None,
    kill: _KillOption = False,
    no_correlate: _NoCorrelateOption = False,
    as_root: _AsRootOption = False,
    share: _ShareOption = False,
    quiet: _QuietOption = False,
    dry_run: _DryRunOption = False,
) -> None:
    """Run COMMAND, record the kernel trace and the HIP log, and save both in a capture folder.

    The exit status is that of COMMAND; 125: tracecorr failed, 126: COMMAND cannot run, 127: COMMAND is not found.
    """
    container, image, pid = _only("--container", containers), _only("--image", images), _only("--pid", pids)
    _check_positive(duration=duration, max_log_gb=max_log_gb, buffer_mb=buffer_mb, hqd_interval=hqd_interval)
    _check_not_negative(delay=delay, min_free_gb=min_free_gb, log_level=log_level)
    refuse_idle("--hqd-interval", "--hqd", given=hqd_interval is not None, there=hqd)
    refuse_idle("--stall-kill", "--stall", given=stall_kill, there=stall is not None)
    refuse_idle("--stall-kill", "a COMMAND", given=stall_kill, there=pid is None)
    refuse_idle("--run-option", "--image", given=bool(run_option), there=image is not None)
    # tracecorr did not start this process: its user and its end are not ours to choose.
    refuse_idle("--kill", "a COMMAND", given=kill, there=pid is None)
    refuse_idle("--as-root", "a COMMAND on the host", given=as_root, there=(container or image or pid) is None)
    begin_polars()
    from tracecorr.capture.options import CaptureOptions

    events_too = [*(events or ()), *(_LOCK_EVENTS if locks else ())]
    options = CaptureOptions(
        command=tuple(command or ()),
        output=None if output is None else add_suffix(output),
        force=force,
        wanted=_want(event_set, events_too, functions, uprobes, ranges, probe_shared, buffer_mb),
        duration=duration,
        delay=delay,
        start_on_signal=start_on_signal,
        max_log_bytes=round(max_log_gb * 1e9),
        min_free_bytes=round(min_free_gb * 1e9),
        kill=kill,
        correlate=not no_correlate,
        as_root=as_root,
        hqd_interval=hqd_interval or _HQD_SECONDS if hqd else None,
        stall=None if stall is None else read_time("--stall", stall),
        stall_kill=stall_kill,
        log_level=log_level,
        compress_log=not plain_log,
        container=container,
        image=image,
        run_options=tuple(run_option or ()),
        pid=pid,
        quiet=quiet,
        share=share,
    )
    if dry_run:
        _print_plan(options)
    else:
        _run(options)


def _want(
    event_set: str,
    events: list[str] | None,
    functions: list[str] | None,
    uprobes: list[str] | None,
    ranges: list[str] | None,
    probe_shared: bool,
    buffer_mb: int | None,
) -> Wanted:
    from tracecorr.capture.plan.plan import EVENT_SETS, Wanted
    from tracecorr.store.recording import RANGE_PREFIX

    if event_set not in EVENT_SETS:
        raise InputError(f"--event-set {event_set} is unknown", f"use one of: {', '.join(EVENT_SETS)}")
    odd = [text for text in ranges or () if not text.removeprefix(RANGE_PREFIX) or not text.startswith(RANGE_PREFIX)]
    if odd:
        raise InputError(f"--range {odd[0]} is not a range", f"write --range {RANGE_PREFIX}NAME")
    return Wanted(
        event_set, tuple(events or ()), tuple(functions or ()), tuple(uprobes or ()), tuple(ranges or ()),
        probe_shared, buffer_mb,
    )  # fmt: skip


def _check_positive(**limits: float | None) -> None:
    """Refuse limits, by the names of their options, that mean nothing; None is one that was left out.

    Raises:
        InputError: one is 0 or less, or no finite number.
    """
    for name, value in limits.items():
        if value is not None and not 0 < value < math.inf:
            raise _refuse_number(name, value, "more than 0")


def _check_not_negative(**numbers: float) -> None:
    """Refuse numbers, by the names of their options, that mean nothing.

    Raises:
        InputError: one is less than 0, or no finite number.
    """
    for name, value in numbers.items():
        if not 0 <= value < math.inf:
            raise _refuse_number(name, value, "0 or more")


def _only(option: str, given: Sequence[_Value] | None) -> _Value | None:
    """Return the value of an option; one capture records one workload.

    Raises:
        InputError: it was given several times, and all but one would be left out.
    """
    if given and len(given) > 1:
        values = ", ".join(map(str, given))
        raise InputError(f"{option} was given {len(given)} times ({values})", f"start one capture for each {option}")
    return given[0] if given else None


def _refuse_number(name: str, value: float, least: str) -> InputError:
    option = f"--{name.replace('_', '-')}"
    return InputError(f"{option} {value:g} must be {least} and finite", "write such a number, or leave it out")


def _print_plan(options: CaptureOptions) -> None:
    from tracecorr.capture.plan.planning import render_plan
    from tracecorr.capture.run import preview_capture

    show(render_plan(*preview_capture(options)), keep="\n")


def _run(options: CaptureOptions) -> None:
    from tracecorr.capture.interrupts import SignalInbox

    # Before heavy modules are imported: they start threads, and a signal that one thread does not block
    # would end the process.
    with SignalInbox() as inbox:
        from tracecorr.capture.run import run_capture

        status = run_capture(options, inbox, say)
    raise typer.Exit(status)
