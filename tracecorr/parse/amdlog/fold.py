"""What earlier lines of the same call give to a packet: kernel name, argument size, command."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tracecorr.parse.amdlog.messages import Kind
from tracecorr.parse.digits import Ints, Mask


@dataclass
class Folds:
    """Hold for each row the earlier row that belongs to it (-1 = none), and what waits at the end.

    Args:
        shader: ShaderName of a dispatch.
        kernarg: KernargSegment line of a dispatch.
        command: last enqueued command of a packet or copy.
        waiting: rows whose packet may still come in the next block.
    """

    shader: Ints
    kernarg: Ints
    command: Ints
    waiting: Mask


def fold(lane: Ints, kind: Ints, stamp: Ints, dispatch: Mask, is_rocr: Mask, unnamed: Mask) -> Folds:
    """Join rows of one thread; all arrays are sorted by lane, and `dispatch` marks HIP's dispatches.

    Two rows belong together only if no call begins or ends between them, and a name and its dispatch only if no line of
    a command is between them: that begins another one. A ShaderName of which the name is not known (`unnamed`) gives
    its dispatch none, nor does one before it. Nor does one that was moved in the file: its `stamp` (ns; the same in all
    rows of a lane of several threads) lies behind its dispatch, or before the line of a command in front of it.
    """
    size = len(lane)
    context = np.cumsum((kind == Kind.ENTER) | (kind == Kind.EXIT))
    rows = np.flatnonzero(_TAKES_PART[kind])
    last_row = _last_of_lane(lane)[rows]
    goes_on = context[last_row] == context[rows]
    kind, dispatch, lane, context = kind[rows], dispatch[rows], lane[rows], context[rows]
    waiting = np.zeros(len(rows), np.bool_)
    found = []
    command = kind == Kind.COMMAND
    for source in (Kind.SHADER, Kind.KERNARG):
        source_rows = kind == source
        ends = source_rows | dispatch | command
        before = _last_before(source_rows, dispatch, lane, context, np.flatnonzero(ends))
        found.append(_spread(before, rows, size))
        waiting |= _latest(source_rows, ends, last_row) & goes_on
    sinks = ((kind == Kind.PACKET) | (kind == Kind.COPY)) & ~is_rocr[rows]
    index = np.arange(len(rows))
    last = np.maximum.accumulate(np.where(command, index, -1)) if len(rows) else index
    last = np.where((last >= 0) & (lane[last] == lane) & (context[last] == context), last, -1)
    waiting |= _latest(command, command, last_row) & goes_on
    moved = _list_moved(found[0], _spread(last, rows, size), stamp)
    found[0][unnamed[found[0]] & (found[0] >= 0) | moved] = -1
    is_waiting = np.zeros(size, np.bool_)
    is_waiting[rows[waiting]] = True
    return Folds(found[0], found[1], _spread(np.where(sinks, last, -1), rows, size), is_waiting)


def _list_moved(name: Ints, command: Ints, stamp: Ints) -> Mask:
    """Mark the dispatches whose name was printed behind them, or before the line of a command in front of it."""
    moved = np.zeros(len(name), np.bool_)
    rows = np.flatnonzero(name >= 0)
    named, begun = stamp[name[rows]], command[name[rows]]
    moved[rows] = (named > stamp[rows]) | (begun >= 0) & (stamp[begun] > named)
    return moved


def _spread(partner: Ints, rows: Ints, size: int) -> Ints:
    """Return for each of `size` rows its partner (-1 = none), given those of some `rows` as indexes into these."""
    spread = np.full(size, -1, np.int64)
    has = np.flatnonzero(partner >= 0)
    spread[rows[has]] = rows[partner[has]]
    return spread


_TAKES_PART = np.zeros(16, np.bool_)
_TAKES_PART[[Kind.SHADER, Kind.KERNARG, Kind.COMMAND, Kind.PACKET, Kind.COPY]] = True


def _last_before(source: Mask, sink: Mask, lane: Ints, context: Ints, rows: Ints) -> Ints:
    before = np.full(len(lane), -1, np.int64)
    first, second = rows[:-1], rows[1:]
    hit = source[first] & sink[second] & (lane[first] == lane[second]) & (context[first] == context[second])
    before[second[hit]] = first[hit]
    return before


def _last_of_lane(lane: Ints) -> Ints:
    """Return for each row the last row of its lane."""
    if len(lane) == 0:
        return lane
    stops = np.flatnonzero(np.append(lane[1:] != lane[:-1], True))
    return np.repeat(stops, np.diff(np.append(-1, stops)))


def _latest(wanted: Mask, any_of: Mask, last_row: Ints) -> Mask:
    """Return the rows of `wanted` behind which no row of `any_of` comes in the same lane."""
    latest = np.zeros(len(wanted), np.bool_)
    rows = np.flatnonzero(any_of)
    if len(rows):
        is_last = np.append(last_row[rows[1:]] != last_row[rows[:-1]], True)
        latest[rows[is_last]] = True
    return latest & wanted
