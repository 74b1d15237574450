"""Every class of messages, in the wordings of all releases, with the fields that it holds (synthetic logs)."""

from __future__ import annotations

from typing import Any

import pytest
from amdlog_cases import log, read

# Message -> layer, name, columns of the event, args.
MESSAGES: dict[str, tuple[str, str, dict[str, Any], dict[str, Any]]] = {
    "Callback: Queue 0x7f00 aborting with error : HSA_STATUS_ERROR_EXCEPTION: An exception code: 0x1016": (
        "aql", "queue_aborted", {"ring": None},
        {"queue": 0x7F00, "error": "HSA_STATUS_ERROR_EXCEPTION: An exception", "code": 0x1016},
    ),
    "Callback: Queue 0x7f00 Aborting with error : HSA_STATUS_ERROR_X: y. Code: 0x1008 Available Free mem : 12 MB": (
        "aql", "queue_aborted", {}, {"queue": 0x7F00, "error": "HSA_STATUS_ERROR_X: y.", "code": 0x1008},
    ),
    "Device::callbackQueue aborting with error : HSA_STATUS_ERROR_X code: 0x1016": (
        "aql", "queue_aborted", {"ring": None}, {"error": "HSA_STATUS_ERROR_X", "code": 0x1016},
    ),
    "VirtualGPU::callbackQueue aborting with status: 0x1016": ("aql", "queue_aborted", {}, {"code": 0x1016}),
    "Memory Fault Error": ("other", "memory_fault", {}, {}),
    "Unknown Event Type": ("other", "unknown_event", {}, {}),
    "Runtime reachead the AQL queue limit. SW is much ahead of HW. Blocking AQL queue!": ("aql", "queue_full", {}, {}),
    "Runtime reached the AQL queue limit. SW is much ahead of HW. Blocking AQL queue!": ("aql", "queue_full", {}, {}),
    "Scratch size (64) exceeds max allowed (32) for kernel : k": (
        "aql", "scratch_exceeded", {}, {"scratch_bytes": 64, "maximum": 32},
    ),
    "Setting CU mask 0xffff for hardware queue 0x7f00": (
        "aql", "queue_cu_mask", {}, {"cu_mask": 0xFFFF, "queue": 0x7F00},
    ),
    "setting CU mask 0xffffffffffffffffffff for hardware queue 0x7f00": (
        "aql", "queue_cu_mask", {}, {"cu_mask": "0xffffffffffffffffffff", "queue": 0x7F00},
    ),
    "Created hostcall buffer 0x5 for hardware queue 0x7f00": (
        "aql", "hostcall_buffer_created", {}, {"hostcall_buffer": 5, "queue": 0x7F00},
    ),
    "deleting hostcall buffer 0x5 for hardware queue 0x7f00": (
        "aql", "hostcall_buffer_deleted", {}, {"hostcall_buffer": 5, "queue": 0x7F00},
    ),
    "Initialize Hostcall signal=0x7f80": (
        "aql", "hostcall_signal_created", {"signal": None}, {"hostcall_signal": 0x7F80},
    ),
    "Launched hostcall listener at 0x6": ("aql", "hostcall_listener_launched", {}, {"listener": 6}),
    "Registered hostcall buffer 0x5 with listener 0x6": (
        "aql", "hostcall_buffer_registered", {}, {"hostcall_buffer": 5, "listener": 6},
    ),
    "Terminated hostcall listener": ("aql", "hostcall_listener_terminated", {}, {}),
    "Waiting for value: 0x3. Flags: 0x1 mask: 0xffffffffffffffff": (
        "signal", "stream_wait_value", {"signal": None}, {"value": 3, "flags": 1, "mask": 0xFFFFFFFFFFFFFFFF},
    ),
    "Writing value: 0x123456789": ("signal", "stream_write_value", {"signal": None}, {"value": 0x123456789}),
    "Reserve hsa device memory 0x7f10, size 0x200000": (
        "memory", "reserve_addresses", {"arg": 0x7F10, "size_bytes": 0x200000}, {},
    ),
    "Free hsa reserved memory 0x7f10": ("memory", "free_addresses", {"arg": 0x7F10}, {}),
    "ihipMallocManaged ptr=0x7f10": ("memory", "managed_allocate", {"arg": 0x7F10}, {}),
    "Device=0x7bda130, freeMem_ = 0xffee00000": (
        "memory", "free_memory", {}, {"device": 0x7BDA130, "free_bytes": 0xFFEE00000},
    ),
    "device=0x7bda130, freeMem_ = 0xee00000": (
        "memory", "free_memory", {}, {"device": 0x7BDA130, "free_bytes": 0xEE00000},
    ),
    "Allocate hsa host memory 0x10, size 0x28": ("memory", "allocate_host", {"arg": 0x10, "size_bytes": 0x28}, {}),
    "Allocate hsa host memory 0x10, size 0x28, numa_node = 1": (
        "memory", "allocate_host", {"arg": 0x10, "size_bytes": 0x28}, {"numa_node": 1},
    ),
    "Allocate hsa device memory 0x10, size 0x28, hsa_mem_flags 0x4h": (
        "memory", "allocate_device", {"arg": 0x10, "size_bytes": 0x28}, {},
    ),
    "Free hsa memory (nil)": ("memory", "free", {"arg": None}, {}),
    "Pool AllocMem: 0x10, 0x20": ("memory", "pool_allocate", {"arg": 0x10}, {}),
    "Pool FreeMem: 0x10, 0x20": ("memory", "pool_free", {"arg": 0x10}, {}),
    "Using host memcpy H2D, src=0x364dab0, dst=0x1402a40000, size=65536": (
        "copy", "host_memcpy_h2d", {"size_bytes": 65536}, {},
    ),
    "Using host memcpy D2H, src=0x100e8c0000, dst=0x133d6bc0, size=65536": (
        "copy", "host_memcpy_d2h", {"size_bytes": 65536}, {},
    ),
    "Using host memcpy for copyBuffer, src=0x100e8f0000, dst=0x100e8c0000, size=256": (
        "copy", "host_memcpy", {"size_bytes": 256}, {},
    ),
    "Using host memcpy for copyBufferRect, src=0x100e8f0000, dst=0x100e8c0000, size=256": (
        "copy", "host_memcpy_rect", {"size_bytes": 256}, {},
    ),
    "Gfx Major/Minor/Stepping: 9/4/2": (
        "other", "gfx_version", {}, {"gfx_major": 9, "gfx_minor": 4, "gfx_stepping": 2},
    ),
    "HMM support: 1, xnack: 0, direct host access: 1": (
        "other", "hmm_support", {}, {"hmm": 1, "xnack": 0, "direct_host_access": 1},
    ),
    "HMM support: 1, XNACK: 0, Direct host access: 1": (
        "other", "hmm_support", {}, {"hmm": 1, "xnack": 0, "direct_host_access": 1},
    ),
    "Max SDMA Read Mask: 0xffff, Max SDMA Write Mask: 0xff": (
        "other", "sdma_masks", {}, {"sdma_read_mask": 0xFFFF, "sdma_write_mask": 0xFF},
    ),
    "Enumerated GPU agents = 8": ("other", "gpu_agents", {}, {"gpu_agents": 8}),
    "Initalizing runtime stack, Enumerated GPU agents = 8": ("other", "gpu_agents", {}, {"gpu_agents": 8}),
    "Initializing runtime stack, Enumerated GPU agents = 1": ("other", "gpu_agents", {}, {"gpu_agents": 1}),
    "Numa selects cpu agent[1]=0x7c(fine=0x7d,coarse=0x7e) for gpu agent=0x7f": (
        "other", "numa_agent", {}, {"cpu_agent": 1},
    ),
    "Using Code Object V5.": ("other", "code_object_version", {}, {"code_object_version": 5}),
    "Using Native code object: gfx942:sramecc+:xnack-": (
        "other", "code_object", {}, {"isa": "gfx942:sramecc+:xnack-"},
    ),
    "Using native code object for device: amdgcn-amd-amdhsa--gfx942 co: gfx942": (
        "other", "code_object", {}, {"isa": "gfx942"},
    ),
    "Code object saved in /tmp/a.o": ("other", "code_object_saved", {}, {"path": "/tmp/a.o"}),
    "[hipGraph] Add KernelNode(0x7f51)": ("other", "graph_node_added", {}, {"node": "KernelNode", "address": 0x7F51}),
    "[hipGraph] Root node: MemcpyNode(0x7f51)": (
        "other", "graph_root_node", {}, {"node": "MemcpyNode", "address": 0x7F51},
    ),
    "[hipGraph] Current capture node LaunchKernel on stream : 0x7f51": (
        "other", "graph_capture_node", {"stream": 0x7F51}, {"node": "LaunchKernel"},
    ),
    "[hipGraph] current capture node EventRecord on stream : 0x7f51, Event 0x7f52": (
        "other", "graph_capture_node", {"stream": 0x7F51}, {"node": "EventRecord"},
    ),
    "[hipGraph] current capture node module launch kernel launch on stream : 0x7f51": (
        "other", "graph_capture_node", {"stream": 0x7F51}, {"node": "module launch kernel launch"},
    ),
    "UpdateStreams failed for device id:1": ("other", "graph_streams_missing", {}, {"device": 1}),
    "GraphExec::Run max_streams: 4, on device: 1": ("other", "graph_run", {}, {"max_streams": 4, "device": 1}),
    "HIP Version: 7.2.26015.fc0010cf6a, Direct Dispatch: 1": (
        "other", "hip_version", {}, {"version": "HIP Version: 7.2.26015.fc0010cf6a, Direct Dispatch: 1"},
    ),
    "HIP Library Path: /opt/rocm-7.0.2/lib/libamdhip64.so.7": (
        "other", "hip_library", {}, {"path": "/opt/rocm-7.0.2/lib/libamdhip64.so.7"},
    ),
    "Direct Dispatch: 1": ("other", "direct_dispatch", {}, {"direct_dispatch": 1}),
    "Query copy engine status 0, free_engine mask 0xffff": (
        "copy", "copy_engine_query", {}, {"status": 0, "free_mask": 0xFFFF},
    ),
    "Query copy engine status 10, free_engine mask 0xfe": (
        "copy", "copy_engine_query", {}, {"status": 0x10, "free_mask": 0xFE},
    ),
    "Query copy engine status a, freemask fe": ("copy", "copy_engine_query", {}, {"status": 0xA, "free_mask": 0xFE}),
    "Query copy engine status 0, srcAgent 0x7f1, dstAgent 0x7f2, free_engine_mask 0xfc, rec_engine_mask 0x3": (
        "copy", "copy_engine_query", {}, {"status": 0, "free_mask": 0xFC},
    ),
    "Last copy mask 0x2": ("copy", "copy_engine_last", {}, {"mask": 2}),
    "Using assigned SDMA engine for VirtualGPU 0x73e2: mask=0x1, engine_type=2": (
        "copy", "sdma_engine_used", {}, {"virtual_gpu": 0x73E2, "mask": 1, "engine_type": 2},
    ),
    "Engine query for VirtualGPU 0x7f51: status=0, free_mask=0xfffb": (
        "copy", "sdma_engine_query", {}, {"virtual_gpu": 0x7F51, "status": 0, "free_mask": 0xFFFB},
    ),
    "Assigned SDMA engine to VirtualGPU 0x7f51: mask=0x8, engine_type=2, valid_mask=0xffff": (
        "copy", "sdma_engine_assigned", {}, {"virtual_gpu": 0x7F51, "mask": 8, "engine_type": 2, "valid_mask": 0xFFFF},
    ),
    "Allocated new SDMA engine for VirtualGPU 0x7f51: mask=0x8, engine_type=2": (
        "copy", "sdma_engine_allocated", {}, {"virtual_gpu": 0x7F51, "mask": 8, "engine_type": 2},
    ),
    "Released SDMA engine for VirtualGPU 0x7f51: mask=0x1": (
        "copy", "sdma_engine_released", {}, {"virtual_gpu": 0x7F51, "mask": 1},
    ),
    "Unpinned write rect path, Async = 1": ("copy", "unpinned_write", {}, {}),
    "Blit staging H2D copy dst=0x1, stg buf=0x2, dstOrigin=0x3, size=12": (
        "copy", "blit_staging_h2d", {"size_bytes": 12}, {"dst": 1, "staging": 2},
    ),
    "Blit staging D2H copy stg buf=0x1, src=0x2, dstOrigin=0x3, size=12": (
        "copy", "blit_staging_d2h", {"size_bytes": 12}, {"staging": 1, "src": 2},
    ),
    "HSA Async Blit Copy dst=0x1, src=0x2, size=12, wait_event=0x0, completion_signal=0x7f": (
        "copy", "copy", {"size_bytes": 12, "signal": 0x7F}, {},
    ),
    "HSA copy failed with code 4097, falling to Blit copy": ("copy", "copy_failed", {}, {"code": 4097}),
    "DMA buffer failed with code 4097": ("copy", "copy_failed", {}, {"code": 4097}),
    "HSA Copy Using Pinned resource size 12": ("copy", "using_pinned_resource", {"size_bytes": 12}, {}),
    "memcpy host dst=0x1, stg buf=0x2, size=12": ("copy", "memcpy_from_staging", {"size_bytes": 12}, {}),
    "Device not Stable, while waiting for Signal =(0x7f) for 10 ns": (
        "signal", "device_not_stable", {"signal": 0x7F}, {"timeout_ns": 10},
    ),
    "Requeue handler : value(1), timestamp(0x5),handle(0x7f)": (
        "signal", "requeue_handler", {"signal": 0x7F}, {"value": 1, "timestamp": 5},
    ),
    "Command (KernelExecution) enqueued: 0x55": ("command", "KernelExecution", {"command": 0x55, "stream": None}, {}),
    "command is enqueued: 0x55": ("command", "enqueued", {"command": 0x55}, {}),
    "Command (KernelExecution) processing: 0x55 ,events.size(): 1": ("command", "processing", {"command": 0x55}, {}),
    "Command (KernelExecution) submitted: 0x55": ("command", "submitted", {"command": 0x55}, {}),
    "command (KernelExecution) is submitted: 0x55": ("command", "submitted", {"command": 0x55}, {}),
    "Command (Marker) 0x55 awaiting event: 0x66": ("command", "awaiting_event", {"command": 0x55}, {}),
    "Command (Marker) in some new wording": (
        "other", "Command (Marker) in some new wording", {"command": None},
        {"unknown_form": "Command (Marker) in some new wording"},
    ),
    "waiting for event 0x55 to complete, current status 0": ("command", "wait_event", {"command": 0x55}, {}),
    "Queue marker to command queue: 0x66": ("command", "queue_marker", {"stream": 0x66}, {}),
    "Deleting CG enabled hardware queue 0x50 ": ("aql", "queue_deleted", {"ring": 0x50}, {}),
    "selected queue with least refCount: 0x50 (3)": ("aql", "queue_selected", {"ring": 0x50}, {"refcount": 3}),
    # A failing graph, and a command used again too early: no command ends.
    "Command creation for node id(3) failed!": (
        "other", "Command creation for node id(#) failed!", {"command": None}, {},
    ),
    "Command is reset before complete current status :2": (
        "other", "Command is reset before complete current status", {"command": None}, {},
    ),
    "Using generic code object for device: gfx942 co: gfx9-4-generic": (
        "other", "code_object", {}, {"isa": "gfx9-4-generic"},
    ),
    "Using spirv code object for device: gfx942:xnack-": (
        "other", "spirv_code_object", {}, {"device_isa": "gfx942:xnack-"},
    ),
    "a message of a release to come, 7": ("other", "a message of a release to come, #", {}, {}),
}  # fmt: skip


@pytest.mark.parametrize("message", MESSAGES)
def test_a_message_gives_its_fields(message: str) -> None:
    layer, name, columns, args = MESSAGES[message]
    found = read(log(message))
    (row,) = found.events.to_dicts()
    assert (row["layer"], row["name"], {key: row[key] for key in columns}) == (layer, name, columns)
    assert found.arg(row) == args
    assert found.args["key"].is_unique().all()


@pytest.mark.parametrize(
    ("message", "is_unknown"),
    [
        ("SWq=0x22, HWq=0x50, id=1, Tensor Header = 0xb02 (type=2), rptr=1, wptr=1", True),
        ("SWq=0x22, HWq=0x50, id=1, Dispatch Header = 0xb02 (type=2), rptr=1, wptr=1", False),
        ("Created SWq=0x22 to map on HWq=0x50 of pipe 3", True),
        ("Created SWq=0x22 to map on HWq=0x50 with size 16384", False),
        ("Host wait on completion_signal=the first", True),
    ],
)
def test_a_known_begin_with_an_unknown_rest_is_counted_and_shown(message: str, is_unknown: bool) -> None:
    found = read(log(message))
    told = [row["text"] for row in found.args.to_dicts() if row["key"] == "unknown_form"]
    assert told == ([message] if is_unknown else [])
    assert {reason: records for reason, (records, _) in found.counts().items()} == {
        "unknown_form" if is_unknown else "used": 1
    }


def test_the_queue_of_a_fault_is_a_ring_where_it_is_known_as_one() -> None:
    created = "Created SWq=0x22 to map on HWq=0x50 with size 16384 with priority 2, cooperative: 0"
    abort = "Callback: Queue {} aborting with error : X code: 0x1"
    found = read(log(created, abort.format("0x50"), abort.format("0x22"), abort.format("0x33")))
    aborts = found.rows(name="queue_aborted")
    assert [row["ring"] for row in aborts] == [0x50, None, None]
    assert [{"swq", "queue"} & found.arg(row).keys() for row in aborts] == [set(), {"swq"}, {"queue"}]
