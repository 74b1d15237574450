"""What root writes into a user's capture folder becomes that user's: who calls sudo once must not need it again."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
from pathlib import Path


def give_folder(descriptor: int, uid: int, gid: int) -> None:
    """Give an open folder and all in it to a user; no link is followed, nothing that has other names is touched."""
    for _, folders, files, place in os.fwalk(".", topdown=False, dir_fd=descriptor):
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
