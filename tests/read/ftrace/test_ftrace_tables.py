"""Expected tables of recorded traces, and the program's own account of what it did.

The tables in `expected/` hold the kernel-side rows of traces of real kernels (VM rig; durations are those
of an emulated CPU). `TRACECORR_WRITE_EXPECTED=1` writes them anew; then look at the difference.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import polars as pl
import pytest
from ftrace_cases import read_text

EXPECTED = Path(__file__).parent / "expected"
_TRACES = {
    "kernel-6.1-kprobes": "vm/bookworm/ftrace/events.trace.txt",
    "kernel-6.1-function_graph": "vm/bookworm/ftrace/function_graph.trace.txt",
    "kernel-6.12-kprobes": "vm/trixie/ftrace/events.trace.txt",
    "kernel-6.12-function_graph": "vm/trixie/ftrace/function_graph.trace.txt",
    "kernel-6.1-drm_sched": "vm/bookworm-mocksched/sched.trace.txt",
}
_LAYERS = ["ioctl", "kfd", "mqd", "amdgpu", "drm_sched", "marker"]
_COLUMNS = ["offset", "stamp_ns", "end_stamp_ns", "layer", "name", "tid", "cpu", "depth", "parent_offset", "result",
            "fd", "cmd", "arg", "flags"]  # fmt: skip


@pytest.mark.parametrize("name", _TRACES)
def test_table_of_a_trace(name: str, data_folder: Path) -> None:
    trace = read_text((data_folder / _TRACES[name]).read_bytes())
    chosen = trace.events.filter(pl.col("layer").cast(pl.String).is_in(_LAYERS)).sort("offset")
    args = trace.args.with_columns(
        pl.format("{}={}", "key", pl.coalesce(pl.col("u64").cast(pl.String), "text")).alias("arg_text")
    ).group_by("offset").agg(pl.col("arg_text").sort().str.join("; "))  # fmt: skip
    table = chosen.select(_COLUMNS).join(args, on="offset", how="left", maintain_order="left")
    found = table.with_columns(pl.all().cast(pl.String).fill_null(""))
    path = EXPECTED / f"{name}.csv"
    if os.environ.get("TRACECORR_WRITE_EXPECTED") == "1":
        found.write_csv(path)
    expected = pl.read_csv(path, infer_schema=False).fill_null("")
    assert found.rows() == expected.rows()


@pytest.mark.parametrize("kernel", ["bookworm", "trixie"])
def test_ioctls_lie_where_the_program_made_them(kernel: str, data_folder: Path) -> None:
    """The program read CLOCK_MONOTONIC before and after each call and printed name, request and result."""
    folder = data_folder / "vm" / kernel / "ftrace"
    told = [json.loads(line) for line in (folder / "events.prog.out").read_text().splitlines()]
    told = [call for call in told if "cmd" in call]
    trace = read_text((folder / "events.trace.txt").read_bytes())
    calls = trace.events.filter(pl.col("name").cast(pl.String).str.starts_with("AMDKFD")).sort("stamp_ns")
    probes = trace.events.filter(pl.col("name") == "kfd_ioctl").sort("stamp_ns")
    assert calls.height == probes.height == len(told) == 24
    for call, probe, made in zip(calls.to_dicts(), probes.to_dicts(), told, strict=True):
        assert call["cmd"] == int(made["cmd"], 16)
        assert call["name"] == f"AMDKFD_IOC_{made['name']}"
        assert (call["result"] == "0") == (made["errno"] is None)
        # Text rounds to a microsecond.
        assert made["t0"] - 1000 <= call["stamp_ns"] <= probe["stamp_ns"] + 1000
        assert probe["end_stamp_ns"] <= call["end_stamp_ns"] + 1000 <= made["t1"] + 2000
        assert probe["parent_offset"] == call["offset"]
