"""Which priority each layer tells of a queue, on SYNTHETIC tables."""

from __future__ import annotations

import pytest
from analyze_tables import tables_of
from synthetic_run import make_run

from tracecorr.analyze.priorities import summarize_priorities


def test_priorities_at_every_layer() -> None:
    (row,) = summarize_priorities(tables_of(make_run())).to_dicts()
    assert (row["priority_hip"], row["priority_log"], row["priority_driver"], row["priority_hqd"]) == (-1, 2, 11, 11)
    assert (row["update_event"], row["update_refused"], row["pipe_priority_hqd"]) == (6, False, 2)


def test_the_first_update_of_the_thread_that_made_a_queue_is_its_own() -> None:
    """Another thread makes a queue before the update, and a second update sets another priority behind it."""
    run = make_run()
    shared = {"process": 0, "result": "0", "err_lo_ns": 0}
    create = {"event": 60, "ts_ns": 1_300, "layer": "ioctl", "name": "AMDKFD_IOC_CREATE_QUEUE", "thread": 1}
    update = {"event": 61, "ts_ns": 1_700, "layer": "ioctl", "name": "AMDKFD_IOC_UPDATE_QUEUE", "thread": 0}
    probe = {"event": 62, "ts_ns": 1_710, "layer": "kfd", "name": "kfd_ioctl_update_queue", "thread": 0, "parent": 61}
    run["events"] += [shared | row for row in (create, update, probe)]
    run["args"].append({"event": 62, "key": "prio", "u64": 0})
    (row,) = summarize_priorities(tables_of(run)).to_dicts()
    assert (row["priority_driver"], row["update_event"]) == (11, 6)


def test_a_priority_is_that_of_the_last_dump_and_of_registers_before_memory() -> None:
    run = make_run()
    dumps = (("mqds", 3, 1), ("hqds", 2, 7), ("hqds", 1, 2))
    run["hqd"] = [
        {"queue": 0, "dump": dump, "snapshot": snapshot, "queue_priority": priority, "pipe_priority": priority}
        for dump, snapshot, priority in dumps
    ]
    (row,) = summarize_priorities(tables_of(run)).to_dicts()
    assert (row["priority_hqd"], row["pipe_priority_hqd"]) == (7, 7)


@pytest.mark.parametrize(
    ("queue", "pipe", "told"), [(0, 2, 11), (0, 1, 7), (0, 0, 0), (11, 2, 11), (5, 0, 5), (0, None, 0)]
)
def test_a_driver_that_sets_the_pipe_alone_tells_the_priority_by_it(queue: int, pipe: int | None, told: int) -> None:
    run = make_run()
    run["hqd"] = [{"queue": 0, "dump": "mqds", "snapshot": 0, "queue_priority": queue, "pipe_priority": pipe}]
    (row,) = summarize_priorities(tables_of(run)).to_dicts()
    assert (row["priority_hqd"], row["pipe_priority_hqd"]) == (told, pipe)


def test_a_dump_that_was_read_before_the_priority_was_set_tells_none() -> None:
    """The update lasts from 1500 to 1600 ns, and may be 1000 ns later; the Created line is at 1900 ns."""
    run = make_run()
    slot = {"queue": 0, "dump": "hqds", "snapshot": 0, "queue_priority": 7, "pipe_priority": 1}
    for start_ns, known in ((1_450, None), (2_599, None), (2_600, 7)):
        run["hqd"] = [slot | {"read_start_ns": start_ns, "read_end_ns": 9_000}]
        assert summarize_priorities(tables_of(run))["priority_hqd"].to_list() == [known]
    run["events"] = [row for row in run["events"] if row["layer"] in ("hip", "aql")]
    for start_ns, known in ((1_899, None), (1_900, 7), (None, 7)):
        run["hqd"] = [slot | {"read_start_ns": start_ns, "read_end_ns": 9_000}]
        assert summarize_priorities(tables_of(run))["priority_hqd"].to_list() == [known]
