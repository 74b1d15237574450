"""Questions about creation, memory, copies, waits, pauses and paths on SYNTHETIC tables with known answers."""

from __future__ import annotations

import polars as pl
import pytest
from analyze_tables import Rows, table, tables_of
from synthetic_run import make_run

from tracecorr.analyze.calls import list_setup_calls, summarize_hsa_calls, summarize_waits
from tracecorr.analyze.evidence import Evidence
from tracecorr.analyze.ioctls import explain_ioctls, summarize_driver_events, summarize_drm_jobs
from tracecorr.analyze.latency import summarize_paths
from tracecorr.analyze.launches import NO_PACKET, summarize_gaps
from tracecorr.analyze.memory import summarize_copies, summarize_memory
from tracecorr.analyze.priorities import summarize_priorities, summarize_service
from tracecorr.analyze.queue_creation import find_enclosing_ioctls, summarize_mqd_operations, summarize_queue_creation
from tracecorr.analyze.queues import summarize_backlog
from tracecorr.analyze.report import summarize_capture
from tracecorr.analyze.report.markdown import render_markdown
from tracecorr.analyze.report.parts import Answer
from tracecorr.analyze.report.questions import answer_questions
from tracecorr.analyze.verdicts import judge_capture


def test_queue_creation_on_each_side() -> None:
    rows = summarize_queue_creation(tables_of(make_run())).to_dicts()
    first = {k: rows[0][k] for k in ("queue", "call", "rocr_ns", "ioctl_ns", "ioctl_result", "kfd_ns", "mqd_ns")}
    assert first == {
        "queue": 0, "call": "hipStreamCreateWithPriority", "rocr_ns": 850, "ioctl_ns": 300, "ioctl_result": "0",
        "kfd_ns": 250, "mqd_ns": 50,
    }  # fmt: skip
    assert (rows[0]["init_mqd_event"], rows[0]["mqd_operations"], rows[0]["doorbell_map_event"]) == (5, "init", 8)
    assert (rows[1]["created_line_event"], rows[1]["init_mqd_event"], rows[1]["doorbell_map_event"]) == (None, 11, 8)


def test_without_threads_the_two_lines_of_a_creation_belong_together_in_their_call() -> None:
    run = make_run()
    for event in run["events"]:
        event["thread"] = None
    assert summarize_queue_creation(tables_of(run))["rocr_ns"].to_list() == [850, None]
    next(e for e in run["events"] if e["event"] == 2)["parent"] = None
    assert summarize_queue_creation(tables_of(run))["rocr_ns"].to_list() == [None, None]


def test_only_ioctls_that_surely_lie_in_a_creation_are_summed_up() -> None:
    """What an error of a clock may put outside, other threads and guessed threads do not count."""
    run = make_run()
    ioctl = {"layer": "ioctl", "name": "AMDKFD_IOC_ALLOC_MEMORY_OF_GPU", "process": 0, "thread": 0, "dur_ns": 40}
    for event in run["events"]:
        event |= {"err_lo_ns": 0, "err_hi_ns": 0}
    run["events"] += [
        {**ioctl, "event": 60, "ts_ns": 1_049, "err_lo_ns": 0, "err_hi_ns": 0},
        {**ioctl, "event": 61, "ts_ns": 1_060, "err_lo_ns": 20, "err_hi_ns": 0},
        {**ioctl, "event": 62, "ts_ns": 1_450, "err_lo_ns": 20, "err_hi_ns": 20},
        {**ioctl, "event": 63, "ts_ns": 1_700, "thread": 1, "err_lo_ns": 0, "err_hi_ns": 0},
        {**ioctl, "event": 64, "ts_ns": 1_855, "err_lo_ns": 0, "err_hi_ns": 10},
        {**ioctl, "event": 65, "ts_ns": 1_700},
    ]

    def told() -> list[tuple[int | None, int | None]]:
        return summarize_queue_creation(tables_of(run)).select("rocr_ioctls", "rocr_in_ioctls_ns").rows()

    # CREATE_QUEUE, UPDATE_QUEUE and event 62.
    assert told() == [(3, 440), (None, None)]
    said = judge_capture(tables_of(run), names=["rocr_create_time"])[0].finding.reason
    assert said.endswith("; 3 ioctls of its thread that surely lie in it took 440 ns in total")
    assert (
        "the runtime took 850 ns, in it at least 3 ioctls of 440 ns in total; CREATE_QUEUE (event 3) took 300 ns"
        in (_answer(run)[0].lines[0])
    )
    run["threads"][0]["evidence"] = "inferred"
    assert told() == [(None, None)] * 2
    said = judge_capture(tables_of(run), names=["rocr_create_time"])[0].finding.reason
    assert said.endswith("; the longest CREATE_QUEUE ioctl took 300 ns")


def test_ioctls_that_only_functions_of_the_driver_show_are_told_as_such() -> None:
    run = make_run()
    made = next(e for e in run["events"] if e["event"] == 3)
    assert "sys_enter" in explain_ioctls(table("events", made | {"cmd": 0xC0604B02}))
    made["result"] = None
    assert explain_ioctls(tables_of(run)("events")).endswith("kfd_ioctl, of 1 that of the function in it")
    assert "took 300 ns and what it returned is not known" in _answer(run)[0].lines[0]
    (verdict,) = judge_capture(tables_of(run), names=["kfd_create_under_1ms"])
    assert "1 more" in verdict.finding.reason
    run["events"] = [e for e in run["events"] if e["event"] != 10]
    (verdict,) = judge_capture(tables_of(run), names=["kfd_create_under_1ms"])
    assert verdict.finding.reason == "what the 1 CREATE_QUEUE ioctl returned is not known"
    made["dur_ns"] = None
    assert "took an unknown time and its return was not seen" in _answer(run)[0].lines[0]
    (verdict,) = judge_capture(tables_of(run), names=["kfd_create_under_1ms"])
    assert "none of them is seen to return" in verdict.finding.reason


def test_doorbell_mapping_of_another_gpu_is_not_taken() -> None:
    run = make_run()
    run["gpus"][0]["gpu_id"] = 0x1234
    assert summarize_queue_creation(tables_of(run))["doorbell_map_event"].to_list() == [None, None]


def test_enclosing_ioctls_are_found_through_any_depth() -> None:
    events = pl.DataFrame({
        "event": [5, 7, 9, 11, 13],
        "parent": [None, 5, 7, 99, 11],
        "layer": ["ioctl", "kfd", "mqd", "kfd", "mqd"],
    })  # fmt: skip
    assert sorted(find_enclosing_ioctls(events).rows()) == [(7, 5), (9, 5)]


def test_mqd_calls_of_a_wrapper_count_once() -> None:
    rows = [(1, "ioctl", "AMDKFD_IOC_CREATE_QUEUE", None), (2, "kfd", "create_queue_cpsch", 1)]
    rows += [
        (3, "mqd", "init_mqd_v9_4_3", 2),
        (4, "mqd", "init_mqd", 3),
        (5, "mqd", "init_mqd", 3),
        (6, "mqd", "init_mqd_hiq", 2),
    ]
    rows += [
        (7, "mqd", "restore_mqd", None),
        (8, "ioctl", "AMDKFD_IOC_UPDATE_QUEUE", None),
        (9, "mqd", "update_mqd", 8),
    ]
    names = ("event", "layer", "name", "parent")
    events = pl.DataFrame(
        rows, schema=dict(zip(names, (pl.Int64, pl.String, pl.String, pl.Int64), strict=True)), orient="row"
    )
    found = summarize_mqd_operations(events.with_columns(ts_ns=pl.col("event"), flags=pl.lit(0, pl.UInt16)))
    assert found.select("event", "operation", "cause", "ioctl").rows() == [
        (3, "init", "create", 1), (7, "restore", "restore", None), (9, "update", "update", 8),
    ]  # fmt: skip


def test_backlog_survives_the_wrap_of_printed_indexes() -> None:
    launches = table(
        "launches",
        {"event": 1, "kind": "dispatch", "queue": 0, "packet_ns": 10, "rptr": 2**32 - 1, "wptr": 3},
        {"event": 2, "kind": "dispatch", "queue": 0, "packet_ns": 20, "rptr": 3, "wptr": 4},
    )
    row = summarize_backlog(launches, table("queues", {"queue": 0, "size": 16384})).row(0, named=True)
    assert (row["peak"], row["peak_event"], row["peak_at_ns"], row["measured"]) == (5, 1, 10, 2)


def test_copies_have_a_rate_only_where_their_end_is_recorded() -> None:
    timed = {"gpu_start_ns": 10, "gpu_end_ns": 60}
    launches = table(
        "launches",
        {"kind": "copy", "engine": 1, "size_bytes": 1000, "packet_ns": 0, "complete_ns": 90} | timed,
        {"kind": "copy", "engine": 1, "size_bytes": 5000, "packet_ns": 0, "complete_ns": 100},
        {"kind": "copy", "engine": 2, "size_bytes": 8, "packet_ns": 0, "complete_ns": 7},
        {"kind": "dispatch", "kernel": 0},
    )
    events = table(
        "events", {"layer": "copy", "name": "memcpy_to_staging", "size_bytes": 64},
        {"layer": "copy", "name": "host_memcpy", "size_bytes": 8},
    )  # fmt: skip
    kernels = table("kernels", {"kernel": 0, "name": "__amd_rocclr_copyBuffer(x)"})
    rows = {(r["path"], r["engine"]): r for r in summarize_copies(events, launches, kernels).to_dicts()}
    first = rows["copy engine (SDMA)", 1]
    assert (first["copies"], first["bytes"], first["gpu_timed"], first["gb_per_s"]) == (2, 6000, 1, 20.0)
    # By nearest rank, as in every table: of two values P50 is the smaller one.
    assert (first["p50_bytes"], first["observed_p50_ns"]) == (1000, 90)
    assert rows["copy engine (SDMA)", 2]["gb_per_s"] is None
    # Some lines of copies tell no size: of 5000 bytes and an unknown number the sum is unknown.
    untold = launches.with_columns(size_bytes=pl.when(pl.col("size_bytes") == 5000).then("size_bytes"))
    rows = {(r["path"], r["engine"]): r for r in summarize_copies(events, untold, kernels).to_dicts()}
    for engine in (1, 2):
        row = rows["copy engine (SDMA)", engine]
        assert (row["bytes"], row["gb_per_s"]) == (None, None)
    assert rows["host memcpy into a staging buffer", None]["bytes"] == 64
    assert rows["host memcpy without the GPU", None]["bytes"] == 8
    assert rows["blit kernel __amd_rocclr_copyBuffer", None]["copies"] == 1


def test_kernels_of_the_runtime_that_copy_nothing_are_no_copies() -> None:
    names = ("copyBufferRect", "streamOpsWrite", "streamOpsWait", "batchMemOp", "gwsInit", "initHeap", "scheduler")
    kernels = table("kernels", *({"kernel": i, "name": f"__amd_rocclr_{name}"} for i, name in enumerate(names)))
    launches = table("launches", *({"kind": "dispatch", "kernel": i} for i in range(len(names))))
    rows = summarize_copies(table("events"), launches, kernels)
    assert rows.select("path", "copies").rows() == [("blit kernel __amd_rocclr_copyBufferRect", 1)]


def test_memory_held_at_once() -> None:
    def line(ts_ns: int, name: str, arg: int, size: int | None = None) -> dict[str, object]:
        return {
            "event": ts_ns,
            "ts_ns": ts_ns,
            "layer": "memory",
            "name": name,
            "arg": arg,
            "size_bytes": size,
            "process": 0,
        }

    events = table(
        "events", line(1, "allocate_device", 10, 100), line(2, "allocate_device", 20, 50), line(3, "free", 10),
        line(4, "allocate_device", 10, 30), line(5, "free", 10),
    )  # fmt: skip
    (row,) = summarize_memory(events).to_dicts()
    assert row == {
        "process": 0, "kind": "allocate_device", "allocations": 3, "freed": 2, "unsized": 0, "bytes": 180,
        "largest_bytes": 100, "peak_bytes": 150, "peak_at_ns": 2,
    }  # fmt: skip
    lost = table(
        "events", line(1, "allocate_device", 10, 100), line(2, "allocate_device", 10, 30), line(3, "free", 10),
        line(4, "allocate_device", 10, 50), line(5, "allocate_device", 20, 60), line(6, "allocate_device", 20, 80),
    )  # fmt: skip
    (row,) = summarize_memory(lost).to_dicts()
    # The address was given out again, so it had been freed: by a line that is lost.
    assert (row["allocations"], row["freed"], row["peak_bytes"], row["peak_at_ns"]) == (5, 1, 130, 6)
    again = table("events", line(1, "lock", 10, 100), line(2, "lock", 10, 100))
    (row,) = summarize_memory(again).to_dicts()
    assert (row["allocations"], row["freed"], row["bytes"], row["peak_bytes"]) == (2, None, 200, None)


@pytest.mark.parametrize("other", [1, None])
def test_memory_is_that_of_each_process(other: int | None) -> None:
    """Both hold the same address, as processes do; a log may name none."""
    lines = [
        (0, "allocate_device", 100), (other, "allocate_device", 300), (0, "allocate_host", 7), (other, "free", None),
        (other, "allocate_device", 40),
    ]  # fmt: skip
    events = table(
        "events",
        *({"event": n, "ts_ns": n, "layer": "memory", "name": name, "arg": 10, "size_bytes": size, "process": process}
          for n, (process, name, size) in enumerate(lines)),
    )  # fmt: skip
    rows = summarize_memory(events).select("process", "kind", "freed", "bytes", "peak_bytes", "peak_at_ns").rows()
    mine = [(0, "allocate_device", 0, 100, 100, 0), (0, "allocate_host", 0, 7, 7, 2)]
    assert sorted(rows, key=lambda row: row[0] != 0) == [*mine, (other, "allocate_device", 1, 340, 300, 1)]


def test_a_lock_that_rocr_refused_holds_no_bytes() -> None:
    """Its line has no address on the device; that of another kind of row is of something else."""
    line = {"layer": "memory", "name": "lock", "process": 0, "arg": 0x7F00, "size_bytes": 4096}
    lines = [{**line, "event": n, "ts_ns": n} for n in range(3)]
    other = {**line, "event": 3, "ts_ns": 3, "name": "allocate_host"}
    told = [{"event": n, "key": "device_address", "u64": address} for n, address in ((0, 0), (1, 0x14000), (3, 0))]
    rows = summarize_memory(table("events", *lines, other), table("args", *told)).to_dicts()
    assert [(r["kind"], r["allocations"], r["refused"], r["bytes"]) for r in rows] == [
        ("allocate_host", 1, None, 4096), ("lock", 3, 1, 8192)
    ]  # fmt: skip


def test_copies_whose_engine_rocr_chose_are_in_a_row_of_their_own() -> None:
    launches = table("launches", *({"kind": "copy", "engine": engine, "size_bytes": 8} for engine in (0, None, 4)))
    rows = summarize_copies(table("events"), launches, table("kernels"))
    assert set(rows.select("path", "engine", "copies").rows()) == {
        ("hsa copy, engine left to ROCr", 0, 1), ("hsa copy, engine left to ROCr", None, 1),
        ("copy engine (SDMA)", 4, 1),
    }  # fmt: skip


def test_waits_and_hsa_calls() -> None:
    events = table(
        "events",
        {"layer": "hip", "name": "hipDeviceSynchronize", "dur_ns": 50},
        {"layer": "hip", "name": "hipMemcpy", "dur_ns": 20},
        {"layer": "hip", "name": "hipMemcpyAsync", "dur_ns": 20},
        {"layer": "hip", "name": "hipMemcpy", "dur_ns": 19, "source": "rocprof"},  # the same call, seen twice
        {"layer": "signal", "name": "host_wait"},
        {"layer": "ioctl", "name": "AMDKFD_IOC_WAIT_EVENTS", "dur_ns": 5},
        {"layer": "hsa", "name": "hsa_signal_create", "dur_ns": 5, "source": "rocprof", "result": "0"},
    )
    assert summarize_waits(events).select("name", "total_ns").rows() == [
        ("hipDeviceSynchronize", 50), ("hipMemcpy", 20), ("AMDKFD_IOC_WAIT_EVENTS", 5), ("host_wait", None),
    ]  # fmt: skip
    assert summarize_hsa_calls(events).select("source", "name", "calls").rows() == [("rocprof", "hsa_signal_create", 1)]


def test_a_call_waits_where_a_wait_lies_in_it() -> None:
    events = table(
        "events",
        *({"event": n, "layer": "hip", "name": "hipFree", "dur_ns": 10 * (n + 1)} for n in range(3)),
        {"event": 3, "layer": "hip", "name": "hipFreeAsync", "dur_ns": 10},
        *({"event": 4 + n, "layer": "signal", "name": "host_wait", "chain": 1} for n in range(2)),
        {"event": 6, "layer": "signal", "name": "set_handler", "chain": 0},
        {"event": 7, "layer": "ioctl", "name": "AMDKFD_IOC_WAIT_EVENTS", "dur_ns": 5, "chain": 2},
    )
    rows = summarize_waits(events).select("layer", "name", "waits", "total_ns").rows()
    assert rows[0] == ("hip", "hipFree", 2, 50) and [name for _, name, *_ in rows[1:]] == [
        "AMDKFD_IOC_WAIT_EVENTS", "host_wait",
    ]  # fmt: skip


def test_pauses_are_those_between_packets_of_one_queue() -> None:
    packets = [
        {"event": i, "kind": "dispatch", "queue": 0, "packet_ns": t} for i, t in enumerate((0, 10, 20, 1_000_000))
    ]
    (row,) = summarize_gaps(table("launches", *packets)).to_dicts()
    assert (row["p50_ns"], row["max_ns"], row["max_gap_event"], row["per_second"]) == (10, 999_980, 3, 3000.0)
    # Packets of other queues lie between, in any order; a queue with one packet has no pause.
    more = [{"event": 9 - i, "kind": "dispatch", "queue": q, "packet_ns": t} for i, (q, t) in
            enumerate(((2, 500), (1, 35), (1, 15), (1, 5)))]  # fmt: skip
    rows = summarize_gaps(table("launches", *packets, *more, {"kind": "copy", "packet_ns": 7, "queue": 1})).to_dicts()
    names = ("queue", "packets", "max_ns", "max_gap_event", "max_gap_at_ns", "per_second")
    assert [tuple(r[k] for k in names) for r in rows] == [
        (0, 4, 999_980, 3, 1_000_000, 3000.0), (1, 3, 20, 8, 35, 66666666.7), (2, 1, None, None, None, None),
    ]  # fmt: skip


def test_setup_launches_stand_apart() -> None:
    run = make_run()
    run["events"].append({"event": 60, "ts_ns": 5_100, "layer": "syscall", "name": "mmap", "dur_ns": 40, "chain": 19})
    tables = tables_of(run)
    assert list_setup_calls(tables("events")).sort("chain").rows() == [
        (1, "allocates memory, creates a queue"), (19, "allocates memory"),
    ]  # fmt: skip
    rows = {(r["phase"], r["layer"]): r for r in summarize_paths(tables("launches"), tables("events")).to_dicts()}
    assert rows["steady", "doorbell"]["mean_ns"] == 5
    assert (rows["setup", "kernel_mode"]["total_ns"], rows["steady", "kernel_mode"]["total_ns"]) == (40, 0)
    assert rows["setup", "return"]["total_ns"] == 495
    run["events"].append(
        {"event": 61, "ts_ns": 5_150, "layer": "syscall", "name": "futex", "dur_ns": None, "chain": 19}
    )
    halves = summarize_paths(tables_of(run)("launches"), tables_of(run)("events"))
    assert halves.filter(layer="kernel_mode")["phase"].to_list() == ["steady"]  # a system call without its end
    log = run["events"] = [row for row in run["events"] if row.get("layer") not in ("syscall", "ioctl")]
    untraced = summarize_paths(tables_of(run)("launches"), table("events", *log))
    assert "kernel_mode" not in untraced["layer"]  # not 0: no trace would have shown a system call


def test_a_share_is_of_the_whole_call_where_no_doorbell_is_recorded() -> None:
    run = make_run()
    run["launches"] = [{**row, "enqueue_ns": row["call_ns"] + 100} for row in run["launches"]]

    def shares() -> dict[str, float]:
        rows = summarize_paths(tables_of(run)("launches"), table("events"))
        return dict(rows.drop_nulls("share").select("layer", "share").iter_rows())

    assert shares() == {"hip": 11.1, "command": 33.3, "doorbell": 0.6, "return": 55.0}
    run["launches"] = [{**row, "doorbell_ns": None} for row in run["launches"]]
    assert shares() == {"hip": 11.1, "command": 33.3}
    run["launches"] = [{**row, "return_ns": None} for row in run["launches"]]
    assert shares() == {}


def test_answers_in_words_name_their_rows() -> None:
    run = Evidence(tables_of(make_run()))
    answers = answer_questions(run, judge_capture(run))
    assert len(answers) == 6
    assert answers[0].lines[0] == (
        "queue 0: requested by hipStreamCreateWithPriority (event 1); the runtime took 850 ns; CREATE_QUEUE (event 3) "
        "took 300 ns and returned 0"
    )
    assert answers[0].lines[1] == (
        "1 more CREATE_QUEUE ioctl is joined to no line of the HIP log (queues of ROCr's own and of SDMA have none); "
        "the longest took 300 ns"
    )
    assert answers[1].events == (5, 11)
    assert "2 queues are known: 1 compute_aql, 1 sdma" in answers[3].lines
    empty = Evidence(tables_of({}))
    assert "not recorded" in answer_questions(empty, judge_capture(empty))[1].lines[0]


def test_service_by_priority_counts_recorded_doorbells_only() -> None:
    run = make_run()
    run["queues"].append({"queue": 7, "process": 0, "hwq": 0x99, "priority_log": 0})
    timed = {"kind": "dispatch", "doorbell_evidence": "recorded", "doorbell_ns": 100, "packet_ns": 90}
    timed |= {"doorbell_event": 0, "gpu_event": 1}
    run["events"] = [{"event": 0, "err_lo_ns": 1, "err_hi_ns": 2}, {"event": 1, "err_lo_ns": 30, "err_hi_ns": 40}]
    run["launches"] = [
        {**timed, "queue": 7, "gpu_start_ns": 900, "complete_ns": 1_090},
        {**timed, "queue": 0, "gpu_start_ns": 150, "complete_ns": 290},
        {**timed, "queue": 0, "gpu_start_ns": 160},
        {**timed, "queue": 0, "gpu_start_ns": 5_000, "doorbell_evidence": "inferred"},
        {**timed, "kind": "copy", "queue": None, "complete_ns": 7_000},
    ]
    tables = tables_of(run)
    rows = summarize_service(tables("launches"), tables("events"), summarize_priorities(tables)).to_dicts()
    names = ("queue", "priority_hip", "priority_log", "packets", "timed", "start_p50_ns", "start_max_ns")
    assert [tuple(r[k] for k in names) for r in rows] == [(0, -1, 2, 3, 2, 50, 60), (7, None, 0, 1, 1, 800, 800)]
    assert [r["completion_max_ns"] for r in rows] == [200, 1_000]
    told = _answer(run)[4].lines
    assert (
        "queue 0 (log priority 2): doorbell to GPU start 50 ns P50, 60 ns P95 of 2 dispatch packets, each known to "
        "+- 41 ns"
    ) in told
    assert not any("not kernels" in line for line in told)
    assert not any("doorbell to GPU start" in line for line in _answer(make_run())[4].lines)


def test_barriers_are_not_told_as_kernels_that_waited() -> None:
    run = make_run()
    run["queues"].append({"queue": 7, "process": 0, "hwq": 0x99, "priority_log": 0})
    timed = {"kind": "barrier_value", "doorbell_evidence": "recorded", "doorbell_ns": 100, "packet_ns": 90}
    kernel = {"kind": "dispatch", "packet_ns": 80}
    run["launches"] = [
        {**kernel, "queue": 0, "complete_ns": 280},
        {**timed, "queue": 0, "gpu_start_ns": 1_150, "complete_ns": 5_090},
        {**kernel, "queue": 7},
        {**timed, "queue": 7, "gpu_start_ns": 900},
    ]
    tables = tables_of(run)
    rows = summarize_service(tables("launches"), tables("events"), summarize_priorities(tables))
    columns = ("queue", "kind", "packets", "timed", "start_p50_ns", "completion_max_ns")
    assert rows.select(columns).rows() == [
        (0, "dispatch", 1, 0, None, 200), (0, "barrier_value", 1, 1, 1_050, 5_000),
        (7, "barrier_value", 1, 1, 800, None),
    ]  # fmt: skip
    told = _answer(run)[4].lines
    assert any("1.05 us P95 of 1 barrier_value packets" in line for line in told)
    assert any(line.startswith("these are barrier_value packets, not kernels") for line in told)
    # Kernels of one priority alone are not compared with barriers of the other.
    run["launches"][2] |= {**timed, "kind": "dispatch", "gpu_start_ns": 700}
    assert any("not kernels" in line for line in _answer(run)[4].lines)
    run["launches"][0] |= {**timed, "kind": "dispatch", "gpu_start_ns": 120}
    told = _answer(run)[4].lines
    assert [line for line in told if "barrier" in line] == []
    assert sum("P95 of 1 dispatch packets" in line for line in told) == 2


def test_why_nothing_tells_who_is_served_first() -> None:
    """Each step further: no kernel, no GPU time, no recorded doorbell, one priority; with two it is told."""
    run = make_run()
    kernel = {"kind": "dispatch", "queue": 0, "packet_ns": 90, "doorbell_ns": 100, "complete_ns": 900}
    timed = {**kernel, "gpu_start_ns": 300}
    rung = {**timed, "doorbell_evidence": "recorded"}
    run["queues"].append({"queue": 7, "process": 0, "hwq": 0x99, "priority_log": 0})

    def told(*launches: dict[str, object]) -> list[str]:
        lines = _answer({**run, "launches": list(launches)})[4].lines
        begin = "who is served first cannot be told: "
        return [line.removeprefix(begin).split(", or compare")[0] for line in lines if line.startswith(begin)]

    profile = "to know it: run with profiling on, or import a profile of the same run (--rocprof)"
    assert told({**timed, "kind": "barrier_and"})[0].startswith("no kernel is in the log; to know it: launch some")
    assert told(kernel, kernel) == [f"no kernel has GPU times; {profile}, and trace the doorbells"]
    assert told(kernel, {**rung, "gpu_start_ns": None}) == [f"no kernel has GPU times; {profile}"]
    assert told(kernel, timed)[0].startswith("no kernel with GPU times has a recorded doorbell; to know it: trace with")
    assert told(kernel, rung)[0].startswith("no kernels of two priorities were timed")
    assert told(rung, {**rung, "queue": 7}) == []
    run["files"] = run["files"][1:]
    assert told()[0].startswith("there is no HIP log; to know it: record one (AMD_LOG_LEVEL=5)")


def test_without_packets_no_link_is_said_to_be_complete() -> None:
    run = make_run()
    for files, launches, missing in (
        (run["files"], [{"kind": "dispatch"}], ""),
        (run["files"], [], NO_PACKET),
        (run["files"][1:], [], "no AMD log: packets unknown; import with --amd-log"),
    ):
        report = summarize_capture("x", tables_of({**run, "files": files, "launches": launches}))
        (section,) = (s for s in report.sections if s.key == "unlinked")
        assert (section.missing, section.frame.height) == (missing, 0)
        assert ("no packet or copy lacks a link" in render_markdown(report)) == (not missing)


def test_jobs_of_each_ring() -> None:
    gfx = {"ring": "gfx", "ring_kind": "gfx"}
    jobs = table(
        "drm_jobs",
        {**gfx, "queued_ns": 10, "run_ns": 30, "done_ns": 100, "process": 1},
        {**gfx, "queued_ns": 20, "run_ns": 60, "process": 1},
        {**gfx, "run_ns": 70, "done_ns": 75},
        {"ring": "sdma0", "ring_kind": "sdma", "queued_ns": 5},
    )
    first, second = summarize_drm_jobs(jobs).to_dicts()
    assert [first[k] for k in ("ring", "jobs", "queued", "run", "done", "processes")] == ["gfx", 3, 2, 3, 2, 1]
    assert [first[k] for k in ("waited_p50_ns", "waited_max_ns", "ran_p50_ns", "ran_max_ns")] == [20, 40, 5, 70]
    assert [second[k] for k in ("ring", "jobs", "run", "waited_p50_ns", "ran_max_ns")] == ["sdma0", 1, 0, None, None]


def test_kernel_functions_beside_the_ioctls() -> None:
    seen = {"source": "ftrace"}
    events = table(
        "events",
        {**seen, "layer": "kfd", "name": "kfd_ioctl_create_queue", "dur_ns": 70},
        {**seen, "layer": "kfd", "name": "kfd_ioctl_create_queue", "dur_ns": 30},
        {**seen, "layer": "amdgpu", "name": "amdgpu_vm_flush"},
        {**seen, "layer": "ioctl", "name": "AMDKFD_IOC_CREATE_QUEUE", "dur_ns": 90},
        {"source": "amd_log", "layer": "other", "name": "unknown"},
    )
    rows = summarize_driver_events(events).to_dicts()
    assert [(r["layer"], r["name"], r["rows"], r["total_ns"], r["max_ns"]) for r in rows] == [
        ("amdgpu", "amdgpu_vm_flush", 1, None, None), ("kfd", "kfd_ioctl_create_queue", 2, 100, 70),
    ]  # fmt: skip


def test_a_first_launch_that_builds_its_program_is_setup() -> None:
    event = {"event": 1, "layer": "other", "name": "code_object_version", "chain": 7}
    assert list_setup_calls(table("events", event)).rows() == [(7, "loads code")]


def test_a_refused_queue_is_never_said_to_be_made() -> None:
    run = make_run()
    for event in run["events"]:
        if event["name"] == "AMDKFD_IOC_CREATE_QUEUE":
            event["result"] = "EINVAL"
    creation, _, _, queues, *_ = _answer(run)
    assert creation.lines[0].endswith("took 300 ns and returned EINVAL: the driver made no queue")
    assert creation.lines[1].endswith("; the driver refused it (EINVAL)")
    assert "the driver refused CREATE_QUEUE for all of them (EINVAL)" in queues.lines


def test_a_trace_alone_tells_what_its_ioctls_took() -> None:
    run = make_run()
    run["files"] = run["files"][1:]
    run["queues"][0].update(created_line_event=None)
    creation = _answer(run)[0]
    assert creation.events == (3, 10)
    assert creation.lines == tuple(
        f"queue {queue}: CREATE_QUEUE (event {event}) took 300 ns and returned 0; which HIP call asked for it is not "
        "known without a HIP log"
        for queue, event in ((0, 3), (1, 10))
    )


def _answer(run: Rows) -> tuple[Answer, ...]:
    evidence = Evidence(tables_of(run))
    return answer_questions(evidence, judge_capture(evidence))
