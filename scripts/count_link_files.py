"""Count the files of tracecorr of which functions are called while the tables of a capture are linked.

Run: scripts/count_link_files LOG [TRACE]. It prints the files and how many there are.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from types import FrameType
from typing import Any

from tracecorr import pipeline
from tracecorr.link.tables import link_tables
from tracecorr.pipeline import correlate, import_files

_PACKAGE = Path(pipeline.__file__).parent


def count_files(log: Path, trace: Path | None) -> list[str]:
    """Return the files of which functions are called in the link stage of an import.

    Args:
        log: HIP log.
        trace: kernel trace; None without one.
    """
    called: set[str] = set()

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            called.add(frame.f_code.co_filename)

    def watch(*args: Any) -> Any:
        sys.setprofile(note)
        try:
            return link_tables(*args)
        finally:
            sys.setprofile(None)

    pipeline.link_tables = watch
    with tempfile.TemporaryDirectory() as folder:
        import_files(Path(folder) / "x.tracecorr", [log], [trace] if trace else [], clock="mono" if trace else None)
        correlate(Path(folder) / "x.tracecorr")
    inside = (Path(name) for name in called if Path(name).is_relative_to(_PACKAGE))
    return sorted(str(path.relative_to(_PACKAGE.parent)) for path in inside)


def main() -> None:
    """Print the files of one import."""
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    files = count_files(Path(sys.argv[1]), Path(sys.argv[2]) if len(sys.argv) > 2 else None)
    print("\n".join(files))
    print(f"{len(files)} files")


if __name__ == "__main__":
    main()
