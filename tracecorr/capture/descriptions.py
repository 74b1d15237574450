"""What makes binary pages readable later: event formats, header, names, probe definitions, counters."""

from __future__ import annotations

import json
from pathlib import Path

from tracecorr.capture.folder import RecordingFolder
from tracecorr.capture.tracefs import PROBE_FILES


def save_formats(folder: RecordingFolder, name: str, instance: Path, group: str) -> None:
    """Store the formats of all enabled events of an instance, and the definitions of the own probes.

    Args:
        folder: the capture folder.
        name: name of the instance there.
        instance: its tracefs folder.
        group: own probe group; probes of others are not stored.
    """
    root = instance.parents[1]
    target = f"raw/ftrace/{name}"
    enabled = [line.replace(":", "/", 1) for line in _lines(instance / "set_event")]
    built_in = [f"ftrace/{path.parent.name}" for path in (root / "events/ftrace").glob("*/format")]
    for event in sorted({*enabled, *built_in}):
        text = _text(root / "events" / event / "format")
        if text:
            folder.write_once(f"{target}/events/{event}/format", text)
    for header in ("header_page", "header_event"):
        folder.write_once(f"{target}/{header}", _text(root / "events" / header))
    for file in PROBE_FILES:
        own = [line for line in _lines(root / file) if f":{group}/" in line]
        if own:
            folder.write_text(f"{target}/{file}", "".join(f"{line}\n" for line in own))


def save_symbols(folder: RecordingFolder, name: str, symbols: str) -> None:
    """Store the addresses of the traced functions of an instance: its records hold nothing else of them."""
    if symbols:
        folder.write_text(f"raw/ftrace/{name}/kallsyms", symbols)


def save_names(folder: RecordingFolder, name: str, instance: Path) -> None:
    """Store which thread had which name and process; the kernel forgets them, so this is called again and again."""
    root = instance.parents[1]
    for file in ("saved_cmdlines", "saved_tgids"):
        folder.write_text(f"raw/ftrace/{name}/{file}", _text(root / file))


def save_stats(folder: RecordingFolder, name: str, stats: dict[str, dict[str, str]]) -> None:
    """Store the counters of every CPU of an instance."""
    folder.write_text(f"raw/ftrace/{name}/stats.json", json.dumps(stats, indent=1))


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


def _lines(path: Path) -> list[str]:
    return _text(path).splitlines()
