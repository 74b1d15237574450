"""Write a SYNTHETIC capture of any size: the tables alone, no raw file behind them. No GPU made it.

It has the shape of a long run of many ranks: processes with threads, one queue per thread, bursts of
launches (HIP call, command, packet, doorbell, GPU execution), a system call now and then.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl

from tracecorr.store.capture import write_info, write_tables

_RING = 0x7F0000000000
T0 = 4_975_095_558_000
LENGTH_S = 180
KERNELS = 60
_CHAIN = ("hip", "command", "aql", "doorbell", "gpu")
_NAMES = {
    "hip": "hipLaunchKernel", "command": "KernelExecution", "aql": "dispatch", "doorbell": "doorbell",
    "gpu": "dispatch", "syscall": "futex",
}  # fmt: skip
_OFFSET_NS = {"hip": 0, "command": 3_000, "aql": 5_000, "doorbell": 6_500, "gpu": 9_000}

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Shape:
    """Say how large the capture is; seven lanes per thread."""

    events: int = 10_000_000
    processes: int = 8
    threads: int = 144
    seed: int = 1

    @property
    def launches(self) -> int:
        """Return the number of launches: five events each, and a system call after every twentieth."""
        return self.events * 20 // 101


def write_big_capture(path: Path, shape: Shape) -> None:
    """Write the tables of a synthetic capture into a new folder."""
    path.mkdir(parents=True)
    (path / "raw").mkdir()
    info = {"name": "SYNTHETIC", "synthetic": True, "files": [], "command": ["SYNTHETIC:", "nothing was run"]}
    write_info(path, info)
    write_tables(path, _tables(shape))


def _tables(shape: Shape) -> dict[str, pl.DataFrame]:
    rng = np.random.default_rng(shape.seed)
    start, thread = _starts(rng, shape)
    kernel = rng.integers(0, KERNELS, len(start))
    call_ns, gpu_ns = rng.integers(9_000, 30_000, len(start)), rng.integers(5_000, 60_000, len(start))
    per_thread = shape.threads // shape.processes
    wait = np.arange(7, len(start), 20)
    layer = np.repeat([*range(len(_CHAIN)), len(_CHAIN)], [*[len(start)] * len(_CHAIN), len(wait)])
    at = np.concatenate([start + _OFFSET_NS[name] for name in _CHAIN] + [start[wait] + call_ns[wait] + 200])
    launch = np.concatenate([np.tile(np.arange(len(start)), len(_CHAIN)), wait])
    order = np.argsort(at, kind="stable")
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    ids = place[: len(_CHAIN) * len(start)].reshape(len(_CHAIN), len(start))
    duration = np.where(layer == 0, call_ns[launch], np.where(layer == 4, gpu_ns[launch], 90_000))
    has_duration = np.isin(layer, [0, 4, 5])
    layers = pl.Series([*_CHAIN, "syscall"], dtype=pl.String)
    events = pl.DataFrame(
        {
            "event": np.arange(len(order)), "ts_ns": T0 + at[order], "dur_ns": duration[order],
            "layer": layers.gather(layer[order]), "name": layers.replace_strict(_NAMES).gather(layer[order]),
            "thread": thread[launch[order]], "process": thread[launch[order]] // per_thread,
            "kernel": kernel[launch[order]], "queue": thread[launch[order]], "chain": ids[0][launch[order]],
            "packet_index": launch[order],
        }
    ).with_columns(_masked(layer[order], has_duration[order]))  # fmt: skip
    return {"events": events, "launches": _launches(start, thread, kernel, ids, per_thread), **_owners(shape)}


def _starts(rng: np.random.Generator, shape: Shape) -> tuple[Numbers, Numbers]:
    """Return start and thread of every launch: bursts with idle time between them, sorted by thread."""
    each = shape.launches // shape.threads
    gaps = rng.integers(1_000, 40_000, (shape.threads, each)) + 30_000
    idle = np.zeros_like(gaps)
    idle[:, ::200] = rng.exponential(1.0, idle[:, ::200].shape) * 1e9
    room = LENGTH_S * 10**9 - gaps.sum(axis=1)
    idle = (idle * (room / np.maximum(idle.sum(axis=1), 1))[:, None]).astype(np.int64)
    start = np.cumsum(gaps + idle, axis=1)
    return start.ravel(), np.repeat(np.arange(shape.threads), each)


def _masked(layer: Numbers, has_duration: npt.NDArray[np.bool_]) -> list[pl.Expr]:
    """Return the columns that only some layers have, and those that all share."""
    on_queue, in_packet = pl.lit(pl.Series(np.isin(layer, [2, 3, 4]))), pl.lit(pl.Series(np.isin(layer, [2, 4])))
    return [
        pl.when(pl.lit(pl.Series(has_duration))).then("dur_ns").alias("dur_ns"),
        pl.when(on_queue).then("queue").alias("queue"),
        pl.when(in_packet).then("kernel").alias("kernel"),
        pl.when(on_queue).then("packet_index").alias("packet_index"),
        pl.lit("recorded").alias("evidence"),
        pl.when(pl.lit(pl.Series(np.isin(layer, [3, 5]))))
        .then(pl.lit("ftrace"))
        .otherwise(pl.lit("amd_log"))
        .alias("source"),
        pl.lit(0).alias("err_lo_ns"),
        pl.lit(999).alias("err_hi_ns"),
        pl.when(pl.lit(pl.Series(layer == 0))).then(0).alias("depth"),
    ]


def _launches(start: Numbers, thread: Numbers, kernel: Numbers, ids: Numbers, per_thread: int) -> pl.DataFrame:
    number = np.arange(len(start))
    frame = pl.DataFrame(
        {
            "event": ids[2], "process": thread // per_thread, "thread": thread, "queue": thread, "stream": thread,
            "kernel": kernel, "call_event": ids[0], "command_event": ids[1], "doorbell_event": ids[3],
            "announce_event": ids[3], "gpu_event": ids[4], "packet_index": number, "wptr": number,
            "rptr": number - number % 37, "call_ns": T0 + start, "packet_ns": T0 + start + _OFFSET_NS["aql"],
            "doorbell_ns": T0 + start + _OFFSET_NS["doorbell"], "gpu_start_ns": T0 + start + _OFFSET_NS["gpu"],
        }
    )  # fmt: skip
    evidence = {"kind": pl.lit("dispatch"), "doorbell_evidence": pl.lit("recorded")}
    return frame.with_columns(**evidence).sort("event")


def _owners(shape: Shape) -> dict[str, pl.DataFrame]:
    per_thread = shape.threads // shape.processes
    threads = np.arange(shape.threads)
    names = [f"SYNTHETIC_gemm_MT{64 + 16 * (i % 9)}x{i}" for i in range(KERNELS)]
    return {
        "processes": pl.DataFrame({"process": range(shape.processes), "pid": range(4100, 4100 + shape.processes)}),
        "threads": pl.DataFrame({"thread": threads, "process": threads // per_thread, "tid": 5000 + threads}),
        "queues": pl.DataFrame({"queue": threads, "process": threads // per_thread, "hwq": _RING + threads * 65536}),
        "kernels": pl.DataFrame({"kernel": range(KERNELS), "name": names, "display": names}),
        "gpus": pl.DataFrame({"gpu": range(8), "gpu_id": range(1000, 1008)}),
    }
