"""The names of the ioctls of /dev/kfd and of DRM render nodes, decoded by (type, nr).

The size inside a request number depends on the headers of the user-space library (CREATE_QUEUE is
88 or 96 bytes, SVM varies with its attributes), and the drivers dispatch on `nr` alone: the full
number is therefore never compared.
"""

from __future__ import annotations

import polars as pl

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
