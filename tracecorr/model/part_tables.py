"""The schema of parts: what a reader yields block by block, with times as its source printed them.

Parts are the contract between the readers and everything after them.
"""

from __future__ import annotations

import polars as pl

from tracecorr.model.columns import CAT, I32, I64, LOCATION, U16, U32, U64, Table, columns_of
from tracecorr.model.kinds import LAYERS, SOURCES, describe_choice, describe_flags

# Every stamp of a reader is below it: no clock counts so far, and the offset to another clock can be added.
LATEST_NS = 1 << 62

PART_EVENTS = Table(
    "part_events",
    "one thing that happened, as one source tells it (enter and exit already paired)",
    columns_of(
        ("stamp_ns", I64, "start on the source's own clock; null = the record has no time", "ns"),
        ("end_stamp_ns", I64, "end on the source's own clock; null = instant or half seen", "ns"),
        ("clock", CAT, "clock of the stamps: `mono`, `mono_raw`, `local`, ..., `unknown`"),
        ("layer", CAT, describe_choice(LAYERS)),
        ("name", CAT, "`hipLaunchKernel`, `AMDKFD_IOC_CREATE_QUEUE`, `dispatch`, `doorbell`, ..."),
        ("pid", U32, "process as the source prints it: log pid, or tgid of a trace; null = not said"),
        ("tid", U64, "thread as the source prints it: pthread address, or kernel tid"),
        ("comm", CAT, "command name of a trace record"),
        ("cpu", U16, "CPU of a trace record"),
        ("depth", U16, "number of enclosing calls of the same thread in the same source"),
        ("parent_offset", I64, "`offset` of the enclosing call (same file, same thread); null = none"),
        ("result", CAT, "`hipSuccess`, `hipErrorX`, `0`, `EINVAL`, ...; null = not known"),
        ("ring", U64, "HWq: base address of the AQL ring"),
        ("packet_index", I64, "packet index printed as wptr, or value stored to the doorbell"),
        ("signal", U64, "completion signal handle"),
        ("command", U64, "HIP command pointer"),
        ("stream", U64, "hipStream_t handle"),
        ("kernel", CAT, "full kernel name as printed by ShaderName"),
        ("arg", U64, "syscall argument; doorbell signal handle of a doorbell store"),
        ("fd", I32, "file descriptor"),
        ("cmd", U32, "ioctl request number"),
        ("size_bytes", I64, "size of a copy or an allocation, or what a write was given", "bytes"),
    )
    + LOCATION
    + columns_of(("flags", U16, describe_flags())),
)

PART_PACKETS = Table(
    "part_packets",
    "one AQL packet or copy line of the log: what `part_events` has no column for",
    columns_of(
        ("file", U16, "with `offset` the key of the row in `part_events`"),
        ("offset", I64, "first byte of the packet's line", "bytes"),
        ("command_offset", I64, "`offset` of the thread's last `Command (..) enqueued` in the same call"),
        ("swq", U64, "SWq: address of the hsa_queue_t"),
        ("log_id", I64, "`id=`: HSA queue id (not the KFD queue_id)"),
        ("rptr", I64, "read index printed with the packet", "packets"),
        ("header", U32, "AQL packet header"),
        ("grid_x", U32, "grid size", "work-items"),
        ("grid_y", U32, "grid size", "work-items"),
        ("grid_z", U32, "grid size", "work-items"),
        ("workgroup_x", U16, "workgroup size", "work-items"),
        ("workgroup_y", U16, "workgroup size", "work-items"),
        ("workgroup_z", U16, "workgroup size", "work-items"),
        ("private_bytes", U32, "private segment (scratch) per work-item", "bytes"),
        ("group_bytes", U32, "group segment (LDS) per workgroup", "bytes"),
        ("kernel_object", U64, "address of the kernel descriptor"),
        ("kernarg", U64, "address of the kernel arguments"),
        ("kernarg_bytes", U32, "KernargSegmentByteSize of the packet", "bytes"),
        ("dep_signals", pl.List(U64), "signals that a barrier or copy waits for (zero ones left out)"),
        ("engine", U32, "copy_engine mask of a copy"),
        ("dst", U64, "destination address of a copy"),
        ("src", U64, "source address of a copy"),
        ("stream_priority", I32, "priority of its stream: 0 low, 1 normal, 2 medium, 3 high (ROCm 10)"),
        (
            "virtual_pipe",
            I32,
            "`virtual_pipe_id`: pipe that the runtime assumes, not read from hardware (ROCm 10)",
        ),
    ),
)

PART_ARGS = Table(
    "part_args",
    "one named field of an event that has no column of its own",
    columns_of(
        ("file", U16, "with `offset` the key of the row in `part_events`"),
        ("offset", I64, "first byte of the (enter) record", "bytes"),
        ("key", CAT, "name of the field as its source prints it"),
        ("u64", U64, "its value as a number (two's complement); null for text"),
        ("text", pl.String, "its value as text; null for numbers"),
    ),
)

PART_LEDGER = Table(
    "ledger",
    "the bytes of one file, by outcome and reason",
    columns_of(
        ("file", U16, "key of `files`"),
        ("source", CAT, describe_choice(SOURCES)),
        ("outcome", CAT, "`used`, `skipped` or `lost`"),
        ("reason", CAT, "why a record was skipped or lost; empty for used"),
        ("records", I64, "number of records"),
        ("bytes", I64, "their bytes, line ends included; per file they add up to its size", "bytes"),
    ),
)

PART_LOSSES = Table(
    "losses",
    "one span of time in which a source lost records",
    columns_of(
        ("source", CAT, describe_choice(SOURCES)),
        ("cpu", U16, "CPU whose buffer lost them; null = not known"),
        ("from_ns", I64, "start of the span; in parts on the source's clock; null = before the first record", "ns"),
        ("to_ns", I64, "end of the span; null = behind the last record", "ns"),
        ("count", I64, "records lost; null = not told"),
    ),
)

PART_POLLS = Table(
    "polls",
    "one value that a capture polled from sysfs",
    columns_of(
        ("ts_ns", I64, "time of the read, CLOCK_MONOTONIC", "ns"),
        ("gpu_id", U32, "gpu_id of the KFD, if the value is of a GPU"),
        ("pci", pl.String, "PCI address of the card, if the value is of a card"),
        ("pid", I64, "host pid, if the value is of a process"),
        ("name", pl.String, "name of the file in sysfs"),
        ("value", pl.Float64, "its value"),
    ),
)

WRITES = Table(
    "writes",
    "one system call of the trace that wrote bytes of a HIP log (between stages, not stored)",
    columns_of(
        ("file", U16, "key of the log in `files`"),
        ("position", I64, "its first byte in the log", "bytes"),
        ("length", I64, "bytes that it wrote", "bytes"),
        ("trace_file", U16, "key of the trace in `files`"),
        ("trace_offset", I64, "first byte of the call's record in the trace", "bytes"),
        ("tid", U64, "kernel thread"),
        ("pid", U32, "its process; null = not told"),
        ("stamp_ns", I64, "start of the call on the trace's clock", "ns"),
        ("end_stamp_ns", I64, "its end; its start if the end was not traced", "ns"),
        (
            "evidence",
            CAT,
            "`recorded`: by the order of the writes; `derived`: the log's content told the order; `inferred`: two "
            "writers were at it at once, and nothing tells whose bytes came first",
        ),
    ),
)

WRITERS = Table(
    "writers",
    "one kernel thread that wrote the records of a thread of a log (between stages, not stored)",
    columns_of(
        ("file", U16, "key of the log in `files`"),
        ("log_pid", U32, "process, as the log prints it"),
        ("log_tid", U64, "thread, as the log prints it"),
        ("from_ns", I64, "stamp of the log from which on; 0 for the only one, and for the first of several", "ns"),
        ("stamp_ns", I64, "its first write, on the trace's clock", "ns"),
        ("tid", U64, "kernel thread"),
        ("pid", U32, "its process; null = not told"),
        ("evidence", CAT, "`recorded`: it wrote all of them; `derived`: most of them"),
    ),
)

MISSING = Table(
    "missing",
    "bytes that were written to a HIP log and are not in it (between stages, not stored)",
    columns_of(
        ("file", U16, "key of the log in `files`"),
        ("position", I64, "where in the log they are missing: the first record behind them", "bytes"),
        ("bytes", I64, "how many", "bytes"),
        ("before", I64, "`offset` of the last record before them; null = they are the first", "bytes"),
        ("from_ns", I64, "stamp of that record", "ns"),
        ("to_ns", I64, "stamp of the first record behind them; null = they are the last", "ns"),
    ),
)

PARTS = {t.name: t for t in (PART_EVENTS, PART_PACKETS, PART_ARGS, PART_LEDGER, PART_LOSSES, PART_POLLS)}
