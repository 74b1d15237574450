"""Why something stands still: what waits for what, up to a circle, to work that may run, or to what cannot be seen.

The same rules serve a running process (`live`) and the end of a capture (`still_open`). A circle counts only if each of
its conditions can be met by nobody outside of it; where somebody unseen may meet one, that is told with it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from tracecorr.model.standstill import Scene, Wait, Waiter, Work


class End(StrEnum):
    """Name where a chain of waits ends."""

    CIRCLE = "circle"
    RUNS = "runs"
    UNSEEN = "unseen"


# A condition that several can meet is as good as the best of them; of several conditions the worst counts.
_WORST = (End.CIRCLE, End.UNSEEN, End.RUNS)


@dataclass(frozen=True)
class Chain:
    """Hold what a thread or packet waits for, step by step.

    Args:
        end: where the chain ends.
        steps: each step in words, from the thread on.
        events: rows in `events` of the steps.
        others: who could still end a circle from outside, in words.
        last: key of the last packet or thread.
        is_gated: False if a packet of the chain may pass those before it (its barrier bit is 0, or not known).
    """

    end: End
    steps: tuple[str, ...]
    events: tuple[int, ...] = ()
    others: tuple[str, ...] = ()
    last: str = ""
    is_gated: bool = True


def follow_waits(scene: Scene, key: str) -> Chain:
    """Return the chain of waits of a thread, packet or copy.

    Args:
        scene: all that stands in a process.
        key: of what stands.
    """
    return _follow(scene, key, ())


def describe_chain(chain: Chain) -> str:
    """Return the steps of a chain in one line, and who could end a circle from outside; empty if nothing is known."""
    unless = f"; only {' or '.join(dict.fromkeys(chain.others))} could end it" if chain.others else ""
    return "; ".join(chain.steps) + (unless if chain.end is End.CIRCLE else "")


def list_waits(scene: Scene, key: str) -> tuple[Wait, ...]:
    """Return the conditions of a thread, packet or copy: a packet behind others in its ring waits for the first."""
    if key in scene.waiters:
        return scene.waiters[key].waits
    work = scene.works[key]
    head = scene.heads.get(work.ring, key)
    if head == key:
        return work.waits
    first = scene.works[head]
    behind = Wait("order", f"{work.name} stands behind {first.told} in the same ring", (head,))
    return (behind,)


def _follow(scene: Scene, key: str, path: tuple[str, ...]) -> Chain:
    me: Waiter | Work = scene.waiters.get(key) or scene.works[key]
    own = (me.event,) if me.event is not None else ()
    if key in path:
        return Chain(End.CIRCLE, ("each waits for the next one, the last one for the first: a circle",), last=key)
    waits = list_waits(scene, key)
    if not waits:
        end = End.UNSEEN if isinstance(me, Waiter) else End.RUNS
        return Chain(end, (), own, last=key)
    chains = [_meet(scene, wait, (*path, key)) for wait in waits]
    rank = max if isinstance(me, Work) and me.any_of else min
    found = rank(chains, key=lambda chain: _WORST.index(chain.end))
    gated = found.is_gated and not (isinstance(me, Work) and waits[0].what == "order" and me.is_gated is not True)
    return Chain(found.end, found.steps, (*own, *found.events), found.others, found.last, gated)


def _meet(scene: Scene, wait: Wait, path: tuple[str, ...]) -> Chain:
    """Return the chain behind one condition."""
    if not wait.by:
        return Chain(End.UNSEEN, (wait.told,), others=(wait.others,) if wait.others else (), last=path[-1])
    chains = [_follow(scene, key, path) for key in wait.by]
    best = max(chains, key=lambda chain: _WORST.index(chain.end))
    others = (wait.others, *best.others) if wait.others else best.others
    return Chain(best.end, (wait.told, *best.steps), best.events, others, best.last, best.is_gated)
