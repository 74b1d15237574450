"""The messages of the log that become rows: their texts in all releases, layer and name.

A template is literal text with fields in braces. Its first literal decides the class of a record,
the rest is read as far as it fits, so a shorter wording of another release still gives the fields
it has. Fields named like a column of the event table go there; the others become rows of `args`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

from tracecorr.model.kinds import COMPLETE, COPY, COPY_FAILED, INVALID_GPU_TIME, MIGRATIONS, SHADER_NAME

_VARIABLES = re.compile(r"\(nil\)|0x[0-9a-fA-F]+h?|\b[0-9a-f]{6,16}\b|\d+")
_MOST_BYTES, _MOST_CHARACTERS = 400, 48
# A log has some hundred messages; texts of a program in them must not become names without end.
MOST_NAMES, MORE_NAMES = 4096, "(more)"


def general_name(message: bytes) -> str:
    """Return the message with its numbers and addresses as `#`, cut to 48 characters."""
    text = _VARIABLES.sub("#", message[:_MOST_BYTES].decode("utf-8", "replace"))
    # Blanks before the first character do not count.
    text = text.strip()[:_MOST_CHARACTERS]
    if not text.isprintable():
        text = "".join(c if c.isprintable() else "?" for c in text)
    return text.strip() or "(empty)"


class Kind:
    """Say what becomes of a record: plain numbers, since arrays of them are compared all the time."""

    OTHER = 0
    ENTER = 1
    EXIT = 2
    ROW = 3
    FOLDED = 4
    KERNARG = 5
    SHADER = 6
    PACKET = 7
    COMMAND = 8
    COPY = 9
    TEXT = 10


# ROCm 5.4 gives this format one argument too few: under `size` stands half of the signal waited for, under
# `wait_event` the copy's own signal, under `completion_signal` what lay on the stack (seen in a real log of 5.4.3).
SHIFTED_COPY = "HSA Asycn Copy dst="


@dataclass(frozen=True)
class Message:
    """Describe one message: its template, and the layer and name of its row.

    Args:
        has_text: of a copy, whether `TEXTS` says more of it. Those of kind `TEXT` have their fields read first, and
            what follows them by `TEXTS`.
    """

    template: str
    layer: str
    name: str
    kind: int = Kind.ROW
    has_text: bool = False

    @cached_property
    def steps(self) -> list[str]:
        """Return literals (even places) and field names (odd places)."""
        return re.split(r"\{(\w*)\}", self.template)

    @cached_property
    def prefix(self) -> bytes:
        """Return the text that a record of this message begins with."""
        return self.steps[0].encode()


def _queue_messages() -> list[Message]:
    counts = " of allocated hardware queues with low priority: {low}, with normal priority: {normal}"
    counts += ", with high priority: {high}, maximum per priority is: {maximum}"
    created = " with size {size} with priority {priority}, cooperative: {cooperative}"
    table = [
        ("created hardware queue {swq}" + created, "queue_created"),
        ("selected queue with least refCount: {queue} ({refcount})", "queue_selected"),
        ("releaseQueue refCount:{queue} ({refcount})", "queue_released"),
    ]
    table += [(first + counts, "queue_allocated_count") for first in ("Number", "number")]
    table += [(first + "elected queue refCount: {queue} ({refcount})", "queue_selected") for first in "Ss"]
    # The development branch of 2026.
    table += [
        ("Reusing preferred queue: {queue} refCount: {refcount}", "queue_selected"),
        ("Deferring CG enabled hardware queue {queue} destroy", "queue_delete_deferred"),
        ("Deleting deferred hardware queue {queue}", "queue_deleted"),
        ("Device::acquireQueue: hsa_amd_queue_create failed!", "queue_create_failed"),
        (
            "metadata prefetch: preload_length={preload_length}, preload_offset={preload_offset}, "
            "preload_limit={preload_limit}",
            "metadata_prefetch",
        ),
    ]
    for first in "Dd":
        table += [
            (first + "eleting hardware queue {queue} with refCount {refcount}", "queue_deleted"),
            (first + "eleting CG enabled hardware queue {queue}", "queue_deleted"),
            (
                first + "eleting hostcall buffer {hostcall_buffer} for hardware queue {any_queue}",
                "hostcall_buffer_deleted",
            ),
        ]
    table += [
        (first + "reated hostcall buffer {hostcall_buffer} for hardware queue {any_queue}", "hostcall_buffer_created")
        for first in "Cc"
    ]
    sizes = "(numPackets == {packets}, size == {size_bytes}, align == {align})"
    table += [
        (
            f"Created hostcall buffer {{hostcall_buffer}} {sizes} for virtual queue {{virtual_gpu}}",
            "hostcall_buffer_created",
        ),
        ("Deleting hostcall buffer {hostcall_buffer}", "hostcall_buffer_deleted"),
    ]
    for word in ("reachead", "reached"):
        table.append((f"Runtime {word} the AQL queue limit", "queue_full"))
    table += [
        ("Initialize Hostcall signal={hostcall_signal}", "hostcall_signal_created"),
        ("Launched hostcall listener at {listener}", "hostcall_listener_launched"),
        ("Registered hostcall buffer {hostcall_buffer} with listener {listener}", "hostcall_buffer_registered"),
        ("Terminated hostcall listener", "hostcall_listener_terminated"),
    ]
    table.append(("Scratch size ({scratch_bytes}) exceeds max allowed ({maximum}) for kernel", "scratch_exceeded"))
    texts = [
        ("Created SWq={swq} to map on HWq={ring}" + created, "queue_created"),
        # ROCm 10: `hsa_amd_queue_create` takes the CU mask, so that there is no line of its own for it.
        (
            "Created SWq={swq} HWq={ring} size {size} priority {priority} cooperative {cooperative} flags {flags} "
            "device_mem_ring_buf {device_mem_ring_buf}",
            "queue_created",
        ),
        ("acquireQueue refCount: {queue} ({refcount})", "queue_acquired"),
        (
            "Selected queue (mode={mode}): {queue} refCount: {refcount}, depth: {depth}, metric: {metric}, "
            "pipe: {pipe}",
            "queue_selected",
        ),
        ("Callback: Queue ", "queue_aborted"),
        ("VirtualGPU::callbackQueue aborting ", "queue_aborted"),
        ("Device::callbackQueue aborting ", "queue_aborted"),
        ("Setting CU mask ", "queue_cu_mask"),
        ("setting CU mask ", "queue_cu_mask"),
    ]
    messages = [Message(template, "aql", name) for template, name in table]
    return messages + [Message(template, "aql", name, Kind.TEXT) for template, name in texts]


def _signal_messages() -> list[Message]:
    table = [
        ("Host wait on completion_signal={signal}", "host_wait"),
        ("Host active wait for Signal = ({signal}) for {timeout_ns} ns", "host_active_wait"),
        ("Host blocked wait for Signal = ({signal})", "host_blocked_wait"),
        ("Device not Stable, while waiting for Signal =({signal}) for {timeout_ns} ns", "device_not_stable"),
        ("Set Handler: handle({signal}), timestamp({timestamp}), blocking CB={blocking}", "set_handler"),
        ("Adding dep hw event signal: {signal}", "dependency_added"),
        ("Invalid signal timing: start={start_ns}, end={end_ns}, signal={signal}", INVALID_GPU_TIME),
        ("Handler: value({value}), timestamp({timestamp}), handle({signal})", "handler"),
        # ROCm 10 no longer prints the signal whose value changed, but one that waits for the handler, 0 = none.
        ("Handler: value({value}), timestamp({timestamp}), callback_signal({callback_signal})", "handler"),
        ("Requeue handler : value({value}), timestamp({timestamp}),handle({signal})", "requeue_handler"),
        (
            "Signal = ({signal}), Translated start/end = {start_ns} / {end_ns}, Elapsed = {} ns, "
            "ticks start/end = {} / {}, Ticks elapsed = {}, Engine = {engine_type}",
            "gpu_time",
        ),
        ("Signal = ({signal}), start = {start_ns}, end = {end_ns}", "gpu_time"),
        ("Waiting for value: {value}. Flags: {flags} mask: {mask}", "stream_wait_value"),
        ("Writing value: {value}", "stream_write_value"),
    ]
    return [Message(template, "signal", name) for template, name in table]


def _memory_messages() -> list[Message]:
    lock = "Locking to pool {}, size {size_bytes}, "
    table = [
        ("Allocate hsa device memory {arg}, size {size_bytes}", "allocate_device"),
        ("Allocate hsa host memory {arg}, size {size_bytes}, numa_node = {numa_node}, mem_seg", "allocate_host"),
        ("Free hsa memory {arg}", "free"),
        ("Reserve hsa device memory {arg}, size {size_bytes}", "reserve_addresses"),
        ("Free hsa reserved memory {arg}", "free_addresses"),
        ("ihipMallocManaged ptr={arg}", "managed_allocate"),
        ("Device={device}, freeMem_ = {free_bytes}", "free_memory"),
        ("device={device}, freeMem_ = {free_bytes}", "free_memory"),
        ("Pool AllocMem: {arg}", "pool_allocate"),
        ("Pool FreeMem: {arg}", "pool_free"),
        (lock + "hostMem = {arg}, deviceMemory = {device_address}", "lock"),
        (lock + "HostPtr = {arg}, DevPtr = {device_address}", "lock"),
    ]
    return [Message(template, "memory", name) for template, name in table]


def _command_messages() -> list[Message]:
    done = "Command {command} complete (Wall: {wall_us}, CPU: {}, GPU: {gpu_us} us)"
    table = [
        Message(done, "command", COMPLETE),
        Message("Command {command} complete", "command", COMPLETE),
        Message("command is enqueued: {command}", "command", "enqueued", Kind.COMMAND),
        Message("Command (", "command", "", Kind.COMMAND),
        Message("command (", "command", "", Kind.COMMAND),
    ]
    for first in "Ww":
        table.append(Message(first + "aiting for event {command} to complete", "command", "wait_event"))
    for first in "Ee":
        table.append(Message(first + "vent {command} wait completed", "command", "wait_event_done"))
    for first in "Qq":
        table.append(Message(first + "ueue marker to command queue: {stream}", "command", "queue_marker"))
    return table


def _packet_messages() -> list[Message]:
    table = [Message(first, "aql", "", Kind.PACKET) for first in ("SWq=", "HWq=")]
    # In the development branch of 2026 the packets of a graph that are no kernels are announced like kernels.
    table.append(Message("Graph ShaderName : [Graph ", "aql", "graph_packet", Kind.TEXT))
    shaders = ("ShaderName : ", "Graph ShaderName : ", "Graph shader name : ")
    table += [Message(first, "aql", SHADER_NAME, Kind.SHADER) for first in shaders]
    table += [Message(f"Arg{digit}", "", "", Kind.FOLDED) for digit in range(10)]
    table.append(Message("KernargSegmentByteSize = {kernarg_bytes}", "", "", Kind.KERNARG))
    table.append(Message("argSize = {}, KernargSegmentByteSize = {kernarg_bytes}", "", "", Kind.KERNARG))
    return table


def _copy_messages() -> list[Message]:
    starts = (
        "HSA Copy copy_engine=", "HSA Copy dst=", "HSA Copy Rect ", "HSA Async Blit Copy dst=",
        "HSA Async Copy on copy_engine=", "HSA Async Copy dst=", "HSA Async Copy Rect ",
        "HSA Async Copy completion_signal=", "HSA Async Copy wait_event=", "HSA Asycn Copy ", SHIFTED_COPY,
    )  # fmt: skip
    table = [Message(start, "copy", COPY, Kind.COPY) for start in starts]
    table.append(Message("HSA BatchCopy ", "copy", COPY, Kind.COPY, has_text=True))
    for way in ("H2D", "D2H"):
        table.append(Message(f"HSA Async Copy staged {way} dst=", "copy", COPY, Kind.COPY))
        table.append(Message(f"HSA Async Copy staged {way}", "copy", f"staged_{way.lower()}"))
    for who in ("HSA copy", "DMA buffer", "Required SDMA copy"):
        table.append(Message(f"{who} failed with code {{code}}", "copy", COPY_FAILED))
    # Which of the copies before it failed is not told.
    table.append(
        Message("HSA batch copy failed with code {code} for engine {engine_type}", "copy", "batch_copy_failed")
    )
    migrated = "wait_event={wait_signal}, completion_signal={signal}"
    table += [
        Message("HSA prefetch async dev_ptr={arg}, count={size_bytes}, " + migrated, "copy", MIGRATIONS[0]),
        Message("HSA prefetch batch async[{}] dev_ptr={arg}, size={size_bytes}, " + migrated, "copy", MIGRATIONS[0]),
        Message("HSA discard batch async count={count}, " + migrated, "copy", MIGRATIONS[1]),
    ]
    for way in ("Staging", "Pinned"):
        name = f"using_{way.lower()}_resource"
        table.append(Message(f"HSA Copy Using {way} resource size {{size_bytes}}", "copy", name))
    places = {"H2D": "dst={dst}, stg buf={staging}, dstOrigin={}", "D2H": "stg buf={staging}, src={src}, dstOrigin={}"}
    for way, place in places.items():
        template = f"Blit staging {way} copy {place}, size={{size_bytes}}"
        table.append(Message(template, "copy", f"blit_staging_{way.lower()}"))
    table += [Message(f"Unpinned {way} ", "copy", f"unpinned_{way}") for way in ("read", "write")]
    table += [
        Message(template, "copy", name)
        for template, name in (
            (
                "Using assigned SDMA engine for VirtualGPU {virtual_gpu}: mask={mask}, engine_type={engine_type}",
                "sdma_engine_used",
            ),
            (
                "Assigned SDMA engine to VirtualGPU {virtual_gpu}: mask={mask}, engine_type={engine_type}, "
                "valid_mask={valid_mask}, preferred_mask={preferred_mask}, allocated_mask={allocated_mask}, "
                "is_inter_gpu={is_inter_gpu}",
                "sdma_engine_assigned",
            ),
            (
                "Allocated new SDMA engine for VirtualGPU {virtual_gpu}: mask={mask}, engine_type={engine_type}",
                "sdma_engine_allocated",
            ),
            ("Released SDMA engine for VirtualGPU {virtual_gpu}: mask={mask}", "sdma_engine_released"),
            (
                "Inter-GPU copy for VirtualGPU {virtual_gpu}: prioritizing preferred engines, "
                "candidate_mask={candidate_mask}",
                "sdma_engine_candidates",
            ),
            (
                "No unallocated SDMA engines available for VirtualGPU {virtual_gpu}, engine_type={engine_type} "
                "(valid_mask={valid_mask}, allocated_mask={allocated_mask})",
                "sdma_engines_taken",
            ),
            ("No candidate SDMA engines for VirtualGPU {virtual_gpu}", "sdma_engines_taken"),
            ("Failed to allocate SDMA engine for VirtualGPU {virtual_gpu}", "sdma_engine_failed"),
            (
                "SDMA ReleaseWrite: QueueId={kfd_queue_id}, cmd_size={size_bytes}, wptr={wptr}, rptr={rptr}",
                "sdma_write",
            ),
            ("Last copy mask {mask}", "copy_engine_last"),
        )
    ]
    table.append(Message("Query copy engine status ", "copy", "copy_engine_query", Kind.TEXT))
    table.append(Message("Engine query for VirtualGPU ", "copy", "sdma_engine_query", Kind.TEXT))
    table.append(Message("SDMA FanOut(", "copy", "sdma_fan_out", Kind.TEXT))
    table.append(Message("memcpy stg buf={}, host src={}, size={size_bytes}", "copy", "memcpy_to_staging"))
    table.append(Message("memcpy host dst={}, stg buf={}, size={size_bytes}", "copy", "memcpy_from_staging"))
    for way, name in (
        ("H2D", "host_memcpy_h2d"),
        ("D2H", "host_memcpy_d2h"),
        ("for copyBuffer", "host_memcpy"),
        ("for copyBufferRect", "host_memcpy_rect"),
    ):
        table.append(Message(f"Using host memcpy {way}, src={{}}, dst={{}}, size={{size_bytes}}", "copy", name))
    return table


def _other_messages() -> list[Message]:
    table = [
        Message(start, "other", name, Kind.TEXT)
        for start, name in (
            ("HW Exception Error", "hardware_exception"),
            ("HIP Version: ", "hip_version"), ("ROCclr version: ", "hip_version"),
            ("HIP Library Path: ", "hip_library"), ("Code object saved in ", "code_object_saved"),
            ("Using Native code object: ", "code_object"), ("Using native code object for device: ", "code_object"),
            ("Using generic code object for device: ", "code_object"),
            ("Using spirv code object for device: ", "spirv_code_object"),
            ("[hipGraph] Add ", "graph_node_added"), ("[hipGraph] Root node: ", "graph_root_node"),
            ("[hipGraph] Current capture node ", "graph_capture_node"),
            ("[hipGraph] current capture node ", "graph_capture_node"), ("Memory Fault Error", "memory_fault"),
        )
    ]  # fmt: skip
    table += [
        Message(template, "other", name)
        for template, name in (
            ("Using Code Object V{code_object_version}.", "code_object_version"),
            ("Gfx Major/Minor/Stepping: {gfx_major}/{gfx_minor}/{gfx_stepping}", "gfx_version"),
            ("HMM support: {hmm}, XNACK: {xnack}, Direct host access: {direct_host_access}", "hmm_support"),
            ("HMM support: {hmm}, xnack: {xnack}, direct host access: {direct_host_access}", "hmm_support"),
            ("Max SDMA Read Mask: {sdma_read_mask}, Max SDMA Write Mask: {sdma_write_mask}", "sdma_masks"),
            ("Numa selects cpu agent[{cpu_agent}]=", "numa_agent"),
            ("Numa select cpu agent[{cpu_agent}]=", "numa_agent"),
            ("Enumerated GPU agents = {gpu_agents}", "gpu_agents"),
            ("Initializing runtime stack, Enumerated GPU agents = {gpu_agents}", "gpu_agents"),
            ("Initalizing runtime stack, Enumerated GPU agents = {gpu_agents}", "gpu_agents"),
            ("Direct Dispatch: {direct_dispatch}", "direct_dispatch"),
            ("GraphExec::Run max_streams: {max_streams}, on device: {device}", "graph_run"),
            ("UpdateStreams failed for device id:{device}", "graph_streams_missing"),
            ("[hipGraph] ScheduleNodesIntoBatches: Using hierarchical child graph handling", "graph_hierarchical"),
            (
                "[hipGraph] FindExecutionPathsHierarchical: Found {paths} paths, {child_graphs} child graphs",
                "graph_paths",
            ),
            ("[hipGraph] CreateSegmentsFromPaths: Processing {paths} paths", "graph_segments_begin"),
            ("[hipGraph] Created {segments} segments (segment IDs 0-{})", "graph_segments"),
            ("[hipGraph] ResolveSegmentDependencies: Processing {segments} segments", "graph_dependencies_begin"),
            (
                "[hipGraph] ResolveSegmentDependencies complete: max_dependency_level={levels}, max_streams={streams}",
                "graph_dependencies",
            ),
            ("[hipGraph] Creating {streams} parallel streams for device {device}", "graph_streams"),
            ("Running serialized as blocking is requested", "graph_serialized"),
            ("finish() called with batch size: {batch}, cpu_wait: {cpu_wait}, fence dirty: {fence_dirty}", "finish"),
            ("Unknown Event Type", "unknown_event"),
        )
    ]
    # Frequent ones without fields of interest, named here only to spare them the slow path.
    for sample in (
        "Check HW event = 0x1", "Waiting on nullstream 0x1", "Issue barrier to flush chunk 1",
        "No HW event or batch size is less than 16, await command completion",
        "All commands finished for host queue : 0x1",
    ):  # fmt: skip
        prefix = re.split(r"0x|\d", sample)[0]
        table.append(Message(prefix, "other", general_name(sample.encode())))
    return table


MESSAGES: list[Message] = [
    *_packet_messages(), *_command_messages(), *_signal_messages(), *_copy_messages(),
    *_memory_messages(), *_queue_messages(), *_other_messages(),
]  # fmt: skip

# Words before the header of a packet's line, and the names of such packets.
PACKET_KINDS = (
    ("Dispatch", "dispatch"), ("BarrierAND", "barrier_and"), ("Barrier-AND", "barrier_and"),
    ("BarrierOR", "barrier_or"), ("Barrier-OR", "barrier_or"), ("BarrierValue", "barrier_value"),
    ("Barrier", "barrier_and"),
)  # fmt: skip
# Fields of packets and copies that are words, as printed.
WORD_FIELDS = ("condition", "engine_op")
# Keys in the lines of packets and copies, and the fields that their numbers are; the order of keys differs by release.
PACKET_KEYS = {
    "SWq": ("swq",), "HWq": ("ring",), "id": ("log_id",), "Header": ("header",),
    "grid": ("grid_x", "grid_y", "grid_z"), "workgroup": ("workgroup_x", "workgroup_y", "workgroup_z"),
    "private_seg_size": ("private_bytes",), "group_seg_size": ("group_bytes",), "kernel_obj": ("kernel_object",),
    "kernarg_address": ("kernarg",), "completion_signal": ("signal",),
    "dep_signal": ("dep_0", "dep_1", "dep_2", "dep_3", "dep_4"), "rptr": ("rptr",), "wptr": ("packet_index",),
    "copy_engine": ("engine",), "dst": ("dst",), "src": ("src",), "size": ("size_bytes",),
    "wait_event": ("wait_event",), "signal": ("wait_signal",),
    "value": ("value",), "mask": ("mask",), "cond": ("condition",), "engineOp": ("engine_op",),
    "engineType": ("engine_type",), "addr_a": ("addr_a",), "addr_b": ("addr_b",), "src_agent": ("src_agent",),
    "dst_agent": ("dst_agent",),
    # The development branch of 2026. Counts of clusters are spread to work-items when the line is read.
    "priority": ("stream_priority",), "virtual_pipe_id": ("virtual_pipe",),
    "cluster_count": ("grid_x", "grid_y", "grid_z"), "cluster_size": ("cluster_x", "cluster_y", "cluster_z"),
    "header": ("header_0", "header_1", "header_2", "header_3"), "event_id": ("event_id",),
    "kernel_code_entry_byte_offset": ("kernel_code_entry_byte_offset",), "compute_pgm_rsrc1": ("compute_pgm_rsrc1",),
    "compute_pgm_rsrc2": ("compute_pgm_rsrc2",), "compute_pgm_rsrc3": ("compute_pgm_rsrc3",),
    "kernel_code_properties": ("kernel_code_properties",), "length": ("preload_length",),
    "offset": ("preload_offset",),
    "launch_descriptor": tuple(f"launch_descriptor_{i}" for i in range(13)),
}  # fmt: skip
# What follows the kind in `Command (KIND`: text, text behind the command's address, name of the row (None = the kind),
# kind of row. Behind the address of an enqueued one the stream may follow. The others are printed by a queue's thread,
# which takes a command, waits for the events before it, and submits it.
COMMAND_FORMS = (
    (") enqueued: ", " to queue: ", None, Kind.COMMAND),
    (") submitted: ", "", "submitted", Kind.COMMAND),
    (") is submitted: ", "", "submitted", Kind.COMMAND),
    (") processing: ", "", "processing", Kind.ROW),
    (") ", " awaiting event: ", "awaiting_event", Kind.ROW),
)

# What messages of kind `TEXT` hold: groups that are numbers go to their columns, or to `args` like the others.
TEXTS = {
    "queue_created": re.compile(r".* CU mask (?P<cu_mask>0x[0-9a-f]+)"),
    "queue_acquired": re.compile(r".*(?P<choice>\(dedicated\))"),
    "queue_selected": re.compile(r".* pipe: -?\d+ (?P<choice>\(.*\))"),
    "copy": re.compile(r"HSA BatchCopy (?P<batch>\w+) \[(?P<batch_entry>\d+)/(?P<batch_entries>\d+)\]"),
    "graph_packet": re.compile(r"Graph ShaderName : \[(?P<packet>[^\]]*)\]"),
    "memory_fault": re.compile(
        r"Memory Fault Error(?: \[(?:host: (?P<host>\S+), )?GPU index: (?P<gpu_index>\d+),\s+"
        r"faulting addr: (?P<fault_address>0x[0-9a-f]+)(?:,\s+kernel: (?P<fault_kernel>.*)\])?)?"
    ),
    "sdma_engine_query": re.compile(
        r"Engine query for VirtualGPU (?P<virtual_gpu>0x[0-9a-f]+): status=(?P<status>[0-9a-f]+)"
        r"(?:, free_mask=0x(?P<free_mask>[0-9a-f]+))?(?:, preferred_mask=(?P<preferred_mask>0x[0-9a-f]+))?"
        r"(?:, valid_mask=(?P<valid_mask>0x[0-9a-f]+))?(?:, engine_type=(?P<engine_type>\d+))?"
    ),
    "sdma_fan_out": re.compile(
        r"SDMA FanOut\((?P<operation>\w+)\) Bodies: engine (?P<engine>\d+), entries=(?P<entries>\d+), "
        r"completion_signal=(?P<signal>0x[0-9a-f]+)"
    ),
    "hardware_exception": re.compile(r"HW Exception Error"),
    "hip_version": re.compile(r"(?P<version>.*)"),
    "hip_library": re.compile(r"HIP Library Path: (?P<path>.*)"),
    "spirv_code_object": re.compile(r"Using spirv code object for device: (?P<device_isa>.*)"),
    "code_object": re.compile(r".*(?:code object: | co: )(?P<isa>.*)"),
    "code_object_saved": re.compile(r"Code object saved in (?P<path>.*)"),
    "graph_node_added": re.compile(r"\[hipGraph\] Add (?P<node>\w+)\((?P<address>0x[0-9a-f]+)\)"),
    "graph_root_node": re.compile(r"\[hipGraph\] Root node: (?P<node>\w+)\((?P<address>0x[0-9a-f]+)\)"),
    "graph_capture_node": re.compile(
        r"\[hipGraph\] [Cc]urrent capture node (?P<node>\w[\w ]*?) on stream : (?P<stream>0x[0-9a-f]+)"
    ),
    "queue_aborted": re.compile(
        r"(?:Callback: Queue (?P<any_queue>0x[0-9a-f]+)|\w+::callbackQueue) [Aa]borting with "
        r"(?:error : (?P<error>.*) [Cc]ode|status): (?P<code>0x[0-9a-f]+)"
    ),
    "copy_engine_query": re.compile(
        r"Query copy engine status (?P<status>[0-9a-f]+)(?:, srcAgent \S+, dstAgent \S+)?"
        r", free(?:_engine)?[ _]?mask (?:0x)?(?P<free_mask>[0-9a-f]+)"
    ),
    "queue_cu_mask": re.compile(r".etting CU mask (?P<cu_mask>\w+) for hardware queue (?P<any_queue>0x[0-9a-f]+)"),
}
