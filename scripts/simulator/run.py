"""Run a scene: write its files, and give the truth in terms of their bytes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import polars as pl

from simulator.damage import LOG_DAMAGES, TRACE_DAMAGES, Damage
from simulator.event_thread import EventThread
from simulator.machine import START_NS, Machine, Process, Thread
from simulator.pages import write_pages
from simulator.program import HipThread
from simulator.record import Line, Recorder
from simulator.scene import Scene

_HEAD = "# tracer: nop\n#\n# entries-in-buffer/entries-written: {n}/{n}   #P:2\n#\n"
_HEAD += "# SYNTHETIC: made by scripts/simulator; no kernel recorded this\n"
_PAIRS = (
    "doorbells", "calls", "inside", "around", "gpu_times", "syscalls", "commands", "creations", "dependencies",
    "completions", "mappings", "enclosing", "exits", "writes",
)  # fmt: skip


@dataclass
class Simulation:
    """Hold the files of a run and what is true of it.

    Args:
        scene: what was run.
        logs, trace, samples: the files; `trace` is a folder where it was written as pages, `samples` is None without
            clock samples.
        moments: line (its number), file (its number at import), offset, true_ns of every line that is written.
        truth: by name, frames of pairs (from_file, from_offset, to_file, to_offset), and `packets`,
            `kernels`, `gpu`, `threads`, `queue_gpus`, `owners` (from a queue's Created line to each of its packets).
    """

    scene: Scene
    logs: list[Path]
    trace: Path
    samples: Path | None
    moments: pl.DataFrame
    truth: dict[str, pl.DataFrame] = field(default_factory=dict)


def simulate(scene: Scene, folder: Path) -> Simulation:
    """Run a scene and write its files (amd-N.log, ftrace.txt or raw/, clock.json) into a folder."""
    machine = Machine(scene)
    processes = _start(machine)
    samples = _sample(machine)
    machine.run()
    record = machine.record
    names = list(dict.fromkeys(process.log_name for process in processes))
    logs = [folder / f"{name}.log" for name in names]
    written: list[Line] = []
    for name, path in zip(names, logs, strict=True):
        lines = _order(record, name)
        lines = _damage(scene, lines, LOG_DAMAGES[scene.log_damage] if scene.log_damage else None)
        _write(path, lines, "", lambda line: line.text)
        written += lines
    trace = _order(record, "trace")
    trace = _damage(scene, trace, TRACE_DAMAGES[scene.trace_damage] if scene.trace_damage else None)
    written = [line for line in [*written, *trace] if not line.bare]
    kept = [path for path in logs if path.stat().st_size]
    numbers = {path.stem: place for place, path in enumerate(kept)}
    if scene.pages:
        write_pages(folder / "raw", trace, lambda at_ns: scene.clock.show(at_ns, START_NS))
        for place, cpu in enumerate(sorted({line.cpu for line in trace if not line.bare})):
            numbers[f"trace {cpu}"] = len(kept) + place
    else:
        _write(folder / "ftrace.txt", trace, _HEAD.format(n=len(trace)), lambda line: _stamped(scene, line))
        numbers |= dict.fromkeys(("trace 0", "trace 1"), len(kept))
    path = None
    if samples:
        path = folder / "clock.json"
        content = {"synthetic": True, "trace_clock": scene.clock.name, "samples": samples}
        path.write_text(json.dumps(content))
    moments = _moments(written, numbers)
    threads = [(names.index(p.log_name), t.tid, t.address) for p in processes for t in p.threads]
    truth = _truth(record, moments)
    truth["threads"] = pl.DataFrame(threads, schema=["log_file", "tid", "log_tid"], orient="row")
    truth["threads"] = truth["threads"].with_columns(pl.col("log_tid").cast(pl.UInt64))
    return Simulation(scene, kept, folder / ("raw" if scene.pages else "ftrace.txt"), path, moments, truth)


def _start(machine: Machine) -> list[Process]:
    scene, random = machine.scene, machine.random
    processes = []
    for number in range(scene.processes):
        pid = 14720 + 300 * (0 if scene.reuse_pid else number)
        place = random.randrange(1 << 16)
        base = 0x7F5190000000 + (0 if scene.same_layout else place) * 0x1000000
        log_pid = 7 if scene.container else pid
        if scene.swapped_pids:
            log_pid = 14720 + 300 * ((number + 1) % scene.processes)
        process = Process(machine, number, pid, log_pid, base)
        late = number * (scene.span_s + 0.2) * 1e9 if scene.reuse_pid else number * 1e6
        events = EventThread(machine, process, pid + 1, base + 0x8006C0, f"hip{number}")
        for i in range(scene.threads):
            tid = pid if i == 0 else pid + 1 + (1 if scene.reuse_tid else i)
            stack = base + 0x10006C0 + (0 if scene.successive else i * 0x801000)
            thread = HipThread(machine, process, tid, stack, events)
            if not scene.direct_dispatch:
                thread.worker = Thread(machine, process, pid + 100 + i, base + 0x40006C0 + i * 0x801000, "worker")
                thread.worker.now = START_NS + late
                for _ in thread.worker.register():
                    pass
            begin = (
                START_NS + late + random.uniform(0, 5e6) + (i * (scene.span_s + 0.05) * 1e9 if scene.successive else 0)
            )
            machine.start(begin, thread.live(begin))
        processes.append(process)
    return processes


def _sample(machine: Machine) -> list[dict[str, object]]:
    """Write marks into the trace as the recorder does, and return the samples that it keeps.

    Many at the start and the end; in between four at a time, of which the narrowest is kept.
    """
    scene = machine.scene
    if not scene.samples_s:
        return []
    last = scene.span_s * (scene.processes if scene.reuse_pid else 1) + 0.1
    numbers = count()
    samples = _mark(machine, START_NS - 1e6, 8, numbers)
    for n in range(1, int(last / scene.samples_s) + 1):
        taken = _mark(machine, START_NS + n * scene.samples_s * 1e9, 4, numbers)
        samples += sorted(taken, key=lambda s: s["mono1"] - s["mono0"])[:1]
    return samples + _mark(machine, START_NS + last * 1e9, 8, numbers)


def _mark(machine: Machine, at_ns: float, times: int, numbers: Iterator[int]) -> list[dict[str, Any]]:
    scene, random = machine.scene, machine.random
    samples = []
    for turn, number in zip(range(times), numbers, strict=False):
        at = at_ns + turn * 2e4
        before = int(at)
        stamped = at + 700 + random.expovariate(1 / 500)
        # The first call after a pause is slow.
        after = int(stamped + 900 + random.expovariate(1 / 800) + (0 if turn else 5_000))
        head = f"{'python3':>16}-{14679:<7} ({14679:>7}) [001] ...1. "
        machine.record.add(stamped, "trace", f"tracing_mark_write: clock_sync id={number} mono={before}", 1, head)
        read = after + 1_000
        raw, boot = scene.raw.show(read + 300, START_NS), read + 1_500 + scene.suspended_ns
        samples.append({
            "id": number, "mono0": before, "mono1": after,
            "raw": {"mono0": read, "value": raw, "mono1": read + 600},
            "boot": {"mono0": read + 1_400, "value": boot, "mono1": read + 1_600},
        })  # fmt: skip
    return samples


def _damage(scene: Scene, lines: list[Line], damage: Damage | None) -> list[Line]:
    """Return the lines as the damage leaves them; it makes the same choices whatever the scene's own ones are."""
    if damage is None or not lines:
        return lines
    damaged = damage(Random(f"{scene.damage_seed} {lines[0].source}"), lines)
    # What was cut off before its first byte is no line.
    return [line for line in damaged if line.head or line.text or line.end]


def _stamped(scene: Scene, line: Line) -> str:
    if line.bare:
        return line.text
    shown = scene.clock.show(line.at_ns, START_NS)
    if scene.clock.ticks_per_ns != 1.0 or scene.clock.name in ("uptime", "counter"):
        return f"{line.head}{shown:>12}: {line.text}"
    us = (shown + 500) // 1000
    return f"{line.head}{us // 1_000_000:>6}.{us % 1_000_000:06d}: {line.text}"


def _order(record: Recorder, source: str) -> list[Line]:
    """Return the lines of a source in the order of their times."""
    return sorted((line for line in record.lines if line.source == source), key=lambda line: line.at_ns)


def _write(path: Path, lines: list[Line], head: str, form: Callable[[Line], str]) -> None:
    offset = len(head.encode())
    with path.open("wb") as out:
        out.write(head.encode())
        for line in lines:
            text = (form(line) + line.end).encode()
            line.offset = offset
            offset += len(text)
            out.write(text)


def _moments(lines: list[Line], numbers: dict[str, int]) -> pl.DataFrame:
    rows = [
        (
            x.number,
            numbers[f"trace {x.cpu}" if x.source == "trace" else x.source],
            x.offset,
            max(x.at_ns if x.true_ns < 0 else x.true_ns, 0.0),
        )
        for x in lines
    ]
    return pl.DataFrame(
        rows, schema={"line": pl.Int64, "file": pl.UInt16, "offset": pl.Int64, "true_ns": pl.Float64}, orient="row"
    )


def _place_pairs(pairs: list[tuple[int, int]], places: pl.DataFrame) -> pl.DataFrame:
    both = pl.DataFrame(pairs, schema={"a": pl.Int64, "b": pl.Int64}, orient="row")
    both = both.join(places.rename({"line": "a", "file": "from_file", "offset": "from_offset"}), on="a")
    both = both.join(places.rename({"line": "b", "file": "to_file", "offset": "to_offset"}), on="b")
    return both.drop("a", "b")


def _truth(record: Recorder, moments: pl.DataFrame) -> dict[str, pl.DataFrame]:
    places = moments.select("line", "file", "offset")
    truth: dict[str, pl.DataFrame] = {}
    for name in _PAIRS:
        truth[name] = _place_pairs(getattr(record.truth, name), places)
    made = [(queue.made, line) for queue, line in record.truth.packet_queues]
    truth["owners"] = _place_pairs(made, places)
    queue = {"ring": pl.UInt64, "swq": pl.UInt64, "log_id": pl.Int64}
    columns = {"line": pl.Int64, **queue, "index": pl.Int64, "process": pl.Int64}
    packets = pl.DataFrame(record.truth.packets, schema=columns, orient="row")
    truth["packets"] = packets.join(places, on="line").drop("line")
    kernels = pl.DataFrame(record.truth.kernels, schema={"line": pl.Int64, "kernel": pl.String}, orient="row")
    truth["kernels"] = kernels.join(places, on="line").drop("line")
    gpu = pl.DataFrame(
        record.truth.gpu, schema={"line": pl.Int64, "start_ns": pl.Float64, "end_ns": pl.Float64}, orient="row"
    )
    truth["gpu"] = gpu.join(places, on="line").drop("line")
    owners = {"line": pl.Int64, "gpu_id": pl.UInt32, "node": pl.Int32}
    queue_gpus = pl.DataFrame(record.truth.queue_gpus, schema=owners, orient="row")
    truth["queue_gpus"] = queue_gpus.join(places, on="line").drop("line")
    return truth
