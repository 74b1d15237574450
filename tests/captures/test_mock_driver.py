"""Captures on a SYNTHETIC driver whose requests succeed: the whole chain of a queue creation, and the slots of a GPU.

The kernel (6.12), HIP and ROCr (7.2.4) are real; the driver is a module with the functions of the KFD by name, order
and argument position, the GPU a model. No number here is one of hardware. `scripts/make_mock_captures` made them.
"""

from __future__ import annotations

import tarfile
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from tracecorr import open_capture
from tracecorr.analyze.failures import summarize_kernel_log
from tracecorr.analyze.occupancy import list_oversubscribed, summarize_occupancy, summarize_queue_holders
from tracecorr.analyze.priorities import summarize_priorities
from tracecorr.analyze.queue_creation import summarize_queue_creation
from tracecorr.api import Capture
from tracecorr.pipeline import correlate

_FOLDER = Path(__file__).with_name("mockkfd")
Opener = Callable[[str], Capture]


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Opener:
    """Return a function that builds the tables of a capture once."""
    made: dict[str, Capture] = {}

    def build(name: str) -> Capture:
        if name not in made:
            folder = tmp_path_factory.mktemp("mock")
            with tarfile.open(_FOLDER / f"{name}.tar.xz") as archive:
                archive.extractall(folder, filter="data")
            # The driver shows no topology: that of an MI308X in its place (its gpu_id is the driver's).
            node = folder / f"{name}.tracecorr" / "raw" / "topology" / "nodes" / "1"
            node.mkdir(parents=True)
            (node / "gpu_id").write_text("63420\n")
            (node / "properties").write_text("gfx_target_version 90402\nnum_xcc 4\nnum_cp_queues 24\n")
            correlate(folder / f"{name}.tracecorr")
            made[name] = open_capture(folder / f"{name}.tracecorr")
        return made[name]

    return build


def _steps() -> pl.DataFrame:
    """Return what the program did: queues of all three processes, and between which times it came to so many."""
    rows = [line.split()[2:] for line in (_FOLDER / "queues.txt").read_text().splitlines()]
    return pl.DataFrame(
        [[int(word) for word in row] for row in rows], schema=["queues", "from_ns", "to_ns"], orient="row"
    )


def test_polls_show_the_queues_of_all_processes(opened: Opener) -> None:
    """1, 8, 30, 8 and no queues of three processes: each poll between two steps shows those of the step."""
    capture, steps = opened("queues"), _steps()
    polls = capture.table("samples").filter(pl.col("name").cast(pl.String) == "cp_queues").collect()
    # A poll near a step may have read one process before it and another one behind it.
    around = polls.sort("ts_ns").join_asof(steps, left_on="ts_ns", right_on="to_ns").join_asof(
        steps.select(next_ns="from_ns"), left_on="ts_ns", right_on="next_ns", strategy="forward"
    )  # fmt: skip
    is_calm = (pl.col("ts_ns") > pl.col("to_ns") + 10**9) & (pl.col("next_ns") > pl.col("ts_ns") + 10**9)
    between = around.filter(is_calm)
    assert between.height > 8
    assert between.filter(pl.col("value") != pl.col("queues")).is_empty()
    (row,) = summarize_occupancy(capture.table).to_dicts()
    assert (row["most_cp_queues"], row["most_processes"], row["oversubscribed"]) == (30, 3, "yes")
    assert summarize_queue_holders(capture.table)["most_cp_queues"].to_list() == [14, 10, 6]


def test_oversubscription_is_told_from_when_to_when(opened: Opener) -> None:
    """24 slots, 30 queues in the third step: it began in the creations of that step, and ended in the next one's."""
    capture, steps = opened("queues"), _steps()
    (span,) = list_oversubscribed(capture.table).to_dicts()
    began, ended = (steps.filter(queues=queues).row(at, named=True) for queues, at in ((30, 0), (8, 1)))
    assert span["after_ns"] < began["to_ns"]
    assert span["from_ns"] > began["from_ns"]
    assert span["to_ns"] < ended["to_ns"]
    assert span["before_ns"] > ended["from_ns"]
    line = capture.events.filter(pl.col("event") == span["event"]).collect()["name"].cast(pl.String)
    assert (span["most"], span["limit"], line.to_list()) == (30, 24, ["runlist_oversubscribed"])


def test_a_refused_creation_is_told_by_call_driver_and_kernel_log(opened: Opener) -> None:
    """The driver answers ENOMEM and says so; the runtime goes on, on a model that gives it its queues all the same."""
    capture = opened("refused")
    rows = summarize_queue_creation(capture.table)
    assert set(rows["ioctl_result"]) == {"ENOMEM"}
    assert rows["init_mqd_event"].null_count() == rows.height == 5
    (line,) = summarize_kernel_log(capture.table).to_dicts()
    assert (line["name"], line["lines"]) == ("create_queue_failed", 5)
    creations = capture.events.filter(pl.col("name").cast(pl.String) == "AMDKFD_IOC_CREATE_QUEUE").collect()
    printed = capture.events.filter((pl.col("layer") == "kernel") & (pl.col("source").cast(pl.String) == "ftrace"))
    inside = printed.select("ts_ns").collect().join_where(
        creations.select("dur_ns", start="ts_ns"),
        pl.col("ts_ns") > pl.col("start"), pl.col("ts_ns") < pl.col("start") + pl.col("dur_ns"),
    )  # fmt: skip
    assert inside.height == 5


def test_the_line_of_oversubscription_lies_in_the_creation_of_the_25th_queue(opened: Opener) -> None:
    """By the trace (`printk:console`), and by /dev/kmsg on printk's own clock within its error."""
    events = opened("queues").events.collect()
    made = events.filter(pl.col("name").cast(pl.String) == "AMDKFD_IOC_CREATE_QUEUE").sort("ts_ns")
    start, length = made.select("ts_ns", "dur_ns").row(24)
    lines = events.filter(pl.col("layer") == "kernel").select(
        pl.col("name", "source").cast(pl.String), low=pl.col("ts_ns") - pl.col("err_lo_ns"),
        high=pl.col("ts_ns") + pl.col("err_hi_ns"),
    )  # fmt: skip
    assert sorted(lines.select("name", "source").rows()) == [
        ("runlist_oversubscribed", "ftrace"), ("runlist_oversubscribed", "kernel_log"),
    ]  # fmt: skip
    assert lines.filter((pl.col("low") <= start) | (pl.col("high") >= start + length)).is_empty()


def test_each_queue_creation_is_seen_from_the_call_to_its_mqd(opened: Opener) -> None:
    capture = opened("mock")
    rows = summarize_queue_creation(capture.table).sort("queue")
    assert rows.select("call", "ioctl_result", "mqd_operations").rows() == [
        *[("hipStreamCreateWithPriority", "0", "allocate init")] * 3, ("hipMemcpy", "0", "allocate init"),
        ("hipStreamCreateWithPriority", "0", "allocate init"), ("hipMemcpy", "0", "allocate init"),
        ("hipMemcpyAsync", "0", "allocate init"),
    ]  # fmt: skip
    seen = rows.select("call_event", "create_ioctl_event", "kfd_event", "init_mqd_event")
    assert seen.drop_nulls().height == 7
    priorities = summarize_priorities(capture.table).select("priority_hip", "priority_log", "priority_driver")
    assert priorities.rows() == [(-1, 2, 11), (1, 0, 0), (0, 1, 7), (None, 1, 7)]


def test_every_packet_of_the_model_has_its_recorded_doorbell(opened: Opener) -> None:
    launches = opened("mock").launches.filter(pl.col("packet_index").is_not_null()).collect()
    rings = opened("mock").queues.select("queue", "hwq").collect()
    packets = launches.join(rings, on="queue").select(
        "hwq", "packet_index", pl.col("doorbell_evidence").cast(pl.String)
    )
    retired = pl.read_csv(_FOLDER / "truth.csv", has_header=False)
    truth = retired.select(
        ring="column_3", packet_index=pl.col("column_4").cast(pl.Int64, strict=False), type="column_5"
    )
    truth = truth.filter(pl.col("type").is_in(["dispatch", "barrier", "vendor"])).with_columns(
        hwq=pl.col("ring").cast(pl.UInt64)
    )
    ours = truth.join(packets.select("hwq").unique(), on="hwq", how="semi")
    both = ours.join(packets, on=["hwq", "packet_index"], how="full")
    assert both.height == packets.height > 50
    assert set(both["doorbell_evidence"]) == {"recorded"}
