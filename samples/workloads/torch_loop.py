"""What the PyTorch workloads share: the device, streams of a priority, and a loop that stamps each launch."""

from __future__ import annotations

import argparse
import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
from stamps import Stamps


class Device:
    """Open the GPU (`cuda`: also the name that PyTorch for ROCm uses), or the CPU, where streams do nothing.

    Args:
        name: `cuda` or `cpu`.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._gpu = name != "cpu"
        self.dtype = torch.float16 if self._gpu else torch.float32

    def random(self, *shape: int) -> torch.Tensor:
        """Return a tensor of random numbers."""
        return torch.randn(*shape, device=self.name, dtype=self.dtype)

    def load(self, model: torch.nn.Module) -> torch.nn.Module:
        """Return a model on the device, ready to be used."""
        return model.to(self.name, self.dtype).eval()

    def make_stream(self, priority: int) -> Any:
        """Return a stream; the CPU has none."""
        return torch.cuda.Stream(priority=priority) if self._gpu else None

    @contextlib.contextmanager
    def use(self, stream: Any) -> Iterator[None]:
        """Launch on a stream."""
        with torch.cuda.stream(stream) if self._gpu else contextlib.nullcontext():
            yield

    def wait(self, stream: Any = None) -> None:
        """Wait for a stream, or for all."""
        if self._gpu:
            stream.synchronize() if stream is not None else torch.cuda.synchronize()

    def record(self, stream: Any) -> Any:
        """Return an event at the end of a stream."""
        return stream.record_event() if self._gpu else None

    def wait_event(self, stream: Any, event: Any) -> None:
        """Let a stream wait for an event of another one."""
        if self._gpu:
            stream.wait_event(event)


def run_on_stream(options: argparse.Namespace, device: Device, step: Callable[[], object], warm_up: int = 5) -> None:
    """Run `step` on a stream of its own, wait for each one, and print the stamps."""
    stream = device.make_stream(options.priority)
    stamps = Stamps()
    with device.use(stream), torch.no_grad():
        for _ in range(warm_up):
            step()
        device.wait(stream)
        for _ in range(options.iterations):
            stamps.time(step, lambda: device.wait(stream))
            if options.pause_ms:
                time.sleep(options.pause_ms / 1000)
    stamps.print()
