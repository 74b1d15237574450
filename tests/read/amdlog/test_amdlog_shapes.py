"""What was read before does not change what is read of a message: shapes are only a faster way."""

from __future__ import annotations

from typing import Any

import pytest
from amdlog_cases import DISPATCH, line, read
from hypothesis import given, settings
from hypothesis import strategies as st

from tracecorr.read.amdlog.shapes import Shapes, Span
from tracecorr.read.text import Text

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


@settings(max_examples=120, deadline=None)
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


def _read(shapes: Shapes, text: str) -> list[tuple[str, int]] | None:
    held = Text(text.encode() + b"\n")
    at = held.bytes[:1].astype("int64") * 0 + held.start
    reading = shapes.read(held, at * 0, at, at * 0 + len(text))
    if len(reading.rest):
        return None
    return [(name, int(values[0])) for name, _, values in reading.fields]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("value 0x7f0000001234, count 12345678901 (free 77)", [("value", 0x7F0000001234), ("count", 12345678901)]),
        ("value 0x7f000000abcd, count 99999999999 (free 12)", [("value", 0x7F000000ABCD), ("count", 99999999999)]),
        ("value 0x7f000000ABCD, count 99999999999 (free xy)", [("value", 0x7F000000ABCD), ("count", 99999999999)]),
        ("value 0x7f000000abcg, count 99999999999 (free 12)", None),
        ("value 0x7f000000abcd, count 9999999999x (free 12)", None),
        ("value 0x7f000000abcd; count 99999999999 (free 12)", None),
        ("value 0x7f000000abcd, count 9999999999 (free 123)", None),
        ("value 0x7f00000abcd, count 99999999999 (free 12)", None),
    ],
)
def test_a_shape_fits_where_all_but_the_digits_is_the_same(text: str, found: list[tuple[str, int]] | None) -> None:
    shapes = Shapes()
    example = b"value 0x123456789abc, count 12345678901 (free 55)\n"
    spans = [Span("value", 6, 20), Span("count", 28, 39)]
    shapes.learn(0, example, spans, free_from=40)
    assert _read(shapes, text) == found


@pytest.mark.parametrize(
    "example", [b"value 0xABCD\n", b"value -5\n", b"value 0x0x5\n", b"value 0x12AB\n", b"value 5x7\n"]
)
def test_a_text_with_other_numbers_has_no_shape(example: bytes) -> None:
    shapes = Shapes()
    shapes.learn(0, example, [Span("value", 6, 8 if b"x7" not in example else 7)])
    shapes.learn(0, example, [Span("value", 6, 10 if example == b"value 0x12AB\n" else len(example) - 1)])
    assert len(shapes) == 0
