"""A low workload for tests of `suspend`: it counts its work and its signals in a file."""

from __future__ import annotations

import fcntl
import mmap
import os
import signal
import struct
import time
from pathlib import Path

# Words of the file; COMMAND: 1 = end at once, 2 = destroy the queues, end the runtime, then end.
PROGRESS, CHILDREN, ALARMS, READY, COMMAND = range(5)
_GPU, _COMPUTE_AQL = 0xF7BC, 2
# AMDKFD_IOC_CREATE_QUEUE, DESTROY_QUEUE, RUNTIME_ENABLE (linux/kfd_ioctl.h).
_CREATE, _DESTROY, _RUNTIME = 0xC0584B02, 0xC0084B03, 0xC0104B25
# Kind -> whether it opens the driver, has a runtime, and how many queues.
_KINDS = {
    "plain": (False, False, 0), "open": (True, False, 0), "runtime": (True, True, 0), "queues": (True, False, 2),
    "kfd": (True, True, 2),
}  # fmt: skip
_ARGUMENT = "QQQQIIIIIIQQQII"


def open_words(path: Path) -> memoryview:
    """Return the words of a file, which is made if it is missing."""
    with path.open("a+b") as file:
        file.truncate(8 * 8)
        return memoryview(mmap.mmap(file.fileno(), 8 * 8)).cast("Q")


def main(path: Path, kind: str) -> None:
    """Work until told to end; the kind says what of the driver it has: see `_KINDS`."""
    words, queues = open_words(path), list[int]()

    def count(number: int, _: object) -> None:
        words[CHILDREN if number == signal.SIGCHLD else ALARMS] += 1

    signal.signal(signal.SIGCHLD, count)
    signal.signal(signal.SIGALRM, count)
    opens, has_runtime, count_queues = _KINDS[kind]
    device = os.open("/dev/kfd", os.O_RDWR | os.O_CLOEXEC) if opens else -1
    if has_runtime:
        fcntl.ioctl(device, _RUNTIME, bytearray(struct.pack("QII", 0x7F0000000000, 1, 0)), True)
    for number in range(count_queues):
        argument = bytearray(struct.pack(
            _ARGUMENT, 0x7F1100000000 + (number << 20), 0x7F2200000000, 0x7F2200000008, 0, 0x10000, _GPU, _COMPUTE_AQL,
            100, 7, 0, 0x7F3300000000, 0x1000, 0x7F4400000000, 0x2C02000, 0x2000,
        ))  # fmt: skip
        fcntl.ioctl(device, _CREATE, argument, True)
        queues.append(struct.unpack(_ARGUMENT, argument)[9])
    words[READY] = 1
    while not words[COMMAND]:
        words[PROGRESS] += 1
        time.sleep(0.001)
    if words[COMMAND] == 2 and has_runtime:
        for queue in queues:
            fcntl.ioctl(device, _DESTROY, bytearray(struct.pack("II", queue, 0)))
        fcntl.ioctl(device, _RUNTIME, bytearray(struct.pack("QII", 0, 0, 0)), True)
    os._exit(7)
