"""Who called sudo: the plain rounds run as that user, as the captured ones do, and the folder is that user's."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tracecorr.capture.workload.invoker import Invoker, find_invoker
from tracecorr.store.ownership import give_folder


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
def owned_by_caller(folder: Path) -> Iterator[None]:
    """Give a folder, if it is there, to the user who called sudo, with what is written into it meanwhile.

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
