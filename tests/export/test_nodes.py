"""Exports of a dataset tell its nodes apart, also where their processes have the same pids (SYNTHETIC rows)."""

from __future__ import annotations

import json
import time
from io import BytesIO
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from perfetto_check import ask

from tracecorr.app import ids
from tracecorr.app.server import make_app
from tracecorr.cli import main
from tracecorr.export.perfetto import write_perfetto
from tracecorr.export.selection import Selection
from tracecorr.export.speedscope import write_speedscope
from tracecorr.model import schema
from tracecorr.store import Capture, write_info, write_tables
from tracecorr.store.fleet import begin_fleet, finish_fleet, plan_fleet, write_member

_FREE = 1 << 22
_CALL = {"source": "amd_log", "evidence": "recorded", "layer": "hip", "name": "hipA", "ts_ns": 10, "dur_ns": 5}


def _rows(pid: int) -> dict[str, list[dict[str, Any]]]:
    """Return the tables of a node: two processes, of which the second one has the tid of the first one's thread."""
    return {
        "events": [
            {**_CALL, "event": 0, "process": 0, "thread": 0}, {**_CALL, "event": 1, "process": 0, "thread": 1},
            {**_CALL, "event": 2, "process": 1, "thread": 2}, {**_CALL, "event": 3, "layer": "amdgpu"},
        ],
        "processes": [{"process": 0, "pid": 100, "comm": "gemm.py"}, {"process": 1, "pid": pid, "comm": "other"}],
        "threads": [
            {"thread": 0, "process": 0, "tid": 100, "comm": "gemm.py"},
            {"thread": 1, "process": 0, "tid": 101, "comm": "worker"},
            {"thread": 2, "process": 1, "tid": pid, "comm": "other"},
        ],
        "queues": [{"queue": 0, "process": 0, "hwq": 0x3C00000}, {"queue": 1}],
        "gpus": [{"gpu": 0}],
        "launches": [{"event": 0, "kind": "dispatch", "queue": 0, "packet_ns": 10, "wptr": 1, "rptr": 0}],
        "samples": [{"ts_ns": 12, "gpu": 0, "name": "busy", "value": 0.5}],
    }  # fmt: skip


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Capture:
    """Return a dataset of two nodes with the same pid 100; 101 and 102 are pids of one node each."""
    folder = tmp_path_factory.mktemp("nodes")
    paths = []
    for node, pid in (("node2", 102), ("node3", 101)):
        path = folder / f"{node}.tracecorr"
        path.mkdir()
        tables = {}
        for name, rows in _rows(pid).items():
            known = schema.TABLES[name].schema
            tables[name] = pl.DataFrame(rows, schema={key: known[key] for row in rows for key in row})
        write_tables(path, tables)
        write_info(path, {"files": []})
        paths.append(path)
    stage, members = begin_fleet(paths, folder / "fleet.tracecorr", force=False), plan_fleet(paths)
    for member in members:
        write_member(stage, member)
    return finish_fleet(stage, folder / "fleet.tracecorr", members)


def test_perfetto_names_the_nodes_and_keeps_their_processes_apart(fleet: Capture, tmp_path: Path) -> None:
    path = tmp_path / "x.pftrace"
    with path.open("wb") as stream:
        write_perfetto(fleet.table_by_node, stream, Selection())
    processes, threads, slices, nobody, counters, errors = ask(
        path, tmp_path, "select pid, name from process where upid > 0 order by name",
        "select p.name as process, t.name, t.is_main_thread as main from thread t join process p using (upid) "
        "where p.name is not null order by 1, 2",
        "select p.name as process, t.name as thread, count(*) as n from slice s join thread_track k on s.track_id = "
        "k.id join thread t using (utid) join process p using (upid) group by 1, 2 order by 1, 2",
        "select k.name from slice s join track k on s.track_id = k.id where s.category = 'amdgpu' order by 1",
        "select name from counter_track order by name",
        "select name from stats where severity in ('error', 'data_loss') and value > 0",
    )  # fmt: skip
    assert processes == [
        (100, "gemm.py 100 (node2)"), (_FREE, "gemm.py 100 (node3)"), (101, "other 101 (node3)"),
        (102, "other 102 (node2)"),
    ]  # fmt: skip
    assert threads == [
        ("gemm.py 100 (node2)", "gemm.py 100", 1), ("gemm.py 100 (node2)", "worker 101", 0),
        ("gemm.py 100 (node3)", "gemm.py 100", 1), ("gemm.py 100 (node3)", "worker 101", 0),
        ("other 101 (node3)", "other 101", 1), ("other 102 (node2)", "other 102", 1),
    ]  # fmt: skip
    assert slices == [(process, thread, 1) for process, thread, _ in threads]
    assert nobody == [("kernel (node2)",), ("kernel (node3)",)]
    assert counters == [
        ("busy (gpu 0, node2)",), ("busy (gpu 1, node3)",), ("packets in queue 0 (node2)",),
        ("packets in queue 2 (node3)",),
    ]  # fmt: skip
    assert errors == []


def test_speedscope_names_the_nodes(fleet: Capture) -> None:
    stream = BytesIO()
    write_speedscope(fleet.table_by_node, stream, Selection(), "fleet")
    assert sorted(profile["name"] for profile in json.loads(stream.getvalue())["profiles"]) == [
        "gemm.py 100, thread 100 (node2)", "gemm.py 100, thread 100 (node3)", "other 101, thread 101 (node3)",
        "other 102, thread 102 (node2)", "worker 100, thread 101 (node2)", "worker 100, thread 101 (node3)",
    ]  # fmt: skip


@pytest.mark.parametrize(("form", "read"), [("csv", pl.read_csv), ("parquet", pl.read_parquet), ("arrow", pl.read_ipc)])
def test_exported_tables_tell_the_node(fleet: Capture, tmp_path: Path, form: str, read: Any) -> None:
    assert main(["export", str(fleet.path), "--to", form, "-o", str(tmp_path / form)]) == 0
    for name in schema.TABLES:
        assert read(tmp_path / form / f"{name}.{form}").columns == [*schema.TABLES[name].schema, "node"], name
    events = read(tmp_path / form / f"events.{form}")
    assert dict(events.group_by("node").len().iter_rows()) == {"node2": 4, "node3": 4}
    some = ["--process", "2", "--table", "events,processes"]
    assert main(["export", str(fleet.path), "--to", form, "-o", str(tmp_path / "some"), *some]) == 0
    assert set(read(tmp_path / "some" / f"events.{form}")["node"]) == {"node3"}


@pytest.mark.parametrize(("target", "words"), [("perfetto", b"gemm.py 100 (node3)"), ("chrome", b"gemm.py 100 (node3)"),
                                               ("speedscope", b"thread 101 (node3)")])  # fmt: skip
def test_the_verb_names_the_nodes(fleet: Capture, tmp_path: Path, target: str, words: bytes) -> None:
    assert main(["export", str(fleet.path), "--to", target, "-o", str(tmp_path / "x")]) == 0
    assert words in (tmp_path / "x").read_bytes()


def test_what_the_page_saves_of_a_dataset_tells_the_node(fleet: Capture) -> None:
    client = make_app({"fleet": fleet}, token="for-tests-only").server.test_client()
    client.get("/?token=for-tests-only")
    while (meta := client.get(ids.META)).status_code == 202:
        time.sleep(0.02)
    last = len(meta.get_json()["lanes"]) - 1
    rows = pl.read_csv(client.get(f"{ids.EXPORT}?form=csv&t0=0&t1=1000&lanes=0-{last}").data)
    assert dict(rows.group_by("node").len().iter_rows()) == {"node2": 4, "node3": 4}
    trace = client.get(f"{ids.EXPORT}?form=perfetto&t0=0&t1=1000").data
    assert b"gemm.py 100 (node2)" in trace and b"gemm.py 100 (node3)" in trace
