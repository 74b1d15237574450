"""Captures put together have one numbering: no key, and no number of a dump, means two things (synthetic)."""

from __future__ import annotations

import polars as pl

from tracecorr.analyze.clocks import summarize_clocks
from tracecorr.model import schema
from tracecorr.store.fleet import COUNTED_TABLES, count_keys, move_table
from tracecorr.timeline.drawn import hardware_queues

SLOT = {
    "dump": "hqds", "gpu_id": 0x65A1, "gpu": 0, "xcc": 0, "type": "cp", "pipe": 0, "slot": 2, "state": "active",
    "pq_base": 0x7F0000000000, "pipe_priority": 1, "quantum": 0x111,
}  # fmt: skip
ROWS = {
    "threads": [{"thread": 0, "process": 0}, {"thread": 1, "process": 0, "creator": 0}],
    "hqd": [{**SLOT, "snapshot": n, "read_start_ns": 100 * n, "read_end_ns": 100 * n + 9} for n in range(2)],
    "gpus": [{"gpu": 0, "gpu_id": 0x65A1}],
    "drm_jobs": [{"job": n, "thread": 1, "fence": "5:1", "run_event": n, "run_ns": 7} for n in range(3)],
    "clock_map": [{"source": "ftrace:local", "from_ns": 500, "to_ns": 900, "offset_ns": 70}],
}


def table_of(name: str) -> pl.LazyFrame:
    """Return a table of a capture with two threads, one GPU and two dumps of its one queue."""
    table = schema.TABLES[name]
    rows = ROWS.get(name)
    return (table.conform(pl.DataFrame(rows)) if rows else table.empty()).lazy()


def both(name: str) -> pl.LazyFrame:
    """Return a table of two such captures, as a dataset of two nodes with equal GPUs has it."""
    return pl.concat([table_of(name), move_table(table_of(name), name, count_keys(table_of), 1000)])


def test_first_free_keys_are_behind_those_of_all_rows() -> None:
    assert count_keys(table_of) == dict.fromkeys(COUNTED_TABLES, 0) | {"threads": 2, "hqd": 2, "gpus": 1, "drm_jobs": 3}


def test_a_thread_names_its_creator_in_its_own_capture() -> None:
    assert both("threads").select("thread", "creator").collect().rows() == [(0, None), (1, 0), (2, None), (3, 2)]


def test_dumps_of_two_captures_have_numbers_of_their_own() -> None:
    assert both("hqd").select("snapshot", "gpu").collect().rows() == [(0, 0), (1, 0), (2, 1), (3, 1)]


def test_jobs_of_two_captures_have_numbers_of_their_own() -> None:
    jobs = both("drm_jobs").collect()
    assert jobs["job"].to_list() == list(range(6)) and jobs["thread"].to_list() == [1, 1, 1, 3, 3, 3]


def test_a_queue_is_drawn_at_its_own_gpu_and_between_its_own_dumps() -> None:
    drawn = hardware_queues(both).select("gpu", "start", "end").sort("gpu", "start").rows()
    assert drawn == [(0, 0, 9), (0, 9, 100), (0, 100, 109), (1, 1000, 1009), (1, 1009, 1100), (1, 1100, 1109)]


def test_a_piece_of_a_clock_map_leads_to_the_times_of_the_events() -> None:
    """Its ends are stamps of the node's own trace; its offset, as the report's moments, is to the common time."""
    assert both("clock_map").select("from_ns", "to_ns", "offset_ns").collect().rows() == [
        (500, 900, 70), (500, 900, 1070),
    ]  # fmt: skip
    assert summarize_clocks(both("clock_map"))["from_ns"].sort().to_list() == [570, 1570]
