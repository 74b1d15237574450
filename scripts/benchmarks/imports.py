"""Cost of importing a log together with the kernel trace of its run: both read, put on one clock, linked.

The runs are SYNTHETIC (`scripts/simulator`): four processes of four threads, each a launch every 0.3 ms, all doorbell
stores and some ioctls in the trace. A second table compares eight processes that write logs of their own with eight on
one stderr, whose records are put together by their write calls. Medians of paired runs, all files in the page cache.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import polars as pl
from simulator import ClockModel, Scene, simulate

from benchmarks import measure
from benchmarks.measure import Cost

_FOREIGN = ClockModel("local", 380_000_000, 20.0)
_SCENE = Scene(seed=3, launch_gap_us=300, processes=4, threads=4, streams=3, doorbell="rich", queue_probe=True)
_HEAD = ("import of", "CPU s", "wall s", "peak MiB", "events", "thousand events per CPU s")


def _write(folder: Path, scene: Scene) -> tuple[list[Path], Path]:
    """Write a run; return its logs and its trace."""
    folder.mkdir()
    made = simulate(scene, folder)
    return made.logs, made.trace


def _write_apart(folder: Path, scene: Scene) -> tuple[list[Path], Path]:
    # What this process takes itself, the system counts as memory of the commands that it starts.
    with ProcessPoolExecutor(1, get_context("spawn")) as other:
        return other.submit(_write, folder, scene).result()


def _import(run: tuple[list[Path], Path], out: Path) -> Cost:
    logs, trace = run
    for path in [*logs, *(trace.rglob("*") if trace.is_dir() else [trace])]:
        if path.is_file():
            measure.cache(path)
    words = [word for log in logs for word in ("--amd-log", str(log))]
    command = [sys.executable, "-m", "tracecorr", "import", *words, "--ftrace", str(trace), "-o", str(out), "--force"]
    return measure.run(command)


def _row(name: str, out: Path, costs: list[Cost]) -> tuple[str, ...]:
    middle = measure.median(costs)
    events = pl.scan_parquet(out / "tables" / "events.parquet").select(pl.len()).collect().item()
    speed = f"{events / middle.cpu / 1000:.0f}"
    return name, f"{middle.cpu:.2f}", f"{middle.wall:.2f}", f"{middle.peak_mib:.0f}", f"{events:,}", speed


def compare(folder: Path, span_s: float, runs: int) -> str:
    """Return the table of costs of synthetic runs that last `span_s` seconds."""
    outs: dict[str, Path] = {}
    works: dict[str, Callable[[], Cost]] = {}
    for name, clock, pages in (
        ("log and pages, one clock", ClockModel(), True),
        ("log and text, one clock", ClockModel(), False),
        ("log and text, a clock to be worked out", _FOREIGN, False),
    ):
        scene = replace(_SCENE, span_s=span_s, clock=clock, pages=pages)
        run = _write_apart(folder / f"run-{len(works)}", scene)
        outs[name] = folder / f"{len(works)}.tracecorr"
        works[name] = partial(_import, run, outs[name])
    costs = measure.paired(works, runs)
    return measure.markdown(_HEAD, [_row(name, outs[name], found) for name, found in costs.items()])


def compare_writers(folder: Path, span_s: float, runs: int) -> str:
    """Return what it costs that processes write to one stderr: as a ratio, and in bytes of memory per event."""
    works: dict[str, Callable[[], Cost]] = {}
    for name, one_log in (("eight logs", False), ("one log of eight", True)):
        scene = replace(_SCENE, span_s=span_s, processes=8, threads=1, writes="stderr", pages=True, one_log=one_log)
        works[name] = partial(_import, _write_apart(folder / name, scene), folder / f"{name}.tracecorr")
    costs = measure.paired(works, runs)
    rows = [_row(name, folder / f"{name}.tracecorr", found) for name, found in costs.items()]
    apart, shared = costs.values()
    more = (measure.median(shared).peak_mib - measure.median(apart).peak_mib) * 2**20
    events = int(rows[1][4].replace(",", ""))
    told = (
        f"one log takes {measure.ratio(shared, apart):.2f} times the CPU time, {more / events:.0f} bytes per event more"
    )
    return f"{measure.markdown(_HEAD, rows)}\n\n{told}"


def main(arguments: list[str]) -> None:
    """Measure imports of synthetic runs of the given length."""
    parser = argparse.ArgumentParser(prog="scripts/bench imports", description=__doc__)
    parser.add_argument("--span-s", type=float, default=4, help="seconds that a run lasts (default: %(default)s)")
    parser.add_argument("--runs", type=int, default=5)
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        print(f"synthetic runs of {given.span_s:g} s, medians of {given.runs} paired runs\n")
        print(compare(Path(folder), given.span_s, given.runs))
        print(f"\n{compare_writers(Path(folder), given.span_s, given.runs)}")
