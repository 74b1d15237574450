"""Facts about the KFD and DRM drivers that parsers share: ioctl names, layers of functions, errno."""
