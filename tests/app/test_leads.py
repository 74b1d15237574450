"""What leads where: names, owners and times that are searched for, events in the panel, selections in addresses."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

import polars as pl
from browsing import needs_browser, open_at, press, state_of, wait_for_address, wait_idle
from synthetic import SyntheticCapture, make_capture

from tracecorr.app import chain, detail, index
from tracecorr.app.captures import Pair
from tracecorr.app.filters import Filters
from tracecorr.app.find import Finder
from tracecorr.app.library import Opened, Tints
from tracecorr.app.subject_pages import Reports, show_page
from tracecorr.store import Capture


def _named(*names: str) -> SyntheticCapture:
    """Return a small synthetic capture whose first kernels have other names."""
    capture = make_capture(60)
    numbers = pl.Series("kernel", range(len(names)), dtype=pl.UInt32)
    changed = pl.DataFrame({"kernel": numbers, "name": [f"{name}(float*)" for name in names], "display": names})
    capture.tables["kernels"] = capture.tables["kernels"].update(changed, on="kernel")
    return capture


def test_between_quotes_only_the_whole_name_is_found() -> None:
    capture = _named("pour", "pour_aligned")
    finder, events = Finder(index.build(capture)), capture.tables["events"]
    own, both = ((events["kernel"] <= last).sum() for last in (0, 1))
    assert finder.find("pour", -1, True)["count"] == both > own > 0
    for text in ('"pour"', '"POUR"', '"pour(float*)"'):
        found = finder.find(text, -1, True)
        assert (found["count"], events["kernel"][found["event"]]) == (own, 0), text
    for text in ('"', '""', '"pou"', '"pour'):
        assert finder.find(text, -1, True)["count"] == 0, text


def test_a_row_and_a_bar_lead_to_their_own_name() -> None:
    capture = _named("pour", "pour_aligned")
    built = index.build(capture)
    opened = Opened(capture.name, built, Finder(built), Filters(built), Tints(capture))
    found = show_page("kernels", opened, Reports())
    section = next(s for s in found["sections"] if s["key"] == "kernels")
    assert section["columns"][0]["kind"] == "name"
    bars = found["charts"][0]["data"][0]["customdata"]
    assert [lead for lead in bars if "pour" in lead[1]] == [["search", '"pour"'], ["search", '"pour_aligned"']]
    latency = next(s for s in show_page("latency", opened, Reports())["sections"] if s["rows"])
    assert all(column["kind"] != "name" for column in latency["columns"])


def test_processes_and_threads_are_found_as_the_timeline_names_them(sample: Capture) -> None:
    finder, events = Finder(index.build(sample)), sample.table("events").collect()
    threads = sample.table("threads").drop_nulls(["tid", "log_tid"]).collect()
    for thread, tid, log_tid in threads.select("thread", "tid", "log_tid").iter_rows():
        own = (events["thread"] == thread).sum()
        for text in (f"thread {tid}", f"TID {tid}", f"thread {log_tid:#x}"):
            assert finder.find(text, -1, True)["count"] == own > 0, text
    pid = sample.table("processes").collect()["pid"][0]
    of_process = (events["process"] == 0).sum()
    assert [finder.find(f"{word} {pid}", -1, True)["count"] for word in ("process", "pid")] == [of_process] * 2
    for text in ("process 999999999", "process 0xffffffffffffffff", "thread 0xffffffffffffffff", "thread", "thread x"):
        assert finder.find(text, -1, True)["count"] == 0, text


def test_the_gap_to_a_doorbell_that_nobody_saw_is_as_sure_as_its_interval() -> None:
    capture = make_capture(60)
    launches = capture.tables["launches"].filter(pl.col("doorbell_evidence") == "inferred")
    event = int(launches["event"][0])
    for known, error in ((True, 2_500), (False, None)):
        if not known:
            lost = pl.lit(None, pl.UInt32)
            capture.tables["events"] = capture.tables["events"].with_columns(err_lo_ns=lost, err_hi_ns=lost)
        found = chain.find_chain(index.build(capture), event)
        assert found is not None
        bell = next(i for i, s in enumerate(found.stages) if s["event"] is None)
        edge = next(e for e in found.edges if e["to"] == bell)
        assert (edge["rule"], edge["gap"], edge["err"]) == ("launch", 0, error)


def test_columns_that_name_an_event_lead_to_it(sample: Capture) -> None:
    packet = sample.table("launches").filter(pl.col("kind").cast(pl.String) == "dispatch").collect().row(0, named=True)
    queue = sample.table("queues").filter(pl.col("queue") == packet["queue"]).collect().row(0, named=True)
    told = {c["name"]: c["event"] for c in detail.describe(index.build(sample), packet["event"]) if "event" in c}
    assert told["call_event"] == told["parent"] == packet["call_event"]
    assert told["doorbell_event"] == packet["doorbell_event"]
    for made in ("created_line_event", "create_ioctl_event"):
        assert told[made] == queue[made] is not None


def test_a_time_of_two_captures_together_is_told_on_its_own_clock(sample: Capture) -> None:
    other = make_capture(60)
    built = index.build(Pair(sample, other, "packet"))
    first = sample.table("events").select(pl.len()).collect().item()
    for event, own in ((5, sample.table("events").collect()), (first + 5, other.tables["events"])):
        told = next(c["value"] for c in detail.describe(built, event) if c["name"] == "ts_ns")
        assert told.endswith(f" = {own['ts_ns'][event % first]:,} ns")


class TestInTheBrowser:
    """Leads in the browser."""

    pytestmark = needs_browser

    def test_a_name_in_a_table_leads_to_its_first_event(self, page: Any, url: str, sample: Capture) -> None:
        open_at(page, url.split("?")[0] + "?capture=t1-streams#page=calls")
        page.get_by_role("button", name="find hipStreamCreateWithPriority", exact=True).first.click()
        wait_idle(page)
        names = sample.table("events").select(pl.col("name").cast(pl.String)).collect()["name"]
        assert state_of(page)["selected"] == (names == "hipStreamCreateWithPriority").arg_max()
        assert page.evaluate("() => TL.searchText()") == '"hipStreamCreateWithPriority"'

    def test_the_panel_leads_to_who_made_the_queue(self, page: Any, url: str, sample: Capture) -> None:
        launch = sample.table("launches").filter(pl.col("queue").is_not_null()).collect().row(0, named=True)
        ioctl = sample.table("queues").collect().filter(pl.col("queue") == launch["queue"])["create_ioctl_event"][0]
        open_at(page, url.split("?")[0] + f"?capture=t1-streams#sel={launch['event']}")
        page.locator(".tl-all summary").click()
        page.locator(".tl-columns .tl-lead", has_text=f"#{ioctl}").click()
        wait_idle(page)
        assert state_of(page)["selected"] == ioctl

    def test_a_time_with_a_decimal_point_is_read_as_traces_print_it(self, page: Any) -> None:
        start = page.evaluate("() => Number(__tl.view.meta.t0_abs)")
        press(page, "/")
        page.keyboard.type(f"@{(start + 7_000_000) / 1e9:.6f}")
        press(page, "Enter", "Escape")
        assert abs(state_of(page)["mark"]["a"] - 7_000_000) < 1_000

    def test_a_time_is_exact_on_a_clock_that_has_run_for_months(self, page: Any) -> None:
        page.evaluate("() => { __tl.view.meta.t0_abs = '10438491626497001'; }")
        press(page, "/")
        for text in ("@10,438,491,633,497,002", "@10438491.633497002", "@10438491633.4970020 ms"):
            page.locator("#tl-toolbar input").fill(text)
            press(page, "Enter")
            assert state_of(page)["mark"]["a"] == 7_000_001, text

    def test_an_address_finds_its_event_where_numbers_are_others(self, page: Any, url: str) -> None:
        """Tables that are built anew, by another version, may number their events otherwise."""
        base = url.split("?")[0]
        open_at(page, base + "#sel=500")
        press(page, "w")
        wait_for_address(page, "sel=500", "record=")
        record = parse_qs(urlsplit(page.url).fragment)["record"][0]
        open_at(page, f"{base}#sel=77&record={quote(record)}")
        assert state_of(page)["selected"] == 500
        gone = json.dumps({**json.loads(record), "offset": 10**9})
        open_at(page, f"{base}#sel=77&record={quote(gone)}")
        assert state_of(page)["selected"] is None
        assert "not in the capture" in page.locator("#tl-status").inner_text()
