"""What a path that is no capture folder is, so that the message can say what to do with it."""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path

from tracecorr.model.errors import CaptureError, quote_path

_MAKE = "make one with `tracecorr import`"
_MOST_NAMED = 5


def describe_absent(path: Path, captures: list[Path]) -> CaptureError:
    """Return the error for a path that is no capture folder.

    Args:
        path: what was named.
        captures: the capture folders in it, or beside it where it does not exist.

    """
    if path.is_file():
        hint = f"tracecorr import {quote_path(path)} tells how to make one of it"
        return CaptureError(f"{path} is a file and no capture folder", hint)
    if (path / "capture.json").exists():
        return CaptureError(f"{path / 'capture.json'} is damaged: it holds no whole description", _import_again(path))
    if path.is_dir():
        return CaptureError(f"{path} is no capture folder: its capture.json cannot be read", _name(captures))
    by_name = {name: capture for capture in captures for name in (capture.name, capture.stem)}
    alike = get_close_matches(path.name, by_name, n=1)
    hint = f"did you mean {by_name[alike[0]]}?" if alike else _name(captures)
    return CaptureError(f"there is no capture folder {path}", hint)


def _import_again(path: Path) -> str:
    """Return how a capture folder whose description is lost becomes one again: its raw files are whole."""
    raw = path / "raw"
    sources = (("--amd-log", "amd_log"), ("--ftrace", "ftrace"), ("--hqd", "hqd"), ("--rocprof", "rocprof"))
    words = [f"{option} {quote_path(raw / name)}/*" for option, name in sources if any((raw / name).glob("*"))]
    if not words:
        return _MAKE
    clock = raw / "clock.json"
    words += [f"--clock-samples {quote_path(clock)}"] if clock.is_file() else []
    return f"import its raw files again: tracecorr import {' '.join(words)} -o NEW"


def _name(captures: list[Path]) -> str:
    if not captures:
        return _MAKE
    named = ", ".join(str(path) for path in captures[:_MOST_NAMED])
    return f"captures there: {named}{', ...' if len(captures) > _MOST_NAMED else ''}"
