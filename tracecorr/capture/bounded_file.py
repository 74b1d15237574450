"""Files that the workload chooses: read as bounded plain files, whatever lies in their place."""

from __future__ import annotations

import errno
import io
import os
import stat
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
