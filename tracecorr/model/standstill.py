"""What stands still and what it waits for: one shape for a running process and for the end of a capture.

`analyze.still_open` makes a `Scene` of the tables, `live` of what it read of a process; `analyze.hangs` alone says what
follows from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

# Exit statuses of `tracecorr hang`, the mildest first.
NOTHING, UNTOLD, STANDS = 0, 5, 4
ANSWERS = {
    NOTHING: "nothing hangs", UNTOLD: "it cannot be decided whether something hangs", STANDS: "something hangs",
}  # fmt: skip


@dataclass(frozen=True)
class Wait:
    """Hold one condition that must be met before a packet or a thread goes on.

    Args:
        what: `signal`, `value` (of a word in memory), `lock` or `order` (packets before it in its ring).
        told: the condition in words.
        by: keys of the packets, copies and threads that are known to be able to meet it.
        others: what else may meet it, in words; empty = nothing.
        address: signal handle, or address of the value or the lock; None = not known.
    """

    what: str
    told: str
    by: tuple[str, ...] = ()
    others: str = ""
    address: int | None = None


@dataclass(frozen=True)
class Work:
    """Hold a packet or a copy that is not known to have ended.

    Args:
        key: names it in its scene.
        told: what it is, in words.
        ring: key of its ring; empty = none (a copy).
        index: packet index in its ring.
        kernel: name of the kernel of a dispatch.
        waits: what it waits for itself; all of it, or with `any_of` one of it.
        any_of: whether one condition is enough (barrier-OR).
        is_gated: whether it starts only when all packets before it have ended (barrier bit); None = not known.
        event: its row in `events`.
        longest_ns: the longest earlier run of its kernel; None = none has GPU times.
    """

    key: str
    told: str
    ring: str = ""
    index: int | None = None
    kernel: str = ""
    waits: tuple[Wait, ...] = ()
    any_of: bool = False
    is_gated: bool | None = True
    event: int | None = None
    longest_ns: int | None = None

    @property
    def name(self) -> str:
        """Return what it is without the details in brackets."""
        return self.told.partition(" (")[0]


@dataclass(frozen=True)
class Waiter:
    """Hold a thread that is in a call, or waits.

    Args:
        key: names it in its scene.
        told: which thread it is, in words.
        doing: the call or the wait, in words.
        waits: what it waits for; empty = not known.
        for_ns: for how long at least; None = not known.
        event: the call's row in `events`.
    """

    key: str
    told: str
    doing: str
    waits: tuple[Wait, ...] = ()
    for_ns: int | None = None
    event: int | None = None


@dataclass(frozen=True)
class Line:
    """Hold a line of the driver in the kernel log after which queues may stand.

    Args:
        told: the line and its time, in words.
        means, helps: what it says, and what its reader can do (empty if nothing general is known), in words.
        ring: key of the ring that it names; empty = none.
        names_process: whether it names the process.
        event: its row in `events`.
    """

    told: str
    means: str
    helps: str = ""
    ring: str = ""
    names_process: bool = False
    event: int | None = None


@dataclass(frozen=True)
class Slot:
    """Hold what the registers (HQDs) of a ring held.

    Args:
        xccs: on how many XCCs it was active; 0 = it was not mapped.
        error: of its registers the largest CP_HQD_ERROR.
        dequeue_request: not 0 = the driver asked it to leave the GPU.
        is_fetched: PQ_EMPTY on all XCCs: nothing is left that was rung and not fetched.
    """

    xccs: int = 0
    error: int = 0
    dequeue_request: int = 0
    is_fetched: bool = False


@dataclass(frozen=True)
class Ring:
    """Hold a ring with packets that have not ended, as two looks saw it.

    Args:
        key: names it in its scene.
        told: which one it is, in words.
        size: packets that it has room for.
        write, read: its indexes at the second look.
        has_moved: whether a packet ended between the looks.
        lost: packets before the read index whose completion signal was not completed, in words.
        skipped: slots from the read index on that hold no packet any more, or not yet, or one that ended.
        slot: what its registers held; None = they were not read.
    """

    key: str
    told: str
    size: int
    write: int
    read: int
    has_moved: bool
    lost: tuple[str, ...] = ()
    skipped: int = 0
    slot: Slot | None = None


@dataclass(frozen=True)
class Scene:
    """Hold all that stands in one process.

    Args:
        works: packets and copies by key.
        heads: of each ring (key) the first packet that is not known to have ended.
        waiters: threads by key.
        rings: rings by key, where they were looked at.
        halted: why none of its threads can go on (stopped, traced, frozen), in words; empty = they can.
        unmapped: why none of its queues is on the GPU, in words; empty = no such thing is known.
        copies: SDMA copies that began and have no end, in words.
        lines: what the kernel log says of its queues, its GPU or itself.
    """

    works: Mapping[str, Work] = field(default_factory=dict)
    heads: Mapping[str, str] = field(default_factory=dict)
    waiters: Mapping[str, Waiter] = field(default_factory=dict)
    rings: Mapping[str, Ring] = field(default_factory=dict)
    halted: str = ""
    unmapped: str = ""
    copies: tuple[str, ...] = ()
    lines: tuple[Line, ...] = ()
