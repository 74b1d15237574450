"""The plain routes behind the canvas: meta, spans, chain, event. Every parameter is bounded."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from flask import Flask, Response, abort, jsonify, request

from tracecorr.app import ask, chain, detail, ids, wire
from tracecorr.app.filters import parse_filter
from tracecorr.app.library import Library, Opened, Wanted
from tracecorr.app.pages import COMPARE, PAGES
from tracecorr.app.pair import ANCHORS
from tracecorr.app.path import describe_path
from tracecorr.app.records import name_record
from tracecorr.timeline import levels

Answer = Callable[[Opened], Any]


def wanted(library: Library) -> Wanted:
    """Return what the request names: a capture (the first one when it names none), or two put together."""
    name, other = request.args.get("capture") or next(iter(library.names()), ""), ask.text("other")
    anchor = ask.text("at") or "start"
    if anchor not in ANCHORS:
        abort(400, f"captures are put together at {', '.join(ANCHORS)}")
    return Wanted(name, other, anchor) if other else Wanted(name)


def asked(library: Library) -> Opened:
    """Return the capture or the pair that the request names."""
    edition = ask.number("edition", 0, ask.MAX_NS, 0)  # from 1 on
    try:
        return library.get(wanted(library), edition or None)
    except KeyError as missing:
        abort(404, f"no such capture: {missing.args[0]}")
    except ValueError as problem:
        abort(400, str(problem))


def asked_pyramid(opened: Opened) -> levels.Pyramid:
    """Return the pyramid of the request's filter, the whole one when it has none."""
    try:
        chosen = parse_filter(ask.text("f", ids.MAX_FILTER_CHARS))
    except (ValueError, RecursionError):
        abort(400, "this is no filter")
    return opened.index.views.pyramid if chosen is None else opened.filters.pyramid(chosen)


def asked_event(opened: Opened) -> int:
    """Return the event that the request names."""
    return ask.number("event", 0, opened.index.views.events - 1)


def add_routes(server: Flask, library: Library) -> None:
    """Register the routes on the page's server."""

    def add(path: str, answer: Answer) -> None:
        server.add_url_rule(path, path, lambda: answer(asked(library)))

    server.add_url_rule(ids.CAPTURES, "captures", lambda: jsonify(library.names()))
    server.add_url_rule(ids.META, "meta", lambda: _meta(library))
    server.add_url_rule(ids.LIVE, "live", lambda: jsonify({"readings": library.follow(wanted(library))}))
    add(ids.SPANS, _spans)
    add(ids.CHAIN, lambda opened: jsonify(_chain_json(_found(opened))))
    add(ids.EVENT, _event)


def _meta(library: Library) -> Response:
    """Answer 202 with what goes on while the capture is being opened."""
    try:
        goes_on = library.state(wanted(library))
    except KeyError as missing:
        abort(404, f"no such capture: {missing.args[0]}")
    if goes_on is not None:
        return Response(goes_on, 202, mimetype="text/plain")
    opened = asked(library)
    more = {"captures": library.names(), "shown": opened.name, "pages": _pages(library)}
    return jsonify(opened.index.meta() | more | {"readings": opened.readings, "edition": opened.edition})


def _pages(library: Library) -> list[list[str]]:
    """Return key and title of each page; a comparison needs a second capture."""
    if request.args.get("other"):
        return [[COMPARE, "Compare"]]
    found = [[name, page.title] for name, page in PAGES.items()]
    return [*found, [COMPARE, "Compare"]] if len(library.names()) > 1 else found


def _spans(opened: Opened) -> Response:
    begun = time.perf_counter()
    views = opened.index.views
    t0, t1 = ask.time_range()
    width = ask.number("w", 1, ids.MAX_WIDTH_PX)
    records = asked_pyramid(opened).query(t0, t1, width, ask.lanes(len(views.lanes)))
    tint = opened.tints.get(ask.text("tint"))
    answer = Response(wire.encode(records, views, t0, t1, tint), mimetype="application/octet-stream")
    answer.headers["Cache-Control"] = "no-store"
    answer.headers["Server-Timing"] = f"query;dur={(time.perf_counter() - begun) * 1e3:.2f}"
    return answer


def _event(opened: Opened) -> Response:
    found = _found(opened)
    rest = {
        "columns": detail.describe(opened.index, found.event),
        "raw": detail.raw_lines(opened.index, found),
        "path": describe_path(opened.index, found.launches),
        "record": name_record(opened.index, found.event),
    }
    return jsonify(_chain_json(found) | rest)


def _found(opened: Opened) -> chain.Chain:
    found = chain.find_chain(opened.index, asked_event(opened))
    if found is None:
        abort(404, "no such event")
    return found


def _chain_json(found: chain.Chain) -> dict[str, Any]:
    stages = [{k: v for k, v in s.items() if k != "where"} for s in found.stages]
    return {
        "event": found.event, "root": found.root, "stages": stages, "edges": found.edges,
        "truncated": found.truncated,
    }  # fmt: skip
