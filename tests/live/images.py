"""SYNTHETIC memory of a process with ROCr's queues, packets and signals, built from their published structures."""

from __future__ import annotations

import struct
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from tracecorr.live.look import Look, Sight, ValueUse
from tracecorr.live.processes import Process, Thread
from tracecorr.live.rings import Queue, read_queue, read_signals

BASE = 0x7F0000000000
SIGNAL_ID = 0x71FCCA6A3D5D5276
DISPATCH, BARRIER_AND, INVALID = 2, 3, 1
_BIT = 0x100


class Image:
    """Hold memory that grows; gives out what lies in it as `Memory` does."""

    def __init__(self) -> None:
        self.data = bytearray()

    def add(self, data: bytes, align: int = 64) -> int:
        """Add bytes; return their address."""
        self.data += bytes(-len(self.data) % align)
        address = BASE + len(self.data)
        self.data += data
        return address

    def put(self, address: int, data: bytes) -> None:
        """Write bytes at an address."""
        self.data[address - BASE : address - BASE + len(data)] = data

    def signal(
        self, value: int, *, event: int = 0, kind: int = 1, queue: int = 0, sdma: tuple[int, int] = (0, 0)
    ) -> int:
        """Add a SharedSignal; return its handle."""
        amd = struct.pack("<qqQIIQQQII", kind, value, 0, event, 0, 0, 0, queue, 0, 0)
        return self.add(amd + struct.pack("<QQQQQ", sdma[0], 0, SIGNAL_ID, 0, sdma[1]) + bytes(24), 128)

    def queue(self, packets: Iterable[bytes], read: int = 0, *, size: int = 64, ahead: int = 0) -> int:
        """Add an amd_queue_t with a ring that holds `packets` from index 0 on, and its doorbell; return its address.

        Args:
            packets: the slots from index 0 on.
            read: the read index.
            size: packets in the ring.
            ahead: packets written behind them, whose slots are INVALID.
        """
        slots = list(packets)
        empty = struct.pack("<H", INVALID) + bytes(62)
        ring = self.add(b"".join((slots + [empty] * size)[:size]), 4096)
        head = struct.pack("<IIQQIIQI", 1, 0, ring, 0, size, 0, 7, 0)
        queue = bytearray(2304)
        queue[: len(head)] = head
        struct.pack_into("<Q", queue, 56, len(slots) + ahead)
        struct.pack_into("<Q", queue, 128, read)
        struct.pack_into("<I", queue, 136, 128)
        address = self.add(bytes(queue), 4096)
        self.signal(0, kind=-1, queue=address)
        return address

    def read(self, address: int, size: int) -> bytes:
        """Return bytes; nothing where some of them are outside."""
        at = address - BASE
        return bytes(self.data[at : at + size]) if at >= 0 and at + size <= len(self.data) else b""

    def words(self, address: int, form: str) -> tuple[int, ...] | None:
        """Return numbers at an address."""
        data = self.read(address, struct.calcsize(form))
        return struct.unpack(form, data) if data else None

    def handles(self) -> list[int]:
        """Return the handles of all signals, as the scan finds them."""
        starts = range(0, len(self.data) - 88, 64)
        return [BASE + at for at in starts if self.words(BASE + at + 80, "<Q") == (SIGNAL_ID,)]


class Pages:
    """Hold memory of some pieces by their address; gives it out as `Memory` does."""

    def __init__(self, pieces: dict[int, bytes]) -> None:
        self.pieces = pieces

    def read(self, address: int, size: int) -> bytes:
        """Return bytes; nothing where some of them are outside."""
        for start, data in self.pieces.items():
            if start <= address and address + size <= start + len(data):
                return data[address - start : address - start + size]
        return b""


def dispatch(kernel_object: int = 0x1000, completion: int = 0, *, kernarg: int = 0) -> bytes:
    """Return a kernel dispatch with its barrier bit."""
    head = struct.pack("<HHHHHHIIIII", DISPATCH | _BIT, 1, 64, 1, 1, 0, 1024, 1, 1, 0, 0)
    return head + struct.pack("<QQQQ", kernel_object, kernarg, 0, completion)


def barrier(*deps: int, completion: int = 0) -> bytes:
    """Return a barrier-AND."""
    return struct.pack("<HHI5QQQ", BARRIER_AND | _BIT, 0, 0, *(*deps, 0, 0, 0, 0, 0)[:5], 0, completion)


def barrier_value(signal: int, value: int, completion: int = 0) -> bytes:
    """Return AMD's barrier_value: goes on when the signal is at least `value`."""
    return struct.pack("<HBBIQQQIIQQQ", _BIT, 2, 0, 0, signal, value, (1 << 64) - 1, 3, 0, 0, 0, completion)


def invalid(completion: int = 0) -> bytes:
    """Return a slot that holds no packet."""
    return struct.pack("<H", INVALID) + bytes(54) + struct.pack("<Q", completion)


def look(image: Image, threads: Iterable[Thread] = (), queues: Iterable[int] = (), at_ns: int = 0) -> Look:
    """Return what a look sees of the image."""
    memory: object = image
    read = [read_queue(memory, address) for address in queues]  # type: ignore[arg-type]
    known: list[Queue] = [queue for queue in read if queue]
    process = Process(9, "app", "S", 0, is_frozen=False, evicted_ms={}, queues={})
    return Look(process, list(threads), known, read_signals(memory, image.handles()), at_ns)  # type: ignore[arg-type]


def sight(
    image: Image, queues: Iterable[int], threads: Iterable[Thread] = (), names: dict[int, str] | None = None,
    values: dict[tuple[int, int], ValueUse] | None = None,
) -> Sight:  # fmt: skip
    """Return two looks at an image that stays as it is, a second apart."""
    looks = [look(image, threads, queues, at_ns) for at_ns in (0, 10**9)]
    return Sight(9, looks, names or {}, values or {})


def registers(
    queue: Queue, doorbell: int, *, active: int = 1, error: int = 0, dequeue: int = 0, empty: bool = False
) -> list[int]:
    """Return the CP registers of a queue, in the order of hqd_dump and of an MQD from word 128 on."""
    words = [0] * 56
    words[2], words[15] = active, doorbell << 2 | 1 << 30
    words[17] = (queue.size * 16).bit_length() - 2 | empty << 15
    for place, value in ((8, queue.ring >> 8), (11, queue.address + 128), (13, queue.address + 56)):
        words[place : place + 2] = value & 0xFFFFFFFF, value >> 32
    words[24], words[51] = dequeue, error
    return words


def mqds(pid: int, *queues: list[int]) -> bytes:
    """Return kfd/mqds of a process with these queues."""
    each = (_hex([0xC0310800, *[0] * 127, *words, *[0] * (512 - 128 - 56)]) for words in queues)
    blocks = "".join(f"  Compute queue on device 65a1\n{text}" for text in each)
    return f"Process {pid} PASID 0x8001:\n{blocks}".encode()


def hqds(*queues: list[int]) -> bytes:
    """Return kfd/hqds of a GPU with these queues in its slots."""
    each = (f" Inst 0,  CP Pipe 0, Queue {n}\n{_hex(words, 0xC914)}" for n, words in enumerate(queues))
    return f"Node 1, gpu_id 65a1:\n{''.join(each)}".encode()


def _hex(words: list[int], start: int = 0) -> str:
    lines = range(0, len(words), 8)
    return "".join(f"    {start + 4 * n:08x}: {' '.join(f'{w:08x}' for w in words[n : n + 8])}\n" for n in lines)


# Maps what it reads from stdin at an address, in 1 GiB of which nothing else is touched; then does as it is told.
_HOLDER = """
import ctypes, mmap, sys, threading, time
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
base, threads = int(sys.argv[1]), int(sys.argv[2])
data = sys.stdin.buffer.read()
fixed, anonymous, private, lazy = 0x10, 0x20, 0x02, 0x4000
at = libc.mmap(base, 1 << 30, 3, fixed | anonymous | private | lazy, -1, 0)
ctypes.memmove(at, data, len(data))
for _ in range(threads):
    threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
print("ready", flush=True)
time.sleep(600)
"""


@contextmanager
def hold(image: Image, threads: int = 0) -> Iterator[subprocess.Popen[bytes]]:
    """Run a process that has the image in its memory, and some threads more."""
    process = subprocess.Popen([sys.executable, "-c", _HOLDER, str(BASE), str(threads)], stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE)  # fmt: skip
    try:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(bytes(image.data))
        process.stdin.close()
        assert process.stdout.readline() == b"ready\n"
        yield process
    finally:
        process.kill()
        process.wait()
