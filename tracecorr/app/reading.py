"""The routes that help reading: search, filter, count, step, exact values, notes."""

from __future__ import annotations

from typing import Any

from flask import Flask, Response, abort, jsonify, request

from tracecorr.app import ask, ids, measure, notes, records, steps, values
from tracecorr.app.library import Library, Opened
from tracecorr.app.routes import Answer, asked, asked_event, asked_pyramid


def add_reading_routes(server: Flask, library: Library) -> None:
    """Register the routes on the page's server."""

    def add(path: str, answer: Answer, method: str = "GET") -> None:
        server.add_url_rule(path, f"{method} {path}", lambda: answer(asked(library)), methods=[method])

    add(ids.SEARCH, _search)
    add(ids.TICKS, _ticks)
    add(ids.FILTER, _filter)
    add(ids.COUNT, _count)
    add(ids.STEP, _step)
    add(ids.SAME, _same)
    add(ids.BRIEF, _brief)
    add(ids.NOTES, lambda opened: jsonify(notes.read_notes(opened.index)))
    add(ids.NOTES, _save_notes, "POST")


def _search(opened: Opened) -> Response:
    # Not `at`: that is the anchor of a pair, and another anchor is another capture to open.
    origin = ask.number("from", -1, ask.MAX_NS, -1)
    return jsonify(opened.finder.find(ask.text("q"), origin, request.args.get("back") != "1"))


def _ticks(opened: Opened) -> Response:
    width = ask.number("w", 1, ids.MAX_WIDTH_PX)
    return jsonify(opened.finder.ticks(ask.text("q"), *ask.time_range(), width))


def _filter(opened: Opened) -> Response:
    pyramid = asked_pyramid(opened)
    begin = pyramid.finest.begin[pyramid.first_track]
    return jsonify({"lanes": (begin[1:] - begin[:-1]).tolist(), "total": len(pyramid.finest)})


def _count(opened: Opened) -> Response:
    lanes = ask.lanes(len(opened.index.views.lanes))
    return jsonify(measure.count_range(opened.index, asked_pyramid(opened), *ask.time_range(), lanes))


def _step(opened: Opened) -> Response:
    kind = ask.text("kind")
    if kind not in steps.KINDS:
        abort(400, f"kind is one of {', '.join(steps.KINDS)}")
    event = asked_event(opened)
    found = steps.step(opened.index, event, kind, request.args.get("back") == "1")
    return jsonify({"event": found, "lacks": found is None and steps.lacks(opened.index, event, kind)})


def _same(opened: Opened) -> Response:
    file, offset = ask.text("file", ids.MAX_PATH_CHARS), ask.number("offset", 0, ask.MAX_NS)
    layer, name = ask.text("layer"), ask.text("name", ids.MAX_PATH_CHARS)
    return jsonify({"event": records.find_record(opened.index, file, offset, layer, name)})


def _brief(opened: Opened) -> Response:
    """Answer what the pointer is on, exactly: an event, or the value of a counter at a time."""
    if "event" in request.args:
        return jsonify(values.describe_briefly(opened.index, asked_event(opened)))
    lane = ask.number("lane", 0, len(opened.index.views.lanes) - 1)
    return jsonify(values.value_at(opened.index, lane, ask.number("t", -ask.MAX_NS, ask.MAX_NS)))


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
