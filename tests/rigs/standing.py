"""standing.py SCENE: a HIP program that stands still in a known way, or only seems to; prints `ready`, and stays.

kernel N     launches N kernels and waits for them (NULLGPU_STALL, NULLGPU_LOSE, NULLGPU_KERNEL_NS say what they do)
graph        launches one graph of 4,096 kernels and waits
persistent   launches a kernel, then others on a second stream, one after the other (NULLGPU_STALL=0)
contend      a thread waits for a kernel, three copy on its stream (NULLGPU_KERNEL_NS)
value        waits for a value that the host writes after 20 s, or when it gets a line on stdin
behind       waits for a value that a packet behind it in the ring would write (GPU_MAX_HW_QUEUES=1, NULLGPU_STALL=0)
locks        two threads that hold a mutex each and wait for the other's
stopped      initialises HIP, and stops itself
idle         initialises HIP, and sleeps
"""

import ctypes as C  # noqa: N812
import os
import select
import signal
import sys
import threading
import time
from pathlib import Path

# It stays: a code object is known by where it was loaded from.
CODE = Path("/rig/programs/vadd.gfx942.co").read_bytes()
hip = C.CDLL("libamdhip64.so.7")


def ck(result, what):
    if result:
        print(what, "->", result, flush=True)


def load():
    module, function = C.c_void_p(), C.c_void_p()
    ck(hip.hipModuleLoadData(C.byref(module), CODE), "load")
    ck(hip.hipModuleGetFunction(C.byref(function), module, b"_Z4vaddPKfS0_Pfi"), "function")
    return function


def stream():
    made = C.c_void_p()
    ck(hip.hipStreamCreate(C.byref(made)), "stream")
    return made


class Kernel:
    """Hold a kernel with its arguments."""

    def __init__(self):
        data, n = C.c_void_p(), C.c_int(256)
        ck(hip.hipMalloc(C.byref(data), C.c_size_t(1024)), "malloc")
        self.function, self.given = load(), [C.cast(C.pointer(x), C.c_void_p) for x in (data, data, data, n)]
        self.args = (C.c_void_p * 4)(*self.given)

    def launch(self, on):
        ck(hip.hipModuleLaunchKernel(self.function, 1, 1, 1, 256, 1, 1, 0, on, self.args, None), "launch")


def launch(number):
    kernel, own = Kernel(), stream()
    for _ in range(number):
        kernel.launch(own)
    print("ready", flush=True)
    ck(hip.hipStreamSynchronize(own), "synchronize")


def launch_graph(number):
    kernel, own, graph, made = Kernel(), stream(), C.c_void_p(), C.c_void_p()
    ck(hip.hipStreamBeginCapture(own, 0), "begin capture")
    for _ in range(number):
        kernel.launch(own)
    ck(hip.hipStreamEndCapture(own, C.byref(graph)), "end capture")
    ck(hip.hipGraphInstantiate(C.byref(made), graph, None, None, C.c_size_t(0)), "instantiate")
    ck(hip.hipGraphLaunch(made, own), "launch")
    print("ready", flush=True)
    ck(hip.hipStreamSynchronize(own), "synchronize")


def persist():
    kernel, first, second = Kernel(), stream(), stream()
    kernel.launch(first)
    print("ready", flush=True)
    while True:
        kernel.launch(second)
        ck(hip.hipStreamSynchronize(second), "synchronize")
        time.sleep(0.01)


def contend():
    kernel, own, data = Kernel(), stream(), C.c_void_p()
    ck(hip.hipMalloc(C.byref(data), C.c_size_t(1024)), "malloc")
    kernel.launch(own)

    def copy():
        ck(hip.hipMemcpyAsync(data, data, C.c_size_t(512), 3, own), "copy")

    others = [threading.Thread(target=copy) for _ in range(3)]
    threading.Timer(0.1, lambda: [other.start() for other in others]).start()
    threading.Timer(0.5, lambda: print("ready", flush=True)).start()
    ck(hip.hipStreamSynchronize(own), "synchronize")
    time.sleep(1)
    sys.exit()


def wait_value(writes):
    value, first, second = C.c_void_p(), stream(), stream()
    ck(hip.hipExtMallocWithFlags(C.byref(value), C.c_size_t(8), C.c_uint(2)), "signal memory")
    mask = C.c_uint64(0xFFFFFFFFFFFFFFFF)
    # HIP makes this memory with the value 1.
    ck(hip.hipStreamWaitValue64(first, value, C.c_uint64(2), C.c_uint(0), mask), "wait")
    if writes:
        ck(hip.hipStreamWriteValue64(second, value, C.c_uint64(2), C.c_uint(0)), "write")
    print("ready", flush=True)
    if not writes:
        select.select([sys.stdin], [], [], 20)
        C.cast(value, C.POINTER(C.c_uint64))[0] = 2
        print("written", flush=True)
    ck(hip.hipStreamSynchronize(second if writes else first), "synchronize")


def locks():
    libc = C.CDLL(None)
    mutexes = [(C.c_char * 64)() for _ in range(2)]
    held = threading.Barrier(3)

    def hold(mine, other):
        libc.pthread_mutex_lock(mine)
        held.wait()
        libc.pthread_mutex_lock(other)

    for pair in (mutexes, mutexes[::-1]):
        threading.Thread(target=hold, args=pair, daemon=True).start()
    held.wait()
    print("ready", flush=True)


def stop():
    print("ready", flush=True)
    os.kill(os.getpid(), signal.SIGSTOP)


SCENES = {
    "kernel": lambda: launch(int(sys.argv[2])),
    "graph": lambda: launch_graph(4096),
    "persistent": persist,
    "contend": contend,
    "value": lambda: wait_value(writes=False),
    "behind": lambda: wait_value(writes=True),
    "locks": locks,
    "stopped": stop,
    "idle": lambda: print("ready", flush=True),
}
ck(hip.hipInit(0), "init")
ck(hip.hipFree(None), "context")
SCENES[sys.argv[1]]()
time.sleep(600)
