"""KFD calls in words: fields that probes read, offsets of mmaps (synthetic traces), and a recorded run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import polars as pl
import pytest

from tracecorr.read.kfd.ioctls import name_value
from tracecorr.store import Capture

Correlator = Callable[[str], Capture]
CREATE = """
    a-10 10 sys_ioctl(fd: 4, cmd: 0xc0604b02, arg: 0x7ffc)
    a-10 10 kfd_create_queue: (kfd_ioctl_create_queue+0x4/0x670 [amdgpu]) ring={ring:#x} gpu={gpu:#x} type=2 prio=7
    a-10 10 sys_ioctl -> {result}
"""
OPEN = """
    a-10 10 sys_openat(dfd: 4294967196, filename: 4689924 "/dev/kfd", flags: O_RDWR|O_CLOEXEC)
    a-10 10 sys_openat -> 0x4
"""


def _mmap(offset: str, fd: int = 4, result: str = "0x7f3b00000000") -> str:
    return f"""
        a-10 10 sys_mmap(addr: 0, len: 0x2000, prot: 3, flags: 1, fd: {fd}, off: {offset})
        a-10 10 sys_mmap -> {result}
    """


def _clean(text: str) -> str:
    return "\n".join(line for line in text.splitlines() if line.strip())


def _args(capture: Capture, name: str) -> list[dict[str, Any]]:
    """Return the args of every event of a name."""
    events = capture.table("events").filter(pl.col("name").cast(pl.String) == name).sort("event").collect()
    args = capture.table("args").collect()
    return [
        {key: u64 if text is None else text for key, u64, text in args.filter(event=event)
         .select(pl.col("key").cast(pl.String), "u64", "text").iter_rows()}
        for event in events["event"]
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("offset", "mapping", "gpu_id"),
    [
        ("0xfdef000000000000", "doorbells", 0xF7BC),
        ("0x8000000000000000", "events_page", None),
        ("0x7def000000000000", "reserved_memory", 0xF7BC),
        ("0x3def000000000000", "mmio", 0xF7BC),
    ],
)
def test_the_offset_of_an_mmap_tells_what_is_mapped_and_of_which_gpu(
    correlate_trace: Correlator, offset: str, mapping: str, gpu_id: int | None
) -> None:
    found = _args(correlate_trace(_clean(OPEN + _mmap(offset))), "mmap")[0]
    assert (found["kfd_mapping"], found.get("gpu_id")) == (mapping, gpu_id)


def test_mmaps_of_other_files_are_left_alone(correlate_trace: Correlator) -> None:
    failed = _mmap("0xfdef000000000000", result="0xffffffffffffffea")
    text = OPEN + _mmap("0x3def000000000000", fd=7) + _mmap("0x8000000000000000", fd=7) + failed
    assert [a.get("kfd_mapping") for a in _args(correlate_trace(_clean(text)), "mmap")] == [None, "events_page", None]


def test_fields_of_an_ioctl_come_from_the_probe_inside(correlate_trace: Correlator) -> None:
    capture = correlate_trace(_clean(CREATE.format(ring=0x7F0000, gpu=0xF7BC, result="0x0")))
    found = _args(capture, "AMDKFD_IOC_CREATE_QUEUE")[0]
    assert found == {
        "ring": 0x7F0000, "gpu": 0xF7BC, "type": 2, "type_name": "compute_aql", "prio": 7, "device": "kfd",
        "device_by": "number",
    }  # fmt: skip


@pytest.mark.parametrize(("cmd", "late"), [(0xC0604B02, {"engine": 3, "metadata_ring": 4096}), (0xC0584B02, {})])
def test_late_fields_of_a_creation_are_believed_where_the_caller_gave_them(
    correlate_trace: Correlator, cmd: int, late: dict[str, int]
) -> None:
    """A struct of 88 bytes ends before them (SYNTHETIC, as the probe of the plan reads it)."""
    text = CREATE.format(ring=0x7F0000, gpu=0xF7BC, result="0x0").replace("0xc0604b02", hex(cmd))
    capture = correlate_trace(_clean(text.replace("prio=7", "prio=7 engine=3 metadata_ring=4096")))
    found = _args(capture, "AMDKFD_IOC_CREATE_QUEUE")[0]
    assert {key: found[key] for key in ("engine", "metadata_ring") if key in found} == late


def test_user_queues_of_the_drm_are_queues_with_doorbells(correlate_trace: Correlator) -> None:
    """DRM_IOCTL_AMDGPU_USERQ makes (operation 1) and frees (2) them; SYNTHETIC, as the probe of the plan reads it."""
    text = """
        a-10 10 sys_openat(dfd: 4294967196, filename: 4689924 "/dev/dri/renderD128", flags: O_RDWR|O_CLOEXEC)
        a-10 10 sys_openat -> 0x5
    """
    for op, ip, ring in ((1, 1, 0x7F0000), (1, 2, 0x7E0000), (2, 0, 0)):
        text += f"""
            a-10 10 sys_ioctl(fd: 5, cmd: 0xc0486456, arg: 0x7ffc)
            a-10 10 amdgpu_userq_ioctl: (amdgpu_userq_ioctl+0x4/0x670 [amdgpu]) op={op} ip={ip} ring={ring:#x} size=4096
            a-10 10 sys_ioctl -> 0x0
        """
    capture = correlate_trace(_clean(text))
    queues = capture.table("queues").sort("queue").collect()
    assert queues.select("ring_base", pl.col("type").cast(pl.String)).rows() == [(0x7F0000, None), (0x7E0000, "sdma")]
    assert queues["create_ioctl_event"].null_count() == 0
    found = _args(capture, "DRM_IOCTL_AMDGPU_USERQ")
    assert [(a["op_name"], a["ip_name"]) for a in found] == [("CREATE", "COMPUTE"), ("CREATE", "DMA"), ("FREE", "GFX")]


def test_the_doorbell_page_belongs_to_the_first_queue_of_its_gpu(correlate_trace: Correlator) -> None:
    """Mapped once per process and GPU; a failed creation needs none."""
    text = (
        OPEN + CREATE.format(ring=1 << 20, gpu=0xF7BC, result="0xffffffffffffffea")
        + CREATE.format(ring=2 << 20, gpu=0xF7BC, result="0x0") + _mmap("0xfdef000000000000")
        + CREATE.format(ring=3 << 20, gpu=0xF05B, result="0x0") + _mmap("0xfc16c00000000000")
        + CREATE.format(ring=4 << 20, gpu=0xF7BC, result="0x0") + _mmap("0x8000000000000000")
    )  # fmt: skip
    capture = correlate_trace(_clean(text))
    links = capture.table("links").filter(pl.col("rule").cast(pl.String) == "doorbell_mapping").collect()
    creations = capture.table("events").filter(pl.col("name").cast(pl.String) == "AMDKFD_IOC_CREATE_QUEUE")
    mappings = capture.table("events").filter(pl.col("name").cast(pl.String) == "mmap")
    made, mapped = (t.sort("event").collect()["event"].to_list() for t in (creations, mappings))
    assert links.select("from_event", "to_event", "evidence").rows() == [
        (made[1], mapped[0], "derived"), (made[2], mapped[1], "derived"),
    ]  # fmt: skip


def test_a_creation_whose_exit_is_missing_may_be_the_one_that_mapped_the_page(correlate_trace: Correlator) -> None:
    first, second = (CREATE.format(ring=n << 20, gpu=0xF7BC, result="0x0") for n in (1, 2))
    mapped = _mmap("0xfdef000000000000")
    for text, links in ((first + mapped, 1), (first + second.replace("a-10 10 sys_ioctl -> 0x0", "") + mapped, 0)):
        rules = correlate_trace(_clean(OPEN + text)).table("links").select(pl.col("rule").cast(pl.String)).collect()
        assert rules["rule"].to_list().count("doorbell_mapping") == links


@pytest.mark.parametrize(
    ("function", "key", "value", "text"),
    [
        ("kfd_ioctl_alloc_memory_of_gpu", "flags", 0xD0000001, "VRAM|NO_SUBSTITUTE|EXECUTABLE|WRITABLE"),
        ("kfd_ioctl_alloc_memory_of_gpu", "flags", 1 << 9 | 2, "GTT|bit_9"),
        ("kfd_ioctl_alloc_memory_of_gpu", "flags", 0, None),
        ("kfd_ioctl_set_debug_trap", "op", 6, "SUSPEND_QUEUES"),
        ("kfd_ioctl_svm", "op", 0, "SET_ATTR"),
        ("kfd_ioctl_set_xnack_mode", "xnack", (1 << 64) - 1, "QUERY"),
        ("kfd_ioctl_wait_events", "wait_result", 1, "TIMEOUT"),
        ("kfd_ioctl_create_queue", "type", 99, None),
        ("kfd_ioctl_create_queue", "prio", 0, None),
    ],
)
def test_numbers_with_a_meaning(function: str, key: str, value: int, text: str | None) -> None:
    assert name_value(function, key, value) == text


def test_recorded_ioctls_have_the_fields_that_their_probes_read(recorded: Callable[..., Capture]) -> None:
    """kfd-6.12-t1: every CREATE_QUEUE and every ALLOC_MEMORY_OF_GPU has the fields that its probe read."""
    capture = recorded("captures/kfd-6.12-t1", log=False)
    created = _args(capture, "AMDKFD_IOC_CREATE_QUEUE")
    assert [c["type_name"] for c in created] == ["compute_aql"] * 5 + ["sdma"] * 2
    allocations = _args(capture, "AMDKFD_IOC_ALLOC_MEMORY_OF_GPU")
    assert len(allocations) == 54
    assert all(a["flags_name"] and a["device_by"] == "driver" for a in allocations)
