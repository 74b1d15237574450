"""The packets of a batch as a frame."""

from __future__ import annotations

import numpy as np
import polars as pl
import pyarrow as pa

from tracecorr.parse.amdlog.details import Details
from tracecorr.parse.amdlog.rows import Rows
from tracecorr.parse.digits import Ints, Words


def packet_frame(rows: Rows, details: Details, without: list[str]) -> pl.DataFrame:
    """Return packets as columns of `PART_PACKETS` (key, and what the lines say), but for those in `without`."""
    size, fields = len(details.packets), details.packet_fields
    if size == 0:
        return pl.DataFrame()
    columns: dict[str, pl.Series] = {"offset": pl.Series(rows["offset"][details.packets])}
    waits = [name for name in fields if name.startswith(("dep_", "wait_"))]
    for name, (at, values) in fields.items():
        if name in waits or name in without:
            continue
        column, present = np.zeros(size, np.uint64), np.zeros(size, np.bool_)
        column[at], present[at] = values, True
        series = pl.Series(name, column)
        if not present.all():
            series = series.zip_with(pl.Series(present), pl.Series([None], dtype=pl.UInt64))
        columns[name] = series
    if waits:
        columns["dep_signals"] = _waits([fields[name] for name in waits], size)
    return pl.DataFrame(columns)


def _waits(fields: list[tuple[Ints, Words]], size: int) -> pl.Series:
    """Return the list of signals (not zero) of each packet; null where the packet waits for none at all."""
    at = np.concatenate([rows for rows, _ in fields])
    values = np.concatenate([values for _, values in fields])
    present = np.zeros(size, np.bool_)
    present[at] = True
    at, values = at[values != 0], values[values != 0]
    order = np.argsort(at, kind="stable")
    ends = np.cumsum(np.bincount(at, minlength=size))
    lists = pa.LargeListArray.from_arrays(
        pa.array(np.concatenate((np.zeros(1, np.int64), ends))), pa.array(values[order]), mask=pa.array(~present)
    )
    return pl.Series("dep_signals", pl.from_arrow(lists))
