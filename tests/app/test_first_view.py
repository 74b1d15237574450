"""The first view: findings, a steady launch, times that no outlier scales; lanes and tables that somebody arranges."""

from __future__ import annotations

import time
from typing import Any

import polars as pl
import pytest
from browsing import needs_browser, open_at, press, state_of, wait_for, wait_idle
from synthetic import SyntheticCapture

from tracecorr.analyze.launches import find_steady_launch
from tracecorr.app import filters, ids, index, sql
from tracecorr.app.server import make_app
from tracecorr.model.errors import InputError
from tracecorr.store import Capture
from tracecorr.timeline.build import build_views

HOUR = 3_600_000_000_000


@pytest.fixture(scope="module")
def client(sample: Capture) -> Any:
    client = make_app({"sample": sample}, token="for-tests-only").server.test_client()
    client.get("/?token=for-tests-only")
    while client.get(ids.META).status_code == 202:
        time.sleep(0.02)
    return client


def test_findings_of_the_sample_lead_on(client: Any) -> None:
    """REAL: the driver of its machine refused queues; nothing was open at the end."""
    found = client.get(ids.FINDINGS).json
    leads = [(line["kind"], line["lead"], line["text"].split(":")[0]) for line in found]
    assert leads == [
        ("failed", ["page", "ioctls"], "236 ioctls failed"),
        ("failed", ["page", "verdicts"], "4 verdicts FAIL"),
        ("found", ["page", "queues"], "did the priority help? not shown"),
        ("slow", ["event", 708], "slowest call"),
        ("slow", ["page", "latency"], "slowest stage of a dispatch"),
    ]


def test_the_steady_launch_is_the_median_without_setup(client: Any, sample: Capture) -> None:
    call = find_steady_launch(sample.table)
    assert client.get(ids.META).json["steady"] == call
    launch = sample.table("launches").filter(pl.col("call_event") == call).collect()
    assert launch["kind"].to_list() == ["dispatch"] and launch["doorbell_event"].null_count() == 0
    empty = sample.table("launches").head(0)
    assert find_steady_launch(lambda name: empty if name == "launches" else sample.table(name)) is None


def test_an_outlier_does_not_scale_the_view(synthetic_capture: SyntheticCapture) -> None:
    """SYNTHETIC: one event lies an hour behind all others."""
    events = synthetic_capture.tables["events"]
    last = events["ts_ns"].max() + HOUR
    far = events.with_columns(ts_ns=pl.when(pl.col("event") == events.height - 1).then(last).otherwise("ts_ns"))
    tables = {**synthetic_capture.tables, "events": far}
    core = index.find_core(build_views(lambda name: tables[name].lazy()))
    assert core is not None and core["to"] < HOUR and (core["before"], core["after"]) == (0, 1)
    assert index.find_core(build_views(lambda name: synthetic_capture.tables[name].lazy())) is None


def test_records_of_a_lane_are_those_in_the_range(synthetic_index: index.CaptureIndex) -> None:
    views = synthetic_index.views
    lane = next(n for n in views.lanes if n.layer == "aql" and n.count > 10)
    every = filters.list_records(synthetic_index, views.pyramid, lane.id, 0, views.length_ns, 10_000)
    assert (every.height, every["start_ns"].is_sorted()) == (lane.count, True)
    third = every["start_ns"][3]
    few = filters.list_records(synthetic_index, views.pyramid, lane.id, third, views.length_ns, 2)
    assert (
        few["event"].to_list()
        == every.filter(pl.col("start_ns") + pl.col("dur_ns").fill_null(0) >= third)["event"].head(2).to_list()
    )
    assert filters.count_lanes(views.pyramid, 0, views.length_ns) == filters.count_lanes(views.pyramid)


def test_sql_of_the_page_reads_within_limits(client: Any, sample: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    found = client.get(
        ids.SQL, query_string={"q": "SELECT kind, MIN(event) AS first_event FROM launches GROUP BY kind"}
    ).json
    assert [column["kind"] for column in found["columns"]] == ["text", "event"] and found["total"] == 4
    refused = client.get(ids.SQL, query_string={"q": "DROP TABLE events"})
    assert (refused.status_code, b"a query can only read" in refused.data) == (409, True)
    assert client.get(ids.SQL, query_string={"q": "x" * 5000}).status_code == 400
    rows = client.get(ids.SQL, query_string={"q": "SELECT event FROM launches", "form": "csv"}).data.splitlines()
    assert len(rows) == 1 + sample.table("launches").collect().height
    monkeypatch.setattr(sql, "_SECONDS", 0.01)
    with pytest.raises(InputError, match="was stopped"):
        sql.ask_sql(sample.path, "SELECT 1")


def test_all_rows_of_a_table_are_saved(client: Any) -> None:
    shown = next(s for s in client.get(f"{ids.PAGE_DATA}?name=calls").json["sections"] if s["key"] == "hip_calls")
    saved = client.get(f"{ids.TABLE}?key=hip_calls")
    assert len(saved.data.splitlines()) == 1 + shown["total"]
    assert client.get(f"{ids.TABLE}?key=nothing").status_code == 404


@pytest.fixture
def opened(browser: Any, url: str) -> Any:
    page = browser.new_page()
    troubles: list[str] = []
    page.on("pageerror", lambda e: troubles.append(str(e)))
    page.goto(url)  # with the token
    page.goto("about:blank")
    page.goto(url.split("?")[0] + "?capture=t1-streams#theme=light")
    wait_idle(page)
    yield page
    page.close()
    assert troubles == []


@pytest.mark.browser
@needs_browser[1]
def test_first_view_and_the_way_from_it(opened: Any) -> None:
    page = opened
    first = state_of(page)
    assert first["chainOnly"] and [s["layer"] for s in first["detail"]["stages"]] == [
        "hip",
        "command",
        "aql",
        "doorbell",
    ]
    page.locator("#tl-findings .tl-found").first.wait_for()
    assert page.locator("#tl-findings button", has_text="SLOWEST").count() == 2
    press(page, "0")
    assert state_of(page)["lanes"] > 3 * first["lanes"] and not state_of(page)["chainOnly"]
    page.keyboard.press("Control+k")
    page.keyboard.type("page sql")
    page.keyboard.press("Enter")
    page.locator("#tl-page textarea").fill("SELECT MAX(event) AS last_event FROM events")
    page.get_by_role("button", name="run the query").click()
    page.locator("#tl-page .tl-lead").click()
    wait_for(page, f"__tl.view.selected !== {first['selected']}")
    wait_idle(page)
    page.go_back()
    wait_for(page, "document.querySelector('#tl-tabs [aria-selected=true]').dataset.page === 'sql'")


@pytest.mark.browser
@needs_browser[1]
def test_lanes_are_listed_pinned_moved_and_hidden(opened: Any) -> None:
    page = opened
    press(page, "0", "Escape")
    lane = page.evaluate(
        "() => { const { lane, y } = __tl.view.items.find((i) => i.lane?.label === 'commands'); return [lane.id, y]; }"
    )
    box = page.locator("#tl-canvas-host canvas").bounding_box()
    page.mouse.click(box["x"] + 60, box["y"] + 70 + lane[1] + 8)
    card = page.locator("#tl-card")
    card.locator("table").wait_for()
    rows = card.locator("tbody tr").count()
    card.locator("input").fill("kernelexec")
    assert 0 < card.locator("tbody tr").count() < rows
    card.get_by_role("button", name="keep it at the top").click()
    wait_idle(page)
    assert page.evaluate("() => __tl.view.items[1].lane.id") == lane[0]
    card.get_by_role("button", name="all lanes of the layer").click()
    wait_idle(page)
    assert page.evaluate("() => __tl.view.items[1].h") < 20
    wait_for(page, "location.hash.includes('pinned=')")
    hidden = page.url
    open_at(page, hidden)
    assert page.evaluate("() => __tl.view.items[1].lane.id") == lane[0]


@pytest.mark.browser
@needs_browser[1]
def test_times_are_for_people_and_copied_in_ns(opened: Any) -> None:
    page = opened
    cell = page.locator(".tl-stages td[data-ns]").nth(1)
    assert cell.inner_text().split()[1] in ("ns", "us", "ms", "s")
    copied = page.evaluate(
        """() => {
          const cell = document.querySelectorAll(".tl-stages td[data-ns]")[1], data = new DataTransfer();
          getSelection().selectAllChildren(cell);
          document.dispatchEvent(new ClipboardEvent("copy", { clipboardData: data }));
          return [data.getData("text/plain"), cell.dataset.ns];
        }"""
    )
    assert copied[0] == copied[1] and copied[0].isdigit()
