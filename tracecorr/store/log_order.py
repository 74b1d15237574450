"""Which HIP logs are pieces of one: a file of one process that goes on where another one ends."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tracecorr.model.kinds import FIRST_LINE
from tracecorr.store.log_ends import LogEnd, LogEnds

# Threads that share a queue print their packets in another order than they took the indexes, some lines apart.
_MOST_SWAPPED = 32
_WRAP = 2**32
# A process prints so many lines before that of its beginning, at most; all known logs begin with it.
_MOST_EARLY = 10
# A line of another thread is written so long after its stamp was taken, at most.
_LATE_NS = 10_000_000


@dataclass(frozen=True)
class Border:
    """Say whether a file goes on with another one.

    Args:
        goes_on: it does.
        proven: packet indexes show that nothing lacks between them.
        doubt: why it is not sure that it does not; empty where a process begins in it.
    """

    goes_on: bool
    doubt: str = ""
    proven: bool = False


def group_by_threads(logs: Iterable[LogEnds]) -> list[list[LogEnds]]:
    """Return the logs that show the same threads (pid and pthread address), directly or through others, by time.

    Those whose lines name no thread are one group.
    """
    groups: list[list[LogEnds]] = []
    for log in sorted(logs, key=lambda log: log.span):
        mine = [group for group in groups if any(log.threads & x.threads or log.threads == x.threads for x in group)]
        groups = [group for group in groups if group not in mine]
        groups.append([*(other for group in mine for other in group), log])
    return [sorted(group, key=lambda log: log.span) for group in groups]


def follows(before: LogEnds, log: LogEnds) -> bool:
    """Tell whether a log begins when another one has ended."""
    return log.span[0] >= before.span[1] - _LATE_NS


def meet(before: LogEnds, log: LogEnds) -> bool:
    """Tell whether two logs, in the order of time, show the same moments: one thread, or all of them by far."""
    threads = before.threads & log.threads
    return not follows(before, log) or any(
        min(span[0] for span in log.spans_of(thread)) < max(span[1] for span in before.spans_of(thread))
        for thread in threads
    )


def judge_border(pieces: list[LogEnds], log: LogEnds) -> Border:
    """Tell whether a log goes on with others.

    The same pid and thread addresses alone are no proof: containers have the same pids, and without ASLR the same
    addresses. So the packet indexes of all queues seen on both sides must go on without a gap. Where no index tells it,
    the beginning of the process must be in the pieces, and the log must begin no later than lines are silent for
    elsewhere. A log in which a process begins goes on with none.

    Args:
        pieces: the log before it, in pieces; none of their threads is seen in both at one time.
        log: the log.
    """
    before = pieces[-1]
    head = log.head_behind(before)
    shared = {pid for pid, _ in before.tail.spans.keys() & head.spans.keys()}
    begun = {pid for piece in pieces for pid, _ in piece.head.begun}
    if _begins_anew(pieces, head):
        return Border(goes_on=False)
    if not shared:
        reason = "no thread is seen on both sides of the border" if log.threads else "their lines name no pid and tid"
        return Border(goes_on=False, doubt=reason)
    told = _compare_rings(before.tail, head)
    if told is False:
        return Border(goes_on=False, doubt="the packet indexes of their queues do not go on from one to the other")
    silence = head.stamps[0] - before.tail.stamps[-1]
    at_once = silence <= max(before.tail.longest_silence_ns, head.longest_silence_ns)
    if told or (shared & begun and at_once):
        return Border(goes_on=True, proven=told is True)
    return Border(goes_on=False, doubt="nothing shows that the one goes on where the other ends")


def _begins_anew(pieces: list[LogEnds], head: LogEnd) -> bool:
    """Tell whether a process begins in an end of a log whose pid another one has in the pieces before it."""
    seen = {pid for piece in pieces for pid in (*piece.pids, None)}
    named = {pid for piece in pieces for pid, line in piece.head.begun if line == FIRST_LINE}
    return any(
        pid in seen and place <= _MOST_EARLY and (line == FIRST_LINE or pid not in named)
        for (pid, line), place in head.begun.items()
    )


def _compare_rings(tail: LogEnd, head: LogEnd) -> bool | None:
    """Tell whether the packet indexes of all rings go on from one end to the next; None = no ring tells it."""
    told = [
        _goes_on(tail.rings[queue][-_MOST_SWAPPED:], head.rings[queue][:_MOST_SWAPPED])
        for queue in tail.rings.keys() & head.rings.keys()
    ]
    return None if all(x is None for x in told) else False not in told


def _goes_on(last: list[int | None], first: list[int | None]) -> bool | None:
    """Compare the packets of a ring at an end with the next ones; None = it cannot be told."""
    ends, begins = ([(n, x) for n, x in enumerate(part) if x is not None] for part in (last[::-1], first))
    if not ends or not begins:
        return None
    if len(ends) == len(last) and len(begins) == len(first):
        return _are_whole({_step(ends[0][1], x) for _, x in ends}, {_step(ends[0][1], x) for _, x in begins})
    # Releases up to 6.4 print no index of a barrier; its line counts.
    differs = abs(_step(ends[0][1], begins[0][1]) - (ends[0][0] + begins[0][0] + 1))
    return None if 0 < differs <= _MOST_SWAPPED else not differs


def _are_whole(last: set[int], first: set[int]) -> bool:
    """Tell whether indexes follow each other without a gap; those near the border may change places."""
    low, high = min(first), max(last)
    between = set(range(low, high + 1))
    return low <= high + 1 and len(between) <= _MOST_SWAPPED and not last & first and between <= last | first


def _step(start: int, index: int) -> int:
    """Return how far an index is behind another one; the log prints the lower 32 bits."""
    return (index - start + _WRAP // 2) % _WRAP - _WRAP // 2
