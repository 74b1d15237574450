"""The routes of the pages beside the timeline, and of exports of the view."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from typing import Any

import numpy as np
import polars as pl
from flask import Flask, Response, abort
from plotly.utils import PlotlyJSONEncoder

from tracecorr.analyze.values import addresses_as_text
from tracecorr.app import ask, ids, pages
from tracecorr.app.library import Library, Opened, Wanted
from tracecorr.app.pair import tell_own_times
from tracecorr.app.routes import asked, asked_pyramid, wanted
from tracecorr.export.perfetto import write_perfetto
from tracecorr.export.selection import Selection, first_ns
from tracecorr.model.errors import MachineError, TracecorrError
from tracecorr.timeline import levels

_ROWS_AT_ONCE = 50_000


def add_page_routes(server: Flask, library: Library) -> None:
    """Register the routes on the page's server."""
    reports = pages.Reports()
    server.add_url_rule(ids.PAGE_DATA, "page", lambda: _page(library, reports))
    server.add_url_rule(ids.EXPORT, "export", lambda: _export(asked(library)))


def _page(library: Library, reports: pages.Reports) -> Response:
    name = ask.text("name")
    if name == pages.COMPARE:
        return _json(_comparison(library))
    if name not in pages.PAGES:
        abort(404, "no such page")
    return _json(pages.show_page(name, asked(library), reports))


def _comparison(library: Library) -> dict[str, Any]:
    """Return how the second capture (`with`, else the other one of the page) differs from the first.

    A second one that cannot be opened is named as `problem`: another one can still be chosen.
    """
    first = wanted(library)
    rest = [n for n in library.names() if n != first.name]
    second = ask.text("with") or first.other or next(iter(rest), "")
    if second not in rest:
        abort(404, "no such second capture")
    shown = _open_one(library, first.name)
    choice = {"second": second, "rest": rest}
    try:
        other = library.get(Wanted(second))
    except TracecorrError as problem:
        return pages.refuse_comparison(first.name, second, problem) | choice
    return pages.show_comparison(shown, other) | choice


def _open_one(library: Library, name: str) -> Opened:
    try:
        return library.get(Wanted(name))
    except KeyError:
        abort(404, "no such capture")


def _json(data: Any) -> Response:
    return Response(PlotlyJSONEncoder().encode(data), mimetype="application/json")


def _export(opened: Opened) -> Response:
    form = ask.text("form")
    if form not in ("csv", "perfetto"):
        abort(400, "form is csv or perfetto")
    t0, t1 = ask.time_range()
    if form == "perfetto":
        return _perfetto(opened, t0, t1)
    lanes = ask.lanes(len(opened.index.views.lanes))
    events = _events_between(opened, t0, t1, lanes)
    answer = Response(_rows_as_csv(opened, events), mimetype="text/csv")
    return _saved_as(answer, opened, "csv")


def _perfetto(opened: Opened, t0: int, t1: int) -> Response:
    """Answer with all layers and processes between two times, ns since the start of the page's capture."""
    tables = opened.index.capture.table_by_node
    shift = opened.index.t0_ns - first_ns(tables)  # the page may begin before the first event
    file = tempfile.TemporaryFile()  # noqa: SIM115 - the answer closes it
    try:
        write_perfetto(tables, file, Selection(t0 + shift, t1 + shift))
    except MachineError as problem:
        abort(501, str(problem))
    file.seek(0)
    answer = Response(iter(lambda: file.read(1 << 20), b""), mimetype="application/octet-stream")
    answer.call_on_close(file.close)
    return _saved_as(answer, opened, "perfetto-trace")


def _saved_as(answer: Response, opened: Opened, form: str) -> Response:
    """Name the file after its capture, as the page names pictures."""
    name = re.sub(r"[^\w.-]+", "_", opened.index.capture.name, flags=re.ASCII)
    answer.headers["Content-Disposition"] = f'attachment; filename="{name}.{form}"'
    return answer


def _events_between(opened: Opened, t0: int, t1: int, lanes: list[int]) -> pl.Series:
    """Return the events that touch the time from t0 to t1, both included, in some lanes, in order of time.

    Values that hold, and intervals in which something may have been, are drawn of events that lie elsewhere.
    """
    pyramid = asked_pyramid(opened)
    found = [np.zeros(0, np.int32)]
    for lane in (n for n in lanes if not opened.index.views.lanes[n].is_counter):
        for track in range(int(pyramid.first_track[lane]), int(pyramid.first_track[lane + 1])):
            lo, hi = pyramid.levels[0].between(track, t0, t1)
            inside = (pyramid.finest.start[lo:hi] <= t1) & (pyramid.finest.end[lo:hi] >= t0)
            inside &= (pyramid.finest.style[lo:hi] & levels.INFERRED) == 0
            found.append(pyramid.finest.event[lo:hi][inside])
    events = levels.distinct_events(np.concatenate(found), opened.index.views.events)
    return pl.Series("event", events, pl.Int64)


def _rows_as_csv(opened: Opened, events: pl.Series) -> Iterator[str]:
    """Yield the rows of some events as CSV: the columns of `events`, their node or side, the time since the start."""
    table = opened.index.capture.table_by_node("events")
    start = (pl.col("ts_ns") - opened.index.t0_ns).alias("start_ns")
    rest = [tell_own_times(opened.index.capture), pl.exclude("event", "ts_ns")]
    for first in range(0, max(1, len(events)), _ROWS_AT_ONCE):
        part = events[first : first + _ROWS_AT_ONCE]
        rows = table.filter(pl.col("event").is_in(part.implode())).select("event", start, *rest).collect()
        rows = addresses_as_text(rows)
        rows = rows.with_columns(_harmless(c) for c, t in rows.schema.items() if t == pl.String)
        yield rows.write_csv(include_header=first == 0)


def _harmless(column: str) -> pl.Expr:
    """Return a text that a spreadsheet does not take for a formula."""
    text = pl.col(column)
    return (
        pl.when(text.str.contains(r"^[=+\-@\t]")).then(pl.concat_str(pl.lit("'"), text)).otherwise(text).alias(column)
    )
