"""Signals to the capture: received in one thread, so that nothing is interrupted half-way."""

from __future__ import annotations

import contextlib
import os
import queue
import select
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from types import FrameType, TracebackType

WATCHED = (signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGCHLD)
# `nohup` and a script's `&` ignore these for a reason: a blocked signal would be received all the same.
_MAY_BE_IGNORED = (signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP)


@dataclass(frozen=True)
class Received:
    """A signal, and whether a process sent it: the terminal's Ctrl-C reaches the workload by itself."""

    number: signal.Signals
    from_process: bool


class Interrupted(BaseException):
    """A signal that ends a phase of the capture arrived: what the phase had not done is left."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


class SignalInbox:
    """Block the watched signals in all threads and collect them; `descriptor` is readable when there are some.

    What the caller made this process ignore stays ignored.
    """

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[Received] = queue.SimpleQueue()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._collect, name="signals", daemon=True)
        self._watched: tuple[signal.Signals, ...] = ()
        self._main = threading.get_ident()
        self._raises = False
        self.descriptor = -1

    def __enter__(self) -> SignalInbox:
        self._watched = tuple(number for number in WATCHED if not _is_ignored(number))
        self._before = signal.pthread_sigmask(signal.SIG_BLOCK, self._watched)
        self.descriptor = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        return self

    def start(self) -> None:
        """Start to collect; called after the fork of the workload, what came before is not lost."""
        self._thread.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        if self._thread.ident is not None and self._thread.is_alive():
            signal.pthread_kill(self._thread.ident, signal.SIGCHLD)  # wakes it
            self._thread.join()
        # What came too late to be obeyed must not end the process now.
        while signal.sigtimedwait(self._watched, 0) is not None:
            pass
        os.close(self.descriptor)
        signal.pthread_sigmask(signal.SIG_SETMASK, self._before)

    def take(self) -> list[Received]:
        """Return what has arrived since the last call."""
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self.descriptor)
        found = []
        with contextlib.suppress(queue.Empty):
            while True:
                found.append(self._queue.get_nowait())
        return found

    def drop(self, number: int, seconds: float) -> None:
        """Wait so many seconds at most for a signal, and drop it; others that arrive meanwhile are kept."""
        until, kept, is_there = time.monotonic() + seconds, list[Received](), False
        while not is_there and (left := until - time.monotonic()) > 0:
            if select.select([self.descriptor], [], [], left)[0]:
                arrived = self.take()
                is_there = any(received.number == number for received in arrived)
                kept += [received for received in arrived if received.number != number]
        for received in kept:
            self._put(received)

    @contextlib.contextmanager
    def interruptible(self) -> Iterator[None]:
        """Let the first signal that ends a capture raise `Interrupted` in this thread, the main one, at once.

        Raises:
            Interrupted: it came, here or after the last `take`.
        """
        ending = [number for number in self._watched if number in _MAY_BE_IGNORED]
        before = {number: signal.signal(number, self._raise) for number in ending}
        self._raises = True
        try:
            if early := [received.number for received in self.take() if received.number in ending]:
                raise Interrupted(early[0])
            signal.pthread_sigmask(signal.SIG_UNBLOCK, ending)
            yield
        finally:
            signal.pthread_sigmask(signal.SIG_BLOCK, ending)
            self._raises = False
            for number, handler in before.items():
                signal.signal(number, handler)

    def _raise(self, number: int, _frame: FrameType | None) -> None:
        # Nothing may interrupt what leaves the phase.
        signal.pthread_sigmask(signal.SIG_BLOCK, self._watched)
        raise Interrupted(number)

    def _collect(self) -> None:
        while True:
            # Not sigtimedwait: stopped (Ctrl-Z) for longer than its limit it returns a signal that nobody
            # sent, whatever the memory holds (CPython 3.11).
            info = signal.sigwaitinfo(self._watched)
            if self._over.is_set():
                return
            if self._raises and info.si_signo in _MAY_BE_IGNORED:
                signal.pthread_kill(self._main, info.si_signo)
                continue
            # SI_USER, SI_TKILL and the like are not positive; the kernel's own codes are.
            self._put(Received(signal.Signals(info.si_signo), info.si_code <= 0))

    def _put(self, received: Received) -> None:
        self._queue.put(received)
        os.eventfd_write(self.descriptor, 1)


def _is_ignored(number: signal.Signals) -> bool:
    return number in _MAY_BE_IGNORED and signal.getsignal(number) == signal.SIG_IGN
