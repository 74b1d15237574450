"""On a Dask cluster of two worker processes the tables are exactly those of one process.

The captures are RECORDED runs of the null GPU; small blocks make several ranges of their logs.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner

from tracecorr.cli import app
from tracecorr.cluster.correlate import correlate_on_cluster
from tracecorr.model import schema
from tracecorr.model.errors import CaptureError, InputError
from tracecorr.pipeline import correlate, import_files, make_dataset
from tracecorr.read.amdlog.reader import read_amd_log
from tracecorr.store import Capture
from tracecorr.store.parts import write_part

distributed = pytest.importorskip("distributed")
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
NAMES = ("caseA-1stream", "caseB-4streams", "mt-threads")


@pytest.fixture(scope="module")
def cluster() -> Iterator[str]:
    """Return the address of a scheduler with two workers, each a process."""
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as started:
        started.wait_for_workers(2)
        yield started.scheduler_address


def imported(folder: Path, data: Path, name: str) -> Path:
    """Import a recorded run, without tables, and return its capture."""
    source = data / "captures" / name
    traces = [source / "ftrace.txt"] if (source / "ftrace.txt").is_file() else []
    samples = source / "clock.json"
    out = folder / f"{name}.tracecorr"
    return import_files(out, [source / "amd.log"], traces, clock_samples=samples if samples.is_file() else None).path


@pytest.fixture(scope="module")
def both(cluster: str, data_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, list[str]]:
    """Return the datasets of one process and of the cluster, and what the cluster said."""
    folders = [tmp_path_factory.mktemp(name) for name in ("here", "there")]
    paths = [[imported(folder, data_folder, name) for name in NAMES] for folder in folders]
    for path in paths[0]:
        correlate(path)
    outs = [folder / "fleet.tracecorr" for folder in folders]
    make_dataset(paths[0], outs[0])
    said: list[str] = []
    correlate_on_cluster(cluster, paths[1], outs[1], said.append, block_bytes=50_000)
    return outs[0], outs[1], said


def rows_of(capture: Capture, table: str) -> pl.DataFrame:
    """Return the rows of a table of a dataset with texts as texts."""
    return capture.table_by_node(table).collect().with_columns(pl.col(pl.Categorical).cast(pl.String))


@pytest.mark.parametrize("table", list(schema.TABLES))
def test_tables_are_those_of_one_process(both: tuple[Path, Path, list[str]], table: str) -> None:
    here, there = (rows_of(Capture.open(path), table) for path in both[:2])
    assert here.columns == [*schema.TABLES[table].schema, "node"]
    assert here.equals(there)


def test_logs_were_read_in_ranges(both: tuple[Path, Path, list[str]]) -> None:
    said = [line for line in both[2] if "ranges" in line]
    assert len(said) == len(NAMES)
    assert all(" 2 ranges" in line for line in said)
    # In the third one threads are created all the time, so that some call is always open.
    assert [" 0 of them read again" in line for line in said] == [True, True, False], said
    left = [p for name in NAMES for p in (both[1].parent / f"{name}.tracecorr").glob(".*")]
    assert left == []


def test_keys_of_nodes_do_not_meet(both: tuple[Path, Path, list[str]]) -> None:
    capture = Capture.open(both[1])
    events = capture.table_by_node("events").select("event", "node", "process", "file").collect()
    assert events["event"].n_unique() == events.height
    assert dict(events.group_by("node").len().rows()) == {
        name: Capture.open(both[1].parent / f"{name}.tracecorr").table("events").select(pl.len()).collect().item()
        for name in NAMES
    }
    for key in ("process", "file"):
        owners = events.drop_nulls(key).group_by(key).agg(pl.col("node").n_unique())
        assert owners["node"].max() == 1
    links = capture.table("links").collect()
    node_of = dict(events.select("event", "node").rows())
    assert all(node_of[a] == node_of[b] for a, b in links.select("from_event", "to_event").head(2000).rows())


def test_raw_bytes_are_found_behind_every_node(both: tuple[Path, Path, list[str]]) -> None:
    capture = Capture.open(both[1])
    calls = capture.table_by_node("events").filter(pl.col("layer") == "hip").group_by("node").first().collect()
    assert calls.height == len(NAMES)
    for row in calls.iter_rows(named=True):
        assert str(row["name"]).encode() in capture.raw(row["file"], row["offset"], row["length"])
        assert row["node"] in capture.file_path(row["file"])


def test_hive_readers_see_the_nodes(both: tuple[Path, Path, list[str]]) -> None:
    found = pl.scan_parquet(both[1] / "tables" / "launches", hive_partitioning=True)
    assert set(found.select(pl.col("node").cast(pl.String).unique()).collect()["node"]) == set(NAMES)


@pytest.mark.parametrize(
    "command",
    [
        ["query", "{fleet}", "SELECT node, COUNT(*) AS n FROM launches GROUP BY node ORDER BY node"],
        ["report", "{fleet}", "--json"],
        ["report", "{fleet}"],
        ["info", "{fleet}"],
        ["compare", "{fleet}", "{first}"],
        ["export", "{fleet}", "--to", "csv", "-o", "{out}"],
    ],
)
def test_commands_read_the_dataset(both: tuple[Path, Path, list[str]], tmp_path: Path, command: list[str]) -> None:
    named = {"fleet": both[1], "first": both[1].parent / f"{NAMES[0]}.tracecorr", "out": tmp_path / "csv"}
    done = CliRunner().invoke(app, [word.format(**named) for word in command])
    assert done.exit_code == 0, done.output
    if command[0] == "query":
        assert all(name in done.stdout for name in NAMES)
    if "--json" in command:
        nodes = json.loads(done.stdout)["sections"]["nodes"]["rows"]
        alone = [Capture.open(both[1].parent / f"{n}.tracecorr").table("launches").collect() for n in NAMES]
        told = [(n["node"], n["dispatches"]) for n in nodes]
        assert told == [(n, (a["kind"] == "dispatch").sum()) for n, a in zip(NAMES, alone, strict=True)]
        # The summary does not count the internal functions as calls, nor do the nodes.
        assert sum(n["hip_calls"] for n in nodes) == json.loads(done.stdout)["summary"]["hip_calls"]


def test_page_shows_the_dataset(both: tuple[Path, Path, list[str]]) -> None:
    from tracecorr.app.captures import Nodes
    from tracecorr.app.index import build

    capture = Capture.open(both[1])
    index = build(Nodes(capture))
    assert index.meta()["events"] == capture.table("events").select(pl.len()).collect().item()
    labels = " ".join(group["label"] for group in index.meta()["groups"])
    assert all(f"{name} · process" in labels and f"{name} · queue 0" in labels for name in NAMES), labels
    events = capture.table_by_node("events").filter(pl.col("layer") == "hip").group_by("node").first().collect()
    for event, offset, file in events.select("event", "offset", "file").iter_rows():
        assert index.place(event).name
        assert index.capture.line_number(file, offset)


def test_a_call_open_across_ranges_is_read_again(cluster: str, tmp_path: Path) -> None:
    """SYNTHETIC: a thread waits in one call throughout; the tables are those of one process all the same."""
    line = b":3:hip_stream.cpp           :326 : %d us: [pid:7 tid: 0x%x] %s\n"
    enter, leave = b"\x1b[32m %s (  ) \x1b[0m", b"%s: Returned hipSuccess : "
    calls = [line % (4976205000, 0x7F7BD2EB0880, enter % b"hipDeviceSynchronize")]
    for i in range(4000):
        calls += [line % (4976205001 + i, 0x7F9196C57880, f % b"hipGetDevice") for f in (enter, leave)]
    calls.append(line % (4976300000, 0x7F7BD2EB0880, leave % b"hipDeviceSynchronize"))
    log = tmp_path / "x.log"
    log.write_bytes(b"".join(calls))
    here, there = (import_files(tmp_path / f"{n}.tracecorr", [log], []) for n in ("here", "there"))
    # One process with the same blocks: threads are numbered in the order of the rows, a call's is that of its exit.
    whole = write_part(tmp_path, "whole", read_amd_log(BytesIO(log.read_bytes()), 0, 10_000))
    correlate(here.path, ready={0: [whole]})
    said: list[str] = []
    correlate_on_cluster(cluster, [there.path], None, said.append, block_bytes=10_000)
    assert any("1 of them read again" in text for text in said)
    for table in schema.TABLES:
        ours, theirs = (rows_of(Capture.open(c.path), table) for c in (here, there))
        assert ours.equals(theirs), table
    events = rows_of(Capture.open(there.path), "events")
    assert events.filter(pl.col("name") == "hipDeviceSynchronize")["dur_ns"].to_list() == [95_000_000]


def test_what_cannot_be_done_is_said(cluster: str, both: tuple[Path, Path, list[str]], tmp_path: Path) -> None:
    path = both[1].parent / f"{NAMES[0]}.tracecorr"
    with pytest.raises(InputError, match="no Dask scheduler at tcp"):
        correlate_on_cluster("tcp://127.0.0.1:9", [path], None, print)
    with pytest.raises(CaptureError, match="already exists"):
        correlate_on_cluster(cluster, [path], both[1], print)
    with pytest.raises(CaptureError, match="one of the captures"):
        correlate_on_cluster(cluster, [path], path, print, force=True)
    with pytest.raises(CaptureError, match="dataset of many nodes"):
        correlate(both[1])
    with pytest.raises(CaptureError, match="no folder"):
        make_dataset([path], tmp_path / "absent" / "x.tracecorr")
