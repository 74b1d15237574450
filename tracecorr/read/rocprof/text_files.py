"""The text files of rocprof: CSV tables, the JSON trace of rocprof v1, the JSON of rocprofv3.

Layout of the last one: `generateJSON.cpp` of rocprofiler-sdk (ROCm 6.2 to 7.x), one object of names and records for
each process. Records name their kind and operation by number; the lists of names are in `strings.buffer_records`, the
kernels in `kernel_symbols`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from typing import Any

import numpy as np
import polars as pl

from tracecorr.model.parts import Block
from tracecorr.model.reasons import TORN_LINE
from tracecorr.read.rocprof.profile import OTHER_TABLE, RepeatedRecords, make_block, number_records

_HEADERS = (b"Start_Timestamp", b"BeginNs", b"TotalDurationNs", b"Counter_Value")
_ROOT = "rocprofiler-sdk-tool"
_DAMAGED = "damaged or cut JSON"
# A cell of a CSV line, with the comma before it; a quote in quotes is doubled.
_CELL = r'(?:^|,)(?:"(?:[^"]|"")*"|[^,"]*)'
# Objects of a JSON trace of rocprof v1 begin a line each.
_OBJECT = re.compile(rb"\n,(?=\{)")
_SDK_COLUMNS = (
    "Kind", "Process_Id", "Thread_Id", "Correlation_Id", "Stream_Id", "Queue_Id", "Dispatch_Id", "Agent_Id",
    "Kernel_Name", "Name", "Size", "Start_Timestamp", "End_Timestamp",
    "VGPR_Count", "SGPR_Count", "LDS_Block_Size", "Scratch_Size", "Kernarg_Size", "Counter_Name", "Counter_Value",
)  # fmt: skip
# What symbols and dispatches say of a kernel, in the order of these columns.
_OF_KERNEL = ("arch_vgpr_count", "sgpr_count", "group_segment_size", "private_segment_size", "kernarg_segment_size")
_V1_COLUMNS = ("Name", "lane", "pid", "tid", "queue-id", "KernelName", "BeginNs", "EndNs", "gpu-id", "queue-index",
               "Size")  # fmt: skip


def looks_like_rocprof(head: bytes) -> bool:
    """Tell whether a file begins like a CSV table of rocprof, a JSON trace of rocprof v1 or the JSON of rocprofv3."""
    first = head.lstrip()[:4096]
    if first.startswith(b"{"):
        return b"traceEvents" in first or f'"{_ROOT}"'.encode() in first
    return any(name in _first_line(head) for name in _HEADERS)


def has_counters(head: bytes) -> bool:
    """Tell whether a file begins like a table of rocprofv3 with a counter of a dispatch in each line."""
    return b"Counter_Value" in _first_line(head)


def is_statistic(head: bytes) -> bool:
    """Tell whether a file begins like a table of sums, without times."""
    return b"TotalDurationNs" in _first_line(head)


def _first_line(head: bytes) -> bytes:
    return head.lstrip()[:4096].split(b"\n", 1)[0]


def read_rocprof(chunks: Iterable[bytes], file: int, repeated: RepeatedRecords | None = None) -> Iterator[Block]:
    """Yield the rows of a rocprof file.

    Args:
        chunks: its bytes.
        file: key of `files`.
        repeated: what the other files of the capture hold, None if there is no other.

    Yields:
        A block; HIP and HSA calls have no thread, so that nothing of the log or the trace is put inside them by time.
        Lines of a table and objects of a trace have their bytes; records of the JSON of rocprofv3 are numbered.
    """
    data = b"".join(chunks)
    start = data.lstrip()[:4096]
    if not start.startswith(b"{"):
        yield make_block(*_read_table(data), file, repeated)
    elif b"traceEvents" in start:
        yield make_block(*_read_trace(data), file, repeated)
    else:
        records, others = _read_processes(data)
        yield make_block(records, others, file, repeated, size=len(data))


def _read_table(data: bytes) -> tuple[pl.DataFrame, list[tuple[str, int, int]]]:
    """Return the lines of a CSV table that have the columns of its first line, and what the others are."""
    edges = np.append(np.flatnonzero(np.frombuffer(data, np.uint8) == ord("\n")) + 1, len(data))
    end = np.unique(edges[edges > 0])
    start = np.append(0, end[:-1])[: len(end)]
    spans = zip(start.tolist(), end.tolist(), strict=True)
    text = pl.Series([data[a:b].decode("utf-8", "replace") for a, b in spans], dtype=pl.String)
    line = text.str.strip_chars_end("\r\n")
    lines = pl.DataFrame({"offset": start, "length": end - start, "size": end - start, "line": line}).with_columns(
        is_cut=~text.str.ends_with("\n"),
        cells=pl.when((pl.col("line") != "") & (pl.col("line").str.count_matches('"') % 2 == 0)).then(
            pl.col("line").str.extract_all(_CELL)
        ),
    )
    if lines.is_empty():
        return lines, []
    names = lines.head(1).select(pl.col("cells").explode()).select(_unquote(pl.col("cells")))["cells"].drop_nulls()
    fits = (pl.col("cells").list.len() == len(names)).fill_null(value=False)
    table, rest = lines.tail(-1).filter(fits), lines.tail(-1).filter(~fits)
    cells = {
        name: _unquote(pl.col("cells").list.get(place)) for place, name in reversed(list(enumerate(names.to_list())))
    }
    reason = (
        pl.when(pl.col("line") == "")
        .then(pl.lit("empty line"))
        .when("is_cut")
        .then(pl.lit(TORN_LINE))
        .otherwise(pl.lit(OTHER_TABLE))
    )
    counts = rest.group_by(reason, maintain_order=True).agg(pl.len(), pl.col("length").sum())
    others = [("header", 1, int(lines["length"][0])), *counts.iter_rows()]
    own = ("offset", "length", "size", "is_cut")
    return table.select(*own, **{k: v for k, v in cells.items() if k not in own}), others


def _unquote(cell: pl.Expr) -> pl.Expr:
    """Return the text of a cell, with the comma before it."""
    bare = cell.str.strip_prefix(",")
    inner = bare.str.strip_prefix('"').str.strip_suffix('"').str.replace_all('""', '"', literal=True)
    return pl.when(bare.str.starts_with('"')).then(inner).otherwise(bare)


def _read_trace(data: bytes) -> tuple[pl.DataFrame, list[tuple[str, int, int]]]:
    """Return the objects of a JSON trace of rocprof v1, and what the others are."""
    edges = [0, *(m.start() + 1 for m in _OBJECT.finditer(data)), len(data)]
    lanes: dict[str, str] = {}
    rows: list[dict[str, Any]] = []
    others: dict[str, tuple[int, int]] = {}
    for begin, end in pairwise(edges):
        piece = data[begin:end]
        if not piece:
            continue
        found = _decode(piece)
        if not isinstance(found, dict) or found.get("ph") != "X":
            lanes |= _name_lane(found)
            is_damaged = found is None and piece.lstrip().startswith(b",{")
            reason = "damaged object" if is_damaged else "description of the trace"
            count, size = others.get(reason, (0, 0))
            others[reason] = (count + 1, size + len(piece))
            continue
        told = _object(found.get("args"))
        fields = {**told, "Name": found.get("name", "?"), "lane": lanes.get(str(found.get("pid")), "")}
        row = {name: str(fields[name]) for name in _V1_COLUMNS if name in fields}
        rows.append({"offset": begin, "length": len(piece), "size": len(piece), **row})
    types = {"offset": pl.Int64, "length": pl.Int64, "size": pl.Int64, **dict.fromkeys(_V1_COLUMNS, pl.String)}
    return pl.DataFrame(rows, schema=types), [(reason, *counts) for reason, counts in others.items()]


def _decode(piece: bytes) -> object:
    text = piece.strip().removeprefix(b",")
    try:
        # The last object of the list is followed by the end of the file's own.
        return json.JSONDecoder().raw_decode(text.decode("utf-8", "replace"))[0]
    except (ValueError, RecursionError):
        return None


def _name_lane(found: object) -> dict[str, str]:
    """Return the number and the name of the process that an object of a JSON trace describes."""
    if not isinstance(found, dict) or (found.get("ph"), found.get("name")) != ("M", "process_name"):
        return {}
    return {str(found.get("pid")): str(_object(found.get("args")).get("name", ""))}


def _read_processes(data: bytes) -> tuple[pl.DataFrame, list[tuple[str, int, int]]]:
    """Return the records of the JSON of rocprofv3; of one that is damaged or cut nothing is read."""
    try:
        found = _object(json.loads(data.decode("utf-8", "replace")))
    except (ValueError, RecursionError):
        return number_records([], _SDK_COLUMNS), [(_DAMAGED, 1, 0)]
    told = found.get(_ROOT)
    # rocprofv3 writes a list, tools that take it apart one process.
    processes = told if isinstance(told, list) else [told]
    rows = [row for process in processes for row in _read_process(_object(process))]
    return number_records(rows, _SDK_COLUMNS), [("names and description", 1, 0)]


def _read_process(process: Mapping[str, Any]) -> Iterator[dict[str, str | None]]:
    names = _Names(process)
    for records in _object(process.get("buffer_records")).values():
        for record in _list(records):
            yield names.columns_of(_object(record))
    for collected in _list(_object(process.get("callback_records")).get("counter_collection")):
        yield from names.counters_of(_object(collected))


class _Names:
    """Turn a record of numbers into the columns that the CSV tables have."""

    def __init__(self, process: Mapping[str, Any]) -> None:
        strings, metadata = _object(process.get("strings")), _object(process.get("metadata"))
        self._kinds = [_object(k) for k in _list(strings.get("buffer_records"))]
        symbols = [_object(s) for s in _list(process.get("kernel_symbols"))]
        self._kernels = {_plain(s.get("kernel_id")): s for s in symbols}
        markers = [_object(m) for m in _list(strings.get("marker_api"))]
        self._markers = {_plain(m.get("key")): m.get("value") for m in markers}
        agents = [_object(a) for a in _list(process.get("agents"))]
        self._agents = {_handle(a, "id"): _plain(a.get("node_id")) for a in agents}
        self._counters = {_handle(c, "id"): _plain(c.get("name")) for c in map(_object, _list(process.get("counters")))}
        self._pid = metadata.get("pid")

    def columns_of(self, record: Mapping[str, Any]) -> dict[str, str | None]:
        """Return the columns of a record."""
        kind = _at(self._kinds, record.get("kind"))
        name = _at(_list(_object(kind).get("operations")), record.get("operation"))
        dispatch = _object(record.get("dispatch_info"))
        correlation = _plain(_object(record.get("correlation_id")).get("internal"))
        label = "KERNEL_DISPATCH" if dispatch else str(_object(kind).get("kind", ""))
        if label.startswith("MARKER"):
            name = self._markers.get(correlation, name)
        symbol = self._kernels.get(_plain(dispatch.get("kernel_id")), {})
        values = (
            label, self._pid, record.get("thread_id"), correlation, _handle(record, "stream_id"),
            _handle(dispatch or record, "queue_id"), dispatch.get("dispatch_id"),
            self._agents.get(_handle(dispatch, "agent_id")), _kernel_name(symbol),
            None if dispatch else name, record.get("bytes", record.get("allocation_size")),
            record.get("start_timestamp"), record.get("end_timestamp"),
            *(dispatch.get(key, symbol.get(key)) for key in _OF_KERNEL), None, None,
        )  # fmt: skip
        return dict(zip(_SDK_COLUMNS, map(_plain, values), strict=True))

    def counters_of(self, collected: Mapping[str, Any]) -> Iterator[dict[str, str | None]]:
        """Yield the columns of a dispatch with each counter: the sum over the instances of its block."""
        dispatch = {"thread_id": collected.get("thread_id"), **_object(collected.get("dispatch_data"))}
        sums: dict[str, float] = {}
        for record in map(_object, _list(collected.get("records"))):
            name, value = self._counters.get(_handle(record, "counter_id")), record.get("value")
            if name and isinstance(value, int | float):
                sums[name] = sums.get(name, 0) + value
        columns = self.columns_of(dispatch)
        for name, value in sums.items():
            yield {**columns, "Counter_Name": name, "Counter_Value": str(value)}


def _kernel_name(symbol: Mapping[str, Any]) -> Any:
    names = (symbol.get(k) for k in ("formatted_kernel_name", "demangled_kernel_name", "kernel_name"))
    return next((n for n in names if n), None)


def _handle(record: Mapping[str, Any], key: str) -> str | None:
    """Return an id, which rocprofiler-sdk wraps into an object."""
    return _plain(_object(record.get(key)).get("handle"))


def _plain(value: object) -> str | None:
    is_value = isinstance(value, str | int) and not isinstance(value, bool)
    # A lone surrogate of a JSON escape is no text.
    return str(value).encode("utf-8", "replace").decode() if is_value else None


def _object(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _at(values: list[Any], place: object) -> Any:
    return values[place] if isinstance(place, int) and 0 <= place < len(values) else None
