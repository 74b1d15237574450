"""Put the pieces of one HIP log together: a log that was cut, rotated or split over files is one log."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from tracecorr.model.checksum import Checksum
from tracecorr.model.errors import quote_path
from tracecorr.read.amdlog.blocks import LogBytes
from tracecorr.store import frames
from tracecorr.store.log_ends import LogEnds, read_ends
from tracecorr.store.log_order import Border, follows, group_by_threads, judge_border, meet
from tracecorr.store.log_ranges import open_bytes
from tracecorr.store.raw import CHUNK_BYTES, read_chunks, store_pieces

# Lines of the beginning of a log that are looked for in another one.
_SAMPLES = 3
_RECORD = re.compile(rb"^:\d:.* \d+d? us:.*$", re.MULTILINE)


@dataclass(frozen=True)
class Piece:
    """Name a piece of a log.

    Args:
        log: the file.
        repeated: so many of its first bytes are the last ones of what is before it.
        proven: whether it is known that no line lacks before it.
    """

    log: LogEnds
    repeated: int = 0
    proven: bool = True


@dataclass
class Arrangement:
    """Hold which files are pieces of which log.

    Args:
        logs: the pieces of each log that has more than one, in the order of time.
        doubts: sentences on files that may belong together and stay apart, or share lines.
    """

    logs: list[list[Piece]] = field(default_factory=list)
    doubts: list[str] = field(default_factory=list)


def arrange_logs(names: Mapping[Path, str]) -> Arrangement:
    """Find out which files are pieces of one log.

    Args:
        names: the files, plain or in frames, and what the user calls them.

    Raises:
        InputError: a file cannot be read.
    """
    found = Arrangement()
    timed = [log for log in (read_ends(path, name) for path, name in names.items()) if log.is_timed]
    groups = []
    for group in group_by_threads(timed):
        logs, doubts = _arrange_group(group)
        groups.append(logs)
        found.doubts += doubts
    found.logs = [pieces for logs in groups for pieces in logs if len(pieces) > 1]
    found.doubts += _list_strangers(groups)
    return found


def join_pieces(pieces: list[Piece]) -> Path:
    """Write the pieces of a log as one file, remove their own, and return where it is: in the place of the first.

    Raises:
        InputError: a piece cannot be read.
    """
    paths = [piece.log.path for piece in pieces]
    compress = any(path.suffix == frames.SUFFIX for path in paths)
    whole = paths[0].with_name(paths[0].name.removesuffix(frames.SUFFIX))
    stored = store_pieces(_read_pieces(pieces), whole.with_name(f".{whole.name}"), Checksum(), compress=compress)
    for path in paths:
        path.unlink()
    return stored.rename(stored.with_name(stored.name.removeprefix(".")))


def _read_pieces(pieces: list[Piece]) -> Iterator[bytes]:
    """Yield the bytes of all pieces; the line that a piece ends within goes on in the next, unless one begins there."""
    last = b"\n"
    for piece in pieces:
        if last != b"\n" and not piece.repeated and piece.log.begins_record:
            yield b"\n"
        left = piece.repeated
        for chunk in read_chunks(piece.log.path):
            fresh, left = chunk[left:], max(0, left - len(chunk))
            if fresh:
                yield fresh
                last = fresh[-1:]


def _arrange_group(group: list[LogEnds]) -> tuple[list[list[Piece]], list[str]]:
    """Return the logs that files with the same threads hold, each in pieces, and what is not sure of them."""
    logs, doubts = [[Piece(group[0])]], []
    for log in group[1:]:
        # What is a part of another piece shows nothing more.
        kept = [[piece.log for piece in pieces if piece.repeated < piece.log.size] for pieces in logs]
        before = kept[-1][-1]
        if repeated := _count_repeated(before, log):
            logs[-1].append(Piece(log, repeated))
            continue
        met = next((other for pieces in kept for other in pieces if meet(other, log)), None)
        if met and (log.threads or _holds_lines_of(met, log)):
            return [[Piece(log)] for log in group], [_describe_meeting(met, log)]
        border = Border(goes_on=False) if met else judge_border(kept[-1], log)
        if border.goes_on:
            logs[-1].append(Piece(log, proven=border.proven))
            continue
        logs.append([Piece(log)])
        doubts += [_describe_doubt(before, log, border.doubt)] if border.doubt else []
    return logs, doubts


def _list_strangers(groups: list[list[list[Piece]]]) -> list[str]:
    """Return doubts about logs without a beginning that have a pid, but no thread, in common with one before them."""
    doubts = []
    for group in groups:
        first = group[0][0].log
        others = [pieces for other in groups if other is not group for pieces in other]
        earlier = [
            pieces[-1].log for pieces in others
            if pieces[0].log.head.begun and pieces[-1].log.pids & first.pids and follows(pieces[-1].log, first)
        ]  # fmt: skip
        if earlier and not first.head.begun:
            before = max(earlier, key=lambda log: log.span[1])
            doubts.append(_describe_doubt(before, first, "no thread is seen in both"))
    return doubts


def _count_repeated(before: LogEnds, log: LogEnds) -> int:
    """Return how many of the first bytes of a log are the last ones of another, or a part of it; 0 = none."""
    lines = _first_lines(log)
    if not lines:
        return 0
    start, line = lines[0]
    with open_bytes(before.path) as earlier, open_bytes(log.path) as later:
        for place in _find_all(earlier, line):
            count = min(before.size - (place - start), log.size)
            if place >= start and _are_equal(earlier, place - start, later, count):
                return count
    return 0


def _find_all(data: LogBytes, text: bytes) -> Iterator[int]:
    place = data.find(text, 0, len(data))
    while place >= 0:
        yield place
        place = data.find(text, place + 1, len(data))


def _are_equal(one: LogBytes, start: int, other: LogBytes, count: int) -> bool:
    return all(
        one[start + at : start + min(at + CHUNK_BYTES, count)] == other[at : min(at + CHUNK_BYTES, count)]
        for at in range(0, count, CHUNK_BYTES)
    )


def _first_lines(log: LogEnds) -> list[tuple[int, bytes]]:
    """Return some of the first records of a log, with their offsets."""
    return [(found.start(), found.group()) for found in islice(_RECORD.finditer(log.first_bytes), _SAMPLES)]


def _holds_lines_of(before: LogEnds, log: LogEnds) -> bool:
    """Tell whether the first lines of a log are lines of another one, too."""
    lines = _first_lines(log)
    with open_bytes(before.path) as earlier:
        return bool(lines) and all(earlier.find(line, 0, len(earlier)) >= 0 for _, line in lines)


def _describe_meeting(before: LogEnds, log: LogEnds) -> str:
    told = _name_processes(before.pids & log.pids)
    if _holds_lines_of(before, log):
        return (
            f"{log.name} holds lines of {before.name} again: they count twice, and threads{told} may not be linked to "
            "the trace; import files that share no lines"
        )
    return (
        f"{before.name} and {log.name} show the same threads{told} at the same times, as containers with equal pids "
        "and addresses do: they stay apart, and these threads may not be linked to the trace; import each container "
        "alone"
    )


def _describe_doubt(before: LogEnds, log: LogEnds, reason: str) -> str:
    join = f"cat {quote_path(before.name)} {quote_path(log.name)}"
    return (
        f"{before.name} and {log.name} may be pieces of one log{_name_processes(before.pids & log.pids)}, but "
        f"{reason}: they stay apart, and nothing is linked across; if they are one log, join them: {join}"
    )


def _name_processes(pids: set[int]) -> str:
    return f" of process {', '.join(map(str, sorted(pids)))}" if pids else ""
