"""Seconds that `tracecorr hang` takes: 8 processes with 32 queues each (SYNTHETIC memory), and no process at all.

The memory is that of tests/live/images.py, held by processes of their own. Needs root.
"""

from __future__ import annotations

import argparse
import contextlib
import subprocess
import sys
import time
from pathlib import Path

_REPO = Path(__file__).resolve().parents[2]
_ROUNDS = 5
TARGETS = {"8 processes of 32 queues, s": 20.0, "no process, s": 1.0}


def main(words: list[str]) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="scripts/bench hang", description=__doc__)
    parser.add_argument("--processes", type=int, default=8)
    parser.add_argument("--queues", type=int, default=32)
    options = parser.parse_args(words)
    sys.path.insert(0, str(_REPO / "tests" / "live"))
    from images import Image, dispatch, hold

    image = Image()
    done = image.signal(1)
    for _ in range(options.queues):
        image.queue([dispatch(completion=done)] * 50, read=2)
    found = {}
    with contextlib.ExitStack() as stack:
        held = [stack.enter_context(hold(image)) for _ in range(options.processes)]
        pids = [word for process in held for word in ("--pid", str(process.pid))]
        found[f"{options.processes} processes of {options.queues} queues, s"] = _time("hang", *pids)
    # In a process namespace of its own: other programs of this machine may use the GPU.
    alone = ("unshare", "--pid", "--fork", "--mount-proc")
    found["no process, s"] = min(_time("hang", around=alone) for _ in range(_ROUNDS))
    start = min(_time("--version", around=alone) for _ in range(_ROUNDS))
    for name, seconds in found.items():
        target = f" (target {TARGETS[name]:g})" if name in TARGETS else ""
        print(f"{name}: {seconds:.2f}{target}, {seconds / start:.1f} times tracecorr --version")


def _time(*words: str, around: tuple[str, ...] = ()) -> float:
    begun = time.perf_counter()
    subprocess.run([*around, sys.executable, "-m", "tracecorr", *words], stdout=subprocess.DEVNULL, check=False)
    return time.perf_counter() - begun
