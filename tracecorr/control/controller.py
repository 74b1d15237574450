"""Which workload is held back, and when: events in, actions out; an actuator does what an action says."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tracecorr.model.errors import InputError

# Kinds of events: a workload has work for the GPU, has none, has ended; time passes.
BUSY, IDLE, ENDED, TICK = "busy", "idle", "ended", "tick"
# Kinds of actions.
HOLD, RELEASE = "hold", "release"


@dataclass(frozen=True)
class Event:
    """Say what happened.

    Args:
        kind: `busy`, `idle`, `ended` or `tick`.
        name: of the workload; "" for `tick`.
        ts_ns: when, CLOCK_MONOTONIC.
    """

    kind: str
    name: str
    ts_ns: int


@dataclass(frozen=True)
class Action:
    """Say what to do: `hold` or `release` the workload `name`."""

    kind: str
    name: str


class HoldError(InputError):
    """Report why a workload may not or cannot be held back; then none is held."""


class Actuator:
    """Do what actions say; all calls come from one thread, which ends after `close`.

    `reached` counts the processes or queues that were held, in all holds together; 0 if one is only asked.
    """

    reached = 0

    def apply(self, action: Action) -> None:
        """Hold or release a workload.

        Raises:
            HoldError: this may not or cannot be done.
        """
        raise NotImplementedError

    def tend(self) -> None:
        """Do what is due between two actions."""

    def close(self) -> None:
        """Undo what was changed; then no workload is held."""


@dataclass
class _Member:
    priority: int
    share: float = 0.0
    is_busy: bool = False
    is_held: bool = False


class Controller:
    """Hold workloads while one of higher priority is busy; some of them get a share of each period all the same.

    >>> controller = Controller()
    >>> controller.register("inference", priority=1)
    >>> controller.register("training")
    >>> controller.handle(Event(BUSY, "inference", 0))
    [Action(kind='hold', name='training')]
    >>> controller.handle(Event(IDLE, "inference", 5))
    [Action(kind='release', name='training')]
    """

    def __init__(self) -> None:
        self._members: dict[str, _Member] = {}
        self._period_ns = 0
        self._contended_ns: int | None = None

    def register(self, name: str, priority: int = 0) -> None:
        """Know a workload; the higher priority goes first."""
        self._members[name] = _Member(priority)

    def set_priority(self, name: str, priority: int) -> None:
        """Change a priority; it acts with the next event."""
        self._members[name].priority = priority

    def slice(self, name: str, share: float, period_ns: int) -> None:
        """Let a workload run for the last part of each period while it would be held.

        Args:
            name: the workload.
            share: of the period, between 0 and 1.
            period_ns: the period; it begins when the workload would be held.

        Raises:
            ValueError: the share is no share, or the period is not positive.
        """
        if not 0 <= share <= 1 or period_ns <= 0:
            raise ValueError(f"a share of {share} of {period_ns} ns")
        self._members[name].share, self._period_ns = share, period_ns

    def handle(self, event: Event) -> list[Action]:
        """Return what to do after an event, which may be nothing."""
        if event.kind == ENDED:
            self._members.pop(event.name, None)
        elif event.kind in (BUSY, IDLE):
            self._members[event.name].is_busy = event.kind == BUSY
        return list(self._settle(event.ts_ns))

    def _settle(self, now_ns: int) -> Iterator[Action]:
        most = max((m.priority for m in self._members.values() if m.is_busy), default=None)
        below = {name for name, m in self._members.items() if most is not None and m.priority < most}
        if not below:
            self._contended_ns = None
        elif self._contended_ns is None:
            self._contended_ns = now_ns
        for name, member in self._members.items():
            held = name in below and not self._has_turn(member, now_ns)
            if held != member.is_held:
                member.is_held = held
                yield Action(HOLD if held else RELEASE, name)

    def _has_turn(self, member: _Member, now_ns: int) -> bool:
        if not member.share or self._contended_ns is None:
            return False
        place = (now_ns - self._contended_ns) % self._period_ns
        return place >= self._period_ns * (1 - member.share)
