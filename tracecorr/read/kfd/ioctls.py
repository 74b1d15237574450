"""The ioctls of /dev/kfd and of DRM render nodes: names by (type, nr), what numbers in their arguments mean.

The size inside a request number depends on the headers of the user-space library (CREATE_QUEUE is 88 or 96 bytes, SVM
varies with its attributes), and the drivers dispatch on `nr` alone: the full number is therefore never compared.
Arguments and offsets of mmaps: kfd_ioctl.h, KFD 1.11 to 1.23.
"""

from __future__ import annotations

import errno

import polars as pl

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
    """Return what `value` means in the field `key` that a probe on `function` read; None if it is a plain number.

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


# Asked of the stream of a dispatch log, which is a file of its own, and never of /dev/kfd (ROCm's driver of 2026).
_DISPATCH_LOG = 0x88
# Types of ioctl numbers, their bits 15:8: `K` and `d` (kfd_ioctl.h, drm.h).
KFD_TYPE, DRM_TYPE = 0x4B, 0x64
# What is common to the names, and to those of the functions that do in the driver what is asked (kfd_chardev.c).
KFD_PREFIX, HANDLER_PREFIX = "AMDKFD_IOC_", "kfd_ioctl_"
CREATE_QUEUE, DESTROY_QUEUE = "AMDKFD_IOC_CREATE_QUEUE", "AMDKFD_IOC_DESTROY_QUEUE"
# Makes (operation 1) and frees user queues of the DRM, and the function of the driver that does it.
USERQ, USERQ_HANDLER, USERQ_CREATE = "DRM_IOCTL_AMDGPU_USERQ", "amdgpu_userq_ioctl", 1
UPDATE_QUEUE, SET_CU_MASK = "AMDKFD_IOC_UPDATE_QUEUE", "AMDKFD_IOC_SET_CU_MASK"

# Union of the uAPI headers of Linux 6.1, 6.12 and 7.2 (KFD 1.11, 1.17, 1.23), amdgpu DKMS 6.7.0
# (ROCm 6.1, KFD 1.15) and DKMS of 2026 (ROCm 7.x, KFD 1.17 to 1.22); 0x80 and above exist in DKMS only.
_KFD_NAMES = {
    0x01: "AMDKFD_IOC_GET_VERSION",
    0x02: CREATE_QUEUE,
    0x03: DESTROY_QUEUE,
    0x04: "AMDKFD_IOC_SET_MEMORY_POLICY",
    0x05: "AMDKFD_IOC_GET_CLOCK_COUNTERS",
    0x06: "AMDKFD_IOC_GET_PROCESS_APERTURES",
    0x07: UPDATE_QUEUE,
    0x08: "AMDKFD_IOC_CREATE_EVENT",
    0x09: "AMDKFD_IOC_DESTROY_EVENT",
    0x0A: "AMDKFD_IOC_SET_EVENT",
    0x0B: "AMDKFD_IOC_RESET_EVENT",
    0x0C: "AMDKFD_IOC_WAIT_EVENTS",
    0x0D: "AMDKFD_IOC_DBG_REGISTER_DEPRECATED",
    0x0E: "AMDKFD_IOC_DBG_UNREGISTER_DEPRECATED",
    0x0F: "AMDKFD_IOC_DBG_ADDRESS_WATCH_DEPRECATED",
    0x10: "AMDKFD_IOC_DBG_WAVE_CONTROL_DEPRECATED",
    0x11: "AMDKFD_IOC_SET_SCRATCH_BACKING_VA",
    0x12: "AMDKFD_IOC_GET_TILE_CONFIG",
    0x13: "AMDKFD_IOC_SET_TRAP_HANDLER",
    0x14: "AMDKFD_IOC_GET_PROCESS_APERTURES_NEW",
    0x15: "AMDKFD_IOC_ACQUIRE_VM",
    0x16: "AMDKFD_IOC_ALLOC_MEMORY_OF_GPU",
    0x17: "AMDKFD_IOC_FREE_MEMORY_OF_GPU",
    0x18: "AMDKFD_IOC_MAP_MEMORY_TO_GPU",
    0x19: "AMDKFD_IOC_UNMAP_MEMORY_FROM_GPU",
    0x1A: SET_CU_MASK,
    0x1B: "AMDKFD_IOC_GET_QUEUE_WAVE_STATE",
    0x1C: "AMDKFD_IOC_GET_DMABUF_INFO",
    0x1D: "AMDKFD_IOC_IMPORT_DMABUF",
    0x1E: "AMDKFD_IOC_ALLOC_QUEUE_GWS",
    0x1F: "AMDKFD_IOC_SMI_EVENTS",
    0x20: "AMDKFD_IOC_SVM",
    0x21: "AMDKFD_IOC_SET_XNACK_MODE",
    0x22: "AMDKFD_IOC_CRIU_OP",
    0x23: "AMDKFD_IOC_AVAILABLE_MEMORY",
    0x24: "AMDKFD_IOC_EXPORT_DMABUF",
    0x25: "AMDKFD_IOC_RUNTIME_ENABLE",
    0x26: "AMDKFD_IOC_DBG_TRAP",
    0x27: "AMDKFD_IOC_CREATE_PROCESS",
    0x28: "AMDKFD_IOC_PROFILER",
    0x80: "AMDKFD_IOC_IPC_IMPORT_HANDLE",
    0x81: "AMDKFD_IOC_IPC_EXPORT_HANDLE",
    0x82: "AMDKFD_IOC_DBG_TRAP_DEPRECATED",
    0x83: "AMDKFD_IOC_CROSS_MEMORY_COPY_DEPRECATED",
    0x84: "AMDKFD_IOC_RLC_SPM",
    0x85: "AMDKFD_IOC_PC_SAMPLE",
    0x86: "AMDKFD_IOC_PROFILER",
    0x87: "AMDKFD_IOC_AIS_OP",
}

# Same headers; 0x40 to 0x9F belong to the driver, here amdgpu.
_DRM_NAMES = {
    0x00: "DRM_IOCTL_VERSION",
    0x01: "DRM_IOCTL_GET_UNIQUE",
    0x02: "DRM_IOCTL_GET_MAGIC",
    0x03: "DRM_IOCTL_IRQ_BUSID",
    0x04: "DRM_IOCTL_GET_MAP",
    0x05: "DRM_IOCTL_GET_CLIENT",
    0x06: "DRM_IOCTL_GET_STATS",
    0x07: "DRM_IOCTL_SET_VERSION",
    0x08: "DRM_IOCTL_MODESET_CTL",
    0x09: "DRM_IOCTL_GEM_CLOSE",
    0x0A: "DRM_IOCTL_GEM_FLINK",
    0x0B: "DRM_IOCTL_GEM_OPEN",
    0x0C: "DRM_IOCTL_GET_CAP",
    0x0D: "DRM_IOCTL_SET_CLIENT_CAP",
    0x10: "DRM_IOCTL_SET_UNIQUE",
    0x11: "DRM_IOCTL_AUTH_MAGIC",
    0x12: "DRM_IOCTL_BLOCK",
    0x13: "DRM_IOCTL_UNBLOCK",
    0x14: "DRM_IOCTL_CONTROL",
    0x15: "DRM_IOCTL_ADD_MAP",
    0x16: "DRM_IOCTL_ADD_BUFS",
    0x17: "DRM_IOCTL_MARK_BUFS",
    0x18: "DRM_IOCTL_INFO_BUFS",
    0x19: "DRM_IOCTL_MAP_BUFS",
    0x1A: "DRM_IOCTL_FREE_BUFS",
    0x1B: "DRM_IOCTL_RM_MAP",
    0x1C: "DRM_IOCTL_SET_SAREA_CTX",
    0x1D: "DRM_IOCTL_GET_SAREA_CTX",
    0x1E: "DRM_IOCTL_SET_MASTER",
    0x1F: "DRM_IOCTL_DROP_MASTER",
    0x20: "DRM_IOCTL_ADD_CTX",
    0x21: "DRM_IOCTL_RM_CTX",
    0x22: "DRM_IOCTL_MOD_CTX",
    0x23: "DRM_IOCTL_GET_CTX",
    0x24: "DRM_IOCTL_SWITCH_CTX",
    0x25: "DRM_IOCTL_NEW_CTX",
    0x26: "DRM_IOCTL_RES_CTX",
    0x27: "DRM_IOCTL_ADD_DRAW",
    0x28: "DRM_IOCTL_RM_DRAW",
    0x29: "DRM_IOCTL_DMA",
    0x2A: "DRM_IOCTL_LOCK",
    0x2B: "DRM_IOCTL_UNLOCK",
    0x2C: "DRM_IOCTL_FINISH",
    0x2D: "DRM_IOCTL_PRIME_HANDLE_TO_FD",
    0x2E: "DRM_IOCTL_PRIME_FD_TO_HANDLE",
    0x30: "DRM_IOCTL_AGP_ACQUIRE",
    0x31: "DRM_IOCTL_AGP_RELEASE",
    0x32: "DRM_IOCTL_AGP_ENABLE",
    0x33: "DRM_IOCTL_AGP_INFO",
    0x34: "DRM_IOCTL_AGP_ALLOC",
    0x35: "DRM_IOCTL_AGP_FREE",
    0x36: "DRM_IOCTL_AGP_BIND",
    0x37: "DRM_IOCTL_AGP_UNBIND",
    0x38: "DRM_IOCTL_SG_ALLOC",
    0x39: "DRM_IOCTL_SG_FREE",
    0x3A: "DRM_IOCTL_WAIT_VBLANK",
    0x3B: "DRM_IOCTL_CRTC_GET_SEQUENCE",
    0x3C: "DRM_IOCTL_CRTC_QUEUE_SEQUENCE",
    0x3F: "DRM_IOCTL_UPDATE_DRAW",
    0x40: "DRM_IOCTL_AMDGPU_GEM_CREATE",
    0x41: "DRM_IOCTL_AMDGPU_GEM_MMAP",
    0x42: "DRM_IOCTL_AMDGPU_CTX",
    0x43: "DRM_IOCTL_AMDGPU_BO_LIST",
    0x44: "DRM_IOCTL_AMDGPU_CS",
    0x45: "DRM_IOCTL_AMDGPU_INFO",
    0x46: "DRM_IOCTL_AMDGPU_GEM_METADATA",
    0x47: "DRM_IOCTL_AMDGPU_GEM_WAIT_IDLE",
    0x48: "DRM_IOCTL_AMDGPU_GEM_VA",
    0x49: "DRM_IOCTL_AMDGPU_WAIT_CS",
    0x50: "DRM_IOCTL_AMDGPU_GEM_OP",
    0x51: "DRM_IOCTL_AMDGPU_GEM_USERPTR",
    0x52: "DRM_IOCTL_AMDGPU_WAIT_FENCES",
    0x53: "DRM_IOCTL_AMDGPU_VM",
    0x54: "DRM_IOCTL_AMDGPU_FENCE_TO_HANDLE",
    0x55: "DRM_IOCTL_AMDGPU_SCHED",
    0x56: USERQ,
    0x57: "DRM_IOCTL_AMDGPU_USERQ_SIGNAL",
    0x58: "DRM_IOCTL_AMDGPU_USERQ_WAIT",
    0x59: "DRM_IOCTL_AMDGPU_GEM_LIST_HANDLES",
    0x9B: "DRM_IOCTL_AMDGPU_SEM",
    0x9C: "DRM_IOCTL_AMDGPU_GEM_DGMA",
    0xA0: "DRM_IOCTL_MODE_GETRESOURCES",
    0xA1: "DRM_IOCTL_MODE_GETCRTC",
    0xA2: "DRM_IOCTL_MODE_SETCRTC",
    0xA3: "DRM_IOCTL_MODE_CURSOR",
    0xA4: "DRM_IOCTL_MODE_GETGAMMA",
    0xA5: "DRM_IOCTL_MODE_SETGAMMA",
    0xA6: "DRM_IOCTL_MODE_GETENCODER",
    0xA7: "DRM_IOCTL_MODE_GETCONNECTOR",
    0xA8: "DRM_IOCTL_MODE_ATTACHMODE",
    0xA9: "DRM_IOCTL_MODE_DETACHMODE",
    0xAA: "DRM_IOCTL_MODE_GETPROPERTY",
    0xAB: "DRM_IOCTL_MODE_SETPROPERTY",
    0xAC: "DRM_IOCTL_MODE_GETPROPBLOB",
    0xAD: "DRM_IOCTL_MODE_GETFB",
    0xAE: "DRM_IOCTL_MODE_ADDFB",
    0xAF: "DRM_IOCTL_MODE_RMFB",
    0xB0: "DRM_IOCTL_MODE_PAGE_FLIP",
    0xB1: "DRM_IOCTL_MODE_DIRTYFB",
    0xB2: "DRM_IOCTL_MODE_CREATE_DUMB",
    0xB3: "DRM_IOCTL_MODE_MAP_DUMB",
    0xB4: "DRM_IOCTL_MODE_DESTROY_DUMB",
    0xB5: "DRM_IOCTL_MODE_GETPLANERESOURCES",
    0xB6: "DRM_IOCTL_MODE_GETPLANE",
    0xB7: "DRM_IOCTL_MODE_SETPLANE",
    0xB8: "DRM_IOCTL_MODE_ADDFB2",
    0xB9: "DRM_IOCTL_MODE_OBJ_GETPROPERTIES",
    0xBA: "DRM_IOCTL_MODE_OBJ_SETPROPERTY",
    0xBB: "DRM_IOCTL_MODE_CURSOR2",
    0xBC: "DRM_IOCTL_MODE_ATOMIC",
    0xBD: "DRM_IOCTL_MODE_CREATEPROPBLOB",
    0xBE: "DRM_IOCTL_MODE_DESTROYPROPBLOB",
    0xBF: "DRM_IOCTL_SYNCOBJ_CREATE",
    0xC0: "DRM_IOCTL_SYNCOBJ_DESTROY",
    0xC1: "DRM_IOCTL_SYNCOBJ_HANDLE_TO_FD",
    0xC2: "DRM_IOCTL_SYNCOBJ_FD_TO_HANDLE",
    0xC3: "DRM_IOCTL_SYNCOBJ_WAIT",
    0xC4: "DRM_IOCTL_SYNCOBJ_RESET",
    0xC5: "DRM_IOCTL_SYNCOBJ_SIGNAL",
    0xC6: "DRM_IOCTL_MODE_CREATE_LEASE",
    0xC7: "DRM_IOCTL_MODE_LIST_LESSEES",
    0xC8: "DRM_IOCTL_MODE_GET_LEASE",
    0xC9: "DRM_IOCTL_MODE_REVOKE_LEASE",
    0xCA: "DRM_IOCTL_SYNCOBJ_TIMELINE_WAIT",
    0xCB: "DRM_IOCTL_SYNCOBJ_QUERY",
    0xCC: "DRM_IOCTL_SYNCOBJ_TRANSFER",
    0xCD: "DRM_IOCTL_SYNCOBJ_TIMELINE_SIGNAL",
    0xCE: "DRM_IOCTL_MODE_GETFB2",
    0xCF: "DRM_IOCTL_SYNCOBJ_EVENTFD",
    0xD0: "DRM_IOCTL_MODE_CLOSEFB",
    0xD1: "DRM_IOCTL_SET_CLIENT_NAME",
    0xD2: "DRM_IOCTL_GEM_CHANGE_HANDLE",
}


# Where the function of the driver is not called as its request (amdkfd_ioctls of kfd_chardev.c, mainline and DKMS).
_OTHER_HANDLERS = {
    "AMDKFD_IOC_DBG_REGISTER_DEPRECATED": "dbg_register",
    "AMDKFD_IOC_DBG_UNREGISTER_DEPRECATED": "dbg_unregister",
    "AMDKFD_IOC_DBG_ADDRESS_WATCH_DEPRECATED": "dbg_address_watch",
    "AMDKFD_IOC_DBG_WAVE_CONTROL_DEPRECATED": "dbg_wave_control",
    "AMDKFD_IOC_CRIU_OP": "criu",
    "AMDKFD_IOC_AVAILABLE_MEMORY": "get_available_memory",
    "AMDKFD_IOC_DBG_TRAP": "set_debug_trap",
    "AMDKFD_IOC_DBG_TRAP_DEPRECATED": "dbg_set_debug_trap",
    "AMDKFD_IOC_CROSS_MEMORY_COPY_DEPRECATED": "cross_memory_copy",
}


def list_handlers() -> pl.DataFrame:
    """Return the ioctls of the KFD (`ioctl`), each with the function of the driver that does it (`handler`)."""
    names = sorted(set(_KFD_NAMES.values()))
    handlers = [HANDLER_PREFIX + _OTHER_HANDLERS.get(n, n.removeprefix(KFD_PREFIX).lower()) for n in names]
    return pl.DataFrame({"ioctl": names, "handler": handlers})


def ioctl_name(cmd: int) -> str | None:
    """Return the name of request `cmd`, or None when it belongs to neither KFD nor DRM.

    A type `K` without a direction is a console ioctl; CREATE_PROCESS of the mainline driver has no direction
    either and is lost with them on purpose; that of ROCm's own driver has one.
    """
    kind, nr, direction = cmd >> 8 & 0xFF, cmd & 0xFF, cmd >> 30 & 3
    if kind == KFD_TYPE and nr == _DISPATCH_LOG:
        return None
    if kind == KFD_TYPE and direction:
        return _KFD_NAMES.get(nr, f"AMDKFD_IOC_0x{nr:02x}")
    if kind == DRM_TYPE:
        return _DRM_NAMES.get(nr, f"DRM_IOCTL_0x{nr:02x}")
    return None


def device_ioctl_name(cmd: int, device: str) -> str | None:
    """Return the name of request `cmd` on a descriptor that is known to be of `device` (`kfd` or `drm`).

    Such a descriptor settles what the number leaves open: a request without a direction is one of it too.
    """
    kind, nr = cmd >> 8 & 0xFF, cmd & 0xFF
    if (device, kind) == ("kfd", KFD_TYPE):
        return _KFD_NAMES.get(nr, f"AMDKFD_IOC_0x{nr:02x}")
    return ioctl_name(cmd) if (device, kind) == ("drm", DRM_TYPE) else None


def ioctl_names(cmds: pl.Series) -> pl.DataFrame:
    """Return the distinct values of `cmds` (column `cmd`) with their `ioctl` name, null for others."""
    distinct = cmds.drop_nulls().unique()
    names = [ioctl_name(cmd) for cmd in distinct.to_list()]
    return pl.DataFrame({"cmd": distinct, "ioctl": pl.Series(names, dtype=pl.String)})
