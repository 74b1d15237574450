"""SYNTHETIC logs with Direct Dispatch off: a worker writes the packets of a queue, some of them for no command."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from tracecorr.pipeline import correlate, import_files
from tracecorr.store import Capture

_CALLER, _WORKER = "0x7f00000000a0", "0x7f00000000b0"
_CALL = [
    (_CALLER, "\x1b[32m hipLaunchKernel ( 0x55f9, {1,1,1}, {64,1,1}, 0x7f51, 0, stream:<null> ) \x1b[0m"),
    (_CALLER, "Command (KernelExecution) enqueued: 0x55 to queue: 0x66"),
    (_CALLER, "hipLaunchKernel: Returned hipSuccess : : duration: 9 us"),
    (_WORKER, "Command (KernelExecution) processing: 0x55 ,events.size(): 0"),
    (_WORKER, "Command (KernelExecution) submitted: 0x55"),
    (_WORKER, "SWq=0x22, HWq=0x3c00000, id=1, Dispatch Header = 0xb02 (type=2), setup=1, rptr=0, wptr=0"),
]
_DONE = [(_WORKER, "Command 0x55 complete")]
_WAIT = [
    (_WORKER, "Command (Marker) processing: 0x77 ,events.size(): 1"),
    (_WORKER, "Command (Marker) 0x77 awaiting event: 0x99"),
]
_FLUSH = [(_WORKER, "SWq=0x22, HWq=0x3c00000, id=1, BarrierAND Header = 0x1503 (type=3), rptr=1, wptr=1")]


@pytest.mark.parametrize(("lines", "known"), [((*_DONE, *_WAIT, *_FLUSH), False), ((*_FLUSH, *_DONE), True)])
def test_a_barrier_behind_the_end_of_a_command_is_not_its_own(
    lines: tuple[tuple[str, str], ...], known: bool, tmp_path: Path
) -> None:
    """Before a worker waits for another queue it flushes its own; so seen with HIP 7.2.4."""
    prefix = ":4:{:<25}:{:<4}: {:010d} us: [pid:7 tid: {}] {}\n"
    every = [*_CALL, *lines]
    text = "".join(prefix.format("rocvirtual.cpp", 965, 5000000000 + 9 * i, *line) for i, line in enumerate(every))
    (tmp_path / "amd.log").write_text(text)
    out = tmp_path / "log.tracecorr"
    import_files(out, [tmp_path / "amd.log"], [])
    correlate(out)
    launches = Capture.open(out).table("launches").sort("packet_index").collect()
    assert launches["kind"].cast(pl.String).to_list() == ["dispatch", "barrier_and"]
    for column in ("command_event", "call_event", "complete_ns"):
        assert launches[column].is_not_null().to_list() == [True, known]
