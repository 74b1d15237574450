"""Every message that ROCm 7.3 to 10 changed or brought, with its columns (synthetic: filled format strings)."""

from __future__ import annotations

from typing import Any

import pytest
from amdlog_cases import log, read

_FRONT = "SWq=0x22, HWq=0x50, id=1, priority=3, "
_KERNEL = "private_seg_size=0, group_seg_size=2048, kernel_obj=0x58a, kernarg_address=0x400"
_PACKET = {"ring": 0x50, "swq": 0x22, "log_id": 1, "stream_priority": 3}
_GRID = {"grid_x": 512, "grid_y": 64, "grid_z": 1, "workgroup_x": 16, "workgroup_y": 16, "workgroup_z": 1}
_WAITS = "wait_event=0x70, completion_signal=0x7f"
_WAITED = {"signal": 0x7F, "dep_signals": [0x70]}
# Message -> layer, name, columns of event and packet, args. The first three are levels 5 of rocvirtual.cpp.
MESSAGES: dict[str, tuple[str, str, dict[str, Any], dict[str, Any]]] = {
    _FRONT
    + "virtual_pipe_id=2, Dispatch Header = 0xb02 (type=2, barrier=1, acquire=1, release=1), setup=2, "
    f"grid=[512, 64, 1], workgroup=[16, 16, 1], {_KERNEL}, completion_signal=0x0, rptr=3, wptr=4": (
        "aql", "dispatch",
        {**_PACKET, **_GRID, "virtual_pipe": 2, "packet_index": 4, "rptr": 3, "header": 0xB02, "signal": None,
         "group_bytes": 2048, "kernel_object": 0x58A, "kernarg": 0x400},
        {},
    ),
    # The grid is counted in clusters: 16 x 2 x 16 and 4 x 1 x 16 work-items.
    _FRONT
    + "Dispatch Header = 0xb00 (type=0, barrier=1, acquire=1, release=1), setup=2, cluster_count=[16, 4, 1], "
    f"cluster_size=[2, 1, 1], workgroup=[16, 16, 1], {_KERNEL}, dep_signal=0x70, completion_signal=0x7f, "
    "rptr=0, wptr=1": (
        "aql", "dispatch", {**_PACKET, **_GRID, **_WAITED, "virtual_pipe": None, "packet_index": 1},
        {"cluster_x": 2, "cluster_y": 1, "cluster_z": 1},
    ),
    _FRONT
    + "virtual_pipe_id=1, Barrier-AND Header = 0x1503 (type=3, barrier=1, acquire=2, release=2), "
    "dep_signal=[0x70, 0x0, 0x0, 0x0, 0x0], completion_signal=0x7f, rptr=0, wptr=2": (
        "aql", "barrier_and", {**_PACKET, **_WAITED, "virtual_pipe": 1, "packet_index": 2}, {},
    ),
    _FRONT
    + "Barrier-OR Header = 0x1505 (type=5, barrier=1, acquire=2, release=2), "
    "dep_signal=[0x70, 0x0, 0x0, 0x0, 0x0], completion_signal=0x7f, rptr=0, wptr=2": (
        "aql", "barrier_or", {**_PACKET, **_WAITED, "packet_index": 2}, {},
    ),
    _FRONT
    + "BarrierValue Header = 0x1500 AmdFormat = 0x2 (type=0, barrier=1, acquire=2, release=2), signal=0x70, "
    "value=0x1, mask=0x7fffffffffffffff, cond=LT, completion_signal=0x7f, rptr=1, wptr=3": (
        "aql", "barrier_value", {**_PACKET, **_WAITED, "packet_index": 3},
        {"value": 1, "mask": 0x7FFFFFFFFFFFFFFF, "condition": "LT"},
    ),
    "SWq=0x22, HWq=0x50, id=1, Metadata Packet [wptr=4]: header=[0x2, 0x3, 0x4, 0x5], event_id=0x6, "
    "kernel_code_entry_byte_offset=0x100, compute_pgm_rsrc1=0xaf0000, compute_pgm_rsrc2=0x90, compute_pgm_rsrc3=0x0, "
    "kernel_code_properties=0x408, kernarg_preload=[length=7, offset=8], launch_descriptor=["
    + " ".join(f"0x{i:08x}" for i in range(1, 14))
    + "]": (
        "aql", "metadata_packet", {"ring": 0x50, "packet_index": 4},
        {"header_0": 2, "header_1": 3, "header_2": 4, "header_3": 5, "event_id": 6,
         "kernel_code_entry_byte_offset": 0x100, "compute_pgm_rsrc1": 0xAF0000, "compute_pgm_rsrc2": 0x90,
         "compute_pgm_rsrc3": 0, "kernel_code_properties": 0x408, "preload_length": 7, "preload_offset": 8,
         **{f"launch_descriptor_{i}": i + 1 for i in range(13)}},
    ),
    # Queues.
    "Created SWq=0x22 HWq=0x50 size 16384 priority 1 cooperative 0 flags 0x1 device_mem_ring_buf 1": (
        "aql", "queue_created", {"ring": 0x50},
        {"hwq": 0x50, "swq": 0x22, "size": 16384, "priority": 1, "cooperative": 0, "flags": 1,
         "device_mem_ring_buf": 1},
    ),
    "Created SWq=0x22 HWq=0x50 size 16384 priority 1 cooperative 0 flags 0x0 device_mem_ring_buf 0 "
    "CU mask 0x00000000ffffffff": (
        "aql", "queue_created", {"ring": 0x50},
        {"hwq": 0x50, "swq": 0x22, "size": 16384, "priority": 1, "cooperative": 0, "flags": 0,
         "device_mem_ring_buf": 0, "cu_mask": 0xFFFFFFFF},
    ),
    "Created SWq=0x22 HWq=0x50 size 16384 priority 2 cooperative 1 flags 0x0 device_mem_ring_buf 0 "
    "CU mask 0xffffffffffffffffffffffff": (
        "aql", "queue_created", {"ring": 0x50},
        {"hwq": 0x50, "swq": 0x22, "size": 16384, "priority": 2, "cooperative": 1, "flags": 0,
         "device_mem_ring_buf": 0, "cu_mask": "0xffffffffffffffffffffffff"},
    ),
    "acquireQueue refCount: 0x50 (1) ": ("aql", "queue_acquired", {"ring": 0x50}, {"refcount": 1}),
    "acquireQueue refCount: 0x50 (1) (dedicated)": (
        "aql", "queue_acquired", {"ring": 0x50}, {"refcount": 1, "choice": "(dedicated)"},
    ),
    "Selected queue (mode=1): 0x50 refCount: 2, depth: 5, metric: 82, pipe: 1": (
        "aql", "queue_selected", {"ring": 0x50}, {"mode": 1, "refcount": 2, "depth": 5, "metric": 82, "pipe": 1},
    ),
    "Selected queue (mode=2): 0x50 refCount: 2, depth: 7, metric: 114, pipe: -1 (forced) (excluded-fallback)": (
        "aql", "queue_selected", {"ring": 0x50},
        {"mode": 2, "refcount": 2, "depth": 7, "metric": 114, "pipe": 2**64 - 1,
         "choice": "(forced) (excluded-fallback)"},
    ),
    "Reusing preferred queue: 0x50 refCount: 2": ("aql", "queue_selected", {"ring": 0x50}, {"refcount": 2}),
    "releaseQueue refCount:0x50 (0)": ("aql", "queue_released", {"ring": 0x50}, {"refcount": 0}),
    "Deferring CG enabled hardware queue 0x50 destroy": ("aql", "queue_delete_deferred", {"ring": 0x50}, {}),
    "Deleting deferred hardware queue 0x50": ("aql", "queue_deleted", {"ring": 0x50}, {}),
    "Device::acquireQueue: hsa_amd_queue_create failed!": ("aql", "queue_create_failed", {}, {}),
    "Created hostcall buffer 0x5 (numPackets == 64, size == 4096, align == 64) for virtual queue 0x6": (
        "aql", "hostcall_buffer_created", {"size_bytes": 4096},
        {"hostcall_buffer": 5, "packets": 64, "align": 64, "virtual_gpu": 6},
    ),
    "Deleting hostcall buffer 0x5": ("aql", "hostcall_buffer_deleted", {}, {"hostcall_buffer": 5}),
    "metadata prefetch: preload_length=4, preload_offset=0, preload_limit=16": (
        "aql", "metadata_prefetch", {}, {"preload_length": 4, "preload_offset": 0, "preload_limit": 16},
    ),
    # Graphs.
    "Graph ShaderName : [Graph cross dep barrier], device id : 0": (
        "aql", "graph_packet", {"kernel": None}, {"packet": "Graph cross dep barrier"},
    ),
    "Graph ShaderName : [Graph vendor barrier value], device id : 0": (
        "aql", "graph_packet", {"kernel": None}, {"packet": "Graph vendor barrier value"},
    ),
    "Graph ShaderName : [Graph batch barrier], device id : 0": (
        "aql", "graph_packet", {"kernel": None}, {"packet": "Graph batch barrier"},
    ),
    "Graph ShaderName : k(float const*, int), device id : 1": (
        "aql", "shader_name", {"kernel": "k(float const*, int)"}, {},
    ),
    "[hipGraph] ScheduleNodesIntoBatches: Using hierarchical child graph handling": (
        "other", "graph_hierarchical", {}, {},
    ),
    "[hipGraph] FindExecutionPathsHierarchical: Found 3 paths, 2 child graphs": (
        "other", "graph_paths", {}, {"paths": 3, "child_graphs": 2},
    ),
    "[hipGraph] CreateSegmentsFromPaths: Processing 3 paths": ("other", "graph_segments_begin", {}, {"paths": 3}),
    "[hipGraph] Created 4 segments (segment IDs 0-3)": ("other", "graph_segments", {}, {"segments": 4}),
    "[hipGraph] ResolveSegmentDependencies: Processing 4 segments": (
        "other", "graph_dependencies_begin", {}, {"segments": 4},
    ),
    "[hipGraph] ResolveSegmentDependencies complete: max_dependency_level=2, max_streams=3": (
        "other", "graph_dependencies", {}, {"levels": 2, "streams": 3},
    ),
    "[hipGraph] Creating 3 parallel streams for device 1": ("other", "graph_streams", {}, {"streams": 3, "device": 1}),
    "Running serialized as blocking is requested": ("other", "graph_serialized", {}, {}),
    # Signals, waits, commands.
    "Handler: value(0), timestamp(0x5), callback_signal(0x7f)": (
        "signal", "handler", {"signal": None}, {"value": 0, "timestamp": 5, "callback_signal": 0x7F},
    ),
    "Set Handler: handle(0x7f), timestamp(0x5), blocking CB=1": (
        "signal", "set_handler", {"signal": 0x7F}, {"timestamp": 5, "blocking": 1},
    ),
    "Host active wait for Signal = (0x7f) for 100000 ns": (
        "signal", "host_active_wait", {"signal": 0x7F}, {"timeout_ns": 100000},
    ),
    "Adding dep hw event signal: 0x7f": ("signal", "dependency_added", {"signal": 0x7F}, {}),
    "Invalid signal timing: start=9, end=7, signal=0x7f": (
        "signal", "invalid_gpu_time", {"signal": 0x7F}, {"start_ns": 9, "end_ns": 7},
    ),
    "Signal = (0x7f), Translated start/end = 5 / 9, Elapsed = 4 ns, ticks start/end = 1 / 2, Ticks elapsed = 1, "
    "Engine = 2": ("signal", "gpu_time", {"signal": 0x7F}, {"start_ns": 5, "end_ns": 9, "engine_type": 2}),
    "finish() called with batch size: 7, cpu_wait: 0, fence dirty: 1": (
        "other", "finish", {}, {"batch": 7, "cpu_wait": 0, "fence_dirty": 1},
    ),
    "No HW event": ("other", "No HW event", {}, {}),
    "Check HW event = 0x7f": ("other", "Check HW event = #", {}, {}),
    "No command, awaiting complete status on host": ("other", "No command, awaiting complete status on host", {}, {}),
    "No HW event, awaiting complete status on host": (
        "other", "No HW event, awaiting complete status on host", {}, {},
    ),
    "No command awaiting completion on host": ("other", "No command awaiting completion on host", {}, {}),
    "Waiting event(0x55) doesn't have a HSA signal!": ("other", "Waiting event(#) doesn't have a HSA signal!", {}, {}),
    # Copies.
    f"HSA Copy copy_engine=0x1, dst=0x1, src=0x2, size=12, forceSDMA=0, engineOp=H2D, {_WAITS}": (
        "copy", "copy", {**_WAITED, "engine": 1, "dst": 1, "src": 2, "size_bytes": 12}, {"engine_op": "H2D"},
    ),
    f"HSA Copy dst=0x1, src=0x2, size=12, {_WAITS}, engineOp=D2D/P2P": (
        "copy", "copy", {**_WAITED, "engine": None, "size_bytes": 12}, {"engine_op": "D2D/P2P"},
    ),
    f"HSA BatchCopy Multi [1/2] engineOp=D2D/P2P, src=0x1, dst=0x2, size=12, {_WAITS}": (
        "copy", "copy", {**_WAITED, "src": 1, "dst": 2, "size_bytes": 12},
        {"engine_op": "D2D/P2P", "batch": "Multi", "batch_entry": 1, "batch_entries": 2},
    ),
    f"HSA BatchCopy Swap [1/2] engineOp=Compute, addr_a=0x1, addr_b=0x2, size=12, {_WAITS}": (
        "copy", "copy", {**_WAITED, "src": None, "dst": None, "size_bytes": 12},
        {"engine_op": "Compute", "batch": "Swap", "batch_entry": 1, "batch_entries": 2, "addr_a": 1, "addr_b": 2},
    ),
    f"HSA BatchCopy IndirectSrcDst [1/1] engineOp=Unknown, dst=0x1, src=0x2, size=12, {_WAITS}": (
        "copy", "copy", {**_WAITED, "dst": 1, "src": 2},
        {"engine_op": "Unknown", "batch": "IndirectSrcDst", "batch_entry": 1, "batch_entries": 1},
    ),
    f"HSA BatchCopy Linear [0/1] engineOp=H2D, dst=0x1, src=0x2, size=12, src_agent=0x3, dst_agent=0x4, {_WAITS}": (
        "copy", "copy", {**_WAITED, "size_bytes": 12},
        {"engine_op": "H2D", "batch": "Linear", "batch_entry": 0, "batch_entries": 1, "src_agent": 3, "dst_agent": 4},
    ),
    f"HSA Async Copy Rect dst=0x1, src=0x2, {_WAITS}": ("copy", "copy", {**_WAITED, "dst": 1, "src": 2}, {}),
    f"HSA Async Copy {_WAITS}": ("copy", "copy", {**_WAITED, "dst": None}, {}),
    "Assigned SDMA engine to VirtualGPU 0x6: mask=0x8, engine_type=2, valid_mask=0xff, preferred_mask=0x1, "
    "allocated_mask=0x2, is_inter_gpu=1": (
        "copy", "sdma_engine_assigned", {},
        {"virtual_gpu": 6, "mask": 8, "engine_type": 2, "valid_mask": 0xFF, "preferred_mask": 1, "allocated_mask": 2,
         "is_inter_gpu": 1},
    ),
    "Engine query for VirtualGPU 0x6: status=1a, free_mask=0xfb, preferred_mask=0x1, valid_mask=0xff, engine_type=2": (
        "copy", "sdma_engine_query", {},
        {"virtual_gpu": 6, "status": 0x1A, "free_mask": 0xFB, "preferred_mask": 1, "valid_mask": 0xFF,
         "engine_type": 2},
    ),
    "Inter-GPU copy for VirtualGPU 0x6: prioritizing preferred engines, candidate_mask=0x3": (
        "copy", "sdma_engine_candidates", {}, {"virtual_gpu": 6, "candidate_mask": 3},
    ),
    "No unallocated SDMA engines available for VirtualGPU 0x6, engine_type=2 (valid_mask=0xff, allocated_mask=0x2)": (
        "copy", "sdma_engines_taken", {},
        {"virtual_gpu": 6, "engine_type": 2, "valid_mask": 0xFF, "allocated_mask": 2},
    ),
    "No candidate SDMA engines for VirtualGPU 0x6": ("copy", "sdma_engines_taken", {}, {"virtual_gpu": 6}),
    "Failed to allocate SDMA engine for VirtualGPU 0x6": ("copy", "sdma_engine_failed", {}, {"virtual_gpu": 6}),
    "Required SDMA copy failed with code 4097": ("copy", "copy_failed", {}, {"code": 4097}),
    "HSA batch copy failed with code 4097 for engine 2": (
        "copy", "batch_copy_failed", {}, {"code": 4097, "engine_type": 2},
    ),
    f"HSA prefetch async dev_ptr=0x7f10, count=8192, {_WAITS}": (
        "copy", "prefetch", {"arg": 0x7F10, "size_bytes": 8192, "signal": 0x7F}, {"wait_signal": 0x70},
    ),
    f"HSA prefetch batch async[1] dev_ptr=0x7f10, size=8192, {_WAITS}": (
        "copy", "prefetch", {"arg": 0x7F10, "size_bytes": 8192, "signal": 0x7F}, {"wait_signal": 0x70},
    ),
    f"HSA discard batch async count=2, {_WAITS}": (
        "copy", "discard", {"signal": 0x7F}, {"count": 2, "wait_signal": 0x70},
    ),
    "SDMA ReleaseWrite: QueueId=3, cmd_size=64, wptr=0x80, rptr=0x40": (
        "copy", "sdma_write", {"size_bytes": 64}, {"kfd_queue_id": 3, "wptr": 0x80, "rptr": 0x40},
    ),
    "SDMA FanOut(Linear) Bodies: engine 02, entries=5, completion_signal=0x7f": (
        "copy", "sdma_fan_out", {"signal": 0x7F}, {"operation": "Linear", "engine": 2, "entries": 5},
    ),
    # Faults.
    "Memory Fault Error [host: node1, GPU index: 0, faulting addr: 0x7f12, kernel: k(float const*, int)]": (
        "other", "memory_fault", {},
        {"host": "node1", "gpu_index": 0, "fault_address": 0x7F12, "fault_kernel": "k(float const*, int)"},
    ),
    "Memory Fault Error [GPU index: 0, faulting addr: 0x7f12, kernel: k(int)]": (
        "other", "memory_fault", {}, {"gpu_index": 0, "fault_address": 0x7F12, "fault_kernel": "k(int)"},
    ),
    "Memory Fault Error": ("other", "memory_fault", {}, {}),
    "Callback: Queue 0x50 aborting with error : HSA_STATUS_ERROR: A generic error. code: 0x29": (
        "aql", "queue_aborted", {}, {"queue": 0x50, "error": "HSA_STATUS_ERROR: A generic error.", "code": 0x29},
    ),
    # What kept its text.
    "ShaderName : k(float const*, int)": ("aql", "shader_name", {"kernel": "k(float const*, int)"}, {}),
    "[hipGraph] Add KernelNode(0x55)": ("other", "graph_node_added", {}, {"node": "KernelNode", "address": 0x55}),
    "[hipGraph] Root node: KernelNode(0x55)": ("other", "graph_root_node", {}, {"node": "KernelNode", "address": 0x55}),
    "Deleting CG enabled hardware queue 0x50 ": ("aql", "queue_deleted", {"ring": 0x50}, {}),
    "Number of allocated hardware queues with low priority: 1, with normal priority: 2, with high priority: 3, maximum "
    "per priority is: 4": ("aql", "queue_allocated_count", {}, {"low": 1, "normal": 2, "high": 3, "maximum": 4}),
    **{
        f"HSA BatchCopy {form} [1/2] engineOp=D2D/P2P, {places}, size=12, {_WAITS}": (
            "copy", "copy", {**_WAITED, "src": 1, "dst": 2, "size_bytes": 12},
            {"engine_op": "D2D/P2P", "batch": form, "batch_entry": 1, "batch_entries": 2},
        )
        for form, places in (
            ("Broadcast", "src=0x1, dst=0x2"), ("IndirectSrc", "dst=0x2, src=0x1"), ("IndirectDst", "dst=0x2, src=0x1"),
        )
    },
}  # fmt: skip


@pytest.mark.parametrize("message", MESSAGES)
def test_a_new_message_gives_its_columns(message: str) -> None:
    layer, name, columns, args = MESSAGES[message]
    found = read(log(message))
    (row,) = found.events.to_dicts()
    told = row | (found.packet(row) if len(found.packets) else {})
    assert (row["layer"], row["name"], {key: told.get(key) for key in columns}) == (layer, name, columns)
    assert {key: value for key, value in found.arg(row).items() if key != "hwq" or key in args} == args


def test_the_size_of_arguments_is_that_of_the_packet_behind_it() -> None:
    dispatch = next(iter(MESSAGES))
    found = read(log("argSize = 28, KernargSegmentByteSize = 284, KernargSegmentAlignment = 8", dispatch))
    assert found.packet(found.one(name="dispatch"))["kernarg_bytes"] == 284
    assert len(found.events) == 1


def test_arguments_of_a_kernel_are_used_and_no_rows() -> None:
    args = ("ptr:0x7f00 ", "ptr:0x7f00 obj:[0x7f00-0x8000]", "val:0x5 (size:0x4)", "0x01 02 03 ... (size:0x80)")
    whole = log(*(f"Arg{i}: T a{i} = {text}" for i, text in enumerate(args)), next(iter(MESSAGES)))
    found = read(whole)
    assert [row["name"] for row in found.events.to_dicts()] == ["dispatch"]
    assert found.counts() == {"used": (5, len(whole))}


@pytest.mark.parametrize(
    ("read_index", "printed", "index", "slot"),
    [
        (16380, 16383, 16383, None), (16380, 3, None, 3), (16384, 16383, None, 16383), (7, 7, 7, None),
        (2**32 + 5, 9, None, 9), (2**32 - 1, 0, 0, None), (2**32 - 1, 2**32 - 1, 2**32 - 1, None),
    ],
)  # fmt: skip
def test_a_slot_of_the_ring_is_no_index(read_index: int, printed: int, index: int | None, slot: int | None) -> None:
    """Behind the read index lies what is no index, but for numbers of 32 bits that begin anew."""
    dispatch = next(iter(MESSAGES)).replace("rptr=3, wptr=4", f"rptr={read_index}, wptr={printed}")
    found = read(log("Graph ShaderName : k(int*), device id : 0", dispatch))
    row = found.one(name="dispatch")
    assert (row["packet_index"], row["kernel"], found.arg(row).get("slot")) == (index, "k(int*)", slot)
    assert found.packet(row)["rptr"] == read_index


def test_what_is_no_kernel_in_a_graph_gives_no_name() -> None:
    dispatch, _, barrier, *_ = MESSAGES
    marker = "Graph ShaderName : [Graph completion barrier], device id : 0"
    found = read(log(marker, barrier, marker, dispatch))
    assert [row["kernel"] for row in found.events.to_dicts()] == [None] * 4
    assert found.events["flags"].to_list() == [0] * 4


_STANDS = (
    "SWq=0x22, HWq=0x50, id=1, priority=1, Dispatch Header = 0xb02 (type=2, barrier=1, acquire=1, release=1), setup=2, "
    f"grid=[512, 64, 1], workgroup=[16, 16, 1], {_KERNEL}, completion_signal=0x7f, rptr=3, wptr=5"
)
# Lines of a runtime that found a hang, beside the log: name, ring of the row, args.
_HUNG: dict[str, tuple[str, int | None, dict[str, int]]] = {
    f"VGPU(0x6) hang analysis:\n{_STANDS}\nSWq=0x22, HWq=0x50, id=1, Metadata Packet [wptr=3]: header=[0x2]": (
        "hung_packet", 0x50,
        {"virtual_gpu": 6, "swq": 0x22, "ring": 0x50, "header": 0xB02, "grid_x": 512, "grid_y": 64, "grid_z": 1,
         "workgroup_x": 16, "workgroup_y": 16, "workgroup_z": 1, "private_bytes": 0, "group_bytes": 2048,
         "kernel_object": 0x58A, "kernarg": 0x400, "rptr": 3, "wptr": 5},
    ),
    "VGPU(0x6) Queue(0x22) is idle": ("idle_queue", None, {"virtual_gpu": 6, "swq": 0x22}),
    "VGPU(0x6) Queue(0x22). Couldn't find the hang AQL packet!": ("hung_queue", None, {"virtual_gpu": 6, "swq": 0x22}),
    "VGPU(0x6) Queue(0x22). Couldn't find kernel": ("hung_queue", None, {"virtual_gpu": 6, "swq": 0x22}),
    "VGPU(0x6) Queue(0x22) rptr=3, wptr=5. Vendor packet (amd_format=2)": (
        "hung_queue", None, {"virtual_gpu": 6, "swq": 0x22, "rptr": 3, "wptr": 5, "amd_format": 2},
    ),
    "VGPU(0x6) Queue(0x22) rptr=3, wptr=5. A barrier packet in the queue!": (
        "hung_queue", None, {"virtual_gpu": 6, "swq": 0x22, "rptr": 3, "wptr": 5},
    ),
}  # fmt: skip


@pytest.mark.parametrize("text", _HUNG)
def test_what_the_runtime_prints_of_a_hang_beside_the_log_is_read(text: str) -> None:
    name, ring, args = _HUNG[text]
    whole = log("No HW event") + text + "\n" + log("No HW event")
    found = read(whole)
    row = found.one(name=name)
    told = found.arg(row)
    assert (row["ring"], told.pop("message")) == (ring, " ".join(text.split("\n")))
    assert told == args
    assert found.counts() == {"used": (3, len(whole))}
