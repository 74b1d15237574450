"""HAND-MADE links: how sure they are where the thread is only inferred, or a process known by its pid alone."""

from __future__ import annotations

import polars as pl

from tracecorr.link.threads.thread_evidence import limit_by_pid, limit_by_thread


def test_a_link_that_an_inferred_thread_joins_is_inferred() -> None:
    """Event 1 is of the inferred thread 1, event 0 of thread 0, of event 2 no thread is known."""
    events = pl.DataFrame({"thread": [0, 1, None]}, schema={"thread": pl.UInt32})
    threads = pl.DataFrame(
        {"thread": [0, 1], "evidence": ["derived", "inferred"]}, schema_overrides={"thread": pl.UInt32}
    )
    rows = [(0, "derived"), (1, "derived"), (1, "recorded"), (1, "inferred"), (2, "derived"), (None, None)]
    links = pl.DataFrame(rows, schema=["of", "how"], orient="row")
    assert limit_by_thread(links, "of", "how", events, threads).rows() == [
        (0, "derived"), (1, "inferred"), (1, "recorded"), (1, "inferred"), (2, "derived"), (None, None),
    ]  # fmt: skip
    known = threads.with_columns(evidence=pl.lit("recorded"))
    assert limit_by_thread(links, "of", "how", events, known).rows() == rows


def test_a_key_of_processes_that_only_their_pid_joins_is_derived() -> None:
    """Process 0 is known by a thread, 1 by its pid alone, 2 by guessed threads; of the last row no process is known."""
    kind = {"process": pl.UInt32}
    processes = pl.DataFrame({"process": [0, 1, 2], "how": ["threads", "same pid", "threads"]}, schema_overrides=kind)
    rows = [(0, "recorded"), (1, "recorded"), (2, "recorded"), (1, "derived"), (1, "inferred"), (1, None),
            (None, "recorded")]  # fmt: skip
    links = pl.DataFrame(rows, schema=["process", "how"], schema_overrides=kind, orient="row")
    threads = pl.DataFrame(
        {"process": [0, 0, 1, 2], "evidence": ["inferred", "recorded", None, "inferred"]}, schema_overrides=kind
    )
    assert limit_by_pid(links, "how", processes, threads).rows() == [
        (0, "recorded"), (1, "derived"), (2, "derived"), (1, "derived"), (1, "inferred"), (1, None), (None, "recorded"),
    ]  # fmt: skip
