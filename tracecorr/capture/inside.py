"""Paths of another root, such as a container's: followed as its own processes would, no link leads out of it."""

from __future__ import annotations

import errno
import fnmatch
import os
from collections.abc import Iterator
from pathlib import Path

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
    """Return the plain file that `path` leads to inside `root`, without any link in it; None where there is none."""
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
    """Tell whether a path below `root`, of which only the last part may be a link, leads to a folder."""
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
