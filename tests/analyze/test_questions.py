"""Questions about creation, memory, copies, waits, pauses and paths on SYNTHETIC tables with known answers."""

from __future__ import annotations

import polars as pl
from analyze_tables import Rows, table, tables_of
from synthetic_run import make_run

from tracecorr.analyze.calls import list_setup_calls, summarize_hsa_calls, summarize_waits
from tracecorr.analyze.evidence import Evidence
from tracecorr.analyze.ioctls import explain_ioctls
from tracecorr.analyze.latency import summarize_paths
from tracecorr.analyze.launches import NO_PACKET
from tracecorr.analyze.memory import summarize_copies, summarize_memory
from tracecorr.analyze.priorities import summarize_priorities, summarize_service
from tracecorr.analyze.queue_creation import summarize_mqd_operations, summarize_queue_creation
from tracecorr.analyze.report import summarize_capture
from tracecorr.analyze.report.answers import Answer
from tracecorr.analyze.report.markdown import render_markdown
from tracecorr.analyze.report.questions import answer_questions
from tracecorr.analyze.verdicts import judge_capture


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
    assert said.endswith("; in it at least 3 ioctls of its thread took 440 ns in total")
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
    assert explain_ioctls(tables_of(run)("events")).endswith("kfd_ioctl, for 1 of them that of the function in it")
    assert "took 300 ns and its result is unknown" in _answer(run)[0].lines[0]
    (verdict,) = judge_capture(tables_of(run), names=["kfd_create_under_1ms"])
    assert "1 more" in verdict.finding.reason
    run["events"] = [e for e in run["events"] if e["event"] != 10]
    (verdict,) = judge_capture(tables_of(run), names=["kfd_create_under_1ms"])
    assert verdict.finding.reason == "the result of the 1 CREATE_QUEUE ioctl is unknown"
    made["dur_ns"] = None
    assert "took an unknown time and its return was not recorded" in _answer(run)[0].lines[0]
    (verdict,) = judge_capture(tables_of(run), names=["kfd_create_under_1ms"])
    assert "no return is recorded" in verdict.finding.reason


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
        "process": 0, "kind": "allocate_device", "allocations": 3, "failed": 0,
        "failed_bytes": None, "freed": 2, "unsized": 0, "bytes": 180,
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


def test_answers_in_words_name_their_rows() -> None:
    run = Evidence(tables_of(make_run()))
    answers = answer_questions(run, judge_capture(run))
    assert len(answers) == 7
    assert answers[0].lines[0] == (
        "queue 0: requested by hipStreamCreateWithPriority (event 1); the runtime took 850 ns; CREATE_QUEUE (event 3) "
        "took 300 ns and returned 0"
    )
    assert answers[0].lines[1] == (
        "1 more CREATE_QUEUE ioctl is not joined to a line of the HIP log (ROCr's own queues and SDMA queues have none)"
        "; "
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


def test_why_nothing_tells_who_is_served_first() -> None:
    """Each step further: no kernel, no GPU time, no recorded doorbell, one priority; with two it is told."""
    run = make_run()
    kernel = {"kind": "dispatch", "queue": 0, "packet_ns": 90, "doorbell_ns": 100, "complete_ns": 900}
    timed = {**kernel, "gpu_start_ns": 300}
    rung = {**timed, "doorbell_evidence": "recorded"}
    run["queues"].append({"queue": 7, "process": 0, "hwq": 0x99, "priority_log": 0})

    def told(*launches: dict[str, object]) -> list[str]:
        lines = _answer({**run, "launches": list(launches)})[4].lines
        begin = "who is served first is unknown: "
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
        assert ("every packet and copy has all its links" in render_markdown(report)) == (not missing)


def test_a_refused_queue_is_never_said_to_be_made() -> None:
    run = make_run()
    for event in run["events"]:
        if event["name"] == "AMDKFD_IOC_CREATE_QUEUE":
            event["result"] = "EINVAL"
    creation, _, _, queues, *_ = _answer(run)
    assert creation.lines[0].endswith("took 300 ns and returned EINVAL: the driver created no queue")
    assert creation.lines[1].endswith("; the driver refused it (EINVAL)")
    assert "the driver refused CREATE_QUEUE for all of them (EINVAL)" in queues.lines


def _answer(run: Rows) -> tuple[Answer, ...]:
    evidence = Evidence(tables_of(run))
    return answer_questions(evidence, judge_capture(evidence))
