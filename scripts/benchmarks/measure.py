"""Measure commands: CPU and wall seconds, peak memory; medians of paired runs; tables of results."""

from __future__ import annotations

import mmap
import multiprocessing
import os
import resource
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Cost:
    """Hold what one run cost.

    Args:
        cpu: user and system seconds of the process and its children.
        wall: seconds.
        peak_mib: largest resident set of the process or of one of its children, MiB.
    """

    cpu: float
    wall: float
    peak_mib: float


def run(command: Sequence[str], environment: Mapping[str, str] | None = None) -> Cost:
    """Run a command to its end and return its cost; what it prints is dropped.

    Raises:
        RuntimeError: the command failed; the text is the end of what it printed.
    """
    started = time.perf_counter()
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            list(command), stdout=output, stderr=subprocess.STDOUT, env={**os.environ, **(environment or {})}
        )
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        wall = time.perf_counter() - started
        if process.returncode:
            output.seek(0)
            raise RuntimeError(f"{command[0]} failed: {output.read()[-2000:].decode(errors='replace')}")
    return Cost(usage.ru_utime + usage.ru_stime, wall, usage.ru_maxrss / 1024)


def run_here(work: Callable[[], object]) -> Cost:
    """Run a function in this process and return its cost; the peak is that of the process so far."""
    before, started = _cpu(), time.perf_counter()
    work()
    wall = time.perf_counter() - started
    peak = max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return Cost(_cpu() - before, wall, peak / 1024)


def _cpu() -> float:
    usages = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(u.ru_utime + u.ru_stime for u in usages)


def median(costs: Sequence[Cost]) -> Cost:
    """Return the median of each figure (of the peak: the largest)."""
    return Cost(
        statistics.median(c.cpu for c in costs),
        statistics.median(c.wall for c in costs),
        max(c.peak_mib for c in costs),
    )


def paired(works: Mapping[str, Callable[[], Cost]], runs: int) -> dict[str, list[Cost]]:
    """Run all works in turn, `runs` times, so that a busy machine disturbs all of them alike."""
    costs: dict[str, list[Cost]] = {name: [] for name in works}
    for _ in range(runs):
        for name, work in works.items():
            costs[name].append(work())
    return costs


def ratio(costs: Sequence[Cost], reference: Sequence[Cost]) -> float:
    """Return the median of the CPU ratios of paired runs."""
    return statistics.median(c.cpu / max(r.cpu, 1e-9) for c, r in zip(costs, reference, strict=True))


def cache(path: Path) -> None:
    """Read a file once, so that all runs find it in the page cache."""
    with path.open("rb") as stream:
        while stream.read(16 << 20):
            pass


def touch_memory(size: int) -> None:
    """Use `size` bytes of memory once and give them back, at most half of what is free.

    A virtual machine gets memory from its host at the first touch, in some microseconds a page, and may have given it
    back by the next run: a cost of the host, as that of a file which is not in the page cache. A process of its own
    touches it: a command started by one that ever was that large would report its peak as the command's own.
    """
    toucher = multiprocessing.get_context("spawn").Process(target=_touch, args=(size,))
    toucher.start()
    toucher.join()


def _touch(size: int) -> None:
    free = os.sysconf("SC_AVPHYS_PAGES") * mmap.PAGESIZE
    with mmap.mmap(-1, max(mmap.PAGESIZE, min(size, free // 2))) as memory:
        for at in range(0, len(memory), mmap.PAGESIZE):
            memory[at] = 1


def markdown(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Return a Markdown table."""
    lines = [head, ["---"] * len(head), *[[str(cell) for cell in row] for row in rows]]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
