"""SYNTHETIC logs with Direct Dispatch off: a worker writes the packets of a queue, some of them for no command."""

from __future__ import annotations

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
