"""Tracepoints of the drivers as fields (print formats of Linux 6.1 to 7.2 and of DKMS amdkfd; synthetic lines)."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from tracecorr.read.ftrace.text import read_ftrace_text

PREFIX = b"            bash-124     [001] d..1.     8.710688: "
CASES: list[tuple[str, str, str, dict[str, Any]]] = [
    ("dma_fence_init", "driver=drm_sched timeline=gfx_0.0.0 context=2 seqno=1", "other",
     {"driver": "drm_sched", "timeline": "gfx_0.0.0", "context": 2, "seqno": 1}),
    ("amdgpu_iv",
     "ih:0 client_id:27 src_id:181 ring:4 vmid:3 timestamp: 99123 pasid:32770 src_data: 00000001 0a 00000000",
     "amdgpu", {"ih": 0, "client_id": 27, "src_id": 181, "ring": 4, "vmid": 3, "timestamp": 99123, "pasid": 32770,
                "src_data": "00000001 0a 00000000"}),
    ("amdgpu_vm_bo_map", "bo=00000000a8b3fcdd, start=7f4910, last=7f4911, offset=0000000010, flags=12", "amdgpu",
     {"bo": 0xA8B3FCDD, "start": 0x7F4910, "last": 0x7F4911, "offset": 0x10, "flags": 0x12}),
    ("amdgpu_vm_bo_update", "soffs=0000100000, eoffs=0000100010, flags=71", "amdgpu",
     {"soffs": 0x100000, "eoffs": 0x100010, "flags": 0x71}),
    ("amdgpu_vm_set_ptes", "pe=0012345000, addr=0000100000, incr=4096, flags=71, count=16, immediate=1", "amdgpu",
     {"pe": 0x12345000, "addr": 0x100000, "incr": 4096, "flags": 0x71, "count": 16, "immediate": 1}),
    ("amdgpu_vm_copy_ptes", "pe=0012345000, src=0000100000, count=16, immediate=0", "amdgpu",
     {"pe": 0x12345000, "src": 0x100000, "count": 16, "immediate": 0}),
    ("amdgpu_vm_flush", "ring=sdma0, id=1, hub=0, pd_addr=0000100000", "amdgpu",
     {"ring": "sdma0", "id": 1, "hub": 0, "pd_addr": 0x100000}),
    ("amdgpu_vm_grab_id", "pasid=12, ring=comp_1.0.0, id=8, hub=0, pd_addr=0000100000 needs_flush=1", "amdgpu",
     {"pasid": 12, "ring": "comp_1.0.0", "id": 8, "hub": 0, "pd_addr": 0x100000, "needs_flush": 1}),
    ("amdgpu_vm_update_ptes",
     "pid:12 vm_ctx:0x5 start:0x0000100000 end:0x0000100010, flags:0x71, incr:4096, dst:\n0x10, 0x20", "amdgpu",
     {"pid": 12, "vm_ctx": 5, "start": 0x100000, "end": 0x100010, "flags": 0x71, "incr": 4096, "dst": "0x10, 0x20"}),
    ("amdgpu_bo_create", "bo=00000000a8b3fcdd, pages=512, type=2, preferred=4, allowed=4, visible=0", "amdgpu",
     {"bo": 0xA8B3FCDD, "pages": 512, "type": 2, "preferred": 4, "allowed": 4, "visible": 0}),
    ("amdgpu_bo_move", "bo=00000000a8b3fcdd, from=2, to=1, size=4096", "amdgpu",
     {"bo": 0xA8B3FCDD, "from": 2, "to": 1, "size": 4096}),
    ("amdgpu_cs_ioctl",
     "sched_job=77, timeline=gfx_0.0.0, context=5, seqno=9, ring_name=gfx_0.0.0, num_ibs=1", "amdgpu",
     {"sched_job": 77, "timeline": "gfx_0.0.0", "context": 5, "seqno": 9, "ring_name": "gfx_0.0.0", "num_ibs": 1}),
    ("amdgpu_sched_run_job", "timeline=gfx_0.0.0, fence=5:9, ring_name=gfx_0.0.0, num_ibs=1", "amdgpu",
     {"timeline": "gfx_0.0.0", "fence": "5:9", "ring_name": "gfx_0.0.0", "num_ibs": 1}),
    ("amdgpu_ib_pipe_sync", "job ring=gfx, id=3, need pipe sync to fence=00000000a8b3fcdd, context=4, seq=5", "amdgpu",
     {"ring": "gfx", "id": 3, "fence": 0xA8B3FCDD, "context": 4, "seq": 5}),
    ("amdgpu_ib_pipe_sync", "job ring=gfx need pipe sync to fence=4:5", "amdgpu", {"ring": "gfx", "fence": "4:5"}),
    ("amdgpu_isolation", "prev=00000000a8b3fcdd, next=000000000000001f", "amdgpu", {"prev": 0xA8B3FCDD, "next": 31}),
    ("amdgpu_device_wreg", "0x740f, 0x0000c914, 0x00000001", "amdgpu", {"body": "0x740f, 0x0000c914, 0x00000001"}),
    ("drm_sched_job_wait_dep", "job ring=sdma0, id=4, depends fence=00000000a8b3fcdd, context=7, seq=2", "drm_sched",
     {"ring": "sdma0", "id": 4, "depends_fence": 0xA8B3FCDD, "context": 7, "seq": 2}),
    ("drm_sched_job_add_dep", "fence=5:9 depends on fence=4:3", "drm_sched", {"fence": "5:9", "depends_fence": "4:3"}),
    ("drm_sched_job_unschedulable", "fence=5:9 depends on unsignalled fence=4:3", "drm_sched",
     {"fence": "5:9", "depends_fence": "4:3"}),
    ("kfd_map_memory_to_gpu_start", "Process pid =4711", "kfd", {"pid": 4711}),
    ("kfd_map_memory_to_gpu_end", "Process pid = 4711, array_size =\t8, StatusMsg=Success", "kfd",
     {"pid": 4711, "array_size": 8, "StatusMsg": "Success"}),
    ("kfd_evict_process_worker_end", "Process pid=4711, StatusMsg=Failed", "kfd", {"pid": 4711, "StatusMsg": "Failed"}),
    ("kfd_kgd2kfd_schedule_evict_and_restore_process", "Process pid = 4711, delay_jiffies = 25", "kfd",
     {"pid": 4711, "delay_jiffies": 25}),
    ("some_new_event", "a thing of which nobody knows = 3", "other", {"body": "a thing of which nobody knows = 3"}),
]  # fmt: skip


@pytest.mark.parametrize(("event", "body", "layer", "fields"), CASES, ids=[f"{i}-{c[0]}" for i, c in enumerate(CASES)])
def test_the_fields_of_a_tracepoint_become_args(event: str, body: str, layer: str, fields: dict[str, Any]) -> None:
    data = PREFIX + f"{event}: {body}\n".encode()
    blocks = list(read_ftrace_text([data], 0))
    rows = pl.concat([b.events for b in blocks])
    assert rows.select(pl.col("name", "layer").cast(pl.String)).rows() == [(event, layer)]
    args = pl.concat([b.args for b in blocks])
    found = {k: u64 if text is None else text for k, u64, text in args.select("key", "u64", "text").iter_rows()}
    assert found == fields
    assert pl.concat([b.ledger for b in blocks])["bytes"].sum() == len(data)
