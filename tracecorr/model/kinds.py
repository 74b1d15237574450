"""The closed vocabularies of the tables: layers, sources, evidence, flags."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntFlag

# In the order of the path from a HIP call to the hardware.
LAYERS = (
    "hip", "command", "aql", "copy", "signal", "memory", "hsa", "syscall", "ioctl", "kfd", "mqd",
    "doorbell", "drm_sched", "amdgpu", "smi", "kernel", "gpu", "hqd", "sched", "marker", "other",
)  # fmt: skip

SOURCES = ("amd_log", "ftrace", "trace_printk", "kernel_log", "hqd", "sysfs", "kfd_smi", "rocprof", "tracecorr")

RECORDED, DERIVED, INFERRED = "recorded", "derived", "inferred"

# A copy that HIP asks of ROCr, the line that says that ROCr refused it, and what such a copy is called then.
COPY, COPY_FAILED, COPY_REFUSED = "copy", "copy_failed", "copy_refused"
# What HIP asks of ROCr for managed memory: neither packets nor copies, but they complete signals.
MIGRATIONS = ("prefetch", "discard")
# The runtime read a start and end of a signal that cannot be (ROCm 10).
INVALID_GPU_TIME = "invalid_gpu_time"
# Log packets that occupy a slot of an AQL ring.
PACKET_KINDS = ("dispatch", "barrier_and", "barrier_or", "barrier_value")
# The runtime prints these lines once in a process, before all others: all releases up to 6.4 the first; 7.0 and later
# only the second, which 6.1 to 6.4 print, too (facts of the format: ROCclr's rocdevice.cpp).
_FIRST_LINE = "Initializing HSA stack."
BEGINNINGS = (_FIRST_LINE, "gpu_agents")
# What the lines about a hardware queue tell: how many there are before one is asked for, and what came of it.
QUEUES_COUNTED, QUEUE_CREATED, QUEUE_SELECTED = "queue_allocated_count", "queue_created", "queue_selected"
QUEUE_DELETED = "queue_deleted"
# The line that names a kernel, where no packet behind it took its name.
SHADER_NAME = "shader_name"
# Where Direct Dispatch is off, a worker thread takes a command from its queue and prints this.
SUBMITTED = "submitted"
# The line that tells a command's end.
COMPLETE = "complete"
# hipStreamLegacy, a handle of the null stream; commands show its real one (from ROCm 7.0 on).
NULL_STREAM = 1
# Commands that make barriers only, and the one of all packets of a graph launch, which writes these first.
MARKERS, GRAPH_COMMAND = ("InternalMarker", "Marker"), "Task"
# Results of calls and system calls that are no failure.
SUCCEEDED = ("hipSuccess", "HIPRTC_SUCCESS")
# What was asked for is not done yet, or a wait ended before it was.
NOT_YET = (
    "hipErrorNotReady", "EAGAIN", "ETIMEDOUT",
    # A signal ended a wait, and the kernel may start the call again.
    "EINTR", "ERESTARTSYS", "ERESTARTNOINTR", "ERESTARTNOHAND", "ERESTART_RESTARTBLOCK",
)  # fmt: skip
# 0, what a call counted or made (bytes, a descriptor, a pid), or where it put something.
NUMBER = "^([0-9]+|0x[0-9a-f]+)$"
# They print no exit line (some releases do, then it is the very next record of the thread).
WITHOUT_EXIT = ("hipGetLastError", "hipExtGetLastError")
CORRELATION_RULE = "rocprof_correlation"
# What the names of the calls that launch a graph begin with.
GRAPH_CALL = "hipGraphLaunch"
# The command of one kernel launch.
KERNEL_COMMAND = "KernelExecution"
# Other lines that name a command, and enqueue none.
COMMAND_MENTIONS = ("wait_event", "wait_event_done", "queue_marker", "processing", "awaiting_event")
# Rows of layer `command` with another name are lines that enqueue one.
NOT_ENQUEUES = (*COMMAND_MENTIONS, SUBMITTED, COMPLETE)

# A thread that the log prints with a lower number is a hash of 20 bits (CLR since March 2026). No pthread address is so
# low: programs begin at 4 MiB (ELF, x86-64).
LEAST_ADDRESS = 1 << 20

# Levels at which the runtime prints what went wrong, and what it calls them (amd::LogLevel, ROCclr's debug.hpp): the
# first is printed whatever AMD_LOG_LEVEL is.
WORST_LEVELS = {0: "fatal error", 1: "error", 2: "warning"}
# Columns of `kernels` that say what the compiler gave a kernel; a profile tells them in `args` of its dispatches.
KERNEL_FIELDS = ("vgpr", "sgpr", "lds", "scratch", "kernarg_bytes")
# Other fields that a profile has of a dispatch; what else stands there are the values of counters.
DISPATCH_FIELDS = ("tid", "queue_id", "dispatch_id", "correlation_id", "stream_id", "agent")
# What `args` has of a line of such a level.
LOG_LEVEL, LOG_MESSAGE = "log_level", "message"
# What `args` has of a line that begins like a known message and goes on in an unknown way: its text. The ledger counts
# all of them under this reason.
UNKNOWN_FORM = "unknown_form"

# What runtime, C library and shell print beside the records when a program fails, and the first words of it.
ABORTED_PACKET, HUNG_PACKET, IDLE_QUEUE = "aborted_packet", "hung_packet", "idle_queue"
NOTICES = (
    "memory_access_fault", "memory_critical_error", "hardware_exception", "device_assertion", ABORTED_PACKET,
    HUNG_PACKET, IDLE_QUEUE, "hung_queue", "ended_by_signal",
)  # fmt: skip
# What `args` has of an error that goes on with the one before it: how far its text is indented.
LOG_INDENT = "indent"


class Flag(IntFlag):
    """Name the bits of `events.flags`; `FLAG_MEANINGS` says what they mean."""

    ENTER_ONLY = 1
    EXIT_ONLY = 2
    TORN = 4
    CUT = 8
    UNALIGNED = 16
    ERROR_CLAMPED = 32
    NO_TIME = 64
    SPAN_TOLD = 128
    SPAN_DIFFERS = 256
    TRACED = 512
    TWIN = 1024


FLAG_MEANINGS = {
    Flag.ENTER_ONLY: "its end was not seen",
    Flag.EXIT_ONLY: "its start was not seen",
    Flag.TORN: "other output, the width of a paste or the end of the file cut the record; what is sure of it is there",
    Flag.CUT: "the message reached the runtime's limit of 4095 bytes",
    Flag.UNALIGNED: "the source's clock could not be mapped",
    Flag.ERROR_CLAMPED: "the error bound is larger than its column holds",
    Flag.NO_TIME: "the record carries no time; ts_ns is that of the record before it",
    Flag.SPAN_TOLD: "the end of the call tells its duration, and start and end are that far apart",
    Flag.SPAN_DIFFERS: "the end of the call tells another duration: start and end may be those of two calls",
    Flag.TRACED: "the function or function_graph tracer recorded it",
    Flag.TWIN: "two tracers recorded this call: its parent row counts, not this one",
}

# Calls with only their start or their end.
HALF_SEEN = int(Flag.ENTER_ONLY | Flag.EXIT_ONLY)


def describe_choice(words: Iterable[str]) -> str:
    """Return the meaning of a column that holds one of `words`.

    >>> describe_choice(["a", "b"])
    'one of `a`, `b`'
    """
    return f"one of {', '.join(f'`{word}`' for word in words)}"


def describe_flags() -> str:
    """Return the meaning of a column of flags: each bit with its number."""
    return f"bits: {'; '.join(f'{int(flag)} = {meaning}' for flag, meaning in FLAG_MEANINGS.items())}"


# The claims that verdicts judge, in the order in which they are shown.
VERDICTS = (
    "nothing_lost", "clock_aligned", "causality", "compute_uses_doorbell", "doorbell_per_packet",
    "packet_sequence_complete", "copies_use_user_sdma", "no_kcq_use", "queue_creation_complete",
    "kfd_create_under_1ms", "rocr_create_time", "mqd_ops_per_queue", "no_deadlock", "scheduler_mode",
    "priority_reaches_hardware", "queue_backlog", "hqd_quantum",
)  # fmt: skip
