"""Cooperation by events: the low priority stream waits for an event of the high one before each of its launches."""

import time

import torch
from stamps import Stamps, read_options
from torch_loop import Device

options = read_options(__doc__)
device = Device(options.device)
high, low = device.make_stream(-1), device.make_stream(0)
large, small = device.random(2 * options.size, 2 * options.size), device.random(256, 256)
stamps = Stamps()
with torch.no_grad():
    for _ in range(options.iterations):
        with device.use(high):
            stamps.time(lambda: small @ small, lambda: device.wait(high))
            done = device.record(high)
        with device.use(low):
            device.wait_event(low, done)
            large @ large
        time.sleep(options.pause_ms / 1000)
device.wait()
stamps.print()
