"""Damage to the lines of a run, as logs and traces have it: a lost head, tail or part, several writers, an overrun."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random

from simulator.record import Line

Lines = list[Line]
Damage = Callable[[Random, Lines], Lines]

# What a line begins with: without it the rest reads as a line that never had a level.
_LEVEL = 3


def _lose_head(random: Random, lines: Lines) -> Lines:
    return lines[random.randrange(len(lines) // 10, 2 * len(lines) // 3) :]


def _lose_tail(random: Random, lines: Lines) -> Lines:
    """Let the file end early, within a line."""
    place = random.randrange(len(lines) // 3, len(lines))
    last = lines[place]
    return [*lines[:place], replace(last, text=last.text[: random.randrange(len(last.text))], end="")]


def _leave_hole(random: Random, lines: Lines) -> Lines:
    """Lose a part of the middle, of a tenth at most."""
    place = random.randrange(len(lines) // 10, 8 * len(lines) // 10)
    return [*lines[:place], *lines[place + random.randint(2, len(lines) // 10) :]]


def _interleave(random: Random, lines: Lines) -> Lines:
    """Let some lines be written into the middle of others, as writers do that share a stream without a lock."""
    made: Lines = []
    rest = iter(lines)
    for line in rest:
        other = next(rest, None) if random.random() < 0.02 else None
        if other is None:
            made.append(line)
            continue
        place = random.randrange(_LEVEL, len(line.text))
        # Right behind the time a line's beginning reads as another one's, without its first bytes.
        place += 2 * line.text[:place].endswith(" us")
        made += [replace(line, text=line.text[:place], end=""), other, replace(line, text=line.text[place:])]
    return made


def _overrun(random: Random, lines: Lines) -> Lines:
    """Lose records of one CPU's buffer, which tells how many."""
    cpu = random.choice(sorted({line.cpu for line in lines}))
    lost, left, made = 0, 0, list[Line]()
    for line in lines:
        if line.cpu != cpu:
            made.append(line)
            continue
        left = left or (random.randint(1, 60) if random.random() < 0.01 else 0)
        if left:
            lost, left = lost + 1, left - 1
            continue
        made += [Line(-1, 0.0, "", f"CPU:{cpu} [LOST {lost} EVENTS]", cpu, bare=True)] if lost else []
        made.append(line)
        lost = 0
    return made


def _overwrite(random: Random, lines: Lines) -> Lines:
    """Let each CPU's buffer begin at another time: what came before was overwritten."""
    first = {cpu: random.randrange(len(lines) // 2) for cpu in sorted({line.cpu for line in lines})}
    return [line for place, line in enumerate(lines) if place >= first[line.cpu]]


LOG_DAMAGES: dict[str, Damage] = {
    "head lost": _lose_head, "tail lost": _lose_tail, "a hole": _leave_hole, "several writers": _interleave,
}  # fmt: skip
TRACE_DAMAGES: dict[str, Damage] = {"head lost": _lose_head, "tail lost": _lose_tail, "overrun": _overrun,
                                    "overwritten": _overwrite}  # fmt: skip
