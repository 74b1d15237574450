"""What a shell completes behind TAB: captures, and words that an option takes; heavy modules only where asked."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from tracecorr.model.folder_names import SUFFIX
from tracecorr.model.kinds import LAYERS

# The shell's script asks by it what fits (`_PROGRAM_COMPLETE` of the parser), without any word behind the program.
VARIABLE = "_TRACECORR_COMPLETE"


def complete_captures(incomplete: str) -> list[str]:
    """Return the captures in the folder that is typed, or in the current one, whose names begin as it was typed.

    Where there are none the shell completes files, and so the way to another folder.
    """
    folder = incomplete.rpartition("/")[0] + "/" if "/" in incomplete else ""
    try:
        names = sorted(entry.name for entry in os.scandir(Path(folder or ".").expanduser()) if entry.is_dir())
    except OSError:
        return []
    return _begin_with(incomplete, (folder + name for name in names if name.endswith(SUFFIX)))


def complete_layers(incomplete: str) -> list[str]:
    """Return the layers that fit behind the last comma."""
    before, comma, last = incomplete.rpartition(",")
    return [f"{before}{comma}{layer}" for layer in _begin_with(last, LAYERS)]


def complete_event_sets(incomplete: str) -> list[str]:
    """Return the sets of kernel events that fit."""
    from tracecorr.capture.plan.plan import EVENT_SETS

    return _begin_with(incomplete, EVENT_SETS)


def complete_examples(incomplete: str) -> list[str]:
    """Return the example queries that fit."""
    from tracecorr.analyze.sql import EXAMPLES

    return _begin_with(incomplete, EXAMPLES)


def complete_verdicts(incomplete: str) -> list[str]:
    """Return the verdicts that fit."""
    from tracecorr.analyze.verdicts import CLAIMS

    return _begin_with(incomplete, (claim.name for claim in CLAIMS))


def _begin_with(incomplete: str, words: Iterable[str]) -> list[str]:
    return [word for word in words if word.startswith(incomplete)]
