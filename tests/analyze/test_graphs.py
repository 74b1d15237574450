"""Packets of graph launches stand apart from those that a call launches for itself (SYNTHETIC tables)."""

from __future__ import annotations

from analyze_tables import Rows, tables_of

from tracecorr.analyze.calls import sum_up_graphs, summarize_graphs
from tracecorr.analyze.compare import Side, compare_captures
from tracecorr.analyze.compare.statistics import read_steady
from tracecorr.analyze.latency import summarize_latency, summarize_paths

_MS = 1_000_000


def _make_run(graphs: int, alone: int) -> Rows:
    """Return graph launches of 1 ms with four dispatches and a barrier each, and launches of their own of 10 us."""
    calls = [("hipGraphLaunch_spt" if n % 2 else "hipGraphLaunch", _MS, 4) for n in range(graphs)]
    calls += [("hipLaunchKernel", 10_000, 1)] * alone
    events, launches, at = [], [], 0
    for name, took, packets in calls:
        call = {"event": len(events), "ts_ns": at, "layer": "hip", "name": name, "dur_ns": took, "stream": 0}
        events.append({**call, "process": 0})
        moments = {"call_ns": at, "enqueue_ns": at + took // 2, "return_ns": at + took, "call_event": call["event"]}
        for n in range(packets + (packets > 1)):
            placed = at + (n + 1) * took // 8
            launches.append({
                "event": len(events), "kind": "dispatch" if n < packets else "barrier_and", "packet_ns": placed,
                "kernel": 0, "queue": 0, "doorbell_ns": placed + 3_000, "doorbell_evidence": "recorded", **moments,
            })  # fmt: skip
            events.append({"event": len(events), "ts_ns": placed, "layer": "aql", "name": "dispatch", "chain": 0})
        at += 2 * took
    return {
        "files": [{"file": 0, "source": "amd_log"}], "kernels": [{"kernel": 0, "name": "f(int)", "display": "f"}],
        "events": events, "launches": launches, "queues": [{"queue": 0, "hwq": 1}],
    }  # fmt: skip


def test_times_within_a_graph_launch_are_no_times_of_a_plain_one() -> None:
    tables = tables_of(_make_run(3, 5))
    rows = summarize_latency(tables("launches"), tables("events")).filter(stage="call to packet")
    shown = {kind: (packets, p50) for kind, packets, p50 in rows.select("kind", "packets", "p50_ns").iter_rows()}
    assert shown == {
        "barrier_and of a graph": (3, 625_000), "dispatch": (5, 1_250), "dispatch of a graph": (12, 250_000),
    }  # fmt: skip
    assert read_steady(tables)["kind"].cast(str).value_counts().height == 3


def test_the_layers_of_a_graph_launch_are_not_those_of_its_dispatches() -> None:
    tables = tables_of(_make_run(2, 1))
    rows = summarize_paths(tables("launches"), tables("events"))
    told = [(phase, layer) for phase, layer in rows.select("phase", "layer").iter_rows()]
    assert told == [("graph", "doorbell"), *(("steady", n) for n in ("hip", "command", "doorbell", "return"))]
    assert rows.filter(phase="graph").select("launches", "total_ns", "share").rows() == [(8, 24_000, None)]


def test_a_graph_launch_is_summed_up_by_its_calls() -> None:
    run = _make_run(3, 1)
    # The log ends in the last one.
    run["events"][12]["dur_ns"] = None
    tables = tables_of(run)
    (row,) = summarize_graphs(tables("launches"), tables("events")).to_dicts()
    names = ("process", "stream", "calls", "dispatches", "other_packets", "dispatches_p50", "total_ns")
    assert [row[name] for name in names] == [0, 0, 3, 12, 3, 4, 2 * _MS]
    assert row["per_dispatch_ns"] == _MS // 4
    plain = tables_of(_make_run(0, 4))
    assert sum_up_graphs(plain("launches"), plain("events")).is_empty()


def test_graphs_on_one_side_are_not_compared_with_launches_on_the_other() -> None:
    """Graphs save time; yet a dispatch in one waits in its call for those before it."""
    sides = [Side(name, tables_of(_make_run(*n))) for name, n in (("a", (30, 30)), ("b", (0, 150)))]
    found = compare_captures(*sides, rounds=50)
    assert found.frame("latency")["kind"].unique().to_list() == ["dispatch"]
    assert not found.frame("latency")["significant"].any()
    assert found.frame("kernels").select("a_dispatches", "a_p50_ns", "b_p50_ns").rows() == [(150, 1_250, 1_250)]
    assert (
        "dispatches by graph launches, whose latencies are compared separately: 120 in A (30 calls), 0 in B"
        in "\n".join(found.findings)
    )
    assert found.frame("graphs").select("side", "calls").rows() == [("A", 30)]


def test_packets_of_graph_launches_that_no_log_shows_are_unknown_and_not_0() -> None:
    """Up to level 3 a log shows the calls alone; the other side has no log at all."""
    quiet = {**_make_run(2, 1), "launches": []}
    tables = tables_of(quiet)
    (row,) = summarize_graphs(tables("launches"), tables("events")).to_dicts()
    assert (row["calls"], row["total_ns"]) == (2, 2 * _MS)
    assert {row[name] for name in ("dispatches", "other_packets", "dispatches_p50", "per_dispatch_ns")} == {None}
    traced: Rows = {"files": [{"file": 0, "source": "ftrace"}]}
    found = compare_captures(Side("a", tables), Side("b", tables_of(traced)), rounds=50)
    assert "compared separately: unknown in A (2 calls), unknown in B" in "\n".join(found.findings)
