"""What was read before does not change what is read of a message."""

from __future__ import annotations

from typing import Any

from amdlog_cases import DISPATCH, line, read
from hypothesis import given
from hypothesis import strategies as st

_BARRIER = (
    "SWq=0x220000, HWq=0x3c00000, id=1, BarrierValue Header = 0x1500 AmdFormat = 0x2 (type=0, barrier=1, acquire=2, "
    "release=2), signal=0x0, value = 0x0 mask = 0x0 cond: EQ, completion_signal=0x7fc080, rptr=1, wptr=4"
)
_MESSAGES = [
    "Handler: value(0), timestamp(0x55c431b0), handle(0x7fc080)", "Command 0x55c431af0d20 complete", DISPATCH, _BARRIER,
    "Set Handler: handle(0x7fc080), timestamp(0x55c431b0), blocking CB=0",
    "Signal = (0x7fb280), Translated start/end = 4975204125611 / 4975204125681, Elapsed = 70 ns, ticks = 1 / 2",
    "Signal = (0x7fb280), start = 17, end = 4975204125681", "KernargSegmentByteSize = 24 KernargSegmentAlignment = 8",
    "Allocate hsa device memory 0x7f51, size 0x2000", "Command (KernelExecution) enqueued: 0x55c4 to queue: 0x55d5",
    "Command (Marker) submitted: 0x55c4",
]  # fmt: skip
_CHANGES = st.tuples(st.integers(0, 300), st.sampled_from("0123456789abfA, xX()=-:z"), st.sampled_from([0, 1]))


def _changed(message: str, changes: list[tuple[int, str, int]]) -> str:
    for place, character, taken in changes:
        place %= len(message)
        message = message[:place] + character + message[place + taken :]
    return message


def _found(log: str, offset: int = 0) -> dict[str, Any]:
    """Return what the line at an offset of a log says, without what it has from the lines before it."""
    rows = read(log, 400)
    tables = {"events": rows.events.drop("parent_offset", "depth"), "packets": rows.packets, "args": rows.args}
    tables["packets"] = tables["packets"].drop("command_offset", "kernarg_bytes")
    found = {name: table.filter(offset=offset).drop("offset").to_dicts() for name, table in tables.items()}
    for row in found["events"]:
        if row["layer"] == "aql" and row["name"] not in ("enqueued", "complete"):
            row["command"] = row["kernel"] = None
    return found


@given(
    st.lists(st.tuples(st.sampled_from(_MESSAGES), st.lists(_CHANGES, max_size=2)), max_size=25),
    st.sampled_from(_MESSAGES),
    st.lists(_CHANGES, max_size=2),
)
def test_a_message_is_read_the_same_whatever_was_read_before(
    before: list[tuple[str, list[tuple[int, str, int]]]], message: str, changes: list[tuple[int, str, int]]
) -> None:
    last = line(_changed(message, changes))
    log = "".join(line(_changed(*one)) for one in [(message, []), *before])
    assert _found(log + last, len(log)) == _found(last)
