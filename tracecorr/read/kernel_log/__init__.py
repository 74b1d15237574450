"""Reads kernel logs: dmesg, /dev/kmsg and the journal; what their lines say of queues, processes and GPUs."""

from __future__ import annotations

from tracecorr.read.kernel_log.catalogue import DRIVER_MESSAGE, MESSAGES
from tracecorr.read.kernel_log.lines import looks_like_kernel_log
from tracecorr.read.kernel_log.reader import list_fields, name_messages, read_kernel_log

__all__ = ["DRIVER_MESSAGE", "MESSAGES", "list_fields", "looks_like_kernel_log", "name_messages", "read_kernel_log"]
