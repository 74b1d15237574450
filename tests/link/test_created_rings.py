"""SYNTHETIC logs in the form of ROCm 6.1 and before: which ring a created queue has, whose line names none."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from tracecorr.pipeline import correlate, import_files
from tracecorr.store import Capture

_BEGIN = "Initializing HSA stack."
_COUNT = "number of allocated hardware queues with low priority: 0, with normal priority: 0, with high priority: 0"
_LAUNCH = "\x1b[32m hipLaunchKernel ( 0x55f9, {1,1,1}, {64,1,1}, 0x7f51, 0, stream:%s ) \x1b[0m"
_MEMCPY = "\x1b[32m hipMemcpy ( 0x7f51, 0x7f52, 64, hipMemcpyHostToDevice ) \x1b[0m"


def _leave(name: str, value: str = "") -> str:
    return f"{name}: Returned hipSuccess : {value}"


def _made(queue: int) -> list[str]:
    created = f"created hardware queue {queue:#x} with size 16384 with priority 1, cooperative: 0"
    return [f"{_COUNT}, maximum per priority is: 4", created, f"acquireQueue refCount: {queue:#x} (1)"]


def _create(stream: str, *inside: str) -> list[str]:
    enter = "\x1b[32m hipStreamCreate ( 0x7fc1 ) \x1b[0m"
    return [enter, *inside, _leave("hipStreamCreate", f"stream:{stream}")]


def _destroy(stream: str, *inside: str) -> list[str]:
    return [f"\x1b[32m hipStreamDestroy ( stream:{stream} ) \x1b[0m", *inside, _leave("hipStreamDestroy")]


def _dispatch(ring: int) -> list[str]:
    packet = f"HWq={ring:#x}, Dispatch Header = 0xb02 (type=2, barrier=1, acquire=1, release=1), setup=3"
    packet += ", grid=[64, 1, 1], workgroup=[64, 1, 1], private_seg_size=0, group_seg_size=0, kernel_obj=0x10"
    return ["Command (KernelExecution) enqueued: 0x28e79b70", packet + ", kernarg_address=0x11, completion_signal=0x0"]


def _launch(stream: str, ring: int, *before: str) -> list[str]:
    return [_LAUNCH % stream, *before, *_dispatch(ring), _leave("hipLaunchKernel")]


def _rings(folder: Path, *lines: list[str]) -> list[tuple[int | None, int | None, str | None]]:
    """Return SWq, ring and its evidence of each row of `queues`."""
    prefix = ":3:{:<25}:{:<4}: {:010d} us: [pid:7     tid:0x7f00000000a0] {}\n"
    messages = [message for part in lines for message in part]
    text = "".join(prefix.format("rocdevice.cpp", 965, 5000000000 + 9 * i, m) for i, m in enumerate(messages))
    (folder / "amd.log").write_text(text)
    out = folder / "log.tracecorr"
    import_files(out, [folder / "amd.log"], [])
    correlate(out)
    queues = Capture.open(out).table("queues").select("swq", "hwq", pl.col("ring_evidence").cast(pl.String))
    return queues.collect().rows()


def test_a_queue_has_the_ring_of_the_stream_that_it_was_made_for(tmp_path: Path) -> None:
    found = _rings(
        tmp_path, _create("0xa0", *_made(0x31)), _create("0xb0", *_made(0x3A)),
        _launch("0xb0", 0x2000), _launch("0xa0", 0x1000), _launch("0xb0", 0x2000),
    )  # fmt: skip
    assert found == [(0x31, 0x1000, "inferred"), (0x3A, 0x2000, "inferred")]


def test_streams_that_share_a_queue_share_its_ring(tmp_path: Path) -> None:
    found = _rings(
        tmp_path, _create("0xa0", *_made(0x31)), _create("0xb0", *_made(0x3A)),
        _create("0xc0", f"{_COUNT}, maximum per priority is: 2", "selected queue refCount: 0x31 (2)"),
        _launch("0xb0", 0x2000), _launch("0xc0", 0x1000),
    )  # fmt: skip
    assert found == [(0x31, 0x1000, "inferred"), (0x3A, 0x2000, "inferred")]


def test_a_queue_that_a_later_stream_takes_over_keeps_its_ring(tmp_path: Path) -> None:
    """The handle of a stream is given out again, here with another queue."""
    found = _rings(
        tmp_path, _create("0xa0", *_made(0x31)), _create("0xb0", *_made(0x3A)), _launch("0xa0", 0x1000),
        _destroy("0xa0", "releaseQueue refCount:0x31 (0)"), _destroy("0xb0", "releaseQueue refCount:0x3a (0)"),
        _create("0xa0", "selected queue refCount: 0x3a (1)"), _launch("0xa0", 0x2000),
    )  # fmt: skip
    assert found == [(0x31, 0x1000, "inferred"), (0x3A, 0x2000, "inferred")]


def test_a_stream_whose_launches_go_to_two_rings_tells_nothing(tmp_path: Path) -> None:
    found = _rings(
        tmp_path, _create("0xa0", *_made(0x31)), _create("0xb0", *_made(0x3A)),
        _launch("0xa0", 0x1000), _launch("0xa0", 0x2000),
    )  # fmt: skip
    assert found == [(0x31, None, None), (0x3A, None, None), (None, 0x1000, None), (None, 0x2000, None)]


def test_two_queues_whose_streams_use_one_ring_are_left_open(tmp_path: Path) -> None:
    found = _rings(
        tmp_path, _create("0xa0", *_made(0x31)), _create("0xb0", *_made(0x3A)),
        _launch("0xa0", 0x1000), _launch("0xb0", 0x1000),
    )  # fmt: skip
    assert found == [(0x31, None, None), (0x3A, None, None), (None, 0x1000, None)]


def test_a_cooperative_launch_uses_a_queue_of_the_device(tmp_path: Path) -> None:
    """CLR runs it on the device's own queue, which another call may have made before."""
    cooperative = (_LAUNCH % "0xa0").replace("hipLaunchKernel", "hipLaunchCooperativeKernel")
    found = _rings(
        tmp_path, _create("0xa0", *_made(0x31)), [_MEMCPY, *_made(0x3A), _leave("hipMemcpy")],
        [cooperative, *_dispatch(0x2000), _leave("hipLaunchCooperativeKernel")],
    )  # fmt: skip
    assert found == [(0x31, None, None), (0x3A, None, None), (None, 0x2000, None)]


def test_packets_that_came_before_the_queue_or_after_it_are_not_its_own(tmp_path: Path) -> None:
    early = [_launch("0xa0", 0x1000), _create("0xa0", *_made(0x31)), _launch("0xa0", 0x1000)]
    late = [
        _create("0xa0", *_made(0x31)), _launch("0xa0", 0x1000), ["deleting hardware queue 0x31 with refCount 0"],
        _launch("0xa0", 0x1000),
    ]  # fmt: skip
    for name, lines in (("early", early), ("late", late)):
        (tmp_path / name).mkdir()
        assert _rings(tmp_path / name, [_BEGIN], *lines) == [(0x31, None, None), (None, 0x1000, None)]


def test_the_only_queue_that_there_is_has_the_first_ring(tmp_path: Path) -> None:
    """The null stream's queue is made at its first use, by a call that names no stream; the next one likewise."""
    found = _rings(
        tmp_path, [_BEGIN], [_MEMCPY, *_made(0x31), _leave("hipMemcpy")], _launch("<null>", 0x1000),
        _launch("0xb0", 0x2000, *_made(0x3A)), _launch("<null>", 0x1000),
    )  # fmt: skip
    assert found == [(0x31, 0x1000, "inferred"), (0x3A, 0x2000, "inferred")]


def test_order_tells_nothing_where_queues_are_left_or_the_beginning_is_missing(tmp_path: Path) -> None:
    two = [_MEMCPY, *_made(0x31), *_made(0x3A), _leave("hipMemcpy")]
    one = [_MEMCPY, *_made(0x31), _leave("hipMemcpy")]
    cases = {
        "two queues": ([[_BEGIN], two, _launch("<null>", 0x1000)], 2), "no beginning": ([one, _launch("<null>", 1)], 1),
        "too many rings": ([[_BEGIN], one, _launch("<null>", 0x1000), _launch("0xa0", 0x2000)], 1),
    }  # fmt: skip
    for name, (lines, queues) in cases.items():
        (tmp_path / name).mkdir()
        found = _rings(tmp_path / name, *lines)
        assert [evidence for _, _, evidence in found] == [None] * len(found), name
        assert sum(swq is not None for swq, _, _ in found) == queues


def test_order_tells_nothing_of_queues_that_were_taken_before_their_created_line(tmp_path: Path) -> None:
    """Another thread takes the second queue, and launches into it, while the line that tells its making is not out."""
    found = _rings(
        tmp_path, [_BEGIN], [_MEMCPY, *_made(0x31), _leave("hipMemcpy")],
        _create("0xb0", f"{_COUNT}, maximum per priority is: 4", "selected queue refCount: 0x3a (2)"),
        _launch("0xb0", 0x2000), [_MEMCPY, *_made(0x3A), *_dispatch(0x1000), _leave("hipMemcpy")],
    )  # fmt: skip
    assert found == [(0x31, None, None), (0x3A, None, None), (None, 0x2000, None), (None, 0x1000, None)]
