"""Run one benchmark: `python -m benchmarks SUBJECT [options]` with `scripts/` on the path."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

# Modules that hold what the subjects share.
HELPERS = ("measure", "big_log", "big_capture", "scenes", "recorded_clocks")


def subjects() -> list[str]:
    """Return the names of the benchmarks."""
    names = [path.stem for path in Path(__file__).parent.glob("[a-z]*.py")]
    return sorted(name for name in names if name not in HELPERS)


def main() -> int:
    """Run the benchmark that the first argument names; return the exit status."""
    if len(sys.argv) < 2 or sys.argv[1] not in subjects():
        print(f"usage: scripts/bench SUBJECT [options]\nsubjects: {', '.join(subjects())}", file=sys.stderr)
        return 2
    import_module(f"benchmarks.{sys.argv[1]}").main(sys.argv[2:])
    return 0


if __name__ == "__main__":
    sys.exit(main())
