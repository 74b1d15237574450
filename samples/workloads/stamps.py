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
    parser.add_argument("--priority", type=int, default=0, help="stream priority: -1 high, 0 normal, 1 low")
    parser.add_argument("--pause-ms", type=float, default=pause_ms, help="pause between launches")
    if with_device:
        parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda", help="cpu: try it without a GPU")
    return parser.parse_args()
