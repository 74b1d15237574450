"""Stamps for `tracecorr experiment`: one line per launch, printed at the end so that printing costs no launch."""

from __future__ import annotations

import argparse
import mmap
import os
import pathlib
import sys
import time


class Channel:
    """Cooperate with the controller of `experiment preempt`, through the file that TRACECORR_CHANNEL names.

    Its words of 8 bytes, native order: 0 = the low one shall launch nothing, 1 = launches of the high one under way,
    2 = how often the low one read word 0. Without the variable nobody is held and nothing is told.
    """

    def __init__(self) -> None:
        path, self._role = os.environ.get("TRACECORR_CHANNEL"), os.environ.get("TRACECORR_ROLE")
        self._words = None
        if path:
            with pathlib.Path(path).open("r+b") as file:
                self._words = memoryview(mmap.mmap(file.fileno(), 0)).cast("Q")

    def begin(self) -> None:
        """Before a launch: the high one announces it, the low one waits while it is held."""
        if self._words is None:
            return
        if self._role == "high":
            self._words[1] += 1
            return
        self._words[2] += 1
        while self._words[0]:
            time.sleep(50e-6)

    def end(self) -> None:
        """After a launch has completed."""
        if self._words is not None and self._role == "high":
            self._words[1] -= 1


class Stamps:
    """Collect START RETURN COMPLETE of each launch, CLOCK_MONOTONIC in ns."""

    def __init__(self) -> None:
        self._rows: list[tuple[int, int, int]] = []
        self._channel = Channel()

    def time(self, launch, wait) -> None:
        """Call `launch`, then `wait` for its end."""
        self._channel.begin()
        start = time.monotonic_ns()
        launch()
        returned = time.monotonic_ns()
        wait()
        self._rows.append((start, returned, time.monotonic_ns()))
        self._channel.end()

    def print(self) -> None:
        """Print all stamps."""
        sys.stdout.write("".join(f"tracecorr-stamp {a} {b} {c}\n" for a, b, c in self._rows))
        sys.stdout.flush()


def read_options(
    about: str | None, size: int = 2048, pause_ms: float = 0, with_device: bool = True
) -> argparse.Namespace:
    """Return the options that all workloads share.

    Args:
        about: what the workload does.
        size, pause_ms: defaults of these options.
        with_device: whether it can do without a GPU.
    """
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--iterations", type=int, default=200, help="launches")
    parser.add_argument("--size", type=int, default=size, help=f"size of the problem ({size})")
    asked = int(os.environ.get("TRACECORR_PRIORITY", "0"))
    parser.add_argument("--priority", type=int, default=asked, help="stream priority: -1 high, 0 normal, 1 low")
    parser.add_argument("--pause-ms", type=float, default=pause_ms, help="pause between launches")
    if with_device:
        parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda", help="cpu: try it without a GPU")
    return parser.parse_args()
