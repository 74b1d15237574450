"""Depth of a ring without any HIP log: the doorbell probe reads the queue's indexes, where its layout is confirmed."""

from __future__ import annotations

from pathlib import Path

import pytest
from analyze_tables import Rows, tables_of

from tracecorr.analyze.queues import summarize_backlog
from tracecorr.pipeline import correlate, import_files
from tracecorr.store import Capture

_LINE = "  app-7 [000] .....  1.{us:06d}: doorbell: (0x1) sig=0x10 val={val} kind=-1 hw=0x9 swq=0x20 ring=0x3000 qid=1"


def _row(event: int, value: int, finished: int | None) -> tuple[dict[str, object], list[dict[str, object]]]:
    store = {"event": event, "ts_ns": 100 * event, "layer": "doorbell", "name": "doorbell", "queue": 0,
             "packet_index": value, "process": 0}  # fmt: skip
    return store, [] if finished is None else [{"event": event, "key": "finished", "u64": finished}]


def test_stores_tell_the_depth_where_the_log_does_not() -> None:
    """SYNTHETIC: a packet that ended before a later index was stored makes no negative depth."""
    told = [_row(1, 0, 0), _row(2, 4, 1), _row(3, 5, 9), _row(4, 6, None)]
    rows: Rows = {"events": [store for store, _ in told], "args": [arg for _, args in told for arg in args],
                  "queues": [{"queue": 0, "size": 64}]}  # fmt: skip
    (row,) = summarize_backlog(tables_of(rows)).to_dicts()
    assert (row["measured"], row["peak"], row["peak_event"], row["size"]) == (3, 4, 2, 64)
    rows["launches"] = [{"event": 9, "kind": "dispatch", "queue": 0, "rptr": 1, "wptr": 1, "packet_ns": 5}]
    assert summarize_backlog(tables_of(rows))["measured"].to_list() == [1]


@pytest.mark.parametrize(("check", "expected"), [(128, [("finished", 3), ("written", 9)]), (0, [])])
def test_indexes_are_believed_where_the_queue_confirms_its_layout(
    tmp_path: Path, check: int, expected: list[tuple[str, int]]
) -> None:
    trace = tmp_path / "trace.txt"
    line = _LINE.format(us=5, val=8) + f" written=9 finished=3 check={check}"
    trace.write_text(f"# tracer: nop\n#\n{line}\n{_LINE.format(us=9, val=9)}\n")
    import_files(tmp_path / "x.tracecorr", [], [trace], clock="mono")
    correlate(tmp_path / "x.tracecorr")
    args = Capture.open(tmp_path / "x.tracecorr").table("args").collect()
    kept = [(key, value) for key, value in args.select("key", "u64").rows() if key in ("written", "finished", "check")]
    assert sorted(kept) == expected
