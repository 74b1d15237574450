"""Case A: inference of a small convolutional network, a batch of SIZE x SIZE images per launch (PyTorch)."""

from stamps import read_options
from torch import nn
from torch_loop import Device, run_on_stream

options = read_options(__doc__, size=224)
device = Device(options.device)
layers = [nn.Conv2d(3, 64, 7, 2, 3), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
for width in (64, 128, 256):
    layers += [nn.Conv2d(width, 2 * width, 3, 2, 1), nn.BatchNorm2d(2 * width), nn.ReLU()]
model = device.load(nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 1000)))
images = device.random(16, 3, options.size, options.size)
run_on_stream(options, device, lambda: model(images))
