"""What each side of a comparison counts: queues, streams, rates, and rows that only one side has (all SYNTHETIC)."""

from __future__ import annotations

from typing import Any

import pytest
from analyze_tables import Rows, tables_of

from tracecorr.analyze.compare.counts import (
    compare_failures,
    compare_machines,
    compare_queues,
    measure_rate,
    name_kernels,
    name_machine_changes,
    summarize_rate,
)
from tracecorr.analyze.evidence import Evidence

_LOG, _TRACE = {"file": 0, "source": "amd_log"}, {"file": 1, "source": "ftrace"}
_SDMA = {"queue": 2, "process": 1, "type": "sdma", "create_ioctl_event": 4, "known_from": "ftrace"}


def _make_side() -> Rows:
    """Return queues of both sources: three streams submitted to three of them, and one more stream exists."""
    uses = ((0, 0), (0, 0), (1, 0), (2, 0), (1, 1), (1, 3), (2, 3))
    logged = {"known_from": "amd_log", "created_ns": 7}
    return {
        "files": [_LOG, _TRACE],
        "streams": [{"stream": n} for n in range(4)],
        "launches": [{"event": 9, "kind": "dispatch", "stream": 0}],
        "queues": [
            {"queue": 0, "process": 0, "gpu": 0, "hwq": 1, "ring_base": 1, "type": "compute_aql", "dispatches": 5,
             "created_line_event": 1, "create_ioctl_event": 2, "known_from": "amd_log,ftrace"},
            {"queue": 1, "process": 0, "gpu": 1, "hwq": 2, "created_line_event": 3, "dispatches": 0, **logged},
            _SDMA,
            {"queue": 3, "hwq": 3, "type": "compute_aql", "dispatches": 1, **logged},
        ],
        "stream_queues": [{"stream": s, "queue": q, "from_ns": n} for n, (s, q) in enumerate(uses)],
    }  # fmt: skip


_COUNTS = {
    "queues": 4, "queues made by HIP (Created lines)": 2, "queues with dispatches": 2, "CREATE_QUEUE ioctls": 2,
    "processes with queues": 2, "known GPUs with queues": 2, "streams": 4, "streams that submitted": 3,
    "queues shared by streams": 2, "most streams on one queue": 3, "most queues of one stream": 3,
    "queues: compute_aql": 2, "queues: sdma": 1, "queues: unknown type": 1,
}  # fmt: skip
_TRACED = {
    "queues": 1, "CREATE_QUEUE ioctls": 1, "processes with queues": 1, "known GPUs with queues": 0, "queues: sdma": 1,
    "queues: compute_aql": 0, "queues: unknown type": 0,
}  # fmt: skip
# A log that holds no packet may have been written at a level that prints none.
_UNKNOWN = dict.fromkeys((
    "CREATE_QUEUE ioctls", "streams that submitted", "queues shared by streams", "most streams on one queue",
    "most queues of one stream",
))  # fmt: skip


@pytest.mark.parametrize(
    ("other", "counts"),
    [
        (_make_side(), _COUNTS),
        ({"files": [_TRACE], "queues": [_SDMA]}, _TRACED),
        # A trace without ioctls says nothing of queues; one that shows other ioctls says that none was made by one.
        ({"files": [_TRACE]}, {}),
        ({"files": [_TRACE], "events": [{"event": 0, "layer": "ioctl"}]}, {"CREATE_QUEUE ioctls": 0}),
        ({"files": [_LOG]}, dict.fromkeys(_COUNTS, 0) | _UNKNOWN),
        # The queue that only the trace shows may be one of those that only the log shows.
        ({**_make_side(), "queues": [*_make_side()["queues"][:2], {**_SDMA, "type": "compute_aql", "process": 0}]},
         {**_COUNTS, "queues": None, "queues with dispatches": 1, "processes with queues": 1,
          "queues: compute_aql": None, "queues: sdma": None, "queues: unknown type": None}),
    ],
)  # fmt: skip
def test_what_is_counted_of_queues_and_streams(other: Rows, counts: dict[str, int | None]) -> None:
    rows = compare_queues(tables_of(_make_side()), tables_of(other)).to_dicts()
    assert {row["what"]: row["a"] for row in rows} == _COUNTS
    assert {row["what"]: row["b"] for row in rows} == {name: counts.get(name) for name in _COUNTS}
    for row in rows:
        assert row["difference"] == (None if row["b"] is None else row["b"] - row["a"])


def _dispatches(moments: list[int]) -> Rows:
    return {"launches": [{"event": n, "kind": "dispatch", "packet_ns": ns} for n, ns in enumerate(moments)]}


# In slice n of 1 us are n + 1 dispatches, the very last one at its end.
_RISING = [*(7_000 + 1_000 * n + k for n in range(100) for k in range(n + 1) if (n, k) != (99, 99)), 106_999]


@pytest.mark.parametrize(
    ("moments", "wanted"),
    [
        (_RISING, (5050, 99_999, 50490504.9, 6e6, 95e6, 0)),
        ([5, 5], (2, 0, None, 2e9, 2e9, 0)),
        ([5], (1, None, None, None, None, None)),
    ],
)
def test_a_rate_and_its_spread_are_those_of_a_hundred_slices(
    moments: list[int], wanted: tuple[float | None, ...]
) -> None:
    tables = tables_of(_dispatches(moments))
    assert tuple(summarize_rate(tables).values()) == wanted
    assert measure_rate(tables)["dispatches"].sum() == (len(moments) if len(moments) > 1 else 0)


def test_kernels_of_one_name_are_one_on_both_sides_whatever_short_name_each_has() -> None:
    one, other = "void mul<float>(int)", "void mul<half>(int)"
    first = {"kernels": [{"kernel": 0, "name": one, "display": "mul"}]}
    second = {"kernels": [{"kernel": 0, "name": other, "display": "mul"}, {"kernel": 1, "name": one, "display": "x"},
                          {"kernel": 2, "display": "nameless"}]}  # fmt: skip
    named = name_kernels(tables_of(first), tables_of(second))
    shown = [tables("kernels").select("display").collect()["display"].to_list() for tables in named]
    assert shown == [["mul<float>"], ["mul<half>", "mul<float>", "nameless"]]


def test_machines_environments_and_failures_of_both_sides() -> None:
    def side(host: dict[str, Any], failed: int, **environment: str) -> Evidence:
        call = {"layer": "hip", "name": "hipFree", "result": "hipErrorInvalidValue", "source": "amd_log", "process": 0}
        events = [{"event": i, "ts_ns": i, "dur_ns": 1, **call} for i in range(failed)]
        return Evidence(tables_of({"events": events}), info={"host": host, "environment": environment})

    first = side({"rocm": "7.2", "driver": "6.16", "parameters": {"num_kcq": "2"}}, 1, HIP_X="1")
    second = side({"rocm": "7.3", "driver": "6.16", "parameters": {"num_kcq": "8"}}, 3, HIP_X="1", GPU_Y="4")
    machines = compare_machines(first, second)
    assert machines.filter("differs").select("what", "a", "b").rows() == [
        ("ROCm", "7.2", "7.3"), ("amdgpu.num_kcq", "2", "8"), ("environment GPU_Y", None, "4"),
    ]  # fmt: skip
    assert list(name_machine_changes(machines)) == [
        "ROCm: 7.2 in A, 7.3 in B", "amdgpu.num_kcq: 2 in A, 8 in B", "environment GPU_Y: not set in A, 4 in B",
    ]  # fmt: skip
    failures = compare_failures(first, second)
    assert failures.select("failure", "a_times", "b_times").rows() == [("hipFree returned hipErrorInvalidValue", 1, 3)]
