"""A workload for the null GPU: kernels launched with events of their own, so that HIP logs when each ran on the GPU."""

from __future__ import annotations

import ctypes
import time

from stamps import Stamps, read_options

_CODE = "/rig/programs/vadd.gfx942.co"
_ITEMS = 65536


def main() -> None:
    """Launch a kernel of the rig on a stream of the asked priority, and wait for each."""
    options = read_options(__doc__, with_device=False)
    hip = ctypes.CDLL("libamdhip64.so.7")

    def call(name: str, *arguments: object) -> None:
        if status := getattr(hip, name)(*arguments):
            raise SystemExit(f"{name} failed with {status}")

    stream, start, stop = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
    module, kernel, buffers = ctypes.c_void_p(), ctypes.c_void_p(), [ctypes.c_void_p() for _ in range(3)]
    with open(_CODE, "rb") as file:  # noqa: PTH123
        call("hipModuleLoadData", ctypes.byref(module), file.read())
    call("hipModuleGetFunction", ctypes.byref(kernel), module, b"_Z4vaddPKfS0_Pfi")
    for buffer in buffers:
        call("hipMalloc", ctypes.byref(buffer), ctypes.c_size_t(4 * _ITEMS))
    call("hipStreamCreateWithPriority", ctypes.byref(stream), 1, options.priority)
    for event in (start, stop):
        call("hipEventCreate", ctypes.byref(event))
    values = [*buffers, ctypes.c_int(_ITEMS)]
    given = (ctypes.c_void_p * 4)(*[ctypes.cast(ctypes.pointer(value), ctypes.c_void_p) for value in values])
    stamps, took = Stamps(), ctypes.c_float()

    def wait() -> None:
        call("hipEventSynchronize", stop)
        call("hipEventElapsedTime", ctypes.byref(took), start, stop)  # only now the runtime reads, and logs, the times

    for _ in range(options.iterations):
        stamps.time(
            lambda: call(
                "hipExtModuleLaunchKernel", kernel, _ITEMS, 1, 1, 256, 1, 1, ctypes.c_size_t(0), stream, given, None,
                start, stop, 0,
            ),
            wait,
        )  # fmt: skip
        if options.pause_ms:
            time.sleep(options.pause_ms / 1000)
    stamps.print()
    call("hipStreamDestroy", stream)
    call("hipDeviceReset")


if __name__ == "__main__":
    main()
