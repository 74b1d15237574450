"""Stamps for `tracecorr experiment`: one line per launch, printed at the end so that printing costs no launch."""

from __future__ import annotations

import argparse
import sys
import time


class Stamps:
    """Collect START RETURN COMPLETE of each launch, CLOCK_MONOTONIC in ns."""

    def __init__(self) -> None:
        self._rows: list[tuple[int, int, int]] = []

    def time(self, launch, wait) -> None:
        """Call `launch`, then `wait` for its end."""
        start = time.monotonic_ns()
        launch()
        returned = time.monotonic_ns()
        wait()
        self._rows.append((start, returned, time.monotonic_ns()))

    def print(self) -> None:
        """Print all stamps."""
        sys.stdout.write("".join(f"tracecorr-stamp {a} {b} {c}\n" for a, b, c in self._rows))
        sys.stdout.flush()


def read_options(about: str) -> argparse.Namespace:
    """Return the options that all workloads share."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--iterations", type=int, default=200, help="launches")
    parser.add_argument("--size", type=int, default=2048, help="size of the problem")
    parser.add_argument("--priority", type=int, default=0, help="stream priority: -1 high, 0 normal, 1 low")
    parser.add_argument("--pause-ms", type=float, default=0, help="pause between launches")
    return parser.parse_args()
