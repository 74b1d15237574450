"""What is wrong with a `capture.json` that is JSON but was changed or damaged."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

_Needed = Mapping[str, Mapping[str, type]]

# What every entry of a list must have.
_ENTRIES: _Needed = {
    "files": {"file": int, "path": str, "source": str, "form": str, "size": int},
    "processes": {"pid": int},
    "threads": {"tid": int},
    "losses": {"source": str, "reason": str},
    "nodes": {"node": str, "used": dict, "capture": str, "shift_ns": int, "placed_by": str},
    "gpus": {},
}
_PLAN: _Needed = {
    "instances": {"name": str, "clock": str, "follows_workload": bool, "events": list, "functions": list},
    "probes": {"name": str, "instance": str},
    "absent": {"what": str, "why": str},
    "late": {"library": str, "pid": int, "probes": list},
}
_INSTANCE: _Needed = {"events": {"system": str, "name": str}}
# What an entry may have besides. The kernel gives no robust list of a thread that just ended.
_OPTIONAL: _Needed = {
    "processes": {"namespace_pid": int, "seen_ns": int, "comm": str, "exe": str},
    "threads": {"robust_list": int},
    "losses": {"records": int, "from_ns": int, "to_ns": int, "path": str},
}
_COST = ("added_ns", "alone_ns", "recorded_ns")
# These are negative where one clock or node is behind another.
_SIGNED = frozenset({"shift_ns"})
_OBJECTS = (
    "recorder", "host", "wanted", "plan", "environment", "start", "stop", "timens_offsets", "devices", "event_cost",
    "overhead_ratios",
)  # fmt: skip
_COUNTS = ("events", "lost_events")
_TEXTS = ("warnings", "import_warnings", "problems", "command")
# Keys of tables have 64 bits at most.
_MOST = 1 << 63


def describe_damage(info: Mapping[str, Any]) -> str:
    """Return what in the contents of `capture.json` is not what every capture has there, empty where all is.

    >>> describe_damage({"files": [{"file": 0, "path": "raw/a"}]})
    'files[0] has no source'
    """
    return next(_list_damage(info), "")


def _list_damage(info: Mapping[str, Any]) -> Iterator[str]:
    """Yield what is wrong; whoever asks for more than the first may meet an error by it."""
    if "files" not in info and info.get("state") != "recording":
        yield "it names no files"
    yield from _list_other_kinds(info, _OBJECTS, dict, "object")
    yield from _list_other_kinds(info, (*_ENTRIES, *_TEXTS), list, "list")
    yield from _list_wrong_entries(info, _ENTRIES)
    yield from _list_in_plan(info.get("plan") or {}, "plan.")
    for number, node in enumerate(info.get("nodes") or []):
        yield from _list_other_kinds(node, ("plan",), dict, "object", f"nodes[{number}].")
        yield from _list_in_plan(node.get("plan") or {}, f"nodes[{number}].plan.")
    yield from _list_other_kinds(info.get("wanted") or {}, ("ranges",), list, "list", "wanted.")
    offsets, cost = info.get("timens_offsets") or {}, info.get("event_cost")
    yield from (f"timens_offsets has a wrong {key}" for key in offsets if not _is(offsets[key], int, signed=True))
    if isinstance(cost, dict):
        yield from (f"event_cost has no right {key}" for key in _COST if not _is(cost.get(key), int, signed=True))
    ratios = info.get("overhead_ratios") or {}
    yield from (f"overhead_ratios has a wrong {key}" for key in ratios if type(ratios[key]) not in (int, float))
    yield from (f"{name} is no number" for name in _COUNTS if not _is(info.get(name) or 0, int, signed=False))
    for name in _TEXTS:
        if not _are_texts(info.get(name) or []):
            yield f"{name} holds what is no text"


def _list_in_plan(plan: Mapping[str, Any], where: str) -> Iterator[str]:
    yield from _list_wrong_entries(plan, _PLAN, where)
    for number, instance in enumerate(plan.get("instances") or []):
        yield from _list_wrong_entries(instance, _INSTANCE, f"{where}instances[{number}].")
    for number, late in enumerate(plan.get("late") or []):
        if not _are_texts(late["probes"]):
            yield f"{where}late[{number}].probes holds what is no text"


def _list_other_kinds(
    holder: Mapping[str, Any], names: Iterable[str], kind: type, called: str, where: str = ""
) -> Iterator[str]:
    for name in names:
        if not isinstance(holder.get(name) or kind(), kind):
            yield f"{where}{name} is no {called}"


def _list_wrong_entries(holder: Mapping[str, Any], lists: _Needed, where: str = "") -> Iterator[str]:
    yield from _list_other_kinds(holder, lists, list, "list", where)
    for name, needed in lists.items():
        for number, entry in enumerate(holder.get(name) or []):
            if not isinstance(entry, dict):
                yield f"{where}{name}[{number}] is no object"
            given = {key: kind for key, kind in _OPTIONAL.get(name, {}).items() if entry.get(key) is not None}
            for key, kind in {**needed, **given}.items():
                if not _is(entry.get(key), kind, signed=key in _SIGNED):
                    yield f"{where}{name}[{number}] has {'no' if entry.get(key) is None else 'a wrong'} {key}"


def _is(value: object, kind: type, *, signed: bool) -> bool:
    if kind is not int:
        return isinstance(value, kind)
    return type(value) is int and (-_MOST if signed else 0) <= value < _MOST


def _are_texts(values: Iterable[object]) -> bool:
    return all(isinstance(value, str) for value in values)
