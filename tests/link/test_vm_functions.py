"""KFD functions of the real drivers of kernels 6.1 and 6.12: kprobes, alone and with a tracer of functions."""

from __future__ import annotations

import csv
import re
from collections import Counter
from pathlib import Path

import polars as pl
import pytest

from tracecorr.model.columns import is_counted
from tracecorr.pipeline import correlate, import_files
from tracecorr.store import Capture

HERE = Path(__file__).parent / "expected"
COLUMNS = ["layer", "name", "parent_name", "depth", "result", "dur_ns", "sight"]
TRACES = [(kernel, trace) for kernel in ("bookworm", "trixie") for trace in ("events", "function", "function_graph")]


def list_functions(capture: Capture) -> list[dict[str, str]]:
    """Return the ioctls and functions of the driver in order: what encloses each, whether it counts or is a twin."""
    events = capture.table("events").sort("event").collect()
    events = events.with_columns(sight=pl.when(is_counted()).then(pl.lit("")).otherwise(pl.lit("twin")))
    names = events.select(parent="event", parent_name="name")
    rows = events.join(names, on="parent", how="left", maintain_order="left")
    own = rows.filter(pl.col("layer").cast(pl.String).is_in(["ioctl", "kfd", "mqd"]))
    found: list[dict[str, str]] = own.select(pl.col(COLUMNS).cast(pl.String).fill_null("")).to_dicts()
    return found


def correlate_vm(folder: Path, trace: str, out: Path) -> Capture:
    """Return the capture of one trace of a kernel in the VM."""
    import_files(out, [], [folder / "ftrace" / f"{trace}.trace.txt"], clock="mono")
    correlate(out)
    return Capture.open(out)


@pytest.mark.parametrize(("kernel", "trace"), TRACES)
def test_functions_of_the_real_driver(data_folder: Path, tmp_path: Path, kernel: str, trace: str) -> None:
    capture = correlate_vm(data_folder / "vm" / kernel, trace, tmp_path / "vm.tracecorr")
    expected = list(csv.DictReader((HERE / f"{kernel}-{trace}.csv").read_text().splitlines()))
    assert list_functions(capture) == expected
    calls = Counter(row["name"] for row in expected if not row["sight"])
    assert calls["kfd_ioctl"] == 24
    assert [calls[f"kfd_ioctl_{n}_queue"] for n in ("create", "update", "destroy")] == [3, 3, 3]
    assert [calls[f"kfd_{n}"] for n in ("open", "mmap", "create_process")] == [1, 1, 1]
    assert sum(row["sight"] == "twin" for row in expected) == (0 if trace == "events" else 37)
    links = capture.table("links").filter(pl.col("rule").cast(pl.String) == "kfd_in_ioctl").collect()
    inside = [r for r in expected if r["layer"] == "kfd" and int(r["depth"] or 0) > 0 and not r["sight"]]
    assert 24 <= len(links) <= len(inside)


@pytest.mark.parametrize("shown", [r"\1\2", r"\2"])
def test_a_function_graph_that_names_no_thread_has_twins(data_folder: Path, tmp_path: Path, shown: str) -> None:
    """Without the option funcgraph-proc, as it is by default, and without times: what is in what tells the CPU."""
    text = (data_folder / "vm" / "trixie" / "ftrace" / "function_graph.trace.txt").read_text()
    trace = tmp_path / "trace.txt"
    trace.write_text(re.sub(r"(?m)^( *\d+\.\d+ \| )( +\d+\)) +\S+-\d+ +\|", shown, text))
    import_files(tmp_path / "x.tracecorr", [], [trace], clock="mono")
    correlate(tmp_path / "x.tracecorr")
    events = Capture.open(tmp_path / "x.tracecorr").table("events").collect()
    twins = events.filter(~is_counted())
    assert (events["thread"].count(), twins.height) == (0, 37)
    counted = events.filter(is_counted())["name"].cast(pl.String).to_list()
    assert [counted.count(f"kfd_ioctl_{n}_queue") for n in ("create", "update", "destroy")] == [3, 3, 3]
    assert [counted.count(f"kfd_{n}") for n in ("open", "mmap", "create_process")] == [1, 1, 1]


def test_a_function_graph_without_system_calls_shows_each_ioctl_once(data_folder: Path, tmp_path: Path) -> None:
    """Each with the span of its kfd_ioctl; the file has so many."""
    trace = data_folder / "vm" / "combo-trixie" / "function_graph.txt"
    entries = trace.read_text().count("kfd_ioctl [amdgpu]() {")
    import_files(tmp_path / "x.tracecorr", [], [trace])
    correlate(tmp_path / "x.tracecorr")
    events = Capture.open(tmp_path / "x.tracecorr").table("events").sort("event").collect()
    ioctls = events.filter(pl.col("layer").cast(pl.String) == "ioctl")
    assert (len(ioctls), ioctls["dur_ns"].null_count(), ioctls["result"].count()) == (entries, 0, 0)
    first = ioctls.row(0, named=True)
    assert (first["name"], first["dur_ns"]) == ("AMDKFD_IOC_GET_VERSION", 21_000)
    names = ioctls["name"].cast(pl.String).to_list()
    assert names.count("AMDKFD_IOC_AVAILABLE_MEMORY") == 5
