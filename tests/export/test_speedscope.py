"""speedscope profiles of a RECORDED run: calls are balanced, nested, and those of the tables."""

from __future__ import annotations

import json
from io import BytesIO

import polars as pl

from tracecorr.export.selection import Selection
from tracecorr.export.speedscope import count_brief, write_speedscope
from tracecorr.store import Capture


def written(capture: Capture, selection: Selection) -> dict[str, object]:
    """Return the profile as JSON."""
    stream = BytesIO()
    count = write_speedscope(capture.table, stream, selection, capture.name)
    told: dict[str, object] = json.loads(stream.getvalue())
    assert sum(len(p["events"]) for p in told["profiles"]) == 2 * count  # type: ignore[attr-defined]
    return told


def spans_of(told: dict[str, object]) -> list[tuple[str, int, int]]:
    """Return name, start and duration of each call, and make sure that all are closed in the right order."""
    frames = [frame["name"] for frame in told["shared"]["frames"]]  # type: ignore[index]
    out = []
    for profile in told["profiles"]:  # type: ignore[attr-defined]
        stack: list[tuple[int, int]] = []
        last = profile["startValue"]
        for event in profile["events"]:
            assert last <= event["at"] <= profile["endValue"]
            last = event["at"]
            if event["type"] == "O":
                stack.append((event["frame"], event["at"]))
                continue
            frame, start = stack.pop()
            assert frame == event["frame"], "a call is closed that was not opened last"
            out.append((frames[frame], start, event["at"] - start))
        assert stack == []
    return sorted(out)


def test_calls_are_those_of_the_tables(capture: Capture) -> None:
    layers = ("marker", "hip", "hsa", "syscall", "ioctl", "kfd", "mqd")
    rows = capture.table("events").filter(
        pl.col("layer").cast(pl.String).is_in(layers), pl.col("dur_ns") > 0, pl.col("thread").is_not_null()
    )
    first = capture.table("events").select(pl.col("ts_ns").min()).collect().item()
    ours = rows.select(pl.col("name").cast(pl.String), pl.col("ts_ns") - first, "dur_ns").collect().rows()
    assert spans_of(written(capture, Selection())) == sorted(ours)
    assert len(ours) > 1000


def test_a_part_of_it(capture: Capture) -> None:
    whole = spans_of(written(capture, Selection()))
    calls = sorted(start for name, start, _ in whole if name.removeprefix("__").startswith("hip"))
    end = calls[len(calls) // 2]
    part = spans_of(written(capture, Selection(0, end, ("hip",))))
    assert 0 < len(part) < len(whole)
    assert all(name.removeprefix("__").startswith("hip") and start < end for name, start, _ in part)


def test_a_selection_of_nothing_has_no_profile(capture: Capture) -> None:
    assert written(capture, Selection(layers=("drm_sched",)))["profiles"] == []


def test_calls_of_no_width_are_counted(capture: Capture) -> None:
    """A text trace has whole us: its short system calls begin and end at the same one."""
    calls = capture.table("events").filter(pl.col("dur_ns").is_not_null(), pl.col("thread").is_not_null()).collect()
    brief = count_brief(capture.table, Selection())
    assert brief == calls.filter(pl.col("dur_ns") == 0).height > 0
    shown = calls.filter(pl.col("layer").cast(pl.String).is_in(("marker", "hip", "hsa", "syscall", "ioctl")))
    assert write_speedscope(capture.table, BytesIO(), Selection(), "x") + brief == shown.height
