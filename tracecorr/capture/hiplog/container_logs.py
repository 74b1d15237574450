"""The logs inside a running container: reached from the host through its root, brought out, taken away."""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
import stat
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from tracecorr.capture.workload.container import find_marked
from tracecorr.capture.workload.engines import exec_log_folders
from tracecorr.store.followed import LOG_FOLDER

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

    def move_to(self, target: Path) -> None:
        """Move what is in it into the capture folder, and take the folder away from the container.

        What is no plain file is not moved. What cannot be moved stays, and does not keep the rest from it.

        Raises:
            OSError: why something could not be moved or removed.
        """
        failures: list[OSError] = []
        for entry in sorted(os.scandir(self._folder), key=lambda entry: entry.name):
            try:
                if entry.is_file(follow_symlinks=False):
                    self._copy(entry.name, target)
                self._remove_entry(entry)
            except OSError as error:
                failures.append(error)
        if failures:
            why = f"{failures[0].strerror}; what could not be moved stays in {self.inside} of the container"
            raise OSError(failures[0].errno, why) from failures[0]
        self.remove()

    def remove(self) -> None:
        """Take the folder away from the container, with all that is in it.

        Raises:
            OSError: why something could not be removed.
        """
        for entry in os.scandir(self._folder):
            self._remove_entry(entry)
        with suppress(FileNotFoundError):
            os.rmdir(os.path.basename(self.inside), dir_fd=self._parent)  # noqa: PTH119

    def close(self) -> None:
        """Let go of the folder."""
        os.close(self._folder)
        os.close(self._parent)

    def _remove_entry(self, entry: os.DirEntry[str]) -> None:
        if entry.is_dir(follow_symlinks=False):
            shutil.rmtree(entry.name, dir_fd=self._folder)
        else:
            os.unlink(entry.name, dir_fd=self._folder)

    def _copy(self, name: str, target: Path) -> None:
        """Copy a plain file, all of it or nothing; what was freed of it stays a hole."""
        source = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=self._folder)
        try:
            if not stat.S_ISREG(os.fstat(source).st_mode):
                return
            with ExitStack() as undone, (target / name).open("xb") as copy:
                undone.callback((target / name).unlink)
                for start, end in _list_data(source):
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
    """Open the folder of the logs of a capture that root still owns; None where there is none.

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


def _list_data(descriptor: int) -> Iterator[tuple[int, int]]:
    """Yield start and end of each part of a file that is no hole."""
    end = 0
    with suppress(OSError):  # ENXIO: there is no more data
        while True:
            start = os.lseek(descriptor, end, os.SEEK_DATA)
            end = os.lseek(descriptor, start, os.SEEK_HOLE)
            yield start, end


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
