"""The verb `capture` without its command line: look at the machine, plan, run, build the tables, sum up."""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import replace
from functools import partial
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tracecorr.capture.folder import RecordingFolder, check_recording_place
from tracecorr.capture.interrupts import Interrupted, SignalInbox
from tracecorr.capture.options import CaptureOptions, choose_folder
from tracecorr.capture.plan.machine import look_at_code, look_at_process_numbers, probe_machine
from tracecorr.capture.plan.plan import NO, YES, Offer, Plan
from tracecorr.capture.plan.planning import make_plan
from tracecorr.capture.session import Session
from tracecorr.capture.tracefs.control import find_tracefs
from tracecorr.capture.tracefs.journal import Journal, new_token
from tracecorr.capture.tracefs.undo import ACTIONS, restore_leftovers
from tracecorr.capture.workload.engines import container_pid
from tracecorr.capture.workload.host import AttachedProcess
from tracecorr.capture.workload.invoker import Invoker, call_as_root, find_invoker, read_environment
from tracecorr.capture.workload.launch import check_command
from tracecorr.capture.workload.paths import find_inside
from tracecorr.model.errors import CaptureError, CommandError, InputError, MachineError, TracecorrError, quote_path
from tracecorr.model.hip_environment import describe_lost_end
from tracecorr.model.kinds import LEAST_ADDRESS
from tracecorr.progress import LiveLine
from tracecorr.store import Capture
from tracecorr.store.capture import drop_abandoned
from tracecorr.store.log_ranges import count_processes
from tracecorr.store.recording import describe_exit, describe_gaps

if TYPE_CHECKING:
    import polars as pl

_Say = Callable[[str], None]
# The exit status of a workload that SIGKILL ended, as a shell tells it.
_KILLED = 128 + 9


def _need_rights() -> None:
    if os.geteuid() != 0:
        raise MachineError("a capture needs root to use the kernel's trace", call_as_root("capture -- COMMAND"))
    numbers = look_at_process_numbers()
    if numbers.state == NO:
        raise MachineError(numbers.why, numbers.remedy)


def _plan_capture(
    options: CaptureOptions, interruptible: Callable[[], AbstractContextManager[None]] = nullcontext
) -> tuple[Plan, Offer]:
    """Return what a capture would arm on this machine, and what the machine offers; nothing is changed.

    Args:
        options: what was asked for.
        interruptible: lets a signal raise `Interrupted` while a container's engine is waited for.

    Raises:
        InputError: there is no such process or container.
        MachineError: the machine cannot capture.
    """
    _need_rights()
    invoker = find_invoker(os.environ, as_root=options.as_root)
    pid = options.pid
    if options.container is not None:
        with interruptible():
            pid = container_pid(options.container, os.environ)
    if options.pid is not None:
        AttachedProcess(options.pid).close()
    environment = dict(invoker.environment) if pid is None else read_environment(pid)
    offer = probe_machine(
        pid, wanted=options.wanted, environment=environment, attached=options.pid is not None,
        program=_program_path(options, pid, environment or {}),
    )  # fmt: skip
    if options.image is not None:
        # The engine's daemon starts it, on CPUs of its own choice; its libraries are looked at before its gate opens.
        offer = replace(offer, workload_cpus=(), runtimes=())
    return make_plan(options.wanted, offer), offer


def preview_capture(options: CaptureOptions) -> tuple[Plan, Offer]:
    """Return what `_plan_capture` does, once it is sure that the command could run and the folder be made.

    Raises:
        CommandError: the command is not found or cannot run.
        CaptureError: the folder is in the way.
        InputError: the options contradict each other or name what is not there, or the folder's name cannot be.
        MachineError: the machine cannot capture.
    """
    _need_rights()
    if options.command:
        check_command(options, find_invoker(os.environ, as_root=options.as_root))
    if options.output is not None:
        check_recording_place(choose_folder(options.output, options.command, Path.cwd()), force=options.force)
    return _plan_capture(options)


def _program_path(options: CaptureOptions, pid: int | None, environment: Mapping[str, str]) -> str:
    """Return the path of the workload's program as the workload names it; "" where it cannot be told."""
    if options.pid is not None:
        with suppress(OSError):  # a thread of the kernel, or a process that a security module protects
            return str(Path(f"/proc/{options.pid}/exe").readlink())
        return ""
    command = options.command[0] if options.command else ""
    root = Path("/") if pid is None else Path(f"/proc/{pid}/root")
    if "/" in command:
        return str(Path.cwd() / command) if pid is None else command
    folders = environment.get("PATH", os.defpath).split(":") if command else []
    found = (f"{folder}/{command}" for folder in folders if folder.startswith("/"))
    return next((path for path in found if find_inside(root, path) is not None), "")


def run_capture(options: CaptureOptions, inbox: SignalInbox, say: _Say) -> int:
    """Capture one run of a workload into a folder with tables; return the workload's exit status.

    Args:
        options: what was asked for.
        inbox: signals to this process, entered before any thread was started.
        say: prints a message.

    Raises:
        CommandError: the command is not found or cannot run.
        InputError: the options contradict each other, or name what is not there.
        MachineError: this machine cannot capture; nothing was started or changed.
        CaptureError: the folder is in the way.
        SessionError: the capture failed after the workload had started.
    """
    _need_rights()
    invoker = find_invoker(os.environ, as_root=options.as_root)
    program = check_command(options, invoker)
    code = look_at_code()
    if code.state != YES:
        say(f"warning: {code.why}; {code.remedy}")
    for left in restore_leftovers()[1]:
        say(f"warning: left by an earlier capture: {left}")
    try:
        status, shown = _record(options, invoker, program, inbox, say)
    except Interrupted as signalled:
        raise CommandError(f"{signalled} came before the workload ran", "", 128 + signalled.number) from signalled
    for line in _render_summary(shown):
        say(line)
    return status


def _record(options: CaptureOptions, invoker: Invoker, program: str, inbox: SignalInbox, say: _Say) -> tuple[int, Path]:
    """Record into a new folder; return the workload's status and the folder. One that never ran leaves none."""
    plan, offer = _plan_capture(options, inbox.interruptible)
    token = new_token()
    journal = Journal.create(token)
    try:
        tracefs = find_tracefs(journal)
        folder = _make_folder(options, invoker, journal, token)
        session = Session(options, invoker, program, folder, token, say)
        try:
            status = session.run(plan, offer, tracefs, journal, inbox)
            if options.correlate and not session.is_interrupted:
                _build_tables(folder, inbox, say, quiet=options.quiet)
            return status, folder.shown
        except (InputError, MachineError, CommandError, Interrupted):
            folder.remove()
            raise
        finally:
            folder.hand_over(invoker)
            folder.close()
            for problem in session.problems:
                say(f"warning: {problem}")
    finally:
        for problem in journal.undo(ACTIONS):
            say(f"warning: {problem}; next step: tracecorr clean")


def _make_folder(options: CaptureOptions, invoker: Invoker, journal: Journal, token: str) -> RecordingFolder:
    """Make the capture folder; if another capture just took a name that the user did not ask for, take the next one.

    Raises:
        CaptureError: what the user named exists, or its parent does not.
        InputError: its path is no text, or root cannot write there.
        MachineError: root would not own it.
    """
    while True:
        shown = choose_folder(options.output, options.command or (f"pid{options.pid}",), Path.cwd())
        try:
            return RecordingFolder.create(
                shown,
                invoker,
                force=options.force and options.output is not None,
                share=options.share,
                made=partial(_note_folder, shown, invoker, options, journal, token),
            )
        except CaptureError:
            if options.output is not None or not os.path.lexists(shown):
                raise


def _note_folder(
    shown: Path, invoker: Invoker, options: CaptureOptions, journal: Journal, token: str, found: os.stat_result
) -> None:
    """Write down whose the folder is, which stays root's until the capture has ended."""
    journal.note(
        "folder", token=token, path=str(shown), device=found.st_dev, inode=found.st_ino, uid=invoker.uid,
        gid=invoker.gid, share=options.share,
    )  # fmt: skip


def _build_tables(folder: RecordingFolder, inbox: SignalInbox, say: _Say, *, quiet: bool) -> None:
    """Build the tables while the folder is still root's, so that no link of the user's is followed on the way."""
    line = LiveLine()
    try:
        with inbox.interruptible():
            warnings = build_tables(folder.path, None if quiet else line.show)
    except Interrupted as signalled:
        warnings = [f"the tables were not built: {signalled} came"]
    line.clear()
    for warning in warnings:
        say(f"warning: {warning}")


def _render_summary(shown: Path) -> Iterator[str]:
    """Yield what a capture holds, in a few lines: events, losses, log, dispatches, what fails, and the next command."""
    capture = Capture.open(shown)
    info = capture.info
    lost = info["lost_events"]
    if "start" not in info:
        yield "warning: the kernel trace was never started (--delay, --start-on-signal)"
    if info["exit_status"] not in (0, None):
        yield f"the workload ended with status {describe_exit(info)}"
    log = _describe_log(info)
    yield f"{shown.name}: {info['events']:,} kernel events, {lost:,} lost{_seconds(info)}{log and f'; {log}'}"
    for loss in info["losses"]:
        yield f"lost: {loss.get('records', '?')} records, {loss['bytes']:,} bytes of {loss['source']}: {loss['reason']}"
    if not log:
        yield (
            "warning: no HIP log appeared: the workload did not use HIP, its runtime cannot log, "
            "it changed the AMD_LOG_* variables, or it could not write into the capture folder"
        )
    elif info["exit_status"] == _KILLED and any(entry["source"] == "amd_log" for entry in info["files"]):
        yield from _describe_lost_end(capture)
    yield from _sum_up_gaps(list(describe_gaps(info["plan"])), shown)
    if not capture.has_tables():
        yield f"next step: tracecorr correlate {quote_path(shown)}"
        return
    yield from _describe_tables(capture)
    yield f"next step: tracecorr report {quote_path(shown)}"


def _describe_log(info: Mapping[str, Any]) -> str:
    """Return how large the HIP log is, or why there is none; empty if one should be there."""
    logs = [entry for entry in info["files"] if entry["source"] == "amd_log"]
    if logs:
        stored = sum(entry.get("stored_bytes", entry["size"]) for entry in logs)
        size = sum(entry["size"] for entry in logs)
        on_disk = "" if stored == size else f", compressed to {stored / 1e6:,.1f} MB"
        return f"HIP log: {len(logs)} file(s), {size / 1e6:,.1f} MB{on_disk}"
    if info["where"].startswith("process "):
        return "HIP log: none; the process writes none, and tracecorr cannot turn it on in a running process"
    if "AMD_LOG_LEVEL_FILE" not in info.get("environment", {}):
        return "HIP log: none was asked for (--log-level 0)"
    return "HIP log: none; the warning above says why" if info.get("unlogged") else ""


def _sum_up_gaps(gaps: list[str], shown: Path) -> Iterator[str]:
    """Yield the first gap, which is that of the doorbells if they have one, and how many more there are."""
    gaps.sort(key=lambda gap: "doorbell" not in gap)
    if gaps:
        more = f"; and {len(gaps) - 1} more: tracecorr info {quote_path(shown)}" if len(gaps) > 1 else ""
        yield f"{gaps[0]}{more}"


def _describe_tables(capture: Capture) -> Iterator[str]:
    """Yield dispatches, doorbells and errors of the times in one line, what the trace covers, and failed verdicts."""
    import polars as pl

    from tracecorr.analyze.evidence import Evidence, describe_coverage
    from tracecorr.analyze.verdicts import judge_capture

    launches = capture.table("launches").select(
        dispatches=(pl.col("kind").cast(pl.String) == "dispatch").sum(), packets=pl.col("packet_index").count(),
        recorded=(pl.col("doorbell_evidence").cast(pl.String) == "recorded").sum(),
    )  # fmt: skip
    dispatches, packets, recorded = launches.collect().row(0)
    told = f"{dispatches:,} dispatches, doorbells of {recorded:,} of {packets:,} packets recorded; " if packets else ""
    evidence = Evidence(capture.table, info=capture.info)
    covered = describe_coverage(evidence.coverage)
    yield told + "; ".join((*describe_alignment(capture.table("events")), *([covered] if covered else [])))
    failed = [verdict.name for verdict in judge_capture(evidence) if verdict.outcome == "FAIL"]
    if failed:
        yield f"FAIL: {', '.join(failed)}"


def _describe_lost_end(capture: Capture) -> Iterator[str]:
    """Yield what a killed workload may have lost of its log."""
    import polars as pl

    hashed = False
    if capture.has_tables():
        printed = capture.table("threads").select((pl.col("log_tid") < LEAST_ADDRESS).any()).collect().item()
        hashed = bool(printed)
    if told := describe_lost_end(capture.info.get("environment") or {}, prints_hashes=hashed):
        yield f"warning: {told}"


def _seconds(info: dict[str, Any]) -> str:
    if "start" not in info or "stop" not in info:
        return ""
    return f", in {(info['stop']['monotonic'] - info['start']['monotonic']) / 1e9:.1f} s"


def describe_alignment(events: pl.LazyFrame) -> Iterator[str]:
    """Yield how well the times of each source of `events` are known."""
    import polars as pl

    from tracecorr.analyze.values import render_ns

    width = pl.col("err_lo_ns").cast(pl.Int64) + pl.col("err_hi_ns")
    errors = (
        events.group_by(pl.col("source").cast(pl.String))
        .agg(rows=pl.len(), unknown=width.null_count(), worst=width.max())
        .sort("source")
        .collect()
    )
    for source, rows, unknown, worst in errors.iter_rows():
        known = "the nanosecond" if worst == 0 else "" if worst is None else f"{render_ns(worst)} or better"
        told = f"start known to {known}" if known else "start unknown"
        some = f" (that of {unknown:,} is unknown)" if known and unknown else ""
        yield f"{source}: {rows:,} rows, {told}{some}"


_PR_SET_PDEATHSIG = 1  # prctl(2)


def build_tables(folder: Path, show: Callable[[str], None] | None) -> list[str]:
    """Build the tables of a capture; return the warnings, among them why there are none.

    Args:
        folder: the capture folder.
        show: called with what is being done now.

    Raises:
        Interrupted: a signal ended it; there are no tables.
    """
    context = get_context("spawn")  # threads of this process may hold locks
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_build, args=(folder, theirs, os.getpid()))
    process.start()
    theirs.close()
    try:
        while True:
            told = ours.recv()
            if isinstance(told, list):
                return told
            if show is not None:
                show(told)
    except EOFError:
        return ["the tables were not built: the process that built them was killed, perhaps because memory ran out"]
    finally:
        _end(process)
        drop_abandoned(folder)


def _build(folder: Path, told: Connection, parent: int) -> None:
    """Build the tables in a process group of its own, which ends with `parent`."""
    os.setpgid(0, 0)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        return
    from tracecorr.pipeline import correlate

    try:
        warnings = correlate(folder, live=told.send, jobs=count_processes())
    except Exception as error:
        # Whatever fails here, the recording is complete, and the exit status is the workload's.
        why = f"{error}" if isinstance(error, TracecorrError | OSError) else f"{type(error).__name__}: {error}"
        warnings = [f"the tables were not built: {why}"]
    told.send(warnings)


def _end(process: BaseProcess) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid or 0, signal.SIGKILL)
    process.kill()
    process.join()
