"""Reading the parameters of a request: every one is bounded, what is wrong is refused in one line."""

from __future__ import annotations

import re

from flask import abort, request

from tracecorr.app import ids

MAX_NS = 1 << 62


def number(name: str, low: int, high: int, default: int | None = None) -> int:
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


def time_range() -> tuple[int, int]:
    """Return `t0` and `t1` of the query, ns since the capture start, t1 after t0."""
    t0, t1 = number("t0", -MAX_NS, MAX_NS), number("t1", -MAX_NS, MAX_NS)
    if t1 <= t0:
        abort(400, "t1 must be after t0")
    return t0, t1


def text(name: str, most: int = ids.MAX_QUERY_CHARS) -> str:
    """Return a text of the query, empty when it is not there; refuse one that is too long."""
    value = request.args.get(name, "")
    if len(value) > most:
        abort(400, f"{name} is too long")
    return value


def lanes(known: int) -> list[int]:
    """Return the asked lanes of `lanes=0-4,7`; every lane number once, unknown ones refused."""
    asked: set[int] = set()
    for part in filter(None, text("lanes", ids.MAX_LANE_CHARS).split(",")):
        first, _, last = part.partition("-")
        if not re.fullmatch(r"[0-9]{1,8}(-[0-9]{1,8})?", part, re.ASCII):
            abort(400, "lanes must look like 0-4,7")
        low, high = int(first), int(last or first)
        if high >= known or high < low:
            abort(400, "no such lane")
        asked.update(range(low, high + 1))
        if len(asked) > ids.MAX_LANES:
            abort(400, "too many lanes")
    return sorted(asked)
