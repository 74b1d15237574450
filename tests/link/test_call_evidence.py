"""SYNTHETIC links of whole and lossy logs: how sure it is what lies in a call, and what belongs to a command."""

from __future__ import annotations

import polars as pl
import pytest

from tracecorr.link.losses.call_evidence import limit_by_loss
from tracecorr.model.kinds import Flag
from tracecorr.model.schema import CAT

_TOLD = int(Flag.SPAN_TOLD)
# Two calls (the second one's exit tells its duration), a call of another log; a packet in each; a worker's packet.
_EVENTS = pl.DataFrame(
    {"file": [0, 0, 1, 0, 0, 1, 0], "flags": [0, _TOLD, None, 0, 0, 0, 0], "parent": [None, None, None, 0, 1, 2, None]}
)
_LINKS = [
    (0, 3, "packet_in_call"), (1, 4, "packet_in_call"), (2, 5, "command_in_call"), (0, 3, "doorbell_of_packet"),
    (0, 3, "packet_of_command"), (1, 4, "packet_of_command"), (1, 6, "packet_in_call"), (1, 6, "packet_of_command"),
    (4, 3, "completion_of_packet"),
]  # fmt: skip


def _limit(files: list[int], lost: float, index: int | None = None) -> list[int]:
    """Return which of the links are inferred; `index` is that of the worker's packet."""
    rows = [{"from_event": cause, "to_event": effect, "rule": rule} for cause, effect, rule in _LINKS]
    links = pl.DataFrame(rows, schema_overrides={"rule": CAT}).with_columns(evidence=pl.lit("derived").cast(CAT))
    launches = pl.DataFrame(
        {"event": [3, 4, 5, 6], "packet_index": pl.Series([None, None, None, index], dtype=pl.Int64)}
    )
    losses = pl.DataFrame({"file": files, "lost": [lost] * len(files)}, schema={"file": pl.Int64, "lost": pl.Float64})
    found = limit_by_loss(links, _EVENTS, launches, losses)["evidence"].cast(pl.String)
    return (found == "inferred").arg_true().to_list()


@pytest.mark.parametrize(("files", "lost"), [([], 0.0), ([0, 1], 0.0)], ids=["whole", "put together of pieces"])
def test_in_a_log_that_lost_nothing_all_is_derived(files: list[int], lost: float) -> None:
    assert _limit(files, lost) == []


def test_in_a_log_that_lost_lines_only_an_exit_that_tells_its_duration_proves_what_its_call_holds() -> None:
    assert _limit([0], 0.01) == [0, 4, 6, 7, 8]
    assert _limit([1], 0.01) == [2]


def test_what_a_worker_writes_is_as_sure_as_its_command_which_packet_indexes_prove() -> None:
    assert _limit([0], 0.01, index=7) == [0, 4, 8]
