"""What two looks at a process show as a scene: rings with their heads, threads with what they wait for."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

from tracecorr.analyze.hangs import Judgment
from tracecorr.live.driver import Driver, find_slots, list_lines
from tracecorr.live.look import Look, Sight
from tracecorr.live.processes import Thread
from tracecorr.live.rings import KINDS, Packet, Queue, Signal, holds
from tracecorr.model.standstill import ANSWERS, NOTHING, STANDS, UNTOLD, Ring, Scene, Wait, Waiter, Work

_USER = 1
_OTHERS = "SDMA, a handler of the host, or another process"
_MOST_LOST = 4
_HALTED = {"T": "stopped by a signal (SIGSTOP, SIGTSTP)", "t": "stopped by its tracer"}


def make_scene(sight: Sight, driver: Driver | None = None) -> Scene:
    """Return the scene of two looks; empty of rings where memory could not be read.

    Args:
        sight: what was seen of the process.
        driver: what the driver told; None = it was not asked.
    """
    slots = find_slots(driver, sight) if driver else {}
    first, last = sight.looks[0], sight.looks[-1]
    signals = last.signals
    before = {queue.address: queue for queue in first.queues or []}
    queues = last.queues or []
    pending = {queue.address: _list_pending(queue, signals) for queue in queues}
    makers = _list_makers(queues, pending)
    standing = {_key(queue.ring, packet.index) for queue in queues for packet in pending[queue.address]}
    writers: dict[int, list[str]] = {}
    for (ring, index), use in sight.values.items():
        if use.is_write and _key(ring, index) in standing:
            writers.setdefault(use.address, []).append(_key(ring, index))
    works, heads, rings = {}, {}, {}
    for queue in queues:
        packets, key = pending[queue.address], f"ring {queue.ring:#x}"
        for packet in packets:
            waits = _list_waits(queue, packet, sight, signals, makers, writers) if packet is packets[0] else ()
            works[_key(queue.ring, packet.index)] = _make_work(queue, packet, sight, waits)
        if packets:
            heads[key] = _key(queue.ring, packets[0].index)
        earlier = before.get(queue.address)
        was = _list_pending(earlier, first.signals) if earlier else []
        has_moved = not packets or _first(was) != _first(packets)
        lost = () if earlier is None else tuple(_list_lost(queue, first, last, makers))
        empty = range(queue.read, packets[0].index) if packets else range(0)
        rings[key] = Ring(key, _name(queue), queue.size, queue.write, queue.read, has_moved, lost, len(empty),
                          slots.get(queue.ring))  # fmt: skip
    waiters = {f"thread {t.tid}": _make_waiter(t, first, last, makers, signals) for t in last.threads}
    return Scene(
        works, heads, waiters, rings, _tell_halted(last), _tell_unmapped(first, last),
        _list_copies(first, last, makers), list_lines(driver, sight) if driver else (),
    )  # fmt: skip


def _key(ring: int, index: int) -> str:
    return f"packet {index} of {ring:#x}"


def _name(queue: Queue) -> str:
    return f"queue {queue.queue_id} (HWq {queue.ring:#x})"


def _first(packets: list[Packet]) -> int | None:
    return packets[0].index if packets else None


def _list_pending(queue: Queue, signals: dict[int, Signal]) -> list[Packet]:
    """Return the packets of [read, write) that have not ended: completion signals decide, indexes give the order."""
    ended = queue.read - 1
    for packet in queue.packets:
        signal = signals.get(packet.completion)
        if signal is not None and signal.kind == _USER and signal.value <= 0 and packet.is_gated:
            ended = packet.index
    return [packet for packet in queue.packets if packet.index > ended]


def _list_makers(queues: Iterable[Queue], pending: dict[int, list[Packet]]) -> dict[int, list[str]]:
    """Return of each signal the packets that would complete it."""
    makers: dict[int, list[str]] = {}
    for queue in queues:
        for packet in pending[queue.address]:
            if packet.completion:
                makers.setdefault(packet.completion, []).append(_key(queue.ring, packet.index))
    return makers


def _make_work(queue: Queue, packet: Packet, sight: Sight, waits: tuple[Wait, ...]) -> Work:
    kernel = sight.names.get(packet.kernel_object, "")
    if packet.kernel_object and not kernel:
        kernel = f"the kernel at {packet.kernel_object:#x}"
    grid = f", grid {'x'.join(map(str, packet.grid))}" if packet.kind == KINDS[2] else ""
    what = f"{packet.kind}{' of ' + kernel if kernel else ''}{grid}"
    told = f"packet {packet.index} of queue {queue.queue_id} ({what})"
    return Work(_key(queue.ring, packet.index), told, f"ring {queue.ring:#x}", packet.index, kernel, waits,
                packet.kind == "barrier_or", packet.is_gated)  # fmt: skip


def _list_waits(
    queue: Queue, packet: Packet, sight: Sight, signals: dict[int, Signal], makers: dict[int, list[str]],
    writers: dict[int, list[str]],
) -> tuple[Wait, ...]:  # fmt: skip
    name = f"packet {packet.index} of queue {queue.queue_id}"
    use = sight.values.get((queue.ring, packet.index))
    if use is not None and not use.is_write:
        return () if use.is_met else (_wait_for_value(name, use.address, use.told, writers, ()),)
    found = []
    for handle in packet.waits:
        signal = signals.get(handle)
        value = signal.value if signal else None
        if packet.condition:
            if value is None or not holds(packet.condition, value):
                # ROCr's signals hold their value 8 bytes behind the handle.
                told = f"{packet.condition}, it is {'not readable' if value is None else f'{value:#x}'}"
                by = (*makers.get(handle, ()), *writers.get(handle + 8, ()))
                found.append(_wait_for_value(name, handle, told, {handle: list(by)}, by))
        elif value != 0:
            told = (
                f"{name} waits for signal {handle:#x} to become 0 (it is {'not readable' if value is None else value})"
            )
            by = tuple(makers.get(handle, ()))
            found.append(Wait("signal", told if by else f"{told}; no packet of a ring that was seen completes it", by,
                              "" if by and not sight.gaps else _OTHERS, handle))  # fmt: skip
    return tuple(found)


def _wait_for_value(name: str, address: int, told: str, writers: dict[int, list[str]], known: tuple[str, ...]) -> Wait:
    by = known or tuple(writers.get(address, ()))
    text = f"{name} waits for the value at {address:#x}: {told}"
    text += f"; {' or '.join(by)} would write it" if by else "; no packet of a ring that was seen writes it"
    return Wait("value", text, by, f"a write of the host, of a device or of another process to {address:#x}", address)


def _list_lost(queue: Queue, first: Look, last: Look, makers: dict[int, list[str]]) -> list[str]:
    """Return packets that the ring has passed although their completion signal stands in both looks."""
    newest = {handle: index for index, handle in queue.retired}
    found = []
    for handle, index in newest.items():
        was, now = first.signals.get(handle), last.signals.get(handle)
        stood = was is not None and now is not None and now.kind == _USER and was.value == now.value > 0
        if stood and now is not None and handle not in makers:
            found.append(f"packet {index} of queue {queue.queue_id}: signal {handle:#x} is {now.value}")
    return found[-_MOST_LOST:]


def _list_copies(first: Look, last: Look, makers: dict[int, list[str]]) -> tuple[str, ...]:
    """Return the SDMA copies that began before the first look and had not ended at the second."""
    stood = [
        signal for handle, signal in last.signals.items()
        if signal == first.signals.get(handle) and signal.is_copying and signal.kind == _USER and signal.value > 0
        and handle not in makers
    ]  # fmt: skip
    told = (f"signal {s.handle:#x} of a copy that began is {s.value}, and no end of the copy is stored" for s in stood)
    return tuple(told)[:_MOST_LOST]


def _make_waiter(
    thread: Thread, first: Look, last: Look, makers: dict[int, list[str]], signals: dict[int, Signal]
) -> Waiter:
    was = next((t for t in first.threads if t.tid == thread.tid), None)
    stood_ns = last.at_ns - first.at_ns
    waits: list[Wait] = []
    if thread.lock and was is not None and was.lock == thread.lock:
        told = f"thread {thread.tid} waits for the lock at {thread.lock:#x}"
        held = thread.owner and thread.owner == was.owner
        told += f", which thread {thread.owner} holds" if held else "; its owner is not known"
        waits.append(Wait("lock", told, (f"thread {thread.owner}",) if held else (), address=thread.lock))
    # ROCr's own threads wait for many events, or with a time limit, or for a signal that is 0.
    if len(thread.events) == 1 and thread.is_endless:
        for signal in signals.values():
            if signal.event_id == thread.events[0] and signal.kind == _USER and signal.value > 0:
                by = tuple(makers.get(signal.handle, ()))
                told = f"thread {thread.tid} waits for signal {signal.handle:#x} (it is {signal.value})"
                told += "" if by else "; no packet of a ring that was seen completes it"
                waits.append(Wait("signal", told, by, "" if by else _OTHERS, signal.handle))
    spins = was is not None and thread.cpu_ns - was.cpu_ns > stood_ns // 2
    doing = "uses the CPU all the time" if spins else thread.doing
    return Waiter(f"thread {thread.tid}", f"thread {thread.tid} ({thread.comm})", doing, tuple(waits), stood_ns)


def _tell_unmapped(first: Look, last: Look) -> str:
    """Return that the driver evicted the queues of a process, if its time of eviction grew between the looks."""
    passed_ms = (last.at_ns - first.at_ns) / 1e6
    for gpu, evicted in (last.process.evicted_ms if last.process else {}).items():
        grown = evicted - (first.process.evicted_ms.get(gpu, evicted) if first.process else evicted)
        if grown > passed_ms / 2:
            return f"the driver says that they were evicted for {grown} of the {passed_ms:.0f} ms (GPU {gpu:x})"
    return ""


def _tell_halted(look: Look) -> str:
    process = look.process
    if process is None:
        return ""
    if process.is_frozen:
        return "its cgroup is frozen"
    told = _HALTED.get(process.state, "")
    if process.state == "t" and process.tracer:
        told = f"{told} (pid {process.tracer})"
    return told


def describe_sight(sight: Sight, found: Sequence[Judgment]) -> dict[str, Any]:
    """Return what was seen of a process and what that means, for JSON: decoded, no bytes of its memory."""
    last = sight.looks[-1]
    stands = any(judgment.stands for judgment in found)
    status = STANDS if stands else UNTOLD if found or last.queues is None else NOTHING
    return {
        "pid": sight.pid, "name": last.process.comm if last.process else "", "status": status,
        "answer": ANSWERS[status], "judgments": [dataclasses.asdict(judgment) for judgment in found],
        "queues": [
            {"id": q.queue_id, "swq": hex(q.address), "hwq": hex(q.ring), "size": q.size, "written": q.write,
             "finished": q.read, "pending": q.pending}
            for q in last.queues or []
        ],
        "threads": [
            {"tid": t.tid, "name": t.comm, "state": t.state, "doing": t.doing, "kernel_stack": list(t.frames)}
            for t in last.threads
        ],
        "not_seen": sight.gaps,
    }  # fmt: skip
