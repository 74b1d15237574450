"""What `link/` asks of all rows: what encloses each."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tracecorr.native.library import KERNEL, Ints, address, as_ints, places_of


def find_parents(
    group: npt.NDArray[np.uint32], groups: int, offset: Ints, begun: pa.Array, is_call: npt.NDArray[np.bool_]
) -> tuple[pa.Array, Ints]:
    """Return the call around each row, null for none, and the rows whose call is not among those around the one before.

    Args:
        group: of each row, below `groups`; what encloses a row is of its group.
        groups: how many there are.
        offset: where each row begins.
        begun: where the call around each row begins, null for none.
        is_call: which rows are calls.
    """
    group, offset = np.ascontiguousarray(group, np.uint32), as_ints(offset)
    is_call = np.ascontiguousarray(is_call, np.bool_)
    count, last = len(group), np.empty(groups, np.int64)
    parents, found = np.empty(count, np.int64), np.zeros(count // 8 + 1, np.uint8)
    missed = KERNEL.find_parents(
        count, address(group), address(offset), *places_of(begun), address(is_call), groups,
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
