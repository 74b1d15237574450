"""Whether the processes of a workload write their HIP log where the capture has it: some cannot, some are told else."""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tracecorr.capture.folder import RecordingFolder
from tracecorr.capture.workload.engines import ENGINES
from tracecorr.capture.workload.invoker import read_environment, read_status
from tracecorr.capture.workload.processes import SeenProcess
from tracecorr.model.errors import quote_path

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


_RUNTIME = "libamdhip64"
_STARTS = frozenset(("run", "exec", "start", "restart", "compose", "up"))
_DECISIVE = ("AMD_LOG_LEVEL", "AMD_LOG_LEVEL_FILE", "AMD_LOG_MASK")


class LogSight:
    """Find processes that use HIP and do not write their log into the folder of the logs, or less of it.

    Args:
        folder: its path, as the workload was told.
        logs: the folder itself.
        variables: what the workload was told about its log.
    """

    def __init__(self, folder: Path, logs: Path, variables: Mapping[str, str]) -> None:
        self._folder = folder
        self._logs = logs
        self._found = logs.stat()
        self._variables = variables
        self._said: set[int] = set()
        self._engines: set[str] = set()
        self._strays = StrayLogs(Path.cwd())  # the workload is started here

    def look(self, pids: Iterable[int]) -> list[str]:
        """Return a sentence for each process that writes no log here, or less, and for each engine of containers.

        What was said before is not said again.
        """
        said = []
        for pid in pids:
            if (engine := _find_engine(pid)) and engine not in self._engines:
                self._engines.add(engine)
                said.append(_describe_engine(engine))
            why = self._why_not(pid) if pid not in self._said else ""
            if why and _uses_hip(pid):
                self._said.add(pid)
                said.append(why)
            if pid in self._said:
                self._strays.follow(pid)
        return said

    def describe_strays(self, seen: Iterable[SeenProcess], folder: RecordingFolder) -> list[str]:
        """Return a sentence for each HIP log that a process wrote beside the capture, with how to import it.

        Args:
            seen: the processes of the workload.
            folder: the capture.
        """
        capture, raw = folder.path, folder.shown / "raw"
        trace = f" --ftrace {quote_path(raw)}/ftrace/*" if any((capture / "raw/ftrace").glob("*/*.bin")) else ""
        clock = f" --clock-samples {quote_path(raw / 'clock.json')}" if (capture / "raw/clock.json").is_file() else ""
        return [
            f"process {log.pid} wrote its HIP log to {_place(log)}, it is not in the capture; to see both together: "
            f"tracecorr import --amd-log {quote_path(log.path) if log.path else 'FILE'}{trace}{clock}"
            for log in self._strays.list_found(seen)
        ]

    def _why_not(self, pid: int) -> str:
        status = read_status(pid)
        if status is None:
            return ""
        name = f"process {pid} ({status.get('Name', '?')})"
        root = _PROC / str(pid) / "root"
        try:
            seen = Path(f"{root}{self._folder}").stat()
        except OSError:
            seen = None
        if seen is None or (seen.st_dev, seen.st_ino) != (self._found.st_dev, self._found.st_ino):
            return (
                f"{name} cannot write its HIP log into the capture: in its root {_target(root)} there is no "
                f"{self._folder}; choose a folder with -o that is mounted at the same path on both sides, or use "
                "--container"
            )
        user = int(status.get("Uid", "0").split()[1])
        if user not in (0, self._found.st_uid):
            return (
                f"{name} cannot write its HIP log into the capture: it runs as user {user}, who may not write to "
                f"{self._folder}; call tracecorr as that user (sudo), without a change of the user in the command"
            )
        number = status.get("NSpid", str(pid)).split()[-1]
        return self._describe_changes(name, number, read_environment(pid) or {})

    def _describe_changes(self, name: str, number: str, environment: Mapping[str, str]) -> str:
        """Return what a process was told else about its log, as far as its environment can be read."""
        told = {key: environment.get(key) for key in _DECISIVE if environment.get(key) != self._variables.get(key)}
        if None in told.values():
            # Programs that give themselves a title write it over their environment.
            log = self._logs / f"{Path(self._variables['AMD_LOG_LEVEL_FILE']).name}_{number}"
            told = {} if log.exists() or "PATH" not in environment else told
        if not told:
            return ""
        words = (f"without {key}" if value is None else f"with {key}={value}" for key, value in told.items())
        return (
            f"{name} was started {', '.join(words)}: its HIP log is not in the capture, or less of it; "
            "leave these variables alone in the command (--log-level sets the level)"
        )


def _place(log: StrayLog) -> str:
    if log.path is None:
        return f"{log.shown} of its own root, where this machine has no path to it"
    return f"{log.path} ({log.size:,} bytes)"


def _find_engine(pid: int) -> str:
    """Return the engine by which a process starts a program in a container, or ""."""
    try:
        first, *words = (_PROC / str(pid) / "cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return ""
    name = Path(first).name
    return name if name in ENGINES and not _STARTS.isdisjoint(words) else ""


def _describe_engine(engine: str) -> str:
    return (
        f"the command starts a container by {engine}: what runs in it has no HIP log here, and may not be recorded at "
        "all; let tracecorr start it: tracecorr capture --image IMAGE -- COMMAND, or --container NAME for a running one"
    )


def _uses_hip(pid: int) -> bool:
    try:
        return _RUNTIME in (_PROC / str(pid) / "maps").read_text(errors="replace")
    except OSError:
        return False


def _target(link: Path) -> str:
    try:
        return os.readlink(link)  # noqa: PTH115
    except OSError:
        return "/"
