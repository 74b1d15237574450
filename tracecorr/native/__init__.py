"""Compiled loops over arrays (`*.c`): over every line of a log, and over every row (`groups.py`, `links.py`).

They see bytes only inside the padding of `Text`. `library.py` takes their types from the C files; each other module has
the name of the C file whose functions it calls, those of `tables.py` are in `lines.c`.
"""

from tracecorr.native.arrays import Ints, Scratch, Words, address
from tracecorr.native.codes import number_codes
from tracecorr.native.groups import (
    find_near,
    find_rows,
    number_values,
    place_values,
)
from tracecorr.native.joins import Records, set_lanes
from tracecorr.native.library import KERNEL, Struct
from tracecorr.native.lines import find_lines
from tracecorr.native.links import (
    NO_MOMENT,
    bracket_rows,
    find_parents,
    find_roots,
    span_batches,
)
from tracecorr.native.rows import end_calls, gather, gather_texts
from tracecorr.native.tables import HashTable, code_spans, hash_spans, hash_text
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
    "CROSSED", "KERNEL", "NO_MOMENT", "UNSORTED", "Drawn", "HashTable", "Ints", "Minimap", "Placed", "Records",
    "Scratch", "Struct", "Survey", "Told", "Tracks", "Words", "address", "bracket_rows", "code_spans", "count_gaps",
    "end_calls", "find_lines", "find_near", "find_parents", "find_roots", "find_rows",
    "find_tangled", "gather", "gather_texts", "hash_spans", "hash_text", 
    "number_codes", "number_values", "place_values", "set_lanes", "span_batches", 
]  # fmt: skip
