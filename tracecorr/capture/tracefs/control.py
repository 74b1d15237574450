"""The control files of tracefs: read and write them, and say exactly what the kernel refused."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tracecorr.capture.tracefs.journal import PREFIX, Journal
from tracecorr.capture.workload.invoker import call_as_root
from tracecorr.model.errors import ControlFileError, MachineError

_MOUNT_POINT = Path("/sys/kernel/tracing")
# Where probes are defined; the last one lists those of the others, too, and alone has fprobes.
PROBE_FILES = ("kprobe_events", "uprobe_events", "dynamic_events")
_HOW_TO_MOUNT = f"as root: mount -t tracefs nodev {_MOUNT_POINT}"


@dataclass(frozen=True)
class Tracefs:
    """The tracing folder, or one instance of it, which has the same files."""

    root: Path

    def has(self, name: str) -> bool:
        """Tell whether the control file exists."""
        return (self.root / name).exists()

    def read(self, name: str) -> str:
        """Return the text of a control file.

        Raises:
            ControlFileError: the kernel refused it.
        """
        try:
            return (self.root / name).read_text(errors="replace")
        except OSError as error:
            raise self._refused(f"cannot read {self.root / name}", error) from error

    def write(self, name: str, text: str) -> None:
        """Replace the contents of a control file.

        Raises:
            ControlFileError: the kernel refused the value.
        """
        self._write(name, text, os.O_TRUNC)

    def append(self, name: str, text: str) -> None:
        """Add to a control file that holds a list: probes, filters, pids.

        Raises:
            ControlFileError: the kernel refused the value.
        """
        self._write(name, text, os.O_APPEND)

    def append_words(self, name: str, words: Iterable[str]) -> dict[str, str]:
        """Add words to a list such as `set_ftrace_filter`, in one go; return why the kernel refused some.

        Raises:
            ControlFileError: the file cannot be opened, or the list not be set.
        """
        refused: dict[str, str] = {}
        path = self.root / name
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
            try:
                for word in words:
                    try:
                        _write_all(descriptor, word.encode() + b"\n")
                    except OSError as error:
                        refused[word] = os.strerror(error.errno or 0)
            finally:
                os.close(descriptor)
        except OSError as error:
            raise self._refused(f"cannot write {path}", error) from error
        return refused

    def instance(self, name: str) -> Tracefs:
        """Return the instance `name`, whether it exists or not."""
        return Tracefs(self.root / "instances" / name)

    def instances(self) -> list[str]:
        """Return the names of all instances."""
        folder = self.root / "instances"
        return sorted(p.name for p in folder.iterdir()) if folder.is_dir() else []

    def events(self) -> frozenset[str]:
        """Return every event as `system/name`, without the probes of captures: they come and go with their own."""
        lines = self.read("available_events").split()
        return frozenset(line.replace(":", "/", 1) for line in lines if not line.startswith(PREFIX))

    def choices(self, name: str) -> tuple[str, ...]:
        """Return the words of a file such as `trace_clock`, where the chosen one stands in brackets."""
        return tuple(word.strip("[]") for word in self.read(name).split())

    def _write(self, name: str, text: str, flag: int) -> None:
        path = self.root / name
        try:
            descriptor = os.open(path, os.O_WRONLY | flag | os.O_CLOEXEC)
            try:
                _write_all(descriptor, text.encode() + b"\n")
            finally:
                os.close(descriptor)
        except OSError as error:
            raise self._refused(f"the kernel refused {text!r} in {path}", error, text) from error

    def _refused(self, what: str, error: OSError, text: str = "") -> ControlFileError:
        log = self._explanation(text) if text else ""
        reason = f"{error.strerror}: {log}" if log else str(error.strerror)
        return ControlFileError(f"{what}: {reason}", error.errno or 0, log)

    def _explanation(self, text: str) -> str:
        """Return what `error_log` says about the command `text`; the log is never cleared, others use it too."""
        try:
            lines = (self.root / "error_log").read_text(errors="replace").splitlines()
        except OSError:
            return ""
        return last_explanation(lines, text)


def last_explanation(lines: list[str], text: str) -> str:
    """Return the message of the newest entry of `error_log` whose command is `text`.

    Args:
        lines: entries of `[time] subsystem: error: message`, `  Command: text` and a line with a caret.
        text: what was written.
    """
    for at in range(len(lines) - 1, 0, -1):
        command = lines[at].strip().removeprefix("Command:").strip()
        if "Command:" in lines[at] and command and text.strip().endswith(command):
            return lines[at - 1].partition("error:")[2].strip()
    return ""


def _write_all(descriptor: int, data: bytes) -> None:
    # A list of words is taken one by one: the kernel returns how far it came.
    while data:
        data = data[os.write(descriptor, data) :]


def mounted_tracefs() -> Path | None:
    """Return where tracefs is mounted, the usual place first."""
    found = []
    for line in Path("/proc/self/mounts").read_text().splitlines():
        words = line.split()
        if len(words) > 2 and words[2] == "tracefs":
            found.append(Path(words[1].encode().decode("unicode_escape")))
    return _MOUNT_POINT if _MOUNT_POINT in found else found[0] if found else None


def find_tracefs(journal: Journal | None = None) -> Tracefs:
    """Return the tracing folder; mount it where it is not, if there is a journal to write that down.

    Raises:
        MachineError: there is no tracefs, or no right to use it.
    """
    root = mounted_tracefs()
    if root is None and journal is not None and os.geteuid() == 0:
        root = _mount(journal)
    if root is None:
        raise MachineError("tracefs is not mounted", _HOW_TO_MOUNT)
    try:
        (root / "trace_clock").read_bytes()
    except PermissionError as error:
        raise MachineError(f"no right to use {root}", f"run it as root: {call_as_root('...')}") from error
    except OSError as error:
        raise MachineError(f"{root} cannot be used: {error.strerror}", _HOW_TO_MOUNT) from error
    return Tracefs(root)


def _mount(journal: Journal) -> Path:
    if not _MOUNT_POINT.is_dir():
        raise MachineError("this kernel has no tracefs", "it needs CONFIG_TRACING")
    journal.note("mount", path=str(_MOUNT_POINT))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"nodev", os.fsencode(_MOUNT_POINT), b"tracefs", 0, None):
        reason = os.strerror(ctypes.get_errno())
        raise MachineError(f"cannot mount tracefs at {_MOUNT_POINT}: {reason}", _HOW_TO_MOUNT)
    return _MOUNT_POINT
