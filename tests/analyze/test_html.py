"""A report as one HTML file: nothing is fetched, texts of the capture are escaped."""

from __future__ import annotations

import re
from collections.abc import Callable
from xml.etree import ElementTree

import polars as pl
import pytest
from analyze_tables import tables_of
from synthetic_run import make_run

from tracecorr.analyze.compare import Side, compare_captures
from tracecorr.analyze.examples import EXAMPLES, find_example
from tracecorr.analyze.report import summarize_capture
from tracecorr.analyze.report.html import (
    draw_comparison_figures,
    draw_report_figures,
    draw_svg,
    list_named_events,
    render_comparison_html,
    render_report_html,
)
from tracecorr.analyze.sql import run_sql
from tracecorr.model.errors import InputError
from tracecorr.store import Capture


def without_head(page: str) -> str:
    """Return the page without its styles."""
    return re.sub(r"<head>.*?</head>", "", page, flags=re.DOTALL)


def test_report_page_is_whole_and_escaped() -> None:
    run = make_run()
    run["kernels"][0] |= {"name": "gemm<float>(x)", "display": "<script>alert(1)</script>"}
    tables = tables_of(run)
    page = render_report_html(summarize_capture("a <b>", tables), draw_report_figures(tables))
    body = without_head(page)
    assert "<script>alert" not in body
    assert "a &lt;b&gt;" in page
    assert body.count('<svg class="chart"') >= 4
    assert not re.search(r"<(script|link|img|iframe)", page)
    assert "nothing_lost" in body
    assert "<code>backlog_share</code>" in body


def test_contents_and_events_of_a_recorded_run_lead_somewhere(recorded: Callable[..., Capture]) -> None:
    capture = recorded("captures/caseB-4streams")
    report = summarize_capture(capture.name, capture.table, capture.info)
    figures = draw_report_figures(capture.table)
    page = render_report_html(report, figures, list_named_events(report, capture.table))
    places = set(re.findall(r'id="([^"]+)"', page))
    links = re.findall(r'href="#([^"]+)"', page)
    assert set(links) <= places and {"verdicts", "latency", "event-645"} <= set(links)
    assert page.index("<nav") < page.index('id="plot-rate"') < page.index('id="answers"') < page.index('id="verdicts"')
    assert len(page.encode()) < 500_000
    for figure in figures.values():
        assert "NaN" not in ElementTree.tostring(ElementTree.fromstring(draw_svg(figure)), "unicode")


def test_commands_in_answers_are_code() -> None:
    run = make_run()
    run["launches"] = [row for row in run["launches"] if row["kind"] != "dispatch"]
    page = without_head(render_report_html(summarize_capture("x", tables_of(run)), {}))
    assert "<code>tracecorr experiment preempt</code>" in page and "`" not in page


def test_the_page_of_a_comparison_holds_findings_and_plots() -> None:
    tables = tables_of(make_run())
    comparison = compare_captures(Side("a", tables), Side("b", tables))
    page = render_comparison_html(comparison, draw_comparison_figures(tables, tables))
    assert "queues with dispatches: 1 in A, 1 in B" in page
    assert 'id="plot-rates"' in page


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_example_of_a_query_runs(name: str) -> None:
    assert isinstance(run_sql(tables_of(make_run()), find_example(name)), pl.DataFrame)


def test_examples_leave_no_kernel_out_and_call_no_number_a_failure() -> None:
    run = make_run()
    run["launches"][1]["kernel"] = None
    run["launches"].append({"event": 30, "kind": "barrier_and", "queue": 0})
    kernels = run_sql(tables_of(run), find_example("kernels"))
    assert sorted(kernels.rows(), key=str) == [("gemm", 0, 1), (None, 0, 1)]
    run["events"] += [
        {"event": 90 + n, "layer": layer, "name": "x", "result": result}
        for n, (layer, result) in enumerate(
            [("ioctl", "3"), ("ioctl", "EINVAL"), ("hip", "hipErrorInvalidValue"), ("hip", "HIPRTC_SUCCESS")]
        )
    ]
    failed = run_sql(tables_of(run), find_example("failed"))
    assert sorted(failed["result"]) == ["EINVAL", "hipErrorInvalidValue"]


def test_unknown_example_is_refused() -> None:
    with pytest.raises(InputError, match="no example"):
        find_example("x")


def test_the_column_that_sql_takes_for_its_own_word_is_told() -> None:
    tables = tables_of(make_run())
    with pytest.raises(InputError) as error:
        run_sql(tables, "SELECT file, offset FROM events")
    assert error.value.next_step.startswith('write the column "offset" in double quotes')
    assert run_sql(tables, 'SELECT file, "offset" FROM events').columns == ["file", "offset"]
    with pytest.raises(InputError) as other:
        run_sql(tables, 'SELECT file, "offset" FROM evens')
    assert "offset" not in other.value.next_step
