"""What numbers in arguments of KFD ioctls and offsets of its mmaps mean (kfd_ioctl.h, KFD 1.11 to 1.23)."""

from __future__ import annotations

import errno

import polars as pl

from tracecorr.read.kfd.ioctls import HANDLER_PREFIX

# KFD functions have no common prefix: scheduler (`*_cpsch`), queue manager (`pqm_`), packet manager
# (`pm_`), kernel queues (`kq_`), shared memory (`svm_`), MES queue calls.
_MQD = r"mqd"
_KFD = (
    r"^kfd|_kfd|amdkfd|kgd2kfd|^pqm_|^pm_|^kq_|_(?:no)?cpsch|^svm_|doorbell|_queue_mes$|sdma_queue|^init_user_queue"
    r"|^(?:create|destroy|update|suspend|resume|map|unmap|evict|restore|execute)_queues?"
    r"|^(?:evict|restore)_process|^(?:set|get)_queue_|^allocate_(?:hqd|vmid)|^dqm_|_dqm|^(?:un)?register_process"
)
_AMDGPU = r"^amdgpu_|^gmc_|^gfx_|^sdma_|^mes_|^drm_sched|^ttm_"

# Values that the kernel uses inside and that a traced exit can show.
_INTERNAL = {
    512: "ERESTARTSYS",
    513: "ERESTARTNOINTR",
    514: "ERESTARTNOHAND",
    515: "ENOIOCTLCMD",
    516: "ERESTART_RESTARTBLOCK",
    524: "ENOTSUPP",
}
_ERRNO_NAMES = {**errno.errorcode, **_INTERNAL}


def layer_of(function: pl.Expr, module: pl.Expr) -> pl.Expr:
    """Return the layer of kernel functions: `mqd`, `kfd`, `amdgpu`, or `other` outside the driver.

    Args:
        function: the name.
        module: `amdgpu`, or `kfd` where no more is known than that it is of the KFD; null = not known.
    """
    amdgpu = function.str.contains(_AMDGPU) | (module == "amdgpu").fill_null(value=False)
    return (
        pl.when(function.str.contains(_MQD))
        .then(pl.lit("mqd"))
        .when(function.str.contains(_KFD) | (module == "kfd").fill_null(value=False))
        .then(pl.lit("kfd"))
        .when(amdgpu)
        .then(pl.lit("amdgpu"))
        .otherwise(pl.lit("other"))
    )


def result_text(value: pl.Expr, as_hex: pl.Expr) -> pl.Expr:
    """Return the text of signed return values: `0`, an errno name, or the number (hex where `as_hex`)."""
    failed = (value < 0) & (value >= -4095)
    names = (-value).replace_strict(_ERRNO_NAMES, default=None, return_dtype=pl.String)
    number = pl.when(as_hex & (value != 0)).then(hex_text(value)).otherwise(value.cast(pl.String))
    return pl.when(failed).then(names.fill_null(number)).otherwise(number)


def hex_text(value: pl.Expr) -> pl.Expr:
    """Return the 0x text of integers (two's complement)."""

    def convert(series: pl.Series) -> pl.Series:
        return pl.Series([None if v is None else hex(v & (1 << 64) - 1) for v in series.to_list()], dtype=pl.String)

    return value.map_batches(convert, return_dtype=pl.String)


# queue_type of kfd_ioctl_create_queue_args; inside the driver the numbers are others.
QUEUE_TYPES = {0: "compute_pm4", 1: "sdma", 2: "compute_aql", 3: "sdma_xgmi", 4: "sdma_by_engine"}
# ip_type of drm_amdgpu_userq_in (AMDGPU_HW_IP_*); a compute queue may hold AQL packets or PM4.
IP_TYPES = {2: "sdma"}
_MEMORY = {
    0: "VRAM", 1: "GTT", 2: "USERPTR", 3: "DOORBELL", 4: "MMIO_REMAP", 23: "CONTIGUOUS", 24: "EXT_COHERENT",
    25: "UNCACHED", 26: "COHERENT", 27: "AQL_QUEUE_MEM", 28: "NO_SUBSTITUTE", 29: "PUBLIC", 30: "EXECUTABLE",
    31: "WRITABLE",
}  # fmt: skip
_DBG_TRAP = (
    "ENABLE", "DISABLE", "SEND_RUNTIME_EVENT", "SET_EXCEPTIONS_ENABLED", "SET_WAVE_LAUNCH_OVERRIDE",
    "SET_WAVE_LAUNCH_MODE", "SUSPEND_QUEUES", "RESUME_QUEUES", "SET_NODE_ADDRESS_WATCH", "CLEAR_NODE_ADDRESS_WATCH",
    "SET_FLAGS", "QUERY_DEBUG_EVENT", "QUERY_EXCEPTION_INFO", "GET_QUEUE_SNAPSHOT", "GET_DEVICE_SNAPSHOT",
)  # fmt: skip
_EVENT_TYPES = (
    "SIGNAL", "NODECHANGE", "DEVICESTATECHANGE", "HW_EXCEPTION", "SYSTEM_EVENT", "DEBUG_EVENT", "PROFILE_EVENT",
    "QUEUE_EVENT", "MEMORY",
)  # fmt: skip
_NUMBERED: dict[tuple[str, str], dict[int, str]] = {
    ("create_queue", "type"): QUEUE_TYPES,
    ("create_queue", "qtype"): QUEUE_TYPES,
    ("set_debug_trap", "op"): dict(enumerate(_DBG_TRAP)),
    ("amdgpu_userq_ioctl", "op"): {1: "CREATE", 2: "FREE"},
    ("amdgpu_userq_ioctl", "ip"): {0: "GFX", 1: "COMPUTE", 2: "DMA"},
    ("svm", "op"): {0: "SET_ATTR", 1: "GET_ATTR"},
    ("create_event", "event_type"): dict(enumerate(_EVENT_TYPES)),
    ("wait_events", "wait_result"): {0: "COMPLETE", 1: "TIMEOUT", 2: "FAIL"},
    ("set_xnack_mode", "xnack"): {0xFFFFFFFF: "QUERY", (1 << 64) - 1: "QUERY", 0: "OFF", 1: "ON"},
}
_MAPPINGS = {0: "mmio", 1: "reserved_memory", 2: "events_page", 3: "doorbells"}


def name_value(function: str, key: str, value: int) -> str | None:
    """Return what `value` means in the field `key` that a probe on `function` read; None where it is a plain number.

    Args:
        function: `kfd_ioctl_create_queue`, `kfd_ioctl_alloc_memory_of_gpu`, ...
        key: name of the field as the probe gives it: `type`, `flags`, `op`, ...
    """
    call = function.removeprefix(HANDLER_PREFIX)
    if (call, key) == ("alloc_memory_of_gpu", "flags"):
        names = [_MEMORY.get(bit, f"bit_{bit}") for bit in range(64) if value >> bit & 1]
        return "|".join(names) or None
    return _NUMBERED.get((call, key), {}).get(value)


def decode_mapping(offset: pl.Expr) -> tuple[pl.Expr, pl.Expr]:
    """Return what an mmap of /dev/kfd maps, and the gpu_id that it names (null for the events page).

    Args:
        offset: UInt64 byte offset given to mmap: bits 63:62 the kind, bits 61:46 the gpu_id.
    """
    kind = (offset // 2**62).replace_strict(_MAPPINGS, return_dtype=pl.String, default=None)
    gpu_id = offset // 2**46 % 2**16
    return kind, pl.when(gpu_id != 0).then(gpu_id)
