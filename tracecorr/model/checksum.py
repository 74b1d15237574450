"""The checksum of a raw file: tells whether two files are one, and whether a file is still what it was.

It guards against mistakes and damage, not against forgery: XXH3 costs a tenth of reading the file, SHA-256 where the
processor does not compute it more than all else that an import does with the bytes.
"""

from __future__ import annotations

import xxhash

_NAME = "xxh128"


class Checksum:
    """Compute a checksum piece by piece; `size` tells how many bytes it is of.

    Example:
        >>> checksum = Checksum()
        >>> checksum.update(b"hipLaunchKernel")
        >>> checksum.text()
        'xxh128:683f6881461bb85cc1aaea3692a496ee'
    """

    def __init__(self) -> None:
        self._state = xxhash.xxh3_128()
        self.size = 0

    def update(self, data: bytes | memoryview) -> None:
        """Add bytes."""
        self._state.update(data)
        self.size += len(data)

    def skip(self, size: int) -> None:
        """Count bytes of a hole, which are all zeros; they are not hashed."""
        self.size += size

    def text(self) -> str:
        """Return the checksum as its name and what `xxhsum -H2` prints."""
        return f"{_NAME}:{self._state.hexdigest()}"
