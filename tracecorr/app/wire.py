"""The binary form of spans: a header, then one array per column, each padded to 8 bytes."""

from __future__ import annotations

import struct

import numpy as np
import numpy.typing as npt

from tracecorr.app import spans

MAGIC = 0x54434F31  # "TCO1"
HEADER = struct.Struct("<IIqq")  # magic, records, t0, t1

# In this order; assets/data.js reads them the same way.
COLUMNS = (
    ("start", "<f8"),  # ns since the asked t0: float32 would lose nanoseconds
    ("dur", "<f4"),
    ("event", "<u4"),
    ("count", "<u4"),
    ("busy", "<f4"),
    ("lane", "<u4"),
    ("name", "<u4"),
    ("row", "u1"),
    ("style", "u1"),
)


def encode(records: spans.Records, pyramid: spans.Pyramid, t0: int, t1: int) -> bytes:
    """Return the records as bytes, start relative to t0."""
    lane, row = pyramid.lane_row(records.track)
    span = records.end - records.start
    share = np.where(span > 0, np.minimum(records.busy / np.maximum(span, 1), 1.0), 0.0)
    columns: dict[str, npt.NDArray[np.generic]] = {
        "start": records.start - t0,
        "dur": span,
        "event": records.event,
        "count": records.count,
        "busy": share,
        "lane": lane,
        "name": records.name,
        "row": row,
        "style": records.style,
    }
    parts = [HEADER.pack(MAGIC, len(records), t0, t1)]
    for name, dtype in COLUMNS:
        data = columns[name].astype(dtype).tobytes()
        parts += [data, bytes(-len(data) % 8)]
    return b"".join(parts)
