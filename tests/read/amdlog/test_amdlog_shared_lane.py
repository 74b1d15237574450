"""Logs without threads: only calls whose exit is beyond doubt are paired (synthetic logs)."""

from __future__ import annotations

import pytest
from amdlog_cases import Read, enter, leave, log, read
from hypothesis import given
from hypothesis import strategies as st

from tracecorr.model.kinds import Flag
from tracecorr.read.amdlog import calls

_A, _B, _AX, _BX = enter("hipA"), enter("hipB"), leave("hipA"), leave("hipB")


def _flags(found: Read) -> list[tuple[str, int]]:
    return [(row["name"], row["flags"]) for row in found.rows(layer="hip")]


def test_calls_one_after_the_other_and_nested_are_paired() -> None:
    assert _flags(read(log(_A, _AX, _A, _B, _BX, _AX, thread=" "))) == [("hipA", 0), ("hipA", 0), ("hipB", 0)]


def test_two_open_calls_of_one_name_are_not_paired_until_both_have_ended() -> None:
    halves = [("hipA", Flag.ENTER_ONLY)] * 2 + [("hipA", Flag.EXIT_ONLY), ("hipA", Flag.ENTER_ONLY)]
    halves += [("hipA", Flag.EXIT_ONLY)] * 2
    found = read(log(_A, _A, _AX, _A, _AX, _AX, _A, _AX, thread=" "))
    assert _flags(found) == [*halves, ("hipA", 0)]
    # With threads a second enter proves the exit of the first one lost.
    assert _flags(read(log(_A, _A, _AX))) == [("hipA", Flag.ENTER_ONLY), ("hipA", 0)]


def test_a_call_that_crosses_another_one_is_not_paired() -> None:
    found = read(log(_A, _B, _AX, _BX, _B, _BX, thread=" "))
    assert _flags(found) == [("hipA", 0), ("hipB", Flag.ENTER_ONLY), ("hipB", Flag.EXIT_ONLY), ("hipB", 0)]


def test_doubt_ends_far_behind_a_lost_exit(monkeypatch: pytest.MonkeyPatch) -> None:
    text = log(_A, _A, _AX, *["No HW event"] * 20, _A, _AX, thread=" ")
    assert _flags(read(text))[-1] == ("hipA", Flag.EXIT_ONLY)
    monkeypatch.setattr(calls, "_WAIT_BYTES", 1000)
    assert _flags(read(text))[-1] == ("hipA", 0)


@given(st.data())
def test_two_threads_never_give_a_wrong_pair(data: st.DataObject) -> None:
    # Each thread is complete and nests; the result names the thread of each line.
    body = st.lists(st.sampled_from([[_A, _AX], [_B, _BX], [_A, _B, _BX, _AX]]), max_size=4)
    queues = [[(m, k) for part in data.draw(body) for m in part] for k in (0, 1)]
    lines: list[str] = []
    while any(queues):
        turn = data.draw(st.sampled_from([k for k in (0, 1) if queues[k]]))
        message, thread = queues[turn].pop(0)
        lines.append(message if " ( " in message else leave(message.partition(":")[0], f"hipOf{thread}"))
        lines[-1] = lines[-1].replace(" (  )", f" ( {thread} )")
    text = log(*lines, thread=" ")
    for row in read(text).rows(layer="hip", flags=0):
        assert f"( {row['result'][-1]} )" in text[row["offset"] : row["offset"] + row["length"]]
