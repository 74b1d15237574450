"""Small logs for the tests of the reader, and how to read them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from io import BytesIO
from typing import Any

import polars as pl

from tracecorr.model.kinds import Flag
from tracecorr.read.amdlog.reader import read_amd_log

THREAD = "[pid:7 tid: 0x7f00000000a0] "


@dataclass
class Read:
    """Hold all rows of one log."""

    events: pl.DataFrame
    packets: pl.DataFrame
    args: pl.DataFrame
    ledger: pl.DataFrame

    def rows(self, **wanted: Any) -> list[dict[str, Any]]:
        """Return the events with these values, in file order."""
        return self.events.filter(**wanted).to_dicts()

    def one(self, **wanted: Any) -> dict[str, Any]:
        """Return the only event with these values."""
        (row,) = self.rows(**wanted)
        return row

    def arg(self, row: dict[str, Any]) -> dict[str, Any]:
        """Return the args of an event."""
        found = self.args.filter(offset=row["offset"]).to_dicts()
        return {r["key"]: r["text"] if r["u64"] is None else r["u64"] for r in found}

    def packet(self, row: dict[str, Any]) -> dict[str, Any]:
        """Return the packet row of an event."""
        (found,) = self.packets.filter(offset=row["offset"]).to_dicts()
        return found

    def counts(self) -> dict[str, tuple[int, int]]:
        """Return records and bytes by reason (`used` for the used ones)."""
        return {r["reason"] or r["outcome"]: (r["records"], r["bytes"]) for r in self.ledger.to_dicts()}


class ChunkStream:
    """Read chunks as a binary file is read."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks, self._chunk = chunks, memoryview(b"")

    def readinto(self, buffer: memoryview, /) -> int:
        """Put the next bytes into a buffer; return how many, 0 at the end."""
        while not self._chunk:
            chunk = next(self._chunks, None)
            if chunk is None:
                return 0
            self._chunk = memoryview(chunk)
        size = min(len(buffer), len(self._chunk))
        buffer[:size] = self._chunk[:size]
        self._chunk = self._chunk[size:]
        return size


def read(data: bytes | str | Iterable[bytes], block_bytes: int = 4 << 20) -> Read:
    """Read a whole log; rows sorted by offset, the ledger summed."""
    if isinstance(data, str):
        data = data.encode()
    blocks = list(read_amd_log(BytesIO(data) if isinstance(data, bytes) else ChunkStream(iter(data)), 3, block_bytes))
    ledger = pl.concat([b.ledger for b in blocks])
    ledger = ledger.with_columns(pl.col("reason", "outcome").cast(pl.String))
    ledger = ledger.group_by("outcome", "reason").agg(pl.sum("records", "bytes")).sort("outcome", "reason")
    events = pl.concat([b.events for b in blocks]).sort("offset", maintain_order=True)
    text = [name for name, dtype in events.schema.items() if dtype == pl.Categorical]
    packets = pl.concat([b.packets for b in blocks]).sort("offset")
    args = pl.concat([b.args for b in blocks]).with_columns(pl.col("key").cast(pl.String))
    args = args.sort("offset", "key", maintain_order=True)
    return Read(events.with_columns(pl.col(text).cast(pl.String)), packets, args, ledger)


def line(message: str, us: int = 5000000000, thread: str = THREAD, level: int = 3) -> str:
    """Return a record as ROCm 6.4 and later print it."""
    return f":{level}:{'rocvirtual.cpp':<25}:{1165:<4}: {us:010d} us: {thread}{message}\n"


def log(*messages: str, thread: str = THREAD) -> str:
    """Return records one microsecond apart."""
    return "".join(line(m, 5000000000 + i, thread) for i, m in enumerate(messages))


def enter(name: str, args: str = "") -> str:
    """Return the message of an entered HIP call."""
    return f"\x1b[32m {name} ( {args} ) \x1b[0m"


def leave(name: str, result: str = "hipSuccess", value: str = "") -> str:
    """Return the message of a returned HIP call."""
    return f"{name}: Returned {result} : {value}"


DISPATCH = (
    "SWq=0x220000, HWq=0x3c00000, id=1, Dispatch Header = 0x1502 (type=2, barrier=1, acquire=2, release=2), setup=1, "
    "grid=[16384, 2, 1], workgroup=[256, 1, 1], private_seg_size=8, group_seg_size=64, kernel_obj=0x100018a580, "
    "kernarg_address=0x1401400100, completion_signal=0x0, correlation_id=0, rptr=5, wptr=6"
)


def summarize(log: Read) -> dict[str, Any]:
    """Return what a log holds as counts: bytes by reason, events by layer, calls and messages by name."""
    halves = {"complete": 0, "enter_only": Flag.ENTER_ONLY, "exit_only": Flag.EXIT_ONLY}
    calls = log.events.filter(layer="hip")
    flags = calls["flags"].to_list()
    return {
        "ledger": {reason: list(counts) for reason, counts in sorted(log.counts().items())},
        "layers": _count(log.events["layer"]),
        "calls": {name: sum((f & 3) == bits for f in flags) for name, bits in halves.items()},
        "names": _count(log.events["name"]),
        "results": _count(calls["result"].drop_nulls()),
        "kernels": sorted(set(log.events["kernel"].drop_nulls())),
        "rings": [f"{ring:#x}" for ring in sorted(set(log.events["ring"].drop_nulls()))],
        "pids": sorted(set(log.events["pid"].drop_nulls())),
        "threads": log.events["tid"].n_unique() - (log.events["tid"].null_count() > 0),
    }


def _count(values: pl.Series) -> dict[str, int]:
    return dict(sorted(values.value_counts().iter_rows()))
