"""Judge verdicts on changed copies of the synthetic run: the changes, and what a verdict says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import polars as pl
from analyze_tables import Rows, tables_of

from tracecorr.analyze.evidence import Evidence
from tracecorr.analyze.verdicts import judge_capture
from tracecorr.model import schema
from tracecorr.store.fleet import COUNTED_TABLES, count_keys, move_table

# What a run may have had as well.
COMMAND_SUBMISSION = {"event": 50, "ts_ns": 8_000, "layer": "ioctl", "name": "DRM_IOCTL_AMDGPU_CS", "process": 0}
SECOND_INIT = {"event": 51, "ts_ns": 1_160, "layer": "mqd", "name": "init_mqd_v9_4_3", "parent": 3, "process": 0}
SECOND_STORE = {"event": 52, "ts_ns": 5_500, "layer": "doorbell", "name": "doorbell", "queue": 0, "packet_index": 0}
Change = Callable[[Rows], None]


def judge(rows: Rows, name: str, **options: Any) -> tuple[str, str, str]:
    """Return outcome, reason and remedy of one verdict."""
    (verdict,) = judge_capture(tables_of(rows), names=[name], **options)
    return str(verdict.outcome), verdict.finding.reason, verdict.finding.remedy


def join_runs(told: dict[str, dict[str, Any]] | None = None, **runs: Rows) -> Evidence:
    """Return a dataset of runs by the names of their nodes, and of what capture.json tells of each."""
    used, nodes, tables = dict.fromkeys(COUNTED_TABLES, 0), [], {}
    for node, rows in runs.items():
        own = tables_of(rows)
        tables[node] = {name: move_table(own(name), name, used, 0) for name in schema.TABLES}
        place = {"node": node, "used": used, "capture": node, "shift_ns": 0, "placed_by": "own_clock"}
        nodes.append(place | (told or {}).get(node, {}))
        used = {name: used[name] + count for name, count in count_keys(own).items()}
    whole = {name: pl.concat([part[name] for part in tables.values()]) for name in schema.TABLES}
    info = {"nodes": nodes}
    return Evidence(whole.__getitem__, info=info, nodes={node: part.__getitem__ for node, part in tables.items()})


def put(table: str, place: int, **values: Any) -> Change:
    """Return a change that sets columns of one row."""
    return lambda rows: rows[table][place].update(values)


def put_event(event: int, **values: Any) -> Change:
    """Return a change that sets columns of one event."""
    return lambda rows: next(r for r in rows["events"] if r["event"] == event).update(values)


def drop_events(*events: int) -> Change:
    """Return a change that takes events away."""
    return lambda rows: rows.update(events=[r for r in rows["events"] if r["event"] not in events])


def drop_layer(layer: str) -> Change:
    """Return a change that takes a whole layer away, as if it had not been recorded."""
    return lambda rows: rows.update(events=[r for r in rows["events"] if r["layer"] != layer])


def add(table: str, **values: Any) -> Change:
    """Return a change that adds a row."""
    return lambda rows: rows[table].append(values)


def empty(table: str) -> Change:
    """Return a change that empties a table."""
    return lambda rows: rows.update({table: []})
