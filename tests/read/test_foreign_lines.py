"""A foreign line between any two records of any reader of lines is none of them: SYNTHETIC logs, dumps and tables."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from io import BytesIO

import polars as pl
import pytest

from tracecorr.model.parts import Block
from tracecorr.read.amdlog.reader import read_amd_log
from tracecorr.read.kernel_log.printk import read_kernel_log
from tracecorr.read.kfd.dumps import read_snapshots
from tracecorr.read.kfd.smi import read_smi_events
from tracecorr.read.kfd.topology import read_polls
from tracecorr.read.rocprof.text_files import read_rocprof

_PREFIX = ":{}:rocvirtual.cpp           :1165: {:010d} us: [pid:7 tid: 0x7f00000000a0] {}"
_AMD_LOG = [
    _PREFIX.format(level, 5_000_000_000 + at, text)
    for at, (level, text) in enumerate((
        (3, "\x1b[32m hipMalloc ( 0x7f, 4096 ) \x1b[0m"), (4, "Allocate hsa device memory 0x1400, size 0x1000"),
        (1, "Fail allocation local memory"), (3, "hipMalloc: Returned hipSuccess : 0x1400: duration: 4 us"),
        (3, "ShaderName : k(int)"),
        (5, "SWq=0x22, HWq=0x50, id=1, Dispatch Header = 0x1502 (type=2, barrier=1, acquire=2, release=2), setup=1, "
            "grid=[64, 1, 1], workgroup=[64, 1, 1], private_seg_size=0, group_seg_size=0, kernel_obj=0x1, "
            "kernarg_address=0x2, completion_signal=0x3, correlation_id=0, rptr=0, wptr=0"),
        (1, "hipErrorNoBinaryForGpu: Unable to find code object for all current devices!"),
        (0, "Memory Fault Error [GPU index: 0, faulting addr: 0x7f12, kernel: k(int)]"),
    ))
]  # fmt: skip
_KERNEL_LOG = [
    "[  950.818166] amdgpu 0000:c5:00.0: amdgpu: MES failed to respond to msg=REMOVE_QUEUE",
    "[  950.818171] amdgpu 0000:c5:00.0: amdgpu: failed to remove hardware queue from MES, doorbell=0x1802",
    "[  950.818198] amdgpu: Pasid 0x8011 DQM create queue type 1 failed. ret -12",
    "[  950.818199] amdgpu 0000:c5:00.0: amdgpu: GPU reset begin!. Source:  3",
]
_KMSG = [
    "3,907,12000001,-;amdgpu: No more SDMA queue to allocate\n SUBSYSTEM=pci\n DEVICE=+pci:0000:c5:00.0",
    "3,908,12000002,-;amdgpu: Pasid 0x8011 DQM create queue type 1 failed. ret -12",
]
_KERNELS = [
    '"Kind","Agent_Id","Queue_Id","Thread_Id","Dispatch_Id","Kernel_Name","Start_Timestamp","End_Timestamp"',
    *(f'"KERNEL_DISPATCH","Agent 4",2,16,{n},"add(float*, int)",{1000 * n},{1000 * n + 500}' for n in (1, 2)),
]
_REGISTERS = "".join(
    f"\n    {0xC914 + 32 * row:08x}: " + " ".join(f"{8 * row + word:08x}" for word in range(8)) for row in range(7)
)
_HQDS = ["Node 1, gpu_id 65a1:", *(f" Inst 0,  CP Pipe {pipe}, Queue 2{_REGISTERS}" for pipe in (0, 1))]
_SMI = [f"{n * 1000} {n * 1000 + 300} f7bc {line}" for n, line in enumerate((
    "9 1000000 -4321 f7bc 2", "a 2000000 -4321 f7bc", "7 5000000 -4321 @7f0011(f7bc) W", "d 10e1 python3",
))]  # fmt: skip
_POLLS = [
    json.dumps({"start_ns": n, "end_ns": n + 2, "cards": {}, "processes": {"7": {"counters": {"x": n}, "queues": {}}}})
    for n in (1, 5, 9)
]


def _amd_log(data: bytes) -> Iterable[Block]:
    return read_amd_log(BytesIO(data), 0, 1 << 20)


def _of_chunks(read: Callable[..., Iterator[Block]]) -> Callable[[bytes], Iterable[Block]]:
    return lambda data: read([data], 0)


_READERS: dict[str, tuple[Callable[[bytes], Iterable[Block]], list[str], str]] = {
    "amd_log": (_amd_log, _AMD_LOG, "[12345.678901] amdgpu 0000:c5:00.0: amdgpu: MES failed to respond"),
    "kernel_log": (_of_chunks(read_kernel_log), _KERNEL_LOG, "step 7: loss 0.25"),
    "kmsg": (_of_chunks(read_kernel_log), _KMSG, "step 7: loss 0.25"),
    "hqds": (lambda data: read_snapshots([data], 0, iter(range(9))), _HQDS, "step 7: loss 0.25"),
    "rocprof": (_of_chunks(read_rocprof), _KERNELS, "step 7: loss 0.25"),
    "smi": (_of_chunks(read_smi_events), _SMI, "step 7: loss 0.25"),
    "polls": (_of_chunks(read_polls), _POLLS, "step 7: loss 0.25"),
}
_CASES = [
    pytest.param(name, place, id=f"{name}-{place}") for name, (_, lines, _) in _READERS.items()
    for place in range(1, len(lines) + 1)
]  # fmt: skip


def _read(name: str, lines: list[str]) -> tuple[pl.DataFrame, dict[str, tuple[int, int]]]:
    """Return the rows of a file without their places, and records and bytes by reason."""
    blocks = list(_READERS[name][0]("".join(f"{line}\n" for line in lines).encode()))
    table = {"polls": "polls", "hqds": "hqd"}.get(name, "events")
    rows = pl.concat([getattr(block, table) for block in blocks])
    ledger = pl.concat([block.ledger for block in blocks]).with_columns(pl.col("reason").cast(pl.String))
    counts = ledger.group_by("reason").agg(pl.col("records", "bytes").sum()).rows()
    places = [column for column in rows.columns if column.endswith("offset")]
    return rows.drop(places), {reason: (records, size) for reason, records, size in counts}


@pytest.mark.parametrize(("name", "place"), _CASES)
def test_a_foreign_line_behind_any_record_is_none_of_it(name: str, place: int) -> None:
    _, lines, foreign = _READERS[name]
    rows, counts = _read(name, lines)
    others, more = _read(name, [*lines[:place], foreign, *lines[place:]])
    assert rows.height and others.equals(rows)
    added = {key: value for key, value in more.items() if value != counts.get(key)}
    assert list(added.values()) == [(1, len(foreign) + 1)] and "" not in added
