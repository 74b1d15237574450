"""Why something stands still: what waits for what, up to a circle, to work that may run, or to what cannot be seen.

The same rules serve a running process (`live`) and the end of a capture (`still_open`). A circle counts only if each of
nothing outside of it can meet its conditions; if something unseen may meet one, the text says so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from tracecorr.analyze.values import render_ns
from tracecorr.model.standstill import Line, Ring, Scene, Slot, Wait, Waiter, Work


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


def tell_longest(work: Work) -> str:
    """Return the longest earlier run of a kernel in words, in brackets; empty if none is known."""
    return f" (longest earlier run: {render_ns(work.longest_ns)})" if work.longest_ns is not None else ""


def describe_chain(chain: Chain) -> str:
    """Return the steps of a chain in one line, and who could end a circle from outside; empty if nothing is known."""
    unless = f"; only {' or '.join(dict.fromkeys(chain.others))} could end it" if chain.others else ""
    return "; ".join(chain.steps) + (unless if chain.end is End.CIRCLE else "")


def _list_waits(scene: Scene, key: str) -> tuple[Wait, ...]:
    """Return the conditions of a thread, packet or copy: a packet behind others in its ring waits for the first."""
    if key in scene.waiters:
        return scene.waiters[key].waits
    work = scene.works[key]
    head = scene.heads.get(work.ring, key)
    if head == key:
        return work.waits
    first = scene.works[head]
    behind = Wait("order", f"{work.name} is behind {first.told} in the same ring", (head,))
    return (behind,)


def _follow(scene: Scene, key: str, path: tuple[str, ...]) -> Chain:
    me: Waiter | Work = scene.waiters.get(key) or scene.works[key]
    own = (me.event,) if me.event is not None else ()
    if key in path:
        return Chain(
            End.CIRCLE, ("each waits for the next one, the last one for the first: a circular wait",), last=key
        )
    waits = _list_waits(scene, key)
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


_PROVED, _LIKELY, _ONE_OF = "proved", "likely", "one of"
# Kernels that run until a peer, the host or a device acts: RCCL's and rocSHMEM's.
_PEERS = ("ncclDevKernel", "ncclKernel", "rccl", "rocshmem")
_FULL_LEFT = 1


@dataclass(frozen=True)
class Judgment:
    """Hold what stands, in three parts.

    Args:
        cause: `halted`, `deadlock`, `driver`, `error`, `preempted`, `unmapped`, `kernel`, `peers`, `value`,
            `dependency`, `not_taken`, `lost_completion`, `lock` or `signal`.
        certainty: `proved`, `likely`, `one of`; empty if only what was seen is known.
        seen: what was seen, one fact a line.
        means: what that means.
        would_decide: the next harmless look.
        stands: whether it stands for certain: it is proved, or nothing moved for the time that counts as a stall.
    """

    cause: str
    certainty: str
    seen: tuple[str, ...]
    means: str
    would_decide: str
    stands: bool


def judge_scene(scene: Scene, stood_ns: int, stall_ns: int) -> list[Judgment]:
    """Return what stands in a scene; nothing if all moves or nothing is to be done.

    Args:
        scene: two looks at a process.
        stood_ns: time between them.
        stall_ns: what stood so long counts as standing.
    """
    is_long = stood_ns >= stall_ns
    found = [_judge_halt(scene)] if scene.halted else []
    behind: dict[str, list[str]] = {}
    sharing = Counter(_lock_of(waiter) for waiter in scene.waiters.values())
    told: set[int | None] = set()
    for key, waiter in scene.waiters.items():
        if waiter.waits:
            chain = follow_waits(scene, key)
            work = scene.works.get(chain.last)
            if work is not None and work.ring:
                behind.setdefault(work.ring, []).extend(chain.steps)
            elif _lock_of(waiter) not in told and not any(set(chain.steps) & set(other.seen) for other in found):
                found.append(_judge_waiter(scene, waiter, chain, sharing[_lock_of(waiter)] - 1, is_long))
                told |= {_lock_of(waiter)} - {None}
    for key, ring in scene.rings.items():
        if key in scene.heads and not ring.has_moved:
            found.append(_judge_ring(scene, ring, behind.get(key, []), stood_ns, is_long))
    lost = tuple(f"{told}, and the ring has passed that packet" for ring in scene.rings.values() for told in ring.lost)
    if (lost or scene.copies) and not scene.heads:
        found.append(_judge_lost((*lost, *scene.copies), is_long))
    return found


def _judge_halt(scene: Scene) -> Judgment:
    means = "no thread of it can go on; packets that it has written still run on a GPU"
    return Judgment("halted", _PROVED, (f"the process is {scene.halted}",), means, "kill -CONT, or let it thaw", True)


def _lock_of(waiter: Waiter) -> int | None:
    """Return the address of the lock that a thread waits for."""
    return next((wait.address for wait in waiter.waits if wait.what == "lock"), None)


def _judge_waiter(scene: Scene, waiter: Waiter, chain: Chain, others: int, is_long: bool) -> Judgment:
    """Return what a thread stands for whose chain ends at no ring; `others` wait for the same lock."""
    is_lock = any(wait.what == "lock" for wait in waiter.waits)
    if chain.end is End.CIRCLE:
        certainty = _PROVED if is_lock and not chain.others else _LIKELY
        means = "a deadlock: each waits for the next one, in both looks"
        return Judgment("deadlock", certainty, chain.steps, means, _STACKS, certainty == _PROVED or is_long)
    if is_lock:
        last = scene.waiters.get(chain.last) if chain.last != waiter.key else None
        means = f"who holds the lock {'is ' + last.told + ': ' + last.doing if last else 'is not known'}"
        more = (f"{others} more thread{'s wait' if others > 1 else ' waits'} for that lock",) if others else ()
        return Judgment("lock", _LIKELY if last else "", (*chain.steps, *more), means, _STACKS, is_long)
    who = " or ".join(chain.others) or "something that was not seen"
    means = f"no AQL packet is left that completes it: it was lost, or {who} has not completed it yet"
    return Judgment("signal", _ONE_OF, chain.steps, means, _SDMA, is_long)


_STACKS = "the stacks of these threads: py-spy dump --nonblocking, or gdb and eu-stack, which stop the process"
_SDMA = "the same run with HSA_ENABLE_SDMA=0; the pointers of its SDMA queues (tracecorr hqd)"
_REGISTERS = "tracecorr hang --deep (takes locks of the driver): is the queue mapped, in error, asked to leave"
_WAVES = "the waves of the kernel: rocgdb, which stops the process"
_NOT_MAPPED = "the queue is not mapped (evicted, suspended, oversubscribed), or"


def _judge_ring(scene: Scene, ring: Ring, behind: list[str], stood_ns: int, is_long: bool) -> Judgment:
    """Return why the head of a ring stands."""
    head = scene.works[scene.heads[ring.key]]
    seconds = stood_ns / 1e9
    pending = ring.write - (head.index or ring.read)
    seen = [f"{ring.told}: {pending} of {ring.size} packets pending, no packet ended in {seconds:.1f} s; the head is "
            f"{head.told}"]  # fmt: skip
    if ring.skipped:
        upto = f" to {ring.read + ring.skipped - 1}" if ring.skipped > 1 else ""
        why = "done, or reserved by a thread that never published it"
        seen.append(f"slot {ring.read}{upto} is INVALID or ended: {why}")
    if pending >= ring.size - _FULL_LEFT:
        seen.append("the ring is full: who writes the next packet waits")
    chain = follow_waits(scene, head.key)
    seen += [step for step in (*chain.steps, *behind) if step not in seen]
    told = tuple(dict.fromkeys(seen))
    if chain.end is End.CIRCLE:
        certainty = _PROVED if chain.is_gated and not chain.others else _LIKELY
        unless = f"; only {' or '.join(dict.fromkeys(chain.others))} could end it" if chain.others else ""
        means = f"a deadlock: what would let the head go on is behind it{unless}"
        return Judgment("deadlock", certainty, told, means, "who else writes there", certainty == _PROVED or is_long)
    if (judgment := _judge_lines(scene.lines, ring, told, is_long)) is not None:
        return judgment
    if scene.unmapped:
        means = f"its queues are not on the GPU: {scene.unmapped}"
        return Judgment("unmapped", _LIKELY, (*told, scene.unmapped), means, _REGISTERS, is_long)
    if head.waits and chain.end is End.RUNS:
        what = scene.works[chain.last].told
        means = f"it waits for {what}, which runs or waits to run; whether it will end cannot be known from outside"
        return Judgment("dependency", _LIKELY, told, means, _REGISTERS, is_long)
    if head.waits:
        who = " or ".join(chain.others) or "something that was not seen"
        means = f"nothing in the rings that were seen will end the wait: {who} must"
        cause = "value" if any(wait.what == "value" for wait in head.waits) else "dependency"
        decide = "look again after --stall; the log of the run (AMD_LOG_LEVEL=4)"
        return Judgment(cause, _ONE_OF, told, means, decide, is_long)
    return _judge_slot(ring.slot, told, is_long) or _judge_head(head, ring.slot, told, seconds, is_long)


def _judge_lines(lines: Sequence[Line], ring: Ring, seen: tuple[str, ...], is_long: bool) -> Judgment | None:
    """Return what the kernel log says of a ring: what names it is proved, what names its process is likely."""
    named = [line for line in lines if line.ring == ring.key]
    others = [line for line in lines if not line.ring]
    told = (*seen, *(line.told for line in lines if line.ring in ("", ring.key)))
    means = " ".join(dict.fromkeys(line.means for line in (*named, *others)))
    decide = " ".join(dict.fromkeys(line.helps for line in (*named, *others) if line.helps)) or _REGISTERS
    if named:
        return Judgment("driver", _PROVED, told, f"the driver names this queue. {means}", decide, True)
    if not others:
        return None
    if any(line.names_process for line in others):
        return Judgment("driver", _LIKELY, told, f"the driver names this process. {means}", decide, is_long)
    means = f"the driver had trouble since the process began: {means} Or there is another reason"
    return Judgment("driver", _ONE_OF, told, means, decide, is_long)


_UNSEEN = "(not seen on hardware)"


def _judge_slot(slot: Slot | None, seen: tuple[str, ...], is_long: bool) -> Judgment | None:
    """Return what the registers of a ring tell against it; None if nothing."""
    if slot is None:
        return None
    if slot.error:
        means, cause = f"its queue is in error: CP_HQD_ERROR is {slot.error:#x} {_UNSEEN}", "error"
    elif slot.dequeue_request:
        means, cause = f"the driver asked its queue to leave the GPU, and it has not {_UNSEEN}", "preempted"
    elif not slot.xccs:
        who = "evicted, suspended, oversubscribed, or the scheduler is dead"
        means, cause = f"its queue is on no slot of the GPU: {who} {_UNSEEN}", "unmapped"
    else:
        return None
    return Judgment(cause, _LIKELY, seen, means, "the kernel log; tracecorr hqd shows all slots", is_long)


def _judge_head(head: Work, slot: Slot | None, seen: tuple[str, ...], seconds: float, is_long: bool) -> Judgment:
    """Return why a head stands that waits for nothing that can be seen."""
    if head.kernel and any(name in head.kernel for name in _PEERS):
        means = "a collective: it runs until its peers arrive; which rank is missing is seen there"
        return Judgment("peers", _LIKELY, seen, means, "tracecorr hang on the other ranks", is_long)
    if head.kernel:
        means = (
            f"{head.kernel} has been at the head for at least {seconds:.1f} s{tell_longest(head)}; whether it will end "
            f"cannot be known from outside. {_tell_slot(slot)} {_UNSEEN}"
        )
        return Judgment("kernel", "", seen, means, _REGISTERS if slot is None else _WAVES, is_long)
    means = (
        f"nothing that it waits for can be seen: its doorbell was lost, {_NOT_MAPPED if slot is None else 'or'} the "
        f"scheduler is dead {_UNSEEN}"
    )
    return Judgment("not_taken", _ONE_OF, seen, means, _REGISTERS, is_long)


def _tell_slot(slot: Slot | None) -> str:
    if slot is None:
        return "It runs, or the queue is not mapped"
    if slot.is_fetched:
        return "Its queue is mapped and has fetched all that was rung: it runs, or a doorbell was lost"
    return "Its queue is mapped: it runs"


def _judge_lost(seen: tuple[str, ...], is_long: bool) -> Judgment:
    means = (
        "no AQL packet is left, and a signal is not completed: the completion was lost, or SDMA, a handler of the host "
        f"or another process uses the signal now and has not completed it yet {_UNSEEN}"
    )
    return Judgment("lost_completion", _ONE_OF, seen, means, _SDMA, is_long)
