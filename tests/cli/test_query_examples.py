"""The examples of `tracecorr query` tell the node of what belongs to one, in a dataset of many nodes."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from tracecorr.analyze.examples import EXAMPLES
from tracecorr.cli import main
from tracecorr.pipeline import make_dataset
from tracecorr.store import Capture

# Sums over all nodes.
_SUMS = {"ioctls-in-calls", "kernel-time-of-calls", "doorbell-delay", "unlinked", "copies", "links"}


@pytest.fixture(scope="module")
def fleet(sample: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a dataset of a RECORDED run and its copy."""
    folder = tmp_path_factory.mktemp("fleet")
    shutil.copytree(sample, folder / "other.tracecorr")
    return make_dataset([sample, folder / "other.tracecorr"], folder / "fleet.tracecorr").path


def _ask(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["query", *words]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("name", EXAMPLES)
def test_rows_of_a_node_name_it(fleet: Path, sample: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--example", name, "--format")
    columns = [_ask(capsys, str(path), *words, "csv").splitlines()[0].split(",") for path in (sample, fleet)]
    assert columns[1] == (columns[0] if name in _SUMS else ["node", *columns[0]])


@pytest.mark.parametrize("name", ["queues", "streams", "skipped"])
def test_each_node_has_its_rows(fleet: Path, sample: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    alone, rows = (
        json.loads(_ask(capsys, str(path), "--example", name, "--format", "json")) for path in (sample, fleet)
    )
    nodes = [row["node"] for row in rows]
    assert alone and {node: nodes.count(node) for node in nodes} == {"t1-streams": len(alone), "other": len(alone)}


def test_what_is_printed_can_be_asked(fleet: Path, sample: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for path in (fleet, sample):
        printed = _ask(capsys, str(path), "--examples")
        queries = [line.strip() for line in printed.splitlines() if line.startswith("    ")]
        assert len(queries) == len(EXAMPLES) and not any("/*" in query for query in queries)
        assert ("node" in printed) == (path == fleet)
        for sql in queries:
            _ask(capsys, str(path), sql)
    assert _ask(capsys, "--examples") == _ask(capsys, "no-such-capture", "--examples") == printed


def test_latencies_are_those_of_the_launches(
    copy_sample: Callable[[str], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    """Percentiles are values that occurred; what the dispatches of graphs took is no latency of theirs."""
    graphs = copy_sample("streams-graph")
    capture = Capture.open(graphs)
    calls = capture.table("events").select(call_event="event", call=pl.col("name").cast(pl.String))
    rows = capture.table("launches").join(calls, on="call_event").filter(
        pl.col("kind") == "dispatch", ~pl.col("call").str.starts_with("hipGraphLaunch")
    ).collect()  # fmt: skip
    told = json.loads(_ask(capsys, str(graphs), "--example", "launch-latency", "--format", "json"))
    assert sum(row["dispatches"] for row in told) == rows.height > 0
    by_stream: dict[int, list[dict[str, int]]] = {}
    for row in told:
        by_stream.setdefault(row["stream"], []).append(row)
    for stream, parts in by_stream.items():
        took = rows.filter(pl.col("stream") == stream).select(ns=pl.col("doorbell_ns") - pl.col("call_ns"))["ns"]
        assert max(part["doorbell_p99_ns"] for part in parts) == took.max()  # of fewer than 100 it is the largest
