"""The JSON of rocprofv3 (rocprofiler-sdk, ROCm 6.2 to 7.x): one object of names and records for each process.

Layout: `generateJSON.cpp` of rocprofiler-sdk. Records name their kind and operation by number; the lists of names are
in `strings.buffer_records`, the kernels in `kernel_symbols`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tracecorr.read.rocprof.json_cursor import Cursor, CutError
from tracecorr.read.rocprof.records import Field, Record, classify

ROOT = '"rocprofiler-sdk-tool"'
_RECORDS = "buffer_records"
_NAMES = {"metadata", "strings", "kernel_symbols"}
_AGENTS = "agents"


def read_sdk_records(data: bytes) -> Iterator[Record]:
    """Yield the records of the JSON of rocprofv3; every byte is in one of them.

    What stands behind damage or a cut is skipped with that reason.
    """
    # One character for each byte: a place in the text is a place in the file.
    text = data.decode("latin-1")
    done = 0
    try:
        for record in _read_processes(text):
            yield from _between(done, record.offset, "names and description")
            yield record
            done = record.offset + record.length
    except (CutError, RecursionError):
        yield from _between(done, len(text), "damaged or cut JSON")
        return
    yield from _between(done, len(text), "names and description")


def _between(begin: int, end: int, reason: str) -> Iterator[Record]:
    if begin < end:
        yield Record(begin, end - begin, {}, reason=reason)


def _read_processes(text: str) -> Iterator[Record]:
    found = text.find(ROOT)
    if found < 0:
        raise CutError
    cursor = Cursor(text, found + len(ROOT))
    if cursor.peek() == "{":  # rocprofv3 writes a list, tools that take it apart one process
        yield from _read_process(cursor)
        return
    for _ in cursor.elements():
        yield from _read_process(cursor)


def _read_process(cursor: Cursor) -> Iterator[Record]:
    """Yield the records of one process; they follow its names, or are read again once these are known."""
    told: dict[str, Any] = {}
    early: list[int] = []
    for key in cursor.members():
        if key == _RECORDS and told.keys() >= _NAMES and not early:
            yield from _read_lists(cursor, _Names(told))
        elif key == _RECORDS:
            early.append(cursor.at)
            cursor.decode()
        elif key in _NAMES or key == _AGENTS:
            told[key] = cursor.decode()
        else:
            cursor.decode()
    for place in early:
        yield from _read_lists(Cursor(cursor.text, place), _Names(told))


def _read_lists(cursor: Cursor, names: _Names) -> Iterator[Record]:
    for _ in cursor.members():
        if cursor.peek() != "[":
            cursor.decode()
            continue
        for _ in cursor.elements():
            begin = cursor.at
            found = cursor.decode()
            yield classify(begin, cursor.at - begin, names.fields_of(found) if isinstance(found, dict) else {})


class _Names:
    """Turn a record of numbers into the columns that the CSV tables have."""

    def __init__(self, told: Mapping[str, Any]) -> None:
        strings, metadata = _object(told.get("strings")), _object(told.get("metadata"))
        self._kinds = [_object(k) for k in _list(strings.get("buffer_records"))]
        symbols = [_object(s) for s in _list(told.get("kernel_symbols"))]
        self._kernels = {_plain(s.get("kernel_id")): _kernel_name(s) for s in symbols}
        markers = [_object(m) for m in _list(strings.get("marker_api"))]
        self._markers = {_plain(m.get("key")): m.get("value") for m in markers}
        agents = [_object(a) for a in _list(told.get(_AGENTS))]
        self._agents = {_handle(a, "id"): _plain(a.get("node_id")) for a in agents}
        self._pid = metadata.get("pid")

    def fields_of(self, record: Mapping[str, Any]) -> dict[str, Field]:
        """Return the columns of a record."""
        kind = _at(self._kinds, record.get("kind"))
        name = _at(_list(_object(kind).get("operations")), record.get("operation"))
        dispatch = _object(record.get("dispatch_info"))
        correlation = _object(record.get("correlation_id")).get("internal")
        is_kernel = bool(dispatch)
        label = "KERNEL_DISPATCH" if is_kernel else _object(kind).get("kind", "")
        if str(label).startswith("MARKER") and isinstance(correlation, int):
            name = self._markers.get(correlation, name)
        return {
            "Kind": _plain(label), "Process_Id": _plain(self._pid), "Thread_Id": _plain(record.get("thread_id")),
            "Correlation_Id": _plain(correlation), "Stream_Id": _handle(record, "stream_id"),
            "Queue_Id": _handle(dispatch or record, "queue_id"), "Dispatch_Id": _plain(dispatch.get("dispatch_id")),
            "Agent_Id": self._agents.get(_handle(dispatch, "agent_id")),
            "Kernel_Name": _plain(self._kernels.get(_plain(dispatch.get("kernel_id")))),
            "Name": None if is_kernel else _plain(name),
            "Size": _plain(record.get("bytes", record.get("allocation_size"))),
            "Start_Timestamp": _plain(record.get("start_timestamp")),
            "End_Timestamp": _plain(record.get("end_timestamp")),
        }  # fmt: skip


def _kernel_name(symbol: Mapping[str, Any]) -> Any:
    names = (symbol.get(k) for k in ("formatted_kernel_name", "demangled_kernel_name", "kernel_name"))
    return next((n for n in names if n), None)


def _handle(record: Mapping[str, Any], key: str) -> Field:
    """Return an id, which rocprofiler-sdk wraps into an object."""
    return _plain(_object(record.get(key)).get("handle"))


def _plain(value: object) -> Field:
    if isinstance(value, str):
        return value.encode("latin-1", "replace").decode("utf-8", "replace")
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _object(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _at(values: list[Any], place: object) -> Any:
    return values[place] if isinstance(place, int) and 0 <= place < len(values) else None
