"""Records of rocprof's files: what each line of a CSV table or each object of a JSON trace tells."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise

from tracecorr.model.reasons import TORN_LINE

# Why rows are skipped that tell no time, as those of statistics do.
TIMELESS = "no times"

# Columns of rocprofv3 (ROCm 6.2 to 7.x) and rocprof v1 (ROCm 4 to 6) that mean the same.
_START = ("Start_Timestamp", "BeginNs")
_END = ("End_Timestamp", "EndNs")
_PID = ("Process_Id", "pid")
_TID = ("Thread_Id", "tid")
_QUEUE = ("Queue_Id", "queue-id")
_AGENT, _GPU_ID = ("Agent_Id",), ("gpu-id",)
_DISPATCH = ("Dispatch_Id", "queue-index")
_CORRELATION = ("Correlation_Id",)
_STREAM = ("Stream_Id",)
_SIZE = ("Size", "Allocation_Size")
_NAME = ("Kernel_Name", "KernelName", "Function", "Direction", "Operation", "Name")
_KIND = ("Kind", "Domain")
# A counter that rocprofv3 read while a kernel ran: ROCm 6.2 prints 16384, later releases 16384.000000.
_COUNTER, _VALUE = ("Counter_Name",), ("Counter_Value",)
_WHOLE = re.compile(r"(\d{1,18})(?:\.0+)?")
# `[clone .kd]` names the kernel descriptor; the HIP log prints the kernel.
_DESCRIPTOR = re.compile(r"\s*\[clone \.kd\]$|\.kd$")
_GAP = re.compile(rb"\n,(?=\{)")
# What a JSON trace of rocprof v1 calls the processes in which it shows copies, and kernels.
_COPIES, _KERNELS = "COPY", re.compile(r"GPU\d+")

# A CSV table and rocprof v1 hold text, rocprofv3's JSON and databases numbers too.
Field = str | int | None


@dataclass(frozen=True)
class Record:
    """Hold one record.

    Args:
        offset, length: its bytes in the file; the record and what lies before the next one.
        fields: columns by name; empty for what is no record.
        layer: layer of its row; empty when it is skipped.
        reason: why it is skipped.
        lane: name of the process in which a JSON trace of rocprof v1 shows it.
    """

    offset: int
    length: int
    fields: Mapping[str, Field]
    layer: str = ""
    reason: str = ""
    lane: str = ""

    def text(self, names: tuple[str, ...]) -> str | None:
        """Return the first of the named columns that the record has, as text."""
        for name in names:
            value = self.fields.get(name)
            if value is not None and value != "":
                return str(value)
        return None

    def number(self, names: tuple[str, ...]) -> int | None:
        """Return the first of the named columns as a number that fits 63 bits; None for anything else."""
        text = self.text(names)
        return int(text) if text is not None and text.isascii() and text.isdigit() and len(text) < 19 else None

    @property
    def start_ns(self) -> int | None:
        """Return when it began, on rocprof's clock."""
        return self.number(_START)

    @property
    def end_ns(self) -> int | None:
        """Return when it ended."""
        return self.number(_END)

    @property
    def pid(self) -> int | None:
        """Return the process number, as the profiled program sees it."""
        return self.number(_PID)

    @property
    def size_bytes(self) -> int | None:
        """Return the size of a copy or an allocation."""
        return self.number(_SIZE)

    @property
    def args(self) -> dict[str, int | str | None]:
        """Return the fields that have no column of `events`; the value of a counter by the name of the counter."""
        return {
            "tid": self.number(_TID),
            "queue_id": self.number(_QUEUE),
            "dispatch_id": self.number(_DISPATCH),
            "correlation_id": self.number(_CORRELATION),
            "stream_id": self.number(_STREAM),
            "agent": self._agent if self.layer == "gpu" else None,
            **self._counter(),
        }

    @property
    def _agent(self) -> str | None:
        """Return which GPU a kernel ran on, as rocprofv3 calls it (`Agent 4`), or rocprof v1 (`gpu-id 9`, `GPU0`)."""
        agent, gpu_id = self.text(_AGENT), self.text(_GPU_ID)
        if agent is not None:
            return f"Agent {agent}" if agent.isdigit() else agent
        if gpu_id is not None:
            return f"gpu-id {gpu_id}"
        return self.lane if _KERNELS.fullmatch(self.lane) else None

    def _counter(self) -> dict[str, int | str | None]:
        """Return the counter that a row of a collection tells: a number where it is whole, else as it is written."""
        name, value = self.text(_COUNTER), self.text(_VALUE)
        if name is None or value is None:
            return {}
        whole = _WHOLE.fullmatch(value)
        return {name: int(whole[1]) if whole else value}

    @property
    def is_kernel(self) -> bool:
        """Tell whether it is a kernel that ran on a GPU."""
        named = self.text(("Kernel_Name", "KernelName")) is not None
        return self.layer == "gpu" and (named or _KERNELS.fullmatch(self.lane) is not None)

    @property
    def name(self) -> str:
        """Return what happened: a kernel, a function, the direction of a copy."""
        return _DESCRIPTOR.sub("", self.text(_NAME) or "?")


def read_csv_records(data: bytes) -> Iterator[Record]:
    """Yield the lines of a CSV table; the first one names the columns."""
    header: list[str] = []
    offset = 0
    for line in data.splitlines(keepends=True):
        cells = next(iter(csv.reader([line.decode("utf-8", "replace")])), [])
        if not header:
            header = cells
            yield Record(offset, len(line), {}, reason="header")
        else:
            yield _read_line(offset, line, header, cells)
        offset += len(line)


def _read_line(offset: int, line: bytes, header: list[str], cells: list[str]) -> Record:
    record = Record(offset, len(line), {}, reason="line of another table" if cells else "empty line")
    if len(cells) == len(header):
        record = classify(offset, len(line), dict(zip(header, cells, strict=True)))
    # A last line without its end may have been cut: then cells lack, or its last number, that of the end, is too small.
    is_ended = line.endswith((b"\n", b"\r")) or not cells
    if record.reason and not is_ended and (len(cells) != len(header) or record.start_ns is not None):
        return replace(record, reason=TORN_LINE)
    return record


def read_json_records(data: bytes) -> Iterator[Record]:
    """Yield the objects of a JSON trace of rocprof v1; each begins a line with `,{`."""
    edges = [0, *(m.start() + 1 for m in _GAP.finditer(data)), len(data)]
    lanes: dict[str, str] = {}
    for begin, end in pairwise(edges):
        piece = data[begin:end]
        if not piece:
            continue
        found = _decode(piece)
        if not isinstance(found, dict) or found.get("ph") != "X":
            lanes |= _name_lane(found)
            damaged = found is None and piece.lstrip().startswith(b",{")
            yield Record(begin, len(piece), {}, reason="damaged object" if damaged else "description of the trace")
            continue
        told = found.get("args")
        fields = {str(k): str(v) for k, v in told.items()} if isinstance(told, dict) else {}
        named = {**fields, "Name": str(found.get("name", "?"))}
        yield classify(begin, len(piece), named, lanes.get(str(found.get("pid")), ""))


def _name_lane(found: object) -> dict[str, str]:
    """Return the number and the name of the process that an object of a JSON trace describes."""
    if not isinstance(found, dict) or (found.get("ph"), found.get("name")) != ("M", "process_name"):
        return {}
    told = found.get("args")
    return {str(found.get("pid")): str(told.get("name", ""))} if isinstance(told, dict) else {}


def _decode(piece: bytes) -> object:
    text = piece.strip().removeprefix(b",")
    try:
        # The last object of the list is followed by the end of the file's own.
        return json.JSONDecoder().raw_decode(text.decode("utf-8", "replace"))[0]
    except (ValueError, RecursionError):
        return None


def classify(offset: int, length: int, fields: Mapping[str, Field], lane: str = "") -> Record:
    """Return a record with its layer, or with the reason why it is skipped."""
    record = Record(offset, length, fields, lane=lane)
    start_ns, end_ns = record.start_ns, record.end_ns
    if start_ns is None or end_ns is None or end_ns < start_ns:
        return Record(offset, length, fields, reason=TIMELESS)
    return Record(offset, length, fields, _layer(record), lane=lane)


def _layer(record: Record) -> str:
    """Return the layer: by the kind that rocprofv3 names, else by what rocprof v1 calls things."""
    kind = record.text(_KIND) or ""
    if kind:
        for word, layer in (("KERNEL", "gpu"), ("COPY", "gpu"), ("HIP", "hip"), ("HSA", "hsa"), ("MARKER", "marker")):
            if word in kind:
                return layer
        return "memory" if "MEMORY" in kind else "other"
    if record.fields.get("KernelName"):
        return "gpu"
    if record.fields.get("Kernel_Name"):
        return "other"  # a counter of a kernel, whose times the kernel's own record has
    name = record.name
    on_gpu = record.lane == _COPIES or _KERNELS.fullmatch(record.lane) or name.startswith("async-copy")
    return "gpu" if on_gpu else "hsa" if name.startswith("hsa_") else "hip"
