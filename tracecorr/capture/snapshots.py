"""Snapshots beside the trace: queue dumps, sysfs counters, and which devices the workload has open."""

from __future__ import annotations

import contextlib
import json
import re
import time
from collections.abc import Container, Iterable
from pathlib import Path
from typing import Any

from tracecorr.capture.debugfs import KFD_DEBUGFS, read_kfd_dump
from tracecorr.capture.folder import RecordingFolder
from tracecorr.capture.plan.plan import PARTLY, YES, Finding
from tracecorr.capture.workload.paths import glob_inside
from tracecorr.model.errors import MachineError
from tracecorr.read.kfd.topology import SDMA_TYPES, parse_properties
from tracecorr.store.raw import read_topology

_POLL_SECONDS = 1.0
# A read of hqds is some 600,000 register reads under a lock of the driver on 8 GPUs: rests are longer than reads.
_REST_FACTOR = 20
# Tables count the files of a capture in 16 bits; some are left for its logs.
_MOST_DUMPS = 60_000
_KFD = Path("/sys/class/kfd/kfd")
_CARDS = Path("/sys/class/drm")
# cu_occupancy is never read: it takes locks of the shader processors; nor is sdma_*: it waits for the lock of the queue
# manager, which a hung scheduler holds (kfd_process.c, Linux 6.12).
_PROCESS_COUNTERS, _QUEUE_FIELDS = ("vram_*",), ("gpuid", "size", "type")
_CARD_COUNTERS = ("gpu_busy_percent", "mem_busy_percent", "mem_info_vram_used")
_DEVICES = ("/dev/kfd", "/dev/dri/")
# A library of a Python package among the mappings of a process; its version is the name of a folder beside it.
_PACKAGE = re.compile(r" (/\S*/(?:site|dist)-packages)/(\w+)(?:\.libs)?/\S*\.so")
_MOST_PACKAGES = 32


class Snapshots:
    """Take the snapshots of one capture.

    Args:
        folder: the capture folder.
        hqd_interval: seconds between reads of `hqds`; None: never.
        debugfs, kfd, cards: where the kernel shows them.
    """

    def __init__(
        self,
        folder: RecordingFolder,
        hqd_interval: float | None = None,
        debugfs: Path = KFD_DEBUGFS,
        kfd: Path = _KFD,
        cards: Path = _CARDS,
    ) -> None:
        self._folder = folder
        self._interval = hqd_interval
        self._debugfs, self._kfd, self._cards = debugfs, kfd, cards
        self._next_hqds = self._next_poll = 0.0
        self._dumps = 0
        self.devices: dict[int, dict[str, Any]] = {}
        self.packages: dict[str, str] = {}
        self.problems: list[str] = []

    def tick(self, pids: Iterable[int]) -> None:
        """Do what is due: a poll each second, a read of `hqds` at its interval."""
        now = time.monotonic()
        if now >= self._next_poll:
            self._next_poll = now + _POLL_SECONDS
            self._poll(frozenset(pids))
        if self._interval is not None and now >= self._next_hqds:
            rest = max(self._interval, _REST_FACTOR * self._dump("hqds"))
            self._next_hqds = time.monotonic() + rest
            self._end_dumps()

    def finish(self) -> None:
        """Read `mqds` once: which queues exist, also while none runs."""
        if (self._debugfs / "mqds").exists():
            self._dump("mqds")

    def _end_dumps(self) -> None:
        """Take no more dumps than a capture can hold."""
        self._dumps += 1
        if self._interval is not None and self._dumps >= _MOST_DUMPS:
            self.problems.append(f"no more snapshots of hqds: a capture holds {_MOST_DUMPS:,} of them")
            self._interval = None

    def _dump(self, name: str) -> float:
        """Store one dump, its times in its name; return the seconds that the read took."""
        try:
            read = read_kfd_dump(name, self._debugfs)
        except MachineError as error:
            self.problems.append(f"no more snapshots of {name}: {error.what}")
            self._interval = None
            return 0.0
        self._folder.write_bytes(f"raw/hqd/{name}-{read.start_ns}-{read.end_ns}.txt", read.data)
        return (read.end_ns - read.start_ns) / 1e9

    def _poll(self, pids: frozenset[int]) -> None:
        start = time.monotonic_ns()
        found = {"processes": self._read_processes(pids), "cards": self._read_cards()}
        for pid in pids:
            maps = read_maps(pid)
            devices = read_devices(pid, maps)
            if any(devices.values()):
                self.devices[pid] = devices
                self.packages |= find_packages(pid, maps, self.packages)
        if found["processes"] or found["cards"]:
            line = {"start_ns": start, "end_ns": time.monotonic_ns(), **found}
            self._folder.append_line("raw/sysfs.jsonl", json.dumps(line))

    def _read_processes(self, pids: frozenset[int]) -> dict[str, Any]:
        """Return counters and queues of the workload, and the queues of all others: they share its GPUs."""
        found = {}
        for root in sorted(self._kfd.glob("proc/[0-9]*")):
            queues = {
                queue.name: _read_numbers(queue / name for name in _QUEUE_FIELDS) for queue in root.glob("queues/*")
            }
            counters = _read_evictions(root)
            if int(root.name) in pids:
                counters |= _read_numbers(path for pattern in _PROCESS_COUNTERS for path in root.glob(pattern))
            if counters or queues:
                found[root.name] = {"counters": counters, "queues": queues}
        return found

    def _read_cards(self) -> dict[str, Any]:
        found = {}
        for device in sorted(self._cards.glob("card*/device")):
            if counters := _read_numbers(device / name for name in _CARD_COUNTERS):
                found[device.resolve().name] = counters
        return found


def look_at_slots(kfd: Path = _KFD) -> list[Finding]:
    """Return for each GPU how many of its hardware queue slots the processes of this machine take now."""
    shown = [_read_numbers(queue / n for n in _QUEUE_FIELDS) | {"pid": int(queue.parts[-3])}
             for queue in kfd.glob("proc/[0-9]*/queues/*")]  # fmt: skip
    found = []
    for _, number, properties in read_topology(kfd / "topology/nodes"):
        slots = parse_properties(properties).get("num_cp_queues")
        if not slots or not number.strip().isdecimal():
            continue
        gpu_id = int(number)
        pids = [
            queue["pid"] for queue in shown if queue.get("gpuid") == gpu_id and queue.get("type", 1) not in SDMA_TYPES
        ]
        told = f"{len(pids)} of {slots} compute slots taken, by {len(set(pids))} processes"
        over = "; oversubscribed: queues wait for a slot, and an idle GPU may show 100 % busy"
        is_over = len(pids) > slots
        state = PARTLY if is_over else YES
        found.append(Finding(f"queue slots of GPU {gpu_id:x}", state, told + over * is_over))
    return found


def read_maps(pid: int) -> str:
    """Return the mappings of a process; empty if it has ended."""
    try:
        return Path(f"/proc/{pid}/maps").read_text(errors="replace")
    except OSError:
        return ""


def read_devices(pid: int, maps: str) -> dict[str, list[str]]:
    """Return the GPU device files that a process has open and has mapped, as its own root names them.

    `lsof` outside the pid namespace of a container shows nothing of these: the kernel hides them there.

    Args:
        pid: the process.
        maps: its mappings.
    """
    opened: list[str] = []
    with contextlib.suppress(OSError):
        for link in sorted(Path(f"/proc/{pid}/fd").iterdir(), key=lambda path: int(path.name)):
            with contextlib.suppress(OSError):
                target = str(link.readlink())
                if target.startswith(_DEVICES):
                    opened.append(f"{link.name} {target}")
    mapped = [line for line in maps.splitlines() if any(f" {device}" in line for device in _DEVICES)]
    return {"open": opened, "mapped": mapped}


def find_packages(pid: int, maps: str, known: Container[str] = ()) -> dict[str, str]:
    """Return the Python packages whose libraries a process maps, with their versions: `torch` -> `2.9.0`.

    Args:
        pid: the process.
        maps: its mappings.
        known: packages that need not be found again.
    """
    mapped = {(folder, package) for folder, package in _PACKAGE.findall(maps) if package not in known}
    found = {}
    for folder, package in sorted(mapped)[:_MOST_PACKAGES]:
        for info in glob_inside(Path(f"/proc/{pid}/root"), folder, f"{package}-*.dist-info"):
            found[package] = Path(info).name.removesuffix(".dist-info").partition("-")[2]
    return found


def _read_evictions(root: Path) -> dict[str, int]:
    """Return `evicted_ms_GPUID`: for how long the queues of a process were evicted so far (Linux 5.10 and later)."""
    found: dict[str, int] = {}
    for stats in root.glob("stats_*"):
        gpu = stats.name.removeprefix("stats_")
        found |= {f"evicted_ms_{gpu}": value for value in _read_numbers([stats / "evicted_ms"]).values()}
    return found


def _read_numbers(paths: Iterable[Path]) -> dict[str, int]:
    found = {}
    for path in paths:
        with contextlib.suppress(OSError, ValueError):
            found[path.name] = int(path.read_text().split()[0])
    return found
