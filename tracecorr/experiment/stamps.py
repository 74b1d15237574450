"""The stamps that a workload prints: one line per launch, so that no instrumentation is needed to time it."""

from __future__ import annotations

import re
from pathlib import Path

# tracecorr-stamp START RETURN COMPLETE: CLOCK_MONOTONIC ns before the call, after it, and when its end was noticed.
# No clock shows more than 18 digits, and more may not fit into a column.
_LINE = re.compile(rb"^tracecorr-stamp (\d{1,18}) (\d{1,18}) (\d{1,18})\s*$", re.MULTILINE)
Stamp = tuple[int, int, int]


def read_stamps(text: bytes) -> list[Stamp]:
    """Return the stamps in the output of a workload; lines whose times run backwards, or are no times, are left out.

    >>> read_stamps(b"hello\\ntracecorr-stamp 1 2 30\\ntracecorr-stamp 9 8 7\\n")
    [(1, 2, 30)]
    """
    found = [(int(m[1]), int(m[2]), int(m[3])) for m in _LINE.finditer(text)]
    return [stamp for stamp in found if stamp[0] <= stamp[1] <= stamp[2]]


def read_stamp_file(path: Path) -> list[Stamp]:
    """Return the stamps in a file with a workload's output; none when there is no such file."""
    return read_stamps(path.read_bytes()) if path.is_file() else []
