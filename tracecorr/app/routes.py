"""The routes behind the page. Every parameter of a request is bounded; a wrong one is refused in one line."""

from __future__ import annotations

import re
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import polars as pl
from flask import Flask, Response, abort, jsonify, request
from plotly.utils import PlotlyJSONEncoder

from tracecorr import bundled
from tracecorr.analyze.slow_calls import summarize_slow_calls
from tracecorr.analyze.values import addresses_as_text
from tracecorr.app import chain, detail, filters, ids, notes, sql, subject_pages, wire
from tracecorr.app.captures import ANCHORS, tell_own_times
from tracecorr.app.library import Library, Opened, Wanted
from tracecorr.export.perfetto import write_perfetto
from tracecorr.export.selection import Selection, first_ns
from tracecorr.model.errors import MachineError, TracecorrError
from tracecorr.timeline import levels

_MAX_SQL_CHARS = 4000
_MAX_LISTED = 1000
_MAX_LANE_CHARS = 40_000
_MAX_PATH_CHARS = 5000
_MAX_QUERY_CHARS = 200
_MAX_FILTER_CHARS = 2000
_MAX_LANES = 20_000
_MAX_WIDTH_PX = 8000

_MAX_NS = 1 << 62


# --- parameters of a request ---------------------------------------------------------------------


def _ask_number(name: str, low: int, high: int, default: int | None = None) -> int:
    """Return a whole number of the query; refuse what is missing, no number or out of range."""
    text = request.args.get(name)
    if text is None and default is not None:
        return default
    if not re.fullmatch(r"-?[0-9]{1,20}", text or "", re.ASCII):
        abort(400, f"{name} must be a whole number")
    value = int(text or "")
    if not low <= value <= high:
        abort(400, f"{name} is out of range")
    return value


def _ask_time_range() -> tuple[int, int]:
    """Return `t0` and `t1` of the query, ns since the capture start, t1 after t0."""
    t0, t1 = _ask_number("t0", -_MAX_NS, _MAX_NS), _ask_number("t1", -_MAX_NS, _MAX_NS)
    if t1 <= t0:
        abort(400, "t1 must be after t0")
    return t0, t1


def _ask_text(name: str, most: int = _MAX_QUERY_CHARS) -> str:
    """Return a text of the query, empty when it is not there; refuse one that is too long."""
    value = request.args.get(name, "")
    if len(value) > most:
        abort(400, f"{name} is too long")
    return value


def _ask_lanes(known: int) -> list[int]:
    """Return the asked lanes of `lanes=0-4,7`; every lane number once, unknown ones refused."""
    asked: set[int] = set()
    for part in filter(None, _ask_text("lanes", _MAX_LANE_CHARS).split(",")):
        first, _, last = part.partition("-")
        if not re.fullmatch(r"[0-9]{1,8}(-[0-9]{1,8})?", part, re.ASCII):
            abort(400, "lanes must look like 0-4,7")
        low, high = int(first), int(last or first)
        if high >= known or high < low:
            abort(400, "no such lane")
        asked.update(range(low, high + 1))
        if len(asked) > _MAX_LANES:
            abort(400, "too many lanes")
    return sorted(asked)


_Answer = Callable[[Opened], Any]


def _wanted(library: Library) -> Wanted:
    """Return what the request names: a capture (the first one when it names none), or two put together."""
    name, other = request.args.get("capture") or next(iter(library.names()), ""), _ask_text("other")
    anchor = _ask_text("at") or "start"
    if anchor not in ANCHORS:
        abort(400, f"captures are put together at {', '.join(ANCHORS)}")
    return Wanted(name, other, anchor) if other else Wanted(name)


def _asked(library: Library) -> Opened:
    """Return the capture or the pair that the request names."""
    edition = _ask_number("edition", 0, _MAX_NS, 0)  # from 1 on
    try:
        return library.get(_wanted(library), edition or None)
    except KeyError as missing:
        abort(404, f"no such capture: {missing.args[0]}")
    except ValueError as problem:
        abort(400, str(problem))


def _asked_pyramid(opened: Opened) -> levels.Pyramid:
    """Return the pyramid of the request's filter, the whole one when it has none."""
    try:
        chosen = filters.parse_filter(_ask_text("f", _MAX_FILTER_CHARS))
    except (ValueError, RecursionError):
        abort(400, "this is no filter")
    return opened.index.views.pyramid if chosen is None else opened.filters.pyramid(chosen)


def _asked_event(opened: Opened) -> int:
    """Return the event that the request names."""
    return _ask_number("event", 0, opened.index.views.events - 1)


# --- what each route answers ---------------------------------------------------------------------


def add_routes(server: Flask, library: Library) -> None:
    """Register all routes on the page's server."""
    reports = subject_pages.Reports()

    def add(path: str, answer: _Answer, method: str = "GET") -> None:
        server.add_url_rule(path, f"{method} {path}", lambda: answer(_asked(library)), methods=[method])

    server.add_url_rule(ids.CAPTURES, "captures", lambda: jsonify(library.names()))
    server.add_url_rule(ids.META, "meta", lambda: _meta(library))
    server.add_url_rule(ids.LIVE, "live", lambda: jsonify({"readings": library.follow(_wanted(library))}))
    server.add_url_rule(ids.TABLE, "table", lambda: _table(library, reports))
    server.add_url_rule(ids.PAGE_DATA, "page", lambda: _page(library, reports))
    add(ids.FINDINGS, lambda opened: jsonify(subject_pages.list_findings(reports.get(opened))))
    add(ids.SPANS, _spans)
    add(ids.EVENT, _event)
    add(ids.APART, _apart)
    add(ids.SEARCH, _search)
    add(ids.TICKS, _ticks)
    add(ids.FILTER, _filter)
    add(ids.COUNT, _count)
    add(ids.STEP, _step)
    add(ids.SAME, _same)
    add(ids.BRIEF, _brief)
    add(ids.LIST, _list)
    add(ids.SQL, _sql)
    add(ids.NOTES, lambda opened: jsonify(notes.read_notes(opened.index)))
    add(ids.NOTES, _save_notes, "POST")
    add(ids.EXPORT, _export)


def _meta(library: Library) -> Response:
    """Answer 202 with what is being done while the capture is opened."""
    try:
        goes_on = library.state(_wanted(library))
    except KeyError as missing:
        abort(404, f"no such capture: {missing.args[0]}")
    if goes_on is not None:
        return Response(goes_on, 202, mimetype="text/plain")
    opened = _asked(library)
    more: dict[str, Any] = {"captures": library.names(), "shown": opened.name, "pages": _pages(library)}
    more["topics"] = list(bundled.list_titles().items())
    is_one = opened.readings is None and not request.args.get("other")
    more["steady"] = opened.index.steady if is_one else None
    return jsonify(opened.index.meta() | more | {"readings": opened.readings, "edition": opened.edition})


def _pages(library: Library) -> list[list[str]]:
    """Return key and title of each page; a comparison needs a second capture."""
    if request.args.get("other"):
        return [[subject_pages.COMPARE, "Compare"]]
    found = [[name, page.title] for name, page in subject_pages.PAGES.items()]
    found.append([subject_pages.SQL, "SQL"])
    return [*found, [subject_pages.COMPARE, "Compare"]] if len(library.names()) > 1 else found


def _spans(opened: Opened) -> Response:
    begun = time.perf_counter()
    views = opened.index.views
    t0, t1 = _ask_time_range()
    width = _ask_number("w", 1, _MAX_WIDTH_PX)
    records = _asked_pyramid(opened).query(t0, t1, width, _ask_lanes(len(views.lanes)))
    tint = opened.tints.get(_ask_text("tint"))
    answer = Response(wire.encode(records, views, t0, t1, tint), mimetype="application/octet-stream")
    answer.headers["Cache-Control"] = "no-store"
    answer.headers["Server-Timing"] = f"query;dur={(time.perf_counter() - begun) * 1e3:.2f}"
    return answer


def _event(opened: Opened) -> Response:
    found = _found(opened)
    rest = {
        "columns": detail.describe(opened.index, found.event),
        "raw": detail.raw_lines(opened.index, found),
        "path": chain.describe_path(opened.index, found.launches),
        "record": detail.name_record(opened.index, found.event),
    }
    return jsonify(_chain_json(found) | rest)


def _apart(opened: Opened) -> Response:
    """Answer on what a HIP call spent its time, in words; null if nothing of it is known."""
    found = summarize_slow_calls(opened.index.capture.table, _asked_event(opened))
    told = found.filter(pl.col("rest_ns") < pl.col("dur_ns"))["summary"]
    return jsonify({"told": told[0] if len(told) else None})


def _found(opened: Opened) -> chain.Chain:
    found = chain.find_chain(opened.index, _asked_event(opened))
    if found is None:
        abort(404, "no such event")
    return found


def _chain_json(found: chain.Chain) -> dict[str, Any]:
    stages = [{k: v for k, v in s.items() if k != "where"} for s in found.stages]
    return {
        "event": found.event, "root": found.root, "stages": stages, "edges": found.edges,
        "truncated": found.truncated,
    }  # fmt: skip


def _search(opened: Opened) -> Response:
    # Not `at`: that is the anchor of a pair, and another anchor is another capture to open.
    origin = _ask_number("from", -1, _MAX_NS, -1)
    return jsonify(opened.finder.find(_ask_text("q"), origin, request.args.get("back") != "1"))


def _ticks(opened: Opened) -> Response:
    width = _ask_number("w", 1, _MAX_WIDTH_PX)
    return jsonify(opened.finder.ticks(_ask_text("q"), *_ask_time_range(), width))


def _filter(opened: Opened) -> Response:
    pyramid = _asked_pyramid(opened)
    within = _ask_time_range() if "t0" in request.args else (None, None)
    return jsonify({"lanes": filters.count_lanes(pyramid, *within), "total": len(pyramid.finest)})


def _list(opened: Opened) -> Response:
    """Answer what a lane shows of a range, as a table."""
    lane = _ask_number("lane", 0, len(opened.index.views.lanes) - 1)
    pyramid, (t0, t1) = _asked_pyramid(opened), _ask_time_range()
    rows = filters.list_records(opened.index, pyramid, lane, t0, t1, _MAX_LISTED)
    total = filters.count_lanes(pyramid, t0, t1)[lane]
    return _json(subject_pages.show_rows(opened.index.views.lanes[lane].label, rows, max(total, rows.height)))


def _count(opened: Opened) -> Response:
    lanes = _ask_lanes(len(opened.index.views.lanes))
    return jsonify(filters.count_range(opened.index, _asked_pyramid(opened), *_ask_time_range(), lanes))


def _step(opened: Opened) -> Response:
    kind = _ask_text("kind")
    if kind not in detail.KINDS:
        abort(400, f"kind is one of {', '.join(detail.KINDS)}")
    event = _asked_event(opened)
    found = detail.step(opened.index, event, kind, request.args.get("back") == "1")
    return jsonify({"event": found, "missing": found is None and detail.has_none(opened.index, event, kind)})


def _same(opened: Opened) -> Response:
    file, offset = _ask_text("file", _MAX_PATH_CHARS), _ask_number("offset", 0, _MAX_NS)
    layer, name = _ask_text("layer"), _ask_text("name", _MAX_PATH_CHARS)
    return jsonify({"event": detail.find_record(opened.index, file, offset, layer, name)})


def _brief(opened: Opened) -> Response:
    """Answer what the pointer is on, exactly: an event, or the value of a counter at a time."""
    if "event" in request.args:
        return jsonify(detail.describe_briefly(opened.index, _asked_event(opened)))
    lane = _ask_number("lane", 0, len(opened.index.views.lanes) - 1)
    return jsonify(detail.value_at(opened.index, lane, _ask_number("t", -_MAX_NS, _MAX_NS)))


def _save_notes(opened: Opened) -> Any:
    if (request.content_length or 0) > ids.MAX_NOTES_BYTES or not request.is_json:
        abort(400, "notes come as JSON, and not too many")
    try:
        notes.save_notes(opened.index, request.get_json(silent=True))
    except RecursionError:
        abort(400, "these notes are nested too deeply")
    except ValueError as problem:
        abort(400, str(problem))
    except OSError as problem:
        abort(409, f"this capture cannot be written ({problem.strerror or problem}); the notes stay in the address")
    return jsonify({"saved": True})


_ROWS_AT_ONCE = 50_000


def _page(library: Library, reports: subject_pages.Reports) -> Response:
    name = _ask_text("name")
    if name == subject_pages.COMPARE:
        return _json(_comparison(library))
    if name == subject_pages.SQL:
        return _json({"title": "SQL", "examples": sql.list_examples(_asked(library)), "sections": [], "charts": []})
    if name not in subject_pages.PAGES:
        abort(404, "no such page")
    return _json(subject_pages.show_page(name, _asked(library), reports))


def _table(library: Library, reports: subject_pages.Reports) -> Response:
    """Answer all rows of a section of the report, or of the comparison with a second capture, as CSV."""
    key, opened, second = _ask_text("key"), _asked(library), _ask_text("with")
    if second:
        sections = list(subject_pages.compare_two(opened, _open_one(library, second)).sections)
    elif key in {key for page in subject_pages.PAGES.values() for key in page.sections}:
        sections = reports.get(opened).sections([key])
    else:
        abort(404, "no such table")
    section = next((one for one in sections if one.key == key), None)
    if section is None:
        abort(404, "this capture has no such table")
    return _saved_as(_as_csv(section.frame), opened, f"{key}.csv")


def _as_csv(frame: pl.DataFrame) -> Response:
    rows = addresses_as_text(frame)
    lists = [pl.col(c).cast(pl.List(pl.String)).list.join(" ") for c, t in rows.schema.items() if t == pl.List]
    rows = rows.with_columns(lists)
    rows = rows.with_columns(_harmless(c) for c, t in rows.schema.items() if t == pl.String)
    return Response(rows.write_csv(), mimetype="text/csv")


def _sql(opened: Opened) -> Response:
    """Answer an SQL query: its rows as a table of the page, or all of them as CSV."""
    text = _ask_text("q", _MAX_SQL_CHARS)
    rows = sql.ask_sql(opened.index.capture.path, text)
    if _ask_text("form") == "csv":
        return _saved_as(_as_csv(rows), opened, "csv")
    return _json(subject_pages.show_rows("Rows of the query", rows, rows.height, opened))


def _comparison(library: Library) -> dict[str, Any]:
    """Return how the second capture (`with`, else the other one of the page) differs from the first.

    A second one that cannot be opened is named as `problem`: another one can still be chosen.
    """
    first = _wanted(library)
    rest = [n for n in library.names() if n != first.name]
    second = _ask_text("with") or first.other or next(iter(rest), "")
    if second not in rest:
        abort(404, "no such second capture")
    shown = _open_one(library, first.name)
    choice = {"second": second, "rest": rest}
    try:
        other = library.get(Wanted(second))
    except TracecorrError as problem:
        return subject_pages.refuse_comparison(first.name, second, problem) | choice
    return subject_pages.show_comparison(shown, other) | choice


def _open_one(library: Library, name: str) -> Opened:
    try:
        return library.get(Wanted(name))
    except KeyError:
        abort(404, "no such capture")


def _json(data: Any) -> Response:
    return Response(PlotlyJSONEncoder().encode(data), mimetype="application/json")


def _export(opened: Opened) -> Response:
    form = _ask_text("form")
    if form not in ("csv", "perfetto"):
        abort(400, "form is csv or perfetto")
    t0, t1 = _ask_time_range()
    if form == "perfetto":
        return _perfetto(opened, t0, t1)
    lanes = _ask_lanes(len(opened.index.views.lanes))
    rows = _events_between(opened, t0, t1, lanes)
    answer = Response(_rows_as_csv(opened, rows), mimetype="text/csv")
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
    pyramid = _asked_pyramid(opened)
    found = [np.zeros(0, np.int32)]
    for lane in (n for n in lanes if not opened.index.views.lanes[n].is_counter):
        for track in range(int(pyramid.first_track[lane]), int(pyramid.first_track[lane + 1])):
            lo, hi = pyramid.levels[0].between(track, t0, t1)
            inside = (pyramid.finest.start[lo:hi] <= t1) & (pyramid.finest.end[lo:hi] >= t0)
            inside &= (pyramid.finest.style[lo:hi] & levels.INFERRED) == 0
            found.append(pyramid.finest.event[lo:hi][inside])
    distinct = levels.distinct_events(np.concatenate(found), opened.index.views.events)
    return pl.Series("event", distinct, pl.Int64)


def _rows_as_csv(opened: Opened, wanted_events: pl.Series) -> Iterator[str]:
    """Yield the rows of some events as CSV: the columns of `events`, their node or side, the time since the start."""
    table = opened.index.capture.table_by_node("events")
    start = (pl.col("ts_ns") - opened.index.t0_ns).alias("start_ns")
    rest = [tell_own_times(opened.index.capture), pl.exclude("event", "ts_ns")]
    for first in range(0, max(1, len(wanted_events)), _ROWS_AT_ONCE):
        part = wanted_events[first : first + _ROWS_AT_ONCE]
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
