"""Frames that stages and modules hand to each other: their columns, declared as those of the tables are.

A function that gives such a frame says so with `@gives(FRAME)`: what it returns has exactly these columns.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec

import polars as pl

from tracecorr.model.columns import CAT, I32, I64, U16, U32, U64, Column, Table, columns_of
from tracecorr.model.part_tables import PART_EVENTS

_Given = ParamSpec("_Given")
_EVENT = ("event", I64, "key of `events`")
_RING = ("ring", U64, "base address of the AQL ring; null = not known")
_CAUSE, _EFFECT = ("from_event", I64, "the cause"), ("to_event", I64, "the effect")
_GPU_SPAN = columns_of(
    ("gpu_event", I64, "the row that tells the GPU time"),
    ("gpu_start_ns", I64, "start on the GPU, CLOCK_MONOTONIC", "ns"),
    ("gpu_end_ns", I64, "end on the GPU, CLOCK_MONOTONIC", "ns"),
)


def _part_columns(*left_out: str) -> tuple[Column, ...]:
    return tuple(column for column in PART_EVENTS.columns if column.name not in left_out)


def gives(frame: Table) -> Callable[[Callable[_Given, pl.DataFrame]], Callable[_Given, pl.DataFrame]]:
    """Return a decorator of functions that return this frame: no other column leaves them, and none is missing.

    Args:
        frame: the declaration.
    """

    def declare(function: Callable[_Given, pl.DataFrame]) -> Callable[_Given, pl.DataFrame]:
        @wraps(function)
        def give(*args: _Given.args, **named: _Given.kwargs) -> pl.DataFrame:
            return frame.take(function(*args, **named))

        return give

    return declare


# From readers to links ------------------------------------------------------------------------------------------------

PLACED = Table(
    "placed",
    "one row of any source on the common clock; row i is event i",
    (
        *_part_columns("end_stamp_ns"),
        *columns_of(
            ("source", CAT, "which reader gave the row"),
            ("step_hi_ns", I64, "how far the true time lies above the stamp at most, by its rounding", "ns"),
            ("thread", U32, "key of `threads`"),
            ("process", U32, "key of `processes`"),
            ("host_tid", U32, "kernel tid; null = not known"),
            ("host_pid", U32, "kernel pid; null = not known"),
            ("index_counted", pl.Boolean, "whether `packet_index` was counted, not printed"),
            ("ring_learned", pl.Boolean, "whether `ring` was learned from the order of stores and lines"),
            ("line_stamp_ns", I64, "stamp of the line that tells a GPU time", "ns"),
            ("err_lo_ns", U32, "how far the true start lies below `ts_ns` at most; null = not known", "ns"),
            ("err_hi_ns", U32, "how far the true start lies above `ts_ns` at most; null = not known", "ns"),
            ("dur_ns", I64, "duration; null = an instant, or half seen", "ns"),
            ("ts_ns", I64, "start on the common clock", "ns"),
            _EVENT,
        ),
    ),
)

LOG_STARTS = Table(
    "log_starts",
    "one record of a log, before what it says is read",
    columns_of(
        ("offset", I64, "its first byte", "bytes"),
        ("stamp_ns", I64, "its stamp; null = not of CLOCK_MONOTONIC", "ns"),
        ("thread", I64, "code of the thread that it names, in this log"),
    ),
)

# Clocks ---------------------------------------------------------------------------------------------------------------

SPANS = Table(
    "spans",
    "one thing of another clock that happened between two moments of CLOCK_MONOTONIC",
    columns_of(
        ("stamp_ns", I64, "its start on its own clock", "ns"),
        ("end_stamp_ns", I64, "its end on its own clock", "ns"),
        ("from_ns", I64, "it began after this; null = no such moment", "ns"),
        ("to_ns", I64, "it ended before this; null = no such moment", "ns"),
    ),
)
RECORD_PLACES = Table(
    "record_places",
    "one record of a file",
    columns_of(("file", U16, "key of `files`"), ("offset", I64, "first byte of the record", "bytes")),
)

# Calls and what lies in them ------------------------------------------------------------------------------------------

LOG_LINES = Table(
    "log_lines",
    "one line of a thread, and what is open behind it",
    columns_of(
        ("thread", U32, "key of `threads`"),
        ("at", I64, "when it was printed", "ns"),
        ("call", I64, "innermost HIP call that is open behind it; -1 = none, -2 = not known"),
    ),
)
SYSCALLS_IN_CALLS = Table(
    "syscalls_in_calls",
    "one system call in a HIP call",
    columns_of(_EVENT, ("call", I64, "the innermost HIP call")),
)
DEVICES = Table(
    "devices",
    "one ioctl or mmap and the device behind its descriptor",
    columns_of(
        _EVENT,
        ("device", pl.String, "`kfd`, `drm`, `other`; null = not known"),
        ("device_by", pl.String, "what tells it"),
        ("path", pl.String, "of the device; null = not known"),
        ("origin", I64, "event of its open, followed through dup, fork and exec; null = not seen"),
    ),
)
MAPPINGS = Table(
    "mappings",
    "one mmap of a KFD descriptor",
    columns_of(
        _EVENT,
        ("process", U32, "key of `processes`"),
        ("thread", U32, "key of `threads`"),
        ("ts_ns", I64, "its start", "ns"),
        ("mapping", pl.String, "`doorbells`, `events_page`, `reserved_memory`, `mmio`"),
        ("gpu_id", U64, "of the KFD"),
    ),
)
EVENT_ARGS = Table(
    "event_args",
    "one named field of an event that a stage found out",
    columns_of(
        _EVENT,
        ("key", pl.String, "name of the field"),
        ("u64", U64, "its value as a number; null for text"),
        ("text", pl.String, "its value as text; null for numbers"),
    ),
)
ENCLOSING = Table(
    "enclosing",
    "one function of the driver or system call, and what encloses it",
    columns_of(
        _EVENT,
        ("inner", I64, "the innermost row around it"),
        ("level", I32, "how many rows are around it"),
        ("outer", I64, "the system call around it"),
    ),
)
MQD_OPERATIONS = Table(
    "mqd_operations",
    "one operation on an MQD",
    columns_of(
        _EVENT,
        ("operation", pl.String, "`init`, `update`, `load`, `destroy`, ..."),
        ("target", pl.String, "`cp`, `sdma`, `hiq`, `diq`"),
        ("multiplicity", U64, "how many MQDs it is for; null = one"),
        ("enclosing_call", I64, "the ioctl around it"),
    ),
)

# Queues, streams, kernels ---------------------------------------------------------------------------------------------

LOG_PACKETS = Table(
    "log_packets",
    "one packet that the log shows, in the order of their times",
    columns_of(
        _EVENT, ("ts_ns", I64, "of its line", "ns"), ("process", U32, "key of `processes`"), _RING,
        ("packet_index", I64, "in its ring"), ("file", U16, "key of `files`"), ("offset", I64, "of its line", "bytes"),
    ),
)  # fmt: skip
CREATED_LINES = Table(
    "created_lines",
    "one Created line of a queue",
    columns_of(
        _EVENT,
        ("process", U32, "key of `processes`"),
        ("thread", U32, "key of `threads`"),
        ("ts_ns", I64, "of the line", "ns"),
        _RING,
        ("err_hi_ns", U32, "error of the time", "ns"),
        ("swq", U64, "address of the hsa_queue_t"),
        ("size", U64, "packets"),
        ("priority", U64, "as the log prints it"),
        ("cooperative", U64, "1 = for cooperative launches"),
        ("from_ns", I64, "when its thread counted the queues; null = that line is missing", "ns"),
    ),
)
CREATE_IOCTLS = Table(
    "create_ioctls",
    "one CREATE_QUEUE that succeeded",
    columns_of(
        _EVENT,
        ("process", U32, "key of `processes`"),
        ("thread", U32, "key of `threads`"),
        ("ts_ns", I64, "its start", "ns"),
        ("end_ns", I64, "its end", "ns"),
        ("ioctl_lo", I64, "error of the times, below", "ns"),
        ("ioctl_hi", I64, "error of the times, above", "ns"),
        ("ring_base", U64, "base address of the ring; null = no probe told it"),
        ("size_bytes", I64, "of the ring", "bytes"),
        ("type", pl.String, "as in `queues`"),
        ("priority", I32, "of the ioctl"),
        ("gpu_id", U64, "of the KFD"),
    ),
)
CREATIONS = Table(
    "creations",
    "one Created line and the ioctl that made its queue",
    columns_of(_EVENT, ("ioctl", I64, "event of the ioctl"), ("evidence", pl.String, "how that is known")),
)
QUEUE_ENDS = Table(
    "queue_ends",
    "one deletion of a queue",
    columns_of(
        _EVENT, ("process", U32, "key of `processes`"), _RING, ("swq", U64, "address of the hsa_queue_t"),
        ("ts_ns", I64, "when it was gone", "ns"),
    ),
)  # fmt: skip
FOUND_RINGS = Table(
    "found_rings",
    "one Created line that prints no ring, and the ring that is meant",
    columns_of(_EVENT, _RING, ("ring_evidence", pl.String, "how that is known")),
)
QUEUE_LINES = Table(
    "queue_lines",
    "one row that names a queue by its address, and the Created line of that queue",
    columns_of(("line", I64, "event of the Created line"), _EVENT),
)
QUEUES_OF_EVENTS = Table(
    "queues_of_events", "one row and its queue", columns_of(_EVENT, ("queue", U32, "key of `queues`"))
)
STREAMS_OF_EVENTS = Table(
    "streams_of_events", "one row and its stream", columns_of(_EVENT, ("stream_id", U32, "key of `streams`"))
)
GPUS_OF_EVENTS = Table(
    "gpus_of_events", "one row and the GPU that it names", columns_of(_EVENT, ("named_gpu", U16, "key of `gpus`"))
)
SCHEDULERS = Table(
    "schedulers", "one GPU and its scheduler",
    columns_of(("gpu", U32, "key of `gpus`"), ("scheduler", pl.String, "`HWS`, `MES` or `none`")),
)  # fmt: skip
ASKED_PRIORITIES = Table(
    "asked_priorities",
    "one queue and what its first stream asked for",
    columns_of(("queue", U32, "key of `queues`"), ("priority_hip", I32, "priority of hipStreamCreateWithPriority")),
)

# Packets --------------------------------------------------------------------------------------------------------------

STORES_OF_PACKETS = Table(
    "stores_of_packets",
    "one packet and its doorbell store",
    columns_of(
        _EVENT,
        ("doorbell_event", I64, "the store that is its own, or that of its batch"),
        ("own", pl.Boolean, "whether the store has the packet's index"),
        ("announce_event", I64, "the earliest store with its index or a later one"),
    ),
)
COMMANDS_OF_PACKETS = Table(
    "commands_of_packets",
    "one packet or copy and its command",
    columns_of(
        _EVENT,
        ("command_event", I64, "the line that enqueues the command"),
        ("enqueue_ns", I64, "its time", "ns"),
        ("command", U64, "HIP command pointer"),
        ("command_stream", U32, "stream that the command names"),
        ("kind", CAT, "`KernelExecution`, `Marker`, ..."),
    ),
)
COMPLETIONS = Table(
    "completions",
    "one packet or copy and the line that ends its command",
    columns_of(_EVENT, ("complete_event", I64, "the line"), ("complete_ns", I64, "its time", "ns")),
)
SIGNAL_USES = Table(
    "signal_uses",
    "one packet or copy that completes a signal",
    columns_of(
        _EVENT,
        ("process", U32, "key of `processes`"),
        ("signal", U64, "handle"),
        ("ts_ns", I64, "of its line", "ns"),
        ("queue", U32, "key of `queues`"),
        ("packet_index", I64, "in its ring"),
        ("file", U16, "key of `files`"),
        ("from_ns", I64, "when it may have been written first", "ns"),
        ("nth", I64, "its number among the uses of its queue"),
    ),
)
GPU_TIMES = Table("gpu_times", "one packet or copy and its time on the GPU", columns_of(_EVENT) + _GPU_SPAN)
WAITS = Table("waits", "one packet or copy that waits for the completion of another", columns_of(_CAUSE, _EFFECT))

# Links ----------------------------------------------------------------------------------------------------------------

EDGES = Table(
    "edges",
    "one link that a module of `link/` found; the table `links` adds how far apart its ends are",
    columns_of(_CAUSE, _EFFECT, ("rule", CAT, "name of the rule"), ("evidence", CAT, "how it is known")),
)
HOLES = Table(
    "holes",
    "one span of a log in which lines are missing",
    columns_of(
        ("file", U16, "key of `files`"),
        ("process", U32, "key of `processes`; null = any"),
        ("thread", U32, "thread whose lines are missing; null = any"),
        ("low", I64, "lines are missing behind this byte", "bytes"),
        ("high", I64, "and before this one", "bytes"),
        ("from_ns", I64, "of the line before", "ns"),
        ("to_ns", I64, "of the line behind", "ns"),
        ("count", I64, "lines that are missing at least; null = not known"),
    ),
)

FRAMES = [value for value in list(globals().values()) if isinstance(value, Table) and value is not PART_EVENTS]
