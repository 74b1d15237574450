"""HAND-MADE: what a trace lost is placed by the clock of that trace, whatever other traces a capture has."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from tracecorr.pipeline import correlate, import_files

_LOG = ":3:hip_device.cpp           :112 : 0100500000 us: [pid:70 tid: 0x7f00] hipGetDevice: Returned hipSuccess : \n"
_USUAL = "         python3-70      [000] .....   {}.000000: sys_getpid()\n"
_COUNTED = "         python3-70      [001] .....   {}: sys_getpid()\n"
_LOST = "CPU:1 [LOST {} EVENTS]\n"


def test_spans_without_records_lie_between_the_records_of_their_own_trace(tmp_path: Path) -> None:
    log, seconds, counts = (tmp_path / name for name in ("amd.log", "seconds.txt", "counts.txt"))
    log.write_text(_LOG)
    seconds.write_text("# tracer: nop\n" + "".join(_USUAL.format(100 + n) for n in range(5)))
    rows = [_COUNTED.format(7_000_000 + n) for n in range(6)]
    counts.write_text("".join(["# tracer: nop\n", *rows[:3], _LOST.format(12), *rows[3:], _LOST.format(9)]))
    for order in ([seconds, counts], [counts, seconds]):
        folder = tmp_path / f"{order[0].stem}.tracecorr"
        capture = import_files(folder, [log], order, clock="mono")
        correlate(folder)
        placed = capture.table("events").filter(pl.col("cpu") == 1).sort("stamp_ns").collect()["ts_ns"]
        lost = capture.table("losses").select("from_ns", "to_ns", "count").sort("from_ns").collect()
        assert lost.rows() == [(placed[2], placed[3], 12), (placed[5], placed[5], 9)]
