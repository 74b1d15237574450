"""Facts about the KFD and DRM drivers that parsers share: ioctl names, layers of functions, errno."""

from tracecorr.read.kfd.fields import layer_of, result_text
from tracecorr.read.kfd.ioctls import ioctl_name, ioctl_names

__all__ = ["ioctl_name", "ioctl_names", "layer_of", "result_text"]
