"""Three processes make 1, then 8, then 30 compute queues in all, and destroy them again; prints when."""

from __future__ import annotations

import fcntl
import os
import struct
import time

_GPU, _COMPUTE_AQL = 0xF7BC, 2
# AMDKFD_IOC_CREATE_QUEUE and DESTROY_QUEUE (linux/kfd_ioctl.h); queue_id is the last of six numbers behind 4 pointers.
_CREATE, _DESTROY = 0xC0584B02, 0xC0084B03
_ARGUMENT = "QQQQIIIIIIQQQII"
# Queues of each process, step by step.
_STEPS = ((1, 4, 14, 4, 0), (0, 4, 10, 4, 0), (0, 0, 6, 0, 0))


def _create(device: int, number: int) -> int:
    argument = bytearray(struct.pack(
        _ARGUMENT, 0x7F1100000000 + (number << 20), 0x7F2200000000, 0x7F2200000008, 0, 0x10000, _GPU, _COMPUTE_AQL,
        100, 7, 0, 0x7F3300000000, 0x1000, 0x7F4400000000, 0x2C02000, 0x2000,
    ))  # fmt: skip
    fcntl.ioctl(device, _CREATE, argument, True)
    return int(struct.unpack(_ARGUMENT, argument)[9])


def _work(steps: tuple[int, ...], told: int, done: int) -> None:
    device, queues = os.open("/dev/kfd", os.O_RDWR), list[int]()
    for wanted in steps:
        os.read(told, 1)
        while len(queues) < wanted:
            queues.append(_create(device, os.getpid() * 64 + len(queues)))
        while len(queues) > wanted:
            fcntl.ioctl(device, _DESTROY, bytearray(struct.pack("II", queues.pop(), 0)))
        os.write(done, b"x")
    os._exit(0)


def main() -> None:
    """Tell each process in turn; print step, queues and CLOCK_MONOTONIC before and after it (ns)."""
    workers = []
    for steps in _STEPS:
        (told, tell), (look, done) = os.pipe(), os.pipe()
        if os.fork() == 0:
            _work(steps, told, done)
        workers.append((tell, look))
    for step in range(len(_STEPS[0])):
        before = time.monotonic_ns()
        for tell, look in workers:
            os.write(tell, b"x")
            os.read(look, 1)
        print("truth", step, sum(steps[step] for steps in _STEPS), before, time.monotonic_ns(), flush=True)
        time.sleep(6)


if __name__ == "__main__":
    main()
