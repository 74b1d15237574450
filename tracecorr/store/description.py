"""Is a `capture.json` what its readers expect? One that is JSON but was changed or damaged is named with the place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

# Keys of tables have 64 bits at most.
_MOST = 1 << 63
_COUNT, _SIGNED, _NUMBER = "whole number >= 0", "whole number", "number"
_TEXTS = [str]
_INSTANCE = {
    "name": str, "clock": str, "follows_workload": bool, "events": [{"system": str, "name": str}],
    "functions": _TEXTS,
}  # fmt: skip
_PLAN = {
    "instances?": [_INSTANCE], "probes?": [{"name": str, "instance": str}], "absent?": [{"what": str, "why": str}],
    "late?": [{"library": str, "pid": _COUNT, "probes": _TEXTS}],
}  # fmt: skip
_CLOCKS = {"monotonic?": _SIGNED, "realtime?": _SIGNED}
# The kinds of all that is read: of a key with `?` it may be missing, or null.
_DESCRIPTION: Mapping[str, Any] = {
    "files?": [{"file": _COUNT, "path": str, "source": str, "form": str, "size": _COUNT}],
    "processes?": [
        {"pid": _COUNT, "namespace_pid?": _COUNT, "seen_ns?": _COUNT, "comm?": str, "exe?": str, "how?": str}
    ],
    "threads?": [{"tid": _COUNT, "pid?": _COUNT, "comm?": str, "robust_list?": _COUNT}],
    "losses?": [
        {"source": str, "reason": str, "records?": _COUNT, "from_ns?": _COUNT, "to_ns?": _COUNT, "path?": str}
    ],
    "nodes?": [
        {"node": str, "used": {}, "capture": str, "shift_ns": _SIGNED, "placed_by": str, "plan?": _PLAN, "state?": str}
    ],
    "gpus?": [{}], "plan?": _PLAN, "wanted?": {"ranges?": _TEXTS}, "recorder?": {}, "host?": {}, "environment?": {},
    "start?": _CLOCKS, "stop?": _CLOCKS, "devices?": {},
    "timens_offsets?": {"monotonic?": _SIGNED, "boottime?": _SIGNED},
    "event_cost?": {"added_ns": _SIGNED, "alone_ns": _SIGNED, "recorded_ns": _SIGNED},
    "overhead_ratios?": {"*": _NUMBER}, "events?": _COUNT, "lost_events?": _COUNT, "unwritten_events?": _COUNT,
    "sched_policy?": _COUNT, "ftrace_clock?": str, "state?": str, "failure?": str, "end_reason?": str,
    "start_reason?": str, "user?": str, "cwd?": str, "where?": str, "warnings?": _TEXTS, "import_warnings?": _TEXTS,
    "problems?": _TEXTS, "command?": _TEXTS,
}  # fmt: skip


def describe_damage(info: Mapping[str, Any]) -> str:
    """Return what in the contents of `capture.json` is not what every capture has there; empty if all is.

    >>> describe_damage({"files": [{"file": 0, "path": "raw/a"}]})
    'files[0].source is missing'
    """
    if not isinstance(info, dict) or ("files" not in info and info.get("state") != "recording"):
        return "it names no files"
    return next(_compare(info, _DESCRIPTION, ""), "")


def _compare(value: Any, kind: Any, where: str) -> Iterator[str]:
    """Yield what in a value is of another kind; who asks for more than the first may meet an error by it."""
    if isinstance(kind, list):
        if not isinstance(value, list):
            yield f"{where} is no list"
        for number, entry in enumerate(value):
            yield from _compare(entry, kind[0], f"{where}[{number}]")
    elif isinstance(kind, Mapping):
        if not isinstance(value, dict):
            yield f"{where} is no object"
        yield from _compare_keys(value, kind, where)
    elif not _is(value, kind):
        yield f"{where} is no {'text' if kind is str else 'truth value' if kind is bool else kind}"


def _compare_keys(value: dict[str, Any], kind: Mapping[str, Any], where: str) -> Iterator[str]:
    for name, wanted in kind.items():
        for key in value if name == "*" else [name.removesuffix("?")]:
            place = f"{where}.{key}" if where else key
            if value.get(key) is not None:
                yield from _compare(value[key], wanted, place)
            elif not name.endswith("?"):
                yield f"{place} is missing"


def _is(value: object, kind: object) -> bool:
    if isinstance(kind, type):
        return isinstance(value, kind)
    if kind == _NUMBER:
        return type(value) in (int, float)
    return type(value) is int and (0 if kind == _COUNT else -_MOST) <= value < _MOST
