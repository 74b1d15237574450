"""Recorded traces: counts against what the recorder counted, and closed accounts."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import polars as pl
import pytest
from ftrace_cases import CAPTURES, DATA, Whole, meta, need_data, read_text

from tracecorr.read.ftrace.lines import looks_like_ftrace_text

_TEXTS = sorted(DATA.glob("vm/**/*.txt")) + sorted(DATA.glob("real/ftrace-*.txt"))


def _kfd_ioctls(trace: Whole) -> Counter[str]:
    return Counter(
        {n.removeprefix("AMDKFD_IOC_"): c for n, c in trace.names("ioctl").items() if n.startswith("AMDKFD")}
    )


@pytest.mark.parametrize("folder", need_data(CAPTURES))
def test_counts_of_a_capture(folder: Path) -> None:
    counts, data = meta(folder)["counts"], (folder / "ftrace.txt").read_bytes()
    trace = read_text(data)
    assert dict(_kfd_ioctls(trace)) == counts["kfd_ioctls"]
    assert trace.ledger["bytes"].sum() == len(data)
    assert trace.ledger["outcome"].unique().to_list() == ["used"]
    assert _hits(trace) == {k: v for k, v in counts["uprobe_hits"].items() if not k.endswith("_ret")}
    ended = trace.events.filter(pl.col("layer") == "hsa")["end_stamp_ns"].is_not_null().sum()
    assert ended == sum(v for k, v in counts["uprobe_hits"].items() if k.endswith("_ret"))
    assert trace.ledger["records"].sum() == counts["ftrace_lines"]


def _hits(trace: Whole) -> dict[str, int]:
    return dict(trace.names("hsa") + trace.names("doorbell"))


@pytest.mark.parametrize("folder", need_data([f for f in CAPTURES if meta(f)["counts"]["kprobe_hits"]]))
def test_kprobes_of_a_capture(folder: Path) -> None:
    hits = meta(folder)["counts"]["kprobe_hits"]
    trace = read_text((folder / "ftrace.txt").read_bytes())
    names = trace.names("kfd")
    assert names["kfd_ioctl"] == hits["kfd_ioctl"]
    assert names["kfd_ioctl_create_queue"] == hits["kfd_create_queue"]
    assert names["kfd_ioctl_alloc_memory_of_gpu"] == hits["kfd_alloc_memory"]
    calls = trace.events.filter(pl.col("name") == "kfd_ioctl")
    assert calls["end_stamp_ns"].null_count() == 0 and set(calls["depth"]) == {1}
    parents = trace.events.filter(pl.col("layer") == "ioctl")["offset"]
    assert calls["parent_offset"].is_in(parents.to_list()).all()
    queues = trace.events.filter(pl.col("name") == "kfd_ioctl_create_queue")
    assert set(queues["depth"]) == {2} and set(queues["result"]) == {"EINVAL"}


def _is_trace(path: Path) -> bool:
    names = (
        "*.trace.txt",
        "ftrace.txt",
        "function_graph.txt",
        "tc.report.txt",
        "ftrace-amdgpu-*",
        "ftrace-drm_sched-*",
    )
    return any(path.match(name) for name in names)


def test_all_recorded_texts_are_known() -> None:
    traces = [path for path in _TEXTS if _is_trace(path)]
    assert not _TEXTS or len(traces) == 13


@pytest.mark.parametrize("path", need_data(_TEXTS))
def test_every_text_is_read_and_accounted_for(path: Path) -> None:
    data = path.read_bytes()
    trace = read_text(data, block_bytes=50_000)
    assert trace.ledger["bytes"].sum() == len(data)
    if _is_trace(path):
        assert looks_like_ftrace_text(data[: 1 << 20])
        assert trace.ledger.filter(pl.col("outcome") == "skipped").is_empty()
    else:
        # Formats, lists and counters lie beside the traces: import refuses them.
        assert not looks_like_ftrace_text(data[: 1 << 20])


@pytest.mark.parametrize(
    "kernel", need_data([p for p in (DATA / "vm/bookworm/ftrace", DATA / "vm/trixie/ftrace") if p.is_dir()])
)
def test_known_truths_of_the_vm(kernel: Path) -> None:
    events = read_text((kernel / "events.trace.txt").read_bytes())
    function = read_text((kernel / "function.trace.txt").read_bytes())
    graph = read_text((kernel / "function_graph.trace.txt").read_bytes())
    for trace in (events, function, graph):
        kfd = trace.names("kfd")
        assert kfd["kfd_ioctl"] in (24, 48), kfd
        assert trace.ledger.filter(pl.col("outcome") != "used").is_empty()
    created = events.events.filter(pl.col("name") == "AMDKFD_IOC_CREATE_QUEUE")
    assert created.height == 3 and set(created["result"]) == {"EINVAL"}
    # The trace holds both the tracer's functions (without a result) and the probes (with one).
    spans = graph.events.filter((pl.col("name") == "kfd_ioctl") & pl.col("end_stamp_ns").is_not_null())
    assert spans["result"].null_count() == 24 and spans.height == 48


@pytest.mark.parametrize("folder", need_data([DATA / "vm/bookworm-mocksched"] if DATA.is_dir() else []))
def test_recorded_scheduler_events_have_their_rings_and_fences(folder: Path) -> None:
    trace = read_text((folder / "sched.trace.txt").read_bytes())
    assert trace.names("drm_sched") == {"drm_sched_job": 18, "drm_run_job": 18, "drm_sched_process_job": 18}
    assert set(trace.arg("ring")) == {"gfx_0.0.0", "comp_1.0.0", "sdma0"}
    data = (folder / "sched.trace.txt").read_text()
    fences = re.findall(r"drm_\w+: .*?fence=([0-9a-f]{16})", data)
    assert trace.arg("fence") == [int(f, 16) for f in fences]
