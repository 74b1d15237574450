"""What is wrong with a `capture.json` that is JSON but was changed or damaged."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# What every entry of a list must have.
_ENTRIES: dict[str, dict[str, type]] = {
    "files": {"file": int, "path": str, "source": str, "form": str, "size": int},
    "processes": {"pid": int},
    "threads": {"tid": int},
    "losses": {"source": str, "reason": str},
    "nodes": {"node": str, "used": dict},
    "gpus": {},
}
# Whole numbers that an entry may have. The kernel gives no robust list of a thread that just ended.
_NUMBERS = {
    "processes": ("namespace_pid", "seen_ns"), "threads": ("robust_list",), "losses": ("records", "from_ns", "to_ns"),
}  # fmt: skip
_OBJECTS = (
    "recorder", "host", "wanted", "plan", "environment", "start", "stop", "timens_offsets", "devices", "event_cost",
)  # fmt: skip
_TEXTS = ("warnings", "import_warnings", "problems", "command")
# Keys of tables have 64 bits at most.
_MOST = 1 << 63


def describe_damage(info: Mapping[str, Any]) -> str:
    """Return what in the contents of `capture.json` is not what every capture has there, empty where all is.

    >>> describe_damage({"files": [{"file": 0, "path": "raw/a"}]})
    'files[0] has no source'
    """
    if "files" not in info and info.get("state") != "recording":
        return "it names no files"
    for name in (*_ENTRIES, *_TEXTS):
        if not isinstance(info.get(name) or [], list):
            return f"{name} is no list"
    for name in _OBJECTS:
        if not isinstance(info.get(name) or {}, dict):
            return f"{name} is no object"
    for name, needed in _ENTRIES.items():
        for number, entry in enumerate(info.get(name) or []):
            if not isinstance(entry, dict):
                return f"{name}[{number}] is no object"
            given = {key: int for key in _NUMBERS.get(name, ()) if entry.get(key) is not None}
            for key, kind in (needed | given).items():
                if not _is(entry.get(key), kind):
                    state = "no" if entry.get(key) is None else "a wrong"
                    return f"{name}[{number}] has {state} {key}"
    for clock, offset in (info.get("timens_offsets") or {}).items():
        # Signed: a namespace may be behind the host.
        if type(offset) is not int or abs(offset) >= _MOST:
            return f"timens_offsets has a wrong {clock}"
    wrong = (name for name in _TEXTS if not all(isinstance(text, str) for text in info.get(name) or []))
    return next((f"{name} holds what is no text" for name in wrong), "")


def _is(value: object, kind: type) -> bool:
    return isinstance(value, kind) and (not isinstance(value, int) or 0 <= value < _MOST)
