"""The same without PyTorch: fills device memory through libamdhip64 alone, one blit kernel per launch.

Needs Python and a HIP runtime, so that it runs on any ROCm machine and on a runtime without a GPU.
"""

from __future__ import annotations

import ctypes
import os
import time

from stamps import Stamps, read_options

_NON_BLOCKING = 1  # hipStreamNonBlocking


def main() -> None:
    """Fill SIZE x 1024 bytes per launch on a stream of the asked priority."""
    options = read_options(__doc__, with_device=False)
    hip = ctypes.CDLL(os.environ.get("HIP_LIBRARY", "libamdhip64.so.7"))

    def call(name: str, *arguments: object) -> None:
        status = getattr(hip, name)(*arguments)
        if status:
            raise SystemExit(f"{name} failed with {status}")

    stream, memory = ctypes.c_void_p(), ctypes.c_void_p()
    size = ctypes.c_size_t(options.size * 1024)
    call("hipMalloc", ctypes.byref(memory), size)
    call("hipStreamCreateWithPriority", ctypes.byref(stream), _NON_BLOCKING, options.priority)
    stamps = Stamps()
    for number in range(options.iterations):
        stamps.time(
            lambda value=number % 256: call("hipMemsetAsync", memory, value, size, stream),
            lambda: call("hipStreamSynchronize", stream),
        )
        if options.pause_ms:
            time.sleep(options.pause_ms / 1000)
    stamps.print()
    call("hipStreamDestroy", stream)
    call("hipFree", memory)


if __name__ == "__main__":
    main()
