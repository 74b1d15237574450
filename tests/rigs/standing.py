"""standing.py SCENE: a HIP program that stands still in a known way, or only seems to; prints `ready`, and stays.

kernel   launches N kernels and waits for them (NULLGPU_STALL, NULLGPU_LOSE, NULLGPU_KERNEL_NS say what becomes of them)
many     launches 4,096 kernels and waits
value    waits for a value that the host writes when it gets a line on stdin, then waits for the stream
behind   waits for a value that a packet behind it in the same ring would write (GPU_MAX_HW_QUEUES=1, NULLGPU_STALL=0)
locks    two threads that hold a mutex each and wait for the other's
idle     initialises HIP, and sleeps
"""

import ctypes as C  # noqa: N812
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


def launch(number):
    function, own, n = load(), stream(), C.c_int(256)
    data = C.c_void_p()
    ck(hip.hipMalloc(C.byref(data), C.c_size_t(1024)), "malloc")
    given = [C.cast(C.pointer(x), C.c_void_p) for x in (data, data, data, n)]
    args = (C.c_void_p * 4)(*given)
    for _ in range(number):
        ck(hip.hipModuleLaunchKernel(function, 1, 1, 1, 256, 1, 1, 0, own, args, None), "launch")
    print("ready", flush=True)
    ck(hip.hipStreamSynchronize(own), "synchronize")


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
        sys.stdin.readline()
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


scene = sys.argv[1]
ck(hip.hipInit(0), "init")
ck(hip.hipFree(None), "context")
if scene in ("kernel", "many"):
    launch(4096 if scene == "many" else int(sys.argv[2]))
elif scene in ("value", "behind"):
    wait_value(scene == "behind")
elif scene == "locks":
    locks()
else:
    print("ready", flush=True)
time.sleep(600)
