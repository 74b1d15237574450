"""How each kind of change is undone; all of it may be done twice, and half of it may be gone already."""

from __future__ import annotations

import contextlib
import errno
import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from tracecorr.capture.folder import return_folder
from tracecorr.capture.hiplog.container_logs import clear_leftovers
from tracecorr.capture.tracefs.control import PROBE_FILES, Tracefs, mounted_tracefs
from tracecorr.capture.tracefs.journal import PREFIX, Note, Undo, journal_folder, owner_of, read_journal
from tracecorr.capture.workload.container import end_gates
from tracecorr.model.errors import ControlFileError

# The kernel frees probes and instances with a delay: users of them are waited for.
_PATIENCE_S = 2.0
_STEP_S = 0.02


def restore_leftovers(folder: Path | None = None) -> tuple[list[str], list[str]]:
    """Undo what captures left behind whose process is dead; living ones and other tools are not touched.

    Returns: (what was undone, what is left and why).
    """
    done: list[str] = []
    left: list[str] = []
    for path in sorted((folder or journal_folder()).glob("*.journal")):
        try:
            owner, journal = read_journal(path)
        except FileNotFoundError:
            continue  # its own capture has ended meanwhile
        except OSError as error:
            left.append(f"{path} cannot be read; its changes are not undone: {error.strerror}")
            continue
        if owner is None:
            left.append(
                f"{path} does not name its owner; its changes are not undone: look at them, then remove the file"
            )
        elif owner.is_dead():
            problems = journal.undo(ACTIONS)
            left += problems
            done += [] if problems else [f"capture {path.stem} of process {owner.pid}"]
    root = mounted_tracefs()
    if root is not None and os.access(root / "instances", os.W_OK):
        _restore_by_name(Tracefs(root), done, left)
    return done, left


def list_running(folder: Path | None = None) -> list[int]:
    """Return the processes whose captures are left alone because they live, or may; one that is ending still does."""
    owners: set[int] = set()
    for path in (folder or journal_folder()).glob("*.journal"):
        with contextlib.suppress(OSError):
            owner, _ = read_journal(path)
            owners |= {owner.pid} if owner and not owner.is_dead() else set()
    return sorted(owners)


def _restore_by_name(tracefs: Tracefs, done: list[str], left: list[str]) -> None:
    """Undo instances and probes that no journal knows, where their name proves that the owner is dead."""
    names = [n for n in tracefs.instances() if n.startswith(PREFIX)]
    dead = [n for n in names if (owner := owner_of(n)) is not None and owner.is_dead()]
    left += [f"instance {n}: its name does not show its owner" for n in names if owner_of(n) is None]
    orphans = [*({"kind": "quiet", "path": str(tracefs.instance(n).root)} for n in dead), *_orphan_probes(tracefs)]
    orphans += [{"kind": "instance", "path": str(tracefs.instance(n).root)} for n in dead]
    for note in orphans:
        problem = ACTIONS[note["kind"]](note)
        if problem:
            left.append(problem)
        elif note["kind"] != "quiet":
            done.append(f"{note['kind']} {note.get('name') or note['path']}")


def _orphan_probes(tracefs: Tracefs) -> list[Note]:
    """Return what undoes the probes of dead captures; `dynamic_events` lists those of the other files again."""
    notes: dict[str, Note] = {}
    for file in PROBE_FILES:
        for line in tracefs.read(file).splitlines() if tracefs.has(file) else ():
            name = line.split()[0].partition(":")[2]
            owner = owner_of(name.partition("/")[0])
            if owner is not None and owner.is_dead():
                notes.setdefault(name, {"kind": "probe", "tracefs": str(tracefs.root), "file": file, "name": name})
    return list(notes.values())


def _undo_quiet(note: Note) -> str:
    """Switch everything off in an instance, in the opposite order of arming."""
    instance = Tracefs(Path(note["path"]))
    if not instance.root.is_dir():
        return ""
    for name, value in (("tracing_on", "0"), ("events/enable", "0"), ("current_tracer", "nop")):
        with contextlib.suppress(ControlFileError):
            instance.write(name, value)
    for name in ("set_ftrace_filter", "set_ftrace_pid", "set_event_pid"):
        with contextlib.suppress(ControlFileError):
            instance.write(name, "")
    return ""


def _undo_instance(note: Note) -> str:
    _undo_quiet(note)

    def remove() -> None:
        with contextlib.suppress(FileNotFoundError):
            Path(note["path"]).rmdir()

    return _patiently(f"instance {note['path']}", remove)


def _undo_probe(note: Note) -> str:
    """Remove one probe by name; one that a foreign instance uses stays, and is returned."""
    tracefs = Tracefs(Path(note["tracefs"]))

    def remove() -> None:
        try:
            tracefs.append(note["file"], f"-:{note['name']}")
        except ControlFileError as error:
            if error.number not in (errno.ENOENT, errno.EINVAL, errno.ENODEV):
                raise OSError(error.number, error.what) from error
            if (tracefs.root / "events" / note["name"]).is_dir():
                raise OSError(errno.EBUSY, error.what) from error

    return _patiently(f"probe {note['name']}", remove)


def _undo_top_buffer(note: Note) -> str:
    """Shrink the top buffer again, if the kernel enlarged it and no other tracer uses it."""
    top = Tracefs(Path(note["path"]))
    with contextlib.suppress(ControlFileError):
        idle = not top.read("set_event").strip() and top.read("current_tracer").strip() == "nop"
        empty = all("entries: 0\n" in p.read_text() for p in top.root.glob("per_cpu/cpu*/stats"))
        if idle and empty and top.read("buffer_size_kb").strip() == note["large_kb"]:
            top.write("buffer_size_kb", note["small_kb"])
    return ""


def _undo_file(note: Note) -> str:
    """Remove a file that the capture made outside of its folder."""
    with contextlib.suppress(FileNotFoundError):
        Path(note["path"]).unlink()
    return ""


def _undo_gate(note: Note) -> str:
    """End the workload that waits in a container for a capture that will not come back, and take its logs out.

    A capture that lives takes them out itself, when its workload has ended.
    """
    end_gates(note["token"])
    owner = owner_of(PREFIX + note["token"])
    return clear_leftovers(note["token"], Path(note["folder"])) if owner is None or owner.is_dead() else ""


def _undo_folder(note: Note) -> str:
    """Give the folder of a killed capture to its caller; a capture that lives does it itself."""
    owner = owner_of(PREFIX + note["token"])
    if owner is None or owner.is_dead():
        inode = note["device"], note["inode"]
        return_folder(Path(note["path"]), note["uid"], note["gid"], share=note["share"], inode=inode)
    return ""


def _undo_mount(note: Note) -> str:
    """Take the mount away again; where it is in use by others it stays, as tracefs always may."""
    if mounted_tracefs() == Path(note["path"]):
        subprocess.run(["umount", note["path"]], check=False, capture_output=True)
    return ""


def _patiently(what: str, action: Callable[[], None]) -> str:
    """Do `action` until the kernel lets it; return why not, after `_PATIENCE_S`.

    While another process removes the same thing, the kernel says that there is no such device.
    """
    end = time.monotonic() + _PATIENCE_S
    while True:
        try:
            action()
        except OSError as error:
            if error.errno not in (errno.EBUSY, errno.ENODEV) or time.monotonic() > end:
                return f"{what} cannot be removed yet: {os.strerror(error.errno or 0)}"
            time.sleep(_STEP_S)
        else:
            return ""


ACTIONS: dict[str, Undo] = {
    "quiet": _undo_quiet,
    "instance": _undo_instance,
    "probe": _undo_probe,
    "top_buffer": _undo_top_buffer,
    "file": _undo_file,
    "gate": _undo_gate,
    "folder": _undo_folder,
    "mount": _undo_mount,
}
