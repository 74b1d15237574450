"""The capture folder while it is recorded: made and written by root inside a place that the user owns."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import stat
from pathlib import Path
from typing import IO, Any

from tracecorr.capture.workload.invoker import Invoker
from tracecorr.model.errors import CaptureError, InputError, MachineError, explain_unwritten
from tracecorr.store.capture import FORMAT_VERSION, refuse_odd_name
from tracecorr.store.followed import FRAMES_FOLDER, LOG_FOLDER, adopt_frames
from tracecorr.store.ownership import give_folder
from tracecorr.store.place import check_place

_INFO = "capture.json"
_LOCAL = "choose a writable local folder with -o (root cannot write to every network file system)"
# The end of a capture with some thousand processes.
_RESERVED_BYTES = 1 << 20


class RecordingFolder:
    """Own a capture folder from its creation until it is handed to the user.

    All paths start at an open descriptor of the folder, and its parts are root's until the end:
    a user who renames the folder or plants a link cannot lead a write of root's anywhere else.
    """

    def __init__(self, shown: Path, descriptor: int) -> None:
        self.shown = shown
        self._descriptor = descriptor
        self.path = Path(f"/proc/{os.getpid()}/fd/{descriptor}")

    @classmethod
    def create(cls, shown: Path, owner: Invoker, *, force: bool = False) -> RecordingFolder:
        """Make the folder `shown` and the folders in it.

        Raises:
            CaptureError: it exists, or its parent does not.
            InputError: its path is no text, its name too long, or root cannot write there.
            TracecorrError: the disk is full.
        """
        check_recording_place(shown, force=force)
        _make_room(shown)
        try:
            _make(shown)
            descriptor = os.open(shown, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            if os.fstat(descriptor).st_uid != os.geteuid():
                raise MachineError(f"{shown} is not owned by root after its creation", "choose a local folder with -o")
            folder = cls(shown, descriptor)
            for name in ("raw", LOG_FOLDER, "raw/ftrace"):
                (folder.path / name).mkdir(mode=0o755)
            os.chown(folder.path / LOG_FOLDER, owner.uid, owner.gid)
        except OSError as error:
            raise explain_unwritten(shown, error, _LOCAL) from error
        return folder

    @property
    def log_folder(self) -> Path:
        """Return the folder of the logs, as the host's processes see it."""
        return self.shown / LOG_FOLDER

    @property
    def frames(self) -> Path:
        """Return root's folder for logs that are compressed while they grow; it may not exist yet."""
        return self.path / FRAMES_FOLDER

    def write_text(self, name: str, text: str) -> None:
        """Write a small file of the folder, in place of an older one."""
        self.write_bytes(name, text.encode())

    def write_bytes(self, name: str, data: bytes) -> None:
        """Write a file of the folder, in place of an older one: all of it or nothing."""
        target = self.path / name
        target.parent.mkdir(parents=True, exist_ok=True)
        fresh = _fresh(target)
        fresh.write_bytes(data)
        fresh.replace(target)

    def append_line(self, name: str, line: str) -> None:
        """Add a line to a file of the folder."""
        with (self.path / name).open("a") as stream:
            stream.write(f"{line}\n")

    def write_once(self, name: str, text: str) -> None:
        """Write a small file of the folder that never changes, unless it is there."""
        if not (self.path / name).exists():
            self.write_text(name, text)

    def write_info(self, info: dict[str, Any]) -> None:
        """Write `capture.json`, and take the space of the next one, which must find its place on a full disk, too."""
        self.write_text(_INFO, json.dumps({"format": FORMAT_VERSION, **info}, indent=1, default=str))
        with contextlib.suppress(OSError), _fresh(self.path / _INFO).open("wb") as reserve:
            os.posix_fallocate(reserve.fileno(), 0, _RESERVED_BYTES)

    def open_new(self, name: str) -> IO[bytes]:
        """Open a new file of the folder for writing, without a buffer."""
        target = self.path / name
        target.parent.mkdir(parents=True, exist_ok=True)
        return target.open("xb", buffering=0)

    def free_bytes(self) -> int:
        """Return the space that is left on the file system of the folder."""
        left = os.statvfs(self._descriptor)
        return left.f_bavail * left.f_frsize

    def seal_logs(self) -> list[str]:
        """Take the folder of the logs back from the workload, and put the compressed ones into it.

        Returns: the names that were thrown out.

        Anything but a plain file with one name could lead a later reader elsewhere.
        """
        logs = self.path / LOG_FOLDER
        if logs.is_symlink() or not logs.is_dir():
            logs.unlink(missing_ok=True)
            logs.mkdir()
        os.chown(logs, os.geteuid(), os.getegid())
        strange = []
        for entry in sorted(os.scandir(logs), key=lambda e: e.name):
            with contextlib.suppress(FileNotFoundError):
                found = entry.stat(follow_symlinks=False)
                if not stat.S_ISREG(found.st_mode) or found.st_nlink != 1:
                    strange.append(entry.name)
                    shutil.rmtree(entry.path) if stat.S_ISDIR(found.st_mode) else (logs / entry.name).unlink()
        adopt_frames(self.path)
        return strange

    def hand_over(self, owner: Invoker) -> None:
        """Give the folder and all in it to the user; no link is followed."""
        if owner.uid != os.geteuid():
            give_folder(self._descriptor, owner.uid, owner.gid)

    def remove(self) -> None:
        """Take the folder away: nothing was recorded."""
        for entry in sorted(self.path.iterdir()):
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
        self.shown.rmdir()

    def close(self) -> None:
        """Let go of the folder, and of the space that was kept in it."""
        with contextlib.suppress(OSError):
            _fresh(self.path / _INFO).unlink()
        os.close(self._descriptor)


def _fresh(target: Path) -> Path:
    """Return the name of a file until it takes the place of an older one."""
    return target.with_name(f".{target.name}.new")


def _make(shown: Path) -> None:
    try:
        shown.mkdir(mode=0o755)
    except FileExistsError as error:
        raise CaptureError(f"{shown} was made by somebody else just now", "choose another name with -o") from error


def check_recording_place(shown: Path, *, force: bool) -> None:
    """Make sure that there can be a capture folder `shown`; nothing is changed, and no link is followed.

    Args:
        shown: its path.
        force: whether it may take the place of another one.

    Raises:
        CaptureError: it exists, or its parent does not.
        InputError: its path is no text, or its name too long.
    """
    refuse_odd_name(str(shown))
    check_place(shown, force=force, follow_links=False)


def _make_room(shown: Path) -> None:
    if not os.path.lexists(shown):
        return
    try:
        shutil.rmtree(shown)
    except OSError as error:
        raise InputError(f"cannot remove {shown}: {error.strerror}", "choose another name with -o") from error
