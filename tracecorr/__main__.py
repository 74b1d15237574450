"""Run the command line: `python -m tracecorr`, and the program `tracecorr`."""

from __future__ import annotations

import sys


def main() -> int:
    """Run the command line and return its exit status; Ctrl-C shows no traceback, also while modules are loaded."""
    show_failure = sys.excepthook
    sys.excepthook = lambda kind, *rest: None if kind is KeyboardInterrupt else show_failure(kind, *rest)
    from tracecorr.cli import main as run

    return run()


if __name__ == "__main__":
    sys.exit(main())
