"""The binary form of spans: a header, where each track begins, then one array per column, padded to 8 bytes.

Times are whole numbers of a unit of 2^shift ns since the asked t0: one ns up to a range of a second, and
never more than a billionth of the range, so that a view of three minutes needs no eight bytes per time.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import numpy.typing as npt

from tracecorr.timeline import levels
from tracecorr.timeline.build import Views

_MAGIC = 0x54434F32  # "TCO2"
_HEADER = struct.Struct("<IIqqIIII")  # magic, records, t0, t1, tracks, shift, bytes of a name, 1 when there are tints

_CLIPPED = 8  # bit of the style besides those of `levels`: the span reaches far out of what was asked

_Column = npt.NDArray[Any]

_BITS = 30

# In this order; assets/data.js reads them the same way. The name's width stands in the header.
_TRACK_COLUMNS = (("lane", "<u4"), ("row", "<u4"), ("first", "<u4"))
_COLUMNS = (
    ("start", "<i4"), ("dur", "<u4"), ("event", "<u4"), ("count", "<u4"), ("name", ""), ("height", "u1"),
    ("style", "u1"), ("tint", "<u2"),
)  # fmt: skip


def encode(
    records: levels.Records, views: Views, t0: int, t1: int, tint: npt.NDArray[np.uint16] | None = None
) -> bytes:
    """Return the records as bytes; the column `tint` is left out when there are none (by event).

    `height` is 0 ... 255: the busy share of a merged record, or the value of a counter as a share of the
    highest one of its lane.
    """
    shift = max(0, (t1 - t0).bit_length() - _BITS)
    width = 2 if len(views.names) <= 1 << 16 else 4
    first = np.flatnonzero(np.append(True, records.track[1:] != records.track[:-1])[: len(records)])
    lane, row = views.pyramid.lane_row(records.track[first])
    columns = _columns(records, views, t0, shift)
    parts = [_HEADER.pack(_MAGIC, len(records), t0, t1, len(first), shift, width, int(tint is not None))]
    begins: list[_Column] = [lane, row, first]
    for (_, dtype), data in zip(_TRACK_COLUMNS, begins, strict=True):
        parts += _padded(data.astype(dtype))
    if tint is not None:
        columns["tint"] = np.where(records.event >= 0, tint[records.event], 0)
    for name, dtype in _COLUMNS:
        if name not in columns:
            continue
        parts += _padded(columns[name].astype(dtype or f"<u{width}"))
    return b"".join(parts)


def _padded(data: _Column) -> list[bytes]:
    raw = data.tobytes()
    return [raw, bytes(-len(raw) % 8)]


def _columns(r: levels.Records, views: Views, t0: int, shift: int) -> dict[str, _Column]:
    low, high = -(1 << 31), 1 << 31
    start, end = (r.start - t0) >> shift, (r.end - t0) >> shift
    left, right = np.maximum(start, low), np.minimum(end, high)
    clipped = np.where((left != start) | (right != end), _CLIPPED, 0).astype(np.uint8)
    counter = views.pyramid.finest.counter[r.track]
    return {
        "start": left, "dur": right - left, "event": r.event.astype(np.uint32), "count": r.count,
        "name": np.where(counter, 0, r.name), "height": _height(r, views, counter), "style": r.style | clipped,
    }  # fmt: skip


def _height(r: levels.Records, views: Views, counter: npt.NDArray[np.bool_]) -> _Column:
    span = np.maximum(r.end - r.start, 1)
    share = np.minimum(r.busy / span, 1.0)
    if counter.any():
        lane, _ = views.pyramid.lane_row(r.track)
        peak = np.array([n.peak or 1.0 for n in views.lanes])[lane[counter]]
        share[counter] = np.clip(views.values[r.name[counter]] / peak, 0.0, 1.0)
    height: _Column = np.round(share * 255).astype(np.uint8)
    return height
