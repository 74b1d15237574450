"""How a launch went: doorbell or ioctl, and where its time went."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from browsing import needs_browser, open_at, state_of, wait_idle
from synthetic import SyntheticCapture, make_capture

from tracecorr.app import chain, index
from tracecorr.app.chain import describe_path
from tracecorr.store import Capture


def _path(built: index.CaptureIndex, event: int) -> dict[str, Any]:
    found = chain.find_chain(built, event)
    assert found is not None
    told = describe_path(built, found.launches)
    assert told is not None
    return told


def _text(capture: SyntheticCapture | Capture, table: str) -> pl.DataFrame:
    return capture.table(table).with_columns(pl.col(pl.Categorical).cast(pl.String)).collect()


def test_a_launch_of_a_real_capture_is_told_as_its_tables_say(sample: Capture) -> None:
    built, events = index.build(sample), _text(sample, "events")
    first, ioctls = events["ts_ns"].min(), events.filter(pl.col("layer") == "ioctl")
    assert isinstance(first, int)
    launches = _text(sample, "launches").filter(pl.col("kind") == "dispatch")
    for launch in launches.head(6).iter_rows(named=True):
        told = _path(built, launch["event"])
        assert told["packets"] == {"recorded": 1} and told["copies"] == 0
        assert told["doorbell"] == launch["doorbell_event"]
        names = ioctls.filter(pl.col("chain") == launch["call_event"])["name"]
        assert told["ioctls"] == dict(names.value_counts().iter_rows())
        moments = dict(told["moments"])
        assert moments["packet"] == launch["packet_ns"] - first
        assert moments["return"] - moments["call"] == launch["return_ns"] - launch["call_ns"]
        assert list(moments.values()) == sorted(moments.values())
    assert any(_path(built, event)["ioctls"] for event in launches["event"])


def test_only_the_bounds_of_a_doorbell_are_told_where_no_more_is_known() -> None:
    capture = make_capture(40)
    built, launches = index.build(capture), _text(capture, "launches")
    launch = launches.filter(pl.col("doorbell_evidence") == "inferred").row(0, named=True)
    told = _path(built, launch["event"])
    assert told["packets"] == {"inferred": 1} and told["doorbell"] is None
    assert told["width"] == launch["doorbell_hi_ns"] - launch["doorbell_lo_ns"]
    assert "doorbell" not in dict(told["moments"])


@pytest.mark.parametrize("lost", [("ioctl", "syscall"), ("syscall",)])
def test_that_a_call_made_no_ioctl_is_told_only_where_a_trace_shows_it(lost: tuple[str, ...]) -> None:
    capture = make_capture(40)
    layer = pl.col("layer").cast(pl.String)
    capture.tables["events"] = capture.tables["events"].with_columns(
        chain=pl.when(~layer.is_in(lost)).then("chain")  # a trace that is not aligned says nothing of calls
    )
    event = int(_text(capture, "launches").filter(pl.col("kind") == "dispatch")["event"][0])
    assert _path(index.build(capture), event)["ioctls"] == (None if "ioctl" in lost else {})


def test_a_call_of_many_packets_counts_them_by_what_is_known() -> None:
    capture = make_capture(40)
    launches = capture.tables["launches"]
    call = launches["call_event"][0]
    kinds = pl.col("kind").cast(pl.String)
    of_call = pl.col("event").is_in(launches.filter(kinds != "copy")["event"][:5].implode())
    capture.tables["launches"] = launches.with_columns(call_event=pl.when(of_call).then(call).otherwise("call_event"))
    rows = capture.tables["launches"].filter(pl.col("call_event") == call)
    told = _path(index.build(capture), call)
    expected = rows["doorbell_evidence"].cast(pl.String).value_counts()
    assert told["packets"] == dict(expected.iter_rows()) and sum(told["packets"].values()) == rows.height > 4
    assert "moments" not in told


class TestInTheBrowser:
    """What the panel says."""

    pytestmark = needs_browser

    def test_the_panel_tells_the_path_of_a_launch(self, page: Any, url: str, sample: Capture) -> None:
        open_at(page, url.split("?")[0] + "?capture=t1-streams")
        launch = _text(sample, "launches").filter(pl.col("kind") == "dispatch").row(1, named=True)
        page.evaluate("event => __tl.select(event)", launch["event"])
        wait_idle(page)
        said = page.locator("#tl-detail .tl-path").inner_text()
        assert f"by doorbell: its store is recorded #{launch['doorbell_event']}" in said and "in its call" in said
        gap = page.evaluate("ns => TL.short(ns)", launch["doorbell_ns"] - launch["packet_ns"])
        assert said.split("\n")[said.split("\n").index("packet") + 1] == gap
        page.locator("#tl-detail .tl-path button").click()
        wait_idle(page)
        assert state_of(page)["selected"] == launch["doorbell_event"]

    def test_a_doorbell_that_nobody_saw_is_not_called_recorded(
        self, page: Any, synthetic_capture: SyntheticCapture
    ) -> None:
        launches = _text(synthetic_capture, "launches")
        event = int(launches.filter(pl.col("doorbell_evidence") == "inferred")["event"][0])
        page.evaluate("event => __tl.select(event)", event)
        wait_idle(page)
        said = page.locator("#tl-detail .tl-path").inner_text()
        assert "its store was not traced, it lies within 2.50 us (inferred)" in said and "recorded #" not in said
