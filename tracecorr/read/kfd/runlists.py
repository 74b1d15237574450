"""Queues of a runlist: the MAP_QUEUES packets in the indirect buffer that debugfs `rls` shows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tracecorr.read.kfd.sections import Words

# PM4 type 3 (kfd_pm4_opcodes.h) and pm4_mes_map_queues (kfd_pm4_headers_ai.h, Linux 6.1 to 7.2)
_MAP_QUEUES, _MAP_QUEUES_WORDS = 0xA2, 7
_COMPUTE_ENGINE, _LEGACY_SELECT = 0, 0


@dataclass(frozen=True)
class RunlistQueue:
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


def list_runlist_queues(words: Words) -> Iterator[RunlistQueue]:
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


def _map_queues(packet: list[int], at: int) -> RunlistQueue:
    engine, extended = packet[1] >> 26 & 7, packet[1] >> 2 & 3
    compute = engine == _COMPUTE_ENGINE and extended == _LEGACY_SELECT
    # Legacy numbers start at 2 (sdma0); the extended ranges count 0 to 7 and 8 to 15.
    number = engine - 2 if extended == _LEGACY_SELECT else engine + 8 * (extended - 1)
    mqd_base = packet[3] | packet[4] << 32
    return RunlistQueue(
        "cp" if compute else "sdma", packet[2] >> 2 & 0x3FFFFFF, mqd_base, None if compute else number, at
    )
