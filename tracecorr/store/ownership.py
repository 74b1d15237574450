"""Whose a file is: which ones of a log folder are the workload's, and what root wrote becomes the caller's.

A workload can move any file into its log folder that lies in a folder it may write, also one that it may not read.
Every reader of that folder asks `is_log` or `open_log`, so that root neither reads such a file nor gives it away.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
from collections.abc import Container
from itertools import chain, count
from pathlib import Path

LOG_FOLDER = "raw/amd_log"
# Where files of the log folder go that are not the workload's: it stays root's.
FOREIGN_FOLDER = "foreign"
_SEALED = "raw/.amd_log.sealed"


def is_log(status: os.stat_result, owners: Container[int]) -> bool:
    """Tell whether a file of a log folder is a log: a regular file with one name, of a user who ran the workload.

    Args:
        status: of the file itself, no link followed.
        owners: uids of the workload; 0 only where the workload ran as root of the host.
    """
    return stat.S_ISREG(status.st_mode) and status.st_nlink == 1 and status.st_uid in owners


def open_log(path: str | Path, flags: int, owners: Container[int], folder: int | None = None) -> int:
    """Open a file of a log folder; it may be anything, so no link is followed and nothing is waited for.

    Args:
        path: the file.
        flags: of open(2).
        owners: uids of the workload.
        folder: descriptor of the folder that `path` starts in; None for that of the process.

    Raises:
        OSError: it is gone, or no log of the workload (`is_log`).
    """
    descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    if not is_log(os.fstat(descriptor), owners):
        os.close(descriptor)
        raise OSError(errno.EPERM, "it is no log of the workload", str(path))
    return descriptor


def find_owners(folder: Path) -> frozenset[int]:
    """Return the uids whose logs lie in a log folder: its owner's, who alone may write there."""
    try:
        return frozenset([folder.stat().st_uid])
    except OSError:
        return frozenset()


def take_logs_back(root: Path, owners: Container[int]) -> list[str]:
    """Take the log folder of a capture back from the workload; return the names of files that are not its logs.

    The logs move into a new folder of root's, which no container sees, and lose all mode bits but those for reading
    and writing. What else is there moves to `foreign/`, unread and unchanged.

    Args:
        root: the capture folder, owned by this process.
        owners: uids of the workload.
    """
    logs, sealed = root / LOG_FOLDER, root / _SEALED
    sealed.mkdir(exist_ok=True)
    foreign = []
    for name in sorted(os.listdir(logs)) if logs.is_dir() else []:  # noqa: PTH208
        with contextlib.suppress(FileNotFoundError):
            (logs / name).rename(sealed / name)
            if not _is_sealed(sealed / name, owners):
                foreign.append(name)
                _put_aside(sealed / name, root)
    try:
        logs.rmdir()
    except FileNotFoundError:
        pass
    except OSError:  # it was written to meanwhile
        _put_aside(logs, root)
    sealed.rename(logs)
    return foreign


def _is_sealed(path: Path, owners: Container[int]) -> bool:
    """Tell whether a file is a log, whose special mode bits are gone then."""
    if not is_log(path.stat(follow_symlinks=False), owners):
        return False
    descriptor = open_log(path, os.O_RDONLY, owners)
    try:
        os.fchmod(descriptor, os.fstat(descriptor).st_mode & 0o666)
    finally:
        os.close(descriptor)
    return True


def _put_aside(path: Path, root: Path) -> None:
    aside = root / FOREIGN_FOLDER
    aside.mkdir(mode=0o700, exist_ok=True)
    names = chain([path.name], (f"{path.name}.{number}" for number in count(1)))
    path.rename(next(aside / name for name in names if not os.path.lexists(aside / name)))


def give_folder(descriptor: int, uid: int, gid: int) -> None:
    """Give an open folder and all in it to a user, but for `foreign/`.

    No link is followed, nothing that has other names is touched.
    """
    for place_name, folders, files, place in os.fwalk(".", topdown=True, dir_fd=descriptor):
        if place_name == "." and FOREIGN_FOLDER in folders:
            folders.remove(FOREIGN_FOLDER)
        for name in (*folders, *files):
            found = os.stat(name, dir_fd=place, follow_symlinks=False)
            if stat.S_ISDIR(found.st_mode) or found.st_nlink == 1:
                os.chown(name, uid, gid, dir_fd=place, follow_symlinks=False)
    os.fchown(descriptor, uid, gid)


def make_folder(folder: Path) -> None:
    """Make a folder where there is none, as the property of whose folder it is in."""
    if not folder.is_dir():
        folder.mkdir()
        if owner := _other_owner(folder.parent):
            os.chown(folder, *owner, follow_symlinks=False)


def replace_folder(fresh: Path, target: Path, capture: Path) -> None:
    """Put a folder in the place of another one, as the property of whose capture folder it is in.

    Args:
        fresh: the new folder, beside `target`.
        target: the one that it replaces, if there is one; where it may not be removed it stays under another name.
        capture: the capture folder.
    """
    if owner := _other_owner(capture):
        descriptor = os.open(fresh, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            give_folder(descriptor, *owner)
        finally:
            os.close(descriptor)
    old = fresh.with_name(f"{fresh.name}.old")
    with contextlib.suppress(FileNotFoundError):
        target.rename(old)
    fresh.rename(target)
    shutil.rmtree(old, ignore_errors=True)


def replace_file(fresh: Path, target: Path) -> None:
    """Put a file in the place of another one, as the property of whose folder it is in."""
    if owner := _other_owner(target.parent):
        os.chown(fresh, *owner, follow_symlinks=False)
    fresh.replace(target)


def _other_owner(folder: Path) -> tuple[int, int] | None:
    """Return user and group of a folder that root works in and another user owns."""
    found = folder.stat()
    return (found.st_uid, found.st_gid) if os.geteuid() == 0 and found.st_uid != 0 else None
