"""The schema of every table: column, type, unit, meaning.

Two groups of tables are known. *Parts* (`part_tables.py`) are what a reader yields. *Tables* are what a capture folder
holds after `tracecorr correlate`. `render_reference` turns these into the column reference of the documentation.
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from tracecorr.model.columns import CAT, I32, I64, LOCATION, U16, U32, U64, Column, Table, columns_of
from tracecorr.model.kinds import LAYERS, SOURCES, describe_choice, describe_flags
from tracecorr.model.part_tables import (
    PART_ARGS,
    PART_EVENTS,
    PART_LEDGER,
    PART_LOSSES,
    PART_PACKETS,
    PART_POLLS,
    PARTS,
)
from tracecorr.model.reasons import render_reasons

__all__ = [
    "ARGS",
    "CAT",
    "CLOCK_MAP",
    "DRM_JOBS",
    "EVENTS",
    "FILES",
    "GPUS",
    "HQD",
    "KERNELS",
    "LAUNCHES",
    "LEDGER",
    "LINKS",
    "LOSSES",
    "PARTS",
    "PART_ARGS",
    "PART_EVENTS",
    "PART_LEDGER",
    "PART_LOSSES",
    "PART_PACKETS",
    "PART_POLLS",
    "PROCESSES",
    "QUEUES",
    "SAMPLES",
    "STREAMS",
    "STREAM_QUEUES",
    "TABLES",
    "THREADS",
    "Column",
    "Table",
    "render_page",
    "render_reference",
]

EVENTS = Table(
    "events",
    "one thing that happened, on the common clock, sorted by `ts_ns`",
    columns_of(
        ("event", I64, "row id, dense, in time order"),
        ("ts_ns", I64, "start, host CLOCK_MONOTONIC", "ns"),
        (
            "dur_ns",
            I64,
            "duration on the common clock: it includes `clock_map.rate_ppb`, and the steps between pieces; null for an "
            "instant, a half-seen span, and on an unmapped clock that counts cycles or events",
            "ns",
        ),
        ("err_lo_ns", U32, "the true start is not earlier than ts_ns - err_lo_ns; null = unknown", "ns"),
        ("err_hi_ns", U32, "the true start is not later than ts_ns + err_hi_ns; null = unknown", "ns"),
        ("stamp_ns", I64, "the source's own time", "ns"),
        ("layer", CAT, describe_choice(LAYERS)),
        ("name", CAT, "what happened"),
        ("source", CAT, describe_choice(SOURCES)),
        ("evidence", CAT, "`recorded`, `derived` or `inferred`"),
        ("process", U32, "key of `processes`"),
        ("thread", U32, "key of `threads`"),
        ("gpu", U16, "key of `gpus`"),
        ("pid", I32, "host pid (tgid); null = not known"),
        ("tid", I32, "host kernel tid; null = not known"),
        ("cpu", U16, "CPU"),
        ("depth", U16, "nesting depth on its lane"),
        ("result", CAT, "`hipSuccess`, `0`, `EINVAL`, ..."),
        ("queue", U32, "key of `queues`"),
        ("kernel", U32, "key of `kernels`"),
        ("stream", U32, "key of `streams`"),
        ("packet_index", I64, "AQL packet index in its ring (doorbell: value stored)"),
        ("signal", U64, "completion signal handle"),
        ("command", U64, "HIP command pointer"),
        (
            "arg",
            U64,
            "syscall argument; doorbell signal handle of a doorbell store; event that a HIP call records or waits for, "
            "address that hipStreamWaitValue and hipStreamWriteValue wait for and write",
        ),
        ("fd", I32, "file descriptor"),
        ("cmd", U32, "ioctl request number"),
        ("size_bytes", I64, "size of a copy or an allocation, or what a write was given", "bytes"),
    )
    + LOCATION
    + columns_of(
        ("parent", I64, "enclosing event; if two tracers recorded the call (`flags`), the row that counts"),
        ("chain", I64, "root HIP call of the chain"),
        ("flags", U16, describe_flags()),
    ),
)

LAUNCHES = Table(
    "launches",
    "one AQL packet that HIP submits, or one copy",
    columns_of(
        ("event", I64, "the packet's or copy's row in `events`"),
        ("kind", CAT, "`dispatch`, `barrier_and`, `barrier_or`, `barrier_value` or `copy`"),
        ("process", U32, "key of `processes`"),
        ("thread", U32, "key of `threads`"),
        ("gpu", U16, "key of `gpus`"),
        ("call_event", I64, "HIP call that submitted it (the outermost one)"),
        ("command_event", I64, "its `Command (..) enqueued` line"),
        ("doorbell_event", I64, "the doorbell store of this packet"),
        ("announce_event", I64, "the first store with value >= index, or `doorbell_event`; a GPU may start before"),
        ("gpu_event", I64, "its row of layer `gpu`, if a source has GPU times"),
        ("queue", U32, "key of `queues`"),
        (
            "stream",
            U32,
            "key of `streams`: that its command names, else derived: that its call was given (ROCm <= 6.4)",
        ),
        ("kernel", U32, "key of `kernels`"),
        ("packet_index", I64, "AQL packet index in its ring"),
        ("call_ns", I64, "start of the HIP call", "ns"),
        ("enqueue_ns", I64, "time of the command line", "ns"),
        ("packet_ns", I64, "time of the packet line", "ns"),
        ("doorbell_ns", I64, "time of the doorbell store", "ns"),
        ("gpu_start_ns", I64, "start on the GPU; null = not recorded", "ns"),
        ("gpu_end_ns", I64, "end on the GPU; null = not recorded", "ns"),
        (
            "complete_ns",
            I64,
            "printed end of its command (not the end on the GPU; a barrier in front of a copy may outlast it)",
            "ns",
        ),
        ("return_ns", I64, "return of the HIP call", "ns"),
        (
            "doorbell_evidence",
            CAT,
            "`recorded`: its own store was traced; `derived`: its graph launch's; `inferred`: an interval",
        ),
        ("doorbell_lo_ns", I64, "inferred doorbell: not earlier than this", "ns"),
        ("doorbell_hi_ns", I64, "inferred doorbell: not later than this", "ns"),
        ("grid_x", U32, "grid size", "work-items"),
        ("grid_y", U32, "grid size", "work-items"),
        ("grid_z", U32, "grid size", "work-items"),
        ("workgroup_x", U16, "workgroup size", "work-items"),
        ("workgroup_y", U16, "workgroup size", "work-items"),
        ("workgroup_z", U16, "workgroup size", "work-items"),
        ("header", U32, "AQL packet header"),
        ("barrier", pl.Boolean, "barrier bit of the header: the packet waits for those before it in its ring"),
        ("acquire", U16, "acquire fence scope of the header: 0 none, 1 agent, 2 system"),
        ("release", U16, "release fence scope of the header: 0 none, 1 agent, 2 system"),
        ("rptr", I64, "read index printed with the packet", "packets"),
        ("wptr", I64, "write index printed with the packet", "packets"),
        ("kernarg", U64, "address of the kernel arguments"),
        ("kernel_object", U64, "address of the kernel descriptor"),
        ("signal", U64, "completion signal handle"),
        ("engine", U32, "copy_engine mask of a copy"),
        (
            "stream_priority",
            I32,
            "priority of its stream as the packet prints it (ROCm 10): 0 low, 1 normal, 2 medium, 3 high",
        ),
        ("virtual_pipe", I32, "pipe that the runtime assumes (ROCm 10); not read from hardware"),
        ("size_bytes", I64, "size of a copy", "bytes"),
        ("unlinked_reason", CAT, "why a link is missing; null when complete"),
    ),
)

QUEUES = Table(
    "queues",
    "one queue known from any source",
    columns_of(
        ("queue", U32, "row id"),
        ("process", U32, "key of `processes`"),
        ("gpu", U16, "key of `gpus`"),
        ("hwq", U64, "HWq as the log prints it"),
        ("ring_base", U64, "ring base address as the kernel or the doorbell probe recorded it"),
        ("intercepted", pl.Boolean, "a profiler stands between HIP and the queue"),
        ("swq", U64, "SWq: address of the hsa_queue_t"),
        ("log_id", I64, "`id=` of the log"),
        ("kfd_queue_id", I64, "queue_id of the KFD"),
        ("doorbell_signal", U64, "handle of the doorbell signal"),
        ("doorbell_offset", U64, "doorbell offset returned by CREATE_QUEUE"),
        (
            "priority_hip",
            I32,
            "HIP priority of its first stream whose creation the log shows, 0 = none requested; null = no such stream",
        ),
        ("priority_log", I32, "priority printed in the Created line (0 low, 1 normal, 2 high)"),
        ("priority_ioctl", I32, "priority that CREATE_QUEUE asked for (CLR changes it afterwards by UPDATE_QUEUE)"),
        ("type", CAT, "`compute_aql`, `compute_pm4`, `sdma`, `sdma_xgmi`; null = not known"),
        ("size", I64, "ring size", "packets"),
        ("created_ns", I64, "end of the creation", "ns"),
        ("destroyed_ns", I64, "destruction", "ns"),
        ("created_line_event", I64, "the log's Created line"),
        ("create_ioctl_event", I64, "the CREATE_QUEUE ioctl"),
        (
            "create_evidence",
            CAT,
            "how line and ioctl were joined: `recorded` by ring (`derived` if their processes have only their pid "
            "in common), else by time: `derived`, `inferred` if unsure",
        ),
        (
            "ring_evidence",
            CAT,
            "how the Created line's ring is known: `recorded`: the line or a doorbell names both; else (ROCm <= 6.1) "
            "as sure as its ioctl, or `inferred`: from streams, or from the order of creations and packets",
        ),
        ("mqd_events", I64, "MQD operations of the creation; repetitions for several XCCs count once"),
        ("dispatches", I64, "dispatch packets; null = the log does not know the queue"),
        ("barriers", I64, "barrier packets; null as above"),
        ("known_from", pl.String, "sources that name the queue"),
    ),
)

PROCESSES = Table(
    "processes",
    "one life of one process",
    columns_of(
        ("process", U32, "row id"),
        ("pid", I32, "host pid; null = not known"),
        ("log_pid", I32, "pid printed in the log (inside its pid namespace)"),
        ("comm", CAT, "command name"),
        ("exe", pl.String, "path of the executable"),
        ("from_ns", I64, "first sight", "ns"),
        ("to_ns", I64, "last sight", "ns"),
        ("how", CAT, "how pid and log_pid were joined"),
    ),
)

THREADS = Table(
    "threads",
    "one life of one thread",
    columns_of(
        ("thread", U32, "row id"),
        ("process", U32, "key of `processes`"),
        ("tid", I32, "host kernel tid"),
        ("log_tid", U64, "tid printed in the log (pthread address)"),
        ("comm", CAT, "command name"),
        ("how", CAT, "how tid and log_tid were joined: `write`, `set_robust_list`, `get_robust_list`, ..."),
        ("evidence", CAT, "`recorded`, `derived` or `inferred`"),
        ("creator", U32, "thread of the same process that made it (clone, clone3), if the trace shows that"),
        ("from_ns", I64, "first sight", "ns"),
        ("to_ns", I64, "last sight", "ns"),
    ),
)

GPUS = Table(
    "gpus",
    "one GPU (KFD node)",
    columns_of(
        ("gpu", U16, "row id"),
        ("gpu_id", U32, "gpu_id of the KFD, decimal as in sysfs; reports write it in hex, as debugfs does: f7bc"),
        ("kfd_node", I32, "KFD node number"),
        ("pci", pl.String, "PCI address"),
        ("render_minor", I32, "minor number of the render node"),
        ("gfx_target", pl.String, "gfx target"),
        ("xcc_count", U16, "number of XCCs"),
        ("xcc_ids", pl.String, "XCC ids, as an HQD dump names them"),
        (
            "partition",
            pl.String,
            "partition mode of its device: `SPX`, `DPX`, `TPX`, `QPX`, `CPX`; null = none or not known",
        ),
        ("scheduler", CAT, "`HWS`, `MES` or `none`"),
        ("cus", U32, "compute units of the node"),
        ("firmware", pl.String, "firmware versions of the compute scheduler (MEC) and of SDMA, as the KFD shows them"),
        ("cp_slots", U16, "hardware slots for compute queues of programs (`num_cp_queues`); null = not known"),
        ("sdma_slots", U16, "SDMA queues that its engines hold, those for XGMI included; null = not known"),
    ),
)

STREAMS = Table(
    "streams",
    "one HIP stream",
    columns_of(
        ("stream", U32, "row id"),
        ("process", U32, "key of `processes`"),
        ("handle", U64, "hipStream_t; 0x1 = hipStreamLegacy: what calls are given is `<null>`, the null stream"),
        ("priority", I32, "requested priority; null = none requested"),
        ("flags", U32, "requested flags"),
        ("created_ns", I64, "return of the creating call; null = not seen (null stream)", "ns"),
        ("destroyed_ns", I64, "start of hipStreamDestroy", "ns"),
        ("create_event", I64, "the creating call"),
    ),
)

STREAM_QUEUES = Table(
    "stream_queues",
    "one span in which a stream submitted to a queue",
    columns_of(
        ("stream", U32, "key of `streams`"),
        ("queue", U32, "key of `queues`"),
        ("from_ns", I64, "first packet", "ns"),
        ("to_ns", I64, "last packet", "ns"),
        ("evidence", CAT, "`recorded`, `derived` or `inferred`"),
    ),
)

KERNELS = Table(
    "kernels",
    "one kernel name",
    columns_of(
        ("kernel", U32, "row id"),
        ("name", pl.String, "name as printed (demangled if the log did that)"),
        ("mangled", pl.String, "mangled name, if the log prints it"),
        ("display", pl.String, "short name for lanes, with the template values by which kernels of one name differ"),
        ("vgpr", U32, "vector registers"),
        ("sgpr", U32, "scalar registers"),
        ("lds", U32, "LDS per workgroup", "bytes"),
        ("scratch", U32, "scratch per work-item", "bytes"),
        ("kernarg_bytes", U32, "size of the arguments", "bytes"),
    ),
)

LINKS = Table(
    "links",
    "one edge from a cause to its effect",
    columns_of(
        ("from_event", I64, "cause"),
        ("to_event", I64, "effect"),
        ("rule", CAT, "rule that made the link"),
        ("evidence", CAT, "`recorded`, `derived` or `inferred`"),
        ("gap_ns", I64, "start of the effect minus start of the cause", "ns"),
        ("gap_err_ns", I64, "how far the true gap may lie from gap_ns, to either side; null = unknown", "ns"),
    ),
)

CLOCK_MAP = Table(
    "clock_map",
    "one straight piece of the map from a source's clock to CLOCK_MONOTONIC, as it was applied: a stamp of the piece "
    "became stamp + offset_ns + rate_ppb * (stamp - from_ns) / 1e9, rounded to 1 ns",
    columns_of(
        ("source", CAT, "source and clock, such as `ftrace:local`"),
        ("from_ns", I64, "first stamp of the piece, source clock", "ns"),
        ("to_ns", I64, "last stamp of the piece, source clock", "ns"),
        ("offset_ns", I64, "CLOCK_MONOTONIC minus source clock at from_ns; in a dataset that of its first node", "ns"),
        ("rate_ppb", I64, "growth of the offset", "ns per s"),
        ("lo_ns", I64, "the true offset is nowhere in the piece more than this below the one that is shown", "ns"),
        ("hi_ns", I64, "the true offset is nowhere in the piece more than this above the one that is shown", "ns"),
        (
            "width_ns",
            I64,
            "the most that the bounds of the offset lie apart at one time of the piece; null = lo_ns + hi_ns",
            "ns",
        ),
        ("pairs", I64, "samples or pairs used for the whole map, told with its first piece; null in the others"),
        ("violated", I64, "of them contradicted by the map, told with its first piece; null in the others"),
        ("method", CAT, "`same_clock`, `samples`, `causal_pairs` or `unaligned`"),
    ),
)

FILES = Table(
    "files",
    "one raw file of the capture",
    columns_of(
        ("file", U16, "row id"),
        ("path", pl.String, "path inside the capture folder"),
        ("source", CAT, describe_choice(SOURCES)),
        ("size", I64, "decompressed size", "bytes"),
        (
            "checksum",
            pl.String,
            "checksum of the decompressed bytes (4096 zeros of a large hole): `xxh128` (older: `sha256`) and value",
        ),
    ),
)

ARGS = Table(
    "args",
    "one named field of an event that has no column of its own",
    columns_of(
        ("event", I64, "key of `events`"),
        ("key", CAT, "name of the field as its source prints it"),
        ("u64", U64, "its value as a number (two's complement); null for text"),
        ("text", pl.String, "its value as text; null for numbers"),
    ),
)

LEDGER, LOSSES = PART_LEDGER, PART_LOSSES

DRM_JOBS = Table(
    "drm_jobs",
    "one job of the kernel's gpu_scheduler: queued, run, done",
    columns_of(
        ("job", U32, "row id"),
        ("dev", CAT, "PCI name of the device; null on kernels before 6.17, whose events name none"),
        ("ring", CAT, "ring as printed: `sdma0`, `comp_1.0.0`, `gfx_0.0.0`, ..."),
        ("ring_kind", CAT, "`kcq` (kernel compute queue), `gfx`, `sdma` (`page` rings too), `media`, `other`"),
        ("fence", pl.String, "finished fence: its pointer (old naming) or `context:seqno` (new naming)"),
        ("id", I64, "job id on its entity (old naming)"),
        ("client_id", I64, "drm-client-id (new naming)"),
        ("process", U32, "submitting process: key of `processes`; null = not in the trace"),
        ("thread", U32, "submitting thread: key of `threads`"),
        ("queue_event", I64, "`drm_sched_job` or `drm_sched_job_queue`"),
        ("run_event", I64, "`drm_run_job` or `drm_sched_job_run`"),
        ("done_event", I64, "`drm_sched_process_job` or `drm_sched_job_done`"),
        ("queued_ns", I64, "pushed to its entity", "ns"),
        ("run_ns", I64, "handed to the hardware ring", "ns"),
        ("done_ns", I64, "finished fence signalled", "ns"),
    ),
)

HQD = Table(
    "hqd",
    "one hardware queue slot, MQD or runlist entry of one debugfs dump",
    columns_of(
        ("snapshot", U32, "number of the dump in the capture"),
        ("dump", CAT, "`hqds` (registers), `mqds` (memory descriptors) or `rls` (runlists)"),
        ("read_start_ns", I64, "the read began; null = not recorded", "ns"),
        ("read_end_ns", I64, "the read ended", "ns"),
        ("kfd_node", I32, "KFD node number (hqds, rls)"),
        ("gpu_id", U32, "gpu_id of the KFD, decimal as in sysfs; reports write it in hex, as debugfs does: f7bc"),
        ("xcc", U16, "XCC (`Inst`) of the register bank, or the MQD's place among those of its queue; null for SDMA"),
        ("type", CAT, "`cp`, `hiq`, `diq` or `sdma`"),
        ("pid", I32, "owning process (mqds); null = not in the dump"),
        ("mqd", I32, "number of the queue in its process (mqds: newest first) or in its runlist (rls)"),
        ("pipe", U16, "pipe; SDMA: engine"),
        ("slot", U16, "queue slot of the pipe; SDMA: RLC"),
        ("state", CAT, "`active`, `stale` (used before, not mapped), `unused`; mqds: `described`; rls: `listed`"),
        ("active", pl.Boolean, "CP_HQD_ACTIVE; SDMA: RB_ENABLE and its doorbell enabled; null in mqds and rls"),
        (
            "rptr",
            I64,
            "PQ_RPTR or RB_RPTR as the register holds it; PQ_RPTR is kept by XCC 0 alone and in another unit than wptr",
        ),
        ("wptr", I64, "PQ_WPTR or RB_WPTR as the register holds it"),
        ("quantum", U32, "CP_HQD_QUANTUM (bit 0 enabled, bit 4 scale, bits 13:8 duration); null for SDMA"),
        ("pq_base", U64, "ring base address: PQ_BASE or RB_BASE, shifted left by 8"),
        ("ring_bytes", I64, "size of the ring", "bytes"),
        ("doorbell", U32, "doorbell offset", "dwords"),
        ("doorbell_enabled", pl.Boolean, "whether the queue listens to its doorbell"),
        ("pipe_priority", U16, "0 low, 1 medium, 2 high"),
        ("queue_priority", U16, "0 to 15; 0 in all queues if the driver sets only that of the pipe"),
        ("vmid", U16, "VMID; 0 in an MQD of a queue that the firmware schedules"),
        ("mqd_base", U64, "address of the MQD"),
        ("read_address", U64, "address of the queue's read index in its process; null for SDMA"),
        ("write_address", U64, "address of its write index"),
        ("dequeue_request", U32, "CP_HQD_DEQUEUE_REQUEST: not 0 = a preemption is under way"),
        ("error", U32, "CP_HQD_ERROR"),
        ("pq_empty", pl.Boolean, "PQ_EMPTY of CP_HQD_PQ_CONTROL: all that was fetched is done"),
        ("written", I64, "write index in the process's memory, read after the dump", "packets"),
        ("finished", I64, "read index there: the first packet that has not finished", "packets"),
        ("logical", U32, "number of the logical queue in its dump: slots of all XCCs share it; null = no queue"),
        ("gpu", U16, "key of `gpus`"),
        ("queue", U32, "key of `queues`"),
        ("file", U16, "key of `files`"),
        ("offset", I64, "first byte of the block in its file", "bytes"),
    ),
)

SAMPLES = Table(
    "samples",
    "one polled value",
    columns_of(
        ("ts_ns", I64, "time of the read", "ns"),
        ("gpu", U16, "key of `gpus`"),
        ("process", U32, "key of `processes`"),
        ("name", CAT, "what was polled"),
        ("value", pl.Float64, "its value"),
    ),
)

TABLES = {
    t.name: t
    for t in (
        EVENTS, LAUNCHES, QUEUES, STREAMS, STREAM_QUEUES, KERNELS, PROCESSES, THREADS, GPUS, LINKS,
        ARGS, DRM_JOBS, HQD, SAMPLES, CLOCK_MAP, FILES, LEDGER, LOSSES,
    )
}  # fmt: skip


def render_reference() -> Iterator[str]:
    """Yield the lines of the column reference (Markdown) of all tables."""
    for table in TABLES.values():
        yield f"## {table.name}\n"
        yield f"One row is {table.row}.\n"
        yield "| column | type | unit | meaning |\n|---|---|---|---|"
        for column in table.columns:
            yield f"| {column.name} | {column.dtype} | {column.unit} | {column.meaning} |"
        yield ""


def render_page() -> str:
    """Return the page of the column reference, `TABLES.md`."""
    head = (
        "# Tables\n\nMade by `scripts/make_tables_page` from `schema.py`. Times are ns of the host's CLOCK_MONOTONIC.\n"
    )
    return "\n".join([head, *render_reference(), *render_reasons()]).rstrip() + "\n"
