"""From register values to the columns of table `hqd`.

Registers are found by their place in the block, never by address: the block starts elsewhere on every XCC and
generation, but its order is one from gfx9.0 to gfx12.1 (asic_reg headers of Linux 6.1, 6.12 and 7.2).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

Words = npt.NDArray[np.uint32]

# hqd_dump_*: CP_MQD_BASE_ADDR .. CP_HQD_PQ_WPTR_HI. The MQDs of v9 to v12 hold the same registers from
# cp_mqd_base_addr_lo on.
CP_REGISTERS = 56
_MQD_BASE, _ACTIVE, _VMID, _PIPE_PRIORITY, _QUEUE_PRIORITY, _QUANTUM = 0, 2, 3, 5, 6, 7
_PQ_BASE, _PQ_RPTR, _DOORBELL, _PQ_CONTROL, _PQ_WPTR = 8, 10, 15, 17, 54
_RPTR_ADDRESS, _WPTR_ADDRESS, _DEQUEUE, _ERROR = 11, 13, 24, 51
_PQ_EMPTY = 1 << 15
# hqd_sdma_dump_*: distance from RB_CNTL in words; gfx12 prints one run without a gap.
_RB_BASE, _RB_RPTR, _RB_WPTR, SDMA_REGISTERS = 1, 3, 5, 7
_SDMA_STRIDE = 0x160 // 4  # from one RLC to the next
_SDMA_DOORBELL = {"gapped": (0x12, 0x2B), "gfx12": (0x0F, 0x11)}
# SDMA MQDs have layouts of their own: (doorbell, doorbell_offset, dummy_reg) in words, v9 and v10, v11, v12. What the
# driver writes into the last of them tells which it is: the doorbell is enabled by who maps the queue.
_SDMA_MQD_DOORBELL = (
    (0x48 // 4, 0x58 // 4, 0x6C // 4),
    (0x44 // 4, 0x4C // 4, 0x64 // 4),
    (0x3C // 4, 0x44 // 4, 0x5C // 4),
)
_SDMA_DUMMY = 0xF  # SDMA_RLC_DUMMY_DEFAULT of kfd_mqd_manager_v9.c to _v12_1.c
# Registers of GC and SDMA lie far above; below are offsets in an MQD, whose lines look alike.
_LEAST_ADDRESS = 0x800
_DOORBELL_ENABLE, _DOORBELL_CAPTURED = 1 << 28, 1 << 30


def decode_cp(words: Words, *, of_mqd: bool = False) -> pl.DataFrame:
    """Return one row per CP or HIQ block.

    Args:
        words: array of shape (blocks, 56).
        of_mqd: the words are those of MQDs, where the ACTIVE bit says nothing about being mapped.
    """
    doorbell = words[:, _DOORBELL]
    frame = pl.DataFrame(
        {
            "active": (words[:, _ACTIVE] & 1) == 1, "rptr": words[:, _PQ_RPTR].astype(np.int64),
            "wptr": _pair(words, _PQ_WPTR).astype(np.int64), "quantum": words[:, _QUANTUM],
            "pq_base": _pair(words, _PQ_BASE) << np.uint64(8),
            "ring_bytes": np.int64(4) << ((words[:, _PQ_CONTROL] & 0x3F).astype(np.int64) + 1).clip(0, 58),
            "doorbell": doorbell >> 2 & 0x3FFFFFF, "doorbell_enabled": (doorbell >> 30 & 1) == 1,
            "pipe_priority": words[:, _PIPE_PRIORITY] & 3, "queue_priority": words[:, _QUEUE_PRIORITY] & 15,
            "vmid": words[:, _VMID] & 15, "mqd_base": _pair(words, _MQD_BASE),
            "read_address": _pair(words, _RPTR_ADDRESS), "write_address": _pair(words, _WPTR_ADDRESS),
            "dequeue_request": words[:, _DEQUEUE], "error": words[:, _ERROR],
            "pq_empty": (words[:, _PQ_CONTROL] & _PQ_EMPTY) != 0,
        }
    )  # fmt: skip
    return _with_state(frame, of_mqd)


def decode_sdma(blocks: list[tuple[Words, Words]]) -> pl.DataFrame:
    """Return one row per SDMA RLC block, given as addresses (bytes) and values of its registers."""
    words = np.array([values[:SDMA_REGISTERS] for _, values in blocks], dtype=np.uint32).reshape(-1, SDMA_REGISTERS)
    doorbells = [_sdma_doorbell(addresses, values) for addresses, values in blocks]
    return _with_state(_sdma_frame(words, doorbells), of_mqd=False)


def decode_sdma_mqd(blocks: list[Words]) -> pl.DataFrame:
    """Return one row per SDMA MQD."""
    words = np.array([b[:SDMA_REGISTERS] for b in blocks], dtype=np.uint32).reshape(-1, SDMA_REGISTERS)
    return _with_state(_sdma_frame(words, [_sdma_mqd_doorbell(b) for b in blocks]), of_mqd=True)


def find_ring(words: Words) -> int:
    """Return the ring base address in one block of the 56 registers: MQDs of one queue have the same."""
    return int(_pair(words.reshape(1, -1), _PQ_BASE)[0]) << 8


def cp_is_whole(addresses: Words) -> bool:
    """Tell whether a CP or HIQ block holds its 56 registers, without a gap."""
    gapless = bool((np.diff(addresses.astype(np.int64)) == 4).all())
    return len(addresses) == CP_REGISTERS and gapless and int(addresses[0]) >= _LEAST_ADDRESS


def sdma_is_whole(addresses: Words) -> bool:
    """Tell whether an RLC block holds ring, pointers and doorbell."""
    places = set(((addresses.astype(np.int64) - int(addresses[0])) // 4).tolist())
    near = int(addresses[0]) >= _LEAST_ADDRESS and max(places) < _SDMA_STRIDE
    return near and places >= {*range(SDMA_REGISTERS), *_doorbell_places(addresses)}


def has_answered(values: Words) -> bool:
    """Tell whether the registers of a block were read.

    Some never hold 0 in all bits, others never 1: all zeros or all ones come from a device that is off, hangs or is
    not for this host to read.
    """
    return bool(values.any()) and not bool((values == 0xFFFFFFFF).all())


def _pair(words: Words, low: int) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    return words[:, low].astype(np.uint64) | words[:, low + 1].astype(np.uint64) << np.uint64(32)


def _with_state(frame: pl.DataFrame, of_mqd: bool) -> pl.DataFrame:
    """Tell live slots from those that keep the values of a queue that is gone."""
    used = pl.col("pq_base") != 0
    ring = pl.when(used).then("ring_bytes").alias("ring_bytes")
    if of_mqd:
        return frame.with_columns(ring, pl.lit(None, pl.Boolean).alias("active"), pl.lit("described").alias("state"))
    state = pl.when("active").then(pl.lit("active")).when(used).then(pl.lit("stale")).otherwise(pl.lit("unused"))
    return frame.with_columns(ring, state.alias("state"))


def _sdma_frame(words: Words, doorbells: list[tuple[int | None, bool | None]]) -> pl.DataFrame:
    control = words[:, 0]
    enabled = np.array([bool(e) for _, e in doorbells], dtype=np.bool_)
    return pl.DataFrame(
        {
            # RB_ENABLE bit 0, RB_SIZE bits 5:1 (power of two, words), RB_VMID bits 27:24. An RLC that the firmware
            # unmapped keeps RB_ENABLE and loses its doorbell (idle MI308X, ROCm 7.0).
            "active": ((control & 1) == 1) & enabled, "rptr": _pair(words, _RB_RPTR).astype(np.int64),
            "wptr": _pair(words, _RB_WPTR).astype(np.int64),
            "pq_base": _pair(words, _RB_BASE) << np.uint64(8),
            "ring_bytes": np.int64(4) << (control >> 1 & 0x1F).astype(np.int64), "vmid": control >> 24 & 15,
            "doorbell": pl.Series([d for d, _ in doorbells], dtype=pl.UInt32),
            "doorbell_enabled": pl.Series([e for _, e in doorbells], dtype=pl.Boolean),
        }
    )  # fmt: skip


def _doorbell_places(addresses: Words) -> tuple[int, int]:
    # The first run of gfx9 and gfx10 has 19 words: a block that was cut after it must not pass for gfx12.
    gapless = len(addresses) > 19 and int(addresses[-1]) - int(addresses[0]) == 4 * (len(addresses) - 1)
    return _SDMA_DOORBELL["gfx12" if gapless else "gapped"]


def _sdma_doorbell(addresses: Words, values: Words) -> tuple[int | None, bool | None]:
    by_place: Mapping[int, int] = dict(zip(((addresses - addresses[0]) // 4).tolist(), values.tolist(), strict=True))
    enable_at, offset_at = _doorbell_places(addresses)
    return by_place[offset_at] >> 2 & 0x3FFFFFF, bool(by_place[enable_at] & _DOORBELL_ENABLE)


def _sdma_mqd_doorbell(words: Words) -> tuple[int | None, bool | None]:
    """Return the doorbell by the one layout that the MQD can have; otherwise it stays unknown."""
    fits = [
        (int(words[offset_at]) >> 2 & 0x3FFFFFF, bool(words[enable_at] & _DOORBELL_ENABLE))
        for enable_at, offset_at, dummy_at in _SDMA_MQD_DOORBELL
        if len(words) > dummy_at
        and int(words[dummy_at]) == _SDMA_DUMMY
        and not int(words[enable_at]) & ~(_DOORBELL_CAPTURED | _DOORBELL_ENABLE)
    ]
    return fits[0] if len(fits) == 1 else (None, None)


# PM4 type 3 (kfd_pm4_opcodes.h) and pm4_mes_map_queues (kfd_pm4_headers_ai.h, Linux 6.1 to 7.2)
_MAP_QUEUES, _MAP_QUEUES_WORDS = 0xA2, 7
_COMPUTE_ENGINE, _LEGACY_SELECT = 0, 0


@dataclass(frozen=True)
class _RunlistQueue:
    """A queue as the runlist names it.

    Args:
        type: `cp` or `sdma`.
        doorbell: offset in dwords.
        mqd_base: address of its MQD.
        engine: SDMA engine; None for compute.
        word: place of the packet in the runlist.
    """

    type: str
    doorbell: int
    mqd_base: int
    engine: int | None
    word: int


def list_runlist_queues(words: Words) -> Iterator[_RunlistQueue]:
    """Yield the queues of a runlist; stops at the first word that starts no PM4 type 3 packet."""
    at = 0
    while at < len(words):
        header = int(words[at])
        size = (header >> 16 & 0x3FFF) + 2
        if header >> 30 != 3 or at + size > len(words):
            return
        if header >> 8 & 0xFF == _MAP_QUEUES and size >= _MAP_QUEUES_WORDS:
            yield _map_queues([int(w) for w in words[at : at + _MAP_QUEUES_WORDS]], at)
        at += size


def _map_queues(packet: list[int], at: int) -> _RunlistQueue:
    engine, extended = packet[1] >> 26 & 7, packet[1] >> 2 & 3
    compute = engine == _COMPUTE_ENGINE and extended == _LEGACY_SELECT
    # Legacy numbers start at 2 (sdma0); the extended ranges count 0 to 7 and 8 to 15.
    number = engine - 2 if extended == _LEGACY_SELECT else engine + 8 * (extended - 1)
    mqd_base = packet[3] | packet[4] << 32
    return _RunlistQueue(
        "cp" if compute else "sdma", packet[2] >> 2 & 0x3FFFFFF, mqd_base, None if compute else number, at
    )
