"""What a worker does: it gets paths and places, and gives back where it wrote the rows."""

from __future__ import annotations

from pathlib import Path

from tracecorr.pipeline import correlate
from tracecorr.store.fleet import Member, write_member
from tracecorr.store.parts import StoredPart


def build_capture(capture: Path, ready: dict[int, list[StoredPart]]) -> list[str]:
    """Build the tables of a capture from what was read of its logs, and return the warnings."""
    return correlate(capture, ready=ready)


def write_node(stage: Path, member: Member) -> str:
    """Write the tables of a node into a dataset, and return its name."""
    write_member(stage, member)
    return member.node


def find_missing(paths: list[Path]) -> list[str]:
    """Return the paths that this process does not see."""
    return [str(path) for path in paths if not (path / "capture.json").is_file()]
