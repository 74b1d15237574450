"""A high and a low priority stream in one process: the low one is kept full, the high one is stamped (PyTorch)."""

import torch
from stamps import Stamps, read_options

options = read_options(__doc__)
high, low = torch.cuda.Stream(priority=-1), torch.cuda.Stream(priority=0)
large = torch.randn(4 * options.size, 4 * options.size, device="cuda", dtype=torch.float16)
small = torch.randn(256, 256, device="cuda", dtype=torch.float16)
stamps = Stamps()
with torch.no_grad():
    for _ in range(options.iterations):
        with torch.cuda.stream(low):
            large @ large
        with torch.cuda.stream(high):
            stamps.time(lambda: small @ small, high.synchronize)
torch.cuda.synchronize()
stamps.print()
