"""Who watches and acts: the channel that workloads share, a command of the user's, and the thread that steers."""

from __future__ import annotations

import mmap
import os
import selectors
import subprocess
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from tracecorr.control.controller import BUSY, HOLD, IDLE, RELEASE, TICK, Action, Actuator, Event
from tracecorr.control.stopping import Guard
from tracecorr.model.errors import InputError

# The variable that names the mapped file to the workloads, and that which says which of them it is.
CHANNEL_VARIABLE, ROLE_VARIABLE = "TRACECORR_CHANNEL", "TRACECORR_ROLE"
_WORDS = 3
# A look at the word of the high one costs less than a microsecond; between two looks the CPU is given away.
_PAUSE_SECONDS = 50e-6
_PATIENCE_SECONDS, _LOOK_SECONDS = 2.0, 0.1


class Channel:
    """A mapped file of three words of 8 bytes, native order, that controller and workloads share.

    Word 0 is written by the controller: not 0 = the low one shall launch nothing. Word 1 is written by the high one:
    how many of its launches are under way. Word 2 is written by the low one: how often it read word 0.
    """

    def __init__(self, path: Path) -> None:
        """Make the file, which the caller's workloads may write, too; the folder is theirs, so no link is followed."""
        path.unlink(missing_ok=True)
        self.descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            os.fchmod(self.descriptor, 0o666)
            os.ftruncate(self.descriptor, 8 * _WORDS)
            self._map = mmap.mmap(self.descriptor, 8 * _WORDS)
        except OSError:
            os.close(self.descriptor)
            raise
        self._words = memoryview(self._map).cast("Q")

    @property
    def busy(self) -> int:
        """Return how many launches of the high one are under way."""
        return self._words[1]

    @property
    def reads(self) -> int:
        """Return how often the low one asked whether it may launch."""
        return self._words[2]

    def forget_high(self) -> None:
        """Take the high one for idle: it has ended amid a launch."""
        self._words[1] = 0

    def hold(self, *, held: bool) -> None:
        """Tell the low one to launch nothing, or to go on."""
        self._words[0] = int(held)

    def close(self) -> None:
        """Let go of the file."""
        self._words.release()
        self._map.close()
        os.close(self.descriptor)


class SharedWord(Actuator):
    """Hold the low one by word 0 of the channel, which it reads before each launch.

    Args:
        channel: the channel.
        guard: sets the word to 0 if this process dies; it has the channel's file, because the path is the workload's,
            which could name another file by then.
    """

    def __init__(self, channel: Channel, guard: Guard) -> None:
        self._channel, self._guard = channel, guard
        guard.tell(f"dd if=/dev/zero of=/proc/self/fd/{channel.descriptor} bs=8 count=1 conv=notrunc")

    def apply(self, action: Action) -> None:
        """Set the word."""
        self._channel.hold(held=action.kind == HOLD)

    def close(self) -> None:
        """Let the guard rest."""
        self._guard.tell("")


class Decider(Protocol):
    """Say what to do after an event: a `Controller`, or a command of the user's."""

    def handle(self, event: Event) -> list[Action]:
        """Return what to do."""


class CommandDecider:
    """Ask a command: a line `KIND NAME TS_NS` on its input per event, lines `hold NAME` or `release NAME` back.

    Args:
        command: a shell command.
    """

    def __init__(self, command: str) -> None:
        self._process = subprocess.Popen(["sh", "-c", command], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self._process.stdin is not None and self._process.stdout is not None
        self._input, self._output = self._process.stdin, self._process.stdout
        os.set_blocking(self._output.fileno(), False)
        self._ready = selectors.DefaultSelector()
        self._ready.register(self._output, selectors.EVENT_READ)
        self._text = b""

    def handle(self, event: Event) -> list[Action]:
        """Tell the command an event other than `tick`; return what it has said until now.

        Raises:
            InputError: it ended, or said something else.
        """
        try:
            if event.kind != TICK:
                self._input.write(f"{event.kind} {event.name} {event.ts_ns}\n".encode())
                self._input.flush()
            if self._ready.select(0):
                self._text += self._read()
        except BrokenPipeError:
            raise self._refuse("it has ended") from None
        *lines, self._text = self._text.split(b"\n")
        return [self._parse(line.decode(errors="replace")) for line in lines]

    def _read(self) -> bytes:
        said = os.read(self._output.fileno(), 4096)
        if not said:
            raise self._refuse("it has ended")
        return said

    def _parse(self, line: str) -> Action:
        kind, _, name = line.strip().partition(" ")
        if kind not in (HOLD, RELEASE) or name != "low":
            raise self._refuse(f"it said {line!r}")
        return Action(kind, name)

    def _refuse(self, why: str) -> InputError:
        return InputError(f"--policy-command: {why}", "it must print `hold low` or `release low`, a line each, flushed")

    def close(self) -> None:
        """End the command."""
        self._ready.close()
        with suppress(OSError):
            self._input.close()
        try:
            self._process.wait(_PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._output.close()


@dataclass(frozen=True)
class Applied:
    """Hold one action that was done.

    Args:
        action: what.
        ts_ns: when it began, CLOCK_MONOTONIC.
        took_ns: until it was done.
    """

    action: Action
    ts_ns: int
    took_ns: int


class Steering:
    """Run a decider in a thread: it sees when the high one is busy, and holds or releases the low one.

    Args:
        decider: says what to do.
        actuator: does it.
        channel: tells when the high one is busy.
        is_high_there: tells whether it runs; one that crashed stays busy by its word for ever.
    """

    def __init__(
        self, decider: Decider, actuator: Actuator, channel: Channel, is_high_there: Callable[[], bool] = lambda: True
    ) -> None:
        self._decider, self._actuator, self._channel = decider, actuator, channel
        self._is_high_there, self._next_look = is_high_there, 0.0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._guard(self._steer), name="steering", daemon=True)
        self._failure: Exception | None = None
        self.applied: list[Applied] = []

    def __enter__(self) -> Steering:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def check(self) -> None:
        """Raise what ended the thread before its time."""
        if self._failure is not None:
            raise self._failure

    def _guard(self, work: Callable[[], None]) -> Callable[[], None]:
        def guarded() -> None:
            try:
                work()
            except Exception as error:
                self._failure = error

        return guarded

    def _steer(self) -> None:
        was_busy = False
        try:
            while not self._over.is_set():
                busy, now = self._is_busy(), time.monotonic_ns()
                kind = TICK if busy == was_busy else BUSY if busy else IDLE
                was_busy = busy
                self._apply(self._decider.handle(Event(kind, "" if kind == TICK else "high", now)))
                self._actuator.tend()
                time.sleep(_PAUSE_SECONDS)
        finally:
            # No workload stays held, also after an error.
            try:
                self._apply([Action(RELEASE, "low")])
            finally:
                self._actuator.close()

    def _is_busy(self) -> bool:
        if self._channel.busy and time.monotonic() >= self._next_look:
            self._next_look = time.monotonic() + _LOOK_SECONDS
            if not self._is_high_there():
                self._channel.forget_high()
        return self._channel.busy > 0

    def _apply(self, actions: Iterable[Action]) -> None:
        for action in actions:
            began = time.monotonic_ns()
            self._actuator.apply(action)
            self.applied.append(Applied(action, began, time.monotonic_ns() - began))
