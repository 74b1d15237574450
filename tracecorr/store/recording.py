"""The raw files of a recording, found by their places in the folder: also after a capture that was killed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from tracecorr.store.raw import describe_file

# First match wins: path inside the folder, source, form.
_PLACES = (
    (re.compile(r"raw/amd_log/[^/]+"), "amd_log", "log"),
    (re.compile(r"raw/ftrace/[^/]+/cpu\d+\.bin"), "ftrace", "pages"),
    (re.compile(r"raw/ftrace/[^/]+/.+"), "ftrace", "description"),
    (re.compile(r"raw/hqd/[^/]+"), "hqd", "dump"),
    (re.compile(r"raw/sysfs\.jsonl"), "sysfs", "polls"),
    (re.compile(r"raw/clock\.json"), "tracecorr", "clock_samples"),
)


def list_raw_files(root: Path) -> list[dict[str, Any]]:
    """Return the entries `files` of capture.json for what lies in `raw/`, logs first.

    Args:
        root: the capture folder.
    """
    entries: list[dict[str, Any]] = []
    found = [path for path in (root / "raw").rglob("*") if path.is_file() and not path.is_symlink()]
    for rank, (place, source, form) in enumerate(_PLACES):
        for path in sorted(found):
            name = str(path.relative_to(root))
            if path.name.startswith(".") or _rank(name) != rank or not place.fullmatch(name):
                continue
            size, checksum = describe_file(path)
            entries.append({
                "file": len(entries), "path": name, "source": source, "form": form, "size": size, "sha256": checksum,
            })  # fmt: skip
    return entries


def _rank(name: str) -> int:
    return next((rank for rank, (place, _, _) in enumerate(_PLACES) if place.fullmatch(name)), len(_PLACES))
