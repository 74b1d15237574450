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


def fold(lane: Ints, kind: Ints, dispatch: Mask, is_rocr: Mask, unnamed: Mask) -> Folds:
    """Join rows of one thread; all arrays are sorted by lane, and `dispatch` marks HIP's dispatches.

    Two rows belong together only if no call begins or ends between them. A ShaderName of which the name is not
    known (`unnamed`) gives its dispatch none, nor does one before it.
    """
    context = np.cumsum((kind == Kind.ENTER) | (kind == Kind.EXIT))
    last_row = _last_of_lane(lane)
    goes_on = context[last_row] == context
    waiting = np.zeros(len(lane), np.bool_)
    found = []
    for source in (Kind.SHADER, Kind.KERNARG):
        source_rows = kind == source
        before = _last_before(source_rows, dispatch, lane, context, np.flatnonzero(source_rows | dispatch))
        found.append(np.where(dispatch, before, -1))
        waiting |= _latest(source_rows, source_rows | dispatch, last_row) & goes_on
    found[0][unnamed[found[0]] & (found[0] >= 0)] = -1
    command = kind == Kind.COMMAND
    sinks = ((kind == Kind.PACKET) | (kind == Kind.COPY)) & ~is_rocr
    index = np.arange(len(lane))
    last = np.maximum.accumulate(np.where(command, index, -1)) if len(lane) else index
    same = sinks & (last >= 0) & (lane[last] == lane) & (context[last] == context)
    waiting |= _latest(command, command, last_row) & goes_on
    return Folds(found[0], found[1], np.where(same, last, -1), waiting)


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
