"""Names of unknown messages: without their numbers, however many are read at once, and never without end."""

from __future__ import annotations

from collections import Counter

import pytest
from amdlog_cases import enter, leave, line, log, read
from hypothesis import given
from hypothesis import strategies as st

from tracecorr.read.amdlog import tokens
from tracecorr.read.amdlog.messages import MORE_NAMES, general_name

NAMES = {
    "NullStream 0x7f51740a48d0, wait 0": "NullStream #, wait #",
    "NullStream (nil), wait 1": "NullStream #, wait #",
    "[hipGraph] Nodes of (0x7f517401fda0)": "[hipGraph] Nodes of (#)",
    "Allocated, hsa_mem_flags 0x4h": "Allocated, hsa_mem_flags #",
    "Engine 9/4/2": "Engine #/#/#",
    "A mask 00ff33aa11 for 7": "A mask # for #",
    "decadent facade": "decadent #",
    "Loaded COMGR library version 3.0.": "Loaded COMGR library version #.#.",
    "x" * 60 + "1": "x" * 48,
    "tab\there": "tab?here",
}  # "facade" is six hexadecimal digits


@pytest.mark.parametrize("times", [1, 300])
def test_numbers_do_not_make_names(times: int) -> None:
    found = read(log(*[*NAMES] * times))
    assert found.events["name"].to_list() == [*NAMES.values()] * times
    assert set(found.events["layer"]) == {"other"}


_BYTES = st.one_of(
    st.binary(max_size=60).map(lambda data: data.replace(b"\n", b"").replace(b"\0", b"")),
    st.text("0123456789abcdefxh(nil) _\u00e9\u0663", max_size=500).map(str.encode),
)


@given(st.lists(_BYTES, min_size=1, max_size=12))
def test_compiled_code_names_messages_as_the_pattern_does(messages: list[bytes]) -> None:
    messages = [b"Blob " + message for message in messages * 2]
    data = b"".join(line("").rstrip("\n").encode() + message + b"\n" for message in messages)
    assert read(data).events["name"].to_list() == [general_name(message) for message in messages]


def test_texts_of_a_program_do_not_make_names_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    words = [f"Blob {chr(97 + i // 26)}{chr(97 + i % 26)}" for i in range(500)]
    monkeypatch.setattr(tokens, "MOST_NAMES", 100)
    counts = Counter(read(log(*words, *words)).events["name"])
    assert (len(counts), counts[MORE_NAMES], sum(counts.values())) == (101, 800, 1000)
    assert {n for name, n in counts.items() if name != MORE_NAMES} == {2}


def test_calls_without_end_are_no_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    text = log(*[m for i in range(300) for m in (enter(f"f{i}"), leave(f"f{i}"))], enter("f0"), leave("f0"))
    assert set(read(text).events["layer"]) == {"hip"}
    monkeypatch.setattr(tokens, "_MOST_NAMES", 200)
    found = read(text, 5000)
    assert found.events["name"].n_unique() < 320
    assert found.rows(layer="hip")[-1]["name"] == "f0"
    assert len(found.rows(layer="other")) > 10
