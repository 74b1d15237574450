"""The one tree of errors that tracecorr raises on purpose."""

from __future__ import annotations

import errno
import os
import shlex
from pathlib import Path


class TracecorrError(Exception):
    """Report a failure with what happened, where, and what to do next.

    Args:
        what: what happened, with the place (file, line, option) in it.
        next_step: what the user can do about it.
    """

    exit_code = 1

    def __init__(self, what: str, next_step: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.next_step = next_step


class InputError(TracecorrError):
    """Report input that cannot be used: a file, an option or a query."""

    exit_code = 2


class CaptureError(InputError):
    """Report a capture folder that is missing, foreign or in the way."""


class MachineError(TracecorrError):
    """Report that this machine cannot do what was asked; nothing was changed."""

    exit_code = 3


class ControlFileError(MachineError):
    """Report that the kernel refused a control file of tracefs, with the kernel's own words.

    Args:
        what: the file, the value and the reason.
        number: errno of the refusal.
        log: what `error_log` says about it, for a probe.
    """

    def __init__(self, what: str, number: int, log: str = "") -> None:
        super().__init__(what, "tracecorr doctor says what this machine offers")
        self.number = number
        self.log = log


class ClusterError(TracecorrError):
    """Report that a worker of a cluster failed."""


class WorkerError(TracecorrError):
    """Report that a process that shared the work ended before it was done."""


class SessionError(TracecorrError):
    """Report that a capture failed after its workload was started."""

    exit_code = 125


class CommandError(TracecorrError):
    """Report a workload that cannot run (126) or is not found (127), with the status a shell would give."""

    def __init__(self, what: str, next_step: str, exit_code: int) -> None:
        super().__init__(what, next_step)
        self.exit_code = exit_code


def explain_unwritten(
    place: object, error: OSError, step: str = "check the permissions there, or write to another place"
) -> TracecorrError:
    """Return what to say where `place` cannot be written: a full disk is no wrong usage.

    Args:
        place: path, or what it is.
        error: the system's answer.
        step: what to do where the disk is not full.
    """
    what = f"cannot write {place}: {error.strerror or error}"
    # An error of polars tells its number in its text alone.
    numbers = (errno.ENOSPC, errno.EDQUOT)
    if error.errno in numbers or any(f"(os error {number})" in str(error) for number in numbers):
        return TracecorrError(what, "make room there, or write to another place")
    return InputError(what, step)


def explain_unread(path: object, error: OSError) -> InputError:
    """Return what to say where a file cannot be read.

    Args:
        path: the file.
        error: the system's answer.
    """
    return InputError(f"cannot read {path}: {error.strerror}", "check the path and its permissions")


def explain_denied(error: OSError) -> str:
    """Return what to do where the system denied a file or folder."""
    if os.geteuid() == 0 and error.errno in (errno.EACCES, errno.EPERM):
        return "its file system refuses even root, as NFS and FUSE may: use a folder on a local disk"
    return "check its owner and its permissions"


def is_panic(error: BaseException) -> bool:
    """Tell whether polars' Rust code panicked, as damaged table files make it do: no `Exception`, but no end either."""
    # By name, because not every verb needs polars.
    return type(error).__name__ == "PanicException"


def explain_damage(error: BaseException) -> InputError | None:
    """Return what to say where a failure comes from damaged input: table files, JSON; None for any other failure."""
    text = next(iter(str(error).splitlines()), "")
    if isinstance(error, RecursionError):
        return InputError("the input is nested too deeply to be read", "check the JSON files that were named")
    if not is_panic(error) and not (
        type(error).__name__ == "ComputeError" and text.startswith(("parquet", "out-of-spec"))
    ):
        return None
    return CaptureError(f"a table of the capture is damaged: {text}", "build the tables again: tracecorr correlate")


def quote_path(path: str | Path) -> str:
    """Return a path as a shell takes it, for the command of a next step."""
    text = str(path)
    return shlex.quote(f"./{text}" if text.startswith("-") else text)
