"""Export the kernel trace of a capture as a `trace.dat`, which `trace-cmd report` and KernelShark read."""

from __future__ import annotations

import shutil
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from tracecorr.model.errors import InputError
from tracecorr.read.ftrace.formats import PageTrace, page_layout
from tracecorr.read.ftrace.trace_dat import Buffer, Option, TraceDat
from tracecorr.store.capture import Capture
from tracecorr.store.trace_dat import BufferPages, write_trace_dat
from tracecorr.store.trace_folders import list_recordings, open_page_trace, trace_clock


def write_kernel_trace(capture: Capture, out: IO[bytes]) -> list[str]:
    """Write the pages of a capture as one `trace.dat`, a buffer for each recording; return their names.

    Args:
        capture: a capture that was recorded or imported as pages, or imported as a `trace.dat`.
        out: an empty stream that can seek.

    Raises:
        InputError: the capture holds no such trace, or traces that one file cannot hold.
    """
    if capture.nodes:
        raise InputError(
            f"{capture.path} is a dataset of {len(capture.nodes)} captures", "export the trace of each capture"
        )
    recordings = [r for r in list_recordings(capture.info["files"]) if any(e["form"] == "pages" for e in r)]
    files = [entry for entry in capture.info["files"] if entry["form"] == "trace_dat"]
    if len(files) + bool(recordings) > 1:
        raise InputError(
            f"{capture.path} holds several kernel traces", "each trace.dat in its raw/ftrace can be used as it is"
        )
    if files:
        with (capture.path / files[0]["path"]).open("rb") as stream:
            shutil.copyfileobj(stream, out)
        return [Path(files[0]["path"]).name]
    if not recordings:
        raise InputError(
            f"{capture.path} holds no pages of a kernel trace: a text cannot become a trace.dat",
            "record with tracecorr capture, or import a folder of trace_pipe_raw pages",
        )
    traces = [open_page_trace(capture, recording)[0] for recording in recordings]
    names = [_name(recording) for recording in recordings]
    write_trace_dat(out, _description(traces), _buffers(traces, names, trace_clock(capture)))
    return names


def _name(recording: Sequence[Mapping[str, Any]]) -> str:
    return str(recording[0]["path"]).split("/")[2]


def _description(traces: list[PageTrace]) -> TraceDat:
    """Return the description of all recordings: they come from one machine, so equal names mean equal texts."""
    events: dict[str, str] = {}
    for trace in traces:
        events.update(trace.formats)
    longest = {n: max((getattr(t, n) for t in traces), key=len) for n in ("header_page", "header_event", "printk")}
    lines = {n: dict.fromkeys(line for t in traces for line in getattr(t, n).splitlines())
             for n in ("kallsyms", "cmdlines")}  # fmt: skip
    cpus = 1 + max((cpu for trace in traces for cpu in trace.pages), default=0)
    options = [(int(Option.CPUCOUNT), struct.pack("<I", cpus))]
    options += [(int(Option.CPUSTAT), _stats(cpu, counters)) for cpu, counters in traces[0].stats.items()]
    return TraceDat(
        page_size=page_layout(longest["header_page"])[1],
        header_page=longest["header_page"],
        header_event=longest["header_event"],
        printk=longest["printk"],
        events=events,
        kallsyms="".join(f"{line}\n" for line in lines["kallsyms"]),
        cmdlines="".join(f"{line}\n" for line in lines["cmdlines"]),
        options=options,
    )


def _stats(cpu: str, lines: Mapping[str, str]) -> bytes:
    own = {"CPU": cpu.removeprefix("cpu"), **lines}
    return "".join(f"{key}: {value}\n" for key, value in own.items()).encode() + b"\0"


def _buffers(traces: list[PageTrace], names: list[str], clock: str) -> list[BufferPages]:
    """Return the first recording as the top buffer, the others as instances of their names."""
    found = []
    for number, (trace, name) in enumerate(zip(traces, names, strict=True)):
        size = page_layout(trace.header_page, trace.page_size)[1]
        pages = {cpu: [data] if isinstance(data, bytes) else data for cpu, data in sorted(trace.pages.items())}
        found.append(BufferPages(Buffer(name if number else "", clock, size), pages))
    return found
