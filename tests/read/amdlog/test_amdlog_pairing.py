"""Which enters and exits of one thread are one call, in SYNTHETIC logs that lack some of them."""

from __future__ import annotations

import amdlog_cases as cases
import pytest

from tracecorr.model.kinds import Flag

_SHAPES = {0: "whole", int(Flag.ENTER_ONLY): "no exit", int(Flag.EXIT_ONLY): "no enter"}


def _calls(text: str, block_bytes: int) -> list[tuple[str, int, str]]:
    """Return name, line and shape of the calls of a log such as `A( A)`, one line a word."""
    words = text.split()
    messages = [cases.enter(f"hip{w[:-1]}") if w[-1] == "(" else cases.leave(f"hip{w[:-1]}") for w in words]
    found = cases.read(cases.log(*messages), block_bytes).rows(layer="hip")
    return [(row["name"][3:], row["stamp_ns"] // 1000 % 1000, _SHAPES[row["flags"] & 3]) for row in found]


@pytest.mark.parametrize("block_bytes", [4 << 20, 300, 100])
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A( B( B) A) A( B( B) A)", "A0 B1 A4 B5"),
        ("A( B( C( C) B) A) A( A) B( B)", "A0 B1 C2 A6 B8"),
        ("A( A( A) A)", "A0- A1 +A3"),  # no call of HIP is in itself: the first exit was lost, and an enter
        ("A( B( A( A) B) A)", "A0- B1 A2 +A5"),
        ("A( B( B) A( A)", "A0- B1 A3"),
        ("A( B( A) A( A)", "A0 B1- A3"),
        ("A( B( B) B) A) B( B)", "A0 B1 +B3 B5"),
        ("A) A( B( A) B)", "+A0 A1 B2- +B4"),
        ("A( B( C( A) B( B)", "A0 B1- C2- B4"),
    ],
)
def test_an_exit_is_that_of_the_last_open_call_of_its_function(text: str, expected: str, block_bytes: int) -> None:
    told = []
    for word in expected.split():
        shape = "no exit" if word.endswith("-") else "no enter" if word.startswith("+") else "whole"
        told.append((word.strip("+-")[0], int(word.strip("+-")[1:]), shape))
    assert _calls(text, block_bytes) == told


@pytest.mark.parametrize("turned", [False, True])
def test_a_call_that_is_open_at_the_end_encloses_nothing_of_another_thread(turned: bool) -> None:
    first, second = cases.THREAD, cases.THREAD.replace("a0]", "b0]")
    if turned:
        first, second = second, first
    text = cases.line(cases.enter("hipA"), 5000000000, first)
    text += cases.log(cases.enter("hipB"), "No HW event", cases.leave("hipB"), "Check HW event = 0x1", thread=second)
    text += cases.line("Free hsa memory 0x1", 5000000009, first)
    found = cases.read(text)
    assert [(row["name"], row["depth"], row["parent_offset"]) for row in found.events.to_dicts()] == [
        ("hipA", 0, None), ("hipB", 0, None), ("No HW event", 1, len(text.split("\n")[0]) + 1),
        ("Check HW event = #", 0, None), ("free", 1, 0),
    ]  # fmt: skip
