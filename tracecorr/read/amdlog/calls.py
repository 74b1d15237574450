"""What belongs together in the rows of a block: calls and their exits, packets and the lines before them.

Rows are in the order of the file; each has a lane, that of one thread in one run of its program. ROCm 6.4 and later
append to the file of an earlier process with the same number. The clock of a thread never goes back: if it does,
another run begins, and nothing of the one before continues.

That the exit of a call never comes is proven by the exit of a call that encloses it, or by the same function being
entered again, since no HIP function calls itself.

A call encloses what follows it up to the next call's line, whether its exit comes or not. It encloses what follows that
line only if its exit comes, and no more than `_WAIT_BYTES` of the file behind its enter: how long a call without exit
really went on is not known. So the rows behind that line wait for the exit (`_find_held`), and neither depth nor parent
depends on how the file is cut. Calls without a thread enclose what follows up to the next call's line only.

The records of one block as parallel arrays, and the account of its bytes.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from tracecorr import native
from tracecorr.model import schema
from tracecorr.model.kinds import WITHOUT_EXIT
from tracecorr.native import Ints
from tracecorr.read.amdlog.messages import Kind
from tracecorr.read.amdlog.tokens import Thread, Vocabulary

_Array = npt.NDArray[Any]

# Column -> type and the value that stands for null (or for the usual case).
_COLUMNS: dict[str, tuple[type, int]] = {
    "offset": (np.int64, 0), "length": (np.int64, 0), "stamp": (np.int64, 0), "thread": (np.int32, 0),
    "lane": (np.int32, 0), "kind": (np.int8, 0), "layer": (np.int8, 0), "name": (np.int32, 0),
    "result": (np.int32, -1), "kernel": (np.int32, -1), "flags": (np.uint16, 0), "kernarg_bytes": (np.int64, -1),
    "packet_index": (np.int64, -1), "size_bytes": (np.int64, -1), "told_us": (np.int32, -1),
    "ring": (np.uint64, 0), "signal": (np.uint64, 0), "command": (np.uint64, 0),
    "stream": (np.uint64, 0), "arg": (np.uint64, 0),
    "is_rocr": (np.bool_, 0), "is_old": (np.bool_, 0), "is_held": (np.bool_, 0), "is_passed": (np.bool_, 0),
    "is_doubtful": (np.bool_, 0),
}  # fmt: skip
_ALL_COLUMNS = frozenset(_COLUMNS)
NULLS = {name: null for name, (_, null) in _COLUMNS.items()}


class Rows:
    """Hold one value per record and column; a column that was never set is null.

    Args:
        size: how many records.
        columns: their values, with the room before them.
        room: how many other rows may be put before them without a copy of them.
    """

    def __init__(self, size: int, columns: dict[str, _Array] | None = None, room: int = 0) -> None:
        self._size, self._room = size, room
        self._columns = columns or {}

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, name: str) -> _Array:
        return self._whole(name)[self._room :]

    def __setitem__(self, name: str, values: _Array) -> None:
        dtype, _ = _COLUMNS[name]
        if not self._room:
            self._columns[name] = values.astype(dtype, copy=False)
            return
        self._columns[name] = np.empty(self._room + self._size, dtype)
        self._columns[name][self._room :] = values

    def put(self, name: str, values: _Array) -> None:
        """Set a column with the room before it."""
        self._columns[name] = values

    def has(self, name: str) -> bool:
        """Tell whether the column was set."""
        return name in self._columns

    def take(self, rows: _Array, columns: frozenset[str] = _ALL_COLUMNS) -> Rows:
        """Return the given rows, in that order, with some of the columns."""
        return Rows(len(rows), {name: self[name].take(rows) for name in self._columns if name in columns})

    def without_nulls(self) -> Rows:
        """Return the rows without the columns that are null throughout."""
        return Rows(
            len(self), {name: column for name in self._columns if ((column := self[name]) != NULLS[name]).any()}
        )

    def behind(self, others: Rows) -> Rows:
        """Return these rows with as many others before them as there is room for; both share their memory."""
        for name in {**others._columns, **self._columns}:
            self._whole(name)[: self._room] = others[name]
        return Rows(self._room + self._size, dict(self._columns))

    def _whole(self, name: str) -> _Array:
        if name not in self._columns:
            dtype, null = _COLUMNS[name]
            self._columns[name] = np.full(self._room + self._size, null, dtype)
        return self._columns[name]


class Ledger:
    """Count records and bytes by outcome and reason."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, str], tuple[int, int]] = {}

    def add(self, outcome: str, reason: str, records: int, size: int) -> None:
        """Count some records more."""
        before = self._counts.get((outcome, reason), (0, 0))
        self._counts[outcome, reason] = before[0] + records, before[1] + size

    def frame(self, file: int) -> pl.DataFrame:
        """Return the counts as `LEDGER`."""
        rows = [(*key, *counts) for key, counts in sorted(self._counts.items()) if counts[0]]
        frame = pl.DataFrame(rows, schema=("outcome", "reason", "records", "bytes"), orient="row")
        return schema.LEDGER.conform(frame.with_columns(file=pl.lit(file), source=pl.lit("amd_log")))


_Mask = npt.NDArray[np.bool_]
# Bounds what waits: all rows that are held back lie in the last so many bytes read.
_WAIT_BYTES = 8 << 20

OPEN, NO_EXIT = -1, -2
# Without a thread in the prefix several threads share a lane, and their lines may be out of order by some time.
_STEP_NS = 1_000_000_000
_NEVER = -(1 << 62)


class Lanes:
    """Number the lanes; remembers the last time of each."""

    def __init__(self) -> None:
        self._keys: dict[tuple[object, ...], int] = {}
        # Of each thread its key's number; of each key its lane now and its last time.
        self._key_of = np.zeros(0, np.int64)
        self._lane_now = np.zeros(0, np.int64)
        self._last = np.zeros(0, np.int64)
        self._count = 0

    def of(
        self, threads: list[Thread], thread: npt.NDArray[np.int32], stamp: Ints, is_rocr: _Mask, room: int = 0
    ) -> npt.NDArray[np.int32]:
        """Return the lane of each record, in the order of the file, behind room for others.

        Args:
            threads: what the codes in `thread` stand for.
            thread: codes of threads.
            stamp: times, in ns.
            is_rocr: records of another clock.
            room: for so many records.
        """
        self._add(threads)
        lane, last, told = native.set_lanes(thread, self._key_of, self._lane_now, stamp, is_rocr, self._last, room)
        least, latest, behind = told
        if least < latest - _STEP_NS or behind > _STEP_NS:
            rows = np.flatnonzero(~is_rocr)
            self._part(lane[room:], self._key_of[thread], rows, stamp[rows])
        self._last = last
        return lane

    def _add(self, threads: list[Thread]) -> None:
        for thread in threads[len(self._key_of) :]:
            number = self._keys.setdefault(thread.lane, len(self._keys))
            self._key_of = np.append(self._key_of, number)
            if number == len(self._lane_now):
                self._lane_now = np.append(self._lane_now, self._count)
                self._last = np.append(self._last, _NEVER)
                self._count += 1

    def _part(self, lane: npt.NDArray[np.int32], key: Ints, rows: Ints, time: Ints) -> None:
        """Give records behind a step back lanes of their own."""
        order = np.argsort(key[rows], kind="stable")
        sorted_key, sorted_time = key[rows][order], time[order]
        before = np.append(_NEVER, sorted_time[:-1])
        is_first = np.append(True, sorted_key[1:] != sorted_key[:-1])
        before[is_first] = self._last[sorted_key[is_first]]
        steps = np.flatnonzero(sorted_time < before - _STEP_NS)
        # Between two steps all belongs to one run; what stands before the first one to the run that was.
        begins = rows[order[steps]]
        for number in np.unique(sorted_key[steps]).tolist():
            own = np.flatnonzero(key == number)
            runs = np.searchsorted(np.sort(begins[sorted_key[steps] == number]), own, side="right")
            lane[own] = np.where(runs > 0, self._count + runs - 1, lane[own])
            self._count += int(runs[-1])
            self._lane_now[number] = self._count - 1


@dataclass
class _Held:
    """Say what of a batch waits for the exits of open calls.

    Args:
        rows: rows whose depth and parent the next batch may show.
        passed: open calls that enclose nothing behind this batch.
    """

    rows: _Mask
    passed: _Mask


def _pair(records: native.Records, without_exit: _Mask, doubtful: _Mask) -> tuple[Ints, Ints]:
    """Return of an enter its exit, `OPEN` or `NO_EXIT`, of an exit its enter, or `NO_EXIT`; and the next calls.

    Args:
        records: the rows.
        without_exit: functions that print no exit line.
        doubtful: calls in shared lanes whose exit is not known; those of this block are added.

    Returns: with the partners of each call the next call's row of its lane (-1 = none).
    """
    lane, kind, name = (records.columns[column] for column in ("lane", "kind", "name"))
    partner, following, left, enclosing = records.pair_calls(without_exit)
    _pair_shared(records, partner, doubtful)
    enters = left[kind[left] == Kind.ENTER]
    again = _next_enters(np.concatenate((enclosing, enters)), lane, kind, name)
    inside = again[: len(enclosing)]
    lost = enclosing[(inside >= 0) & (inside < partner[enclosing])]
    partner[partner[lost]] = NO_EXIT
    partner[lost] = NO_EXIT
    again = again[len(enclosing) :]
    walked = np.union1d(left, again[again >= 0])
    _pair_rest(walked[np.argsort(lane[walked], kind="stable")], lane, kind, name, partner)
    return partner, following


def _pair_shared(records: native.Records, partner: Ints, doubtful: _Mask) -> None:
    """Set the partners of calls in shared lanes."""
    lane, kind, name, offset = (records.columns[column] for column in ("lane", "kind", "name", "offset"))
    shared = records.columns["shared"]
    if not shared.any():
        return
    rows = np.flatnonzero(shared & ((kind == Kind.ENTER) | (kind == Kind.EXIT)) & (partner == OPEN))
    rows = rows[np.argsort(lane[rows], kind="stable")]
    in_doubt = doubtful[rows]
    found = _pair_without_threads(np.arange(len(rows)), kind[rows], name[rows], offset[rows], in_doubt, _WAIT_BYTES)
    doubtful[rows], partner[rows] = in_doubt, np.where(found >= 0, rows[np.maximum(found, 0)], found)


def _next_enters(rows: Ints, lane: Ints, kind: Ints, name: Ints) -> Ints:
    """Return for each enter the next one of the same function and lane; -1 = none."""
    if len(rows) == 0:
        return rows
    # Mostly these are the last calls of a block.
    first = int(rows.min())
    is_wanted = np.zeros(int(name.max()) + 1, np.bool_)
    is_wanted[name[rows]] = True
    enters = first + np.flatnonzero((kind[first:] == Kind.ENTER) & is_wanted[name[first:]])
    key = lane[enters].astype(np.int64) << 32 | name[enters]
    order = np.argsort(key, kind="stable")
    enters, key = enters[order], key[order]
    following = np.full(len(lane), -1, np.int64)
    same = key[1:] == key[:-1]
    following[enters[:-1][same]] = enters[1:][same]
    found: Ints = following[rows]
    return found


def _pair_rest(rows: Ints, lane: Ints, kind: Ints, name: Ints, partner: Ints) -> None:
    """Walk over the calls that miss one half, and over the next enters of the same functions."""
    stack: list[int] = []
    for row in rows.tolist():
        if stack and lane[stack[-1]] != lane[row]:
            stack.clear()
        same = next((i for i in range(len(stack) - 1, -1, -1) if name[stack[i]] == name[row]), -1)
        if kind[row] == Kind.ENTER:
            if same >= 0:
                partner[stack.pop(same)] = NO_EXIT
            if partner[row] == OPEN:
                stack.append(row)
        elif same < 0:
            partner[row] = NO_EXIT
        else:
            for call in stack[same + 1 :]:
                partner[call] = NO_EXIT
            partner[row], partner[stack[same]] = stack[same], row
            del stack[same:]


def _nest(records: native.Records, partner: Ints) -> tuple[Ints, Ints]:
    """Return how many calls enclose each row, and the innermost one (-1 = none)."""
    return records.nest_calls(partner, _WAIT_BYTES)


def _find_held(records: native.Records, partner: Ints, following: Ints, position: int) -> _Held:
    """Return what waits for the exits of open calls when the file is read up to byte `position`."""
    lane, kind, offset, passed = (records.columns[column] for column in ("lane", "kind", "offset", "passed"))
    is_open = (kind == Kind.ENTER) & (partner == OPEN) & (following >= 0) & ~passed
    waits = is_open & ~records.columns["shared"] & (position - offset <= _WAIT_BYTES)
    if not waits.any():
        return _Held(np.zeros(records.count, np.bool_), passed | is_open)
    first = np.full(records.lanes, records.count)
    np.minimum.at(first, lane[waits], following[waits])
    return _Held(np.arange(records.count) >= first[lane], passed | (is_open & ~waits))


def _pair_without_threads(rows: Ints, kind: Ints, name: Ints, offset: Ints, doubtful: _Mask, wait_bytes: int) -> Ints:
    """Return for each of `rows` (calls in file order) its partner; -1 = open, -2 = none.

    Without threads, several of them may print into the one lane. An exit belongs to the open call of its name only if
    there is just one. Two open calls of one name may be those of two threads: which exit belongs to which is unknown,
    so none of them is paired. A call that is still open when one that it began inside of ends does not nest and is not
    paired either. Doubt about a name ends when its open calls have ended, or lie further back than an exit is waited
    for.

    Sets `doubtful` where calls are; those of earlier batches that were doubtful still are.
    """
    partner = dict.fromkeys(rows.tolist(), -1)
    by_name: dict[int, deque[int]] = {}
    # At most one call per name is beyond doubt.
    certain: dict[int, int] = {}
    for row in partner:
        code = int(name[row])
        calls = by_name.setdefault(code, deque())
        while calls and doubtful[calls[0]] and offset[row] - offset[calls[0]] > wait_bytes:
            partner[calls.popleft()] = -2
        if kind[row] == Kind.ENTER:
            if calls:
                doubtful[[calls[-1], row]] = True
                certain.pop(code, None)
            elif not doubtful[row]:
                certain[code] = row
            calls.append(row)
            continue
        call = calls.pop() if calls else -1
        if call < 0 or doubtful[call]:
            partner[row] = -2
            partner.update({call: -2} if call >= 0 else {})
            continue
        partner[row], partner[call] = call, row
        del certain[code]
        for other, inner in list(certain.items()):
            if inner > call:
                doubtful[inner] = True
                del certain[other]
    found = rows.copy()
    found[:] = list(partner.values())
    return found


@dataclass
class _Folds:
    """Hold for each row the earlier row of its thread that belongs to it (-1 = none), and what waits at the end.

    Args:
        shader: ShaderName of a dispatch.
        kernarg: KernargSegment line of a dispatch.
        command: last enqueued command of a packet or copy.
        waiting: rows whose packet may still come in the next block.
    """

    shader: Ints
    kernarg: Ints
    command: Ints
    waiting: _Mask


@dataclass
class Joined:
    """Hold what belongs together in a block, in the order of the file.

    Args:
        partner: of an enter its exit, of an exit its enter, or `OPEN` or `NO_EXIT`.
        depth: how many calls enclose each row.
        parent: the innermost one; -1 = none.
        held: rows whose depth and parent the next block may show.
        stays_open: calls whose exit may come in the next block.
        emitted: rows that become events.
    """

    partner: Ints
    depth: Ints
    parent: Ints
    held: _Held
    folds: _Folds
    stays_open: _Mask
    emitted: Ints

    def carry(self, rows: Rows) -> Rows:
        """Return the rows that the next block needs again."""
        held = self.held
        kept = np.flatnonzero(self.stays_open | self.folds.waiting | held.rows)
        carried = rows.take(kept).without_nulls()
        carried["is_old"] = np.zeros(len(kept), np.bool_)
        carried["is_held"], carried["is_passed"] = held.rows[kept], held.passed[kept]
        return carried


class Joiner:
    """Join rows; knows the codes of their names."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._threads = vocabulary.threads.values
        self._leaves = vocabulary.code_names(WITHOUT_EXIT)
        self._dispatch = int(vocabulary.code_names(("dispatch",))[0])

    def join(self, rows: Rows, position: int, *, is_last: bool) -> Joined:
        """Return what belongs together in some rows, when the file is read up to byte `position`."""
        has_no_tid = np.array([t.tid is None for t in self._threads], np.bool_)
        # Mostly all lines without one look alike: they are of the first thread.
        shared = has_no_tid[rows["thread"]] if has_no_tid[1:].any() else rows["thread"] == 0
        own = {name: rows[name] for name in ("lane", "name", "kind", "offset", "stamp", "is_rocr")}
        records = native.Records(**own, shared=shared, passed=rows["is_passed"])
        kind, name = own["kind"], own["name"]
        is_leaf = (name == self._leaves[0]) | (name == self._leaves[1])
        partner, following = _pair(records, is_leaf, rows["is_doubtful"])
        depth, parent = _nest(records, partner)
        held = _find_held(records, partner, following, position)
        held.rows &= not is_last
        stays_open = (kind == Kind.ENTER) & (partner == OPEN) & (not is_last)
        is_dispatch = (name == self._dispatch) & (kind == Kind.PACKET) & ~own["is_rocr"]
        shader, kernarg, command, waiting = records.fold(is_dispatch, rows["kernel"], rows["command"])
        folds = _Folds(shader, kernarg, command, waiting.view(np.bool_) & (not is_last))
        is_done = rows["is_old"] & ~rows["is_held"]
        emitted = records.list_events(_IS_SIMPLE, is_done, partner, shader, folds.waiting, held.rows, is_last=is_last)
        return Joined(partner, depth, parent, held, folds, stays_open, emitted)


# Rows of these kinds become events whatever is beside them.
_IS_SIMPLE = np.zeros(16, np.bool_)
_IS_SIMPLE[[Kind.ROW, Kind.COMMAND, Kind.TEXT, Kind.PACKET, Kind.COPY]] = True
