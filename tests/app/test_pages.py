"""The pages beside the timeline: names of owners, charts, links, what fits on a small screen."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from browsing import needs_browser, open_at, state_of, wait_idle
from synthetic import SyntheticCapture, make_capture

from tracecorr.app import charts, index
from tracecorr.app.filters import Filters
from tracecorr.app.find import Finder
from tracecorr.app.library import Opened, Tints
from tracecorr.app.subject_pages import Reports, show_page
from tracecorr.store import Capture


def _open(capture: SyntheticCapture) -> Opened:
    built = index.build(capture)
    return Opened(capture.name, built, Finder(built), Filters(built), Tints(capture))


def _columns(found: dict[str, Any], key: str) -> dict[str, dict[str, Any]]:
    section = next(s for s in found["sections"] if s["key"] == key)
    return {column["name"]: column for column in section["columns"]}


def test_tables_call_owners_what_the_timeline_calls_them() -> None:
    capture = make_capture(60)
    columns = _columns(show_page("queues", _open(capture), Reports()), "queues")
    assert columns["process"]["names"] == {"0": "4100 (log pid 7) · gemm", "1": "4101 (log pid 8) · gemm"}
    assert columns["queue"]["names"] == {str(n): str(n) for n in range(4)}
    assert columns["priority_log"]["names"] == {} and columns["queue"]["kind"] == "key"


def test_numbers_of_threads_and_processes_are_no_counts() -> None:
    """`14,446` would be no number of a thread that `ps` knows."""
    found = show_page("queues", _open(make_capture(60)), Reports())
    columns = _columns(found, "queue_creation")
    assert [columns[name]["kind"] for name in ("pid", "tid", "ioctl_ns")] == ["key", "key", "ns"]


def test_queues_of_a_dataset_have_the_numbers_of_the_timeline() -> None:
    """Keys go on through all nodes; the timeline shows a node and the number that its capture gave."""
    capture = make_capture(60)
    own = pl.col("queue").cast(pl.Int64)
    node = pl.when(own < 2).then(pl.lit("n1")).otherwise(pl.lit("n2"))
    capture.tables["queues"] = capture.tables["queues"].with_columns(side=node, own=own % 2)
    opened = _open(capture)
    found = show_page("queues", opened, Reports())
    names = _columns(found, "queues")["queue"]["names"]
    assert names == {"0": "n1 · queue 0", "1": "n1 · queue 1", "2": "n2 · queue 0", "3": "n2 · queue 1"}
    assert set(_columns(found, "streams")["queues"]["names"].values()) <= set(names.values())
    groups = [group.label for group in opened.index.views.groups]
    assert all(any(label.startswith(f"{name} · ") for label in groups) for name in names.values())
    assert list(found["charts"][0]["data"][0]["x"]) == list(names.values())


def test_few_dispatches_are_points_that_lead_to_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """A percentile of two dispatches would be one of them under a wrong name."""
    capture = make_capture(60)
    launches = capture.tables["launches"].filter(pl.col("kind").cast(pl.String) == "dispatch")
    source = charts.Source(capture.table, 7)
    figure = charts.latency_over_time(source)
    assert figure is not None and len(figure.data) == 1
    told = {e: (x, y) for (_, e), x, y in zip(*(figure.data[0][k] for k in ("customdata", "x", "y")), strict=True)}
    assert told == {
        row["event"]: ((row["packet_ns"] - 7) / 1e9, (row["packet_ns"] - row["call_ns"]) / 1e9)
        for row in launches.iter_rows(named=True)
    }
    monkeypatch.setattr(charts, "_FEW", launches.height - 1)
    figure = charts.latency_over_time(source)
    assert figure is not None and [line.name for line in figure.data] == ["P50", "P95", "P99"]


def test_queues_are_bars_in_their_order() -> None:
    """Also where the first queues have packets of other kinds than the last."""
    capture = make_capture(60)
    late = pl.when(pl.col("queue") < 2).then(pl.lit("barrier_and")).otherwise(pl.lit("dispatch"))
    launches = capture.tables["launches"]
    capture.tables["launches"] = launches.with_columns(kind=late.cast(launches.schema["kind"]))
    figure = charts.packets_by_queue(charts.Source(capture.table, 0))
    assert figure is not None
    assert list(figure.layout.xaxis.categoryarray) == [f"queue {n}" for n in range(4)]


def test_kernels_whose_names_begin_alike_are_bars_of_their_own() -> None:
    capture = make_capture(60)
    alike = [f"Cijk_Ailk_Bljk_HHS_BH_Bias_HA_S_SAV_UserArgs_MT{n}x64x32" for n in range(3)]
    alike += [f"mul_mat_vec_f<__half, {kind}, 1, 128, false, false>" for kind in ("float", "__half")]
    capture.tables["kernels"] = capture.tables["kernels"].with_columns(display=pl.Series(alike))
    source = charts.Source(capture.table, 0)
    for chart, axis in ((charts.dispatches_by_kernel, "yaxis"), (charts.latency_by_kernel, "xaxis")):
        figure = chart(source)
        assert figure is not None
        told = figure.to_plotly_json()
        places = [place for trace in told["data"] for place in trace[axis[0]]]
        assert len(set(places)) == 5 and len(set(told["layout"][axis]["ticktext"])) == 5


class TestInTheBrowser:
    """Pages in the browser."""

    pytestmark = needs_browser

    def test_an_answer_leads_to_the_events_that_it_names(self, page: Any, url: str) -> None:
        open_at(page, url.split("?")[0] + "?capture=t1-streams#page=queues")
        link = page.locator("#tl-page .tl-answer p .tl-lead").first
        link.click()
        wait_idle(page)
        state = state_of(page)
        assert link.text_content() == f"event {state['selected']}" and page.evaluate("() => TL.shownPage") == ""

    def test_verdicts_are_counted_above_their_table(self, page: Any, url: str) -> None:
        open_at(page, url.split("?")[0] + "?capture=t1-streams#page=verdicts")
        outcomes = page.locator(
            "#tl-page span.tl-pass, #tl-page span.tl-fail, #tl-page span.tl-unknown"
        ).all_inner_texts()
        counts = ", ".join(f"{outcomes.count(o)} {o}" for o in ("FAIL", "UNKNOWN", "PASS"))
        assert page.locator("#tl-page h3", has_text=f"Verdict on each claim: {counts}").is_visible()

    def test_a_time_in_a_table_is_marked_among_what_is_around_it(self, page: Any, url: str, sample: Capture) -> None:
        open_at(page, url.split("?")[0] + "?capture=t1-streams#page=queues")
        page.locator("#tl-page .tl-lead", has_text=" s").first.click()
        wait_idle(page)
        state, length = state_of(page), page.evaluate("() => __tl.view.meta.length")
        first = sample.table("events").select(pl.col("ts_ns").min()).collect().item()
        created = sample.table("queues").select("created_ns").collect()["created_ns"][0] - first
        assert state["mark"] == {"a": created, "b": created}
        assert state["t1"] - state["t0"] <= length / 20 and state["t0"] < created < state["t1"]

    def test_values_are_written_as_the_report_writes_them(self, page: Any, url: str) -> None:
        """A share of 0.0 % is little, one of 0 would be none; what is true is told with a word."""
        open_at(page, url.split("?")[0] + "?capture=t1-streams#page=calls")
        shares = page.locator("#tl-page .tl-section").nth(1).locator("tbody tr td:last-child").all_inner_texts()
        assert "0.0" in shares and {len(share.split(".")[1]) for share in shares} == {1}
        page.evaluate("() => TL.openPage('queues')")
        wait_idle(page)
        refused = page.locator("#tl-page .tl-section", has_text="update refused").locator("tbody").inner_text()
        assert "\tyes\t" in refused and "true" not in refused

    def test_a_saved_table_has_the_times_of_a_query(self, page: Any, url: str, sample: Capture) -> None:
        """The page shows them from the start of the capture on."""
        open_at(page, url.split("?")[0] + "?capture=t1-streams#page=queues")
        with page.expect_download() as info:
            page.locator("#tl-page .tl-section a", has_text="CSV").first.click()
        saved = pl.read_csv(info.value.path())
        created = sample.table("queues").select("created_ns").collect()["created_ns"]
        assert saved["created_ns"].to_list() == created.to_list()
