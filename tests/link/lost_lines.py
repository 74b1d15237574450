"""Rows of logs that lost lines, and what the modules that look for lost lines are asked, one after the other."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from tracecorr.link.calls.nesting import find_parents
from tracecorr.link.losses.command_ends import CommandLines, list_command_ends
from tracecorr.link.losses.false_calls import list_empty_calls, open_false_calls
from tracecorr.link.losses.hip_calls import HipCalls
from tracecorr.link.losses.lossy_files import LineLosses, find_losses, list_half_calls
from tracecorr.link.losses.packet_gaps import list_packet_gaps
from tracecorr.model.kinds import BEGINNINGS, Flag
from tracecorr.model.schema import CAT

Row = tuple[str, int | None, int | None, int]
_TYPES = {
    "layer": CAT, "name": CAT, "source": CAT, "flags": pl.UInt16, "dur_ns": pl.Int64, "parent": pl.Int64,
    "file": pl.UInt16, "end_offset": pl.Int64, "thread": pl.UInt32, "command": pl.UInt64,
    "stream": pl.UInt64,
}  # fmt: skip
HALF = ("hipFree", None, None, int(Flag.EXIT_ONLY))
WHOLE = ("hipFree", 5, None, 0)


def events_of(rows: list[Row]) -> pl.DataFrame:
    """Return placed events of one thread: name, duration, parent, flags."""
    layers = {
        "hip": "hip",
        "Ker": "command",
        "dis": "aql",
        "bar": "aql",
        "sub": "command",
        "pro": "command",
        "com": "command",
    }
    made: list[dict[str, Any]] = [
        {"event": n, "layer": layers.get(name[:3], "command"), "name": name, "file": 0, "offset": 10 * n, "dur_ns": dur,
         "parent": parent, "thread": 0, "process": 0, "source": "amd_log", "flags": flags, "command": None,
         "stream": None, "end_offset": None if dur is None and not flags & int(Flag.EXIT_ONLY) else 10 * n + 5}
        for n, (name, dur, parent, flags) in enumerate(rows)
    ]  # fmt: skip
    return pl.DataFrame(made, schema_overrides=_TYPES)


_OF_PACKETS = {"ring": pl.UInt64, "packet_index": pl.Int64, "clock": CAT}


def begun(events: pl.DataFrame) -> pl.DataFrame:
    """Return events, and behind them the line with which each process begins."""
    lines = events.select("file", "process").unique(maintain_order=True)
    name, layer = (pl.lit(text).cast(CAT) for text in (BEGINNINGS[0], "other"))
    lines = lines.with_columns(name=name, layer=layer, flags=pl.lit(0).cast(events.schema["flags"]))
    lines = lines.with_columns(event=(pl.int_range(pl.len()) + events.height).cast(events.schema["event"]))
    return pl.concat([events, lines], how="diagonal")


def losses_of(events: pl.DataFrame) -> pl.DataFrame:
    """Return the files that lost lines, of logs that have the beginnings of their processes."""
    events = begun(events)
    calls = HipCalls.of(events)
    return find_losses(
        events, calls, list_half_calls(events, calls), CommandLines.of(events), list_command_ends(events)
    )


def gaps_of(events: pl.DataFrame) -> pl.DataFrame:
    """Return where packets are missing; rows may lack what packets have."""
    missing = {name: pl.lit(None, kind) for name, kind in _OF_PACKETS.items() if name not in events.columns}
    return list_packet_gaps(events.with_columns(**missing))


def known_of(events: pl.DataFrame, calls: HipCalls, losses: pl.DataFrame) -> LineLosses:
    """Return what tells where lines lack, with the files that lost some."""
    return LineLosses(losses, list_half_calls(events, calls), gaps_of(events), list_command_ends(events))


def with_parents(events: pl.DataFrame) -> pl.DataFrame:
    """Return the events with the rows that enclose them."""
    calls = HipCalls.of(events)
    return find_parents(events, calls, known_of(events, calls, losses_of(events)))


def with_false_calls_open(events: pl.DataFrame, losses: pl.DataFrame | None = None) -> pl.DataFrame:
    """Return the events in which calls that are likely two have no end; `losses` if not its own."""
    losses, rows = losses_of(events) if losses is None else losses, events.height
    events = begun(events)
    calls = HipCalls.of(events)
    return open_false_calls(events, calls, known_of(events, calls, losses)).head(rows)


def empty_calls(events: pl.DataFrame) -> list[bool]:
    """Return which rows are open calls that enclose nothing."""
    calls = HipCalls.of(events)
    losses = known_of(events, calls, losses_of(events))
    found: list[bool] = list_empty_calls(events, calls, losses, np.arange(events.height)).tolist()
    return found
