"""Recorder: lines of the log and records of the trace, each with its true time."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from simulator.machine import Queue


@dataclass
class Line:
    """Hold one line of a source: its number (its place in `Recorder.lines`), true time, text; and where it is written.

    Copies of a line (one that is written twice, or torn) keep its number. One that its file ends in has no `end`. What
    stands in a file and is no line of the run is `bare`: it is written as it is. `true_ns` is when it was printed, if
    that is not when it was written.
    """

    number: int
    at_ns: float
    source: str
    text: str
    cpu: int = 0
    head: str = ""
    end: str = "\n"
    offset: int = -1
    file: str = ""
    bare: bool = False
    true_ns: float = -1.0


@dataclass
class Truth:
    """Hold what is true, in terms of lines (by their place in `Recorder.lines`)."""

    doorbells: list[tuple[int, int]] = field(default_factory=list)
    calls: list[tuple[int, int]] = field(default_factory=list)
    inside: list[tuple[int, int]] = field(default_factory=list)
    around: list[tuple[int, int]] = field(default_factory=list)
    exits: list[tuple[int, int]] = field(default_factory=list)
    enclosing: list[tuple[int, int]] = field(default_factory=list)
    gpu_times: list[tuple[int, int]] = field(default_factory=list)
    syscalls: list[tuple[int, int]] = field(default_factory=list)
    commands: list[tuple[int, int]] = field(default_factory=list)
    creations: list[tuple[int, int]] = field(default_factory=list)
    packet_queues: list[tuple[Queue, int]] = field(default_factory=list)
    mappings: list[tuple[int, int]] = field(default_factory=list)
    queue_gpus: list[tuple[int, int, int]] = field(default_factory=list)
    dependencies: list[tuple[int, int]] = field(default_factory=list)
    completions: list[tuple[int, int]] = field(default_factory=list)
    packets: list[tuple[int, int, int, int, int, int]] = field(default_factory=list)
    kernels: list[tuple[int, str]] = field(default_factory=list)
    gpu: list[tuple[int, float, float]] = field(default_factory=list)
    threads: list[tuple[int, int, int, int]] = field(default_factory=list)
    writes: list[tuple[int, int]] = field(default_factory=list)


@dataclass
class Recorder:
    """Collect the lines of all sources."""

    lines: list[Line] = field(default_factory=list)
    truth: Truth = field(default_factory=Truth)

    def add(self, at_ns: float, source: str, text: str, cpu: int = 0, head: str = "") -> int:
        """Add a line and return its id."""
        self.lines.append(Line(len(self.lines), at_ns, source, text, cpu, head))
        return len(self.lines) - 1
