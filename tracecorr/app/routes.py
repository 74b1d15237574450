"""The plain routes behind the canvas: meta, spans, chain, event, search. Every parameter is bounded."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from typing import Any

from flask import Flask, Response, abort, jsonify, request

from tracecorr.app import chain, detail, ids, index, wire
from tracecorr.app.find import Finder
from tracecorr.app.source import CaptureLike

_MAX_NS = 1 << 62


class Library:
    """Hold the captures of the page; each is indexed when it is first asked for."""

    def __init__(self, captures: Mapping[str, CaptureLike]) -> None:
        """Serve `captures`, by the name under which the page selects them."""
        self.captures = captures
        self._ready: dict[str, tuple[index.CaptureIndex, Finder]] = {}
        self._lock = threading.Lock()

    def get(self, name: str) -> tuple[index.CaptureIndex, Finder]:
        """Return index and finder of a capture.

        Raises:
            KeyError: there is no such capture.
        """
        with self._lock:
            if name not in self._ready:
                built = index.build(self.captures[name])
                self._ready[name] = (built, Finder(built))
            return self._ready[name]


def add_routes(server: Flask, library: Library) -> None:
    """Register the routes on the page's server."""
    server.add_url_rule(ids.META, "meta", lambda: _meta(library))
    server.add_url_rule(ids.SPANS, "spans", lambda: _spans(library))
    server.add_url_rule(ids.CHAIN, "chain", lambda: _chain(library))
    server.add_url_rule(ids.EVENT, "event", lambda: _event(library))
    server.add_url_rule(ids.SEARCH, "search", lambda: _search(library))


def _meta(library: Library) -> Response:
    capture, _ = _asked(library)
    return jsonify(capture.meta() | {"captures": list(library.captures)})


def _spans(library: Library) -> Response:
    begun = time.perf_counter()
    capture, _ = _asked(library)
    t0, t1 = _number("t0", -_MAX_NS, _MAX_NS), _number("t1", -_MAX_NS, _MAX_NS)
    width = _number("w", 1, ids.MAX_WIDTH_PX)
    if t1 <= t0:
        abort(400, "t1 must be after t0")
    views = capture.views
    records = views.pyramid.query(t0, t1, width, _lanes(len(views.lanes)))
    answer = Response(wire.encode(records, views, t0, t1), mimetype="application/octet-stream")
    answer.headers["Cache-Control"] = "no-store"
    answer.headers["Server-Timing"] = f"query;dur={(time.perf_counter() - begun) * 1e3:.2f}"
    return answer


def _chain(library: Library) -> Response:
    capture, _ = _asked(library)
    return jsonify(_chain_json(_found(capture)))


def _event(library: Library) -> Response:
    capture, _ = _asked(library)
    found = _found(capture)
    return jsonify(
        _chain_json(found) | {"columns": detail.describe(capture, found.event), "raw": detail.raw_lines(capture, found)}
    )


def _search(library: Library) -> Response:
    _, finder = _asked(library)
    text = request.args.get("q", "")
    if len(text) > ids.MAX_QUERY_CHARS:
        abort(400, "q is too long")
    return jsonify(finder.find(text, _number("at", -1, _MAX_NS, -1), request.args.get("back") != "1"))


def _asked(library: Library) -> tuple[index.CaptureIndex, Finder]:
    name = request.args.get("capture") or next(iter(library.captures), "")
    if name not in library.captures:
        abort(404, "no such capture")
    return library.get(name)


def _found(capture: index.CaptureIndex) -> chain.Chain:
    found = chain.find_chain(capture, _number("event", 0, capture.views.events - 1))
    if found is None:
        abort(404, "no such event")
    return found


def _chain_json(found: chain.Chain) -> dict[str, Any]:
    stages = [{k: v for k, v in s.items() if k != "where"} for s in found.stages]
    return {
        "event": found.event, "root": found.root, "stages": stages, "edges": found.edges,
        "truncated": found.truncated,
    }  # fmt: skip


def _number(name: str, low: int, high: int, default: int | None = None) -> int:
    text = request.args.get(name)
    if text is None and default is not None:
        return default
    try:
        value = int(text or "")
    except ValueError:
        abort(400, f"{name} must be a whole number")
    if len(text or "") > 24 or not low <= value <= high:
        abort(400, f"{name} is out of range")
    return value


def _lanes(known: int) -> list[int]:
    """Return the asked lanes of `lanes=0-4,7`; every lane number once, unknown ones refused."""
    text = request.args.get("lanes", "")
    if len(text) > ids.MAX_LANE_CHARS:
        abort(400, "lanes is too long")
    asked: set[int] = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        if not first.isdecimal() or (last and not last.isdecimal()) or len(part) > 16:
            abort(400, "lanes must look like 0-4,7")
        low, high = int(first), int(last or first)
        if high >= known or high < low:
            abort(400, "no such lane")
        asked.update(range(low, high + 1))
        if len(asked) > ids.MAX_LANES:
            abort(400, "too many lanes")
    return sorted(asked)
