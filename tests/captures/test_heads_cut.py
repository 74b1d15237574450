"""Recorded logs whose head was cut off: what is left is as in the whole capture, or not known; the loss lies before."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from tracecorr.analyze.verdicts import judge_capture
from tracecorr.pipeline import correlate, import_files
from tracecorr.store import Capture

_EVENTS = ("event", "call_event", "command_event", "doorbell_event", "gpu_event")
_VALUES = ("ring", "packet_index", "stream", "kernel", "wptr")
# What of a packet the head of its own call tells.
_MOST_UNKNOWN = 3
# Lines of their commands name no stream: whether one began before the first line is not known.
_WITHOUT_STREAMS = ("hip-5.7.1", "hip-6.4.3")


def _import(source: Path, folder: Path, share: float) -> tuple[Capture, int]:
    """Return the capture without the first lines of its log, and how many bytes these are."""
    data = (source / "amd.log").read_bytes()
    at = data.index(b"\n", int(len(data) * share)) + 1
    folder.mkdir()
    (folder / "amd.log").write_bytes(data[at:])
    trace, clock = source / "ftrace.txt", source / "clock.json"
    import_files(
        folder / "x.tracecorr", [folder / "amd.log"], [trace] if trace.exists() else [],
        clock_samples=clock if clock.exists() else None,
    )  # fmt: skip
    correlate(folder / "x.tracecorr")
    return Capture.open(folder / "x.tracecorr"), at


def _list_launches(capture: Capture, at: int) -> pl.DataFrame:
    """Return what each packet and copy is linked to, by places in the whole files and by names."""
    events = capture.table("events").collect()
    log = pl.col("source").cast(pl.String) == "amd_log"
    place = pl.when(log).then(pl.col("offset") + at).otherwise(-1 - pl.col("offset"))
    places = events.select(place).to_series()
    rows = capture.table("launches").collect()
    rings = capture.table("queues").select("queue", ring="hwq").collect()
    handles = capture.table("streams").select("stream", handle="handle").collect()
    names = capture.table("kernels").select("kernel", display=pl.col("name").cast(pl.String)).collect()
    rows = rows.join(rings, on="queue", how="left", maintain_order="left")
    rows = rows.join(handles, on="stream", how="left", maintain_order="left").drop("stream")
    rows = rows.join(names, on="kernel", how="left", maintain_order="left").drop("kernel")
    rows = rows.rename({"handle": "stream", "display": "kernel"})
    return rows.select(
        *(places.gather(rows[name]).alias(name) for name in _EVENTS), *_VALUES, "kind",
    ).with_columns(pl.col("kind").cast(pl.String))  # fmt: skip


@pytest.mark.parametrize("name", ["hip-5.7.1", "hip-6.4.3", "caseB-4streams", "mt-threads", "kfd-6.12-t1"])
def test_what_is_left_is_that_of_the_whole_capture(
    name: str, recorded: Callable[..., Capture], data_folder: Path, tmp_path: Path
) -> None:
    whole = _list_launches(recorded(f"captures/{name}"), 0)
    for share in (1 / 3, 2 / 3):
        capture, at = _import(data_folder / "captures" / name, tmp_path / f"{share:.1f}", share)
        left = _list_launches(capture, at)
        both = left.join(whole, on="event", suffix="_whole")
        assert both.height == left.height > 0
        for column in (*_EVENTS[1:], *_VALUES, "kind"):
            wrong = both.filter(pl.col(column) != pl.col(f"{column}_whole"))
            assert wrong.is_empty(), (share, column)
        if name in _WITHOUT_STREAMS:
            continue
        for column in ("call_event", "command_event", "doorbell_event", "kernel"):
            unknown = both.filter(pl.col(column).is_null() & pl.col(f"{column}_whole").is_not_null())
            assert unknown.height <= _MOST_UNKNOWN, (share, column)
        if share > 0.3:
            _assert_one_loss_before_the_first_line(capture)


def _assert_one_loss_before_the_first_line(capture: Capture) -> None:
    losses = capture.table("losses").collect()
    calls = capture.table("events").filter(pl.col("layer") == "hip").collect()
    assert losses.select("from_ns", "count").rows() == [(None, None)]
    assert losses["to_ns"].item() <= calls["ts_ns"].min()
    halves = calls.filter(pl.col("flags") & 1 > 0)
    assert halves.is_empty()
    verdicts = {v.name: v for v in judge_capture(capture.table, info=capture.info)}
    assert "begins in the middle of the run" in verdicts["nothing_lost"].finding.reason
    assert "records were lost" not in verdicts["packet_sequence_complete"].finding.reason
