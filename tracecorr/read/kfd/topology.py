"""What sysfs shows of the KFD: its nodes (`topology/nodes/N/`), and the queues and usage of processes (polls)."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import polars as pl

from tracecorr.model import schema
from tracecorr.model.parts import Block

# gfx_target_version from which the driver always schedules queues through MES (Linux 6.1 to 7.2): gfx11.
_MES_TARGET = 110_000
# amdgpu.sched_policy: 2 maps every queue onto its own hardware slot, without a scheduler.
_NO_SCHEDULER = 2
_PARTITIONS = {2: "DPX", 3: "TPX", 4: "QPX"}
# gfx940 to gfx950: devices of several XCCs, all of whose PCI functions are 0.
_SEVERAL_XCCS = range(90_400, 100_000)


@dataclass(frozen=True)
class NodeFiles:
    """Hold the files of one node: its number, and the texts of `gpu_id` and `properties`."""

    node: int
    gpu_id: str
    properties: str


def parse_properties(text: str) -> dict[str, int]:
    """Return the numbers of a `properties` file; lines that are no `name number` are left out."""
    pairs = (line.split() for line in text.splitlines())
    return {p[0]: int(p[1]) for p in pairs if len(p) == 2 and p[1].isdecimal()}


def list_nodes(nodes: Iterable[NodeFiles], sched_policy: int = 0) -> pl.DataFrame:
    """Return the GPUs of a topology; nodes of CPUs (gpu_id 0) are left out.

    Args:
        nodes: the files of each node.
        sched_policy: module parameter of amdgpu.

    Returns: rows of `schema.GPUS` with `gpu` numbered by node.
    """
    gpus = [
        (n.node, int(n.gpu_id), parse_properties(n.properties))
        for n in sorted(nodes, key=lambda n: n.node)
        if n.gpu_id.strip().isdecimal() and int(n.gpu_id)
    ]
    shares = Counter(_device(properties) for _, _, properties in gpus)
    rows = [
        _row(i, node, gpu_id, properties, shares[_device(properties)], sched_policy)
        for i, (node, gpu_id, properties) in enumerate(gpus)
    ]
    return schema.GPUS.conform(pl.DataFrame(rows, infer_schema_length=None)) if rows else schema.GPUS.empty()


def name_gfx_target(version: int) -> str | None:
    """Return the LLVM name of a gfx_target_version: 90402 is `gfx942`, 90010 is `gfx90a`; None for 0 (a CPU)."""
    major, minor, step = version // 10000, version // 100 % 100, version % 100
    return f"gfx{major}{minor:x}{step:x}" if version else None


def name_scheduler(gfx_target_version: int, sched_policy: int) -> str:
    """Return who maps queues onto the hardware: `HWS` (runlists), `MES`, or `none`."""
    if gfx_target_version >= _MES_TARGET:
        return "MES"
    return "none" if sched_policy == _NO_SCHEDULER else "HWS"


def _device(properties: dict[str, int]) -> tuple[int, int]:
    """Return domain, and bus and device: partitions of one device differ in the function, or in the bits above."""
    return properties.get("domain", 0), properties.get("location_id", 0) & 0xFFF8


def _row(
    gpu: int, node: int, gpu_id: int, properties: dict[str, int], partitions: int, sched_policy: int
) -> dict[str, object]:
    target, xccs = properties.get("gfx_target_version", 0), properties.get("num_xcc")
    domain, location = properties.get("domain", 0), properties.get("location_id", 0)
    # The driver puts the number of the partition where the PCI function was (location_id |= node_id), some builds of
    # it into bits 31:28 (kfd_topology.c, Linux 6.5 and later).
    function = 0 if partitions > 1 or target in _SEVERAL_XCCS else location & 7
    is_later = bool(location >> 28 or (location & 7 and not function))
    return {
        "gpu": gpu, "gpu_id": gpu_id, "kfd_node": node,
        "pci": f"{domain:04x}:{location >> 8 & 0xFF:02x}:{location >> 3 & 31:02x}.{function}",
        "render_minor": properties.get("drm_render_minor"), "gfx_target": name_gfx_target(target),
        "xcc_count": xccs, "partition": _partition(partitions, xccs, is_later=is_later),
        "scheduler": name_scheduler(target, sched_policy) if target else None,
        "cus": _count_cus(properties), "firmware": _name_firmware(properties),
        "cp_slots": properties.get("num_cp_queues") or None, "sdma_slots": _count_sdma_slots(properties),
    }  # fmt: skip


def _count_cus(properties: dict[str, int]) -> int | None:
    per_cu = properties.get("simd_per_cu", 0)
    return properties.get("simd_count", 0) // per_cu or None if per_cu else None


def _name_firmware(properties: dict[str, int]) -> str | None:
    versions = (("MEC", properties.get("fw_version")), ("SDMA", properties.get("sdma_fw_version")))
    return ", ".join(f"{name} {version}" for name, version in versions if version) or None


def _count_sdma_slots(properties: dict[str, int]) -> int | None:
    engines = properties.get("num_sdma_engines", 0) + properties.get("num_sdma_xgmi_engines", 0)
    return engines * properties.get("num_sdma_queues_per_engine", 0) or None


def _partition(partitions: int, xccs: int | None, *, is_later: bool) -> str | None:
    """Return the mode of a device: of its partitions a container may see one alone, here a later one than its first."""
    if xccs is None or (partitions == 1 and xccs == 1 and not is_later):
        return None
    if xccs == 1:
        return "CPX"
    if partitions == 1:
        return None if is_later else "SPX"
    return _PARTITIONS.get(partitions)


# Counters in /sys/class/kfd/kfd/proc/PID/ have the gpu_id in their name (kfd_process.c, Linux 5.8 and later).
_OF_GPU = re.compile(r"(?:vram|sdma|evicted_ms)_(\d+)")
# `type` of a queue (enum kfd_queue_type, Linux 6.1 to 7.3): SDMA, for XGMI, by engine. Of the others only compute
# queues are shown.
SDMA_TYPES = (1, 4, 5)
_MAX_TIME_NS = 2**62
_Row = dict[str, object]


def read_polls(chunks: Iterable[bytes], file: int) -> Iterator[Block]:
    """Yield the one block of the polls of a capture: one row of `schema.PART_POLLS` per value.

    A value was read somewhere between `start_ns` and `end_ns` of its line (CLOCK_MONOTONIC); its time is the middle.
    Beside the counters, a process has `queues_GPUID`, `cp_queues_GPUID`, `sdma_queues_GPUID`: the number of its queues
    that sysfs showed, of all kinds, for compute and for SDMA. A GPU has `cp_queues`, `sdma_queues` and
    `queue_processes`: those of all processes, and how many have compute queues there.

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
        values += _of_gpus(content["processes"])
        values += [
            {"pci": card, "name": name, "value": float(value)}
            for card, counters in content["cards"].items()
            for name, value in counters.items()
        ]
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
        return None
    return [{"ts_ns": (start + end) // 2, **row} for row in values]


def _of_process(pid: int, seen: dict[str, Any]) -> Iterator[_Row]:
    gpus: dict[int, None] = {}
    for name, value in seen["counters"].items():
        of_gpu = _OF_GPU.fullmatch(name)
        gpu_id = int(of_gpu[1]) if of_gpu else None
        if gpu_id is not None:
            gpus[gpu_id] = None
        yield {"pid": pid, "gpu_id": gpu_id, "name": name, "value": float(value)}
    counted = _count_queues(seen)
    for gpu_id in {**gpus, **dict.fromkeys(gpu for _, gpu in counted)}:
        for kind in ("queues", "cp_queues", "sdma_queues"):
            value = float(counted[kind, gpu_id])
            yield {"pid": pid, "gpu_id": gpu_id, "name": f"{kind}_{gpu_id}", "value": value}


def _of_gpus(processes: dict[str, Any]) -> Iterator[_Row]:
    """Yield what all processes together have on each GPU."""
    totals: Counter[tuple[str, int]] = Counter()
    for seen in processes.values():
        counted = _count_queues(seen)
        totals += counted
        totals.update(("queue_processes", gpu) for kind, gpu in counted if kind == "cp_queues")
    for gpu_id in dict.fromkeys(gpu for _, gpu in totals):
        for name in ("cp_queues", "sdma_queues", "queue_processes"):
            yield {"gpu_id": gpu_id, "name": name, "value": float(totals[name, gpu_id])}


def _count_queues(seen: dict[str, Any]) -> Counter[tuple[str, int]]:
    """Return the number of queues by kind and gpu_id; one that was destroyed while it was read shows no GPU."""
    counted: Counter[tuple[str, int]] = Counter()
    for queue in seen["queues"].values():
        if "gpuid" in queue:
            gpu, kind = int(queue["gpuid"]), queue.get("type")
            counted["queues", gpu] += 1
            if kind is not None:
                counted["sdma_queues" if kind in SDMA_TYPES else "cp_queues", gpu] += 1
    return counted


def _ledger(account: dict[str, list[int]], file: int) -> pl.DataFrame:
    rows = [
        {"file": file, "source": "sysfs", "outcome": "skipped" if reason else "used", "reason": reason,
         "records": records, "bytes": size}
        for reason, (records, size) in account.items()
    ]  # fmt: skip
    return schema.LEDGER.conform(pl.DataFrame(rows, infer_schema_length=None)) if rows else schema.LEDGER.empty()
