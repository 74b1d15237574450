"""Texts that programs and drivers write into the trace: markers and clock samples."""

from __future__ import annotations

import polars as pl

from tracecorr.parse.ftrace import halves as hv
from tracecorr.parse.ftrace.fields import split_fields, typed_fields

_CLOCK = r"^(?:clock_sync|TRACECORR_SYNC|tracecorr_clock) "


def add_marker_texts(batch: hv.Batch, frame: pl.DataFrame) -> None:
    """Add trace markers with their text in the column `rest`; clock samples get their fields."""
    is_clock = frame["rest"].str.contains(_CLOCK)
    hv.add_marker(batch, frame.filter(~is_clock), [])
    samples = frame.filter(is_clock).with_columns(pl.col("rest").str.replace(r" monotonic=", " mono="))
    for keys, rows in split_fields(samples, "equals"):
        hv.add_marker(batch, rows.with_columns(typed_fields(keys)), [k[2:] for k in keys])
