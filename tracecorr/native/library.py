"""The compiled functions of the C files beside this module."""

from __future__ import annotations

import ctypes
from hashlib import sha256
from pathlib import Path
from typing import Any

# `scripts/build_native.py` writes it where the package is installed from.
LIBRARY = Path(__file__).with_name("kernel.so")
_NEXT_STEP = "install tracecorr again: pip install -e ., or scripts/run"

_POINTER, _INT, _BYTE = ctypes.c_void_p, ctypes.c_int64, ctypes.c_uint8
_TABLE, _RAW = (_POINTER, _POINTER, _INT), (_POINTER, _INT)
_ARGUMENTS = {
    "table_add": (*_TABLE, _INT, _POINTER, _POINTER),
    "table_find": (*_TABLE, _INT, _POINTER, _POINTER),
    "hash_spans": (*_RAW, _INT, _POINTER, _POINTER, _POINTER),
    "code_spans": (*_TABLE, *_RAW, _INT, *[_POINTER] * 4),
    "find_lines": (_POINTER, _INT, _INT, _INT, _POINTER, _POINTER),
    "count_units_in": (_POINTER, _INT, _POINTER, _POINTER),
    "count_times": (_POINTER, _INT, _POINTER, _POINTER, _POINTER),
    "find_pairs": (*_RAW, _INT, _POINTER, _POINTER, _INT, _BYTE, _BYTE, _POINTER),
    "match_lines": (_POINTER, *_RAW, _INT, _POINTER, _POINTER, ctypes.c_int, _POINTER),
    "scan_lines": (_POINTER, *_RAW, _INT, _INT, _INT, *[_POINTER] * 5),
    "read_shapes": (_POINTER, *_RAW, _INT, *[_POINTER] * 9),
    "spread_fields": (_INT, _POINTER, _INT, _INT, *[_POINTER] * 4),
    "set_lanes": (_INT, *[_POINTER] * 9),
    "pair_calls": (*[_POINTER] * 12,),
    "nest_calls": (_POINTER, _POINTER, _INT, *[_POINTER] * 6),
    "fold_rows": (*[_POINTER] * 10,),
    "list_events": (*[_POINTER] * 7, ctypes.c_int, _POINTER, _POINTER),
    "describe_rows": (_POINTER, _POINTER, _INT, *[_POINTER] * 7),
    "end_calls": (_POINTER, _INT, *[_POINTER] * 5),
    "keep_rows": (_POINTER, _INT, _INT, _POINTER, _POINTER),
    "gather_i64": (_INT, _POINTER, _POINTER, _POINTER, _INT, _POINTER, _POINTER),
    "gather_u64": (_INT, _POINTER, _POINTER, _POINTER, ctypes.c_uint64, _POINTER, _POINTER),
    "gather_u32": (_INT, _POINTER, _POINTER, _POINTER, _INT, _POINTER, _POINTER),
    "gather_texts": (_INT, *[_POINTER] * 5),
    "number_values": (
        _INT, _POINTER, ctypes.c_int, _POINTER, ctypes.c_int, _POINTER, *[_INT] * 4, _POINTER, _INT, *[_POINTER] * 3,
    ),
    "count_groups": (_INT, _POINTER, ctypes.c_int, *[_POINTER] * 3),
    "span_groups": (_INT, _POINTER, ctypes.c_int, *[_POINTER] * 4),
    "mark_unordered": (_INT, *[_POINTER] * 4),
    "number_codes": (_INT, _POINTER, _POINTER, _INT, _INT, *[_POINTER] * 3),
    "survey_rows": (*[_POINTER] * 6,),
    "place_rows": (_POINTER, _POINTER, _INT, _INT, _POINTER, _INT, _POINTER, _POINTER),
    "count_gaps": (_INT, _POINTER, _POINTER),
    "find_tangled": (_INT, *[_POINTER] * 3),
    "merge_records": (_POINTER, _INT, _INT, _POINTER),
    "search_near": (_INT, _POINTER, _INT, *[_POINTER] * 2),
    "find_near": (
        _INT, _POINTER, ctypes.c_int, *[_POINTER] * 3, _INT, *[_POINTER] * 2, *[ctypes.c_int] * 2, _INT,
        *[_POINTER] * 3,
    ),
    "place_values": (_INT, *[_POINTER] * 2, ctypes.c_int, _POINTER, _INT, *[_POINTER] * 2),
    "find_rows": (_INT, _POINTER, _INT, *[_POINTER] * 4),
    "find_unsure": (_INT, _POINTER, ctypes.c_int, *[_POINTER] * 4, _INT, *[_POINTER] * 2, _INT, *[_POINTER] * 2),
    "find_parents": (_INT, _POINTER, ctypes.c_int, *[_POINTER] * 3, _INT, _POINTER, _INT, *[_POINTER] * 3),
    "find_roots": (_INT, *[_POINTER] * 2, _INT, *[_POINTER] * 3),
    "bracket_rows": (
        _INT, _POINTER, ctypes.c_int, *[_POINTER] * 3, _INT, _POINTER, _INT, _POINTER, _INT, _POINTER, _INT,
        *[_POINTER] * 3,
    ),
    "span_batches": (_INT, _POINTER, ctypes.c_int, *[_POINTER] * 2, _INT, *[_POINTER] * 2),
    "find_breaks": (_INT, _POINTER, ctypes.c_int, *[_POINTER] * 2, *[_INT] * 2, *[_POINTER] * 2),
    "find_previous": (_INT, _POINTER, ctypes.c_int, _INT, *[_POINTER] * 2),
    "find_beside": (_INT, _POINTER, ctypes.c_int, *[_POINTER] * 2, *[_INT] * 2, *[_POINTER] * 5),
    "gather_marks": (_INT, *[_POINTER] * 2, *[_INT] * 2, *[_POINTER] * 2),
    "mark_known": (_INT, *[_POINTER] * 2, *[_INT] * 2, *[_POINTER] * 2),
    "find_starts": (*_RAW, _INT, _POINTER, _POINTER, _INT, *[_POINTER] * 4, _INT, *[_POINTER] * 3),
}  # fmt: skip
_COUNTING = (
    "table_find", "code_spans", "find_lines", "count_units_in", "read_shapes", "scan_lines", "describe_rows",
    "list_events", "keep_rows", "find_near", "find_rows", "number_values", "number_codes", "merge_records",
    "gather_i64", "gather_u64", "gather_u32", "gather_texts", "find_parents", "find_roots", "bracket_rows",
)  # fmt: skip


class LayoutOf(ctypes.Structure):
    """Hold what `match_lines` asks of a layout: `Layout` in C."""

    _fields_ = [
        ("mark", _INT), ("digits", _INT), ("gap", _INT), ("keys", _POINTER), ("codes", _POINTER), ("mask", _INT),
        ("threads", _POINTER), ("slots", _POINTER), ("slot_count", _INT), ("first_of", _POINTER),
        ("following", _POINTER), ("sizes", _POINTER), ("whats", _POINTER), ("skips", _POINTER),
        ("literals", _POINTER),
    ]  # fmt: skip


class LinesOf(ctypes.Structure):
    """Hold where `match_lines` writes what it tells of each line: `Lines` in C."""

    _fields_ = [(name, _POINTER) for name in ("status", "front", "thread", "slot", "time", "message", "what")]


class ShapesOf(ctypes.Structure):
    """Hold what `read_shapes` asks of the shapes seen: `Shapes` in C."""

    _fields_ = [
        ("key_count", _INT), ("first_of", _POINTER), ("following", _POINTER), ("words_from", _POINTER),
        ("words_to", _POINTER), ("keep", _POINTER), ("literal", _POINTER), ("numbers_from", _POINTER),
        ("numbers_to", _POINTER), ("stop", _POINTER), ("digits", _POINTER), ("is_hex", _POINTER), ("before", _INT),
        ("most_bytes", _INT),
    ]  # fmt: skip


class RowsOf(ctypes.Structure):
    """Hold what the joining of rows asks of them: `Rows` in C."""

    _fields_ = [
        ("count", _INT), ("lanes", _INT), ("lane", _POINTER), ("name", _POINTER), ("kind", _POINTER),
        ("offset", _POINTER), ("stamp", _POINTER), ("shared", _POINTER), ("passed", _POINTER), ("is_rocr", _POINTER),
    ]  # fmt: skip


class ClassesOf(ctypes.Structure):
    """Hold what `describe_rows` asks of the codes of messages: `Classes` in C."""

    _fields_ = [
        *[(name, _POINTER) for name in ("kind", "name", "length", "succeeds", "layer", "subjects")],
        *[(name, _INT) for name in ("success", "cut_length", "level", "complaints", "base")],
    ]  # fmt: skip


class DescribedOf(ctypes.Structure):
    """Hold where `describe_rows` writes: `Described` in C."""

    _fields_ = [
        (name, _POINTER)
        for name in ("offset", "length", "kind", "layer", "name", "result", "told_us", "asks", "listed", "counts")
    ]


class CallRowsOf(ctypes.Structure):
    """Hold what `end_calls` asks of rows: `CallRows` in C."""

    _fields_ = [
        *[(name, _POINTER) for name in ("kind", "partner", "stamp", "told_us", "stream", "flags")],
        ("step_ns", _INT),
        *[(name, ctypes.c_uint16) for name in ("enter_only", "exit_only", "span_told", "span_differs")],
    ]


def _column(name: str) -> list[tuple[str, type[Any]]]:
    """Return the fields of a `Column` in C: values of arrow, the bits that tell which are there, and the first bit."""
    return [(name, _POINTER), (f"{name}_bits", _POINTER), (f"{name}_first", _INT)]


class DrawnOf(ctypes.Structure):
    """Hold rows that are drawn: `Drawn` in C."""

    _fields_ = [
        ("count", _INT), ("kind", _POINTER), *_column("start"), *_column("end"), *_column("lasted"),
        *_column("event"), *_column("depth"), *_column("flags"), ("name", _POINTER),
    ]  # fmt: skip


class KindsOf(ctypes.Structure):
    """Hold what the kinds of drawn rows tell: `Kinds` in C."""

    _fields_ = [
        ("lane", _POINTER), ("name", _POINTER), ("style", _POINTER), ("half_flags", ctypes.c_uint16),
        ("half_style", _BYTE),
    ]  # fmt: skip


class PlacedOf(ctypes.Structure):
    """Hold where `place_rows` writes: `Placed` in C."""

    _fields_ = [
        *[(name, _POINTER) for name in ("start", "end", "event", "name", "style", "row")], ("events", _INT),
        ("place", _POINTER),
    ]  # fmt: skip


class MinimapOf(ctypes.Structure):
    """Hold where `place_rows` counts: `Minimap` in C."""

    _fields_ = [
        ("bins", _INT), ("scale", ctypes.c_double), ("is_packet", _POINTER), ("others", _POINTER),
        ("packets", _POINTER),
    ]  # fmt: skip


class TracksOf(ctypes.Structure):
    """Hold records of a level of detail: `Tracks` in C."""

    _fields_ = [
        ("tracks", _INT),
        *[
            (name, _POINTER)
            for name in ("begin", "start", "end", "event", "name", "style", "busy", "longest", "count", "is_counter")
        ],
    ]


def checksum(folder: Path) -> str:
    """Return the checksum of the C files of a folder."""
    return sha256(b"".join(path.read_bytes() for path in sorted(folder.glob("*.[ch]")))).hexdigest()


def load(path: Path = LIBRARY) -> ctypes.CDLL:
    """Return the compiled functions with the types of their arguments.

    Raises:
        ImportError: they were not built, or of other sources than those beside them.
    """
    try:
        library = ctypes.CDLL(str(path))
        told = ctypes.string_at(library.source_checksum).decode()
    except (OSError, AttributeError) as error:
        raise ImportError(f"{path} cannot be loaded ({error}); {_NEXT_STEP}") from error
    if told != checksum(path.parent):
        raise ImportError(f"{path} was built of other sources; {_NEXT_STEP}")
    for name, arguments in _ARGUMENTS.items():
        function = getattr(library, name)
        function.argtypes = arguments
        function.restype = _INT if name in _COUNTING else None
    return library


KERNEL = load()
