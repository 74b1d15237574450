"""What was open at the end of a capture: recorded hangs, a log from the field, SYNTHETIC ends, complete captures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest
from analyze_tables import Rows, tables_of

from tracecorr.analyze.hangs import End, follow_waits
from tracecorr.analyze.report import summarize_capture
from tracecorr.analyze.report.html import render_report_html
from tracecorr.analyze.report.markdown import render_markdown
from tracecorr.analyze.still_open import StillOpen, describe_still_open, find_still_open, list_events
from tracecorr.analyze.verdicts import Outcome, judge_capture
from tracecorr.model.standstill import Scene, Wait, Waiter, Work
from tracecorr.pipeline import correlate, import_files
from tracecorr.store import Capture
from tracecorr.timeline.drawn import open_calls

QUESTION = "What was still open at the end?"


def _import(source: Path, out: Path) -> Capture:
    log, trace, clock = source / "amd.log", source / "ftrace.txt", source / "clock.json"
    import_files(out, [log], [trace] if trace.exists() else [], clock_samples=clock if clock.exists() else None)
    correlate(out)
    return Capture.open(out)


def _places(found: StillOpen, capture: Capture) -> list[tuple[Any, Any]]:
    """Return queue and index of the packets behind the first open call, in the order of its chain."""
    packets = capture.table("launches").select("event", "queue", "packet_index").collect()
    index = {event: (queue, at) for event, queue, at in packets.iter_rows()}
    chain = found.chains[found.calls["event"][0]]
    return [index[event] for event in chain.events if event in index]


# Truth (README, truth.csv): the model retired 31 packets of that ring; the 32nd, index 31, never ended.
@pytest.mark.parametrize(
    ("name", "call", "least_s", "end", "chain", "outcome"),
    [
        ("hang-kernel", "hipEventSynchronize", 3.8, End.RUNS, [(1, 32), (1, 29)], Outcome.UNKNOWN),
        ("hang-deadlock", "hipStreamSynchronize", 4.0, End.CIRCLE, [(0, 3), (0, 0), (0, 2)], Outcome.FAIL),
    ],
)
def test_a_recorded_hang_names_call_packet_and_head(
    data_folder: Path, tmp_path: Path, name: str, call: str, least_s: float, end: End, chain: Any, outcome: Outcome
) -> None:
    capture = _import(data_folder / "captures" / name, tmp_path / "x.tracecorr")
    found = find_still_open(capture.table)
    (row,) = found.calls.to_dicts()
    assert row["name"] == call
    assert least_s * 1e9 < row["open_ns"] < 4.1e9
    assert found.chains[row["event"]].end is end
    assert _places(found, capture) == chain
    drawn = open_calls(capture.table).select("event", "label", length=pl.col("end") - pl.col("start"))
    assert drawn.rows() == [(row["event"], f"{call} (still open)", row["open_ns"])]
    (verdict,) = judge_capture(capture.table, names=["no_deadlock"])
    assert verdict.outcome is outcome
    assert row["event"] in verdict.finding.events
    report = summarize_capture(capture.name, capture.table, capture.info)
    assert report.answers[0].question == QUESTION
    assert report.answers[0].events[0] == row["event"]
    for text in (render_markdown(report), render_report_html(report, {})):
        assert 0 < text.index(QUESTION) < text.index("sources: amd_log")


def test_only_a_write_from_outside_could_end_the_recorded_circle(data_folder: Path, tmp_path: Path) -> None:
    capture = _import(data_folder / "captures" / "hang-deadlock", tmp_path / "x.tracecorr")
    (chain,) = find_still_open(capture.table).chains.values()
    assert chain.is_gated
    assert chain.others == ("a write of the host or of a device to 0x397ffd08",)


def test_a_log_that_ends_inside_a_call_says_so_first(data_folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "x.tracecorr"
    import_files(out, [data_folder / "cases" / "field" / "opencall.txt"], [])
    correlate(out)
    capture = Capture.open(out)
    answer = summarize_capture(capture.name, capture.table, capture.info).answers[0]
    assert answer.question == QUESTION
    assert answer.lines[0] == (
        "the log ends inside hipMemcpyWithStream (event 3, thread 0x7f8c5a889f80), open for at least 799.93 ms; last "
        "line of the thread: queue_allocated_count (event 4)"
    )


# The last lines of HIP issue 3367, with SYNTHETIC prefixes: hipStreamDestroy never returns.
_DESTROY = """\
:3:hip_stream.cpp           :373 : 2813836027 us: [pid:71 tid: 0x7febd0a01740] hipStreamDestroy ( 0x1688950 )
:5:command.cpp              :364 : 2813836031 us: [pid:71 tid: 0x7febd0a01740] Command (Marker) enqueued: 0x16a5c70 \
to queue: 0x1688950
:5:rocvirtual.cpp           :1568: 2813836040 us: [pid:71 tid: 0x7febd0a01740] SWq=0x7fecc8b10000, \
HWq=0x7fea6c200000, id=2, BarrierAND Header = 0x1503 (type=3, barrier=1, acquire=2, release=2), \
dep_signal=[0x0, 0x0, 0x0, 0x0, 0x0], completion_signal=0x7febc7a86d80, rptr=0, wptr=0
:4:command.cpp              :276 : 2813836044 us: [pid:71 tid: 0x7febd0a01740] Waiting for event 0x16a5c70 to \
complete, current status 2
"""


def test_a_call_waits_for_the_barrier_that_it_wrote_itself(tmp_path: Path) -> None:
    (tmp_path / "hip.log").write_text(_DESTROY)
    import_files(tmp_path / "x.tracecorr", [tmp_path / "hip.log"], [])
    correlate(tmp_path / "x.tracecorr")
    capture = Capture.open(tmp_path / "x.tracecorr")
    found = find_still_open(capture.table)
    assert found.calls.select("name", "last_line").rows() == [("hipStreamDestroy", "wait_event")]
    (chain,) = found.chains.values()
    (packet,) = capture.table("launches").collect().to_dicts()
    assert (chain.end, chain.events) == (End.RUNS, (found.calls["event"][0], packet["event"]))
    assert found.rings.select("first", "packets", "kind").rows() == [(0, 1, "barrier_and")]


def _hip(event: int, name: str, thread: int = 0, dur_ns: int | None = None, **more: Any) -> dict[str, Any]:
    flags = 1 if dur_ns is None else 0
    return {"event": event, "ts_ns": 1_000 * event, "dur_ns": dur_ns, "layer": "hip", "name": name, "process": 0,
            "thread": thread, "source": "amd_log", "flags": flags, **more}  # fmt: skip


def test_functions_that_print_no_return_are_not_open() -> None:
    """SYNTHETIC: hipMute never prints a return, and its thread went on each time but the last."""
    rows: Rows = {"events": [_hip(1, "hipMute"), _hip(2, "hipFree", dur_ns=10), _hip(3, "hipMute")]}
    assert find_still_open(tables_of(rows)).calls.is_empty()
    rows["events"] += [_hip(4, "hipFree", thread=1), _hip(5, "hipFree", thread=2, dur_ns=500)]
    found = find_still_open(tables_of(rows))
    assert found.calls.select("event", "open_ns").rows() == [(4, 1_500)]


def _ring(*works: tuple[int, tuple[Wait, ...]], ring: str = "q") -> dict[str, Work]:
    return {f"{ring}{i}": Work(f"{ring}{i}", f"packet {i} of {ring} (x)", ring, i, waits=waits) for i, waits in works}


_THREAD = {"t": Waiter("t", "thread 1", "hipStreamSynchronize", (Wait("signal", "s", ("q2",)),))}


@pytest.mark.parametrize(
    ("works", "heads", "end", "others"),
    [
        # A dispatch at the head: whether it ends cannot be told.
        (_ring((0, ()), (2, ())), {"q": "q0"}, End.RUNS, ()),
        # The packet stands at the head itself.
        (_ring((2, ())), {"q": "q2"}, End.RUNS, ()),
        # The head waits for a value that nobody is seen to write.
        (_ring((0, (Wait("value", "v"),)), (2, ())), {"q": "q0"}, End.UNSEEN, ()),
        # The writer is behind its waiter.
        (_ring((0, (Wait("value", "v", ("q1",), "the host"),)), (1, ()), (2, ())), {"q": "q0"}, End.CIRCLE,
         ("the host",)),
        # One of two writers stands in a free ring.
        (_ring((0, (Wait("value", "v", ("q1", "r0")),)), (1, ()), (2, ())) | _ring((0, ()), ring="r"),
         {"q": "q0", "r": "r0"}, End.RUNS, ()),
        # Two rings wait for each other's second packet.
        (_ring((0, (Wait("value", "v", ("r1",)),)), (2, ()))
         | _ring((0, (Wait("value", "w", ("q2",)),)), (1, ()), ring="r"), {"q": "q0", "r": "r0"}, End.CIRCLE, ()),
        # A barrier that waits for two: one runs, of the other nothing is known.
        (_ring((2, (Wait("signal", "a", ("r0",)), Wait("signal", "b")))) | _ring((0, ()), ring="r"),
         {"q": "q2", "r": "r0"}, End.UNSEEN, ()),
    ],
)  # fmt: skip
def test_a_chain_ends_where_nothing_more_is_seen(
    works: dict[str, Work], heads: dict[str, str], end: End, others: tuple[str, ...]
) -> None:
    chain = follow_waits(Scene(works, heads, _THREAD), "t")
    assert (chain.end, chain.others) == (end, others)


def test_one_of_several_dependencies_is_enough_for_a_barrier_or() -> None:
    works = _ring((0, ()), ring="r") | {
        "q2": Work("q2", "x", "q", 2, waits=(Wait("signal", "a"), Wait("signal", "b", ("r0",))), any_of=True)
    }
    assert follow_waits(Scene(works, {"q": "q2", "r": "r0"}, _THREAD), "t").end is End.RUNS


def test_two_threads_that_hold_each_others_lock_are_a_circle() -> None:
    waiters = {
        key: Waiter(key, key, "x", (Wait("lock", f"{key} waits for a lock of {other}", (other,)),))
        for key, other in (("t1", "t2"), ("t2", "t1"))
    }
    chain = follow_waits(Scene({}, {}, waiters), "t1")
    assert (chain.end, chain.is_gated) == (End.CIRCLE, True)


def test_an_open_futex_call_tells_the_lock_that_a_call_waits_for() -> None:
    """SYNTHETIC: who holds it is in no source; a call that did not get so far waits for something else."""
    traced = {"process": 0, "thread": 0, "layer": "syscall", "name": "futex", "source": "ftrace", "dur_ns": None}
    rows: Rows = {
        "events": [
            _hip(1, "hipMallocAsync"),
            {"event": 2, "ts_ns": 2_000, "flags": 1, **traced},
            _hip(3, "hipFree", 1),
        ],
        "args": [{"event": 2, "key": key, "u64": value} for key, value in (("uaddr", 0x10), ("op", 0x80), ("val", 2))],
    }
    found = find_still_open(tables_of(rows))
    assert {event: chain.end for event, chain in found.chains.items()} == {1: End.UNSEEN, 3: End.UNSEEN}
    assert found.chains[1].steps == ("it waits for the lock at 0x10 (futex, event 2)",)
    assert found.chains[3].steps == ()
    assert "hipMallocAsync: who holds that lock (not recorded) must end that" in list(describe_still_open(found))


def test_lines_of_the_driver_stand_beside_what_is_open() -> None:
    """SYNTHETIC; harmless messages and those about other processes are left out."""
    names = {5: ("mes_remove_queue_failed", 0, 0), 6: ("gpu_reset_begin", None, None), 7: ("queue_reset", 1, 1),
             8: ("runlist_oversubscribed", None, None)}  # fmt: skip
    lines = [
        {"event": event, "ts_ns": event, "layer": "kernel", "name": name, "process": process, "queue": queue,
         "source": "kernel_log"} for event, (name, process, queue) in names.items()
    ]  # fmt: skip
    texts = [{"event": event, "key": "text", "text": f"text {event}"} for event in names]
    ran = {"kind": "dispatch", "process": 0, "queue": 0, "kernel": 0, "call_event": 1, "header": 0x1502}
    rows: Rows = {
        "events": [_hip(1, "hipFree"), *lines], "args": texts, "kernels": [{"kernel": 0, "name": "spin"}],
        "launches": [
            {**ran, "event": 9, "packet_index": 0, "gpu_start_ns": 0, "gpu_end_ns": 1_200_000, "complete_ns": 9},
            {**ran, "event": 10, "packet_index": 1},
        ],
    }  # fmt: skip
    found = find_still_open(tables_of(rows))
    assert [(line.event, line.ring, line.names_process) for line in found.scene.lines] == [
        (5, "queue 0", True), (6, "", False),
    ]  # fmt: skip
    told = list(describe_still_open(found))
    assert [line for line in told if "kernel log" in line] == [
        "the kernel log: text 5 (event 5)", "the kernel log: text 6 (event 6)",
    ]  # fmt: skip
    assert any("(longest earlier run: 1.20 ms)" in line for line in told)
    assert {5, 6} <= set(list_events(found))
