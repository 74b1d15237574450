"""The capture folder while it is recorded: made and written by root inside a place that the user owns."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import struct
from collections.abc import Callable, Container
from pathlib import Path
from typing import IO, Any

from tracecorr.capture.workload.invoker import Invoker
from tracecorr.model.errors import CaptureError, InputError, MachineError, explain_unwritten
from tracecorr.store.capture import FORMAT_VERSION, Capture, refuse_odd_name
from tracecorr.store.followed import FRAMES_FOLDER, adopt_frames
from tracecorr.store.new_folder import check_place
from tracecorr.store.ownership import FOREIGN_FOLDER, LOG_FOLDER, find_owners, give_folder, take_logs_back
from tracecorr.store.recording import is_recorded_now

_INFO = "capture.json"
_LOCAL = "choose a writable local folder with -o (root cannot write to every network file system)"
# The end of a capture with some thousand processes.
_RESERVED_BYTES = 1 << 20
# An access list of posix_acl(5) as setxattr(2) takes it: tag, permissions and user of each entry.
_ACL, _ACL_VERSION, _ACL_ENTRY = "system.posix_acl_access", struct.Struct("<I"), struct.Struct("<HHI")
_ACL_OWNER, _ACL_USER, _ACL_GROUP, _ACL_MASK, _ACL_OTHER = 0x01, 0x02, 0x04, 0x10, 0x20
_NOBODY = 0xFFFFFFFF


class RecordingFolder:
    """Own a capture folder from its creation until it is handed to the user.

    All paths start at an open descriptor of the folder, and its parts are root's until the end:
    a user who renames the folder or plants a link cannot lead a write of root's anywhere else.
    """

    def __init__(self, shown: Path, descriptor: int, *, share: bool = False) -> None:
        self.shown = shown
        self.descriptor = descriptor
        self._share = share
        self._is_sealed = False
        self.path = Path(f"/proc/{os.getpid()}/fd/{descriptor}")

    @classmethod
    def create(
        cls,
        shown: Path,
        owner: Invoker,
        *,
        force: bool = False,
        share: bool = False,
        made: Callable[[os.stat_result], None] = lambda _: None,
    ) -> RecordingFolder:
        """Make the folder `shown` and the folders in it.

        Args:
            shown: its path.
            owner: the caller, who alone may look into it.
            force: whether it takes the place of another capture.
            share: whether every user may look into it.
            made: called with its status as soon as it is there, empty.

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
            folder = cls(shown, descriptor, share=share)
            made(os.fstat(descriptor))
            if not share:
                _close_to_others(folder.path, owner)
            for name in ("raw", LOG_FOLDER, "raw/ftrace"):
                (folder.path / name).mkdir(mode=0o755)
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
        left = os.statvfs(self.descriptor)
        return left.f_bavail * left.f_frsize

    def close_raw(self) -> None:
        """Close `raw/` to all users but root until the logs are sealed.

        A container that runs as root may put a set-uid program into the log folder, which it sees as a mount of its
        own.
        """
        (self.path / "raw").chmod(0o700)

    def seal_logs(self, owners: Container[int]) -> list[str]:
        """Take the log folder back from the workload, and put the compressed logs into it.

        Args:
            owners: uids of the workload.

        Returns: the names of the files that are not its logs; they lie in `foreign/` now.
        """
        foreign = take_logs_back(self.path, owners)
        self._is_sealed = True
        (self.path / "raw").chmod(0o755)
        adopt_frames(self.path)
        return foreign

    def hand_over(self, owner: Invoker) -> None:
        """Give the folder and all in it to the caller, but for `foreign/`; no link is followed."""
        if not self._is_sealed:
            self.seal_logs(find_owners(self.path / LOG_FOLDER))
        _hand_over(self.descriptor, owner.uid, owner.gid, share=self._share)

    def remove(self) -> None:
        """Remove the folder: nothing was recorded. It stays if other files were moved into its log folder."""
        self._is_sealed = True
        if take_logs_back(self.path, ()):
            return
        for entry in sorted(self.path.iterdir()):
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
        self.shown.rmdir()

    def close(self) -> None:
        """Let go of the folder, and of the space that was kept in it."""
        with contextlib.suppress(OSError):
            _fresh(self.path / _INFO).unlink()
        os.close(self.descriptor)


def _fresh(target: Path) -> Path:
    """Return the name of a file until it takes the place of an older one."""
    return target.with_name(f".{target.name}.new")


def _make(shown: Path) -> None:
    try:
        shown.mkdir(mode=0o755)
    except FileExistsError as error:
        raise CaptureError(f"{shown} was made by another program just now", "choose another name with -o") from error


def return_killed(shown: Path) -> None:
    """Give the folder of a capture that was killed to its caller, unless that was done; only root can.

    Raises:
        CaptureError: the folder is no capture.
    """
    capture = Capture.open(shown)
    caller = capture.info.get("caller")
    if os.geteuid() == 0 and caller and capture.info.get("state") == "recording" and not is_recorded_now(capture):
        return_folder(shown, caller["uid"], caller["gid"], share=caller["share"])


def return_folder(shown: Path, uid: int, gid: int, *, share: bool, inode: tuple[int, int] | None = None) -> None:
    """Give a capture folder that is still root's to its caller, its logs sealed; any other folder is left alone.

    Args:
        shown: its path, in a folder of other users.
        uid: the caller.
        gid: the caller's group.
        share: whether every user may look into it.
        inode: its device and inode, if they are known.

    Raises:
        OSError: it cannot be given.
    """
    try:
        descriptor = os.open(shown, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:  # it is gone, or another file is in its place
        return
    try:
        found, path = os.fstat(descriptor), Path(f"/proc/self/fd/{descriptor}")
        is_it = inode is None or (found.st_dev, found.st_ino) == inode
        if not is_it or found.st_uid != os.geteuid():
            return
        if (path / "raw").is_dir():
            take_logs_back(path, find_owners(path / LOG_FOLDER))
            (path / "raw").chmod(0o755)
        _hand_over(descriptor, uid, gid, share=share)
    finally:
        os.close(descriptor)


def _hand_over(descriptor: int, uid: int, gid: int, *, share: bool) -> None:
    """Give a capture folder and all in it to a user, but for `foreign/`.

    Args:
        descriptor: the folder, owned by root.
        uid: the user.
        gid: the group.
        share: whether every user may look into it.
    """
    if uid != os.geteuid():
        give_folder(descriptor, uid, gid)
    if not share:
        with contextlib.suppress(OSError):  # it has none
            os.removexattr(f"/proc/self/fd/{descriptor}", _ACL)
        os.fchmod(descriptor, 0o700)


def _close_to_others(folder: Path, owner: Invoker) -> None:
    """Let the caller alone look into a folder of root's; where the file system has no access lists, their group."""
    entries = (
        (_ACL_OWNER, 7, _NOBODY), (_ACL_USER, 5, owner.uid), (_ACL_GROUP, 0, _NOBODY), (_ACL_MASK, 5, _NOBODY),
        (_ACL_OTHER, 0, _NOBODY),
    )  # fmt: skip
    try:
        os.setxattr(folder, _ACL, _ACL_VERSION.pack(2) + b"".join(_ACL_ENTRY.pack(*entry) for entry in entries))
    except OSError:
        os.chown(folder, -1, owner.gid)
        folder.chmod(0o750)


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
    if os.path.lexists(shown / FOREIGN_FOLDER):
        step = f"move out what lies in its {FOREIGN_FOLDER}/, or choose another name with -o"
        raise InputError(f"{shown} holds files of other users", step)


def _make_room(shown: Path) -> None:
    if not os.path.lexists(shown):
        return
    try:
        shutil.rmtree(shown)
    except OSError as error:
        raise InputError(f"cannot remove {shown}: {error.strerror}", "choose another name with -o") from error
