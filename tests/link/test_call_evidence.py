"""SYNTHETIC calls of whole and lossy logs: how sure it is what lies in them."""

from __future__ import annotations

import polars as pl
import pytest

from tracecorr.link.call_evidence import limit_by_loss
from tracecorr.model.kinds import Flag
from tracecorr.model.schema import CAT

_LINKS = pl.DataFrame(
    {"from_event": [0, 1, 2, 0], "to_event": [3, 3, 3, 3],
     "rule": ["packet_in_call", "packet_in_call", "command_in_call", "doorbell_of_packet"],
     "evidence": ["derived"] * 4},
    schema_overrides={"rule": CAT, "evidence": CAT},
)  # fmt: skip
# A call, one whose exit tells its duration, one of another log.
_EVENTS = pl.DataFrame({"file": [0, 0, 1, 0], "flags": [0, int(Flag.SPAN_TOLD), None, 0]})


@pytest.mark.parametrize(
    ("files", "lost", "expected"), [
        ([0], 0.01, ["inferred", "derived", "derived", "derived"]),
        ([1], 0.01, ["derived", "derived", "inferred", "derived"]),
        ([0], 0.0, ["derived"] * 4), ([], 0.0, ["derived"] * 4),
    ],
)  # fmt: skip
def test_what_lies_in_a_call_of_a_log_that_lost_lines_is_derived_where_the_exit_proves_its_call(
    files: list[int], lost: float, expected: list[str]
) -> None:
    losses = pl.DataFrame({"file": files, "lost": [lost] * len(files)}, schema={"file": pl.Int64, "lost": pl.Float64})
    assert limit_by_loss(_LINKS, _EVENTS, losses)["evidence"].to_list() == expected
