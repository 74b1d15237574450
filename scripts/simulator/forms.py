"""Forms of the log's lines, by release."""

from __future__ import annotations

GREEN, RESET = "\x1b[32m", "\x1b[0m"
# file and line of the statements of HIP 7.2.4
SITES = {
    "launch": ("hip_module.cpp", 825), "event": ("hip_event.cpp", 430), "sync": ("hip_stream.cpp", 405),
    "malloc": ("hip_memory.cpp", 777), "copy": ("hip_memory.cpp", 1618), "graph": ("hip_graph.cpp", 1645),
    "device": ("hip_device_runtime.cpp", 690), "stream": ("hip_stream.cpp", 298), "queue": ("rocdevice.cpp", 2871),
    "command": ("command.cpp", 364), "done": ("command.cpp", 162), "arg": ("rocvirtual.cpp", 879),
    "shader": ("rocvirtual.cpp", 3631), "kernarg": ("rocvirtual.cpp", 3827), "dispatch": ("rocvirtual.cpp", 1165),
    "barrier": ("rocvirtual.cpp", 1568), "signal": ("rocvirtual.cpp", 194), "blit": ("rocblit.cpp", 549),
    "finish": ("commandqueue.cpp", 195), "memory": ("rocdevice.cpp", 2186), "init": ("rocdevice.cpp", 416),
    "wait": ("rocvirtual.cpp", 696), "rocr": ("amd_blit_kernel.cpp", 1023),
}  # fmt: skip
# Lowest level that prints a statement: HIP 7.2.4, and the releases before.
LEVELS_72 = {
    "dispatch": 5,
    "barrier": 5,
    "command": 5,
    "done": 5,
    "kernarg": 5,
    "finish": 5,
    "arg": 4,
    "blit": 4,
    "memory": 4,
}
LEVELS_OLD = {"dispatch": 4, "barrier": 4, "command": 4, "done": 4, "arg": 3, "blit": 4, "memory": 4, "finish": 4}


def level_of(era: str, site: str) -> int:
    """Return the level of a statement in a release."""
    return (LEVELS_72 if era >= "7.2" else LEVELS_OLD).get(site, 3)


def prefix(era: str, level: int, site: str, stamp_us: int, pid: int, tid: int, asked: int) -> str:
    """Return what a line begins with: level, place, time, and pid and tid where the release prints them."""
    file, number = SITES[site]
    who = f"[pid:{pid:<5} tid:{tid:#x}]" if era < "6.3" else f"[pid:{pid:<5} tid: {tid:#x}]"
    if era >= "6.3" and asked < (5 if era == "6.3" else 4):
        who = ""
    return f":{level}:{file:<25}:{number:<4}: {stamp_us:010d}{_typo(era)} us: {who} "


def told(era: str, duration_us: int) -> str:
    """Return how the end of a call tells its duration."""
    return f": duration: {duration_us}{_typo(era)} us"


def _typo(era: str) -> str:
    """Return what is behind numbers by mistake."""
    return "d" if era == "6.3" else ""


def raw_prefix(site: str, stamp_us: int, pid: int, tid: int) -> str:
    """Return what a line of ROCr begins with."""
    file, number = SITES[site]
    return f":{file:<25}:{number:<4}: {stamp_us:010d} us: [pid:{pid:<5} tid:{tid:#x}] [***rocr***] "


def packet_head(era: str, swq: int, ring: int, log_id: int) -> str:
    """Return the fields that name a packet's queue."""
    return f"SWq={swq:#x}, HWq={ring:#x}, id={log_id}, " if era >= "6.2" else f"HWq={ring:#x}, "


def packet_tail(printed: bool, rptr: int, index: int) -> str:
    """Return the indexes at the end of a packet's line; they are printed as 32-bit numbers."""
    return f", rptr={rptr % 2**32}, wptr={index % 2**32}" if printed else ""


def created(era: str, swq: int, ring: int, priority: int) -> str:
    """Return the line of a new hardware queue."""
    end = f" with size 16384 with priority {priority}, cooperative: 0"
    return (
        f"Created SWq={swq:#x} to map on HWq={ring:#x}{end}"
        if era >= "6.2"
        else f"created hardware queue {swq:#x}{end}"
    )


def stream_text(era: str, handle: int) -> str:
    """Return a stream as an argument."""
    return f"{handle:#x}" if era >= "7.2" else f"stream:{handle:#x}"
