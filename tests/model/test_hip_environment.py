"""What variables of the runtime change of a capture, and when a killed process lacks the end of its log."""

from __future__ import annotations

import pytest

from tracecorr.model.hip_environment import describe_effects, describe_lost_end, is_on


@pytest.mark.parametrize(
    ("value", "on"),
    [("1", True), ("2", True), ("-1", True), (" 1", True), ("0", False), ("", False), ("true", False), ("0x1", False)],
)
def test_a_flag_is_read_as_the_runtime_reads_it(value: str, on: bool) -> None:
    assert is_on({"DEBUG_CLR_DIRECT_DOORBELL": value}, "DEBUG_CLR_DIRECT_DOORBELL") is on


def test_only_variables_that_change_something_are_told() -> None:
    told = list(describe_effects({"DEBUG_CLR_DIRECT_DOORBELL": "1", "AMD_LOG_ASYNC": "0", "GPU_MAX_HW_QUEUES": "8"}))
    assert [line.partition(":")[0] for line in told] == ["DEBUG_CLR_DIRECT_DOORBELL=1"]


@pytest.mark.parametrize(
    ("environment", "hashes", "lost"),
    [
        ({}, False, False),
        ({}, True, True),
        ({"AMD_LOG_ASYNC": "0"}, True, False),
        ({"AMD_LOG_ASYNC": "1"}, False, True),
    ],
)
def test_a_killed_process_lacks_the_end_of_an_asynchronous_log(
    environment: dict[str, str], hashes: bool, lost: bool
) -> None:
    assert bool(describe_lost_end(environment, prints_hashes=hashes)) is lost
