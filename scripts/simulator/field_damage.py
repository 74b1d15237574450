"""Damage as captures of servers have it: what files, terminals, ring buffers and copies do to a log or a trace."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from random import Random

from simulator.damage import Damage, Lines
from simulator.record import Line

_PROCESS = re.compile(r"\(\s*(\d+)\) \[")
_COLOURS = re.compile("\x1b\\[[0-9;]*m")
# What a program prints among the lines of its log, glued to the next line or on a line of its own.
_PROGRAM = ("step 17/400 loss 2.0317", "  0%|          | 0/400 [00:00<?, ?it/s]\r", "[rank0]: warning: slow loader")
# A terminal's width, and the bytes of a hole of a file that was truncated while a program wrote to it.
_WIDTH, _HOLE = 160, 512
# What a line begins with: without it the rest reads as a line that never had a level.
_LEVEL = 3


def _bare(text: str, end: str = "", cpu: int = 0) -> Line:
    """Return what stands in a file and is no line of the run."""
    return Line(-1, 0.0, "", text, cpu, end=end, bare=True)


def _split(line: Line, places: list[int]) -> Iterator[Line]:
    """Yield the parts of a line, each on a line of its own but for the last, which ends as the line did."""
    parts = [line.text[low:high] for low, high in zip([0, *places], [*places, len(line.text)], strict=True)]
    for part in parts[:-1]:
        yield replace(line, text=part, end="\n")
    yield replace(line, text=parts[-1])


def _interleave(random: Random, lines: Lines) -> Lines:
    """Let some lines be written into the middle of others, as threads do that share a stream without a lock."""
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


def _add_program_output(random: Random, lines: Lines) -> Lines:
    """Let the program print among the lines of its log."""
    made: Lines = []
    for line in lines:
        if random.random() < 0.02:
            made.append(_bare(random.choice(_PROGRAM), random.choice(("\n", ""))))
        made.append(line)
    return made


def _truncate(random: Random, lines: Lines) -> Lines:
    """Let the file be truncated while it is written: its beginning becomes a hole."""
    return [_bare("\0" * _HOLE), *lines[random.randrange(len(lines) // 2) :]]


def _leave_holes(random: Random, lines: Lines) -> Lines:
    """Let two blocks of the file not reach the disk before a crash: NULs stand in their place, within lines."""
    made = list(lines)
    for _ in range(2):
        place = random.randrange(len(made))
        block = made[place : place + random.randint(1, 60)]
        begin, last = block[0].text[: random.randrange(len(block[0].text))], block[-1]
        cut = random.randrange(len(last.text))
        is_whole = cut < _LEVEL and not last.head
        rest = replace(last, text=last.text[cut:]) if is_whole else _bare(last.text[cut:], last.end, last.cpu)
        made[place : place + len(block)] = [replace(block[0], text=begin, end=""), _bare("\0" * _HOLE), rest]
    return made


def _fill_disk(random: Random, lines: Lines) -> Lines:
    """Let the disk be full for a while: a line ends early, and the next one that is written stands right behind it."""
    made = list(lines)
    for _ in range(2):
        place = random.randrange(len(made))
        begun = made[place].text[: random.randrange(len(made[place].text))]
        made[place : place + random.randint(1, 200)] = [replace(made[place], text=begun, end="")]
    return made


def _join_in_wrong_order(random: Random, lines: Lines) -> Lines:
    """Let the file be two pieces, of which the later one was put first."""
    place = random.randrange(len(lines))
    return [*lines[place:], *lines[:place]]


def _join_overlapping(random: Random, lines: Lines) -> Lines:
    """Let the file be a copy and what it was copied from, truncated too late: lines of both are there twice."""
    end = random.randrange(len(lines) // 3, len(lines)) + 1
    begin = random.randrange(end)
    return [*lines[:end], *(replace(line) for line in lines[begin:])]


def _rotate(random: Random, lines: Lines) -> Lines:
    """Let the lines between a copy of the file and its truncation be lost, in threads at once, twice."""
    kept = list(lines)
    for _ in range(2):
        place = random.randrange(len(kept))
        del kept[place : place + random.randint(1, 200)]
    return kept


def _lose_file(random: Random, lines: Lines) -> Lines:
    return [] if random.random() < 0.5 else lines


def _cut_both(random: Random, lines: Lines) -> Lines:
    """Let the file begin later and end earlier."""
    first = random.randrange(len(lines) // 3 + 1)
    return lines[first : first + random.randrange(len(lines) // 3, len(lines) + 1)]


def _end_in_crlf(random: Random, lines: Lines) -> Lines:
    del random
    return [replace(line, end="\r\n") for line in lines]


def _strip_colours(random: Random, lines: Lines) -> Lines:
    del random
    return [replace(line, text=_COLOURS.sub("", line.text)) for line in lines]


def _show_colours(random: Random, lines: Lines) -> Lines:
    del random
    return [replace(line, text=line.text.replace("\x1b", "^[")) for line in lines]


def _strip_blanks(random: Random, lines: Lines) -> Lines:
    del random
    return [replace(line, text=line.text.rstrip()) for line in lines]


def _wrap(random: Random, lines: Lines) -> Lines:
    """Break long lines where a terminal does."""
    del random
    return [part for line in lines for part in _split(line, list(range(_WIDTH, len(line.text), _WIDTH)))]


def _lose_on_cpu(random: Random, lines: Lines) -> Lines:
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
        made += [_bare(f"CPU:{cpu} [LOST {lost} EVENTS]", "\n", cpu)] if lost else []
        made.append(line)
        lost = 0
    return made


def _overwrite(random: Random, lines: Lines) -> Lines:
    """Let each CPU's buffer begin at another time: what came before was overwritten."""
    first = {cpu: random.randrange(len(lines) // 2) for cpu in sorted({line.cpu for line in lines})}
    return [line for place, line in enumerate(lines) if place >= first[line.cpu]]


def _lose_cpu(random: Random, lines: Lines) -> Lines:
    cpu = random.choice(sorted({line.cpu for line in lines}))
    return [line for line in lines if line.cpu != cpu]


def _keep_process(random: Random, lines: Lines) -> Lines:
    """Let the events be those of one process."""
    owners = [found.group(1) if (found := _PROCESS.search(line.head)) else "" for line in lines]
    kept = random.choice(sorted(set(owners)))
    return [line for line, owner in zip(lines, owners, strict=True) if owner == kept]


# These leave every line where it was.
LOSSLESS_LOG: dict[str, Damage] = {
    "lines end in CRLF": _end_in_crlf, "colours stripped": _strip_colours, "colours shown": _show_colours,
    "blanks at ends stripped": _strip_blanks, "wrapped": _wrap, "output of the program": _add_program_output,
}  # fmt: skip
FIELD_LOG_DAMAGES: dict[str, Damage] = {
    **LOSSLESS_LOG, "lines in lines": _interleave, "truncated": _truncate, "rotated": _rotate, "file lost": _lose_file,
    "begins late, ends early": _cut_both, "holes": _leave_holes, "disk full": _fill_disk,
    "pieces in wrong order": _join_in_wrong_order, "overlapping pieces": _join_overlapping,
}  # fmt: skip
FIELD_TRACE_DAMAGES: dict[str, Damage] = {
    "one CPU lost records": _lose_on_cpu, "overwritten": _overwrite, "one CPU's file lost": _lose_cpu,
    "events of one process": _keep_process, "begins late, ends early": _cut_both,
}  # fmt: skip
# Pages hold whole records.
FIELD_TEXT_DAMAGES: dict[str, Damage] = {
    **FIELD_TRACE_DAMAGES,
    "holes": _leave_holes,
    "disk full": _fill_disk,
    "overlapping pieces": _join_overlapping,
    "pieces in wrong order": _join_in_wrong_order,
}
