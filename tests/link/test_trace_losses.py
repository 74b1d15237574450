"""Records of a trace that lack: links by time alone that one of them could have changed are not made."""

from __future__ import annotations

import re
from pathlib import Path

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from tracecorr.link.losses.trace_losses import find_next_loss, list_trace_losses
from tracecorr.pipeline import correlate, import_files
from tracecorr.store import Capture

_SPANS = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 10)), max_size=6)


@given(_SPANS, st.lists(st.integers(0, 60), max_size=8))
def test_the_next_loss_is_the_first_that_ends_later(spans: list[tuple[int, int]], at: list[int]) -> None:
    rows = [(start, start + length) for start, length in spans]
    frame = pl.DataFrame(rows, schema={"from_ns": pl.Int64, "to_ns": pl.Int64}, orient="row")
    found = find_next_loss(frame, pl.Series(at, dtype=pl.Int64)).to_list()
    assert found == [min((start for start, end in rows if end > time), default=None) for time in at]


def test_open_sides_and_damaged_traces_reach_everywhere() -> None:
    losses = pl.DataFrame({"source": ["ftrace", "ftrace", "amd_log"], "from_ns": [5, None, 7], "to_ns": [None, 9, 8]})
    damaged = pl.DataFrame({"source": ["amd_log", "ftrace"], "file": [1, 2]})
    spans = list_trace_losses(losses, damaged)
    assert spans.height == 3
    assert find_next_loss(spans.head(1), pl.Series([0, 10**18])).to_list() == [5, 5]
    assert find_next_loss(spans[1:2], pl.Series([8, 9])).null_count() == 1
    assert find_next_loss(spans.tail(1), pl.Series([-(10**18), 10**18])).null_count() == 0
    assert list_trace_losses(losses.tail(1), damaged.head(1)).is_empty()


def test_of_a_creation_whose_ioctl_was_lost_another_ioctl_is_not_the_one(data_folder: Path, tmp_path: Path) -> None:
    """ROCr makes a queue of its own in the same call, just before: with the records of 0.6 ms its ioctl is the last."""
    recorded, lost = data_folder / "captures" / "streams-priority", 0
    lines: list[str] = []
    for line in (recorded / "ftrace.txt").read_text().splitlines(keepends=True):
        found = re.search(r"\[001\] \S+ +(\d+\.\d+): ", line)
        if found and 4975.1230 < float(found[1]) < 4975.1236:
            lost += 1
        else:
            lines += [f"CPU:1 [LOST {lost} EVENTS]\n"] if found and lost else []
            lines.append(line)
            lost = 0 if found else lost
    (tmp_path / "gap.txt").write_text("".join(lines))
    made = [_queues(recorded / "amd.log", trace, tmp_path) for trace in (recorded / "ftrace.txt", tmp_path / "gap.txt")]
    whole, lacking = (rows.filter(pl.col("hwq") == 0x3C00000) for rows in made)
    assert whole["create_ioctl_event"].null_count() == 0 and lacking["create_ioctl_event"].null_count() == 1
    # The other queues keep theirs, and ROCr's own stays a row.
    assert [rows.height for rows in made] == [7, 7]
    assert [rows["create_ioctl_event"].null_count() for rows in made] == [0, 1]


def _queues(log: Path, trace: Path, folder: Path) -> pl.DataFrame:
    made = import_files(folder / f"{trace.stem}.tracecorr", [log], [trace])
    correlate(made.path)
    return Capture.open(made.path).table("queues").collect()
