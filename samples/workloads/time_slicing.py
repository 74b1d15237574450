"""Time slicing by hand: work in slices of a few launches with a pause between them, so that others get the GPU."""

import torch
from stamps import read_options
from torch_loop import run_on_stream

_LAUNCHES_IN_SLICE = 8

options = read_options(__doc__)
a = torch.randn(options.size, options.size, device="cuda", dtype=torch.float16)


def run_slice() -> None:
    """Launch one slice."""
    for _ in range(_LAUNCHES_IN_SLICE):
        torch.matmul(a, a)


options.pause_ms = options.pause_ms or 2
run_on_stream(options, run_slice)
