"""What `link/` asks of all rows: what encloses each, and between which moments of its thread it lies."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tracecorr.native.arrays import Groups, Ints, address, as_ints, places_of
from tracecorr.native.library import KERNEL

# Where no moment is.
NO_MOMENT = int(np.iinfo(np.int64).min)
# So many calls of a thread that wait for their ends there is room for at first, and so many times more each time.
_FEW_ENDS, _MORE_ENDS = 16, 4
# Numbers of `Moments` in C.
_MOMENTS = 6


def find_parents(
    group: Groups, groups: int, offset: Ints, begun: pa.Array, is_call: npt.NDArray[np.bool_]
) -> tuple[pa.Array, Ints]:
    """Return the call around each row, null for none, and the rows whose call is not among those around the one before.

    Args:
        group: of each row, below `groups`; what encloses a row is of its group.
        groups: how many there are.
        offset: where each row begins.
        begun: where the call around each row begins, null for none.
        is_call: which rows are calls.
    """
    group, offset, is_call = np.ascontiguousarray(group), as_ints(offset), np.ascontiguousarray(is_call, np.bool_)
    count, last = len(group), np.empty(groups, np.int64)
    parents, found = np.empty(count, np.int64), np.zeros(count // 8 + 1, np.uint8)
    missed = KERNEL.find_parents(
        count, address(group), group.itemsize, address(offset), *places_of(begun), address(is_call), groups,
        *map(address, (last, parents, found)),
    )  # fmt: skip
    column = pa.Array.from_buffers(pa.int64(), count, [pa.py_buffer(found), pa.py_buffer(parents)])
    return column, np.flatnonzero(parents == -2) if missed else np.empty(0, np.int64)


def find_roots(parents: pa.Array, named: npt.NDArray[np.bool_] | None = None) -> pa.Array:
    """Return the outermost row around each one, which is itself where nothing encloses it.

    Args:
        parents: the row around each one, null for none; must hold no cycle.
        named: of each row; a root that is not named is told as null. None = all are.
    """
    count = len(parents)
    roots = np.empty(count, np.int64)
    found = np.zeros(0 if named is None else count // 8 + 1, np.uint8)
    marks = None if named is None else address(named := np.ascontiguousarray(named, np.bool_))
    hits = KERNEL.find_roots(count, *places_of(parents), marks, address(roots), address(found))
    valid = None if named is None else pa.py_buffer(found)
    return pa.Array.from_buffers(pa.int64(), count, [valid, pa.py_buffer(roots)], 0 if named is None else count - hits)


def bracket_rows(
    group: Groups, threads: int, at: Ints, lasted: pa.Array, is_line: npt.NDArray[np.bool_], asked: Ints
) -> tuple[Ints, Ints]:
    """Return the last moment of its thread before each of some rows, and the first one after it; else `NO_MOMENT`.

    Moments are the times of lines and of their ends.

    Args:
        group: the thread of each row, below `threads`.
        threads: how many there are.
        at: when each row begins (ns); no row is earlier than the one in front of it.
        lasted: how long each line takes (ns), null where it has no end.
        is_line: which rows are lines.
        asked: the rows, ascending.
    """
    group, at, asked = np.ascontiguousarray(group), as_ints(at), as_ints(asked)
    is_line = np.ascontiguousarray(is_line, np.bool_)
    before, after = np.empty((2, len(asked)), np.int64)
    moments, most = np.empty((threads, _MOMENTS), np.int64), _FEW_ENDS
    while True:
        ends = np.empty((threads, most), np.int64)
        if KERNEL.bracket_rows(
            len(group), address(group), group.itemsize, address(at), *places_of(lasted), address(is_line), len(asked),
            address(asked), threads, address(moments), most, address(ends), address(before), address(after),
        ):  # fmt: skip
            return before, after
        most *= _MORE_ENDS


def span_batches(group: Groups, threads: int, at: Ints, marks: npt.NDArray[np.bool_], after: Ints) -> None:
    """Let marked rows that follow one another in their thread have the moment after the last of them, in place.

    Args:
        group: the thread of each row, below `threads`.
        threads: how many there are.
        at: the time of each (ns); none is earlier than the one in front of it.
        marks: which rows are marked.
        after: the first moment of its thread after each.
    """
    group, at, marks = np.ascontiguousarray(group), as_ints(at), np.ascontiguousarray(marks, np.bool_)
    moments = np.empty((threads, _MOMENTS), np.int64)
    places = (address(at), address(marks), threads, address(moments), address(after))
    KERNEL.span_batches(len(group), address(group), group.itemsize, *places)
