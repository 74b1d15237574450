"""HIP logs beside a capture: a runtime that cannot open the file it was told writes into its working folder instead."""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tracecorr.capture.invoker import read_status
from tracecorr.capture.processes import SeenProcess

_PROC = Path("/proc")
# As HIP 7.2.4 names it, by its pid as the process itself sees it.
_NAME = "clr_logs_{}.txt"
# Times of files are those of the kernel's last tick.
_TICK_NS = 20_000_000
_ESCAPED = re.compile(r"\\(\d{3})")
_Key = tuple[int, int]


@dataclass(frozen=True)
class StrayLog:
    """Hold a log that a process wrote beside the capture.

    Args:
        pid: host number of the process.
        path: the file on the host; None where no path of the host leads to it.
        shown: the file as the process saw it.
        size: bytes, 0 where it cannot be seen.
    """

    pid: int
    path: Path | None
    shown: str
    size: int


@dataclass(frozen=True)
class _Place:
    """Hold where a log may be, and the identity of the file, else of its folder, that tells whether it is that one."""

    shown: str
    paths: tuple[Path, ...]
    file: _Key | None = None
    folder: _Key | None = None


class StrayLogs:
    """Remember where processes may write such logs while they live, and find them at the end.

    Args:
        folder: where the workload was started.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._since_ns = time.time_ns() - _TICK_NS
        self._places: dict[int, _Place] = {}

    def follow(self, pid: int) -> None:
        """Look where a process has such a log open; until it has one its working folder is taken down."""
        known = self._places.get(pid)
        status = read_status(pid)
        if status is None or (known is not None and known.file is not None):
            return
        name = _NAME.format(status.get("NSpid", str(pid)).split()[-1])
        found = _find_open(pid, name) or known or _find_folder(pid, name)
        if found is not None:
            self._places[pid] = found

    def list_found(self, seen: Iterable[SeenProcess]) -> Iterator[StrayLog]:
        """Yield the logs that are there and were written since this began, each once."""
        named: set[_Key] = set()
        for process in seen:
            name = _NAME.format(process.namespace_pid)
            # Nobody looked at one that was gone too soon: most never leave the folder they were started in.
            place = self._places.get(process.pid) or _Place("", (self._folder / name,))
            found = next(filter(None, (self._look(path, place) for path in place.paths)), None)
            if found is not None and found[1] not in named:
                named.add(found[1])
                yield StrayLog(process.pid, found[0], place.shown, found[2])
            elif found is None and place.file is not None and place.file not in named:
                named.add(place.file)
                yield StrayLog(process.pid, None, place.shown, 0)

    def _look(self, path: Path, place: _Place) -> tuple[Path, _Key, int] | None:
        """Return a file, what tells it apart and its size, if it is the one that is meant."""
        try:
            found, folder = path.lstat(), path.parent.stat()
        except OSError:
            return None
        key = found.st_dev, found.st_ino
        is_it = place.file in (None, key) and place.folder in (None, (folder.st_dev, folder.st_ino))
        is_new = found.st_size > 0 and found.st_mtime_ns >= self._since_ns
        return (path, key, found.st_size) if is_it and is_new and stat.S_ISREG(found.st_mode) else None


def _find_open(pid: int, name: str) -> _Place | None:
    """Return the log that a process holds open."""
    folder = _PROC / str(pid)
    try:
        for link in (folder / "fd").iterdir():
            target = os.readlink(link)  # noqa: PTH115
            if Path(target).name == name:
                found, mount = link.stat(), _mount_of((folder / "fdinfo" / link.name).read_text())
                shown = _as_seen(pid, target)
                return _Place(shown, tuple(_list_paths(pid, target, shown, mount)), file=(found.st_dev, found.st_ino))
    except OSError:
        pass  # It is gone.
    return None


def _find_folder(pid: int, name: str) -> _Place | None:
    """Return the log that a process would make in its working folder."""
    try:
        target = os.readlink(link := _PROC / str(pid) / "cwd")  # noqa: PTH115
        descriptor = os.open(link, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        found, mount = os.fstat(descriptor), _mount_of(Path(f"/proc/self/fdinfo/{descriptor}").read_text())
    finally:
        os.close(descriptor)
    shown = _as_seen(pid, target)
    paths = tuple(path / name for path in _list_paths(pid, target, shown, mount))
    return _Place(f"{shown}/{name}", paths, folder=(found.st_dev, found.st_ino))


def _mount_of(description: str) -> int:
    words = description.split()
    return int(words[words.index("mnt_id:") + 1])


def _as_seen(pid: int, target: str) -> str:
    """Return a path as its process sees it: the kernel tells paths behind its root, too."""
    try:
        root = os.readlink(_PROC / str(pid) / "root")  # noqa: PTH115
    except OSError:
        return target
    return target if root == "/" or not target.startswith(f"{root}/") else target[len(root) :]


def _list_paths(pid: int, target: str, shown: str, mount: int) -> Iterator[Path]:
    """Yield the paths by which this process may reach what another one sees, perhaps through mounts of its own."""
    yield Path(target)
    theirs = next((found for found in _read_mounts(str(pid)) if found.number == mount), None)
    if theirs is None or not Path(shown).is_relative_to(theirs.point):
        return
    inside = Path(theirs.root) / Path(shown).relative_to(theirs.point)
    for own in _read_mounts("self"):
        if own.device == theirs.device and inside.is_relative_to(own.root):
            yield Path(own.point) / inside.relative_to(own.root)


@dataclass(frozen=True)
class _Mount:
    """Hold a line of mountinfo: which folder of which file system is seen at which point."""

    number: int
    device: str
    root: str
    point: str


def _read_mounts(process: str) -> Iterator[_Mount]:
    try:
        lines = (_PROC / process / "mountinfo").read_text(errors="replace").splitlines()
    except OSError:
        return
    for words in (line.split() for line in lines):
        root, point = (_ESCAPED.sub(lambda found: chr(int(found[1], 8)), word) for word in words[3:5])
        yield _Mount(int(words[0]), words[2], root, point)
