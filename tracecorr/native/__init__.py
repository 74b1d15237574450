"""Compiled loops over arrays (`*.c`): over every line of a log, and over every row (`groups.py`, `links.py`).

Python learns what lines look like; these functions compare all lines of a block with what was learned, in one pass
each. They see bytes through `Text`'s padding only: a position outside of it fits nothing. Each module has the name of
the C file whose functions it calls; those of `tables.py` are in `lines.c`.
"""

from tracecorr.native.arrays import address
from tracecorr.native.codes import number_codes
from tracecorr.native.groups import (
    count_groups,
    find_near,
    find_rows,
    find_unordered,
    find_unsure,
    number_values,
    place_values,
    search_near,
    span_groups,
)
from tracecorr.native.joins import Records, set_lanes
from tracecorr.native.library import CallRowsOf, ClassesOf, LayoutOf, ShapesOf
from tracecorr.native.lines import (
    FITS,
    LITERAL_BYTES,
    NO_FORM,
    NO_FRONT,
    Lines,
    Scanned,
    count_times,
    count_units_in,
    find_lines,
    find_pairs,
    match_lines,
    scan_lines,
)
from tracecorr.native.links import (
    NO_MOMENT,
    bracket_rows,
    find_beside,
    find_breaks,
    find_parents,
    find_previous,
    find_roots,
    gather_marks,
    mark_known,
    span_batches,
)
from tracecorr.native.rows import (
    ASK_RESULT,
    IS_CUT,
    IS_TOLD,
    Described,
    describe_rows,
    end_calls,
    gather,
    gather_texts,
    keep_rows,
)
from tracecorr.native.shapes import MOST_NUMBERS, Texts, fill_numbers, find_starts, list_numbers, spread_fields
from tracecorr.native.tables import HashTable, code_spans, hash_spans
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
    "ASK_RESULT", "CROSSED", "FITS", "IS_CUT", "IS_TOLD", "LITERAL_BYTES", "MOST_NUMBERS", "NO_FORM", "NO_FRONT",
    "NO_MOMENT", "UNSORTED", "CallRowsOf", "ClassesOf", "Described", "Drawn", "HashTable", "LayoutOf", "Lines",
    "Minimap", "Placed", "Records", "Scanned", "ShapesOf", "Survey", "Texts", "Told", "Tracks", "address",
    "bracket_rows", "code_spans", "count_gaps", "count_groups", "count_times", "count_units_in", "describe_rows",
    "end_calls", "fill_numbers", "find_beside", "find_breaks", "find_lines", "find_near", "find_pairs", "find_parents",
    "find_previous", "find_roots", "find_rows", "find_starts", "find_tangled", "find_unordered", "find_unsure",
    "gather", "gather_marks", "gather_texts", "hash_spans", "keep_rows", "list_numbers", "mark_known", "match_lines",
    "number_codes", "number_values", "place_values", "scan_lines", "search_near", "set_lanes", "span_batches",
    "span_groups", "spread_fields",
]  # fmt: skip
