"""The grid of synthetic runs that `scripts/bench truth` compares with their truth."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from simulator import ClockModel, Scene
from simulator.damage import LOG_DAMAGES, TRACE_DAMAGES

_BASE = Scene(span_s=2.0, threads=2)
_LOCAL = ClockModel("local", 25_750_000, 12.0)
_CLOCKS = {
    "mono": ClockModel(), "local": _LOCAL, "local 500 ppm": replace(_LOCAL, ppm=500.0),
    "local -500 ppm": replace(_LOCAL, ppm=-500.0),
    "local slew": replace(_LOCAL, slew_ppm=60.0, slew_at_ns=900_000_000),
    "global": replace(_LOCAL, name="global", ppm=-3.0), "mono_raw": ClockModel("mono_raw", 250_000_000, 30.0),
    "boot": ClockModel("boot", -7_000_000_000),
    "tai": ClockModel("tai", -1_700_000_000_000_000_000),
    "x86-tsc": ClockModel("x86-tsc", 10**12, ticks_per_ns=2.4),
    "uptime": ClockModel("uptime", 300_000_000_000),
}  # fmt: skip
# What a run is made of -> options of its scene.
_STRUCTURES: dict[str, dict[str, Any]] = {
    "4 threads, 2 queues": {"threads": 4, "queues": 2, "streams": 3}, "no doorbell probe": {"doorbell": "none"},
    "rich doorbell": {"doorbell": "rich", "thread_events": ()},
    "queue probe": {"queue_probe": True, "doorbell": "none"},
    "3 processes": {"processes": 3}, "8 processes": {"processes": 8, "threads": 1, "span_s": 0.7},
    "nested calls": {"kinds": (*_BASE.kinds, ("nested", 2))}, "container": {"container": True, "processes": 2},
    "copies behind copies": {"staged_copies": True}, "worker thread": {"direct_dispatch": False},
    "wrap at 2^32": {"first_index": 2**32 - 200},
    "queues made again": {"recreate": True, "threads": 1},
    "pid reused": {"processes": 2, "reuse_pid": True, "span_s": 1.0},
    "no thread events": {"thread_events": ()},
    "only ioctls": {"thread_events": (), "doorbell": "none"},
    "threads one after the other": {"successive": True, "span_s": 0.7, "threads": 3},
    "suspended before": {"suspended_ns": 3_600_000_000_000, "samples_s": 1.0},
    "32 streams on 4 queues": {"streams": 32, "threads": 1, "queue_probe": True},
    "8 GPUs": {"gpus": 8, "streams": 16, "queue_probe": True, "threads": 2},
    "8 GPUs, no probe": {"gpus": 8, "streams": 8, "doorbell": "rich"},
    "graphs of 200": {"graph_packets": 200, "kinds": (("launch", 4), ("graph", 1), ("event", 1), ("sync", 1))},
    "containers alike": {"container": True, "processes": 3, "same_layout": True, "doorbell": "rich", "span_s": 1.0},
    "pages": {"pages": True, "queue_probe": True},
    "pages, samples": {"pages": True, "samples_s": 0.5, "doorbell": "rich"},
    "level 4": {"level": 4}, "level 3": {"level": 3},
}  # fmt: skip
# Evidence of a trace's clock -> options of its scene. `capture` writes pages, whose stamps are not rounded.
_EVIDENCE: dict[str, dict[str, Any]] = {
    "pairs": {"samples_s": 0.0}, "samples": {"samples_s": 1.0}, "samples, pages": {"samples_s": 1.0, "pages": True},
}  # fmt: skip
# Structures that are also run with lost lines.
_DAMAGED = (
    "4 threads, 2 queues", "3 processes", "nested calls", "copies behind copies", "worker thread", "queues made again",
    "no thread events",
)  # fmt: skip


def list_scenes(quick: bool) -> Iterator[tuple[str, Scene]]:
    """Yield name and scene of each run: clocks, then structures, then damage, then other lengths unless `quick`."""
    yield from _vary_clocks()
    yield from _vary_structures(quick)
    yield from _vary_damage()
    if not quick:
        yield from _vary_lengths()


def _vary_clocks() -> Iterator[tuple[str, Scene]]:
    for name, clock in _CLOCKS.items():
        for kind, options in _EVIDENCE.items():
            yield f"{name}, {kind}", _put_on(replace(_BASE, **options), clock)


def _put_on(scene: Scene, clock: ClockModel) -> Scene:
    """Return the scene with a trace on a clock; ROCr's lines are on the same CLOCK_MONOTONIC_RAW."""
    return replace(scene, clock=clock, raw=clock if clock.name == "mono_raw" else scene.raw)


def _vary_structures(quick: bool) -> Iterator[tuple[str, Scene]]:
    for era in ("7.0", "6.4", "6.2", "5.7"):
        yield f"HIP {era}", replace(_BASE, era=era)
    for name, options in _STRUCTURES.items():
        yield name, replace(_BASE, **options)
        if not quick:
            yield f"{name}, local", replace(_BASE, clock=_LOCAL, **options)


def _vary_damage() -> Iterator[tuple[str, Scene]]:
    damaged: dict[str, dict[str, Any]] = {
        "mono": {}, "local": {"clock": _LOCAL}, "rich": {"doorbell": "rich"},
        "local, rich": {"clock": _LOCAL, "doorbell": "rich"},
        **{name: _STRUCTURES[name] for name in _DAMAGED}, "HIP 6.4": {"era": "6.4"}, "HIP 6.2": {"era": "6.2"},
    }  # fmt: skip
    for log in LOG_DAMAGES:
        for name, options in damaged.items():
            yield f"log: {log}, {name}", replace(_BASE, log_damage=log, **options)
    for trace in TRACE_DAMAGES:
        yield f"trace: {trace}", replace(_BASE, trace_damage=trace)


def _vary_lengths() -> Iterator[tuple[str, Scene]]:
    for name in ("local", "local slew", "mono_raw"):
        for span in (0.3, 20.0):
            for kind, options in _EVIDENCE.items():
                scene = replace(_BASE, span_s=span, launch_gap_us=800.0, threads=1, **options)
                yield f"{name}, {span:g} s, {kind}", _put_on(scene, _CLOCKS[name])
