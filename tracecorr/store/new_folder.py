"""Where a new capture folder may be made, what it replaces, how it takes its place, and who may build in it."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tracecorr.model.errors import CaptureError, quote_path
from tracecorr.store.capture import Capture, is_replaceable
from tracecorr.store.recording import is_recorded_now

# What will become a capture, or was replaced by one, until its process is done.
_STAGE = re.compile(r"\.(?P<name>.+)\.(?P<pid>\d+)\.(?P<part>new|old)")


def check_place(path: Path, *, force: bool, follow_links: bool = True) -> None:
    """Make sure that there can be a capture folder at `path`, before long work on it; nothing is changed.

    Args:
        path: the folder to make.
        force: whether it may take the place of another capture.
        follow_links: whether that other one may be where a link leads.

    Raises:
        CaptureError: something is there that must stay, or there is no folder to make it in.
    """
    parent = (path.resolve() if follow_links else path).parent
    if not parent.is_dir():
        raise CaptureError(f"there is no folder {parent}", "make it first, or choose another with -o")
    if not (path.exists() if follow_links else os.path.lexists(path)):
        return
    is_capture = (follow_links or not path.is_symlink()) and is_replaceable(path)
    if not (force and is_capture):
        reason = "already exists" if is_capture or not force else "exists and is no capture"
        raise CaptureError(f"{path} {reason}", "choose another name with -o, or --force to replace a capture")
    if _is_recorded_now(path):
        raise CaptureError(f"{path} is being recorded now", "choose another name with -o, or end that capture first")


def name_stage(target: Path) -> Path:
    """Return the folder beside `target` in which it is made; who is killed meanwhile leaves it there."""
    return target.with_name(f".{target.name}.{os.getpid()}.new")


def describe_abandoned(folder: Path) -> Iterator[str]:
    """Yield what to say of each folder that an import, or the making of a dataset, left half done.

    It stays: its process may live where its number cannot be seen, on another machine or in another container.
    """
    for path in sorted(folder.glob(".*.*.*")):
        found = _STAGE.fullmatch(path.name)
        if found is None or Path(f"/proc/{found['pid']}").exists():
            continue
        target, told = folder / found["name"], f"warning: {path} was left by process {found['pid']}, which was killed"
        if found["part"] == "old" and not target.exists():
            yield f"{told} while it replaced {target}; next step: mv {quote_path(path)} {quote_path(target)}"
        else:
            yield f"{told} while it made {target}; next step: rm -r {quote_path(path)}"


def put_in_place(stage: Path, target: Path) -> None:
    """Put the folder `stage` in the place of `target`; what was there stays until the new one stands.

    Raises:
        CaptureError: another process builds the tables of what is there.
    """
    if not target.exists():
        stage.replace(target)
        return
    old = stage.with_suffix(".old")
    with lock_capture(target):
        target.replace(old)
        try:
            stage.replace(target)
        except OSError:
            old.replace(target)
            raise
        shutil.rmtree(old)


def _is_recorded_now(path: Path) -> bool:
    try:
        return is_recorded_now(Capture.open(path))
    except CaptureError:
        # Of a running recording the description can be read.
        return False


@contextmanager
def lock_capture(path: Path) -> Iterator[bool]:
    """Keep other processes from building tables in a folder, and from replacing it; readers are not held up.

    Nothing is written: the lock is one of the kernel's, and ends with its process. A file system without locks has
    none here either.

    Yields: whether other processes are kept away.

    Raises:
        CaptureError: another process has the lock.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield _take(descriptor, path)
    finally:
        os.close(descriptor)


def _take(descriptor: int, path: Path) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise CaptureError(
            f"another process builds the tables of {path}", "wait for its end, or stop it, and run the command again"
        ) from error
    except OSError:
        return False
    return True
