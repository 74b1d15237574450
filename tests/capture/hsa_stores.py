"""Doorbell stores through the stand-in of an HSA runtime (`hsa_library`)."""

from __future__ import annotations

import ctypes
from pathlib import Path

import polars as pl

from tracecorr.read.ftrace.perf_records import read_perf_records
from tracecorr.store import Capture
from tracecorr.store.recording import list_raw_files
from tracecorr.store.trace_folders import list_recordings, open_page_trace


def store_doorbells(loaded: ctypes.CDLL, count: int) -> None:
    """Store 0, 1, ... to the doorbell of a queue whose ring is at 0x1000 and whose id is 7 (amd_hsa_signal.h)."""
    queue = (ctypes.c_uint64 * 8)(0, 0x1000, 0, 0, 7)
    signal = (ctypes.c_uint64 * 8)(2**64 - 1, 0x2000, 0, 0, 0, 0, ctypes.addressof(queue))
    for number in range(count):
        loaded.hsa_signal_store_screlease(ctypes.byref(signal), ctypes.c_int64(number))


def read_stores(folder: Path) -> pl.DataFrame:
    """Return the doorbell stores that perf recorded into a capture folder."""
    (recording,) = [r for r in list_recordings(list_raw_files(folder)) if any(e["form"] == "perf" for e in r)]
    blocks = read_perf_records(*open_page_trace(Capture(folder, {}), recording), "mono")
    return pl.concat(b.events for b in blocks).filter(pl.col("layer").cast(pl.String) == "doorbell")
