"""The life of a queue inside the driver (synthetic traces in real text: no recorded driver had a GPU)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tracecorr.analyze.verdicts import judge_capture
from tracecorr.link.mqds import list_mqd_operations
from tracecorr.pipeline import correlate, import_files
from tracecorr.store import Capture

Correlator = Callable[[str], Capture]
RING, GPU = 0x7F4910800000, 0xF7BC


def _probe(name: str, fields: str = "", inner: list[str] | None = None, result: str = "ret=0") -> list[str]:
    """Return the lines of a kprobe and its return probe, with what ran between."""
    return [
        f"a-10 10 {name}: ({name}+0x4/0x90 [amdgpu]) {fields}".rstrip(), *(inner or []),
        f"a-10 10 {name}_ret: (caller+0x8/0x90 [amdgpu] <- {name}) {result}",
    ]  # fmt: skip


def _function(name: str) -> list[str]:
    """Return the line of the function tracer."""
    return [f"a-10 10 {name} <-caller"]


def _ioctl(cmd: str, inner: list[str], result: str = "0x0") -> list[str]:
    return [f"a-10 10 sys_ioctl(fd: 4, cmd: {cmd}, arg: 0x7ffc)", *inner, f"a-10 10 sys_ioctl -> {result}"]


def _create(inner: list[str], qid: int = 1, ring: int = RING, result: str = "") -> list[str]:
    fields = f"ring={ring:#x} size=1048576 gpu={GPU:#x} type=2 prio=7"
    result = result or f"ret=0 qid={qid} doorbell=0xfdef000000000008"
    return _ioctl("0xc0604b02", _probe("kfd_ioctl_create_queue", fields, inner, result))


def _flat(lines: Iterator[list[str]]) -> list[str]:
    return [line for group in lines for line in group]


def _queues(capture: Capture, *columns: str) -> list[Any]:
    return capture.table("queues").sort("created_ns").select(columns).collect().rows()


def _multiplicities(capture: Capture) -> list[tuple[str, int]]:
    args = capture.table("args").filter(pl.col("key").cast(pl.String) == "mqd_multiplicity")
    names = capture.table("events").select("event", pl.col("name").cast(pl.String))
    return args.join(names, on="event").sort("event").select("name", "u64").collect().rows()


def _mi300(xccs: int) -> list[str]:
    """Return a creation under HWS on a part of the MI300 family: the wrapper, and the plain functions once per XCC."""
    plain = _flat(_probe("init_mqd", inner=_probe("update_mqd")) for _ in range(xccs))
    inner = [
        *_probe("allocate_doorbell"), *_probe("allocate_mqd"), *_probe("init_mqd_v9_4_3", inner=plain),
        *_probe("map_queues_cpsch"),
    ]  # fmt: skip
    return _probe("pqm_create_queue", inner=_probe("create_queue_cpsch", f"qid=1 ring={RING:#x}", inner))


def test_repetitions_for_the_xccs_are_one_operation(correlate_trace: Correlator) -> None:
    capture = correlate_trace("\n".join(_create(_mi300(4))))
    assert _queues(capture, "mqd_events", "kfd_queue_id", "ring_base") == [(2, 1, RING)]
    assert _multiplicities(capture) == [("init_mqd_v9_4_3", 4)]
    assert capture.table("gpus").select("gpu_id", pl.col("scheduler").cast(str)).collect().rows() == [(GPU, "HWS")]


def test_functions_nest_and_belong_to_the_queue(correlate_trace: Correlator) -> None:
    capture = correlate_trace("\n".join(_create(_mi300(2))))
    events = capture.table("events").sort("event").collect()
    names = dict(events.select("event", pl.col("name").cast(pl.String)).iter_rows())
    found = {(names[e], names.get(p), d) for e, p, d in events.select("event", "parent", "depth").iter_rows()}
    assert found == {
        ("AMDKFD_IOC_CREATE_QUEUE", None, None), ("kfd_ioctl_create_queue", "AMDKFD_IOC_CREATE_QUEUE", 1),
        ("pqm_create_queue", "kfd_ioctl_create_queue", 2), ("create_queue_cpsch", "pqm_create_queue", 3),
        ("allocate_doorbell", "create_queue_cpsch", 4), ("allocate_mqd", "create_queue_cpsch", 4),
        ("init_mqd_v9_4_3", "create_queue_cpsch", 4), ("init_mqd", "init_mqd_v9_4_3", 5), ("update_mqd", "init_mqd", 6),
        ("map_queues_cpsch", "create_queue_cpsch", 4),
    }  # fmt: skip
    assert events["queue"].unique().to_list() == [0] and events["gpu"].unique().to_list() == [0]
    links = capture.table("links").collect().group_by(pl.col("rule").cast(pl.String)).len().sort("rule")
    assert links.rows() == [("kfd_in_ioctl", 5), ("mqd_in_kfd", 2)]
    assert (capture.table("links").collect()["evidence"] == "derived").all()


@pytest.mark.parametrize("xccs", [1, 4])
def test_plain_functions_without_their_wrapper(correlate_trace: Correlator, xccs: int) -> None:
    plain = _flat(_probe("init_mqd", inner=_probe("update_mqd")) for _ in range(xccs))
    inner = _probe("create_queue_cpsch", inner=[*_probe("allocate_mqd"), *plain])
    capture = correlate_trace("\n".join(_create(inner)))
    assert _queues(capture, "mqd_events") == [(2,)]
    assert _multiplicities(capture) == ([("init_mqd", 4)] if xccs == 4 else [])


def test_the_function_tracer_sees_no_nesting(correlate_trace: Correlator) -> None:
    inner = [*_function("allocate_mqd"), *_function("init_mqd_v9_4_3")]
    inner += _flat([*_function("init_mqd"), *_function("update_mqd")] for _ in range(4))
    capture = correlate_trace("\n".join(_create(inner)))
    assert _queues(capture, "mqd_events") == [(2,)]
    assert _multiplicities(capture) == [("init_mqd_v9_4_3", 4)]


def _seen_before(name: str, inner: list[str] | None = None) -> list[str]:
    """Return the lines of a call that the function tracer and, behind it, a probe recorded."""
    return [*_function(name), *_probe(name, inner=inner)]


def _seen_inside(name: str, inner: list[str] | None = None) -> list[str]:
    """Return the lines of a call that a probe and, inside of it, the function tracer recorded."""
    return _probe(name, inner=[*_function(name), *(inner or [])])


@pytest.mark.parametrize("seen", [_seen_before, _seen_inside])
def test_two_tracers_of_one_call_count_once(correlate_trace: Correlator, seen: Callable[..., list[str]]) -> None:
    """SYNTHETIC: the function tracer's record stands before that of the probe (as in the VM), or behind it."""
    inner = seen("init_mqd_v9_4_3", inner=_flat(seen("init_mqd") for _ in range(4)))
    capture = correlate_trace("\n".join(_create(inner)))
    assert _queues(capture, "mqd_events") == [(1,)]
    assert _multiplicities(capture) == [("init_mqd_v9_4_3", 4)]
    (verdict,) = judge_capture(capture.table, names=["mqd_ops_per_queue"])
    assert (str(verdict.outcome), verdict.finding.counts["init_by_create"]) == ("PASS", 1)


def _operations(*names: str) -> list[tuple[str, str, int]]:
    """Return name, operation and multiplicity of what ran in one CREATE_QUEUE, in this order."""
    rows = [(0, "ioctl", "AMDKFD_IOC_CREATE_QUEUE", None, None, 0), (1, "kfd", "create_queue_cpsch", 0, 0, 0)]
    rows += [(2 + i, "mqd", name, 1, 0, 0) for i, name in enumerate(names)]
    schema = {"event": pl.Int64, "layer": pl.String, "name": pl.String}
    schema |= {"parent": pl.Int64, "enclosing_call": pl.Int64, "flags": pl.UInt16}
    events = pl.DataFrame(rows, schema=schema, orient="row")
    found = list_mqd_operations(events).join(events.select("event", "name"), on="event", maintain_order="left")
    return found.select("name", "operation", "multiplicity").rows()


@pytest.mark.parametrize("wrapper", ["init_mqd_v9_4_3", "init_mqd_v12_1"])
def test_two_wrappers_are_two_operations(wrapper: str) -> None:
    assert _operations(*[wrapper, "init_mqd", "init_mqd"] * 2) == [(wrapper, "init", 2)] * 2


def test_functions_that_only_ask_or_compute_are_no_operations() -> None:
    """SYNTHETIC: what a function tracer shows that was given every name with `mqd` in it (Linux 6.12)."""
    made = ["mqd_size_from_queue_type", "allocate_mqd", "init_mqd_v9_4_3", "mqd_stride_v9", *["init_mqd"] * 2]
    assert _operations(*made) == [("allocate_mqd", "allocate", 1), ("init_mqd_v9_4_3", "init", 2)]


def test_functions_that_pass_an_operation_on_are_no_calls_for_other_xccs() -> None:
    assert _operations("pqm_update_mqd", "update_mqd") == [("pqm_update_mqd", "update", 1)]
    assert _operations("update_mqd", "__update_mqd") == [("update_mqd", "update", 1)]
    masked = ["update_mqd", "mqd_symmetrically_map_cu_mask"] * 4
    assert _operations("pqm_update_mqd", "update_mqd_v9_4_3", *masked) == [("update_mqd_v9_4_3", "update", 4)]


def test_what_the_driver_prints_counts_where_nothing_else_does() -> None:
    assert _operations("KFD_MQD_CREATE") == [("KFD_MQD_CREATE", "init", 1)]
    assert _operations("init_mqd", "KFD_MQD_CREATE") == [("init_mqd", "init", 1)]


def test_what_an_instrumented_driver_prints_lies_in_its_ioctl_and_names_the_queue(correlate_trace: Correlator) -> None:
    made = _ioctl("0xc0604b02", [
        "a-10 10 pqm_create_queue: KFD_MQD_CREATE: pid=10 gpu=63420 qid=4 type=0 active=1",
        "a-10 10 kfd_ioctl_create_queue: [KFD-TRACE] CREATE_QUEUE_SUCCESS: pid=10 queue_id=4 doorbell_offset=4098",
    ])  # fmt: skip
    masked = _ioctl("0xc0104b1a", ["a-10 10 update_mqd: [CU_MASK] pid=10 qid=4 mask=0xff"])
    ended = _ioctl("0xc0084b03", ["a-10 10 pqm_destroy_queue: KFD_MQD_DESTROY: qid=4"])
    lines = [
        'a-10 10 sys_openat(dfd: 4294967196, filename: 4689924 "/dev/kfd", flags: O_RDWR)',
        "a-10 10 sys_openat -> 0x4",
    ]
    capture = correlate_trace("\n".join([*lines, *made, *masked, *ended]))
    assert _queues(capture, "kfd_queue_id", "mqd_events", pl.col("destroyed_ns").is_not_null()) == [(4, 1, True)]
    rows = capture.table("events").filter(pl.col("layer").cast(pl.String).is_in(["kfd", "mqd"])).collect()
    assert rows["parent"].null_count() == 0 and rows["queue"].to_list() == [0] * 4
    (verdict,) = judge_capture(capture.table, names=["mqd_ops_per_queue"])
    assert str(verdict.outcome) == "PASS"


@pytest.mark.parametrize(
    ("inner", "scheduler", "operations"),
    [
        (_probe("create_queue_cpsch", inner=_probe("add_queue_mes")), "MES", 0),
        (_probe("create_queue_cpsch.isra.0"), "HWS", 0),
        (_probe("create_queue_nocpsch", inner=[*_probe("init_mqd"), *_probe("load_mqd")]), "none", 2),
        (_probe("create_queue_cpsch", inner=[*_probe("allocate_sdma_mqd"), *_probe("init_mqd_sdma")]), "HWS", 2),
    ],
)
def test_functions_in_a_creation_tell_who_schedules(
    correlate_trace: Correlator, inner: list[str], scheduler: str, operations: int
) -> None:
    capture = correlate_trace("\n".join(_create(inner)))
    assert capture.table("gpus").collect()["scheduler"].cast(str).to_list() == [scheduler]
    assert _queues(capture, "mqd_events") == [(operations or None,)]


def test_ids_name_a_queue_until_it_is_destroyed(correlate_trace: Correlator) -> None:
    """The KFD gives an id again after its queue is gone; a destroy that failed destroys nothing."""
    update = _ioctl("0x40184b07", _probe("kfd_ioctl_update_queue", "qid=1 prio=11", _probe("update_mqd_v9_4_3")))
    destroy = _ioctl("0xc0084b03", _probe("kfd_ioctl_destroy_queue", "qid=1"))
    failed = _ioctl("0xc0084b03", _probe("kfd_ioctl_destroy_queue", "qid=1"), "0xffffffffffffffea")
    lines = [*_create([]), *update, *failed, *destroy, *_create([], ring=RING + (1 << 20)), *update]
    capture = correlate_trace("\n".join(lines))
    first, second = _queues(capture, "kfd_queue_id", "doorbell_offset", "destroyed_ns")
    assert first[:2] == second[:2] == (1, 0xFDEF000000000008)
    assert second[2] is None
    calls = capture.table("events").filter(pl.col("layer").cast(pl.String) == "ioctl").sort("event").collect()
    assert calls["queue"].to_list() == [0, 0, 0, 0, 1, 1]
    ended = calls.row(3, named=True)
    assert first[2] == ended["ts_ns"] + ended["dur_ns"]
    updates = capture.table("events").filter(pl.col("name").cast(pl.String) == "update_mqd_v9_4_3").sort("event")
    assert updates.collect()["queue"].to_list() == [0, 1]


def test_a_struct_of_the_driver_is_believed_only_with_its_ring(correlate_trace: Correlator) -> None:
    """Its layout changes with the kernel: a wrong offset reads another ring."""

    def ids(ring: int) -> list[Any]:
        inner = _probe("create_queue_cpsch", f"qid=5 ring={ring:#x}")
        return _queues(correlate_trace("\n".join(_create(inner, result="ret=0"))), "kfd_queue_id")

    assert ids(RING) == [(5,)]
    assert ids(0xFFFF888100000000) == [(None,)]


def test_functions_outside_of_calls(correlate_trace: Correlator) -> None:
    """A worker evicts: its functions nest in each other and belong to no system call before them."""
    work = _probe("evict_process_worker", inner=_probe("kfd_process_evict_queues", inner=_probe("destroy_mqd")))
    lines = [*_ioctl("0x80084b01", []), *work]
    capture = correlate_trace("\n".join(lines))
    events = capture.table("events").sort("event").collect()
    assert events["parent"].to_list() == [None, None, 1, 2]
    assert events["depth"].to_list() == [None, 0, 1, 2]
    rules = capture.table("links").collect()["rule"].cast(str).to_list()
    assert rules == ["mqd_in_kfd"]


def test_without_system_calls_the_entry_to_the_driver_is_the_ioctl(correlate_trace: Correlator) -> None:
    entry = "cmd=0xc0604b02 arg=0x7ffc"
    fields = f"ring={RING:#x} size=1048576 gpu={GPU:#x} type=2 prio=7"
    made = _probe("kfd_ioctl_create_queue", fields, _probe("pqm_create_queue"), "ret=0 qid=3 doorbell=0xfdef")
    waits = _probe("kfd_ioctl", "cmd=0xc0184b0c arg=0x7ffc")
    unknown = _probe("kfd_ioctl", "cmd=0x5413 arg=0x7ffc")
    capture = correlate_trace("\n".join([*_probe("kfd_ioctl", entry, made), *waits, *unknown]))
    events = capture.table("events").sort("event").collect()
    rows = events.select(
        pl.col("layer", "name").cast(pl.String), "cmd", "depth", pl.col("result").cast(pl.String)
    ).rows()
    assert rows == [
        ("ioctl", "AMDKFD_IOC_CREATE_QUEUE", 0xC0604B02, None, "0"), ("kfd", "kfd_ioctl_create_queue", None, 1, "0"),
        ("kfd", "pqm_create_queue", None, 2, "0"), ("ioctl", "AMDKFD_IOC_WAIT_EVENTS", 0xC0184B0C, None, "0"),
        ("kfd", "kfd_ioctl", 0x5413, 0, "0"),
    ]  # fmt: skip
    assert events["parent"].to_list() == [None, 0, 1, None, None]
    assert _queues(capture, "ring_base", "kfd_queue_id", "create_ioctl_event") == [(RING, 3, 0)]
    inside = correlate_trace("\n".join(_ioctl("0xc0604b02", _probe("kfd_ioctl", entry, made))))
    names = inside.table("events").sort("event").collect()["name"].cast(pl.String).to_list()
    assert names == ["AMDKFD_IOC_CREATE_QUEUE", "kfd_ioctl", "kfd_ioctl_create_queue", "pqm_create_queue"]


def test_without_the_entry_to_the_driver_the_function_of_a_request_is_the_ioctl(correlate_trace: Correlator) -> None:
    fields = f"ring={RING:#x} size=1048576 gpu={GPU:#x} type=2 prio=7"
    made = _probe("kfd_ioctl_create_queue", fields, _probe("init_mqd_v9_4_3"), "ret=0 qid=3 doorbell=0xfdef")
    capture = correlate_trace("\n".join([*made, *_probe("kfd_ioctl_no_request"), *_probe("pqm_create_queue")]))
    events = capture.table("events").sort("event").collect()
    assert events.select(pl.col("layer", "name").cast(pl.String), "parent").rows() == [
        ("ioctl", "AMDKFD_IOC_CREATE_QUEUE", None), ("mqd", "init_mqd_v9_4_3", 0),
        ("kfd", "kfd_ioctl_no_request", None), ("kfd", "pqm_create_queue", None),
    ]  # fmt: skip
    columns = ("ring_base", "kfd_queue_id", "create_ioctl_event", "mqd_events", "type")
    assert _queues(capture, *columns) == [(RING, 3, 0, 1, "compute_aql")]


def test_the_entry_to_the_driver_spans_the_ioctl_whose_function_runs_in_it(correlate_trace: Correlator) -> None:
    """It names no request, as in a function graph: the function in it does. Two functions need two entries."""
    made = _probe("kfd_ioctl_create_queue", f"ring={RING:#x} type=2", _probe("init_mqd_v9_4_3"), "ret=0 qid=3")
    asked = _probe("kfd_ioctl_get_available_memory")
    unsure = [*_probe("kfd_ioctl_svm"), *_probe("kfd_ioctl_criu")]
    lines = [line for inner in (made, asked, unsure) for line in _probe("kfd_ioctl", "", inner)]
    events = correlate_trace("\n".join(lines)).table("events").sort("event").collect()
    rows = events.select(pl.col("layer", "name").cast(pl.String), "parent").rows()
    assert rows == [
        ("ioctl", "AMDKFD_IOC_CREATE_QUEUE", None), ("kfd", "kfd_ioctl_create_queue", 0), ("mqd", "init_mqd_v9_4_3", 1),
        ("ioctl", "AMDKFD_IOC_AVAILABLE_MEMORY", None), ("kfd", "kfd_ioctl_get_available_memory", 3),
        ("kfd", "kfd_ioctl", None), ("ioctl", "AMDKFD_IOC_SVM", None), ("ioctl", "AMDKFD_IOC_CRIU_OP", None),
    ]  # fmt: skip
    spans = events.select("ts_ns", end=pl.col("ts_ns") + pl.col("dur_ns")).rows()
    assert all(spans[outer][0] <= spans[outer + 1][0] < spans[outer + 1][1] <= spans[outer][1] for outer in (0, 3))


def test_a_thread_that_shows_an_ioctl_has_no_other_one_around_a_function(correlate_trace: Correlator) -> None:
    """The return of the ioctl is missing, so that nothing tells what ran in it."""
    made = _probe("kfd_ioctl_create_queue", f"ring={RING:#x} type=2", [], "ret=0 qid=3")
    capture = correlate_trace("\n".join([_ioctl("0xc0604b02", [])[0], *made]))
    assert len(_queues(capture, "queue")) == 1
    layers = capture.table("events").sort("event").collect()["layer"].cast(pl.String).to_list()
    assert layers == ["ioctl", "kfd"]


def _store(ring: int, kind: int = -1) -> str:
    return (
        f"a-10 10 doorbell: (0x7f91946c11c0) sig=0x7ffb80 val=5 kind={kind} hw=0x7f56 swq=0x2200 ring={ring:#x} qid=1"
    )


def test_rings_that_only_doorbell_stores_show_are_queues(correlate_trace: Correlator) -> None:
    """They were made before the trace began; a store to a user's signal shows no ring."""
    capture = correlate_trace("\n".join([_store(RING), _store(2 * RING), _store(RING), _store(3 * RING, kind=1)]))
    columns = ("queue", "ring_base", "known_from", "create_ioctl_event", "dispatches")
    assert _queues(capture, *columns) == [(0, RING, "ftrace", None, None), (1, 2 * RING, "ftrace", None, None)]
    stores = capture.table("events").filter(pl.col("layer").cast(pl.String) == "doorbell").sort("event").collect()
    assert stores["queue"].to_list() == [0, 1, 0]


def test_a_ring_that_a_log_may_name_is_no_queue_of_its_own(tmp_path: Path) -> None:
    """SYNTHETIC: the process of the log and the one of the trace are not known to be one."""
    log, trace = tmp_path / "amd.log", tmp_path / "trace.txt"
    packet = f"SWq=0x2200, HWq={RING:#x}, id=1, Dispatch Header = 0x1502 (type=2, barrier=1, acquire=2, release=2), "
    packet += "setup=3, grid=[64, 1, 1], workgroup=[64, 1, 1], rptr=0, wptr=0"
    log.write_text(f":5:rocvirtual.cpp           :1165: 0100000001 us: [pid:99 tid: 0x7f00] {packet}\n")
    body = _store(RING).split(None, 2)[2]
    trace.write_text(f"# tracer: nop\n#\n            a-10    (     10) [000] ..... 100.000001: {body}\n")
    import_files(tmp_path / "x.tracecorr", [log], [trace], clock="mono")
    correlate(tmp_path / "x.tracecorr")
    known = Capture.open(tmp_path / "x.tracecorr").table("queues").collect()
    assert known.select("hwq", "known_from").rows() == [(RING, "amd_log")]


def test_a_creation_that_tells_no_ring_may_be_that_of_a_store(correlate_trace: Correlator) -> None:
    capture = correlate_trace("\n".join([*_ioctl("0xc0604b02", []), _store(RING)]))
    assert _queues(capture, "ring_base") == [(None,)]
    known = _probe("kfd_ioctl_create_queue", f"ring={RING:#x} type=2", [], "ret=0 qid=3")
    capture = correlate_trace("\n".join([*_ioctl("0xc0604b02", known), _store(RING)]))
    assert _queues(capture, "ring_base") == [(RING,)]
