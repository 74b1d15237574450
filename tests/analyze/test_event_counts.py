"""How many events of the kernel a capture is said to hold (SYNTHETIC numbers)."""

from __future__ import annotations

from typing import Any

import pytest

from tracecorr.analyze.run_facts import describe_run

_FULL = [{"source": "ftrace", "bytes": 120, "reason": "the trace could not be written"}]


@pytest.mark.parametrize(
    ("info", "read", "told"),
    [
        ({"events": 40, "lost_events": 2}, 40, "40 recorded, 2 lost"),
        ({"events": 40, "lost_events": 2, "losses": [{"source": "amd_log", "bytes": 9}]}, 40, "40 recorded, 2 lost"),
        ({"events": 40, "lost_events": 2, "losses": _FULL}, 30,
         "40 counted: 30 recorded, 10 that could not be written, 2 more lost"),
        ({"events": 40, "lost_events": 2, "losses": _FULL}, None,
         "40 counted, not all of which could be written, 2 more lost"),
    ],
)  # fmt: skip
def test_events_that_could_not_be_written_are_not_recorded(info: dict[str, Any], read: int | None, told: str) -> None:
    assert f"kernel events: {told}" in list(describe_run(info, read=read))
