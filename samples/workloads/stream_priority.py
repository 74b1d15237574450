"""A high and a low priority stream in one process: the low one is kept full, the high one is stamped (PyTorch)."""

import time

import torch
from stamps import Stamps, read_options
from torch_loop import Device

options = read_options(__doc__)
device = Device(options.device)
high, low = device.make_stream(-1), device.make_stream(0)
large, small = device.random(4 * options.size, 4 * options.size), device.random(256, 256)
stamps = Stamps()
with torch.no_grad():
    for _ in range(options.iterations):
        with device.use(low):
            large @ large
        with device.use(high):
            stamps.time(lambda: small @ small, lambda: device.wait(high))
        time.sleep(options.pause_ms / 1000)
device.wait()
stamps.print()
