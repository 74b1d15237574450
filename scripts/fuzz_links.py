"""Damage SYNTHETIC runs until the time is over: no link, parent, chain or column of a launch may be wrong by it."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path
from random import Random

from benchmarks.damaged import list_faults, make_reference
from simulator import ClockModel, Scene
from simulator.damage import LOG_DAMAGES, PAGE_DAMAGES, TRACE_DAMAGES
from simulator.field_damage import FIELD_LOG_DAMAGES, FIELD_TEXT_DAMAGES, FIELD_TRACE_DAMAGES

# Damaged runs per whole one.
_RUNS = 4
_LOCAL = ClockModel("local", 25_750_000, 12.0)
_BASE = Scene(span_s=0.12, threads=2)
_KINDS = {
    "usual": _BASE.kinds, "nested": (*_BASE.kinds, ("nested", 4)),
    "graphs": (("launch", 4), ("graph", 2), ("event", 1), ("sync", 1)),
}  # fmt: skip
# What scenes are made of; the first is the usual one.
_OPTIONS: dict[str, tuple[object, ...]] = {
    "era": ("7.2", "7.0", "6.4", "6.2", "5.7"), "level": (5, 4), "threads": (2, 1, 4, 8), "queues": (4, 2),
    "streams": (2, 3, 8), "doorbell": ("plain", "rich", "none"), "queue_probe": (False, True),
    "thread_events": (("robust", "arch"), (), ("robust",)), "direct_dispatch": (True, False),
    "staged_copies": (False, True), "recreate": (False, True), "clock": (_BASE.clock, _LOCAL),
    "first_index": (0, 2**32 - 60), "gpus": (1, 8), "graph_packets": (0, 8), "kinds": tuple(_KINDS.values()),
    "pages": (False, True), "samples_s": (0.0, 0.05),
}  # fmt: skip
# Seeds that end with it have logs of lower levels; these name no thread from 6.3 on.
_SPARSE_SEEDS = 7
_SPARSE: tuple[dict[str, object], ...] = ({"level": 3}, {"level": 4, "era": "6.3"})
_LAYOUTS: tuple[dict[str, object], ...] = (
    {}, {}, {}, {"processes": 2}, {"processes": 3, "container": True}, {"processes": 2, "reuse_pid": True},
    {"successive": True},
)  # fmt: skip
# Seeds from here on are of runs as servers have them.
FIELD_SEEDS = 10**9
_FIELD_OPTIONS: dict[str, tuple[object, ...]] = {
    **_OPTIONS, "queues": (4, 2, 1), "migrate": (True, False),
    "clock": (_BASE.clock, _LOCAL, ClockModel("mono_raw", 250_000_000, 30.0), ClockModel("boot", -7_000_000_000)),
    "suspended_ns": (0, 3_600_000_000_000),
}  # fmt: skip
_FIELD_LAYOUTS: tuple[dict[str, object], ...] = (
    {}, {"processes": 2, "swapped_pids": True}, {"processes": 3, "one_log": True}, {"processes": 2, "levels": (5, 3)},
    {"processes": 2, "levels": (3, 5)}, {"processes": 2, "same_layout": True},
    {"processes": 2, "same_layout": True, "one_log": True},
    {"processes": 2, "container": True}, {"successive": True, "reuse_tid": True, "threads": 4},
    {"processes": 3, "one_log": True, "levels": (5, 3, 5)},
)  # fmt: skip


def draw_scene(seed: int) -> Scene:
    """Return the scene of a seed: a third of what it is made of is not the usual; one in ten prints few lines."""
    random = Random(seed)
    is_field = seed >= FIELD_SEEDS
    options, layouts = (_FIELD_OPTIONS, _FIELD_LAYOUTS) if is_field else (_OPTIONS, _LAYOUTS)
    drawn = {name: random.choice(given) for name, given in options.items() if random.random() < 0.4}
    scene = replace(_BASE, seed=seed, **{**drawn, **random.choice(layouts)})  # type: ignore[arg-type]
    if seed % 10 == _SPARSE_SEEDS:
        scene = replace(scene, **random.choice(_SPARSE))  # type: ignore[arg-type]
    if not scene.barriers_print_index:
        # Packets that print none are counted from 0.
        scene = replace(scene, first_index=0)
    # So many lines are enough.
    return replace(scene, span_s=0.24 / max(2, scene.threads * scene.processes))


def draw_damages(scene: Scene) -> Iterator[Scene]:
    """Yield a scene with damage to its log, to its trace, and to both."""
    random = Random(f"damage {scene.seed}")
    on_log, on_trace = list(LOG_DAMAGES), list(PAGE_DAMAGES if scene.pages else TRACE_DAMAGES)
    if scene.seed >= FIELD_SEEDS:
        on_log = list(FIELD_LOG_DAMAGES)
        on_trace = list(FIELD_TRACE_DAMAGES if scene.pages else FIELD_TEXT_DAMAGES)
    for number in range(_RUNS):
        log, trace = random.choice(on_log), random.choice(on_trace)
        side = number % _RUNS
        yield replace(
            scene, damage_seed=scene.seed + number,
            log_damage="" if side == 1 else log, trace_damage="" if side == 0 else trace,
        )  # fmt: skip


def fuzz(seed: int, folder: Path) -> tuple[int, list[str]]:
    """Return how many damaged runs of a seed there were, and what is wrong, each with the run."""
    scene = draw_scene(seed)
    wrong = []
    try:
        reference = make_reference(scene, folder / "whole")
    except Exception as error:
        return 1, [f"seed {seed}, {describe(scene)}, whole: {type(error).__name__}: {error}"]
    for number, damaged in enumerate(draw_damages(scene)):
        name = f"seed {seed}, {describe(damaged)}"
        try:
            wrong += [f"{name}: {fault}" for fault in list_faults(reference, damaged, folder / str(number))]
        except Exception as error:
            wrong.append(f"{name}: {type(error).__name__}: {error}")
    return _RUNS, wrong


def describe(scene: Scene) -> str:
    """Return what of a scene is not the usual, as arguments of `Scene`."""
    given = {field.name: getattr(scene, field.name) for field in fields(scene)}
    return ", ".join(f"{name}={value!r}" for name, value in given.items() if value != getattr(Scene(), name))


def main() -> int:
    """Run until the time is over; print the seed and the damage of what fails."""
    parser = argparse.ArgumentParser(prog="fuzz_links", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, help="the first seed (default: of the time); from 10^9 on as servers")
    parser.add_argument("--seeds", type=int, help="stop after so many seeds")
    given = parser.parse_args()
    first = given.seed if given.seed is not None else time.time_ns() // 1_000_000 % (2 * FIELD_SEEDS)
    until, runs, failed, seed = time.monotonic() + given.seconds, 0, 0, first
    while time.monotonic() < until and (given.seeds is None or seed < first + given.seeds):
        with tempfile.TemporaryDirectory() as folder:
            count, wrong = fuzz(seed, Path(folder))
        for text in wrong:
            print(text, file=sys.stderr, flush=True)
        runs, failed, seed = runs + count, failed + len({text.split(":")[0] for text in wrong}), seed + 1
    print(f"{runs} damaged runs of the seeds {first} to {seed - 1}, {failed} with faults")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
