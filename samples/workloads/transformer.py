"""Case B: inference of a Transformer encoder, a batch of SIZE tokens per launch (PyTorch)."""

from stamps import read_options
from torch import nn
from torch_loop import Device, run_on_stream

options = read_options(__doc__, size=512)
device = Device(options.device)
layer = nn.TransformerEncoderLayer(d_model=1024, nhead=16, dim_feedforward=4096, batch_first=True)
model = device.load(nn.TransformerEncoder(layer, num_layers=6, enable_nested_tensor=False))
tokens = device.random(8, options.size, 1024)
run_on_stream(options, device, lambda: model(tokens))
