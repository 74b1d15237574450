"""Speed of the reader of the HIP log, next to what `grep` needs for the same file.

Every figure is a median of paired runs: all commands run in turn on the same file in the page cache.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

import polars as pl

from benchmarks import big_log, measure
from benchmarks.measure import Cost
from tracecorr.read.amdlog.reader import read_amd_log
from tracecorr.store.parts import write_part
from tracecorr.store.raw import RawStream

# What engineers count in such a log today.
GREPS = ("Dispatch Header", "ShaderName", "Returned hipSuccess", "Barrier", "enqueued")
_C_LOCALE = {"LC_ALL": "C"}


def parse(log: Path, folder: Path) -> None:
    """Read a log to parts in a folder; run in a process of its own to measure it."""
    write_part(folder, "amd_log-0", read_amd_log(RawStream(log), 1))


def _five_greps(log: Path) -> Cost:
    costs = [measure.run(["grep", "-c", pattern, str(log)], _C_LOCALE) for pattern in GREPS]
    return Cost(sum(c.cpu for c in costs), sum(c.wall for c in costs), max(c.peak_mib for c in costs))


def compare(log: Path, folder: Path, runs: int, *, with_import: bool) -> str:
    """Return the table of costs of one log; what is made is left in `folder`."""
    measure.cache(log)
    worker = [sys.executable, "-m", "benchmarks.parse", "--log", str(log), "--worker", str(folder)]
    capture = str(folder / "big.tracecorr")
    importing = [sys.executable, "-m", "tracecorr", "import", "--amd-log", str(log), "-o", capture, "--force"]
    # An installed package has its bytecode; so has this one from the second run on.
    installed = {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(folder / "bytecode")}

    def run_touched(*command: str) -> Cost:
        # An import copies the log and holds as much again, while the capture that it replaces is still there.
        measure.touch_memory(3 * log.stat().st_size)
        return measure.run(command, installed)

    works = {
        "`grep -c HWq=`": lambda: measure.run(["grep", "-c", "HWq=", str(log)], _C_LOCALE),
        "five greps": lambda: _five_greps(log),
        "parse to parts": lambda: run_touched(*worker),
    }
    if with_import:
        works["`import`, all tables and views"] = lambda: run_touched(*importing)
        works["`import --jobs 2`"] = lambda: run_touched(*importing, "--jobs", "2")
    costs = measure.paired(works, runs)
    references = costs["`grep -c HWq=`"], costs["five greps"]
    rows = []
    for name, found in costs.items():
        middle = measure.median(found)
        speed = log.stat().st_size / 1e6 / middle.wall
        times = [f"{measure.ratio(found, reference):.1f}" for reference in references]
        # Of a small command the system reports the memory of the process that started it.
        peak = "-" if "grep" in name else f"{middle.peak_mib:.0f}"
        rows.append((name, f"{middle.cpu:.2f}", f"{middle.wall:.2f}", *times, peak, f"{speed:.0f}"))
    return measure.markdown(("work", "CPU s", "wall s", "x grep (CPU)", "x five greps", "peak MiB", "MB/s"), rows)


def sizes(folder: Path) -> str:
    """Return what the parts, and the events of an import, take on disk."""
    parts = sum(part.stat().st_size for part in folder.glob("*.parquet"))
    lines = [f"parts on disk: {parts / 1e6:.1f} MB"]
    events = folder / "big.tracecorr" / "tables" / "events.parquet"
    if events.exists():
        rows = pl.scan_parquet(events).select(pl.len()).collect().item()
        lines.append(f"events on disk: {events.stat().st_size / rows:.1f} bytes per row, {rows} rows")
    return "\n".join(lines)


def main(arguments: list[str]) -> None:
    """Measure one log: a given one, or a synthetic one of the given size."""
    parser = argparse.ArgumentParser(prog="scripts/bench parse", description=__doc__)
    parser.add_argument("--log", type=Path, help="measure this log, not a synthetic one")
    parser.add_argument("--size-mb", type=int, default=1507, help="size of the synthetic log (default: %(default)s)")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--with-import", action="store_true", help="measure a whole import, too")
    parser.add_argument("--worker", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.worker:
        parse(given.log, given.worker)
        return
    with tempfile.TemporaryDirectory() as folder:
        log = given.log or Path(folder) / "big.log"
        if not given.log:
            big_log.write_big_log(log, size_bytes=given.size_mb * 1_000_000)
        kind = "synthetic" if not given.log or big_log.truth_path(log).exists() else "given"
        print(f"{kind} log of {log.stat().st_size / 1e6:.0f} MB, medians of {given.runs} paired runs\n")
        print(compare(log, Path(folder), given.runs, with_import=given.with_import))
        print("\n" + sizes(Path(folder)))


if __name__ == "__main__":
    main(sys.argv[1:])
