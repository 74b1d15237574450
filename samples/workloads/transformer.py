"""Case B: inference of a Transformer encoder, one batch per launch (PyTorch)."""

import torch
from stamps import read_options
from torch import nn
from torch_loop import run_on_stream

options = read_options(__doc__)
layer = nn.TransformerEncoderLayer(d_model=1024, nhead=16, dim_feedforward=4096, batch_first=True)
model = nn.TransformerEncoder(layer, num_layers=6).cuda().half().eval()
tokens = torch.randn(8, 512, 1024, device="cuda", dtype=torch.float16)
run_on_stream(options, lambda: model(tokens))
