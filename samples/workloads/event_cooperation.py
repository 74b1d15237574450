"""Cooperation by events: the low priority stream waits for an event of the high one before each of its launches."""

import torch
from stamps import Stamps, read_options

options = read_options(__doc__)
high, low = torch.cuda.Stream(priority=-1), torch.cuda.Stream(priority=0)
large = torch.randn(2 * options.size, 2 * options.size, device="cuda", dtype=torch.float16)
small = torch.randn(256, 256, device="cuda", dtype=torch.float16)
done, stamps = torch.cuda.Event(), Stamps()
with torch.no_grad():
    for _ in range(options.iterations):
        with torch.cuda.stream(high):
            stamps.time(lambda: small @ small, high.synchronize)
            done.record(high)
        with torch.cuda.stream(low):
            low.wait_event(done)
            large @ large
torch.cuda.synchronize()
stamps.print()
