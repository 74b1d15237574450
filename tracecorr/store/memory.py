"""Memory that a loop frees and takes again is kept meanwhile; what a stage has done with goes back to the system."""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa

# Numbers of mallopt(3), and what it begins with.
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
_MOST_KEPT = 256 << 20
# What glibc itself comes to in a process that frees large arrays; once they are set it does not adapt them.
_MAPPED_AFTERWARDS, _KEPT_AFTERWARDS = 32 << 20, 64 << 20


@contextmanager
def kept_memory() -> Iterator[None]:
    """Let the allocator keep freed memory; at the end it is given back.

    Else each array of a block is mapped and cleared by the kernel anew, which takes a tenth of the time of a reader.
    Nor does Python look meanwhile for garbage in cycles, of which readers leave hardly any. Without a C library that
    has `mallopt` only that is changed.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        with _kept_by_allocator():
            yield
    finally:
        if was_enabled:
            gc.enable()


@contextmanager
def _kept_by_allocator() -> Iterator[None]:
    library = ctypes.CDLL(None)
    if not all(hasattr(library, name) for name in ("mallopt", "malloc_trim")):
        yield
        return
    library.mallopt(_MMAP_THRESHOLD, _MOST_KEPT)
    library.mallopt(_TRIM_THRESHOLD, _MOST_KEPT)
    try:
        yield
    finally:
        library.mallopt(_MMAP_THRESHOLD, _MAPPED_AFTERWARDS)
        library.mallopt(_TRIM_THRESHOLD, _KEPT_AFTERWARDS)
        library.malloc_trim(0)


def give_back() -> None:
    """Return the free memory of arrow and of the C library to the system, where these can."""
    pa.default_memory_pool().release_unused()
    library = ctypes.CDLL(None)
    if hasattr(library, "malloc_trim"):
        library.malloc_trim(0)
