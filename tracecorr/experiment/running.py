"""What every experiment needs to run workloads: Ctrl-C held back, the caller's rights, captures as processes."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from tracecorr.analyze.run_facts import MODEL_MEMORY, MODEL_VARIABLE
from tracecorr.capture.workload.invoker import Invoker, find_invoker, read_environment
from tracecorr.control.stopping import list_descendants
from tracecorr.model.errors import MachineError
from tracecorr.store import Capture
from tracecorr.store.capture import write_info
from tracecorr.store.ownership import give_folder

_WATCH_SECONDS = 10.0


@contextmanager
def hold_interrupts(most: int | None = None) -> Iterator[None]:
    """Delay Ctrl-C until the running command, which gets it as well, has ended.

    Args:
        most: number of delayed interrupts, the next one acts at once; None = all.

    Raises:
        KeyboardInterrupt: there was one.
    """
    if signal.getsignal(signal.SIGINT) != signal.default_int_handler:
        yield  # Ignored, as under `nohup`, or the caller's own.
        return
    seen = 0

    def hold(*_: object) -> None:
        nonlocal seen
        seen += 1
        if most is not None and seen > most:
            raise KeyboardInterrupt

    signal.signal(signal.SIGINT, hold)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if seen:
        raise KeyboardInterrupt


def run_as_caller(words: Sequence[str]) -> subprocess.CompletedProcess[bytes]:
    """Run a command as the user who called sudo, with that user's environment, but without a log of HIP.

    Raises:
        MachineError: the caller's environment cannot be read.
    """
    caller = find_invoker(os.environ)
    environment = {name: value for name, value in caller.environment.items() if not name.startswith("AMD_LOG_")}
    user, group, groups = (caller.uid, caller.gid, caller.groups) if _is_other(caller) else (None, None, None)
    return subprocess.run(
        words, env=environment, stderr=subprocess.PIPE, check=False, user=user, group=group, extra_groups=groups
    )


@contextmanager
def watch_model() -> Iterator[dict[str, str]]:
    """Look for a model of a GPU in the environment of what runs below this process (`analyze.run_facts`).

    A program loads it when it starts: ten times a second it is looked for, until it is found or ten seconds are over.

    Returns: its variable, once it was found.
    """
    found, over, limit = dict[str, str](), threading.Event(), time.monotonic() + _WATCH_SECONDS

    def look() -> None:
        while not found and time.monotonic() < limit and not over.wait(0.1):
            for pid in list_descendants(os.getpid()):
                if library := (read_environment(pid) or {}).get(MODEL_VARIABLE):
                    found[MODEL_VARIABLE] = library

    thread = threading.Thread(target=look, name="watch-model", daemon=True)
    thread.start()
    try:
        yield found
    finally:
        over.set()
        thread.join()


def _find_model_line(stderr: bytes) -> dict[str, str]:
    """Return what libhsakmt says of the memory of a model when it opens one: a short run may end between two looks."""
    line = re.search(rb"model: use memory backing file given in HSA_MODEL_MEMFILE: (\S+)", stderr)
    return {MODEL_MEMORY: line[1].decode(errors="replace")} if line else {}


def _note_model(target: Path, found: Mapping[str, str]) -> None:
    """Write what `watch_model` found into a capture, which knows the environment of its first program alone."""
    if found and (target / "capture.json").is_file():
        info = Capture.open(target).info
        write_info(target, {**info, "environment": {**(info.get("environment") or {}), **found}})


@contextmanager
def owned_by_caller(folder: Path) -> Iterator[None]:
    """Give a folder, if it exists, to the user who called sudo, with its contents.

    Raises:
        MachineError: the caller's environment cannot be read.
    """
    caller = find_invoker(os.environ)
    try:
        yield
    finally:
        if _is_other(caller) and folder.is_dir():
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                give_folder(descriptor, caller.uid, caller.gid)
            finally:
                os.close(descriptor)


def make_callers_folder(folder: Path) -> None:
    """Make a folder that the user who called sudo can write to.

    Raises:
        OSError: it cannot be made.
    """
    folder.mkdir()
    caller = find_invoker(os.environ)
    if _is_other(caller):
        os.chown(folder, caller.uid, caller.gid, follow_symlinks=False)


def _is_other(caller: Invoker) -> bool:
    return caller.uid != os.geteuid()


def refuse_machine(done: subprocess.CompletedProcess[bytes]) -> None:
    if done.returncode == MachineError.exit_code and (told := find_error(done)):
        raise MachineError(told, "run tracecorr doctor; or use --no-capture")


def find_error(done: subprocess.CompletedProcess[bytes]) -> str:
    """Return what the last message of an error says, "" where there is none."""
    said = done.stderr.decode(errors="replace")
    return said.rsplit("error: ", 1)[1].splitlines()[0] if "error: " in said else ""


def run_capture_of(target: Path, command: Sequence[str], words: Sequence[str]) -> subprocess.CompletedProcess[bytes]:
    """Capture a command in a process of its own, because a capture forks, which a process with threads must not do.

    It handles Ctrl-C itself, and must end regularly to disarm what it armed.

    Args:
        target: the capture folder.
        command: what is captured.
        words: further options of `capture`.

    Raises:
        MachineError: this machine cannot capture.
        KeyboardInterrupt: Ctrl-C, which the capture got, too.
    """
    program = [sys.executable, "-m", "tracecorr", "capture", "--quiet", *words, "-o", str(target), "--", *command]
    with hold_interrupts(), watch_model() as found:
        done = subprocess.run(program, capture_output=True, stdin=subprocess.DEVNULL, check=False)
    refuse_machine(done)
    _note_model(target, found or _find_model_line(done.stderr))
    return done
