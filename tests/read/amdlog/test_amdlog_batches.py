"""Depth and parent do not depend on where batches end: recorded logs, and synthetic nested calls with lost halves."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from amdlog_cases import DISPATCH, Read, enter, leave, line, log, read
from hypothesis import given
from hypothesis import strategies as st

from tracecorr.model.kinds import Flag
from tracecorr.read.amdlog import calls, reader

_THREADS = ("[pid:7 tid: 0x7f00000000a0] ", "[pid:7 tid: 0x7f00000000b0] ")
_NAMES = ("hipA", "hipB", "hipC", "ihipD")
_ROWS = ("No HW event", "ShaderName : k(int)", DISPATCH, "Command (KernelExecution) enqueued: 0x5 to queue: 0x6")


def _joined(parts: list[list[str]]) -> list[str]:
    return [message for part in parts for message in part]


def _nested(body: st.SearchStrategy[list[str]]) -> st.SearchStrategy[list[str]]:
    call = st.builds(lambda name, inside: [enter(name), *inside, leave(name)], st.sampled_from(_NAMES), body)
    return st.lists(st.one_of(call, body), max_size=4).map(_joined)


_LEAVES = st.one_of(
    st.sampled_from(_ROWS).map(lambda row: [row]),
    st.sampled_from(_NAMES).map(lambda name: [enter(name)]),
    st.sampled_from(_NAMES).map(lambda name: [leave(name)]),
    st.just([enter("hipGetLastError")]),
)
# Synthetic: calls of two threads nest, and some lack one of their lines.
_MESSAGES = st.lists(st.recursive(_LEAVES, _nested, max_leaves=25), max_size=6).map(_joined)


def _interleave(first: list[str], second: list[str], turns: list[bool]) -> str:
    queues, lines = [list(first), list(second)], []
    for turn in (*turns, *[False] * len(first), *[True] * len(second)):
        if queues[turn]:
            lines.append(line(queues[turn].pop(0), 5000000000 + len(lines), _THREADS[turn]))
    return "".join(lines)


_LOGS = st.builds(_interleave, _MESSAGES, _MESSAGES, st.lists(st.booleans(), max_size=60))


def _read(data: bytes | str, wait_bytes: int, *, tiny: bool, block_bytes: int = 150) -> Read:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(calls, "_WAIT_BYTES", wait_bytes)
        return read(data, block_bytes if tiny else 4 << 20)


def _assert_same(tiny: Read, whole: Read) -> None:
    for name in ("events", "packets", "args", "ledger"):
        assert getattr(tiny, name).equals(getattr(whole, name)), name


def _oracle(text: str, wait_bytes: int) -> dict[int, tuple[int, int | None]]:
    """Return depth and parent by offset: one line after the other, with the whole file known."""
    lanes: dict[str, list[tuple[int, str]]] = {thread: [] for thread in _THREADS}
    at = 0
    for record in text.splitlines(keepends=True):
        thread = next(t for t in _THREADS if t in record)
        lanes[thread].append((at, record.partition(thread)[2].removeprefix("\x1b[32m").strip()))
        at += len(record)
    return {offset: found for rows in lanes.values() for offset, found in _nesting(rows, wait_bytes).items()}


def _nesting(rows: list[tuple[int, str]], wait_bytes: int) -> dict[int, tuple[int, int | None]]:
    ends: dict[int, int] = {}
    open_calls: list[tuple[int, str]] = []
    last = None
    for offset, message in rows:
        is_enter, is_exit = " ( " in message, ": Returned " in message
        name = message.partition(" ( ")[0].partition(": Returned ")[0]
        if not (is_enter and name.startswith(("hip", "ihip"))) and not is_exit:
            continue
        if last is not None:
            ends.setdefault(last, offset)
        if open_calls and open_calls[-1][1] == "hipGetLastError" and not (is_exit and name == "hipGetLastError"):
            open_calls.pop()
        same = [call for call in open_calls if call[1] == name]
        if is_enter:
            open_calls = [call for call in open_calls if call not in same] + [(offset, name)]
        elif same:
            open_calls = open_calls[: open_calls.index(same[0])]
            if offset - same[0][0] <= wait_bytes:
                ends[same[0][0]] = offset
        last = offset if is_enter else None
    starts = [(at, ends.get(at, 1 << 60)) for at, message in rows if " ( " in message and "hip" in message]
    around = {at: [start for start, end in starts if start < at < end] for at, _ in rows}
    return {at: (len(found), max(found, default=None)) for at, found in around.items()}


@given(_LOGS, st.sampled_from([300, 1500, 8 << 20]), st.booleans())
def test_depth_and_parent_are_those_of_the_stated_rule(text: str, wait_bytes: int, tiny: bool) -> None:
    known = _oracle(text, wait_bytes)
    for row in _read(text, wait_bytes, tiny=tiny).events.to_dicts():
        if not row["flags"] & Flag.EXIT_ONLY:
            assert (row["depth"], row["parent_offset"]) == known[row["offset"]]


@pytest.mark.parametrize("name", ["mt-threads", "caseB-4streams", "hip-6.4.3"])
@pytest.mark.parametrize("wait_bytes", [1000, 8 << 20])
def test_a_recorded_log_in_tiny_batches(data_folder: Path, name: str, wait_bytes: int) -> None:
    data = (data_folder / "captures" / name / "amd.log").read_bytes()[:60_000]
    data = data[: data.rindex(b"\n") + 1]
    whole = _read(data, wait_bytes, tiny=False)
    _assert_same(_read(data, wait_bytes, tiny=True, block_bytes=700), whole)
    assert whole.events["parent_offset"].n_unique() > 20


def _by_name(found: Read) -> dict[str, dict[str, Any]]:
    return {row["name"]: row for row in found.events.to_dicts()}


def test_a_call_longer_than_the_rule_allows_encloses_up_to_the_next_call() -> None:
    text = log(enter("hipA"), "No HW event", enter("hipB"), leave("hipB"), "Free hsa memory 0x1", leave("hipA"))
    for wait_bytes, outer in ((len(text), 0), (len(text) // 2, None)):
        rows = _by_name(_read(text, wait_bytes, tiny=True))
        assert (rows["hipA"]["flags"], rows["hipA"]["end_stamp_ns"]) == (0, 5000000005_000)
        assert rows["No HW event"]["parent_offset"] == 0
        assert (rows["hipB"]["parent_offset"], rows["free"]["parent_offset"]) == (outer, outer)


def test_what_waits_is_bounded() -> None:
    text = log(enter("hipA"), *[enter("hipB"), leave("hipB")] * 500)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(calls, "_WAIT_BYTES", 5000)
        blocks = list(reader.read_amd_log(BytesIO(text.encode()), 3, 1000))
    seen = [block.events["offset"].max() for block in blocks[8:-1]]
    assert None not in seen
    assert len(blocks[-1].events) < 100
