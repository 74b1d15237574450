"""Compiled loops over arrays (`*.c`): over every line of a log and every row (`loops`), and for the views (`views`).

They see bytes only inside the padding of `Text`. `binding` takes their types from the C files.
"""

from tracecorr.native.binding import KERNEL, Ints, Scratch, Struct, Words, address
from tracecorr.native.loops import (
    HashTable,
    Records,
    code_spans,
    end_calls,
    find_lines,
    gather,
    gather_texts,
    hash_spans,
    hash_text,
    set_lanes,
)
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
    "find_tangled", "gather", "gather_texts", "hash_spans", "hash_text", "set_lanes",
]  # fmt: skip
