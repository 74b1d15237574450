"""Start the workload where it belongs: on the host, in a running or a new container, or not at all."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path

from tracecorr.capture.folder import RecordingFolder
from tracecorr.capture.hiplog.container_logs import ContainerLogs
from tracecorr.capture.hiplog.elsewhere import OwnLogs
from tracecorr.capture.interrupts import WATCHED
from tracecorr.capture.options import CaptureOptions, log_environment
from tracecorr.capture.workload.container import FIND_SECONDS, ContainerProcess, GatePipe
from tracecorr.capture.workload.engines import LOG_MOUNT, exec_command, exec_log_folders, find_engine, run_command
from tracecorr.capture.workload.host import AttachedProcess, GatedProcess, Workload, resolve_command
from tracecorr.capture.workload.invoker import Invoker, find_invoker, read_status
from tracecorr.model.errors import InputError, MachineError
from tracecorr.store.ownership import LOG_FOLDER

_LOG_NAME = "hip"


@dataclass
class Launched:
    """A workload at its gate.

    Args:
        workload: the process.
        logs: folder of its logs, as the host sees it.
        variables: environment that it got from here.
        where: `host`, `container NAME`, `image NAME` or `process PID`.
        collect: brings the logs into the capture folder, after the workload, given the uids of the workload; returns
            what to tell of that.
        withdraw: takes away what was made for a workload that was ended at its gate.
        free_bytes: space left where the logs land.
    """

    workload: Workload
    logs: Path
    where: str
    free_bytes: Callable[[], int]
    variables: dict[str, str] = field(default_factory=dict)
    collect: Callable[[frozenset[int]], list[str] | None] = lambda owners: None  # noqa: ARG005
    withdraw: Callable[[], None] = lambda: None


def check_command(options: CaptureOptions, invoker: Invoker) -> str:
    """Return the path of the workload's program on the host, "" where the host does not start it.

    Raises:
        CommandError: it is not found, or cannot run.
        InputError: the options contradict each other.
    """
    places = [option for option in (options.container, options.image, options.pid) if option is not None]
    if len(places) > 1:
        raise InputError("--container, --image and --pid exclude each other", "give one of them")
    if options.pid is not None and options.command:
        raise InputError("--pid attaches to a running process and starts no command", "leave the command out")
    if not options.command and options.pid is None and options.image is None:
        raise InputError("nothing to run", "tracecorr capture -- COMMAND")
    return "" if places else resolve_command(options.command[0], invoker.environment)


def launch(
    options: CaptureOptions,
    invoker: Invoker,
    program: str,
    folder: RecordingFolder,
    token: str,
    interruptible: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> Launched:
    """Start the workload behind its gate.

    Args:
        options: what was asked for.
        invoker: as whom it runs.
        program: path of its executable on the host.
        folder: the capture folder.
        token: unique name of the capture.
        interruptible: lets a signal raise `Interrupted` while a container's engine is waited for.

    Raises:
        CommandError: the container has no such command.
        InputError: there is no such process, container or image.
        MachineError: the gate of the container did not appear.
    """
    if options.pid is not None:
        return _attach(options, options.pid, folder)
    if options.container is not None:
        with interruptible():
            return _launch_exec(options, invoker, folder, token)
    if options.image is not None:
        with interruptible():
            return _launch_run(options, invoker, folder, token)
    variables = log_environment(options.log_level, folder.log_folder / _LOG_NAME)
    os.chown(folder.path / LOG_FOLDER, invoker.uid, invoker.gid)
    process = GatedProcess(program, options.command, {**invoker.environment, **variables}, invoker, WATCHED)
    return Launched(process, folder.path / LOG_FOLDER, "host", folder.free_bytes, variables)


def _attach(options: CaptureOptions, pid: int, folder: RecordingFolder) -> Launched:
    process, own, logs = AttachedProcess(pid), OwnLogs(pid), folder.path / LOG_FOLDER

    def collect(_owners: frozenset[int]) -> list[str]:
        room = folder.free_bytes() - options.min_free_bytes
        try:
            return own.copy_to(logs, min(room, options.max_log_bytes or room))
        finally:
            own.close()

    return Launched(process, logs, f"process {pid}", folder.free_bytes, collect=collect, withdraw=own.close)


def _launch_exec(options: CaptureOptions, invoker: Invoker, folder: RecordingFolder, token: str) -> Launched:
    assert options.container is not None
    engine, _ = find_engine("container", options.container, _root(), invoker)
    folders, until = exec_log_folders(token), time.time() + FIND_SECONDS
    variables = log_environment(options.log_level, Path(folders[0]) / _LOG_NAME)
    command = exec_command(engine, options.container, options.command, variables, token, until, tty=_has_terminal())
    process = _start_engine(command, engine.user)
    gate = ContainerProcess(process, token, None, options.command[0])
    with _discard_on_failure(gate):
        logs = ContainerLogs(gate.pid, folders)
    if "AMD_LOG_LEVEL_FILE" in variables:
        variables["AMD_LOG_LEVEL_FILE"] = f"{logs.inside}/{_LOG_NAME}"

    def collect(owners: frozenset[int]) -> list[str]:
        try:
            return logs.move_to(folder.path / LOG_FOLDER, owners)
        finally:
            logs.close()

    def withdraw() -> None:
        try:
            logs.remove()
        finally:
            logs.close()

    where = f"container {options.container}"
    return Launched(gate, logs.path, where, logs.free_bytes, variables, collect, withdraw)


def _launch_run(options: CaptureOptions, invoker: Invoker, folder: RecordingFolder, token: str) -> Launched:
    assert options.image is not None
    engine, facts = find_engine("image", options.image, _root(), invoker)
    if engine.user.uid == 0:
        folder.close_raw()
    pipe = GatePipe(folder.path / LOG_FOLDER)
    variables = log_environment(options.log_level, Path(LOG_MOUNT) / _LOG_NAME)
    command = run_command(
        engine, options.image, facts, options.command, variables, token, folder.log_folder, options.run_options,
        tty=_has_terminal(),
    )  # fmt: skip
    program = options.command[0] if options.command else f"the command of image {options.image}"
    try:
        gate = ContainerProcess(_start_engine(command, engine.user), token, pipe, program)
    except BaseException:
        pipe.close()
        raise
    with _discard_on_failure(gate):
        # The container's user must be able to write its log there.
        owner = int((read_status(gate.pid) or {}).get("Uid", "0").split()[0])
        os.chown(folder.path / LOG_FOLDER, owner, -1)
    logs, where = folder.path / LOG_FOLDER, f"image {options.image}"
    return Launched(gate, logs, where, folder.free_bytes, variables, lambda _owners: pipe.close(), pipe.close)


@contextmanager
def _discard_on_failure(gate: ContainerProcess) -> Iterator[None]:
    """End a workload at its gate when what follows its start fails.

    Raises:
        MachineError: the system refused it.
    """
    try:
        yield
    except OSError as error:
        gate.discard()
        raise MachineError(
            f"the logs of the container cannot be reached: {error}", "look at the container; its workload did not run"
        ) from error
    except BaseException:
        gate.discard()
        raise


def _start_engine(command: list[str], user: Invoker) -> GatedProcess:
    process = GatedProcess(command[0], command, user.environment, user, WATCHED)
    process.release()
    return process


def _root() -> Invoker:
    return find_invoker(os.environ, as_root=True)


def _has_terminal() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty()
