"""Read one log in several places at once, with exactly the rows that one pass gives.

The log is cut where one pass ends its blocks. A reader of a later range starts some blocks before it (`lookback`),
and what it read there is thrown away: at the border it then knows what one pass knows, unless a call was open for
longer than that. Whether it does is not assumed: both sides of each border tell their `State`, and a range whose start
differs from the end of the one before it is read again from there (`agrees`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from tracecorr.model.parts import Block
from tracecorr.read.amdlog.blocks import LogBytes
from tracecorr.read.amdlog.details import Question
from tracecorr.read.amdlog.reader import Reader, State
from tracecorr.read.text import Text

# A block is twice the bytes for which rows wait for the exit of an open call.
_LOOKBACK_BLOCKS = 1


@dataclass(frozen=True)
class LogRange:
    """Name the blocks of a range.

    Args:
        borders: first byte of each block of the lookback and the range, and the byte behind the last one.
        lookback: how many of these blocks are read only for what they leave to the next.
        is_last: whether the log ends with it.
    """

    borders: tuple[int, ...]
    lookback: int
    is_last: bool


def plan_ranges(borders: Sequence[int], count: int, lookback: int = _LOOKBACK_BLOCKS) -> list[LogRange]:
    """Return at most `count` ranges of whole blocks, as equal as blocks allow.

    Args:
        borders: of all blocks, from `find_borders`.
        count: how many ranges are wanted.
        lookback: how many blocks before its range a reader starts.
    """
    blocks = len(borders) - 1
    count = max(1, min(count, blocks))
    starts = [blocks * i // count for i in range(count)]
    ranges = []
    for start, stop in zip(starts, [*starts[1:], blocks], strict=True):
        early = max(0, start - lookback)
        ranges.append(LogRange(tuple(borders[early : stop + 1]), start - early, stop == blocks))
    return ranges


def _feed(reader: Reader, data: LogBytes, borders: Sequence[int]) -> Iterator[Block]:
    """Yield the rows of some blocks.

    Args:
        reader: stands at the first of them.
        data: the whole log.
        borders: first byte of each block, and the byte behind the last one.
    """
    for start, stop in pairwise(borders):
        yield reader.read(Text(data[start:stop]))


def read_range(reader: Reader, data: LogBytes, part: LogRange) -> Iterator[Block]:
    """Yield the rows of a range, and what it books.

    Args:
        reader: is behind the lookback.
        data: the whole log.
        part: which blocks of it.
    """
    reader.take_counts()
    yield from _feed(reader, data, part.borders[part.lookback :])
    if part.is_last:
        yield reader.finish()
    yield reader.take_counts()


def look_back(reader: Reader, data: LogBytes, part: LogRange) -> None:
    """Read the lookback of a range for what it leaves to the range."""
    for _ in _feed(reader, data, part.borders[: part.lookback + 1]):
        pass


def agrees(true_end: State, start: State, end: State) -> bool:
    """Tell whether a reader of a range read it as one pass does.

    Args:
        true_end: what one pass knows at the border.
        start, end: what the reader of the range behind it knew at its start and its end.
    """
    if true_end.carried != start.carried:
        return False
    return all(q.answer() == _with_more(q, true_end).answer() for q in end.asked - start.asked)


def _with_more(question: Question, known: State) -> Question:
    as_ring, as_queue = question.address in known.rings, question.address in known.queues
    return replace(question, as_ring=question.as_ring or as_ring, as_queue=question.as_queue or as_queue)


def join_states(true_end: State, end: State) -> State:
    """Return what one pass knows at the end of a range that agreed with what one pass knew at its start."""
    return State(end.carried, true_end.rings | end.rings, true_end.queues | end.queues, end.asked)
