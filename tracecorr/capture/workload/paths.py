"""Paths of another root, such as a container's: followed as its own processes would, no link leads out of it."""

from __future__ import annotations

import errno
import fnmatch
import io
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from elftools.common.exceptions import ELFError

# What reading one library may cost at most, so that a forged one cannot hold the recording up.
_MOST_BYTES, _MOST_READS = 256 << 20, 2_000_000


class BoundedFile(io.BufferedReader):
    """A file whose reads are bounded: sizes and counts in a forged header must not take memory or time.

    Args:
        path: the file.

    Raises:
        OSError: it cannot be opened, or is no plain file: a pipe would hold the reader up.
    """

    def __init__(self, path: Path) -> None:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            os.close(descriptor)
            raise OSError(errno.EINVAL, "it is no plain file", str(path))
        super().__init__(io.FileIO(descriptor))
        self._bytes, self._reads = _MOST_BYTES, _MOST_READS
        self._size = found.st_size

    def read(self, size: int | None = -1, /) -> bytes:
        """Read as a file does.

        Raises:
            ELFError: more is asked for than the file has, or than any library needs.
        """
        if size is None or not 0 <= size <= self._size:
            raise ELFError("a size in its headers is larger than the file")
        data = super().read(size)
        self._bytes -= len(data)
        self._reads -= 1
        if self._bytes < 0 or self._reads < 0:
            raise ELFError("its tables are larger than those of any library")
        return data


_MOST_LINKS = 40  # as many as the kernel follows


def resolve_inside(root: Path, path: str) -> Path:
    """Return where `path` leads for a process whose root is `root`: a path below it, without any link in it.

    The kernel takes an absolute link (`/opt/rocm -> /etc/alternatives/rocm`) that is reached through `/proc/PID/root`
    for a path of the host. What does not exist is kept as it is.

    Args:
        root: `/`, or `/proc/PID/root` of a container.
        path: as a process inside names it.

    Raises:
        OSError: its links lead round in a circle.
    """
    done: list[str] = []
    todo, links = path.split("/")[::-1], 0
    while todo:
        part = todo.pop()
        if part == "..":
            done = done[:-1]
        elif part not in ("", "."):
            target = _read_link(root.joinpath(*done, part))
            if target is None:
                done.append(part)
                continue
            links += 1
            if links > _MOST_LINKS:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
            done = [] if target.startswith("/") else done
            todo += target.split("/")[::-1]
    return root.joinpath(*done)


def find_inside(root: Path, path: str) -> Path | None:
    """Return the plain file that `path` leads to inside `root`, without any link in it; None if there is none."""
    try:
        found = resolve_inside(root, path)
        return found if found.is_file() else None
    except OSError:
        return None


def glob_inside(root: Path, base: str, pattern: str) -> Iterator[str]:
    """Yield the folders below `base` whose names, part by part, match `pattern`, as a process inside names them.

    Args:
        root: `/`, or `/proc/PID/root` of a container.
        base: a folder inside; characters in it stand for themselves.
        pattern: parts with `*`, `?` and `[...]`, as in a shell.
    """
    names = [base.rstrip("/")]
    for part in pattern.split("/"):
        names = [f"{name}/{found}" for name in names for found in _list_matching(root, name, part)]
    yield from names


def _list_matching(root: Path, folder: str, part: str) -> list[str]:
    try:
        place = resolve_inside(root, folder or "/")
        if not any(sign in part for sign in "*?["):
            found = [part] if os.path.lexists(place / part) else []
        else:
            found = sorted(fnmatch.filter(os.listdir(place), part))  # noqa: PTH208
        return [name for name in found if _is_folder(root, place / name)]
    except OSError:
        return []


def _is_folder(root: Path, path: Path) -> bool:
    """Tell whether a path below `root` leads to a folder; only its last part may be a link."""
    try:
        target = resolve_inside(root, f"/{path.relative_to(root)}") if path.is_symlink() else path
        return target.is_dir()
    except OSError:
        return False


def _read_link(path: Path) -> str | None:
    try:
        return os.readlink(path)  # noqa: PTH115
    except OSError:
        return None
