"""The closed vocabularies of the tables: layers, sources, evidence, flags."""

from __future__ import annotations

from enum import IntFlag

# In the order of the path from a HIP call to the hardware.
LAYERS = (
    "hip", "command", "aql", "copy", "signal", "memory", "hsa", "syscall", "ioctl", "kfd", "mqd",
    "doorbell", "drm_sched", "amdgpu", "smi", "gpu", "hqd", "sched", "marker", "other",
)  # fmt: skip

SOURCES = ("amd_log", "ftrace", "trace_printk", "hqd", "sysfs", "kfd_smi", "rocprof", "tracecorr")

RECORDED, DERIVED, INFERRED = "recorded", "derived", "inferred"

# Log packets that occupy a slot of an AQL ring.
PACKET_KINDS = ("dispatch", "barrier_and", "barrier_or", "barrier_value")


class Flag(IntFlag):
    """Name the bits of `events.flags`."""

    ENTER_ONLY = 1  # the end of the span was not seen
    EXIT_ONLY = 2  # the start of the span was not seen
    TORN = 4  # other output, or the width of a paste, cut the record apart; what is sure of it was put together
    CUT = 8  # the message reached the runtime's limit of 4095 bytes
    UNALIGNED = 16  # the source's clock could not be mapped
    ERROR_CLAMPED = 32  # the error bound is larger than its column holds
    NO_TIME = 64  # the record carries no time; ts_ns is that of the record before it
    SPAN_TOLD = 128  # the end of the call tells its duration, and start and end are that far apart
    SPAN_DIFFERS = 256  # the end of the call tells another duration: start and end may be those of two calls
