"""The schema of every table: column, type, unit, meaning.

Two groups of tables live here. *Parts* are the contract between the readers and everything after
them: a reader yields them block by block, with times as its source printed them. *Tables* are
what a capture folder holds after `tracecorr correlate`. `render_reference` turns both into the
column reference of the documentation.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import polars as pl

CAT = pl.Categorical()


@dataclass(frozen=True)
class Column:
    """Describe one column: its name, type, unit and meaning."""

    name: str
    dtype: pl.DataType | type[pl.DataType]
    meaning: str
    unit: str = ""


@dataclass(frozen=True)
class Table:
    """Describe one table: its name, what a row is, and its columns."""

    name: str
    row: str
    columns: tuple[Column, ...]

    @cached_property
    def schema(self) -> pl.Schema:
        """Return the polars schema of the table."""
        return pl.Schema({c.name: c.dtype for c in self.columns})

    def empty(self) -> pl.DataFrame:
        """Return the table without rows."""
        return pl.DataFrame(schema=self.schema)

    def conform(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Return `frame` with exactly the columns of the table: missing ones null, types cast.

        A number that its column cannot hold becomes null.

        Raises:
            ValueError: `frame` has a column that the table does not know.
        """
        foreign = set(frame.columns) - set(self.schema)
        if foreign:
            raise ValueError(f"table {self.name} has no column {sorted(foreign)}")
        return frame.select(
            (pl.col(c.name).cast(c.dtype, strict=False) if c.name in frame.columns else pl.lit(None, c.dtype)).alias(
                c.name
            )
            for c in self.columns
        )


def _columns(*rows: tuple[object, ...]) -> tuple[Column, ...]:
    return tuple(Column(*row) for row in rows)  # type: ignore[arg-type]


_I64, _U64, _U32, _U16, _I32 = pl.Int64, pl.UInt64, pl.UInt32, pl.UInt16, pl.Int32

_LOCATION = _columns(
    ("file", _U16, "key of `files`: the raw file behind the row"),
    ("offset", _I64, "first byte of the (enter) record in the decompressed file", "bytes"),
    ("length", _U32, "length of that record without its line end", "bytes"),
    ("end_offset", _I64, "first byte of the exit record; null when there is none", "bytes"),
    ("end_length", _U32, "length of the exit record", "bytes"),
)

# --- parts: what a reader yields -----------------------------------------------------------------

PART_EVENTS = Table(
    "part_events",
    "one thing that happened, as one source tells it (enter and exit already paired)",
    _columns(
        ("stamp_ns", _I64, "start on the source's own clock; null = the record has no time", "ns"),
        ("end_stamp_ns", _I64, "end on the source's own clock; null = instant or half seen", "ns"),
        ("clock", CAT, "clock of the stamps: `mono`, `mono_raw`, `local`, ..., `unknown`"),
        ("layer", CAT, "one of `kinds.LAYERS`"),
        ("name", CAT, "`hipLaunchKernel`, `AMDKFD_IOC_CREATE_QUEUE`, `dispatch`, `doorbell`, ..."),
        ("pid", _U32, "process as the source prints it: log pid, or tgid of a trace; null = not said"),
        ("tid", _U64, "thread as the source prints it: pthread address, or kernel tid"),
        ("comm", CAT, "command name of a trace record"),
        ("cpu", _U16, "CPU of a trace record"),
        ("depth", _U16, "number of enclosing calls of the same thread in the same source"),
        ("parent_offset", _I64, "`offset` of the enclosing call (same file, same thread); null = none"),
        ("result", CAT, "`hipSuccess`, `hipErrorX`, `0`, `EINVAL`, ...; null = not known"),
        ("ring", _U64, "HWq: base address of the AQL ring"),
        ("packet_index", _I64, "packet index printed as wptr, or value stored to the doorbell"),
        ("signal", _U64, "completion signal handle"),
        ("command", _U64, "HIP command pointer"),
        ("stream", _U64, "hipStream_t handle"),
        ("kernel", CAT, "full kernel name as printed by ShaderName"),
        ("arg", _U64, "syscall argument; doorbell signal handle of a doorbell store"),
        ("fd", _I32, "file descriptor"),
        ("cmd", _U32, "ioctl request number"),
        ("size_bytes", _I64, "size of a copy or an allocation", "bytes"),
    )
    + _LOCATION
    + _columns(("flags", _U16, "bits of `kinds.Flag`")),
)

PART_PACKETS = Table(
    "part_packets",
    "one AQL packet or copy line of the log: what `part_events` has no column for",
    _columns(
        ("file", _U16, "with `offset` the key of the row in `part_events`"),
        ("offset", _I64, "first byte of the packet's line", "bytes"),
        ("command_offset", _I64, "`offset` of the thread's last `Command (..) enqueued` in the same call"),
        ("swq", _U64, "SWq: address of the hsa_queue_t"),
        ("log_id", _I64, "`id=`: HSA queue id (not the KFD queue_id)"),
        ("rptr", _I64, "read index printed with the packet", "packets"),
        ("header", _U32, "AQL packet header"),
        ("grid_x", _U32, "grid size", "work-items"),
        ("grid_y", _U32, "grid size", "work-items"),
        ("grid_z", _U32, "grid size", "work-items"),
        ("workgroup_x", _U16, "workgroup size", "work-items"),
        ("workgroup_y", _U16, "workgroup size", "work-items"),
        ("workgroup_z", _U16, "workgroup size", "work-items"),
        ("private_bytes", _U32, "private segment (scratch) per work-item", "bytes"),
        ("group_bytes", _U32, "group segment (LDS) per workgroup", "bytes"),
        ("kernel_object", _U64, "address of the kernel descriptor"),
        ("kernarg", _U64, "address of the kernel arguments"),
        ("kernarg_bytes", _U32, "KernargSegmentByteSize of the packet", "bytes"),
        ("dep_signals", pl.List(_U64), "signals that a barrier or copy waits for (zero ones left out)"),
        ("engine", _U32, "copy_engine mask of a copy"),
        ("dst", _U64, "destination address of a copy"),
        ("src", _U64, "source address of a copy"),
    ),
)

PART_ARGS = Table(
    "part_args",
    "one named field of an event that has no column of its own",
    _columns(
        ("file", _U16, "with `offset` the key of the row in `part_events`"),
        ("offset", _I64, "first byte of the (enter) record", "bytes"),
        ("key", CAT, "name of the field as its source prints it"),
        ("u64", _U64, "its value as a number (two's complement); null for text"),
        ("text", pl.String, "its value as text; null for numbers"),
    ),
)

PART_LEDGER = Table(
    "ledger",
    "what became of the bytes of one file, by outcome and reason",
    _columns(
        ("file", _U16, "key of `files`"),
        ("source", CAT, "one of `kinds.SOURCES`"),
        ("outcome", CAT, "`used`, `skipped` or `lost`"),
        ("reason", CAT, "why a record was skipped or lost; empty for used"),
        ("records", _I64, "number of records"),
        ("bytes", _I64, "their bytes, line ends included; per file they add up to its size", "bytes"),
    ),
)

PART_LOSSES = Table(
    "losses",
    "one span of time in which a source lost records",
    _columns(
        ("source", CAT, "one of `kinds.SOURCES`"),
        ("cpu", _U16, "CPU whose buffer lost them; null = not known"),
        ("from_ns", _I64, "start of the span; in parts on the source's clock", "ns"),
        ("to_ns", _I64, "end of the span", "ns"),
        ("count", _I64, "records lost; null = not told"),
    ),
)

# --- tables: what a capture holds ----------------------------------------------------------------

EVENTS = Table(
    "events",
    "one thing that happened, on the common clock, sorted by `ts_ns`",
    _columns(
        ("event", _I64, "row id, dense, in time order"),
        ("ts_ns", _I64, "start, host CLOCK_MONOTONIC", "ns"),
        ("dur_ns", _I64, "duration; null for an instant or a half-seen span", "ns"),
        ("err_lo_ns", _U32, "the true start is not earlier than ts_ns - err_lo_ns; null = unknown", "ns"),
        ("err_hi_ns", _U32, "the true start is not later than ts_ns + err_hi_ns; null = unknown", "ns"),
        ("stamp_ns", _I64, "the source's own time", "ns"),
        ("layer", CAT, "one of `kinds.LAYERS`"),
        ("name", CAT, "what happened"),
        ("source", CAT, "one of `kinds.SOURCES`"),
        ("evidence", CAT, "`recorded`, `derived` or `inferred`"),
        ("process", _U32, "key of `processes`"),
        ("thread", _U32, "key of `threads`"),
        ("gpu", _U16, "key of `gpus`"),
        ("pid", _I32, "host pid (tgid); null where not known"),
        ("tid", _I32, "host kernel tid; null where not known"),
        ("cpu", _U16, "CPU"),
        ("depth", _U16, "nesting depth on its lane"),
        ("result", CAT, "`hipSuccess`, `0`, `EINVAL`, ..."),
        ("queue", _U32, "key of `queues`"),
        ("kernel", _U32, "key of `kernels`"),
        ("stream", _U32, "key of `streams`"),
        ("packet_index", _I64, "AQL packet index in its ring (doorbell: value stored)"),
        ("signal", _U64, "completion signal handle"),
        ("command", _U64, "HIP command pointer"),
        ("arg", _U64, "syscall argument; doorbell signal handle of a doorbell store"),
        ("fd", _I32, "file descriptor"),
        ("cmd", _U32, "ioctl request number"),
        ("size_bytes", _I64, "size of a copy or an allocation", "bytes"),
    )
    + _LOCATION
    + _columns(
        ("parent", _I64, "enclosing event"),
        ("chain", _I64, "root HIP call of the chain"),
        ("flags", _U16, "bits of `kinds.Flag`"),
    ),
)

LAUNCHES = Table(
    "launches",
    "one AQL packet that HIP submits, or one copy",
    _columns(
        ("event", _I64, "the packet's or copy's row in `events`"),
        ("kind", CAT, "`dispatch`, `barrier_and`, `barrier_or`, `barrier_value` or `copy`"),
        ("process", _U32, "key of `processes`"),
        ("thread", _U32, "key of `threads`"),
        ("gpu", _U16, "key of `gpus`"),
        ("call_event", _I64, "HIP call that submitted it (the outermost one)"),
        ("command_event", _I64, "its `Command (..) enqueued` line"),
        ("doorbell_event", _I64, "the doorbell store of this packet"),
        ("announce_event", _I64, "the earliest store with value >= index: the GPU may start after it"),
        ("gpu_event", _I64, "its row of layer `gpu`, where a source knows GPU times"),
        ("queue", _U32, "key of `queues`"),
        ("stream", _U32, "key of `streams`"),
        ("kernel", _U32, "key of `kernels`"),
        ("packet_index", _I64, "AQL packet index in its ring"),
        ("call_ns", _I64, "start of the HIP call", "ns"),
        ("enqueue_ns", _I64, "time of the command line", "ns"),
        ("packet_ns", _I64, "time of the packet line", "ns"),
        ("doorbell_ns", _I64, "time of the doorbell store", "ns"),
        ("gpu_start_ns", _I64, "start on the GPU, only where recorded", "ns"),
        ("gpu_end_ns", _I64, "end on the GPU, only where recorded", "ns"),
        ("complete_ns", _I64, "first observed completion (not the end on the GPU)", "ns"),
        ("return_ns", _I64, "return of the HIP call", "ns"),
        (
            "doorbell_evidence",
            CAT,
            "`recorded`: its own store was traced; `derived`: its graph launch's; `inferred`: an interval",
        ),
        ("doorbell_lo_ns", _I64, "inferred doorbell: not earlier than this", "ns"),
        ("doorbell_hi_ns", _I64, "inferred doorbell: not later than this", "ns"),
        ("grid_x", _U32, "grid size", "work-items"),
        ("grid_y", _U32, "grid size", "work-items"),
        ("grid_z", _U32, "grid size", "work-items"),
        ("workgroup_x", _U16, "workgroup size", "work-items"),
        ("workgroup_y", _U16, "workgroup size", "work-items"),
        ("workgroup_z", _U16, "workgroup size", "work-items"),
        ("header", _U32, "AQL packet header"),
        ("rptr", _I64, "read index printed with the packet", "packets"),
        ("wptr", _I64, "write index printed with the packet", "packets"),
        ("kernarg", _U64, "address of the kernel arguments"),
        ("kernel_object", _U64, "address of the kernel descriptor"),
        ("signal", _U64, "completion signal handle"),
        ("engine", _U32, "copy_engine mask of a copy"),
        ("size_bytes", _I64, "size of a copy", "bytes"),
        ("unlinked_reason", CAT, "why a link is missing; null when complete"),
    ),
)

QUEUES = Table(
    "queues",
    "one queue known from any source",
    _columns(
        ("queue", _U32, "row id"),
        ("process", _U32, "key of `processes`"),
        ("gpu", _U16, "key of `gpus`"),
        ("hwq", _U64, "HWq as the log prints it"),
        ("ring_base", _U64, "ring base address as the kernel or the doorbell probe recorded it"),
        ("intercepted", pl.Boolean, "a profiler stands between HIP and the queue"),
        ("swq", _U64, "SWq: address of the hsa_queue_t"),
        ("log_id", _I64, "`id=` of the log"),
        ("kfd_queue_id", _I64, "queue_id of the KFD"),
        ("doorbell_signal", _U64, "handle of the doorbell signal"),
        ("doorbell_offset", _U64, "doorbell offset returned by CREATE_QUEUE"),
        ("priority_hip", _I32, "priority asked for by hipStreamCreateWithPriority"),
        ("priority_log", _I32, "priority printed in the Created line (0 low, 1 normal, 2 high)"),
        ("priority_ioctl", _I32, "priority that CREATE_QUEUE asked for (CLR changes it afterwards by UPDATE_QUEUE)"),
        ("type", CAT, "`compute_aql`, `compute_pm4`, `sdma`, `sdma_xgmi`; null = not known"),
        ("size", _I64, "ring size", "packets"),
        ("created_ns", _I64, "end of the creation", "ns"),
        ("destroyed_ns", _I64, "destruction", "ns"),
        ("created_line_event", _I64, "the log's Created line"),
        ("create_ioctl_event", _I64, "the CREATE_QUEUE ioctl"),
        ("create_evidence", CAT, "how line and ioctl were joined: `recorded` by address, `derived` by thread and time"),
        ("mqd_events", _I64, "MQD operations of the creation; repetitions for several XCCs count once"),
        ("dispatches", _I64, "dispatch packets"),
        ("barriers", _I64, "barrier packets"),
        ("known_from", pl.String, "sources that name the queue"),
    ),
)

PROCESSES = Table(
    "processes",
    "one life of one process",
    _columns(
        ("process", _U32, "row id"),
        ("pid", _I32, "host pid; null where not known"),
        ("log_pid", _I32, "pid printed in the log (inside its pid namespace)"),
        ("comm", CAT, "command name"),
        ("exe", pl.String, "path of the executable"),
        ("from_ns", _I64, "first sight", "ns"),
        ("to_ns", _I64, "last sight", "ns"),
        ("how", CAT, "how pid and log_pid were joined"),
    ),
)

THREADS = Table(
    "threads",
    "one life of one thread",
    _columns(
        ("thread", _U32, "row id"),
        ("process", _U32, "key of `processes`"),
        ("tid", _I32, "host kernel tid"),
        ("log_tid", _U64, "tid printed in the log (pthread address)"),
        ("comm", CAT, "command name"),
        ("how", CAT, "how tid and log_tid were joined: `set_robust_list`, `arch_prctl`, `main`, ..."),
        ("evidence", CAT, "`recorded`, `derived` or `inferred`"),
        ("from_ns", _I64, "first sight", "ns"),
        ("to_ns", _I64, "last sight", "ns"),
    ),
)

GPUS = Table(
    "gpus",
    "one GPU (KFD node)",
    _columns(
        ("gpu", _U16, "row id"),
        ("gpu_id", _U32, "gpu_id of the KFD"),
        ("kfd_node", _I32, "KFD node number"),
        ("pci", pl.String, "PCI address"),
        ("render_minor", _I32, "minor number of the render node"),
        ("gfx_target", pl.String, "gfx target"),
        ("xcc_count", _U16, "number of XCCs"),
        ("xcc_ids", pl.String, "XCC ids, as an HQD dump names them"),
        (
            "partition",
            pl.String,
            "partition mode of its device: `SPX`, `DPX`, `TPX`, `QPX`, `CPX`; null = none or not known",
        ),
        ("scheduler", CAT, "`HWS`, `MES` or `none`"),
    ),
)

STREAMS = Table(
    "streams",
    "one HIP stream",
    _columns(
        ("stream", _U32, "row id"),
        ("process", _U32, "key of `processes`"),
        ("handle", _U64, "hipStream_t"),
        ("priority", _I32, "priority asked for; null = not asked"),
        ("flags", _U32, "flags asked for"),
        ("created_ns", _I64, "return of the creating call; null = not seen (null stream)", "ns"),
        ("destroyed_ns", _I64, "start of hipStreamDestroy", "ns"),
        ("create_event", _I64, "the creating call"),
    ),
)

STREAM_QUEUES = Table(
    "stream_queues",
    "one span in which a stream submitted to a queue",
    _columns(
        ("stream", _U32, "key of `streams`"),
        ("queue", _U32, "key of `queues`"),
        ("from_ns", _I64, "first packet", "ns"),
        ("to_ns", _I64, "last packet", "ns"),
        ("evidence", CAT, "`recorded`, `derived` or `inferred`"),
    ),
)

KERNELS = Table(
    "kernels",
    "one kernel name",
    _columns(
        ("kernel", _U32, "row id"),
        ("name", pl.String, "name as printed (demangled where the log did)"),
        ("mangled", pl.String, "mangled name, where the log prints it"),
        ("display", pl.String, "short name for lanes"),
        ("vgpr", _U32, "vector registers"),
        ("sgpr", _U32, "scalar registers"),
        ("lds", _U32, "LDS per workgroup", "bytes"),
        ("scratch", _U32, "scratch per work-item", "bytes"),
        ("kernarg_bytes", _U32, "size of the arguments", "bytes"),
    ),
)

LINKS = Table(
    "links",
    "one edge from a cause to its effect",
    _columns(
        ("from_event", _I64, "cause"),
        ("to_event", _I64, "effect"),
        ("rule", CAT, "rule that made the link"),
        ("evidence", CAT, "`recorded`, `derived` or `inferred`"),
        ("gap_ns", _I64, "start of the effect minus start of the cause", "ns"),
        ("gap_err_ns", _I64, "half width of the gap's error; null = unknown", "ns"),
    ),
)

CLOCK_MAP = Table(
    "clock_map",
    "one straight piece of the map from a source's clock to CLOCK_MONOTONIC",
    _columns(
        ("source", CAT, "source and clock, such as `ftrace:local`"),
        ("from_ns", _I64, "first stamp of the piece, source clock", "ns"),
        ("to_ns", _I64, "last stamp of the piece, source clock", "ns"),
        ("offset_ns", _I64, "CLOCK_MONOTONIC minus source clock at from_ns", "ns"),
        ("rate_ppb", _I64, "growth of the offset", "ns per s"),
        ("lo_ns", _I64, "the true offset is not less than offset_ns - lo_ns", "ns"),
        ("hi_ns", _I64, "the true offset is not more than offset_ns + hi_ns", "ns"),
        ("pairs", _I64, "samples or pairs used"),
        ("violated", _I64, "of them contradicted by the map"),
        ("method", CAT, "`same_clock`, `samples`, `causal_pairs` or `unaligned`"),
    ),
)

FILES = Table(
    "files",
    "one raw file of the capture",
    _columns(
        ("file", _U16, "row id"),
        ("path", pl.String, "path inside the capture folder"),
        ("source", CAT, "one of `kinds.SOURCES`"),
        ("size", _I64, "decompressed size", "bytes"),
        ("sha256", pl.String, "checksum of the decompressed bytes"),
    ),
)

ARGS = Table(
    "args",
    "one named field of an event that has no column of its own",
    _columns(
        ("event", _I64, "key of `events`"),
        ("key", CAT, "name of the field as its source prints it"),
        ("u64", _U64, "its value as a number (two's complement); null for text"),
        ("text", pl.String, "its value as text; null for numbers"),
    ),
)

DRM_JOBS = Table(
    "drm_jobs",
    "one job of the kernel's gpu_scheduler: queued, run, done",
    _columns(
        ("job", _U32, "row id"),
        ("dev", CAT, "PCI name of the device; null on kernels before 6.17, whose events name none"),
        ("ring", CAT, "ring as printed: `sdma0`, `comp_1.0.0`, `gfx_0.0.0`, ..."),
        ("ring_kind", CAT, "`kcq` (kernel compute queue), `gfx`, `sdma` (`page` rings too), `media`, `other`"),
        ("fence", pl.String, "finished fence: its pointer (old naming) or `context:seqno` (new naming)"),
        ("id", _I64, "job id on its entity (old naming)"),
        ("client_id", _I64, "drm-client-id (new naming)"),
        ("process", _U32, "submitting process: key of `processes`; null when the queueing was not seen"),
        ("thread", _U32, "submitting thread: key of `threads`"),
        ("queue_event", _I64, "`drm_sched_job` or `drm_sched_job_queue`"),
        ("run_event", _I64, "`drm_run_job` or `drm_sched_job_run`"),
        ("done_event", _I64, "`drm_sched_process_job` or `drm_sched_job_done`"),
        ("queued_ns", _I64, "pushed to its entity", "ns"),
        ("run_ns", _I64, "handed to the hardware ring", "ns"),
        ("done_ns", _I64, "finished fence signalled", "ns"),
    ),
)

HQD = Table(
    "hqd",
    "one hardware queue slot, MQD or runlist entry of one debugfs dump",
    _columns(
        ("snapshot", _U32, "number of the dump in the capture"),
        ("dump", CAT, "`hqds` (registers), `mqds` (memory descriptors) or `rls` (runlists)"),
        ("read_start_ns", _I64, "the read began; null = not recorded", "ns"),
        ("read_end_ns", _I64, "the read ended", "ns"),
        ("kfd_node", _I32, "KFD node number (hqds, rls)"),
        ("gpu_id", _U32, "gpu_id of the KFD"),
        ("xcc", _U16, "XCC (`Inst`) of the register bank, or the MQD's place among those of its queue; null for SDMA"),
        ("type", CAT, "`cp`, `hiq`, `diq` or `sdma`"),
        ("pid", _I32, "owning process (mqds); null where the dump does not name one"),
        ("mqd", _I32, "number of the queue in its process (mqds: newest first) or in its runlist (rls)"),
        ("pipe", _U16, "pipe; SDMA: engine"),
        ("slot", _U16, "queue slot of the pipe; SDMA: RLC"),
        ("state", CAT, "`active`, `stale` (used before, not mapped), `unused`; mqds: `described`; rls: `listed`"),
        ("active", pl.Boolean, "CP_HQD_ACTIVE; SDMA: RB_ENABLE and its doorbell enabled; null in mqds and rls"),
        (
            "rptr",
            _I64,
            "PQ_RPTR or RB_RPTR as the register holds it; PQ_RPTR is kept by XCC 0 alone and in another unit than wptr",
        ),
        ("wptr", _I64, "PQ_WPTR or RB_WPTR as the register holds it"),
        ("quantum", _U32, "CP_HQD_QUANTUM (bit 0 enabled, bit 4 scale, bits 13:8 duration); null for SDMA"),
        ("pq_base", _U64, "ring base address: PQ_BASE or RB_BASE, shifted left by 8"),
        ("ring_bytes", _I64, "size of the ring", "bytes"),
        ("doorbell", _U32, "doorbell offset", "dwords"),
        ("doorbell_enabled", pl.Boolean, "whether the queue listens to its doorbell"),
        ("pipe_priority", _U16, "0 low, 1 medium, 2 high"),
        ("queue_priority", _U16, "0 to 15"),
        ("vmid", _U16, "VMID; 0 in an MQD of a queue that the firmware schedules"),
        ("mqd_base", _U64, "address of the MQD"),
        ("logical", _U32, "number of the logical queue in its dump: slots of all XCCs share it; null = no queue"),
        ("queue", _U32, "key of `queues`"),
        ("file", _U16, "key of `files`"),
        ("offset", _I64, "first byte of the block in its file", "bytes"),
    ),
)

SAMPLES = Table(
    "samples",
    "one polled value",
    _columns(
        ("ts_ns", _I64, "time of the read", "ns"),
        ("gpu", _U16, "key of `gpus`"),
        ("process", _U32, "key of `processes`"),
        ("name", CAT, "what was polled"),
        ("value", pl.Float64, "its value"),
    ),
)

LEDGER, LOSSES = PART_LEDGER, PART_LOSSES

PARTS = {t.name: t for t in (PART_EVENTS, PART_PACKETS, PART_ARGS, PART_LEDGER, PART_LOSSES)}

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
    return "\n".join([head, *render_reference()]).rstrip() + "\n"
