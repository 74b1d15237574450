"""Case A: inference of a small convolutional network, one batch per launch (PyTorch)."""

import torch
from stamps import read_options
from torch import nn
from torch_loop import run_on_stream

options = read_options(__doc__)
layers = [nn.Conv2d(3, 64, 7, 2, 3), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
for width in (64, 128, 256):
    layers += [nn.Conv2d(width, 2 * width, 3, 2, 1), nn.BatchNorm2d(2 * width), nn.ReLU()]
model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 1000)).cuda().half().eval()
images = torch.randn(16, 3, 224, 224, device="cuda", dtype=torch.float16)
run_on_stream(options, lambda: model(images))
