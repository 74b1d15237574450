"""KFD functions of the real drivers of kernels 6.1 and 6.12: kprobes, and function_graph with kprobes in it."""

from __future__ import annotations

import csv
from collections import Counter
from pathlib import Path

import polars as pl
import pytest

from tracecorr.pipeline import correlate, import_files
from tracecorr.store import Capture

HERE = Path(__file__).parent / "expected"
COLUMNS = ["layer", "name", "parent_name", "depth", "result", "dur_ns"]
TRACES = [(kernel, trace) for kernel in ("bookworm", "trixie") for trace in ("events", "function_graph")]


def list_functions(capture: Capture) -> list[dict[str, str]]:
    """Return the ioctls and the functions of the driver in order, with the name of what encloses each."""
    events = capture.table("events").sort("event").collect()
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
    probes = Counter(row["name"] for row in expected if row["result"] or not row["dur_ns"])
    assert probes["kfd_ioctl"] == 24
    assert [probes[f"kfd_ioctl_{n}_queue"] for n in ("create", "update", "destroy")] == [3, 3, 3]
    links = capture.table("links").filter(pl.col("rule").cast(pl.String) == "kfd_in_ioctl").collect()
    inside = [r for r in expected if r["layer"] == "kfd" and int(r["depth"] or 0) > 0]
    assert 24 <= len(links) <= len(inside)


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
