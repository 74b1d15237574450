"""What a report says of clocks, and how well times are known (SYNTHETIC tables)."""

from __future__ import annotations

from analyze_tables import table, tables_of
from synthetic_run import make_run

from tracecorr.analyze.clocks import (
    describe_durations,
    describe_fitted_rate,
    summarize_clocks,
)
from tracecorr.analyze.ioctls import summarize_drm_jobs
from tracecorr.analyze.queue_creation import summarize_queue_creation
from tracecorr.analyze.report import summarize_capture
from tracecorr.analyze.report.markdown import render_markdown
from tracecorr.model import schema


def test_a_rate_that_pairs_fitted_is_said() -> None:
    piece = {"source": "ftrace:local", "method": "causal_pairs", "rate_ppb": -29_237}
    told = describe_fitted_rate(table("clock_map", piece, {**piece, "rate_ppb": 12}))
    assert told.endswith("up to 29.2 ppm, that is 29.24 us per second")
    exact = {**piece, "source": "ftrace:mono", "method": "samples"}
    log = {**piece, "source": "amd_log:boot"}
    assert not describe_fitted_rate(table("clock_map", exact, log, {**piece, "rate_ppb": 0}))


# Two lines that go on from each other, and one behind a step; what was counted is told with the first one.
_LINES = [
    {"from_ns": 0, "to_ns": 999_999, "offset_ns": 70, "rate_ppb": 1_000, "width_ns": 30, "pairs": 9, "violated": 1},
    {"from_ns": 1_000_000, "to_ns": 3_000_000, "offset_ns": 71, "rate_ppb": 4_000, "width_ns": 50},
    {"from_ns": 4_000_000, "to_ns": 5_000_000, "offset_ns": 583, "rate_ppb": 4_000, "width_ns": 20},
]
_MAP = [{"source": "ftrace:local", "method": "causal_pairs", "lo_ns": 30, "hi_ns": 30, **line} for line in _LINES]


def test_lines_that_go_on_from_each_other_are_one_row() -> None:
    columns = ("from_ns", "span_ns", "rate_ppb", "lines", "least_rate_ppb", "largest_rate_ppb", "error_ns", "pairs")
    rows = [
        (70, 3_000_000, 3_000, 2, 1_000, 4_000, 50, 9),
        (4_000_583, 1_000_000, 4_000, 1, 4_000, 4_000, 20, None),
    ]
    assert summarize_clocks(table("clock_map", *_MAP)).select(columns).rows() == rows
    # Those of another node may show the same stamps.
    assert summarize_clocks(table("clock_map", *_MAP, *_MAP)).select(columns).rows() == rows * 2


def test_steps_of_an_unmapped_counter_are_no_durations() -> None:
    piece = {"source": "ftrace:x86-tsc", "method": "unaligned", "rate_ppb": 0}
    unmapped = table("clock_map", piece)
    assert describe_durations(unmapped) == "durations are unknown: ftrace:x86-tsc does not count nanoseconds"
    assert not describe_durations(table("clock_map", {**piece, "method": "samples"}))
    coarse = table("clock_map", {**piece, "source": "ftrace:uptime", "method": "samples"})
    assert describe_durations(coarse) == "durations have an error of 20.00 ms, the steps of the trace's clock"
    job = {"job": 0, "ring": "sdma0", "ring_kind": "sdma", "queued_ns": 10, "run_ns": 30, "done_ns": 70}
    rows = summarize_drm_jobs(table("drm_jobs", job), timed=False)
    assert rows.select("queued", "run", "done", "waited_max_ns", "ran_max_ns").row(0) == (1, 1, 1, None, None)
    tables = tables_of({**make_run(), "clock_map": [piece]})
    assert summarize_queue_creation(tables)["mqd_ns"].to_list() == [None, None]
    assert "an unknown time after CREATE_QUEUE began" in render_markdown(summarize_capture("x", tables))


def test_unaligned_capture_says_so() -> None:
    log = {"source": "amd_log:mono", "method": "same_clock", "from_ns": 0}
    tables = {"clock_map": table("clock_map", {"source": "ftrace:local", "method": "unaligned", "from_ns": 0}, log)}
    report = summarize_capture("x", lambda name: tables.get(name, schema.TABLES[name].empty().lazy()))
    assert report.summary["unaligned"] == ["ftrace:local"]
    assert "UNALIGNED: ftrace:local" in render_markdown(report)


def test_a_clock_alone_is_not_called_unaligned() -> None:
    tables = {"clock_map": table("clock_map", {"source": "ftrace:local", "method": "unaligned", "from_ns": 0})}
    report = summarize_capture("x", lambda name: tables.get(name, schema.TABLES[name].empty().lazy()))
    said = "clocks: only one, nothing to align; times are those of this clock, not of CLOCK_MONOTONIC"
    assert said in render_markdown(report)


def _clock_line(widths: list[int], *clocks: tuple[str, int]) -> str:
    maps = [{"source": c, "method": "samples", "from_ns": 0, "to_ns": 1, "lo_ns": 0, "hi_ns": hi} for c, hi in clocks]
    events = [{"source": "amd_log", "err_lo_ns": 0, "err_hi_ns": width} for width in widths]
    tables = {"clock_map": table("clock_map", *maps), "events": table("events", *events)}
    report = summarize_capture("x", lambda name: tables.get(name, schema.TABLES[name].empty().lazy()))
    return next(line for line in render_markdown(report).splitlines() if line.startswith("- clocks: ")).split(": ", 1)[
        1
    ]


def test_the_summary_says_what_most_times_are_known_to() -> None:
    one, two = ("amd_log:mono", 0), ("amd_log:boot", 77_000_000)
    assert _clock_line([0, 0], one) == "only one, nothing to align; the start of every event is known to the nanosecond"
    assert _clock_line([1_000] * 3, one, two) == "aligned; the start of every event is known to 1.00 us"
    assert _clock_line([1_000, 1_000, 77_000_000], one, two) == (
        "aligned; the start of most events is known to 1.00 us, of the worst to 77.00 ms, by the clock amd_log:boot"
    )
