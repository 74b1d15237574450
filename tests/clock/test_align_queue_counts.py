"""HAND-MADE lines of queue creations: which count of the queues is that of which Created line."""

from __future__ import annotations

import polars as pl
import pytest

from tracecorr.clock.evidence import list_made
from tracecorr.model.kinds import QUEUE_CREATED, QUEUE_SELECTED, QUEUES_COUNTED

COUNT, MADE, TAKEN = (1, QUEUES_COUNTED), (1, QUEUE_CREATED), (1, QUEUE_SELECTED)


@pytest.mark.parametrize(
    ("lines", "since"), [
        pytest.param([COUNT, MADE, COUNT, MADE], [0, 20], id="each has its own"),
        pytest.param([COUNT, MADE, MADE], [0, None], id="that of the second one is lost"),
        pytest.param([COUNT, TAKEN, MADE], [None], id="a queue was taken"),
        pytest.param([COUNT, (2, QUEUE_CREATED), MADE], [None, 0], id="another thread's"),
        pytest.param([COUNT, (1, "dispatch"), MADE], [0], id="other lines between"),
        pytest.param([MADE], [None], id="none"),
    ],
)  # fmt: skip
def test_a_count_is_that_of_the_next_line_that_answers_one(
    lines: list[tuple[int, str]], since: list[int | None]
) -> None:
    rows = [{"file": 0, "offset": n, "thread": thread, "name": name, "at": 10 * n}
            for n, (thread, name) in enumerate(lines)]  # fmt: skip
    for log in (pl.DataFrame(rows), pl.DataFrame(rows).reverse()):
        assert list_made(log, "at", ["thread"])["from_ns"].to_list() == since
