"""The kernel's log around a run: records of /dev/kmsg are saved as they come, and its clock is read beside ours.

Reading changes nothing: each reader of /dev/kmsg has a position of its own (Linux, kernel/printk/printk.c).
"""

from __future__ import annotations

import errno
import os
import re
import time
from pathlib import Path
from typing import IO

from tracecorr.capture.folder import RecordingFolder
from tracecorr.capture.plan.plan import Absent

_KERNEL_LOG = "the kernel's log"
_DEVICE = Path("/dev/kmsg")
# `ktime` there is CLOCK_MONOTONIC, `cpu_clk` local_clock, by which printk stamps; both are taken together
# (kernel/sched/debug.c, Linux 6.1 to 7.3).
_SCHED_DEBUG = Path("/sys/kernel/debug/sched/debug")
_CLOCK_LINE = re.compile(rb"^(ktime|cpu_clk)\s*:\s*(\d+)\.(\d{6})\n", re.MULTILINE)
# Its first four lines: for more the kernel would walk through all tasks of each CPU.
_HEAD_BYTES = 240
# What was said shortly before explains a run that fails at once: a reset, an oversubscribed runlist.
_BEFORE_US = 60_000_000
# One read gives one record; a smaller buffer is refused.
_RECORD_BYTES = 8192
# Of one look: a driver that prints without an end must not hold the readers of the trace.
_MOST_RECORDS = 10_000


class KernelLog:
    """Save the records of the kernel log from a minute before the start until `stop`.

    Args:
        folder: where they go, as `raw/kernel_log/kmsg.txt`.
        device: where the kernel gives them.
    """

    def __init__(self, folder: RecordingFolder, device: Path = _DEVICE) -> None:
        self._folder, self._device = folder, device
        self._reader = -1
        self._output: IO[bytes] | None = None
        self._since_us = 0
        self.absent: tuple[Absent, ...] = ()
        self.problems: list[str] = []

    def start(self) -> None:
        """Save what was printed in the last minute, and all from now on."""
        try:
            self._reader = os.open(self._device, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            os.lseek(self._reader, 0, os.SEEK_SET)
        except OSError as error:
            self.absent = (Absent(_KERNEL_LOG, f"cannot read {self._device}: {error.strerror}"),)
            self._close()
            return
        # Between the two clocks lie milliseconds.
        self._since_us = time.monotonic_ns() // 1000 - _BEFORE_US
        self.tick()

    def tick(self) -> None:
        """Save what is new."""
        for _ in range(_MOST_RECORDS):
            if self._reader < 0 or (record := self._read()) is None:
                return
            self._save(record)

    def stop(self) -> None:
        """Save what is left and let go of the device; may be called again."""
        self.tick()
        self._close()

    def _read(self) -> bytes | None:
        try:
            return os.read(self._reader, _RECORD_BYTES)
        except BlockingIOError:
            return None
        except OSError as error:
            if error.errno == errno.EPIPE:  # records were overwritten before they were read; their numbers tell so
                return b""
            self.problems.append(f"no more of {_KERNEL_LOG}: {error.strerror}")
            self._close()
            return None

    def _save(self, record: bytes) -> None:
        micros = record.split(b",", 3)[2:3]
        if not micros or int(micros[0]) < self._since_us:
            return
        try:
            if self._output is None:
                self._output = self._folder.open_new("raw/kernel_log/kmsg.txt")
            written = self._output.write(record)
            if written != len(record):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError as error:
            self.problems.append(f"no more of {_KERNEL_LOG}: it cannot be written ({error.strerror})")
            self._close()

    def _close(self) -> None:
        if self._reader >= 0:
            os.close(self._reader)
            self._reader = -1
        if self._output is not None:
            self._output.close()


def read_printk_clock(path: Path = _SCHED_DEBUG) -> dict[str, int] | None:
    """Return one reading of printk's clock between two of CLOCK_MONOTONIC (ns): mono0, value, mono1; None: not shown.

    The kernel reads both together; what it prints of CLOCK_MONOTONIC is checked to lie between our own readings.
    """
    before = time.monotonic_ns()
    try:
        with path.open("rb", buffering=0) as debug:
            text = debug.read(_HEAD_BYTES) or b""
    except OSError:
        return None
    after = time.monotonic_ns()
    told: dict[bytes, int] = {name: int(ms) * 1_000_000 + int(ns) for name, ms, ns in _CLOCK_LINE.findall(text)}
    ktime, value = told.get(b"ktime"), told.get(b"cpu_clk")
    if ktime is None or value is None or not before <= ktime <= after:
        return None
    # ktime is read first, cpu_clk after it.
    return {"mono0": ktime, "value": value, "mono1": after}
