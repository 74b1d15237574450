"""Measure the answers: report, comparison and Perfetto export of SYNTHETIC captures, each in a process of its own."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

import polars as pl

from benchmarks import measure
from benchmarks.big_capture import Shape, write_big_capture
from tracecorr.model import schema
from tracecorr.store import Capture

# Events, seconds and MiB that each answer may need.
TARGETS = {"report": (10_000_000, 5.0), "compare": (10_000_000, 8.0), "export": (1_000_000, 10.0)}
PEAK_MIB = 1536
_RULES = {
    "packet_in_call": ("call_event", "event"), "packet_of_command": ("command_event", "event"),
    "doorbell_of_packet": ("event", "doorbell_event"),
}  # fmt: skip


_WRITE = "from benchmarks.answers import write_capture; write_capture({!r}, {}, {})"


def write_capture(path: str, events: int, seed: int) -> None:
    """Write a synthetic capture with links."""
    write_big_capture(Path(path), Shape(events=events, seed=seed))
    write_links(Path(path))


def main(arguments: list[str]) -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(prog="scripts/bench answers", description=__doc__)
    parser.add_argument("--runs", type=int, default=3, help="runs of each; the median is shown")
    parser.add_argument("--scale", type=float, default=1.0, help="share of the events of the targets")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        rows = [_measure(name, Path(folder), options.runs, options.scale) for name in TARGETS]
    print(measure.markdown(["answer", "events", "wall s", "target s", "CPU s", "peak MiB", "target MiB"], rows))


def _measure(name: str, folder: Path, runs: int, scale: float) -> list[object]:
    events, seconds = TARGETS[name]
    count = int(events * scale)
    captures = [folder / f"{count}-{seed}.tracecorr" for seed in (1, 2)]
    for seed, path in enumerate(captures, 1):
        if not path.exists():
            # In a process of its own: the peak of a child counts what its parent held when it was started.
            measure.run([sys.executable, "-c", _WRITE.format(str(path), count, seed)])
    command = {
        "report": ["report", str(captures[0]), "--json"],
        "compare": ["compare", *map(str, captures), "--json"],
        "export": ["export", str(captures[0]), "-o", str(folder / "x.pftrace"), "--force"],
    }[name]
    words = [sys.executable, "-m", "tracecorr", *command]
    cost = measure.median([measure.run(words) for _ in range(runs)])
    return [name, f"{count:,}", f"{cost.wall:.1f}", seconds, f"{cost.cpu:.1f}", f"{cost.peak_mib:.0f}", PEAK_MIB]


def write_links(path: Path) -> None:
    """Add the links of the launches to a synthetic capture."""
    launches = Capture.open(path).table("launches")
    links = pl.concat([
        launches.select(
            from_event=start, to_event=end, rule=pl.lit(rule), evidence=pl.lit("recorded"),
            gap_ns=pl.lit(1000, pl.Int64), gap_err_ns=pl.lit(1000, pl.Int64),
        )
        for rule, (start, end) in _RULES.items()
    ]).collect()  # fmt: skip
    schema.LINKS.conform(links).write_parquet(path / "tables" / "links.parquet")
