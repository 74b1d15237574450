"""Queues, packets and signals as ROCr keeps them in memory (amd_queue_t, AQL packets, amd_signal_t)."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass, field

from tracecorr.live.process_memory import Memory

# amd_queue_t: type, features; base; doorbell; size, reserved; id; caps. Then the indexes, and a check.
_QUEUE_HEAD, _WRITE_AT, READ_AT, _CHECK_AT, _QUEUE_BYTES = "<IIQQIIQI", 56, 128, 136, 256
# amd_signal_t: kind, value, mailbox, event id, padding, start, end, queue, 8 bytes more. Behind it in SharedSignal:
# start of an SDMA copy, core signal, id, 8 bytes, end of the copy.
_SIGNAL = "<qqQIIQQQ8xQQQQQ"
_USER, _DOORBELLS = 1, (-1, -2)
_PACKET_BYTES = 64
_VENDOR, _INVALID, _DISPATCH, _BARRIER_AND, _AGENT, _BARRIER_OR = range(6)
KINDS = ("barrier_value", "invalid", "dispatch", "barrier_and", "agent_dispatch", "barrier_or")
_BARRIER_VALUE = 2
_CONDITIONS = ("==", "!=", "<", ">=")
_MOST_SLOTS, _LARGEST_RING = 16_384, 1 << 22
# How many slots behind the read index are looked at for signals that were never completed.
_RETIRED = 512


@dataclass(frozen=True)
class Signal:
    """Hold an amd_signal_t at one time.

    Args:
        handle: its address.
        kind: 1 = a user's, -1 and -2 = doorbells.
        event_id: KFD event; 0 = a busy wait.
        queue: of a doorbell its amd_queue_t.
        is_copying: whether SDMA stored that a copy began, and not yet that it ended.
    """

    handle: int
    kind: int
    value: int
    event_id: int
    queue: int
    is_copying: bool = False


@dataclass(frozen=True)
class Packet:
    """Hold an AQL packet.

    Args:
        index: packet index.
        kind: as `KINDS`.
        is_gated: its barrier bit.
        completion: handle of its completion signal; 0 = none.
        waits: handles of signals that must become 0; of a barrier_value the one that is compared.
        condition: of a barrier_value what its value must be, in words.
        kernel_object, kernarg: of a dispatch.
        grid: of a dispatch, in work-items.
    """

    index: int
    kind: str
    is_gated: bool
    completion: int = 0
    waits: tuple[int, ...] = ()
    condition: str = ""
    kernel_object: int = 0
    kernarg: int = 0
    grid: tuple[int, int, int] = (0, 0, 0)


@dataclass(frozen=True)
class Queue:
    """Hold an amd_queue_t at one time.

    Args:
        address: of the amd_queue_t, the `SWq` of the log.
        ring: address of its ring, the `HWq` of the log.
        size: packets in the ring.
        write, read: indexes: packets written, and the first one that is not finished.
        packets: of [read, write), those that are not INVALID.
        retired: completion signals of the last packets before `read`: (index, handle).
    """

    address: int
    ring: int
    size: int
    queue_id: int
    write: int
    read: int
    packets: tuple[Packet, ...] = field(default=(), compare=False)
    retired: tuple[tuple[int, int], ...] = field(default=(), compare=False)

    @property
    def pending(self) -> int:
        """Return how many packets are written and not finished."""
        return max(self.write - self.read, 0)


def read_signals(memory: Memory, handles: Iterable[int]) -> dict[int, Signal]:
    """Return the signals that are user or doorbell signals, by their handle."""
    found = {}
    for handle in handles:
        words = memory.words(handle, _SIGNAL)
        if words and words[0] in (_USER, *_DOORBELLS):
            began, ended = words[8], words[12]
            found[handle] = Signal(handle, words[0], words[1], words[3], words[7], bool(began) and not ended)
    return found


def find_queues(memory: Memory, signals: Iterable[Signal]) -> list[int]:
    """Return the addresses of the queues that doorbell signals name, and that look like queues."""
    named = {s.queue for s in signals if s.kind in _DOORBELLS and s.queue}
    return sorted(address for address in named if read_queue(memory, address, with_packets=False))


def read_queue(memory: Memory, address: int, *, with_packets: bool = True) -> Queue | None:
    """Return a queue; None if what stands there is none: its check, size or ring does not fit."""
    data = memory.read(address, _QUEUE_BYTES)
    if not data:
        return None
    _, _, ring, _, size, _, queue_id, _ = struct.unpack_from(_QUEUE_HEAD, data)
    write, read = (struct.unpack_from("<Q", data, at)[0] for at in (_WRITE_AT, READ_AT))
    (check,) = struct.unpack_from("<I", data, _CHECK_AT)
    if check != READ_AT or not 0 < size <= _LARGEST_RING or size & (size - 1) or not ring:
        return None
    if not with_packets:
        return Queue(address, ring, size, queue_id, write, read)
    slots = range(read, min(write, read + min(size, _MOST_SLOTS)))
    packets = tuple(p for p in _read_packets(memory, ring, size, slots) if p.kind != KINDS[_INVALID])
    # A slot that was used again holds a packet of [read, write).
    before = range(max(read - _RETIRED, write - size, 0), read)
    retired = tuple((p.index, p.completion) for p in _read_packets(memory, ring, size, before) if p.completion)
    return Queue(address, ring, size, queue_id, write, read, packets, retired)


def count_packets(memory: Memory, places: Iterable[tuple[int, int, int]]) -> dict[int, tuple[int, int]]:
    """Return written and finished packets of queues whose index addresses a dump of MQDs shows, by the read index's.

    Both addresses must be those of one amd_queue_t with the ring of the MQD; else nothing is returned.

    Args:
        memory: of the process.
        places: addresses of read index, write index and ring.
    """
    found = {}
    for read_at, write_at, ring in places:
        address = read_at - READ_AT
        queue = read_queue(memory, address, with_packets=False) if address == write_at - _WRITE_AT else None
        if queue is not None and queue.ring == ring:
            found[read_at] = (queue.write, queue.read)
    return found


def _read_packets(memory: Memory, ring: int, size: int, indexes: range) -> list[Packet]:
    """Return the packets of some slots; those that cannot be read are left out."""
    found: list[Packet] = []
    at = indexes.start
    while at < indexes.stop:
        slot = at % size
        count = min(size - slot, indexes.stop - at)
        data = memory.read(ring + slot * _PACKET_BYTES, count * _PACKET_BYTES)
        pieces = range(0, len(data), _PACKET_BYTES)
        found += [_decode_packet(data[piece : piece + _PACKET_BYTES], at + n) for n, piece in enumerate(pieces)]
        at += count
    return found


def _decode_packet(data: bytes, index: int) -> Packet:
    """Return the packet that 64 bytes hold; of an INVALID one only its completion signal, which it may have kept.

    Args:
        data: the slot.
        index: its packet index.
    """
    header, second = struct.unpack_from("<HH", data)
    kind, (completion,) = header & 0xFF, struct.unpack_from("<Q", data, 56)
    name = KINDS[kind] if kind < len(KINDS) else f"type {kind}"
    is_gated = bool(header & 0x100)
    if kind == _DISPATCH:
        (kernel_object, kernarg) = struct.unpack_from("<QQ", data, 32)
        return Packet(index, name, is_gated, completion, kernel_object=kernel_object, kernarg=kernarg,
                      grid=struct.unpack_from("<III", data, 12))  # fmt: skip
    if kind in (_BARRIER_AND, _BARRIER_OR):
        waits = tuple(handle for handle in struct.unpack_from("<5Q", data, 8) if handle)
        return Packet(index, name, is_gated, completion, waits)
    if kind == _VENDOR and second & 0xFF == _BARRIER_VALUE:
        signal, value, mask, condition = struct.unpack_from("<QQQI", data, 8)
        told = f"(value & {mask:#x}) {_CONDITIONS[condition & 3]} {value:#x}"
        return Packet(index, name, is_gated, completion, (signal,) if signal else (), told)
    return Packet(index, "vendor" if kind == _VENDOR else name, is_gated, completion)


def holds(condition: str, value: int) -> bool:
    """Tell whether a value meets the condition of a barrier_value.

    >>> holds("(value & 0xff) >= 0x2", 3), holds("(value & 0xff) == 0x2", 3)
    (True, False)
    """
    mask, _, rest = condition.removeprefix("(value & ").partition(") ")
    operator, _, wanted = rest.partition(" ")
    found, other = value & int(mask, 16), int(wanted, 16)
    # Compared as signed numbers, as signals are.
    found, other = (n - (1 << 64) if n >> 63 else n for n in (found, other))
    return {"==": found == other, "!=": found != other, "<": found < other, ">=": found >= other}[operator]
