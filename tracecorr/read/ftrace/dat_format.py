"""What a `trace.dat` of trace-cmd holds (versions 6 and 7; man pages trace-cmd.dat.v6(5), trace-cmd.dat.v7(5))."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import IntEnum

MAGIC = b"\x17\x08\x44tracing"
SECTION_BYTES = 16
COMPRESSED = 1

# Bytes of the file at an offset; fewer at its end.
ReadAt = Callable[[int, int], bytes]


class Option(IntEnum):
    """Name the options of the file that are read or written; sections carry the same numbers."""

    DONE = 0
    CPUSTAT = 2
    BUFFER = 3
    TRACECLOCK = 4
    UNAME = 5
    OFFSET = 7
    CPUCOUNT = 8
    STRINGS = 15
    HEADER_INFO = 16
    FTRACE_EVENTS = 17
    EVENT_FORMATS = 18
    KALLSYMS = 19
    PRINTK = 20
    CMDLINES = 21
    BUFFER_TEXT = 22


@dataclass(frozen=True)
class CpuData:
    """Say where the pages of one CPU are: offset and size in the file, and how much of it is there."""

    cpu: int
    offset: int
    size: int
    present: int


@dataclass
class Buffer:
    """Hold one ring buffer of the file: the top one (no name) or that of an instance.

    Args:
        name: name of the instance.
        clock: its trace clock; empty where the file does not say.
        page_size: bytes of a page.
        cpus: where the pages are.
    """

    name: str
    clock: str
    page_size: int
    cpus: list[CpuData] = field(default_factory=list)


@dataclass
class TraceDat:
    """Hold the description part of a file; the pages stay in it.

    Args:
        version: 6 or 7.
        compression: `none`, `zlib` or `zstd`.
        page_size: bytes of a page of the recording machine.
        long_size: bytes of its `long`.
        header_page, header_event: texts of `events/header_page` and `events/header_event`.
        events: texts of the format files by `system/event`.
        kallsyms, printk, cmdlines: texts of `/proc/kallsyms`, `printk_formats` and `saved_cmdlines`.
        options: all other options: number and data.
        buffers: the ring buffers.
        text: (offset, size) of a trace as text, which a file can hold in place of pages.
        problems: (reason, bytes) of what could not be read.
    """

    version: int = 7
    compression: str = "none"
    page_size: int = 4096
    long_size: int = 8
    header_page: str = ""
    header_event: str = ""
    events: dict[str, str] = field(default_factory=dict)
    kallsyms: str = ""
    printk: str = ""
    cmdlines: str = ""
    options: list[tuple[int, bytes]] = field(default_factory=list)
    buffers: list[Buffer] = field(default_factory=list)
    text: tuple[int, int] | None = None
    problems: list[tuple[str, int]] = field(default_factory=list)

    def option_text(self, number: int) -> str:
        """Return the text of an option, empty where it is absent."""
        found = next((data for known, data in self.options if known == number), b"")
        return found.partition(b"\0")[0].decode("utf-8", "replace")

    def clock(self) -> str:
        """Return the chosen trace clock; empty where the file does not say."""
        text = self.option_text(Option.TRACECLOCK)
        chosen = re.search(r"\[([\w-]+)\]", text)
        return chosen[1] if chosen else text.strip()

    def stats(self, buffer: str) -> dict[str, dict[str, str]]:
        """Return the counters of each CPU of the buffer with this name by `cpuN`."""
        found: dict[str, dict[str, str]] = {}
        # Those of the top buffer come first; the name of an instance stands before its own.
        owner = ""
        for number, data in self.options:
            if number == Option.CPUSTAT:
                pairs = [line.split(":", 1) for line in data.decode("utf-8", "replace").splitlines() if ":" in line]
                lines = {key.strip(): value.strip("\0 ") for key, value in pairs}
                owner = lines.get("Buffer", owner)
                if owner == buffer and "CPU" in lines:
                    found[f"cpu{lines['CPU']}"] = lines
        return found


def looks_like_trace_dat(head: bytes) -> bool:
    """Tell whether the first bytes of a file are those of a `trace.dat`."""
    return head.startswith(MAGIC)
