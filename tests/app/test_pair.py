"""Two captures on one axis of time."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from browsing import needs_browser, open_at, press, state_of, wait_idle
from synthetic import SyntheticCapture, make_capture

from tracecorr.app import chain, detail, index
from tracecorr.app.captures import ANCHORS, Pair
from tracecorr.store import Capture


@pytest.fixture(scope="module")
def other() -> SyntheticCapture:
    return make_capture(400, seed=9)


@pytest.mark.parametrize("anchor", ["start", "packet"])
def test_the_anchor_is_at_the_same_time(synthetic_capture: SyntheticCapture, sample: Capture, anchor: str) -> None:
    pair = Pair(synthetic_capture, sample, anchor)
    table, column = ("launches", "packet_ns") if anchor == "packet" else ("events", "ts_ns")
    both = pair.table(table).select(column).collect()[column]
    cut = synthetic_capture.tables[table].height
    assert both[:cut].min() == both[cut:].min()


def test_keys_stay_apart_and_links_inside(synthetic_capture: SyntheticCapture, other: SyntheticCapture) -> None:
    pair = Pair(synthetic_capture, other, "start")
    events, launches = pair.table("events").collect(), pair.table("launches").collect()
    assert events["event"].to_list() == list(range(events.height))
    first = synthetic_capture.tables["events"].height
    own = launches[synthetic_capture.tables["launches"].height :]
    assert own["event"].min() >= first and own["call_event"].drop_nulls().min() >= first
    layers = events.select("event", pl.col("layer").cast(pl.String))
    calls = own.select(event="call_event").drop_nulls().join(layers, on="event")
    assert set(calls["layer"]) == {"hip"}
    built = index.build(pair)
    names = [g.label for g in built.views.groups]
    assert any(n.startswith("A · process 4100") for n in names) and any(n.startswith("B · process 4100") for n in names)
    assert any(n.startswith("B · queue 0 ") for n in names)
    found = chain.find_chain(built, int(own["event"][5]))
    assert found is not None and {s["event"] for s in found.stages if s["event"] is not None} <= set(
        range(first, events.height)
    )
    assert pair.file_path(2).startswith("B: ")


def test_files_of_a_capture_beside_itself_name_their_side(synthetic_capture: SyntheticCapture) -> None:
    pair = Pair(synthetic_capture, synthetic_capture, "start")
    sides = [pair.file_path(file)[0] for file in pair.table("files").collect()["file"]]
    half = len(sides) // 2
    assert sides == ["A"] * half + ["B"] * half and half


def test_a_pair_says_whose_start_its_times_are_counted_from(
    synthetic_capture: SyntheticCapture, sample: Capture
) -> None:
    """In the sample more time passes before the first packet, so that it begins first."""
    zeros = {
        (a.name, anchor): index.build(Pair(a, b, anchor)).meta()["zero"]
        for a, b in ((synthetic_capture, sample), (sample, synthetic_capture))
        for anchor in ANCHORS
    }
    assert zeros == {
        (synthetic_capture.name, "start"): "start of both", (synthetic_capture.name, "packet"): "start of B",
        (sample.name, "start"): "start of both", (sample.name, "packet"): "start of A",
    }  # fmt: skip
    built = index.build(Pair(synthetic_capture, sample, "packet"))
    at = next(column["value"] for column in detail.describe(built, 0) if column["name"] == "ts_ns")
    assert "after the start of B = " in at
    assert index.build(sample).meta()["zero"] == "start"


class TestInTheBrowser:
    """Comparison and pair on the page."""

    pytestmark = needs_browser

    def test_from_the_comparison_to_both_on_one_timeline(self, page: Any, url: str) -> None:
        page.get_by_role("tab", name="Compare").click()
        wait_idle(page)
        assert "t1-streams (B)" in page.locator("#tl-page h2").inner_text()
        page.get_by_text("first packets together").click()
        page.wait_for_url("**other=**")
        wait_idle(page)
        groups = page.evaluate("() => __tl.view.meta.groups.map(g => g.label)")
        assert {g[:4] for g in groups if "process" in g} == {"A · ", "B · "}
        press(page, "w", ".")
        assert state_of(page)["selected"] is not None
        open_at(page, url.split("?")[0] + "?capture=t1-streams")

    def test_saved_rows_have_the_times_of_their_own_hosts(
        self, lone_page: Any, url: str, sample: Capture, synthetic_capture: SyntheticCapture
    ) -> None:
        page = lone_page
        page.goto(url)
        open_at(page, f"{url.split('?')[0]}?capture=t1-streams&other=synthetic&at=start")
        with page.expect_download() as download:
            page.select_option("#tl-export", "csv")
        assert download.value.suggested_filename == "A_t1-streams_B_synthetic.csv"
        rows = pl.read_csv(download.value.path()).select("event", "ts_ns")
        events = [capture.table("events").select("event", "ts_ns").collect() for capture in (sample, synthetic_capture)]
        second = events[1].with_columns(pl.col("event") + events[0].height)
        assert set(rows.rows()) <= set(pl.concat([events[0], second]).rows())
        assert rows["event"].max() >= events[0].height > rows["event"].min()

    @pytest.mark.parametrize("anchor", ANCHORS)
    def test_a_search_finds_in_both(self, lone_page: Any, url: str, sample: Capture, anchor: str) -> None:
        page = lone_page
        page.goto(url)
        open_at(page, f"{url.split('?')[0]}?capture=t1-streams&other=synthetic&at={anchor}")
        press(page, "/")
        page.keyboard.type("hipEventSynchronize")
        press(page, "Enter")
        first = state_of(page)["selected"]
        press(page, "Enter")
        names = sample.table("events").select(pl.col("name").cast(pl.String)).collect()["name"]
        wanted = (names == "hipEventSynchronize").arg_true().to_list()
        assert [first, state_of(page)["selected"]] == wanted[:2]
        assert page.locator(".tl-count").inner_text() == f"2 of {len(wanted)}"
