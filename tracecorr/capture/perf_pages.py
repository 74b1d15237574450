"""Turn perf's samples of trace events into ring buffer pages, the form of every other recording of the kernel.

A sample carries the very record that the event would have put into a trace buffer (perf_event.h,
PERF_SAMPLE_RAW), so one reader serves both.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Callable, Mapping
from typing import IO

from tracecorr.parse.ftrace.formats import parse_formats

PAGE_BYTES = 4096
_HEADER = struct.Struct("<QQ")
_ROOM = PAGE_BYTES - _HEADER.size
HEADER_PAGE = (
    "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n"
    "\tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n"
    "\tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n"
    f"\tfield: char data;\toffset:{_HEADER.size};\tsize:{_ROOM};\tsigned:0;\n"
)
_RECORD = struct.Struct("<IHH")
_LOST, _SAMPLE = 2, 9
# Order of a sample: pid, tid, time, CPU, reserved, size of the trace record.
_BODY = struct.Struct("<IIQIII")
_COUNT = struct.Struct("<Q")
_MISSED, _MISSED_STORED = 1 << 31, 1 << 30
_TIME_EXTEND, _DELTA_BITS, _TYPE_BITS = 30, 27, 5
_MOST_WORDS = 28


class PagePacker(io.RawIOBase):
    """Take whole perf records of one CPU, write pages.

    Args:
        output: the file of the pages.
        sizes: bytes of a record by event number; perf pads records, those of other events keep the padding.
    """

    def __init__(self, output: IO[bytes], sizes: Mapping[int, int]) -> None:
        super().__init__()
        self._output = output
        self._sizes = sizes
        self._data = bytearray()
        self._start = self._last = 0
        self._missed = 0
        self.samples = 0
        self.lost = 0

    def writable(self) -> bool:
        """Tell that records can be written."""
        return True

    def write(self, data: bytes) -> int:  # type: ignore[override]
        """Take perf records; full pages are written at once."""
        at = 0
        while at + _RECORD.size <= len(data):
            kind, _, size = _RECORD.unpack_from(data, at)
            if kind == _SAMPLE:
                _, _, time_ns, _, _, length = _BODY.unpack_from(data, at + _RECORD.size)
                begin = at + _RECORD.size + _BODY.size
                number = int.from_bytes(data[begin : begin + 2], "little")
                self._add(time_ns, data[begin : begin + min(length, self._sizes.get(number, length))])
            elif kind == _LOST:
                self._lose(_COUNT.unpack_from(data, at + _RECORD.size + 8)[0])
            at += max(size, _RECORD.size)
        return len(data)

    def close(self) -> None:
        """Write the last page and close the file; may be called again."""
        if not self.closed:
            self._flush()
            self._output.close()
        super().close()

    def _add(self, time_ns: int, payload: bytes) -> None:
        record = self._encode(max(time_ns - self._last, 0), payload)
        room = _ROOM - _COUNT.size  # for the number of lost records
        # A page holds times from its own on; an earlier one begins a new page.
        if not self._data or time_ns < self._last or len(self._data) + len(record) > room:
            self._flush()
            self._start = time_ns
            record = self._encode(0, payload)
        if len(record) > room:
            self._lose(1)
            return
        self._data += record
        self._last = time_ns
        self.samples += 1

    @staticmethod
    def _encode(delta: int, payload: bytes) -> bytes:
        payload += bytes(-len(payload) % 4)
        extend = b""
        if delta >> _DELTA_BITS:
            low = delta & ((1 << _DELTA_BITS) - 1)
            extend = struct.pack("<II", _TIME_EXTEND | low << _TYPE_BITS, delta >> _DELTA_BITS)
            delta = 0
        words = len(payload) // 4
        if 0 < words <= _MOST_WORDS:
            return extend + struct.pack("<I", words | delta << _TYPE_BITS) + payload
        return extend + struct.pack("<II", delta << _TYPE_BITS, len(payload) + 4) + payload

    def _lose(self, count: int) -> None:
        self._flush()
        self._missed += count
        self.lost += count

    def _flush(self) -> None:
        """Write the page begun; what was lost is told by the page after it."""
        if not self._data:
            return
        commit = len(self._data)
        tail = b""
        if self._missed:
            commit |= _MISSED | _MISSED_STORED
            tail = _COUNT.pack(self._missed)
            self._missed = 0
        page = _HEADER.pack(self._start, commit) + bytes(self._data) + tail
        self._data.clear()
        self._output.write(page.ljust(PAGE_BYTES, b"\0"))


class ProbePages:
    """Hand the files of perf's records over as pages, one per CPU, and count what went through.

    Args:
        open_output: gives the file of pages of a CPU.
    """

    def __init__(self, open_output: Callable[[int], IO[bytes]]) -> None:
        self._open_output = open_output
        self._sizes: dict[int, int] = {}
        self.packers: dict[int, PagePacker] = {}

    def learn(self, name: str, text: str) -> None:
        """Learn the format of an event before its records come.

        Args:
            name: `system/event`.
            text: its format file.
        """
        for number, form in parse_formats({name: text}).items():
            if form.fields and not any(field.is_dynamic for field in form.fields):
                self._sizes[number] = max(field.offset + field.size for field in form.fields)

    def open_new(self, name: str) -> IO[bytes]:
        """Return what takes the records that `PerfRecorder` would write into `perf-cpuN.bin`."""
        cpu = int("".join(filter(str.isdigit, name)))
        self.packers[cpu] = PagePacker(self._open_output(cpu), self._sizes)
        return self.packers[cpu]  # type: ignore[return-value]

    def stats(self) -> dict[str, dict[str, str]]:
        """Return the counters in the words of tracefs."""
        return {
            f"cpu{cpu}": {"entries": "0", "overrun": "0", "dropped events": str(packer.lost),
                          "read events": str(packer.samples)}
            for cpu, packer in sorted(self.packers.items())
        }  # fmt: skip
