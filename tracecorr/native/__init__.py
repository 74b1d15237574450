"""Compiled loops over arrays (`*.c`): over every line of a log, and over every row (`links.py`).

They see bytes only inside the padding of `Text`. `library.py` takes their types from the C files; each other module has
the name of the C file whose functions it calls.
"""

from tracecorr.native.joins import Records, set_lanes
from tracecorr.native.library import KERNEL, Ints, Scratch, Struct, Words, address
from tracecorr.native.lines import HashTable, code_spans, find_lines, hash_spans, hash_text
from tracecorr.native.links import find_parents, find_roots
from tracecorr.native.rows import end_calls, gather, gather_texts
from tracecorr.native.views import (
    CROSSED,
    UNSORTED,
    Drawn,
    Minimap,
    Placed,
    Survey,
    Told,
    Tracks,
    count_gaps,
    find_tangled,
)

__all__ = [
    "CROSSED", "KERNEL", "UNSORTED", "Drawn", "HashTable", "Ints", "Minimap", "Placed", "Records", "Scratch", "Struct",
    "Survey", "Told", "Tracks", "Words", "address", "code_spans", "count_gaps", "end_calls", "find_lines",
    "find_parents", "find_roots", "find_tangled", "gather", "gather_texts", "hash_spans", "hash_text", "set_lanes",
]  # fmt: skip
