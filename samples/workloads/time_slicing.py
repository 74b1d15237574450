"""Time slicing by hand: work in slices of a few launches with a pause between them, so that others get the GPU."""

from stamps import read_options
from torch_loop import Device, run_on_stream

_LAUNCHES_IN_SLICE = 8

options = read_options(__doc__, pause_ms=2)
device = Device(options.device)
a = device.random(options.size, options.size)


def run_slice() -> None:
    """Launch one slice."""
    for _ in range(_LAUNCHES_IN_SLICE):
        a @ a


run_on_stream(options, device, run_slice)
