"""The binary form: exact times, honest clipping, aligned columns."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from tracecorr.app import wire
from tracecorr.app.index import CaptureIndex

# What assets/data.js reads.
_HEADER, _CLIPPED = struct.Struct("<IIqqIIII"), 8
_TRACK_COLUMNS = {"lane": "<u4", "row": "<u4", "first": "<u4"}
_COLUMNS = {
    "start": "<i4", "dur": "<u4", "event": "<u4", "count": "<u4", "name": "", "height": "u1", "style": "u1",
}  # fmt: skip


def _decode(data: bytes) -> dict[str, np.ndarray]:
    _, n, _, _, tracks, shift, width, _ = _HEADER.unpack_from(data)
    at, out = _HEADER.size, {"unit": np.array(1 << shift)}
    columns = [(c, d, tracks) for c, d in _TRACK_COLUMNS.items()] + [(c, d, n) for c, d in _COLUMNS.items()]
    for name, dtype, count in columns:
        assert at % 8 == 0
        column = np.frombuffer(data, dtype or f"<u{width}", count, at)
        out[name] = column
        at += -(-column.nbytes // 8) * 8
    assert at == len(data)
    return out


@pytest.mark.parametrize("window", [(0, 900_000), (-5, 1 << 29), (0, 400_000_000)])
def test_short_windows_are_exact(synthetic_index: CaptureIndex, window: tuple[int, int]) -> None:
    views = synthetic_index.views
    records = views.pyramid.query(*window, 1000, range(len(views.lanes)))
    got = _decode(wire.encode(records, views, *window))
    assert int(got["unit"]) == 1
    assert (got["start"].astype(np.int64) + window[0] == records.start).all()
    assert (got["dur"] == records.end - records.start).all()
    lanes, rows = views.pyramid.lane_row(records.track)
    sizes = np.diff(np.append(got["first"], len(records)))
    assert (np.repeat(got["lane"], sizes) == lanes).all() and (np.repeat(got["row"], sizes) == rows).all()


def test_long_windows_are_exact_to_a_billionth_and_say_what_is_clipped(synthetic_index: CaptureIndex) -> None:
    views = synthetic_index.views
    records = views.pyramid.query(0, 400_000_000, 1000, range(len(views.lanes)))
    got = _decode(wire.encode(records, views, 10**13, 10**13 + 1000))
    assert (got["style"] & _CLIPPED).all()  # everything lies far before the window
    got = _decode(wire.encode(records, views, 0, 3 * 10**11))
    unit = int(got["unit"])
    assert 1 < unit <= 3 * 10**11 / 2**29
    assert not (got["style"] & _CLIPPED).any()
    assert (np.abs(got["start"].astype(np.int64) * unit - records.start) < unit).all()
