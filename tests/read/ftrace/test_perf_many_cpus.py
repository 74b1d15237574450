"""Perf records of a machine of many CPUs. SYNTHETIC: samples in the layout of perf_event.h, no kernel wrote them."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from tracecorr.model.parts import Block
from tracecorr.read.ftrace.formats import PageTrace
from tracecorr.read.ftrace.perf_records import read_perf_records

_FORMAT = """name: doorbell
ID: 2000
format:
	field:unsigned short common_type;	offset:0;	size:2;	signed:0;
	field:unsigned char common_flags;	offset:2;	size:1;	signed:0;
	field:unsigned char common_preempt_count;	offset:3;	size:1;	signed:0;
	field:int common_pid;	offset:4;	size:4;	signed:1;

	field:unsigned long __probe_ip;	offset:8;	size:8;	signed:0;
	field:u64 val;	offset:16;	size:8;	signed:0;

print fmt: "(%lx) val=0x%Lx", REC->__probe_ip, REC->val
"""
_SAMPLE = np.dtype([
    ("type", "<u4"), ("misc", "<u2"), ("bytes", "<u2"), ("pid", "<u4"), ("tid", "<u4"), ("time", "<u8"), ("id", "<u8"),
    ("cpu", "<u4"), ("reserved", "<u4"), ("raw_bytes", "<u4"), ("event", "<u2"), ("flags", "<u2"), ("task", "<i4"),
    ("place", "<u4", 2), ("val", "<u4", 2), ("filler", "<u4"),
])  # fmt: skip
_CPUS, _RECORDS = 24, 100


def _samples(cpu: int) -> list[bytes]:
    samples = np.zeros(_RECORDS, _SAMPLE)
    samples["type"], samples["bytes"], samples["raw_bytes"] = 9, _SAMPLE.itemsize, 28
    samples["pid"], samples["tid"], samples["task"], samples["id"] = 100, 1000 + cpu, 1000 + cpu, 5 + cpu
    samples["time"] = np.sort(np.random.default_rng(cpu).integers(0, 1_000_000, _RECORDS))
    samples["event"], samples["val"][:, 0] = 2000, np.arange(_RECORDS)
    data = samples.tobytes()
    return [data[start : start + 100] for start in range(0, len(data), 100)]


def _read(**options: int) -> list[Block]:
    pages = {cpu: _samples(cpu) for cpu in range(_CPUS)}
    trace = PageTrace(pages=pages, formats={"uprobes/doorbell": _FORMAT}, header_page="")
    return list(read_perf_records(trace, {cpu: cpu for cpu in pages}, "mono", **options))


@pytest.mark.parametrize("at_a_time", [_CPUS * 300, 16 << 20])
def test_rows_do_not_depend_on_how_much_is_read_at_a_time(at_a_time: int) -> None:
    blocks = _read(bytes_at_a_time=at_a_time)
    events = pl.concat(block.events for block in blocks)
    assert events.height == _CPUS * _RECORDS
    told = events.group_by("file").agg(pl.col("offset").sort()).sort("file")["offset"].to_list()
    assert told == [list(range(0, _RECORDS * _SAMPLE.itemsize, _SAMPLE.itemsize))] * _CPUS
    assert pl.concat(block.ledger for block in blocks)["bytes"].sum() == _CPUS * _RECORDS * _SAMPLE.itemsize


def test_what_is_held_is_bounded_for_all_cpus_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tracecorr.read.ftrace.perf_records._FEWEST_BYTES", 1000)
    most = max(block.events.height for block in _read(bytes_at_a_time=_CPUS * 1000))
    # Each CPU gives what fills its share, and what the chunk holds that fills it.
    assert most <= _CPUS * 1100 // _SAMPLE.itemsize


def test_a_busy_cpu_among_many_that_recorded_little_is_read_in_wide_windows() -> None:
    """The others have one sample each, so what all may hold is left for the busy one."""
    busy, at_a_time, chunk = 200, 100_000, 500
    each = [np.frombuffer(_samples(cpu)[0][: _SAMPLE.itemsize], _SAMPLE) for cpu in range(_CPUS)]
    each[0] = np.tile(np.frombuffer(b"".join(_samples(0)), _SAMPLE), busy)
    each[0]["time"] = 1 + 10 * np.arange(_RECORDS * busy)
    pages = {
        cpu: [own.tobytes()[at : at + chunk] for at in range(0, own.nbytes, chunk)] for cpu, own in enumerate(each)
    }
    trace = PageTrace(pages=pages, formats={"uprobes/doorbell": _FORMAT}, header_page="")
    blocks = list(read_perf_records(trace, {cpu: cpu for cpu in pages}, "mono", bytes_at_a_time=at_a_time))
    assert sum(block.events.height for block in blocks) == _RECORDS * busy + _CPUS - 1
    # One window for the first share of all CPUs, one block for the end.
    assert len(blocks) <= each[0].nbytes // at_a_time + 3
