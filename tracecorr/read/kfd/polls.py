"""Read `raw/sysfs.jsonl`: what a capture polled from sysfs, one JSON object per line."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import polars as pl

from tracecorr.model import schema
from tracecorr.model.parts import Block

# Counters in /sys/class/kfd/kfd/proc/PID/ have the gpu_id in their name (kfd_process.c, Linux 5.8 and later).
_OF_GPU = re.compile(r"(?:vram|sdma)_(\d+)")
_MAX_TIME_NS = 2**62
_Row = dict[str, object]


def read_polls(chunks: Iterable[bytes], file: int) -> Iterator[Block]:
    """Yield the one block of the polls of a capture: one row of `schema.PART_POLLS` per value.

    A value was read somewhere between `start_ns` and `end_ns` of its line (CLOCK_MONOTONIC); its time is the middle.
    Beside the counters, a process has `queues_GPUID`: the number of its queues that sysfs showed.

    Args:
        chunks: its decompressed bytes.
        file: key of its file.
    """
    rows: list[_Row] = []
    account: dict[str, list[int]] = {}
    for line in b"".join(chunks).splitlines(keepends=True):
        found = _read_line(line)
        counts = account.setdefault("no_line_of_polls" if found is None else "", [0, 0])
        counts[0] += 1
        counts[1] += len(line)
        rows += found or []
    polls = pl.DataFrame(rows, schema=schema.PART_POLLS.schema, strict=False)
    yield Block(polls=polls, ledger=_ledger(account, file))


def _read_line(line: bytes) -> list[_Row] | None:
    """Return the values of a line; None when it is no line of polls."""
    try:
        content = json.loads(line)
        start, end = content["start_ns"], content["end_ns"]
        if not (isinstance(start, int) and isinstance(end, int) and 0 <= start <= end < _MAX_TIME_NS):
            return None
        values = [row for pid, seen in content["processes"].items() for row in _of_process(int(pid), seen)]
        values += [
            {"pci": card, "name": name, "value": float(value)}
            for card, counters in content["cards"].items()
            for name, value in counters.items()
        ]
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
        return None
    return [{"ts_ns": (start + end) // 2, **row} for row in values]


def _of_process(pid: int, seen: dict[str, Any]) -> Iterator[_Row]:
    queues: Counter[int] = Counter()
    for name, value in seen["counters"].items():
        of_gpu = _OF_GPU.fullmatch(name)
        gpu_id = int(of_gpu[1]) if of_gpu else None
        if gpu_id is not None:
            queues[gpu_id] += 0
        yield {"pid": pid, "gpu_id": gpu_id, "name": name, "value": float(value)}
    # A queue that was destroyed while it was read shows no GPU.
    queues.update(int(queue["gpuid"]) for queue in seen["queues"].values() if "gpuid" in queue)
    for gpu_id, count in queues.items():
        yield {"pid": pid, "gpu_id": gpu_id, "name": f"queues_{gpu_id}", "value": float(count)}


def _ledger(account: dict[str, list[int]], file: int) -> pl.DataFrame:
    rows = [
        {"file": file, "source": "sysfs", "outcome": "skipped" if reason else "used", "reason": reason,
         "records": records, "bytes": size}
        for reason, (records, size) in account.items()
    ]  # fmt: skip
    return schema.LEDGER.conform(pl.DataFrame(rows, infer_schema_length=None)) if rows else schema.LEDGER.empty()
