"""Everything that is known about one event: its columns, fields and registers, the raw lines behind its chain."""

from __future__ import annotations

from functools import partial
from typing import Any

import polars as pl

from tracecorr.analyze.values import IDENTIFIERS
from tracecorr.app import ids
from tracecorr.app.captures import CaptureLike, tell_own_times
from tracecorr.app.chain import Chain
from tracecorr.app.index import CaptureIndex
from tracecorr.model import schema
from tracecorr.model.errors import TracecorrError
from tracecorr.model.kinds import Flag
from tracecorr.model.printable import show_record
from tracecorr.model.schema import HQD

_COLUMNS = {c.name: c for c in HQD.columns}
# What the name of a bank, or the event itself, tells already.
_TOLD = frozenset({"dump", "read_start_ns", "read_end_ns", "xcc", "type", "pipe", "slot", "logical", "file", "offset"})
_HEX = frozenset({"quantum", "doorbell"})


def list_registers(capture: CaptureLike, event: int) -> list[dict[str, str]]:
    """Return name, value, meaning and group of each register of a queue at the dump that an event is; else nothing.

    Args:
        event: any event; only those of layer `hqd` have registers.
    """
    sight = capture.table("events").filter(pl.col("event") == event, pl.col("layer").cast(pl.String) == "hqd")
    place = sight.select("file", "offset").drop_nulls()
    dumps = capture.table("hqd")
    own = dumps.join(place, on=["file", "offset"], how="semi").select("file", "logical").drop_nulls().unique()
    banks = dumps.join(own, on=["file", "logical"], how="semi").sort("xcc", "offset").head(ids.MAX_BANKS).collect()
    out = []
    for row in banks.iter_rows(named=True):
        group = _name_bank(row)
        for name, value in row.items():
            if value is not None and name not in _TOLD:
                out.append({
                    "name": name, "value": _text(name, value), "meaning": _COLUMNS[name].meaning, "group": group,
                })  # fmt: skip
    return out


def _name_bank(row: dict[str, Any]) -> str:
    parts = [f"{word} {row[word]}" for word in ("xcc", "pipe", "slot") if row[word] is not None]
    return " ".join([f"registers: {row['type']}" if row["type"] else "registers", *parts])


def _text(name: str, value: Any) -> str:
    if name in _HEX or _COLUMNS[name].dtype == pl.UInt64:
        return f"{value:#x}"
    if isinstance(value, bool) or not isinstance(value, int) or name in IDENTIFIERS:
        return str(value).lower() if isinstance(value, bool) else str(value)
    return f"{value:,}" + (f" {_COLUMNS[name].unit}" if _COLUMNS[name].unit else "")


_ADDRESSES = frozenset({"signal", "command", "arg", "cmd"})
_MEANING = {c.name: (c.meaning, c.unit) for c in schema.EVENTS.columns}
_LAUNCH_MEANING = {c.name: (c.meaning, c.unit) for c in schema.LAUNCHES.columns}
# Of the queue on which an event was: who asked for it.
_ORIGIN = {c.name: c.meaning for c in schema.QUEUES.columns if c.name in ("created_line_event", "create_ioctl_event")}
_LAUNCH_ADDRESSES = frozenset({"header", "kernarg", "kernel_object", "signal"})


def describe(index: CaptureIndex, event: int) -> list[dict[str, Any]]:
    """Return name, value and meaning of every column of an event that has a value, then its fields and registers.

    What names an event carries its number as `event`.
    """
    found = index.capture.table("events").filter(pl.col("event") == event)
    row = found.collect().row(0, named=True)
    own_ns = found.select(tell_own_times(index.capture)).collect().item()
    queue, start = row["queue"], f"{row['ts_ns'] - index.t0_ns:,} ns after the {index.zero} = {own_ns:,} ns"
    out = [_field(k, _value(index, k, v), _MEANING) for k, v in row.items() if v is not None]
    own = {"ts_ns": {"value": start}, "parent": {"event": row["parent"]}, "chain": {"event": row["chain"]}}
    out = [c | own.get(c["name"], {}) for c in out]
    args = index.capture.table("args").filter(pl.col("event") == event).head(ids.MAX_STAGES).collect()
    for arg in args.iter_rows(named=True):
        value = arg["text"] if arg["u64"] is None else f"{arg['u64']:,} ({arg['u64']:#x})"
        out.append({"name": arg["key"], "value": value or "", "meaning": "field of the record", "group": "fields"})
    launch = index.capture.table("launches").filter(pl.col("event") == event).head(1).collect()
    for row in launch.iter_rows(named=True):
        shown = {k: v for k, v in row.items() if v is not None and k not in _MEANING}
        for k, v in shown.items():
            lead = {"event": v} if k.endswith("_event") else {}
            out.append(_field(k, _launch_value(index, k, v), _LAUNCH_MEANING) | {"group": "launch"} | lead)
    made = [] if queue is None else _origin(index, queue)
    out += _written(index, event)
    return out + made + list_registers(index.capture, event)


def _written(index: CaptureIndex, event: int) -> list[dict[str, Any]]:
    """Return when the kernel was given a line of a log, where the trace shows its write."""
    links = index.capture.table("links").filter(
        pl.col("from_event") == event, pl.col("rule").cast(pl.String) == "write_of_record"
    )
    calls = index.capture.table("events").select("event", "ts_ns")
    found = links.select("evidence", event="to_event").join(calls, on="event").head(1).collect()
    meaning = "the system call that wrote this line: when the kernel was given it"
    return [
        {
            "name": "write", "value": f"{row['ts_ns'] - index.t0_ns:,} ns after the {index.zero} ({row['evidence']})",
            "meaning": meaning, "group": "fields", "event": row["event"],
        }
        for row in found.iter_rows(named=True)
    ]  # fmt: skip


def _origin(index: CaptureIndex, queue: int) -> list[dict[str, Any]]:
    """Return the events that tell how a queue was made."""
    rows = index.capture.table("queues").filter(pl.col("queue") == queue).select(*_ORIGIN).head(1).collect()
    told = {k: v for row in rows.iter_rows(named=True) for k, v in row.items() if v is not None}
    return [
        {"name": k, "value": f"#{v}", "meaning": _ORIGIN[k], "group": "its queue", "event": v} for k, v in told.items()
    ]


def raw_lines(index: CaptureIndex, chain: Chain) -> list[dict[str, Any]]:
    """Return the raw records behind the stages, with file and line; each record once."""
    out: list[dict[str, Any]] = []
    seen: set[tuple[int, int]] = set()
    own_first = sorted(enumerate(chain.stages), key=lambda s: s[1]["event"] != chain.event)
    for number, stage in own_first:
        if stage["where"] is None or len(out) >= ids.MAX_RAW_STAGES:
            continue
        file, offset, length, end_offset, end_length = stage["where"]
        for at, size, part in ((offset, length, "start"), (end_offset, end_length, "end")):
            if file is None or at is None or not size or (file, at) in seen:
                continue
            seen.add((file, at))
            out.append({"stage": number, "part": part, **_raw(index, file, at, size)})
    return sorted(out, key=lambda r: r["stage"])


def _raw(index: CaptureIndex, file: int, offset: int, length: int) -> dict[str, Any]:
    where = {"file": index.capture.file_path(file), "offset": offset, "line": None}
    try:
        data = index.capture.raw(file, offset, min(length, ids.MAX_RAW_BYTES))
        where["line"] = index.capture.line_number(file, offset)
    except (OSError, ValueError, KeyError, TracecorrError) as problem:
        # A capture whose raw file is gone still shows the rest.
        return where | {"text": f"raw bytes not readable: {problem}", "missing": True}
    return where | {"text": show_record(data, partial(index.capture.record_text, file))}


def _field(name: str, value: str, meanings: dict[str, tuple[str, str]]) -> dict[str, Any]:
    return {"name": name, "value": value, "meaning": meanings.get(name, ("", ""))[0]}


def _value(index: CaptureIndex, name: str, value: Any) -> str:
    owners = {
        "process": index.owners.processes, "thread": index.owners.threads, "queue": index.owners.queues,
        "gpu": index.owners.gpus,
    }.get(name)  # fmt: skip
    if owners is not None:
        return f"{value} ({owners[value]})" if value in owners else str(value)
    if name == "kernel":
        return _kernel(index, value)
    if name == "flags":
        return ", ".join(f.name.lower() for f in Flag(value) if f.name) or "none"
    if name == "file":
        return index.capture.file_path(value)
    if name in IDENTIFIERS:
        return str(value)
    return _number(name, value, _ADDRESSES, _MEANING)


def _launch_value(index: CaptureIndex, name: str, value: Any) -> str:
    if name.endswith("_ns"):
        return f"{value - index.t0_ns:,} ns after the {index.zero}"
    if name.endswith("_event"):
        return f"#{value}"
    return _number(name, value, _LAUNCH_ADDRESSES, _LAUNCH_MEANING)


def _number(name: str, value: Any, addresses: frozenset[str], meanings: dict[str, tuple[str, str]]) -> str:
    if name in addresses:
        return f"{value:#x}"
    text, unit = f"{value:,}" if isinstance(value, int) else str(value), meanings.get(name, ("", ""))[1]
    return f"{text} {unit}" if unit in ("ns", "bytes") else text


def _kernel(index: CaptureIndex, kernel: int) -> str:
    rows = index.capture.table("kernels").filter(pl.col("kernel") == kernel).head(1).collect()
    return f"{kernel} ({rows['name'][0]})" if rows.height else str(kernel)
