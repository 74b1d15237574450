"""A synthetic capture: made-up rows of the real schema, for tests of the page. Nothing here was measured."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

from tracecorr.model import schema

T0 = 4_975_095_558_000
KERNELS = (
    "Cijk_Ailk_Bljk_HHS_BH_MT128x128x64",
    "vectorAdd(float*, float*, int)",
    "reduce<256>",
    "__amd_rocclr_fillBufferAligned",
    "<script>window.__executed=1</script><img src=x onerror=window.__executed=1>",
)
Row = dict[str, Any]


@dataclass
class SyntheticCapture:
    """Hold made-up tables and the text that their rows point at."""

    tables: dict[str, pl.DataFrame]
    files: dict[int, bytes]
    name: str = "synthetic"
    path: Path = Path("/nonexistent/synthetic.tracecorr")
    info: dict[str, Any] = field(default_factory=dict)

    def table(self, name: str) -> pl.LazyFrame:
        return self.tables[name].lazy()

    def table_by_node(self, name: str) -> pl.LazyFrame:
        """Return a table: there are no nodes."""
        return self.table(name)

    def tables_of_nodes(self) -> dict[str, Callable[[str], pl.LazyFrame]]:
        return {}

    def raw(self, file: int, offset: int, length: int) -> bytes:
        return self.files[file][offset : offset + length]

    def file_path(self, file: int) -> str:
        return ("raw/amd_log/synthetic.log", "raw/ftrace/synthetic.txt")[file]

    def record_text(self, file: int, record: bytes) -> str:  # noqa: ARG002
        return ""

    def line_number(self, file: int, offset: int) -> int | None:
        return self.files[file].count(b"\n", 0, offset) + 1


@dataclass
class _Maker:
    seed: int
    events: list[Row] = field(default_factory=list)
    launches: list[Row] = field(default_factory=list)
    links: list[Row] = field(default_factory=list)
    text: dict[int, bytearray] = field(default_factory=lambda: {0: bytearray(), 1: bytearray()})

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)

    def add(self, ts: int, dur: int | None, layer: str, name: str, **more: Any) -> int:
        file = 1 if layer in ("syscall", "ioctl", "kfd", "mqd", "doorbell", "drm_sched") else 0
        body = f"{layer}: {name} at {ts} <b>&</b>".encode()
        offset = len(self.text[file])
        self.text[file] += body + b"\n"
        key = len(self.events)
        self.events.append(
            {
                "event": key, "ts_ns": ts, "dur_ns": dur, "layer": layer, "name": name, "stamp_ns": ts,
                "source": "ftrace" if file else "amd_log", "evidence": "recorded", "file": file, "offset": offset,
                "length": len(body), "err_lo_ns": 0, "err_hi_ns": 999 if file == 0 else 0, "flags": 0, **more,
            }
        )  # fmt: skip
        return key

    def launch(self, ts: int, own: Row, queue: int, packet: int) -> int:
        """Add one hipLaunchKernel with its packet and doorbell; return its end."""
        kernel = packet % len(KERNELS)
        dur = self.random.randint(9_000, 30_000)
        call = self.add(ts, dur, "hip", "hipLaunchKernel", depth=0, result="hipSuccess", **own)
        self.events[call]["chain"] = call
        inner = {**own, "parent": call, "chain": call}
        self.add(ts + 500, 2_000, "hip", "hipGetDevice", depth=1, result="hipSuccess", **inner)
        command = self.add(ts + 3_000, None, "command", "KernelExecution", command=0x5500 + packet, **inner)
        at = ts + 5_000
        row = self.add(
            at,
            None,
            "aql",
            "dispatch",
            queue=queue,
            kernel=kernel,
            packet_index=packet,
            signal=0x7F00 + packet,
            **inner,
        )
        recorded = own["process"] == 0
        bell = None
        if recorded:
            bell = self.add(at + 1_500, None, "doorbell", "doorbell", queue=queue, packet_index=packet, **inner)
            self.links.append(_link(row, bell, "doorbell_of_packet", 1_500))
        gpu = self.add(
            at + 4_000,
            self.random.randint(5_000, 60_000),
            "gpu",
            "dispatch",
            queue=queue,
            kernel=kernel,
            gpu=0,
            **inner,
        )
        self.links.append(_link(call, command, "command_in_call", 3_000))
        self.launches.append(
            {
                "event": row, "kind": "dispatch", **own, "gpu": 0, "call_event": call, "command_event": command,
                "doorbell_event": bell, "announce_event": bell, "gpu_event": gpu, "queue": queue, "kernel": kernel,
                "packet_index": packet, "doorbell_evidence": "recorded" if recorded else "inferred",
                "doorbell_lo_ns": None if recorded else at, "doorbell_hi_ns": None if recorded else at + 2_500,
                "grid_x": 1024, "call_ns": ts, "enqueue_ns": ts + 3_000, "packet_ns": at, "return_ns": ts + dur,
                "doorbell_ns": at + 1_500 if recorded else None, "stream": own["thread"],
                "wptr": packet, "rptr": max(0, packet - packet % 5),
            }
        )  # fmt: skip
        return ts + dur

    def create_queue(self, ts: int, own: Row) -> int:
        """Add one hipStreamCreate with ioctl, KFD function and MQD call; return its end."""
        call = self.add(ts, 900_000, "hip", "hipStreamCreate", depth=0, result="hipSuccess", **own)
        self.events[call]["chain"] = call
        inner = {**own, "chain": call}
        ioctl = self.add(ts + 100_000, 400_000, "ioctl", "AMDKFD_IOC_CREATE_QUEUE", parent=call, result="0", **inner)
        kfd = self.add(ts + 120_000, 350_000, "kfd", "kfd_ioctl_create_queue", parent=ioctl, **inner)
        mqd = self.add(ts + 200_000, 50_000, "mqd", "init_mqd_v9_4_3", parent=kfd, **inner)
        self.links += [_link(call, ioctl, "syscall_in_call", 100_000), _link(ioctl, kfd, "kfd_in_ioctl", 20_000)]
        self.links.append(_link(kfd, mqd, "mqd_in_kfd", 80_000))
        return ts + 900_000


def _link(a: int, b: int, rule: str, gap: int) -> Row:
    return {"from_event": a, "to_event": b, "rule": rule, "evidence": "recorded", "gap_ns": gap, "gap_err_ns": 999}


def make_capture(launches: int = 6_000, seed: int = 5) -> SyntheticCapture:
    """Return 2 processes, 4 threads, 4 queues and about 8 events per launch."""
    maker = _Maker(seed)
    for thread in range(4):
        own = {"process": thread // 2, "thread": thread}
        now = maker.create_queue(T0 + thread * 40_000, own)
        for n in range(launches // 4):
            now = maker.launch(now + maker.random.randint(1_000, 400_000), own, thread, n)
            if n % 50 == 7:
                maker.add(now + 200, 90_000, "syscall", "futex", result="EAGAIN", **own)
                maker.add(now + 300, 70_000, "copy", "copy H2D", size_bytes=4096, **own)
                now += 100_000
    maker.add(T0 + 5_000, None, "marker", "clock_sync")
    _add_driver_work(maker)
    return SyntheticCapture(_tables(maker), {k: bytes(v) for k, v in maker.text.items()})


def _add_driver_work(maker: _Maker) -> None:
    """Add what a driver with a GPU would show: runlists, an engine copy, failures, a thread of the runtime, ranges."""
    own = {"process": 0, "thread": 0}
    for n in range(20):
        maker.add(T0 + n * 2_000_000, 40_000, "kfd", "map_queues_cpsch", process=1, thread=2, result="0")
        maker.add(T0 + n * 2_000_000 + 50_000, 9_000, "ioctl", "AMDKFD_IOC_UPDATE_QUEUE", result="EINVAL", **own)
        maker.add(T0 + n * 3_000_000, 800_000, "marker", f"roctx range {n}", depth=0, **own)
        maker.add(T0 + n * 3_000_000, 5_000, "signal", "handler", process=0, thread=4)
        copy = maker.add(T0 + n * 3_000_000, 60_000, "copy", "copy", size_bytes=1 << 20, **own)
        maker.launches.append({"event": copy, "kind": "copy", **own, "engine": 1 << n % 2, "size_bytes": 1 << 20})


def _driver_tables() -> dict[str, list[Row]]:
    """Return rows that only a machine with a GPU gives: jobs on rings, hardware queues, polled values, losses."""
    ms = 1_000_000
    jobs = [
        {
            "job": n,
            "dev": "0000:03:00.0",
            "ring": f"sdma{n % 2}",
            "ring_kind": "sdma",
            "id": n,
            "queued_ns": T0 + n * ms,
            "run_ns": T0 + n * ms + 20_000,
            "done_ns": T0 + n * ms + 300_000,
        }
        for n in range(60)
    ]
    slots = [
        {
            "snapshot": n,
            "dump": "hqds",
            "read_start_ns": T0 + n * 10 * ms,
            "read_end_ns": T0 + n * 10 * ms + 90_000,
            "gpu_id": 1234,
            "gpu": 0,
            "xcc": 0,
            "type": "cp",
            "pipe": pipe,
            "slot": 1,
            "state": "active",
            "active": True,
            "quantum": 0x11,
            "pq_base": 0x7FA944000000,
            "pipe_priority": 1,
        }
        for n in range(8)
        for pipe in range(2)
    ]
    samples = [
        {"ts_ns": T0 + n * ms, "gpu": 0, "name": name, "value": float(value)}
        for n in range(100)
        for name, value in (("gpu_busy_percent", n % 101), ("vram_used_bytes", 2**34 + n * 2**20))
    ]
    losses = [{"source": "ftrace", "cpu": 3, "from_ns": T0 + 30 * ms, "to_ns": T0 + 42 * ms, "count": 1234}]
    return {"drm_jobs": jobs, "hqd": slots, "samples": samples, "losses": losses}


def _dtypes(table: schema.Table) -> dict[str, Any]:
    return {c.name: c.dtype() if isinstance(c.dtype, type) else c.dtype for c in table.columns}


def _conform(table: schema.Table, frame: pl.DataFrame) -> pl.DataFrame:
    types = _dtypes(table)
    return frame.select((pl.col(c) if c in frame.columns else pl.lit(None, t).alias(c)) for c, t in types.items())


def _tables(maker: _Maker) -> dict[str, pl.DataFrame]:
    tables = {name: pl.DataFrame(schema=_dtypes(table)) for name, table in schema.TABLES.items()}
    rows: dict[str, list[Row]] = {
        "launches": maker.launches,
        "links": maker.links,
        "kernels": [{"kernel": i, "name": n, "display": n.split("(")[0]} for i, n in enumerate(KERNELS)],
        "processes": [{"process": i, "pid": 4100 + i, "log_pid": 7 + i, "comm": "gemm"} for i in range(2)],
        "threads": [{"thread": i, "process": i // 2, "tid": 4100 + i, "comm": f"rank{i}"} for i in range(4)]
        + [{"thread": 4, "process": 0, "tid": 4190}],
        **_driver_tables(),
        "streams": [{"stream": i, "process": i // 2, "handle": 0x5500 + i, "priority": 0} for i in range(4)],
        "files": [
            {"file": 0, "path": "raw/amd_log/synthetic.log", "source": "amd_log", "size": len(maker.text[0])},
            {"file": 1, "path": "raw/ftrace/synthetic.txt", "source": "ftrace", "size": len(maker.text[1])},
        ],
        "queues": [
            {"queue": i, "process": i // 2, "hwq": 0x7FA944000000 + i * 0x10000, "priority_log": i % 3}
            for i in range(4)
        ],
        "gpus": [{"gpu": 0, "gpu_id": 1234, "gfx_target": "gfx942"}],
        "args": [{"event": 0, "key": "flags", "u64": 1}],
    }
    for name, content in rows.items():
        columns = {c for row in content for c in row}
        known = {k: v for k, v in _dtypes(schema.TABLES[name]).items() if k in columns}
        tables[name] = _conform(schema.TABLES[name], pl.DataFrame(content, schema=known))
    known = _dtypes(schema.EVENTS)
    tables["events"] = pl.DataFrame(maker.events, schema=known).sort("ts_ns", maintain_order=True)
    return _renumber(tables)


def _renumber(tables: dict[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """Number events densely in time order, as a real capture does."""
    old = tables["events"]["event"]
    to_new = pl.DataFrame({"old": old, "new": pl.Series(range(len(old)), dtype=pl.Int64)})

    def fix(frame: pl.DataFrame, column: str) -> pl.Series:
        return (
            frame.select(column)
            .join(to_new, left_on=column, right_on="old", how="left", maintain_order="left")["new"]
            .alias(column)
        )

    for name, columns in {
        "events": ("event", "parent", "chain"),
        "launches": ("event", "call_event", "command_event", "doorbell_event", "announce_event", "gpu_event"),
        "links": ("from_event", "to_event"),
        "args": ("event",),
    }.items():
        tables[name] = tables[name].with_columns([fix(tables[name], c) for c in columns])
    return tables
