"""Everything that is known about one event: exact values, fields and registers, the raw lines behind its chain, and the
event that follows it in some sense.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import polars as pl

from tracecorr.analyze.chain import STEPS
from tracecorr.analyze.values import IDENTIFIERS
from tracecorr.app import ids
from tracecorr.app.captures import CaptureLike, tell_own_times
from tracecorr.app.chain import Chain
from tracecorr.app.index import CaptureIndex
from tracecorr.model import schema
from tracecorr.model.columns import is_counted
from tracecorr.model.errors import TracecorrError
from tracecorr.model.kinds import Flag
from tracecorr.model.printable import show_record
from tracecorr.model.schema import HQD
from tracecorr.store.zstd_frames import SUFFIX
from tracecorr.timeline import levels

_MAX_RAW_BYTES = 6000
_MAX_BANKS = 16  # registers of one queue: one bank on each XCC

_MAX_RAW_STAGES = 60

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
    banks = dumps.join(own, on=["file", "logical"], how="semi").sort("xcc", "offset").head(_MAX_BANKS).collect()
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
        if stage["where"] is None or len(out) >= _MAX_RAW_STAGES:
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
        data = index.capture.raw(file, offset, min(length, _MAX_RAW_BYTES))
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


_BRIEF = ("ts_ns", "dur_ns", "err_lo_ns", "err_hi_ns", "result", "evidence", "source", "layer", "stream")


def describe_briefly(index: CaptureIndex, event: int) -> dict[str, Any]:
    """Return name, exact times and result of an event; `start` in ns since the capture start."""
    columns = [pl.col(c).cast(pl.String) if c in ("result", "evidence", "source", "layer") else c for c in _BRIEF]
    row = index.capture.table("events").filter(pl.col("event") == event).select(columns).collect().row(0, named=True)
    start = row.pop("ts_ns") - index.t0_ns
    if row["stream"] is None:
        row["stream"] = _stream_of_launches(index, event)
    return {"event": event, "name": index.place(event).name, "start": start, "dur": row.pop("dur_ns"), **row}


def _stream_of_launches(index: CaptureIndex, event: int) -> int | None:
    """Return the stream of the launches that an event is part of; None if they differ or have none."""
    touches = pl.any_horizontal(pl.col(step) == event for step in STEPS)
    found = index.capture.table("launches").filter(touches).select(pl.col("stream").unique()).collect()["stream"]
    return found[0] if found.len() == 1 else None


def value_at(index: CaptureIndex, lane: int, at: int) -> dict[str, Any]:
    """Return the value of a counter's lane at a time and the span for which it holds; nulls if there is none."""
    pyramid, found = index.views.pyramid, {"value": None, "start": None, "dur": None, "event": None}
    track = int(pyramid.first_track[lane])
    a, b = int(pyramid.finest.begin[track]), int(pyramid.finest.begin[track + 1])
    number = a + int(np.searchsorted(pyramid.finest.start[a:b], at, side="right")) - 1
    if not pyramid.finest.counter[track] or number < a:
        return found
    start, end = int(pyramid.finest.start[number]), int(pyramid.finest.end[number])
    if at > end:
        return found
    event = int(pyramid.finest.event[number])
    value = float(index.views.values[pyramid.finest.name[number]])
    return {"value": value, "start": start, "dur": end - start, "event": event if event >= 0 else None}


_TEXTS = ("layer", "name")


def name_record(index: CaptureIndex, event: int) -> dict[str, Any] | None:
    """Return file, offset, layer and name of an event, by which it is found again; None if it has no record."""
    rows = index.capture.table("events").filter(pl.col("event") == event)
    row = rows.select("file", "offset", *(pl.col(c).cast(pl.String) for c in _TEXTS)).collect().row(0, named=True)
    if row["file"] is None or row["offset"] is None:
        return None
    return row | {"file": _plain(index.capture.file_path(row["file"]))}


def find_record(index: CaptureIndex, file: str, offset: int, layer: str, name: str) -> int | None:
    """Return the event of a record that `name_record` named, maybe of another reading; None if there is none."""
    files = index.capture.table("files").select("file").collect()["file"]
    same = [number for number in files if _plain(index.capture.file_path(number)) == file]
    found = index.capture.table("events").filter(
        pl.col("file").is_in(pl.Series(same, dtype=pl.UInt16).implode()), pl.col("offset") == offset,
        pl.col("layer").cast(pl.String) == layer, pl.col("name").cast(pl.String) == name,
    )  # fmt: skip
    events = found.select("event").head(1).collect()["event"]
    return int(events[0]) if events.len() else None


def _plain(path: str) -> str:
    """Return the path of a file as it was before it was compressed at the end of its recording."""
    return path.removesuffix(SUFFIX)


KINDS = ("parent", "name", "kernel", "queue", "thread", "error")


def step(index: CaptureIndex, event: int, kind: str, back: bool) -> int | None:
    """Return the event that follows (or comes before) `event` in a sense of `KINDS`; None at the end.

    A call or a doorbell has the kernel and the queue of the launch that it belongs to.
    """
    own = index.capture.table("events").filter(pl.col("event") == event).collect().row(0, named=True)
    if kind == "parent":
        parent = own["parent"] if own["parent"] is not None else own["chain"]
        return None if parent == event else parent
    if kind == "error":
        return _next_error(index, event, back)
    if kind == "name":
        return _next_named(index, event, back)
    if kind == "thread":
        return _next_where(index, event, back, (pl.col("thread") == own["thread"]) & (pl.col("layer") == own["layer"]))
    value = own[kind] if own[kind] is not None else _of_launch(index, event, kind)
    if value is None:
        return None
    same_layer = pl.col("layer") == (own["layer"] if own[kind] is not None else "aql")
    return _next_where(index, event, back, (pl.col(kind) == value) & same_layer)


def has_none(index: CaptureIndex, event: int, kind: str) -> bool:
    """Tell whether an event has no kernel, queue or thread (`kind`), so that no other one can be of the same."""
    if kind not in ("kernel", "queue", "thread"):
        return False
    own = index.capture.table("events").filter(pl.col("event") == event).select(kind).collect().item()
    return own is None and (kind == "thread" or _of_launch(index, event, kind) is None)


def _next_where(index: CaptureIndex, event: int, back: bool, same: pl.Expr) -> int | None:
    side = pl.col("event") < event if back else pl.col("event") > event
    found = index.capture.table("events").filter(side, same, is_counted()).select("event")
    row = (found.last() if back else found.first()).collect()
    return int(row["event"][0]) if row.height else None


def _of_launch(index: CaptureIndex, event: int, column: str) -> Any:
    touches = pl.any_horizontal(pl.col(c) == event for c in STEPS)
    row = index.capture.table("launches").filter(touches).select(column).head(1).collect()
    return row[column][0] if row.height else None


def _next_error(index: CaptureIndex, event: int, back: bool) -> int | None:
    finest = index.views.pyramid.finest
    failed = finest.event[np.flatnonzero(finest.style & levels.FAILED)]
    return _neighbour(levels.distinct_events(failed, index.views.events), event, back)


def _next_named(index: CaptureIndex, event: int, back: bool) -> int | None:
    views = index.views
    names = views.pyramid.finest.name[views.place]
    found = np.flatnonzero(names == names[event])
    return _neighbour(found[views.pyramid.finest.event[views.place[found]] == found], event, back)


def _neighbour(events: Any, event: int, back: bool) -> int | None:
    at = int(np.searchsorted(events, event, side="left" if back else "right")) - (1 if back else 0)
    return int(events[at]) if 0 <= at < len(events) else None
