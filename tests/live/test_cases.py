"""Reported hangs as reduced SYNTHETIC memory: what is seen, what it means, and that nothing more is claimed.

Each case is named after the report that it was reduced from.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from images import Image, Pages, barrier, barrier_value, dispatch, hqds, invalid, mqds, registers, sight

from tracecorr.analyze.hangs import judge_scene
from tracecorr.live.driver import Driver, read_driver
from tracecorr.live.look import Sight, ValueUse
from tracecorr.live.processes import Thread
from tracecorr.live.rings import count_packets, read_queue
from tracecorr.live.scene import make_scene
from tracecorr.read.kfd.dumps import read_dumps

_STALL_NS = 30 * 10**9
WAIT, WRITE = "__amd_rocclr_streamOpsWait", "__amd_rocclr_streamOpsWrite"


def _pending_dispatches() -> Sight:
    """legacy-rocm-build#6437: 32 packets pending, none ends, no line of the driver."""
    image = Image()
    queue = image.queue([dispatch() for _ in range(40)], read=8)
    return sight(image, [queue], names={0x1000: "spin"})


def _all_met() -> Sight:
    """legacy-rocm-build#6630: the scheduler is dead; the head waits for nothing any more."""
    image = Image()
    done, mine = image.signal(0), image.signal(1)
    queue = image.queue([barrier(done, completion=mine)])
    return sight(image, [queue])


def _never_published() -> Sight:
    """rocm-systems#8856: a slot at the read index is INVALID, 29 valid packets stand behind it."""
    image = Image()
    queue = image.queue([invalid(), *(dispatch() for _ in range(29))])
    return sight(image, [queue], names={0x1000: "k"})


def _writer_behind() -> Sight:
    """rocm-systems#9249, clr#133: the writer is behind the barrier_value that waits for it."""
    image = Image()
    waited, mine = image.signal(0), image.signal(1)
    packets = [dispatch(0x2000) for _ in range(5)] + [
        barrier_value(waited, 1),
        dispatch(0x3000),
        barrier(completion=mine),
    ]
    queue = image.queue(packets, read=5)
    ring = read_queue(image, queue).ring  # type: ignore[arg-type, union-attr]
    use = ValueUse(waited + 8, is_write=True)
    return sight(image, [queue], names={0x3000: WRITE}, values={(ring, 6): use})


def _foreign_dependency() -> Sight:
    """A barrier waits for a signal that no packet completes."""
    image = Image()
    owed = image.signal(1)
    return sight(image, [image.queue([barrier(owed)])])


def _two_rings() -> Sight:
    """A barrier of one ring waits for a packet of another one, which runs."""
    image = Image()
    owed = image.signal(1)
    return sight(image, [image.queue([dispatch(0x1000, owed)]), image.queue([barrier(owed), dispatch()])],
                 names={0x1000: "slow"})  # fmt: skip


def _lost_copy() -> Sight:
    """rocm-systems#7896: all rings are empty, a thread spins, the signal of a copy that began is still 1."""
    image = Image()
    image.signal(1, sdma=(77, 0))
    thread = Thread(11, 11, "app", "R", "runs")
    return sight(image, [image.queue([], 0)], [thread])


def _lost_packet() -> Sight:
    """The ring has passed a packet, and its signal is still 1."""
    image = Image()
    lost = image.signal(1)
    return sight(image, [image.queue([invalid(lost)], read=1)])


def _lock_order() -> Sight:
    """rocm-systems#10529: pool and device are locked in two orders."""
    threads = [Thread(n, n, "app", "S", "futex", lock=lock, owner=owner) for n, lock, owner in
               ((11, 0x10, 12), (12, 0x20, 11))]  # fmt: skip
    image = Image()
    return sight(image, [image.queue([])], threads)


def _foreign_lock() -> Sight:
    """Two threads wait for a lock whose memory names no owner: one of the C library, or of another runtime."""
    threads = [Thread(n, n, "app", "S", "futex", lock=0x10) for n in (11, 12)]
    image = Image()
    return sight(image, [image.queue([])], threads)


def _held_lock() -> Sight:
    """rocm-systems#11678: threads wait for a lock whose holder waits for the GPU."""
    image = Image()
    done = image.signal(1, event=5)
    threads = [
        Thread(11, 11, "app", "S", "ioctl", events=(5,), is_endless=True),
        *(Thread(n, n, "app", "S", "futex", lock=0x10, owner=11) for n in (12, 13)),
    ]
    return sight(image, [image.queue([dispatch(0x1000, done)])], threads, names={0x1000: "slow"})


def _collective() -> Sight:
    image = Image()
    return sight(image, [image.queue([dispatch()])], names={0x1000: "ncclDevKernel_AllReduce_Sum_f32(...)"})


# Case, (cause, certainty), words that `seen` has, words that `means` has.
CASES: list[tuple[Callable[[], Sight], list[tuple[str, str]], tuple[str, ...], tuple[str, ...]]] = [
    (_pending_dispatches, [("kernel", "")], ("32 of 64 packets pending", "packet 8 of"), ("known from outside",)),
    (_all_met, [("not_taken", "one of")], ("packet 0 of",), ("scheduler is dead", "doorbell was lost", "not mapped")),
    (_never_published, [("kernel", "")], ("packet 1 of", "slot 0 is INVALID or ended"), ("known from outside",)),
    (_writer_behind, [("deadlock", "likely")], ("packet 5 of", "packet 6 of", "circular"), ("a write of the host",)),
    (_foreign_dependency, [("dependency", "one of")], ("no packet of a ring",), ("SDMA", "another process")),
    (_two_rings, [("kernel", ""), ("dependency", "likely")], ("waits for signal",), ("slow", "packet 0 of queue 7")),
    (_lost_copy, [("lost_completion", "one of")], ("copy that began",), ("SDMA",)),
    (_lost_packet, [("lost_completion", "one of")], ("packet 0 of", "is 1"), ("SDMA", "lost")),
    (_lock_order, [("deadlock", "proved")], ("thread 11", "thread 12", "a circular wait"), ("deadlock",)),
    (_foreign_lock, [("lock", "")], ("its owner is not known", "1 more thread waits"), ("is not known",)),
    (_held_lock, [("kernel", "")], ("thread 12 waits for the lock", "which thread 11 holds"), ("slow",)),
    (_collective, [("peers", "likely")], ("ncclDevKernel",), ("peers",)),
]  # fmt: skip


@pytest.mark.parametrize(("make", "expected", "seen", "means"), CASES, ids=[case[0].__name__ for case in CASES])
def test_a_reported_hang_is_judged_by_what_can_be_seen(
    make: Callable[[], Sight], expected: list[tuple[str, str]], seen: tuple[str, ...], means: tuple[str, ...]
) -> None:
    made = make()
    found = judge_scene(make_scene(made), 10**9, _STALL_NS)
    assert [(j.cause, j.certainty) for j in found] == expected
    told, meaning = " ".join(line for j in found for line in j.seen), " ".join(j.means for j in found)
    assert [word for word in seen if word not in told] == [], told
    assert [word for word in means if word not in meaning] == [], meaning
    # Only what is proved stands before --stall; everything that is told stands after it.
    assert [j.stands for j in found] == [j.certainty == "proved" for j in found]
    assert all(j.stands for j in judge_scene(make_scene(made), _STALL_NS, _STALL_NS))


# legacy-rocm-build#5724, with the prefix of /dev/kmsg.
_NOT_REMOVED = b"""\
3,1,950818166,-;amdgpu 0000:c5:00.0: amdgpu: MES failed to respond to msg=REMOVE_QUEUE
3,2,950818171,-;amdgpu 0000:c5:00.0: amdgpu: failed to remove hardware queue from MES, doorbell=0x1802
3,3,950818180,-;amdgpu: Failed to evict queue 1
6,4,950818199,-;amdgpu 0000:c5:00.0: amdgpu: GPU reset begin!. Source:  3
3,5,950818215,-;amdgpu: Failed to suspend process pid 14368
"""
# ollama#738, shortened: no line names a process or a queue.
_HIQ = b"""\
3,1,75287322365,-;amdgpu 0000:03:00.0: amdgpu: HIQ MQD's queue_doorbell_id0 is not 0, Queue preemption time out
3,2,75287322370,-;amdgpu: Failed to evict process queues
"""
# legacy-rocm-build#6630: the first line came 480 s after the scheduler had died, when the program was killed.
_MES = b"3,1,480000000,-;amdgpu 0000:c5:00.0: amdgpu: MES(1) failed to respond to msg=REMOVE_QUEUE\n"
_RESET_DONE = b"6,9,950819000,-;amdgpu 0000:c5:00.0: amdgpu: GPU reset(1) succeeded!\n"


# Log, state of its registers, (cause, certainty), words of `seen`, of `means`, of `would_decide`.
DRIVER: dict[str, tuple[bytes, dict[str, Any], tuple[str, str], tuple[str, ...], tuple[str, ...], str]] = {
    "the log names the queue": (
        _NOT_REMOVED + _RESET_DONE, {"doorbell": 0x1802}, ("driver", "proved"),
        ("attention", "950.818171 s: amdgpu 0000:c5:00.0: amdgpu: failed to remove hardware queue", "pid 14368"),
        ("names this queue", "did not answer an eviction", "all its processes lose their queues"), "cwsr_enable=0",
    ),
    "the log names another queue": (
        _NOT_REMOVED + _RESET_DONE, {"doorbell": 0x1804}, ("driver", "likely"), ("pid 14368",),
        ("names this process",), "--deep",
    ),
    "a reset is under way": (
        _NOT_REMOVED, {"doorbell": 0x1802}, ("driver", "likely"), ("GPU reset begin",), ("names this process",), "",
    ),
    "the log names nobody": (_HIQ, {}, ("driver", "one of"), ("HIQ MQD",), ("another reason",), "which queues"),
    "the scheduler is dead": (
        _MES, {}, ("driver", "one of"), ("MES(1) failed",), ("not what killed it", "another reason"), "--deep",
    ),
    "a program wrote it": (_MES.replace(b"3,", b"12,", 1), {}, ("kernel", ""), (), (), "waves"),
    "mapped": (b"", {}, ("kernel", ""), ("attention",), ("is mapped: it runs",), "waves"),
    "all is fetched": (b"", {"empty": True}, ("kernel", ""), (), ("a doorbell was lost",), "waves"),
    "in error": (b"", {"error": 0x10}, ("error", "likely"), (), ("CP_HQD_ERROR is 0x10",), "kernel log"),
    "asked to leave": (b"", {"dequeue": 1}, ("preempted", "likely"), (), ("it has not",), "kernel log"),
    "not mapped": (b"", {"active": 0}, ("unmapped", "likely"), (), ("no slot",), "kernel log"),
}  # fmt: skip


@pytest.mark.parametrize("name", DRIVER)
def test_what_the_driver_tells_of_a_queue_that_stands(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """The first is ollama#738, legacy-rocm-build#5724: a queue that did not answer, and a reset that took all."""
    log, state, expected, seen, means, decide = DRIVER[name]
    image = Image()
    made = replace(sight(image, [image.queue([dispatch()] * 4, read=1)], names={0x1000: "attention"}), pid=14368)
    (queue,) = made.looks[-1].queues or []
    words = registers(queue, **{"doorbell": 0x1806, **state})
    dumps = {"mqds": mqds(14368, words), "hqds": hqds(words)}
    monkeypatch.setattr("tracecorr.live.driver._read_kernel_log", lambda: log)
    driver = read_driver(dumps.__getitem__, list(dumps))
    (judgment,) = judge_scene(make_scene(made, driver), 10**9, _STALL_NS)
    assert (judgment.cause, judgment.certainty, judgment.stands) == (*expected, expected[1] == "proved")
    told = (" ".join(judgment.seen), judgment.means, judgment.would_decide)
    wanted = (seen, means, (decide,))
    assert [word for words, text in zip(wanted, told, strict=True) for word in words if word not in text] == [], told
    assert "doorbell=0x1802" not in told[0] or expected[1] == "proved"
    assert bool(driver.gaps) == (name == "a reset is under way")
    # Lines from before the process began say nothing of it.
    late = replace(made, looks=[replace(look, process=replace(look.process, began_ns=10**15)) for look in made.looks])
    (judgment,) = judge_scene(make_scene(late, Driver(driver.records)), 10**9, _STALL_NS)
    assert judgment.cause == "kernel"


def test_a_dump_that_does_not_come_is_the_last_one_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tracecorr.live.driver._DUMP_SECONDS", 0.2)
    monkeypatch.setattr("tracecorr.live.driver._read_kernel_log", lambda: b"")
    driver = read_driver(lambda _: time.sleep(60) or b"", ["mqds", "hqds"])
    (gap,) = driver.gaps
    assert gap.startswith("mqds gave no answer in 0.2 s")
    assert driver.slots.is_empty()


def test_what_moved_or_was_written_meanwhile_does_not_stand() -> None:
    image = Image()
    queue = image.queue([dispatch() for _ in range(4)], read=1)
    before = sight(image, [queue]).looks[0]
    image.put(queue + 128, (2).to_bytes(8, "little"))
    moved = Sight(9, [before, sight(image, [queue]).looks[1]])
    assert judge_scene(make_scene(moved), 10**9, _STALL_NS) == []
    idle = Image()
    ring = idle.queue([dispatch()], read=1)
    before = sight(idle, [ring]).looks[0]
    late = idle.queue([dispatch(), dispatch()], read=1)
    written = Sight(9, [before, sight(idle, [late]).looks[1]])
    assert judge_scene(make_scene(written), 10**9, _STALL_NS) == []


def test_packets_whose_signals_are_done_have_ended_whatever_the_index_says() -> None:
    """gfx1250 may move its index in steps of 8 (rocm-systems#9249)."""
    image = Image()
    done = image.signal(0)
    queue = image.queue([dispatch(), barrier(completion=done)])
    assert judge_scene(make_scene(sight(image, [queue])), 10**9, _STALL_NS) == []


def test_listeners_are_no_waits_of_the_host() -> None:
    """ROCr's own threads wait for several events, with a limit, or for a signal that is 0."""
    image = Image()
    image.signal(1, event=3)
    image.signal(0, event=4)
    threads = [
        Thread(11, 11, "a", "S", "ioctl", events=(3, 4), is_endless=True),
        Thread(12, 12, "b", "S", "ioctl", events=(3,), is_endless=False),
        Thread(13, 13, "c", "S", "ioctl", events=(4,), is_endless=True),
    ]
    assert judge_scene(make_scene(sight(image, [image.queue([])], threads)), 10**9, _STALL_NS) == []


@pytest.mark.parametrize("at", [8, 24, 136])
def test_garbage_is_no_queue(at: int) -> None:
    """Its ring's address, its size and its check are looked at."""
    image = Image()
    queue = image.queue([dispatch()])
    image.put(queue + at, (0).to_bytes(8, "little") if at == 8 else b"\xff\xff\xff\xff")
    found = read_queue(image, queue)  # type: ignore[arg-type]
    assert found is None or found.packets == ()


def test_the_queues_of_a_recorded_dump_are_found_in_memory(data_folder: Path) -> None:
    """REAL: MQDs of an MI308X with 5 queues on 4 XCCs; the memory behind their addresses is SYNTHETIC."""
    dump = (data_folder / "real" / "kfd-mqds-mi308x-active-32streams.txt").read_bytes()
    rows = read_dumps(dump)[0].rows.filter(pl.col("type").cast(pl.String) == "cp")
    places = rows.select("read_address", "write_address", "pq_base").unique(maintain_order=True).rows()
    assert len(places) == 5
    pages = {}
    for number, (read_at, _, ring) in enumerate(places):
        queue = Image()
        address = queue.queue([], size=16384)
        page = bytearray(queue.read(address, 2304))
        page[8:16], page[56:64] = ring.to_bytes(8, "little"), (100 + number).to_bytes(8, "little")
        page[128:136] = (90).to_bytes(8, "little")
        pages[read_at - 128] = bytes(page)
    memory = Pages(pages)
    found = count_packets(memory, places)  # type: ignore[arg-type]
    assert list(found.values()) == [(100 + number, 90) for number in range(5)]
    # Addresses that are not those of one queue, and another ring, tell nothing.
    read_at, write_at, ring = places[0]
    wrong = [(read_at, write_at + 8, ring), (read_at, write_at, ring + 4096), (read_at + 64, write_at + 64, ring)]
    assert count_packets(memory, wrong) == {}  # type: ignore[arg-type]
