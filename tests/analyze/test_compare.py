"""Two captures side by side: recorded ones with known differences, and SYNTHETIC series with known chances."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from analyze_tables import Rows, tables_of
from synthetic_run import make_run

from tracecorr.analyze.compare import Comparison, Side, compare_captures
from tracecorr.analyze.compare.counts import measure_rate, summarize_rate
from tracecorr.analyze.report.markdown import render_comparison
from tracecorr.store import Capture


@pytest.fixture(scope="module")
def comparison(recorded: Callable[..., Capture]) -> Comparison:
    """Return the comparison of the RECORDED runs with one and with four streams."""
    sides = [recorded(f"captures/{name}") for name in ("caseA-1stream", "caseB-4streams")]
    return compare_captures(*(Side(capture.name, capture.table, capture.info) for capture in sides))


def test_one_stream_against_four(comparison: Comparison) -> None:
    queues = {r["what"]: (r["a"], r["b"]) for r in comparison.frame("queues").to_dicts()}
    assert queues["queues with dispatches"] == (1, 4)
    assert queues["queues made by HIP (Created lines)"] == (2, 5)
    assert queues["streams that submitted"] == (1, 4)
    kernels = comparison.frame("kernels")
    assert kernels["only"].to_list() == ["both"] * 3
    assert kernels.select("name", "a_dispatches", "b_dispatches").rows()[:2] == [
        ("gemm16", 300, 300),
        ("vadd", 300, 300),
    ]
    assert "queues with dispatches: 1 in A, 4 in B" in comparison.findings
    for line in (
        "names of kernels: 3 in both, 0 only in A, 0 only in B",
        "kinds of ioctls: 18 in both, 0 only in A, 0 only in B; ioctls: 254 in A, 1,517 in B",
        "largest changes of packets and copies by kind: barrier_and 4 in A, 222 in B",
        "largest changes of ioctls by kind: AMDKFD_IOC_WAIT_EVENTS 17 in A, 619 in B; AMDKFD_IOC_SET_EVENT 22 in A, "
        "458 in B; AMDKFD_IOC_CREATE_EVENT 21 in A, 86 in B",
        "latencies leave out launches: 450 of 600 launches of barrier_value of B, 450 of 600 launches of dispatch of B "
        "are in no row: the other side has too few of their log priority",
    ):
        assert line in comparison.findings
    assert comparison.frame("topology_b").height == 4


def test_comparison_is_printed_and_says_how_latencies_were_taken(comparison: Comparison) -> None:
    text = render_comparison(comparison)
    assert "AMD_LOG_LEVEL" in text
    assert "overhead" in text
    assert json.loads(json.dumps(comparison.as_dict()))["a"] == comparison.first


def test_a_capture_does_not_differ_from_itself() -> None:
    tables = tables_of(make_run())
    same = compare_captures(Side("x", tables), Side("x", tables))
    assert same.frame("queues")["difference"].to_list() == [0] * same.frame("queues").height
    assert set(same.frame("kernels")["only"]) == {"both"}
    assert not same.frame("verdicts")["differs"].any()
    assert not any(line.startswith("SIGNIFICANT") for line in same.findings)


def test_empty_captures_can_be_compared() -> None:
    empty = Side("nothing", tables_of({}))
    text = render_comparison(compare_captures(empty, empty))
    assert "no kernel on either side" in text


def test_a_side_without_a_source_is_named() -> None:
    log = tables_of({"files": [{"file": 0, "source": "amd_log"}]})
    both = tables_of({"files": [{"file": 0, "source": "amd_log"}, {"file": 1, "source": "ftrace"}]})
    found = compare_captures(Side("a", log), Side("b", both)).findings
    assert found[0].startswith("A has no kernel trace: no ioctls")
    assert not any("HIP log" in line for line in found)
    assert any("no latency is compared" in line for line in found)
    neither = compare_captures(Side("a", tables_of({})), Side("b", tables_of({}))).findings
    assert neither[0].startswith("A and B have no HIP log")


def test_dispatches_are_compared_and_an_unknown_kernel_is_none_of_its_own() -> None:
    one, other = make_run(), make_run()
    one["launches"] = one["launches"][:1]
    other["launches"][1]["kernel"] = None
    found = compare_captures(Side("a", tables_of(one)), Side("b", tables_of(other))).findings
    assert "dispatches: 1 in A, 2 in B (1000000.0 per second)" in found
    assert "names of kernels: 1 in both, 0 only in A, 0 only in B" in found
    assert not any("has no packet" in line for line in found)


def test_counts_that_differ_much_are_named_where_both_sides_recorded_them() -> None:
    one, other = make_run(), make_run()
    packet = {**one["launches"][0], "call_event": None}
    one["launches"] = [packet] * 100
    other["launches"] = [packet] * 109 + [{**packet, "kind": "barrier_and"}] * 2

    def changes() -> list[str]:
        found = compare_captures(Side("a", tables_of(one)), Side("b", tables_of(other))).findings
        return [line for line in found if line.startswith("largest changes")]

    # 9 of 109 are about the same.
    assert changes() == ["largest changes of packets and copies by kind: barrier_and 0 in A, 2 in B"]
    other["launches"] += [packet] * 3
    assert changes() == [
        "largest changes of packets and copies by kind: dispatch 100 in A, 112 in B; barrier_and 0 in A, 2 in B"
    ]
    other["launches"] = []
    assert changes() == []
    one["events"] = [e for e in one["events"] if e["event"] != 6]
    assert changes() == ["largest changes of ioctls by kind: AMDKFD_IOC_UPDATE_QUEUE 0 in A, 1 in B"]


@pytest.mark.parametrize(
    ("first_ns", "told"),
    [(400, "400 ns in A, 5.40 us in B, +1250.0 % "), (0, "0 ns in A, 5.00 us in B ")],
)  # fmt: skip
def test_what_differs_is_said_in_words_and_the_rest_is_counted(first_ns: int, told: str) -> None:
    def side(late_ns: int) -> Rows:
        run, moments = make_run(), range(0, 2_000_000, 100_000)
        known = {**run["launches"][0], "doorbell_ns": None, "doorbell_event": None}
        run["launches"] = [
            {**known, "event": 100 + n, "call_ns": ns, "packet_ns": ns + first_ns + late_ns, "return_ns": ns + 9_000}
            for n, ns in enumerate(moments)
        ]
        return run

    a, b = side(0), side(5_000)
    b["hqd"][1]["quantum"] = 0x110
    found = compare_captures(Side("a", tables_of(a)), Side("b", tables_of(b)))
    ends = "(difference between 5.00 us and 5.00 us, in steps of 1 us)"
    assert found.findings == (
        "queues with dispatches: 1 in A, 1 in B (no difference)",
        "queues made by HIP (Created lines): 1 in A, 1 in B (no difference)",
        "queues shared by streams: 0 in A, 0 in B (no difference)",
        "dispatches: 20 in A (10000.0 per second), 20 in B (10000.0 per second)",
        "names of kernels: 1 in both, 0 only in A, 0 only in B",
        "HIP functions: 3 in both, 0 only in A, 0 only in B; calls: 4 in A, 4 in B",
        "kinds of ioctls: 2 in both, 0 only in A, 0 only in B; ioctls: 3 in A, 3 in B",
        f"SIGNIFICANT call to packet of dispatch, p50: {told}{ends}",
        "1 of 8 latency figures do not differ significantly",
        "6 of 8 latency figures cannot be judged: the percentile of the faster side may be larger than all of its "
        "launches (P95 needs 113 independent launches, P99 574)",
        "verdict hqd_quantum: PASS in A, FAIL in B",
    )
    verdicts = found.frame("verdicts")
    assert verdicts.select("verdict", "a", "b").row(0) == ("hqd_quantum", "PASS", "FAIL")
    assert verdicts["differs"].to_list() == [True] + [False] * (verdicts.height - 1)


def test_a_difference_of_which_one_end_alone_is_known_is_said_in_words() -> None:
    """SYNTHETIC: A has launches enough for its P99 and B, that is slower, has not: nothing bounds how much slower."""

    def side(count: int, took_ns: int) -> Rows:
        run = make_run()
        known = {**run["launches"][0], "doorbell_ns": None, "doorbell_event": None, "return_ns": None}
        run["launches"] = [
            {**known, "event": 100 + n, "call_ns": 10 * took_ns * n, "packet_ns": 10 * took_ns * n + took_ns}
            for n in range(count)
        ]
        return run

    found = compare_captures(Side("a", tables_of(side(800, 5_000))), Side("b", tables_of(side(20, 50_000))))
    told = [line.partition("B, ")[2] for line in found.findings if line.startswith("SIGNIFICANT")]
    assert told == [
        "+900.0 % (difference between 45.00 us and 45.00 us, in steps of 1 us)",
        *["+900.0 % (difference at least 45.00 us, in steps of 1 us)"] * 2,
    ]
    back = compare_captures(Side("b", tables_of(side(20, 50_000))), Side("a", tables_of(side(800, 5_000))))
    assert [line.count("difference at most -45.00 us") for line in back.findings if "SIGNIFICANT" in line] == [0, 1, 1]


_LEVEL_5 = {"environment": {"AMD_LOG_LEVEL": "5"}}


@pytest.mark.parametrize(
    ("layers", "info", "level", "trace", "probe"),
    [
        (("hip", "ioctl", "doorbell"), _LEVEL_5, "5", "yes", "yes"),
        (("hip", "syscall"), {}, "3 or more (no packet is printed)", "yes", "no"),
        (("hip", "command"), {"environment": ["AMD_LOG_LEVEL"]}, "4 or more (no packet is printed)", "no", "no"),
        (("kfd",), {"environment": {}}, "no log", "yes", "no"),
        ((), {}, "no log", "no", "no"),
    ],
)
def test_the_conditions_of_a_capture_are_told(
    layers: tuple[str, ...], info: dict[str, Any], level: str, trace: str, probe: str
) -> None:
    events = [{"event": n, "ts_ns": n, "layer": layer} for n, layer in enumerate(layers)]
    side = Side("a", tables_of({"events": events}), info)
    told = {row["condition"]: row["a"] for row in compare_captures(side, side).frame("conditions").to_dicts()}
    assert (told["AMD_LOG_LEVEL"], told["kernel trace"], told["doorbell probe"]) == (level, trace, probe)
    assert told["cost of an event"].startswith("not measured")


def test_rate_counts_every_dispatch_once() -> None:
    launches = [{"event": i, "kind": "dispatch", "packet_ns": 7_055 + t} for i, t in enumerate((0, 1, 99, 999))]
    tables = tables_of({"launches": [*launches, {"event": 9, "kind": "copy", "packet_ns": 50_000}]})
    rates = measure_rate(tables, slices=10)
    assert rates["dispatches"].to_list() == [3, 0, 0, 0, 0, 0, 0, 0, 0, 1]
    assert rates["from_start_ns"].to_list() == list(range(0, 1000, 100))
    assert rates["per_second"][0] == 3e7
    told = summarize_rate(tables)
    assert (told["dispatches"], told["span_ns"], told["per_second"], told["idle_slices"]) == (4, 999, 3003003.0, 97)
    assert measure_rate(tables_of({})).is_empty()
