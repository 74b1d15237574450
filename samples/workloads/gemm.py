"""GEMM: one matrix product of SIZE x SIZE per launch (PyTorch)."""

import torch
from stamps import read_options
from torch_loop import run_on_stream

options = read_options(__doc__)
a, b = (torch.randn(options.size, options.size, device="cuda", dtype=torch.float16) for _ in range(2))
run_on_stream(options, lambda: a @ b)
