"""The journal: every change to the machine is written down before it is made, and undone from there."""

from __future__ import annotations

import contextlib
import errno
import itertools
import json
import os
import re
from collections.abc import Callable, Container, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tracecorr.model.errors import MachineError

PREFIX = "tracecorr_"
_TOKEN = re.compile(r"(?P<pid>\d+)_(?P<started>\d+)_(?P<number>\d+)_(?P<namespace>\d+)")
_numbers = itertools.count()


@dataclass(frozen=True)
class _Owner:
    """A process: number, start time in clock ticks since boot, pid namespace, boot."""

    pid: int
    started: int
    namespace: int
    boot: str = ""

    def is_dead(self) -> bool:
        """Tell whether the process certainly does not live any more; what cannot be seen from here may live."""
        if self.boot and self.boot != _boot_id():
            return True
        return self.namespace == pid_namespace() and start_time(self.pid) != self.started


def this_process() -> _Owner:
    """Return the owner that this process is."""
    return _Owner(os.getpid(), start_time(os.getpid()) or 0, pid_namespace(), _boot_id())


def new_token() -> str:
    """Return the name of a new capture of this process; no other capture has it."""
    me = this_process()
    return f"{me.pid}_{me.started}_{next(_numbers)}_{me.namespace}"


def owner_of(name: str) -> _Owner | None:
    """Return the owner named in `tracecorr_TOKEN...`; None for names of another kind."""
    found = _TOKEN.match(name.removeprefix(PREFIX)) if name.startswith(PREFIX) else None
    return _Owner(int(found["pid"]), int(found["started"]), int(found["namespace"])) if found else None


def start_time(pid: int) -> int | None:
    """Return when a process started, in clock ticks since boot; None for one that is gone or a zombie."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else int(fields[19])


def pid_namespace() -> int:
    """Return the number of this process's pid namespace."""
    return Path("/proc/self/ns/pid").stat().st_ino


def _boot_id() -> str:
    """Return the id of this boot."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


Note = dict[str, Any]
Undo = Callable[[Note], str]  # returns why it could not be undone, or ""


def journal_folder() -> Path:
    """Return where journals lie: the environment's TRACECORR_RUN, else /run/tracecorr."""
    return Path(os.environ.get("TRACECORR_RUN") or "/run/tracecorr")


class Journal:
    """The changes of one capture, one JSON line each, on disk before the change is made.

    Args:
        path: the file; its first line names the owner.
        notes: what it holds already.
        unread: numbers of the lines that hold something else.
    """

    def __init__(self, path: Path, notes: list[Note] | None = None, unread: list[int] | None = None) -> None:
        self.path = path
        self.notes: list[Note] = notes or []
        self._unread = unread or []

    @classmethod
    def create(cls, token: str, folder: Path | None = None) -> Journal:
        """Start the journal of the capture `token`, owned by this process.

        Raises:
            MachineError: the folder cannot be written.
        """
        path = (folder or journal_folder()) / f"{token}.journal"
        try:
            path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
            _write_lines(path, [asdict(this_process())], os.O_CREAT | os.O_TRUNC)
        except OSError as error:
            raise MachineError(f"cannot write the journal {path}: {error.strerror}", "run it as root") from error
        return cls(path)

    def note(self, kind: str, **fields: Any) -> None:
        """Write down a change that is about to be made.

        Args:
            kind: a key of the table that `undo` gets.
            fields: what undoing it needs.

        Raises:
            MachineError: it cannot be written; the change must not be made.
        """
        note = {"kind": kind, **fields}
        try:
            _write_lines(self.path, [note], os.O_APPEND)
        except OSError as error:
            raise MachineError(f"cannot write the journal {self.path}: {error.strerror}", "free some space") from error
        self.notes.append(note)

    def undo(self, actions: Mapping[str, Undo], but: Container[str] = ()) -> list[str]:
        """Undo all changes, the last one first; return why some could not be undone. They stay in the journal.

        Args:
            actions: what undoes a change, by its kind.
            but: kinds of changes that stay in the journal, too: their time has not come.
        """
        kept: list[Note] = []
        problems = [
            f"line {number} of {self.path} cannot be read; its change is not undone: look at it, then remove the file"
            for number in self._unread
        ]
        for note in reversed(self.notes):
            if note.get("kind") in but:
                kept.insert(0, note)
                continue
            problem = _undo_one(note, actions)
            if problem:
                problems.append(problem)
                kept.insert(0, note)
        self.notes = kept
        if not kept and not problems:
            with contextlib.suppress(OSError):
                self.path.unlink(missing_ok=True)
        return problems


def _undo_one(note: Note, actions: Mapping[str, Undo]) -> str:
    """Undo one change; return why it could not be: that keeps no other one from being undone."""
    if note.get("kind") not in actions:
        return f"unknown change {note}"
    try:
        return actions[note["kind"]](note)
    except (OSError, KeyError) as error:
        return f"{note} is not undone: {error!r}"


def read_journal(path: Path) -> tuple[_Owner | None, Journal]:
    """Return the owner of a journal on disk (None if it names none), and the journal.

    A torn last line is a change that was not made; an empty journal is of a capture that ended before its first one.
    Any other line that cannot be read is a problem when it is undone.

    Raises:
        OSError: it is gone, or cannot be read.
    """
    lines = [_read_line(line) for line in path.read_bytes().split(b"\n")[:-1]]
    owner = _read_owner(lines[0] if lines else None)
    unread = [*([1] if lines and owner is None else []), *(n for n, line in enumerate(lines[1:], 2) if line is None)]
    notes = [line for line in lines[1:] if line is not None]
    # Its name tells the owner, too, without the boot.
    return owner or owner_of(f"{PREFIX}{path.stem}"), Journal(path, notes, unread)


def _read_line(line: bytes) -> Note | None:
    try:
        found = json.loads(line)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _read_owner(first: Note | None) -> _Owner | None:
    try:
        first = first or {}
        return _Owner(int(first["pid"]), int(first["started"]), int(first["namespace"]), str(first["boot"]))
    except (ValueError, KeyError, TypeError):
        return None


def _write_lines(path: Path, lines: list[Note], flag: int) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC | flag, 0o644)
    data = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
    try:
        if os.write(descriptor, data) < len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
