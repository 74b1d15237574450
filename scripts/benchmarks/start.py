"""Measure how soon each verb answers, as a multiple of `python -c 'import polars'`; medians of runs that alternate.

On a busy machine compare the CPU times: the others contain the waits for a CPU. `info` and `query` also do their work.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from benchmarks import measure

# What an answer may take, as a multiple of the import of polars.
MOST = 1.5
_SAMPLE = """
from pathlib import Path
from tracecorr.bundled import copy_sample, find_sample
from tracecorr.pipeline import correlate
correlate(copy_sample(find_sample(), Path({!r})))
"""
# Verbs with the status that they end with; those that work do hardly any.
_VERBS = {
    "--help": 0, "--version": 0, "report --help": 0, "nosuch": 2, "report nowhere": 2, "help sql": 0,
    "query --examples": 0, "report --explain PASS": 0, "info {}": 0, "query {} SELECT\t1": 0,
}  # fmt: skip


def main(arguments: list[str]) -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(prog="scripts/bench start", description=__doc__)
    parser.add_argument("--runs", type=int, default=7, help="runs of each; the median is shown")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-c", _SAMPLE.format(folder)], check=True)
        (sample,) = Path(folder).glob("*.tracecorr")
        rows = [_compare(verb, status, sample, options.runs) for verb, status in _VERBS.items()]
    print(measure.markdown(["verb", "ms", "times", "times of CPU", "target"], rows))


def _compare(verb: str, status: int, sample: Path, runs: int) -> list[object]:
    words = [word.replace("{}", str(sample)).replace("\t", " ") for word in verb.split(" ")]
    took: list[tuple[float, float, float, float]] = []
    for _ in range(runs):
        ours = _time([sys.executable, "-m", "tracecorr", *words], status)
        took.append((*ours, *_time([sys.executable, "-c", "import polars"], 0)))
    wall, cpu, their_wall, their_cpu = (median(column) for column in zip(*took, strict=True))
    shown = verb.replace("{}", "SAMPLE").replace("\t", " ")
    return [shown, f"{wall * 1e3:.0f}", f"{wall / their_wall:.2f}", f"{cpu / their_cpu:.2f}", MOST]


def _time(command: list[str], status: int) -> tuple[float, float]:
    """Return the wall and CPU seconds that a command takes.

    Raises:
        RuntimeError: it ends with another status.
    """
    started, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False)
    wall, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode != status:
        raise RuntimeError(f"{command} ended with {done.returncode}: {done.stderr.decode(errors='replace')[-500:]}")
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
