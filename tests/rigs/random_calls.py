"""random_calls.py SEED STEPS THREADS JOURNAL: make random HIP calls from some threads, and write down each of them.

The journal is a JSON list, in the order of their ends: thread (tid), name, start_ns and end_ns (CLOCK_MONOTONIC),
result, stream (handle, 0 = null stream), what (what the call is there for, see below).

HIP 7.2.4 itself crashes where a thread waits for all streams while another one makes or destroys some. So only a thread
that is alone works on the null stream, waits for a whole device, and destroys streams before the end.

HIP_LIBRARY names the library of another release.
"""

from __future__ import annotations

import ctypes
import json
import os
import random
import sys
import threading
import time
from typing import Any

HIP = ctypes.CDLL(os.environ.get("HIP_LIBRARY", "libamdhip64.so.7"))
CODE_OBJECT = f"/rig/programs/vadd.{os.environ.get('NULLGPU_GFX', 'gfx942')}.co"
ELEMENTS = 16384
BYTES = ctypes.c_size_t(ELEMENTS * 4)
HOST_TO_DEVICE, DEVICE_TO_HOST, DEVICE_TO_DEVICE = 1, 2, 3
RELAXED_CAPTURE, NON_BLOCKING = 2, 1
HOST_FUNCTION = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda _: None)

journal: list[tuple[Any, ...]] = []


def call(name: str, *args: Any, stream: int = 0, what: str = "") -> int:
    """Make a call and write it down; return its result."""
    start = time.monotonic_ns()
    result: int = getattr(HIP, name)(*args)
    journal.append((threading.get_native_id(), name, start, time.monotonic_ns(), result, stream, what))
    return result


def make(name: str, *args: Any, **more: Any) -> ctypes.c_void_p:
    """Make a call that returns something by its first argument."""
    made = ctypes.c_void_p()
    call(name, ctypes.byref(made), *args, **more)
    return made


class Device:
    """A device with its kernel and the buffers that it works on."""

    def __init__(self, number: int, code: bytes) -> None:
        call("hipSetDevice", number)
        self.number = number
        module = make("hipModuleLoadData", code)
        self.kernel = make("hipModuleGetFunction", module, b"_Z4vaddPKfS0_Pfi")
        self.buffers = [make("hipMalloc", BYTES) for _ in range(3)]
        self._count = ctypes.c_int(ELEMENTS)
        pointers = [ctypes.cast(ctypes.pointer(x), ctypes.c_void_p) for x in (*self.buffers, self._count)]
        self.arguments = (ctypes.c_void_p * 4)(*pointers)


class Worker:
    """What one thread has made so far, and the calls that it can make next."""

    def __init__(self, seed: int, devices: list[Device], *, alone: bool) -> None:
        self._random = random.Random(seed)
        self._device = self._random.choice(devices)
        self._alone = alone
        self._streams: list[ctypes.c_void_p] = []
        self._events: list[ctypes.c_void_p] = []
        self._graphs: list[ctypes.c_void_p] = []
        self._steps = [
            (30, self._launch), (14, self._copy), (4, self._fill), (7, self._create_stream), (3, self._create_event),
            (6, self._record), (4, self._wait_for_event), (3, self._ask_event), (4, self._synchronize),
            (2, self._ask_stream), (2, self._call_host), (4, self._capture), (5, self._launch_graph),
            (1, self._read_error), (1, self._fail), (2, self._refuse), (1, self._break_capture),
        ]  # fmt: skip
        if alone:
            self._steps += [
                (3, self._destroy_stream), (4, self._copy_and_wait), (2, self._allocate), (1, self._synchronize_device),
            ]  # fmt: skip

    def run(self, steps: int) -> None:
        """Make random calls on the thread that asks for it."""
        call("hipSetDevice", self._device.number)
        self._host = make("hipHostMalloc", BYTES, 0)
        self._mine = [make("hipMalloc", BYTES) for _ in range(2)]
        if not self._alone:
            self._create_stream()
        weights, actions = zip(*self._steps, strict=True)
        for _ in range(steps):
            self._random.choices(actions, weights)[0]()

    def destroy(self) -> None:
        """Wait for the streams that are left, and destroy them, but for one."""
        call("hipDeviceSynchronize")
        for stream in self._streams[:1]:
            call("hipStreamSynchronize", stream, stream=stream.value or 0)
        for stream in self._streams[1:]:
            call("hipStreamDestroy", stream, stream=stream.value or 0)

    def _pick(self) -> tuple[ctypes.c_void_p, dict[str, int]]:
        """Return a stream, at times the null stream, and what the journal says of it."""
        null = self._alone and (not self._streams or self._random.random() < 0.15)
        stream = ctypes.c_void_p(None) if null else self._random.choice(self._streams)
        return stream, {"stream": stream.value or 0}

    def _launch(self, blocks: int = 0, what: str = "dispatch", on: ctypes.c_void_p | None = None) -> None:
        stream, told = self._pick() if on is None else (on, {"stream": on.value or 0})
        size = (blocks or self._random.randrange(1, 64), 1, 1, 256, 1, 1, 0)
        call("hipModuleLaunchKernel", self._device.kernel, *size, stream, self._device.arguments, None,
             **told, what=what)  # fmt: skip

    def _copy(self) -> None:
        stream, told = self._pick()
        target, source, way = self._random.choice([
            (self._mine[0], self._host, HOST_TO_DEVICE), (self._host, self._mine[0], DEVICE_TO_HOST),
            (self._mine[1], self._mine[0], DEVICE_TO_DEVICE),
        ])  # fmt: skip
        call("hipMemcpyAsync", target, source, BYTES, way, stream, **told)

    def _fill(self) -> None:
        stream, told = self._pick()
        call("hipMemsetAsync", self._mine[0], self._random.randrange(256), BYTES, stream, **told)

    def _create_stream(self) -> None:
        if len(self._streams) >= 8:
            return
        flags = self._random.choice([0, NON_BLOCKING]) if self._alone else NON_BLOCKING
        ways: list[tuple[str, tuple[int, ...]]] = [
            ("hipStreamCreateWithFlags", (flags,)),
            ("hipStreamCreateWithPriority", (flags, self._random.choice([-1, 0, 1]))),
        ]
        if self._alone:
            ways.append(("hipStreamCreate", ()))
        name, more = self._random.choice(ways)
        self._streams.append(make(name, *more))

    def _destroy_stream(self) -> None:
        if len(self._streams) > 2:
            stream = self._streams.pop(self._random.randrange(len(self._streams)))
            call("hipStreamDestroy", stream, stream=stream.value or 0)

    def _copy_and_wait(self) -> None:
        memory = (ctypes.c_float * ELEMENTS)()
        size = ctypes.c_size_t(4 * self._random.choice([1, 100, ELEMENTS]))
        if self._random.random() < 0.5:
            call("hipMemcpy", self._mine[0], memory, size, HOST_TO_DEVICE)
        else:
            call("hipMemcpy", memory, self._mine[0], size, DEVICE_TO_HOST)

    def _create_event(self) -> None:
        self._events.append(make("hipEventCreateWithFlags", self._random.choice([0, 2])))

    def _record(self) -> None:
        if self._events:
            stream, told = self._pick()
            call("hipEventRecord", self._random.choice(self._events), stream, **told)

    def _wait_for_event(self) -> None:
        if self._events:
            stream, told = self._pick()
            call("hipStreamWaitEvent", stream, self._random.choice(self._events), 0, **told)

    def _ask_event(self) -> None:
        if self._events:
            call(self._random.choice(["hipEventSynchronize", "hipEventQuery"]), self._random.choice(self._events))

    def _synchronize(self) -> None:
        stream, told = self._pick()
        call("hipStreamSynchronize", stream, **told)

    def _ask_stream(self) -> None:
        stream, told = self._pick()
        call("hipStreamQuery", stream, **told)

    def _call_host(self) -> None:
        stream, told = self._pick()
        call("hipLaunchHostFunc", stream, HOST_FUNCTION, None, **told)

    def _capture(self) -> None:
        if not self._streams:
            return
        stream = self._random.choice(self._streams)
        told = {"stream": stream.value or 0}
        if call("hipStreamBeginCapture", stream, RELAXED_CAPTURE, **told):
            return
        branch = self._random.choice(self._streams)
        if branch.value != stream.value:
            self._follow(stream, branch)
        for _ in range(self._random.randrange(1, 6)):
            if self._random.random() < 0.7:
                self._launch(4, "captured", self._random.choice([stream, branch]))
            else:
                call("hipMemsetAsync", self._mine[0], 1, BYTES, stream, **told, what="captured")
        if branch.value != stream.value:
            self._follow(branch, stream)
        graph = ctypes.c_void_p()
        if call("hipStreamEndCapture", stream, ctypes.byref(graph), **told) == 0:
            # The stream that HIP makes for the graph's branch may get the address of one that was destroyed.
            if self._alone and branch.value != stream.value:
                self._streams.remove(branch)
                call("hipStreamDestroy", branch, stream=branch.value or 0)
            self._graphs.append(make("hipGraphInstantiate", graph, None, None, ctypes.c_size_t(0)))
            call("hipGraphDestroy", graph)

    def _break_capture(self) -> None:
        """Break the capture of a stream, as a wait does; the stream stays broken."""
        stream = make("hipStreamCreateWithFlags", NON_BLOCKING)
        told = {"stream": stream.value or 0}
        call("hipStreamBeginCapture", stream, RELAXED_CAPTURE, **told)
        self._launch(4, "captured", stream)
        call("hipStreamSynchronize", stream, **told)
        for _ in range(self._random.randrange(1, 4)):
            self._launch(4, "broken", stream)
            call("hipMemcpyHtoDAsync", self._mine[0], self._host, BYTES, stream, **told, what="broken")
        call("hipStreamEndCapture", stream, ctypes.byref(ctypes.c_void_p()), **told)
        self._launch(4, "broken", stream)

    def _refuse(self) -> None:
        stream, told = self._pick()
        call("hipModuleLaunchKernel", self._device.kernel, 1, 1, 1, 2048, 1, 1, 0, stream, self._device.arguments, None,
             **told, what="refused")  # fmt: skip

    def _follow(self, first: ctypes.c_void_p, second: ctypes.c_void_p) -> None:
        """Let what is captured on a stream next come after what was captured on another one."""
        event = make("hipEventCreateWithFlags", 2)
        call("hipEventRecord", event, first, stream=first.value or 0)
        call("hipStreamWaitEvent", second, event, 0, stream=second.value or 0)

    def _launch_graph(self) -> None:
        if self._graphs and self._random.random() < 0.2:
            call("hipGraphExecDestroy", self._graphs.pop(self._random.randrange(len(self._graphs))))
        if self._graphs:
            stream, told = self._pick()
            call("hipGraphLaunch", self._random.choice(self._graphs), stream, **told, what="graph")

    def _allocate(self) -> None:
        stream, told = self._pick()
        memory = ctypes.c_void_p()
        if call("hipMallocAsync", ctypes.byref(memory), BYTES, stream, **told) == 0:
            call("hipFreeAsync", memory, stream, **told)

    def _synchronize_device(self) -> None:
        call("hipDeviceSynchronize")

    def _read_error(self) -> None:
        call("hipGetLastError")

    def _fail(self) -> None:
        call("hipStreamCreate", None)


def main(seed: int, steps: int, threads: int, path: str) -> None:
    """Run the threads to their ends and write the journal."""
    with open(CODE_OBJECT, "rb") as stream:  # noqa: PTH123
        code = stream.read()
    count = ctypes.c_int()
    call("hipGetDeviceCount", ctypes.byref(count))
    devices = [Device(number, code) for number in range(count.value)]
    workers = [Worker(1000 * seed + n, devices, alone=threads == 1) for n in range(threads)]
    running = [threading.Thread(target=worker.run, args=(steps,)) for worker in workers]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    for worker in workers:
        worker.destroy()
    call("hipDeviceReset")
    with open(path, "w") as stream:  # noqa: PTH123
        json.dump(journal, stream)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
