"""Whether the clock that an import is told fits those that its traces name themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tracecorr.model.errors import InputError
from tracecorr.read.ftrace.trace_dat import read_description
from tracecorr.store.raw import open_read_at, read_clock_samples

# These name no clock.
_SILENT = ("text", "pages", "perf")


def check_told_clock(clock: str, entries: Sequence[Mapping[str, Any]], names: Sequence[str], stage: Path) -> list[str]:
    """Return what to say of each `trace.dat`, and of clock samples, that name another clock than the import was told.

    A trace's own clock is taken: trace-cmd noted it while it recorded. What was told is for the traces that name none,
    whatever the samples name.

    Args:
        clock: what was told; `auto` = nothing.
        entries: of capture.json.
        names: how the user calls the file of each entry.
        stage: the capture folder.

    Raises:
        InputError: no trace is left that takes the clock that was told.
    """
    if clock == "auto":
        return []
    samples = {names[e["file"]]: stage / e["path"] for e in entries if e["form"] == "clock_samples"}
    doubts = [text for name, path in samples.items() for text in _doubt_samples(clock, name, path)]
    own = {names[e["file"]]: _read_clocks(stage / e["path"]) for e in entries if e["form"] == "trace_dat"}
    others = {name: clocks - {"", clock} for name, clocks in own.items() if clocks - {"", clock}}
    if not others:
        return doubts
    name, found = next((name, ", ".join(sorted(clocks))) for name, clocks in others.items())
    taken = any(entry["form"] in _SILENT for entry in entries) or any(clocks & {"", clock} for clocks in own.values())
    if not taken:
        raise InputError(
            f"{name} was recorded with the trace_clock {found}, as it says itself, not with {clock}",
            "leave out --ftrace-clock",
        )
    return doubts + [
        f"{name} was recorded with the trace_clock {', '.join(sorted(clocks))}, as it says itself: "
        f"--ftrace-clock {clock} was taken for what names no clock"
        for name, clocks in others.items()
    ]


def _doubt_samples(clock: str, name: str, path: Path) -> list[str]:
    named = read_clock_samples(path).get("trace_clock", "unknown")
    if named in ("unknown", clock):
        return []
    return [f"{name} says that the trace_clock was {named}: --ftrace-clock {clock} was taken all the same"]


def _read_clocks(path: Path) -> set[str]:
    """Return the clocks of the recorded buffers of a `trace.dat`; an empty one is of a buffer that names none."""
    with open_read_at(path) as (read_at, size):
        dat = read_description(read_at, size)
    clocks = {buffer.clock for buffer in dat.buffers if any(data.size for data in buffer.cpus)}
    return clocks | ({dat.clock()} if dat.text else set())
