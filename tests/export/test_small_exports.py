"""What is written of a few SYNTHETIC rows: every name, time, argument and arrow of it."""

from __future__ import annotations

import json
from io import BytesIO
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from perfetto_check import ask

from tracecorr.export.chrome import write_chrome
from tracecorr.export.perfetto import write_perfetto
from tracecorr.export.selection import Selection
from tracecorr.model import schema

_CALL = {
    "source": "amd_log", "evidence": "recorded", "process": 0, "thread": 0, "layer": "hip", "err_lo_ns": 200,
    "err_hi_ns": 1000,
}  # fmt: skip
_ROWS: dict[str, list[dict[str, Any]]] = {
    "events": [
        {**_CALL, "event": 0, "ts_ns": 1000, "dur_ns": 900, "name": "hipA", "depth": 0},
        {**_CALL, "event": 1, "ts_ns": 1100, "dur_ns": 5, "name": "hipB", "depth": 1, "parent": 0},
        {**_CALL, "event": 2, "ts_ns": 2000, "layer": "doorbell", "name": "doorbell"},
        {**_CALL, "event": 3, "ts_ns": 2500, "dur_ns": 7, "name": "hipC", "depth": 0},
        {**_CALL, "event": 4, "ts_ns": 3000, "dur_ns": 70, "name": "hipD", "depth": 0},
        {**_CALL, "event": 5, "ts_ns": 3000, "dur_ns": 60, "name": "hipE", "depth": 1, "parent": 4},
    ],
    "processes": [{"process": 0, "pid": 77, "comm": "prog"}],
    "threads": [{"thread": 0, "process": 0, "tid": 78, "comm": "worker"}],
    "links": [
        {"from_event": 0, "to_event": 3, "rule": "to_later"}, {"from_event": 1, "to_event": 0, "rule": "to_earlier"},
        {"from_event": 0, "to_event": 2, "rule": "to_instant"}, {"from_event": 0, "to_event": 5, "rule": "to_twin"},
    ],
    "args": [{"event": 1, "key": "cmd", "u64": 16}, {"event": 1, "key": "text", "text": 'a"b'}],
    "samples": [{"ts_ns": 1500, "gpu": 2, "name": "busy", "value": 0.5}],
}  # fmt: skip


def _table(name: str) -> pl.LazyFrame:
    rows, shape = _ROWS.get(name, []), schema.TABLES[name]
    if not rows:
        return shape.empty().lazy()
    columns = {key: shape.schema[key] for row in rows for key in row}
    return shape.conform(pl.DataFrame(rows, schema=columns, infer_schema_length=None)).lazy()


def test_chrome_json_of_a_few_rows() -> None:
    stream = BytesIO()
    write_chrome(_table, stream, Selection())
    told = json.loads(stream.getvalue())["traceEvents"]
    assert [(e["name"], e["pid"], e["tid"], e["args"]["name"]) for e in told if e["ph"] == "M"] == [
        ("process_name", 0, 0, "tracecorr"), ("process_name", 77, 1, "prog 77"),
        ("thread_name", 77, 2, "prog 77: worker 78"), ("thread_name", 77, 3, "worker 78: HIP calls"),
        ("thread_name", 77, 4, "worker 78: doorbells"),
    ]  # fmt: skip
    slices = [e for e in told if e["ph"] == "X"]
    assert [(e["name"], e["cat"], e["ts"], e["dur"], e["pid"], e["tid"]) for e in slices] == [
        ("hipA", "hip", 1.0, 0.9, 77, 3), ("hipB", "hip", 1.1, 0.005, 77, 3), ("doorbell", "doorbell", 2.0, 0, 77, 4),
        ("hipC", "hip", 2.5, 0.007, 77, 3), ("hipD", "hip", 3.0, 0.07, 77, 3), ("hipE", "hip", 3.0, 0.06, 77, 3),
    ]  # fmt: skip
    common = {"error_ns": 1200, "evidence": "recorded", "source": "amd_log"}
    assert [e["args"] for e in slices[:2]] == [
        {**common, "event": 0}, {**common, "event": 1, "cmd": "0x10", "text": 'a"b'},
    ]  # fmt: skip
    # At an instant, and where two slices of a track begin at once, an arrow would end at a wrong one.
    assert [(e["ph"], e["name"], e["ts"], e["tid"]) for e in told if e["ph"] in "sf"] == [
        ("s", "to_later", 1.0, 3), ("s", "to_earlier", 1.0, 3), ("f", "to_later", 2.5, 3), ("f", "to_earlier", 1.1, 3),
    ]  # fmt: skip
    assert [(e["name"], e["ts"], e["args"]) for e in told if e["ph"] == "C"] == [("busy (gpu 2)", 1.5, {"value": 0.5})]


def _earlier(name: str) -> pl.LazyFrame:
    rows = _table(name)
    return rows.with_columns(pl.col("ts_ns") - 2400) if name in ("events", "samples") else rows


def test_events_before_time_0_are_moved_because_viewers_drop_them(tmp_path: Path) -> None:
    for name, write in (("chrome.json", write_chrome), ("trace.perfetto", write_perfetto)):
        with (tmp_path / name).open("wb") as stream:
            trace = write(_earlier, stream, Selection())
        assert trace.later_ns == 1400
        found = ask(
            tmp_path / name, tmp_path, "select ts, dur, name from slice order by ts, dur desc",
            "select name from stats where severity in ('error', 'data_loss') and value > 0", "select ts from counter",
        )  # fmt: skip
        assert found == [
            [(0, 900, "hipA"), (100, 5, "hipB"), (1000, 0, "doorbell"), (1500, 7, "hipC"), (2000, 70, "hipD"),
             (2000, 60, "hipE")], [], [(500,)],
        ]  # fmt: skip


def test_perfetto_of_a_few_rows() -> None:
    protos = pytest.importorskip("perfetto.protos.perfetto.trace.perfetto_trace_pb2")
    stream = BytesIO()
    write_perfetto(_table, stream, Selection())
    packets = protos.Trace.FromString(stream.getvalue()).packet
    tracks = [p.track_descriptor for p in packets if p.HasField("track_descriptor")]
    names = {t.uuid: t.name or t.process.process_name or t.thread.thread_name for t in tracks}
    assert [(names[t.uuid], names.get(t.parent_uuid)) for t in tracks] == [
        ("prog 77", None), ("worker 78", "prog 77"), ("HIP calls", "worker 78"), ("doorbells", "worker 78"),
        ("busy (gpu 2)", None),
    ]  # fmt: skip
    texts = {
        kind: {entry.iid: entry.name if kind != "debug_annotation_string_values" else entry.str.decode()
               for p in packets for entry in getattr(p.interned_data, kind)}
        for kind in ("event_names", "debug_annotation_names", "debug_annotation_string_values")
    }  # fmt: skip
    found = {}
    for packet in packets:
        event = packet.track_event
        if event.name_iid:
            arguments = {
                texts["debug_annotation_names"][a.name_iid]: (
                    texts["debug_annotation_string_values"][a.string_value_iid]
                    if a.string_value_iid
                    else a.string_value or a.int_value or a.uint_value or a.pointer_value
                )
                for a in event.debug_annotations
            }
            found[texts["event_names"][event.name_iid]] = (packet.timestamp, arguments)
    common = {"error_ns": 1200, "evidence": "recorded", "source": "amd_log"}
    assert {name: at for name, (at, _) in found.items()} == {
        "hipA": 1000, "hipB": 1100, "doorbell": 2000, "hipC": 2500, "hipD": 3000, "hipE": 3000,
    }  # fmt: skip
    assert found["hipB"][1] == {**common, "event": 1, "cmd": 16, "text": 'a"b'}
    assert found["hipC"][1] == {**common, "event": 3}
