"""GEMM: one matrix product of SIZE x SIZE per launch (PyTorch)."""

from stamps import read_options
from torch_loop import Device, run_on_stream

options = read_options(__doc__)
device = Device(options.device)
a, b = (device.random(options.size, options.size) for _ in range(2))
run_on_stream(options, device, lambda: a @ b)
