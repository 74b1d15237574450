"""What the PyTorch workloads share: a stream of the asked priority, and a loop that stamps each launch."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import torch
from stamps import Stamps


def run_on_stream(options: argparse.Namespace, step: Callable[[], object], warm_up: int = 5) -> None:
    """Run `step` on a stream of its own, wait for each one, and print the stamps."""
    stream = torch.cuda.Stream(priority=options.priority)
    stamps = Stamps()
    with torch.cuda.stream(stream), torch.no_grad():
        for _ in range(warm_up):
            step()
        stream.synchronize()
        for _ in range(options.iterations):
            stamps.time(step, stream.synchronize)
            if options.pause_ms:
                time.sleep(options.pause_ms / 1000)
    stamps.print()
