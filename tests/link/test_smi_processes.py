"""HAND-MADE SMI events: the process of each is that which its host pid named at that time."""

from __future__ import annotations

import polars as pl

from tracecorr.link.polled import attach_processes
from tracecorr.link.threads.lives import LIFE
from tracecorr.link.threads.thread_map import Identities
from tracecorr.model.schema import CAT

_KEYS = {"tgid_key": pl.Int64, "process": pl.UInt32}


def _identities() -> Identities:
    """Return processes 0 and 1, both traced as pid 70, 7 as pid 50, and what a capture saw; pid 90 has two lives."""
    empty = pl.DataFrame()
    return Identities(
        processes=pl.DataFrame(
            [(0, 70), (1, 70), (2, 80), (3, 90), (4, 90), (5, None), (8, 50)],
            schema={"process": pl.UInt32, "pid": pl.UInt32},
            orient="row",
        ),
        threads=empty,
        log_threads=empty,
        trace_threads=pl.DataFrame(
            [(70, 0), (70, 0), (70 + LIFE, 1), (None, 6), (60, None), (50, 7)], schema=_KEYS, orient="row"
        ),
        lives=pl.DataFrame({"tgid": [70], "stamp_ns": [1000], "life": [1]}),
    )  # fmt: skip


def test_an_event_is_of_the_process_that_its_pid_named_then() -> None:
    rows = [
        ("kfd_smi", 70, 999), ("kfd_smi", 70, 1000), ("kfd_smi", 80, 5000), ("kfd_smi", 90, 1), ("kfd_smi", 99, 1),
        ("kfd_smi", 60, 1), ("kfd_smi", 50, 1), ("kfd_smi", None, 1), ("ftrace", 80, 1),
    ]  # fmt: skip
    events = pl.DataFrame(rows, schema={"source": CAT, "pid": pl.UInt32, "ts_ns": pl.Int64}, orient="row").with_columns(
        tid=pl.lit(None, pl.UInt64), host_pid=pl.lit(None, pl.UInt32), process=pl.lit(None, pl.UInt32)
    )
    found = attach_processes(events, _identities()).select("pid", "process", "host_pid").rows()
    assert found == [
        (70, 0, 70), (70, 1, 70), (80, 2, 80), (90, None, 90), (99, None, 99), (60, None, 60), (50, 7, 50),
        (None, None, None), (80, None, None),
    ]  # fmt: skip
    others = events.filter(pl.col("source") == "ftrace")
    assert attach_processes(others, _identities()).equals(others)
