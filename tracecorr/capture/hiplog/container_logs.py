"""The logs inside a running container: reached from the host through its root, brought out, taken away."""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from tracecorr.capture.hiplog.log_file import list_data
from tracecorr.capture.workload.container import find_marked
from tracecorr.capture.workload.engines import exec_log_folders
from tracecorr.store.ownership import LOG_FOLDER, is_log, open_log

# The system call openat2 and its flags (openat2.h of the kernel), which the standard library does not offer.
_SYS_OPENAT2 = 437
_RESOLVE_IN_ROOT, _RESOLVE_NO_MAGICLINKS = 0x10, 0x02
_PIECE = 1 << 20


class ContainerLogs:
    """The folder of the logs inside a running container.

    The container's user owns it: links in it are resolved inside that root or not at all.

    Args:
        pid: host number of a process in the container.
        folders: where the folder may be, inside; the first that is there is taken.

    Raises:
        OSError: none is there, or it cannot be reached.
    """

    def __init__(self, pid: int, folders: Sequence[str]) -> None:
        root = os.open(f"/proc/{pid}/root", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            self.inside, self._parent, self._folder = _open_first(root, folders)
        finally:
            os.close(root)
        self.path = Path(f"/proc/{os.getpid()}/fd/{self._folder}")

    def free_bytes(self) -> int:
        """Return the space left on the file system where the logs land."""
        left = os.statvfs(self._folder)
        return left.f_bavail * left.f_frsize

    def move_to(self, target: Path, owners: Iterable[int] = ()) -> list[str]:
        """Move the logs into the capture folder, and take the folder away from the container.

        What cannot be moved stays, and does not keep the rest from it.

        Args:
            target: the log folder of the capture.
            owners: uids of the workload, beside that of the folder's owner.

        Returns: a sentence for what stays there because it is no log of the workload.

        Raises:
            OSError: why something could not be moved or removed.
        """
        failures: list[OSError] = []
        users = {os.fstat(self._folder).st_uid, *owners}
        foreign = []
        for name in sorted(os.listdir(self._folder)):  # noqa: PTH208
            try:
                if is_log(os.stat(name, dir_fd=self._folder, follow_symlinks=False), users):
                    self._copy(name, target, users)
                    os.unlink(name, dir_fd=self._folder)
                else:
                    foreign.append(name)
            except OSError as error:
                failures.append(error)
        if failures:
            why = f"{failures[0].strerror}; what could not be moved stays in {self.inside} of the container"
            raise OSError(failures[0].errno, why) from failures[0]
        self._remove_empty()
        stays = f"in {self.inside} of the container stays what is no log of the workload: {', '.join(foreign)}"
        return [stays] if foreign else []

    def remove(self) -> None:
        """Take the logs and their folder away from the container; what is no log of the workload stays."""
        owners = {os.fstat(self._folder).st_uid}
        for name in os.listdir(self._folder):  # noqa: PTH208
            if is_log(os.stat(name, dir_fd=self._folder, follow_symlinks=False), owners):
                os.unlink(name, dir_fd=self._folder)
        self._remove_empty()

    def _remove_empty(self) -> None:
        with suppress(OSError):  # it contains files of others
            os.rmdir(os.path.basename(self.inside), dir_fd=self._parent)  # noqa: PTH119

    def close(self) -> None:
        """Let go of the folder."""
        os.close(self._folder)
        os.close(self._parent)

    def _copy(self, name: str, target: Path, owners: set[int]) -> None:
        """Copy a log, all of it or nothing; it keeps its owner, and what was freed of it stays a hole."""
        source = open_log(name, os.O_RDONLY, owners, self._folder)
        try:
            with ExitStack() as undone, (target / name).open("xb") as copy:
                undone.callback((target / name).unlink)
                os.fchown(copy.fileno(), os.fstat(source).st_uid, -1)
                for start, end in list_data(source, 0, os.fstat(source).st_size):
                    copy.seek(start)
                    while start < end and (piece := os.pread(source, min(_PIECE, end - start), start)):
                        copy.write(piece)
                        start += len(piece)
                copy.truncate(os.fstat(source).st_size)
                copy.flush()
                undone.pop_all()
        finally:
            os.close(source)


def clear_leftovers(token: str, shown: Path) -> str:
    """Bring the logs of a killed capture out of containers that still run; return why that must wait, or "".

    Args:
        token: unique name of the capture.
        shown: its folder.
    """
    for pid in _list_roots():
        try:
            logs = ContainerLogs(pid, exec_log_folders(token))
        except OSError:
            continue
        try:
            running = next(find_marked(token), None)
            if running is not None:
                return f"the workload of {shown.name} still runs (pid {running}) and logs to {logs.inside} inside"
            with _open_target(shown) as target:
                logs.move_to(target) if target is not None else logs.remove()
        except OSError as error:
            return f"{logs.inside} in the container of pid {pid}: {error.strerror or error}"
        finally:
            logs.close()
    return ""


def _list_roots() -> list[int]:
    """Return one process of each mount namespace but this one's."""
    found = {Path("/proc/self/ns/mnt").stat().st_ino: 0}
    for path in Path("/proc").iterdir():
        if path.name.isdigit():
            with suppress(OSError):
                found.setdefault((path / "ns/mnt").stat().st_ino, int(path.name))
    return [pid for pid in found.values() if pid]


@contextmanager
def _open_target(shown: Path) -> Iterator[Path | None]:
    """Open the folder of the logs of a capture that root still owns; None if there is none.

    Its parent may be another's, who can put anything in its place: a folder of root's is what it says.
    """
    with ExitStack() as opened:
        descriptor, flags = None, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            for name in (str(shown), *Path(LOG_FOLDER).parts):
                if descriptor is not None and os.fstat(descriptor).st_uid != 0:
                    raise PermissionError(f"{shown} is not root's")
                descriptor = os.open(name, flags, dir_fd=descriptor)
                opened.callback(os.close, descriptor)
        except OSError:
            descriptor = None
        yield None if descriptor is None else Path(f"/proc/{os.getpid()}/fd/{descriptor}")


def _open_first(root: int, folders: Sequence[str]) -> tuple[str, int, int]:
    """Return the first of the folders that is there, and descriptors of its parent and of itself."""
    for folder in folders:
        place, name = os.path.split(folder)
        try:
            parent = _open_in_root(root, place)
        except OSError:
            continue
        try:
            flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
            return folder, parent, os.open(name, flags, dir_fd=parent)
        except OSError:
            os.close(parent)
    raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), " ".join(folders))


class _OpenHow(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


def _open_in_root(root: int, path: str) -> int:
    """Open a folder below a root; no link leads out of it (openat2, Linux 5.6)."""
    libc = ctypes.CDLL(None, use_errno=True)
    how = _OpenHow(os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, 0, _RESOLVE_IN_ROOT | _RESOLVE_NO_MAGICLINKS)
    found = libc.syscall(_SYS_OPENAT2, root, os.fsencode(path), ctypes.byref(how), ctypes.sizeof(how))
    if found < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), path)
    return int(found)
