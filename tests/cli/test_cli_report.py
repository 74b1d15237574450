"""The report of one screen, its sections and its words, of a recorded deadlock."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from cli_inputs import Result

from tracecorr.store import Capture

Run = Callable[..., Result]
# A terminal of a usual height, at a usual width.
_LINES = 60


@pytest.fixture
def deadlock(recorded: Callable[..., Capture]) -> Path:
    return recorded("captures/hang-deadlock").path


def test_the_report_is_one_screen_and_begins_with_what_was_open(run: Run, deadlock: Path) -> None:
    told = run("report", deadlock).out
    questions = re.findall(r"^\*\*(.+)\*\*$", told, re.MULTILINE)
    assert questions == [
        "What was still open at the end?", "What went wrong?", "Findings", "Queues", "Kernels",
        "Dispatches, stage by stage",
    ]  # fmt: skip
    assert "- hipStreamSynchronize: a deadlock; only a write of the host" in told
    assert len(told.splitlines()) <= _LINES
    assert "| 0 | 0 | compute_aql | 0 | 2 | 2 | 0, 1 | 0x3cc00000 |" in told
    assert re.search(r"^Verdicts: \d+ FAIL, .* Records lost: 0\.$", told, re.MULTILINE)


def test_a_section_is_shown_whole_or_to_so_many_rows(run: Run, deadlock: Path) -> None:
    whole, short = (run("report", deadlock, "--section", "ioctls", *top).out for top in ((), ("--top", 1)))
    assert whole.startswith("## Ioctls\n")
    assert (whole.count("\n| "), short.count("\n| ")) == (15, 3)
    unknown = run("report", deadlock, "--section", "fish")
    assert (unknown.status, "its sections are: glossary, " in unknown.err) == (2, True)


def test_all_of_it_is_printed_when_asked(run: Run, deadlock: Path) -> None:
    told = run("report", deadlock, "--full").out
    assert {"## Answers", "## Verdicts", "## Losses", "## Kernels"} < set(told.splitlines())


@pytest.mark.parametrize("word", ["UNALIGNED", "PASS", "no_deadlock"])
def test_a_word_is_explained_without_a_capture(run: Run, word: str) -> None:
    assert run("report", "--explain", word).out.startswith(f"{word}: ")
    assert "they explain: recorded" in run("report", "--explain", "fish").err
