"""Five questions of a user: each is answered on the first screen of at most two commands, on recorded runs."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from cli_inputs import Result

from tracecorr.store import Capture

_SCREEN_LINES, _SCREEN_COLUMNS = 40, 160


@pytest.mark.parametrize(
    ("data", "commands", "answer"),
    [
        pytest.param(
            "hang-deadlock", ["report"], r"shared: queue 0 by streams 0, 1\b", id="which streams share a queue"
        ),
        pytest.param(
            "caseB-4streams", ["report", "report --section kernel_latency"],
            r"vadd +steady +call to doorbell +299 +33\.00 us +70\.00 us +106\.00 us",
            id="latency from call to doorbell",
        ),
        pytest.param(
            "caseB-4streams", ["report", "report --section slow_calls"],
            r"hipMemcpy 12\.46 ms: 877\.00 us making the queue", id="why is this call slow",
        ),
        pytest.param("hang-deadlock", ["report"], r"a deadlock; only a write of the host", id="why does it hang"),
        pytest.param(
            "streams-priority", ["report"],
            r"did the priority help\? not shown: the setting did not reach the hardware; doorbell to GPU start, P50 "
            r"of the best queue: high 3\.07 ms, normal 42\.89 us, low 2\.69 ms", id="did the priority help",
        ),
    ],
)  # fmt: skip
def test_a_question_is_answered_on_the_first_screen(
    recorded: Callable[..., Capture], run: Callable[..., Result], monkeypatch: pytest.MonkeyPatch,
    data: str, commands: list[str], answer: str,
) -> None:  # fmt: skip
    capture: Path = recorded(f"captures/{data}").path
    monkeypatch.setenv("COLUMNS", str(_SCREEN_COLUMNS))
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert len(commands) <= 2
    verb, *options = commands[-1].split()
    screen = run(verb, capture, *options).out.splitlines()[:_SCREEN_LINES]
    plain = re.sub(r"\x1b\[[0-9;]*m", "", "\n".join(screen))
    assert re.search(answer, " ".join(plain.split())), plain


def test_a_terminal_shows_units_and_a_pipe_exact_numbers(
    recorded: Callable[..., Capture], run: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = recorded("captures/caseB-4streams").path
    sql = "SELECT dur_ns, ts_ns, dur_ns / 7.0 AS share_ns FROM events WHERE event = 645"
    assert run("query", path, sql).out.splitlines()[-1].split(" | ")[0].strip("| ") == "14316000"
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "60")
    assert run("query", path, sql).out.splitlines() == [
        "  dur_ns          ts_ns  share_ns",
        "--------  -------------  --------",
        "14.32 ms  4977.178481 s   2.05 ms",
    ]
    long = run("query", path, "SELECT * FROM queues WHERE queue = 0").out.splitlines()
    assert long[0] == "row 1" and "  hwq                 0x3c00000" in long
