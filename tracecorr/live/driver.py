"""What the driver tells of queues that stand: its lines in the kernel log, and, where asked for, MQDs and HQDs.

The kernel log takes no lock of the driver. MQDs take that of each process in turn, HQDs read registers: each is read
once, in a child with a time limit, the second only if the first answered, and none while a GPU is reset.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

from tracecorr.analyze.failures import STANDSTILLS
from tracecorr.analyze.queues import name_processes
from tracecorr.live.look import Looking, Sight
from tracecorr.live.rings import READ_AT
from tracecorr.model import schema
from tracecorr.model.errors import TracecorrError
from tracecorr.model.standstill import Line, Slot
from tracecorr.read.kernel_log.catalogue import MESSAGES
from tracecorr.read.kernel_log.printk import name_messages, read_records
from tracecorr.read.kfd.dumps import read_dumps

_KERNEL_LOG, _RECENT_NS, _RECORD_BYTES, _MOST_RECORDS = Path("/dev/kmsg"), 900 * 10**9, 8192, 20_000
_DUMP_SECONDS = 5.0
# printk's clock is not CLOCK_MONOTONIC: milliseconds lie between them.
_CLOCK_NS = 10**9
_RESET_BEGINS, _RESET_ENDS = "gpu_reset_begin", "gpu_reset_end"


@dataclass(frozen=True)
class Driver:
    """Hold what the driver told.

    Args:
        records: of the kernel log: stamp_ns, text, name, pid, doorbell, address; those of its messages alone.
        slots: rows of `schema.HQD` of the dumps; none where they were not read.
        gaps: what could not be read, in words.
    """

    records: pl.DataFrame
    slots: pl.DataFrame = field(default_factory=schema.HQD.empty)
    gaps: tuple[str, ...] = ()

    def list_texts(self, pids: Sequence[int]) -> list[str]:
        """Return the lines of the kernel log that name none of the other processes."""
        mine = pl.col("pid").is_null() | pl.col("pid").is_in(pids)
        return self.records.filter(mine)["text"].to_list()

    @property
    def is_resetting(self) -> bool:
        """Tell whether the last line about a reset of a GPU is that it begins."""
        told = self.records.filter(pl.col("name").is_in([_RESET_BEGINS, _RESET_ENDS]))["name"]
        return bool(len(told)) and told[-1] == _RESET_BEGINS


def read_driver(read: Callable[[str], bytes] | None = None, names: Sequence[str] = ()) -> Driver:
    """Return what the kernel log holds of the last 15 minutes, and what the dumps show.

    Args:
        read: returns a dump of debugfs by its name; None = none is read.
        names: of the dumps, the less harmful one first.
    """
    try:
        driver = Driver(_find_messages(_read_kernel_log()))
    except OSError as error:
        why = f"the kernel log is not readable ({error.strerror}): look as root"
        more = ("whether a GPU is reset just now is not known: no dump was read",) if read else ()
        return Driver(_find_messages(b""), gaps=(why, *more))
    if read is None:
        return driver
    if driver.is_resetting:
        return Driver(driver.records, gaps=("a GPU is being reset: no dump was read",))
    return _add_dumps(driver, read, names)


def _find_messages(data: bytes) -> pl.DataFrame:
    """Return the messages of the driver in /dev/kmsg, as `Driver` holds them; what programs wrote there is none."""
    named = name_messages(read_records(data)).filter(pl.col("name").is_not_null() & pl.col("reason").is_null())
    recent = pl.col("stamp_ns") >= pl.col("stamp_ns").max() - _RECENT_NS
    return named.filter(recent).select("stamp_ns", "text", "name", "pid", "doorbell", "address")


def _read_kernel_log() -> bytes:
    log = os.open(_KERNEL_LOG, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    data = bytearray()
    try:
        for _ in range(_MOST_RECORDS):
            try:
                data += os.read(log, _RECORD_BYTES)
            except BrokenPipeError:  # records were overwritten
                continue
            except BlockingIOError:
                break
    finally:
        os.close(log)
    return bytes(data)


def _add_dumps(driver: Driver, read: Callable[[str], bytes], names: Sequence[str]) -> Driver:
    rows, gaps = [driver.slots], []
    for number, name in enumerate(names):

        def look(name: str = name) -> Iterator[tuple[str, Any]]:
            try:
                yield "dumps", {name: read(name)}
            except TracecorrError as error:
                yield "gap", f"{name}: {error.what}"

        sight = Looking(0, look, time.monotonic() + _DUMP_SECONDS).wait()
        if name not in sight.dumps:
            late = f"{name} gave no answer in {_DUMP_SECONDS:g} s: the driver may hold its lock; it was not read again"
            gaps.append(next((gap for gap in sight.gaps if gap.startswith(f"{name}: ")), late))
            break
        found = pl.concat([dump.rows for dump in read_dumps(sight.dumps[name])], how="diagonal_relaxed")
        rows.append(schema.HQD.conform(found.with_columns(snapshot=pl.lit(number))))
    return Driver(driver.records, pl.concat(rows), tuple(gaps))


def list_lines(driver: Driver, sight: Sight) -> tuple[Line, ...]:
    """Return the lines since a process began that may say why its queues stand; those that name its queues, and others.

    Args:
        driver: what the driver told.
        sight: two looks at the process.
    """
    process, queues = sight.looks[-1].process, sight.looks[-1].queues or []
    began_ns = process.began_ns - _CLOCK_NS if process else 0
    mine = pl.col("pid").is_null() | (pl.col("pid") == sight.pid)
    rows = driver.records.filter(mine & (pl.col("stamp_ns") >= began_ns) & pl.col("name").is_in(list(STANDSTILLS)))
    doorbells = _list_doorbells(driver, sight)
    rings = {queue.ring for queue in queues}
    told = []
    for row in rows.iter_rows(named=True):
        ring = doorbells.get(row["doorbell"], row["address"] if row["address"] in rings else 0)
        if ring or row["doorbell"] is row["address"] is None:
            message = _OF_NAME[row["name"]]
            text = f"the kernel log says at {row['stamp_ns'] / 1e9:.6f} s: {row['text']}"
            told.append(Line(text, message.means, message.helps, f"ring {ring:#x}" if ring else "",
                             row["pid"] is not None))  # fmt: skip
    return tuple(told)


_OF_NAME = {message.name: message for message in MESSAGES}


def _list_doorbells(driver: Driver, sight: Sight) -> dict[int, int]:
    """Return the rings of a process by the offset of their doorbell, as its MQDs tell; none that two GPUs have."""
    rows = _match(driver, sight, "mqds").select("doorbell", "pq_base").drop_nulls().unique()
    alone = rows.filter(pl.len().over("doorbell") == 1)
    return dict(alone.iter_rows())


def _match(driver: Driver, sight: Sight, dump: str) -> pl.DataFrame:
    """Return the rows of a dump that are of the queues of a process: ring and index address agree, and its number.

    Registers name no process: where two have MQDs with one doorbell, `pid` is null.
    """
    queues = sight.looks[-1].queues or []
    known = pl.DataFrame(
        {"read_address": [queue.address + READ_AT for queue in queues], "pq_base": [queue.ring for queue in queues]},
        schema={"read_address": pl.UInt64, "pq_base": pl.UInt64},
    )
    rows = name_processes(driver.slots).filter(pl.col("dump").cast(pl.String) == dump)
    mine = (pl.col("pid") == sight.pid).fill_null(value=True)
    return rows.filter(mine).join(known, on=["read_address", "pq_base"], how="semi")


def find_slots(driver: Driver, sight: Sight) -> dict[int, Slot]:
    """Return what the registers hold of each queue (ring) that an MQD describes, if they tell whose they are."""
    if driver.slots.filter(pl.col("dump").cast(pl.String) == "hqds").is_empty():
        return {}
    active = _match(driver, sight, "hqds").filter(pl.col("active"))
    held = active.group_by("pq_base").agg(
        pl.col("error", "dequeue_request").max(), pl.col("pq_empty").all(), xccs=pl.len()
    )  # fmt: skip
    found = {row["pq_base"]: Slot(row["xccs"], row["error"], row["dequeue_request"], row["pq_empty"])
             for row in held.iter_rows(named=True)}  # fmt: skip
    doubtful = set(active.filter(pl.col("pid").is_null())["pq_base"])
    return {ring: found.get(ring, Slot()) for ring in {*_match(driver, sight, "mqds")["pq_base"]} - doubtful}
