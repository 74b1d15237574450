"""SMI events of the KFD (kfd_smi_events.c): evictions, restores, page faults, migrations, throttling, resets."""

from __future__ import annotations

import errno
import fcntl
import os
import select
import struct
import threading
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import IO

from tracecorr.capture.plan.plan import NO, YES, Finding
from tracecorr.capture.workload.invoker import call_as_root, has_capability

FILE = "raw/kfd_smi.txt"
_DEVICE = Path("/dev/kfd")
_NODES = Path("/sys/class/kfd/kfd/topology/nodes")
# AMDKFD_IOC_SMI_EVENTS (KFD 1.3 and later, kfd_ioctl.h): {u32 gpuid, u32 anon_fd}.
_REQUEST, _ARGUMENTS = 0xC0084B1F, struct.Struct("=II")
# Bit n-1 asks for event n: all events, also those of later kernels; 64 = of all processes.
_MASK = struct.pack("=Q", 0xFFFFFFFF | 1 << 63)
_CAP_SYS_ADMIN = 21
# The driver holds 1 KiB of lines (8 KiB in newer ones), and gives out 8 bytes at a time in the oldest.
_READ_BYTES = 8192
_LOOK_MS = 100


def open_clients(device: Path = _DEVICE, nodes: Path = _NODES) -> dict[int, int]:
    """Return gpu_id -> descriptor of an SMI client for every GPU of the machine; none asks for events yet.

    Raises:
        OSError: the KFD cannot be opened, or refuses a client.
    """
    gpus = list_gpu_ids(nodes)
    clients: dict[int, int] = {}
    kfd = os.open(device, os.O_RDWR | os.O_CLOEXEC)
    try:
        for gpu in gpus:
            answer = fcntl.ioctl(kfd, _REQUEST, _ARGUMENTS.pack(gpu, 0))
            clients[gpu] = _ARGUMENTS.unpack(answer)[1]
            os.set_inheritable(clients[gpu], False)
    except OSError:
        close_clients(clients)
        raise
    finally:
        os.close(kfd)
    return clients


def close_clients(clients: Mapping[int, int]) -> None:
    """Let go of the clients."""
    for descriptor in clients.values():
        os.close(descriptor)


def list_gpu_ids(nodes: Path) -> list[int]:
    """Return the gpu_ids of the KFD's topology; nodes of CPUs have 0."""
    found = []
    for path in nodes.glob("*/gpu_id"):
        try:
            found.append(int(path.read_text()))
        except (OSError, ValueError):  # a node of a GPU that this container may not use
            continue
    return sorted(gpu for gpu in found if gpu)


def look_at_smi(device: Path = _DEVICE, nodes: Path = _NODES) -> tuple[Finding, tuple[int, ...]]:
    """Try to become a client of every GPU; return what came of it, and the GPUs."""
    try:
        clients = open_clients(device, nodes)
    except OSError as error:
        reasons = {errno.ENOENT: f"there is no {device}", errno.ENOTTY: "this driver has none"}
        no_gpu = "the driver has no GPU" if error.errno == errno.EINVAL else str(error.strerror)
        return Finding("SMI events", NO, reasons.get(error.errno or 0, no_gpu)), ()
    close_clients(clients)
    if not clients:
        return Finding("SMI events", NO, "the driver has no GPU"), ()
    if not has_capability(_CAP_SYS_ADMIN):
        why = "without CAP_SYS_ADMIN the driver shows a process its own events only"
        return Finding("SMI events", NO, why, f"run it as root: {call_as_root('...')}"), ()
    return Finding("SMI events", YES, f"of {len(clients)} GPUs"), tuple(clients)


class SmiRecorder:
    """Write the driver's lines to a file as soon as they come, each with the times between which it came.

    Args:
        clients: gpu_id -> descriptor, as `open_clients` gives them; closed by `stop`.
        output: an unbuffered file for the lines (`parse.kfd.smi` tells their form).
    """

    def __init__(self, clients: Mapping[int, int], output: IO[bytes]) -> None:
        self._clients = dict(clients)
        self._output = output
        self._rest: dict[int, tuple[bytes, int, int]] = {}
        self._empty_ns: dict[int, int] = {}
        self._over = threading.Event()
        self._thread: threading.Thread | None = None
        self.discarded_bytes = 0
        self.failure: OSError | None = None
        self.problems: list[str] = []

    def start(self) -> None:
        """Ask for the events, and write them in the background.

        Raises:
            OSError: the driver refused it.
        """
        now = time.monotonic_ns()
        for gpu, client in self._clients.items():
            os.set_blocking(client, False)
            os.write(client, _MASK)
            self._empty_ns[gpu] = now
        self._thread = threading.Thread(target=self._read, name="tracecorr-smi", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Take what is left and let go of the driver; may be called again."""
        self._over.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
            self._take(self._clients)
        for gpu, (rest, after, before) in self._rest.items():
            self._write(gpu, rest, after, before)  # a line without its end; its reader says so
        self._rest = {}
        close_clients(self._clients)
        self._clients = {}
        self._output.close()

    def _read(self) -> None:
        poller = select.poll()
        gpus = {client: gpu for gpu, client in self._clients.items()}
        for client in gpus:
            poller.register(client, select.POLLIN)
        while not self._over.is_set() and gpus:
            now = time.monotonic_ns()
            ready = {gpus[client]: flags for client, flags in poller.poll(_LOOK_MS) if client in gpus}
            self._empty_ns |= {gpu: now for gpu in self._clients if gpu not in ready}
            for gpu in self._take(g for g, flags in ready.items() if flags):
                poller.unregister(self._clients[gpu])
                del gpus[self._clients[gpu]]

    def _take(self, gpus: Iterable[int]) -> list[int]:
        """Take all that the driver has for some GPUs; return those that will give no more."""
        ended = []
        for gpu in gpus:
            try:
                while data := self._read_some(gpu):
                    self._split(gpu, data, time.monotonic_ns())
                ended.append(gpu)
            except BlockingIOError:
                continue
            except OSError as error:
                self.problems.append(f"no more SMI events of GPU {gpu:x}: {error.strerror}")
                ended.append(gpu)
        return ended

    def _read_some(self, gpu: int) -> bytes:
        now = time.monotonic_ns()
        try:
            return os.read(self._clients[gpu], _READ_BYTES)
        except BlockingIOError:
            self._empty_ns[gpu] = now
            raise

    def _split(self, gpu: int, data: bytes, now: int) -> None:
        """Write the whole lines; a line that comes in pieces came with its first one."""
        rest, after, before = self._rest.pop(gpu, (b"", 0, 0))
        if not rest:
            after, before = self._empty_ns[gpu], now
        *lines, tail = (rest + data).split(b"\n")
        for line in lines:
            self._write(gpu, line + b"\n", after, before)
            after, before = self._empty_ns[gpu], now
        if tail:
            self._rest[gpu] = tail, after, before

    def _write(self, gpu: int, line: bytes, after: int, before: int) -> None:
        data = b"%d %d %x %s" % (after, before, gpu, line)
        try:
            if self.failure is None:
                done = self._output.write(data)
                if done == len(data):
                    return
                self.failure = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError as error:
            self.failure = error
        self.discarded_bytes += len(data)
