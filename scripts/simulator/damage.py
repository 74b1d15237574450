"""Damage to the lines of a run: the ways in which a log or a trace is not what was printed."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from random import Random

from simulator.record import Line

Lines = list[Line]
Damage = Callable[[Random, Lines], Lines]

_THREAD = re.compile(r"tid: (0x[0-9a-f]+)|^ *\S+-(\d+) ")
# Parts of lines of one kind: what a filter, a lower level or an event that was not enabled leaves out.
_LOG_KINDS = (
    ": Returned", "ShaderName", "enqueued", "complete", "Dispatch Header", "Barrier", "Translated", "Created SWq",
    "allocated hardware", "\x1b[32m", "BarrierValue", "submitted", "HSA", "hipLaunchKernel (", "hipEventRecord (",
    "hipEventRecord: Ret", "hipLaunchKernel: Ret", "hipStreamSynchronize", "hipGraphLaunch (", "refCount",
)  # fmt: skip
_TRACE_KINDS = (
    "sys_ioctl(", "sys_ioctl ->", "doorbell:", "set_robust", "arch_prctl", "kfd_create_queue", "sys_mmap", "0xc0604b02",
)  # fmt: skip


def _lose(share: float) -> Damage:
    return lambda random, lines: [line for line in lines if random.random() >= share]


def _lose_few(random: Random, lines: Lines) -> Lines:
    lost = {random.randrange(len(lines)) for _ in range(random.randint(1, 4))}
    return [line for place, line in enumerate(lines) if place not in lost]


def _lose_bursts(share: float, size: int) -> Damage:
    """Lose runs of about `size` lines, until about `share` of all are lost."""

    def lose(random: Random, lines: Lines) -> Lines:
        kept = list(lines)
        for _ in range(max(1, int(len(lines) * share / size))):
            place = random.randrange(len(kept))
            del kept[place : place + random.randint(1, 2 * size)]
            if not kept:
                break
        return kept

    return lose


def _lose_thread(random: Random, lines: Lines) -> Lines:
    threads = [_thread_of(line) for line in lines]
    lost = random.choice(sorted(set(threads)))
    return [line for line, thread in zip(lines, threads, strict=True) if thread != lost]


def _thread_of(line: Line) -> str:
    found = _THREAD.search(line.head or line.text)
    return found.group(0) if found else ""


def _lose_kind(kinds: tuple[str, ...], share: float) -> Damage:
    def lose(random: Random, lines: Lines) -> Lines:
        kind = random.choice(kinds)
        return [line for line in lines if kind not in line.text or random.random() >= share]

    return lose


def _double(times: int, size: int) -> Damage:
    """Write up to `size` lines a second time, `times` times: behind themselves, or anywhere."""

    def double(random: Random, lines: Lines) -> Lines:
        made = list(lines)
        for _ in range(times if len(lines) > size else 0):
            place, count = random.randrange(len(made) - size), random.randint(1, size)
            target = place + count if random.random() < 0.5 else random.randrange(len(made))
            made[target:target] = [replace(line) for line in made[place : place + count]]
        return made

    return double


def _shuffle(window: int, share: float) -> Damage:
    """Bring the lines within windows of the file, of which `share` are hit, into any order."""

    def shuffle(random: Random, lines: Lines) -> Lines:
        made = list(lines)
        for start in range(0, len(made), window):
            if random.random() < share:
                part = made[start : start + window]
                random.shuffle(part)
                made[start : start + window] = part
        return made

    return shuffle


def _swap(share: float) -> Damage:
    """Let `share` of the lines change places with the next one."""

    def swap(random: Random, lines: Lines) -> Lines:
        made = list(lines)
        for place in range(len(made) - 1):
            if random.random() < share:
                made[place], made[place + 1] = made[place + 1], made[place]
        return made

    return swap


def _cut(random: Random, lines: Lines) -> Lines:
    """Let the file begin later, or end earlier."""
    place = random.randrange(len(lines) // 10, len(lines))
    return lines[:place] if random.random() < 0.5 else lines[place:]


def _behead(rest: Damage) -> Damage:
    """Let the file begin later, and damage what is left."""

    def behead(random: Random, lines: Lines) -> Lines:
        kept = lines[random.randrange(len(lines) // 10, len(lines) - len(lines) // 5) :]
        return rest(random, kept)

    return behead


def _tear(random: Random, lines: Lines) -> Lines:
    """Let the file end within a line."""
    place = random.randrange(len(lines) // 10, len(lines))
    last = lines[place]
    return [*lines[:place], replace(last, text=last.text[: random.randrange(len(last.text))], end="")]


_BOTH: dict[str, Damage] = {
    "few lost": _lose_few, "1 % lost": _lose(0.01), "10 % lost": _lose(0.1), "30 % lost": _lose(0.3),
    "bursts of 20": _lose_bursts(0.05, 20), "bursts of 100": _lose_bursts(0.2, 100), "a burst": _lose_bursts(0.0, 40),
    "thread lost": _lose_thread, "doubled": _double(3, 60), "single doubled": _double(5, 1),
    "shuffled within 3": _shuffle(3, 0.1), "shuffled within 10": _shuffle(10, 1.0),
    "shuffled within 50": _shuffle(50, 0.2), "few swapped": _swap(0.01), "swapped": _swap(0.2), "cut": _cut,
    "begins late, few lost": _behead(_lose_few), "begins late, a burst": _behead(_lose_bursts(0.0, 40)),
}  # fmt: skip
LOG_DAMAGES: dict[str, Damage] = {
    **_BOTH, "kind lost": _lose_kind(_LOG_KINDS, 1.0), "half a kind lost": _lose_kind(_LOG_KINDS, 0.5), "torn": _tear,
}  # fmt: skip
# Pages hold whole records: a torn one is for text.
PAGE_DAMAGES: dict[str, Damage] = {
    **_BOTH, "kind lost": _lose_kind(_TRACE_KINDS, 1.0), "half a kind lost": _lose_kind(_TRACE_KINDS, 0.5),
}  # fmt: skip
TRACE_DAMAGES: dict[str, Damage] = {**PAGE_DAMAGES, "torn": _tear}
